// SPDX-License-Identifier: Apache-2.0
/* Logins by the users file, by a certificate and as an anonymous user; the rights they get, and the
 * time a refusal takes; and the switch to a system user. tests/e2e/login-pam.sh tests PAM
 * itself. */
#include "crypto/crypto.h"
#include "server/auth/auth.h"

#include <errno.h>
#include <pwd.h>
#include <grp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PIN "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
#define PIN2 "SHA256:BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBA"

static char users[] = "/tmp/test-auth-users.XXXXXX", certs[] = "/tmp/test-auth-certs.XXXXXX";
static char own_name[64];

static void write_to(char *path, const char *text)
{
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static int make_files(void **state)
{
	char *hash = password_hash("s3cret"), text[2048];
	struct passwd *pw = getpwuid(geteuid());

	snprintf(own_name, sizeof(own_name), "%s", pw ? pw->pw_name : "root");
	snprintf(text, sizeof(text), "alice:%s:/srv/a:/in:nodelete\nbob:%s:::rw\nme:%s:::rw:%s\n"
		 "lost:%s:::rw:no-such-user-here\ncarol:*:/c::ro\n", hash, hash, hash, own_name,
		 hash);
	free(hash);
	write_to(users, text);
	write_to(certs, PIN " alice\n" PIN " carol\n" PIN " nobody-here\nsubject \"CN=b\" bob\n"
		 PIN2 " anonymous\n");
	log_init("test", LOG_LV_ERROR, false);
	return 0;
}

static int remove_files(void **state)
{
	unlink(users);
	unlink(certs);
	return 0;
}

static char nowhere[] = "/nonexistent", srv[] = "/srv";

static const struct srv_options all = {
	.users = users, .certificates = certs, .root = srv, .anonymous = RIGHTS_RO,
	.allow_root = true,
};

/* Returns the result of auth_check(). Every refusal of a password takes AUTH_REFUSAL_MS or longer,
 * for any user name. */
static int ask(const struct srv_options *o, const struct auth_ask *q, struct auth_answer *a,
	       struct err *e)
{
	uint64_t began = now_ns(), ms;
	int rc;

	memset(e, 0, sizeof(*e));
	rc = auth_check(o, q, a, e);
	if (rc == -EACCES && q->password)
		auth_fill_up(began);
	ms = (now_ns() - began) / 1000000;
	assert_int_equal(!!*e->text, rc < 0);
	if (rc == -EACCES && q->password)
		assert_true(ms >= AUTH_REFUSAL_MS);
	if (rc < 0)
		assert_true(!*a->name && !*a->root && !*a->home && !*a->as.name && !a->as.groups);
	return rc;
}

static void test_passwords(void **state)
{
	static const struct {
		const char *user, *password;
		int rc;
		const char *name, *root, *home;
		enum rights rights;
		bool system;
	} table[] = {
		{ "alice", "s3cret", 0, "alice", "/srv/a", "/in", RIGHTS_NODELETE, false },
		{ "bob", "s3cret", 0, "bob", "/srv", "/", RIGHTS_RW, false },
		{ "me", "s3cret", 0, "me", "/srv", "/", RIGHTS_RW, true },
		{ "anonymous", "x", 0, "anonymous", "/srv", "/", RIGHTS_RO, false },
		{ "ftp", "", 0, "anonymous", "/srv", "/", RIGHTS_RO, false },
		{ .user = "alice", .password = "S3cret", .rc = -EACCES },
		{ .user = "alice", .password = "", .rc = -EACCES },
		{ .user = "nobody-here", .password = "s3cret", .rc = -EACCES },
		{ .user = "", .password = "", .rc = -EACCES },
		{ .user = "carol", .password = "*", .rc = -EACCES },
		{ .user = "lost", .password = "s3cret", .rc = -ENOENT },
		{ .user = "lost", .password = "wrong", .rc = -EACCES },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct auth_ask q = { .user = table[i].user, .password = table[i].password,
				      .pin = PIN };
		struct auth_answer a;
		struct err e;

		if (ask(&all, &q, &a, &e) != table[i].rc)
			fail_msg("%s: %d %s", table[i].user, table[i].rc, e.text);
		if (table[i].rc < 0)
			continue;
		assert_string_equal(a.name, table[i].name);
		assert_string_equal(a.root, table[i].root);
		assert_string_equal(a.home, table[i].home);
		assert_int_equal(a.rights, table[i].rights);
		assert_int_equal(a.is_system, table[i].system);
		if (a.is_system) {
			assert_string_equal(a.as.name, own_name);
			assert_int_equal(a.as.uid, geteuid());
			assert_true(a.as.ngroups > 0);
		}
		auth_answer_clear(&a);
	}
}

static void test_settings(void **state)
{
	struct auth_ask q = { .user = "anonymous", .password = "x" };
	struct srv_options o = all;
	struct auth_answer a;
	struct err e;

	o.anonymous = RIGHTS_RW;
	assert_int_equal(ask(&o, &q, &a, &e), 0);
	assert_int_equal(a.method, AUTH_ANONYMOUS);
	assert_int_equal(a.rights, RIGHTS_RW);
	auth_answer_clear(&a);
	o.anonymous = RIGHTS_NONE;
	assert_int_equal(ask(&o, &q, &a, &e), -EACCES);

	/* A user without a system account needs a root directory. */
	o.root = NULL;
	q = (struct auth_ask){ .user = "bob", .password = "s3cret" };
	assert_int_equal(ask(&o, &q, &a, &e), -ENOENT);
	assert_non_null(strstr(e.text, "--root"));
	q.user = "me";
	assert_int_equal(ask(&o, &q, &a, &e), 0);
	assert_false(a.confined);
	auth_answer_clear(&a);
	o.allow_root = false;
	assert_int_equal(ask(&o, &q, &a, &e), geteuid() ? 0 : -EACCES);
	auth_answer_clear(&a);
	o.users = nowhere;
	assert_int_equal(ask(&o, &q, &a, &e), -ENOENT);
	o.users = NULL;
	assert_int_equal(ask(&o, &q, &a, &e), -EACCES);
}

static void test_certificates(void **state)
{
	static const struct { const char *pin, *subject, *user; int rc; } table[] = {
		{ PIN, NULL, "alice", 0 }, { PIN, NULL, "carol", 0 }, { PIN2, "CN=b", "bob", 0 },
		{ PIN2, NULL, "alice", -EACCES }, { PIN, NULL, "bob", -EACCES },
		{ PIN, "CN=x", "bob", -EACCES }, { NULL, "CN=b", "bob", -EACCES },
		{ NULL, NULL, "alice", -EACCES }, { PIN, NULL, "nobody-here", -EACCES },
		{ PIN, NULL, "", -EACCES }, { PIN2, NULL, "anonymous", -EACCES },
	};
	struct srv_options o = all;
	struct auth_ask q = { .user = "alice", .pin = PIN };
	struct auth_answer a;
	struct err e;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		q = (struct auth_ask){ .user = table[i].user, .pin = table[i].pin,
				       .subject = table[i].subject };
		if (ask(&all, &q, &a, &e) != table[i].rc)
			fail_msg("%zu: %s", i, e.text);
		if (table[i].rc < 0)
			continue;
		assert_string_equal(a.name, table[i].user);
		assert_int_equal(a.method, AUTH_CERTIFICATE);
		/* A certificate login gets the rights of the users file, not all rights. */
		assert_int_equal(a.rights == RIGHTS_RW, !strcmp(a.name, "bob"));
		auth_answer_clear(&a);
	}
	q = (struct auth_ask){ .user = "alice", .pin = PIN };
	o.certificates = NULL;
	assert_int_equal(ask(&o, &q, &a, &e), -EACCES);
	o.certificates = nowhere;
	assert_int_equal(ask(&o, &q, &a, &e), -ENOENT);
}

static void test_no_names_for_pam(void **state)
{
	static const char *const names[] = { "", "-x", "../alice", "a:b" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct auth_ask q = { .user = names[i], .password = "x" };
		struct err e = ERR_INIT;
		struct identity u;

		assert_int_equal(auth_pam_check(&q, &u, &e),
				 AUTH_HAS_PAM ? -EACCES : -EOPNOTSUPP);
		assert_string_equal(u.name, "");
	}
}

/* ---- system users ---- */

static void test_find_system(void **state)
{
	struct err e = ERR_INIT;
	struct identity u;

	assert_int_equal(identity_of(own_name, &u, &e), 0);
	assert_int_equal(u.uid, geteuid());
	assert_true(*u.home == '/');
	identity_clear(&u);
	assert_int_equal(identity_of("no-such-user-here", &u, &e), -ENOENT);
	assert_non_null(strstr(e.text, "no-such-user-here"));
	assert_string_equal(u.name, "");
}

/* Runs in a child; its exit status is the number of the step that failed, 0: none. */
static int become(const struct auth_answer *a)
{
	const struct identity *u = &a->as;
	uid_t r, f, s;
	gid_t list[8];
	int sig = 0;
	struct err e = ERR_INIT;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (login_become(a, &e) < 0)
		return 1;
	if (getresuid(&r, &f, &s) || r != u->uid || f != u->uid || s != u->uid)
		return 2;
	if (getresgid(&r, &f, &s) || r != u->gid || f != u->gid || s != u->gid)
		return 3;
	if (getgroups(8, list) != 2 || list[0] != u->groups[0] || list[1] != u->groups[1])
		return 4;
	if (setuid(0) == 0 || setgroups(0, NULL) == 0)
		return 5;
	prctl(PR_GET_PDEATHSIG, &sig);
	return sig == SIGTERM ? 0 : 6;
}

static void test_become(void **state)
{
	gid_t groups[] = { 1234, 2345 };
	struct auth_answer a = {
		.name = "u", .is_system = true,
		.as = { .uid = 54321, .gid = 1234, .groups = groups,
			.ngroups = 2 },
	};
	int status;
	pid_t pid;

	if (geteuid() != 0)
		skip();
	pid = fork();
	if (pid == 0)
		_exit(become(&a));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_passwords),
		cmocka_unit_test(test_settings),
		cmocka_unit_test(test_certificates),
		cmocka_unit_test(test_no_names_for_pam),
		cmocka_unit_test(test_find_system),
		cmocka_unit_test(test_become),
	};

	return cmocka_run_group_tests_name("auth", tests, make_files, remove_files);
}
