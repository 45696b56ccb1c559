// SPDX-License-Identifier: Apache-2.0
/* The client half against scripted servers on loopback: servers that speak another protocol, that
 * refuse, and that list; and a failing ssh. */
#include "control/control.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- a server that follows a script ---- */

/* says: the greeting, then one reply for each line received, in order. "" sends no reply. NULL ends
 * the script and closes the connection. */
struct script {
	const char *const *says;
	const char *list;     /* sent after a reply that begins with "150-"; NULL: none */
	int lfd;
	uint16_t port;
	char got[4096];       /* all received lines, each followed by '|' */
	pthread_t thread;
};

static void say(int fd, const char *text)
{
	send(fd, text, strlen(text), MSG_NOSIGNAL);
}

static void *follow(void *arg)
{
	struct script *s = arg;
	const char *const *next = s->says;
	int fd = accept(s->lfd, NULL, NULL);
	FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
	char line[1024];

	if (!in)
		return NULL;
	say(fd, *next++);
	while (*next && fgets(line, sizeof(line), in)) {
		line[strcspn(line, "\r\n")] = '\0';
		strncat(s->got, line, sizeof(s->got) - strlen(s->got) - 2);
		strcat(s->got, "|");
		say(fd, *next);
		if (s->list && !strncmp(*next, "150-", 4))
			send(fd, s->list, strlen(s->list), MSG_NOSIGNAL);
		next++;
	}
	/* Read all of the client's bytes: close() with unread bytes would reset the connection. */
	shutdown(fd, SHUT_WR);
	while (fgets(line, sizeof(line), in))
		;
	fclose(in);
	return NULL;
}

static void begin(struct script *s, const char *const *says)
{
	struct err e = ERR_INIT;

	memset(s->got, 0, sizeof(s->got));
	s->says = says;
	s->lfd = tcp_listen("127.0.0.1", AF_INET, 0, 0, &s->port, &e);
	assert_true(s->lfd >= 0);
	assert_int_equal(pthread_create(&s->thread, NULL, follow, s), 0);
}

static void end(struct script *s)
{
	pthread_join(s->thread, NULL);
	close(s->lfd);
}

/* ---- clients ---- */

static char *password(void *arg, const char *user, const char *host, int attempt)
{
	return attempt == 0 ? strdup("pw") : NULL;
}

static struct ftp_client *connect_to(struct script *s, const char *user, bool plain,
				     struct err *e)
{
	struct url p = { .kind = URL_RFTP, .host = (char *)"127.0.0.1", .port = s->port,
			 .user = (char *)user };
	struct ftp_client_config c = { .url = &p, .plain = plain, .password = password,
				       .plain_password = !user || strcmp(user, "careful"),
				       .connect_timeout_ms = 1000 };

	memset(e, 0, sizeof(*e));
	return ftp_connect(&c, e);
}

#define SCRIPT(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* ---- servers without FTP ---- */

static void test_others(void **state)
{
	static const struct { const char *says, *text; int code; } table[] = {
		{ "SSH-2.0-OpenSSH_9.2\r\n", "is an SSH server", -EPROTO },
		{ "HTTP/1.1 400 Bad Request\r\n\r\n", "web server", -EPROTO },
		{ "\x15\x03\x01", "speaks TLS", -EPROTO },
		{ "* OK IMAP\r\n", "mail server", -EPROTO },
		{ "\x1b[2Jhello\r\n", "does not speak FTP (it sent \"\\x1b[2Jhello\")", -EPROTO },
		{ "2 nonsense\r\n", "an invalid FTP reply", -EPROTO },
		{ "", "closed the connection without sending anything", -ECONNRESET },
		{ "421 Too many\r\n", "421 Too many", -ECONNABORTED },
		{ "220 hi\r\n", "closed the connection", -EPIPE },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct script s = { 0 };
		struct err e;

		begin(&s, SCRIPT(table[i].says));
		assert_null(connect_to(&s, NULL, false, &e));
		end(&s);
		if (!strstr(e.text, table[i].text))
			fail_msg("\"%s\" does not hold \"%s\"", e.text, table[i].text);
		assert_int_equal(e.code, table[i].code);
	}
}

static void test_silence(void **state)
{
	struct script s = { 0 };
	struct err e;

	begin(&s, SCRIPT("", ""));
	assert_null(connect_to(&s, NULL, true, &e));
	assert_int_equal(e.code, -ETIMEDOUT);
	assert_non_null(strstr(e.text, "sent nothing"));
	end(&s);
}

static void test_no_tls(void **state)
{
	struct script s = { 0 };
	struct err e;

	begin(&s, SCRIPT("220 hi\r\n", "502 no\r\n"));
	assert_null(connect_to(&s, NULL, false, &e));
	assert_int_equal(e.code, -EPROTO);
	assert_non_null(strstr(e.text, "offers no TLS"));
	end(&s);
	assert_string_equal(s.got, "AUTH TLS|"); /* no further line from the client */
}

/* ---- login ---- */

static const char *const welcome[] = {
	"220 hi\r\n", "331 pw?\r\n", "230 in\r\n",
	"211-feat\r\n BULK 1.1 modes,times\r\n211 end\r\n", "501 no\r\n", "501 no\r\n", "200 type\r\n", NULL
};

static void test_plain_login(void **state)
{
	struct script s = { 0 };
	struct ftp_client *c;
	struct err e;

	begin(&s, welcome);
	c = connect_to(&s, "bob", true, &e);
	assert_non_null(c);
	assert_int_equal(c->bulk.major, 1);
	assert_int_equal(c->bulk.minor, 1);
	assert_int_equal(c->bulk.features, BULK_F_MODES | BULK_F_TIMES);
	assert_true(c->rtt_ns > 0);
	ftp_close(c);
	end(&s);
	assert_non_null(strstr(s.got, "USER bob|PASS pw|FEAT|"));
}

static void test_password_not_in_clear(void **state)
{
	struct script s = { 0 };
	struct err e;

	begin(&s, welcome);
	assert_null(connect_to(&s, "careful", true, &e));
	end(&s);
	assert_int_equal(e.code, -EACCES);
	assert_string_equal(s.got, "");
}

static void test_refused_login(void **state)
{
	struct script s = { 0 };
	struct err e;

	begin(&s, SCRIPT("220 hi\r\n", "331 pw?\r\n", "530 no such bird\r\n", "211 none\r\n",
			 "501 no\r\n", "501 no\r\n", "530 no\r\n"));
	assert_null(connect_to(&s, "bob", true, &e));
	end(&s);
	assert_int_equal(e.code, -EACCES);
	assert_non_null(strstr(e.text, "no such bird"));
}

/* ---- refusals ---- */

static void test_errno(void **state)
{
	static const struct { const char *reply; int code; } table[] = {
		{ "550 /x: No such file or directory\r\n", -ENOENT },
		{ "550 /x: Permission denied\r\n", -EACCES },
		{ "550 x: file exists\r\n", -EEXIST },
		{ "550 oops\r\n", -ENOENT }, { "552 full\r\n", -ENOSPC },
		{ "502 never\r\n", -ENOSYS }, { "421 bye\r\n", -ECONNABORTED },
		{ "150 wait\r\n550-a\r\n200 b\r\n550 Directory not empty\r\n", -ENOTEMPTY },
		{ "gibberish\r\n", -EPROTO },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const char *says[9];
		struct script s = { 0 };
		struct ftp_client *c;
		struct err e;
		char *text;

		memcpy(says, welcome, sizeof(welcome));
		says[7] = table[i].reply;
		says[8] = NULL;
		begin(&s, says);
		c = connect_to(&s, NULL, true, &e);
		assert_non_null(c);
		assert_int_equal(ftp_simple(c, FTP_DELE, "a\nb", &text, &e), -EILSEQ);
		assert_int_equal(ftp_simple(c, FTP_DELE, "x", &text, &e), table[i].code);
		assert_null(text);
		ftp_close(c);
		end(&s);
	}
}

/* ---- listings ---- */

/* List "dir", and note the names, each followed by '|'. */
static int list_names(struct ftp_client *c, char names[1024], struct err *e)
{
	struct facts_list l = { 0 };
	int rc = ftp_list(c, "dir", &l, e);

	names[0] = '\0';
	for (size_t i = 0; rc == 0 && i < l.n; i++) {
		strcat(names, l.all[i].name);
		strcat(names, "|");
	}
	facts_clear(&l);
	return rc;
}

static int list(const char *lines, char names[1024], struct err *e)
{
	const char *says[] = { welcome[0], welcome[1], welcome[2], welcome[3], welcome[4],
			       "200 inline\r\n", welcome[6], "150-here\r\n", NULL };
	struct script s = { .list = lines };
	struct ftp_client *c;
	int rc;

	begin(&s, says);
	c = connect_to(&s, NULL, true, e);
	assert_non_null(c);
	rc = list_names(c, names, e);
	assert_int_equal(ftp_client_lost(c), rc == -EOVERFLOW);
	ftp_close(c);
	end(&s);
	assert_non_null(strstr(s.got, "|MLSD dir|"));
	return rc;
}

/* Returns `lines` copies of line; the caller frees them. */
static char *repeated(const char *line, size_t lines)
{
	size_t len = strlen(line);
	char *data = malloc(len * lines + 1);

	assert_non_null(data);
	for (size_t i = 0; i < lines; i++)
		memcpy(data + len * i, line, len);
	data[len * lines] = '\0';
	return data;
}

/* The client ends an endless listing, with empty and with invalid lines. */
static void test_endless_list(void **state)
{
	static const char *const lines[] = { " \r\n", " x\r\n" };

	(void)state;
	for (int i = 0; i < 2; i++) {
		char *data = repeated(lines[i], 4100000), names[1024];
		struct err e = ERR_INIT;

		assert_int_equal(list(data, names, &e), -EOVERFLOW);
		assert_non_null(strstr(e.text, "lists a directory with more than"));
		assert_string_equal(names, "");
		free(data);
	}
}

static void test_list(void **state)
{
	struct err e = ERR_INIT;
	char names[1024];

	assert_int_equal(list(" type=cdir; dir\r\n type=file;size=1; a\r\n type=dir; b c\r\n"
			      "150 end\r\n226 ok\r\n", names, &e), 0);
	assert_string_equal(names, "a|b c|");
	assert_int_equal(list("150 end\r\n226 ok\r\n", names, &e), 0);
	assert_string_equal(names, "");
	/* Only the server's last reply shows that the listing is incomplete. */
	assert_int_equal(list(" type=file; a\r\n150 end\r\n451 disk\r\n", names, &e), -EIO);
	assert_int_equal(list(" rubbish\r\n150 end\r\n226 ok\r\n", names, &e), -EPROTO);
}

/* A server that has refused OPTS INLINE MLSD is not asked for a listing. */
static void test_no_list(void **state)
{
	struct script s = { 0 };
	struct ftp_client *c;
	char names[1024];
	struct err e;

	(void)state;
	begin(&s, welcome);
	c = connect_to(&s, NULL, true, &e);
	assert_non_null(c);
	assert_int_equal(list_names(c, names, &e), -EPROTONOSUPPORT);
	assert_false(ftp_client_lost(c));
	ftp_close(c);
	end(&s);
	assert_null(strstr(s.got, "MLSD dir"));
}

/* ---- ssh ---- */

struct fake {
	char path[64];
};

/* A fake ssh that acts according to the user name: 127, 255, noise, mute. */
static int make_ssh(void **state)
{
	struct fake *f = calloc(1, sizeof(*f));
	FILE *out;
	int fd;

	assert_non_null(f);
	snprintf(f->path, sizeof(f->path), "/tmp/test-ftp-client.XXXXXX");
	fd = mkstemp(f->path);
	assert_true(fd >= 0);
	out = fdopen(fd, "w");
	fputs("#!/bin/sh\n"
	      "test \"$1\" = -G && exit 1\n"
	      "while test \"$1\" != --; do shift; done\n"
	      "case $2 in\n"
	      "127@h) echo \"sh: rftpd: not found\" >&2; exit 127;;\n"
	      "255@h) echo \"Permission denied (publickey).\" >&2; exit 255;;\n"
	      "noise@h) echo \"Welcome to h\";;\n"
	      "good@h) printf '220 hi\\r\\n211-f\\r\\n BULK\\r\\n211 f\\r\\n200 a\\r\\n200 b\\r\\n"
	      "200 c\\r\\n'; cat >/dev/null;;\n"
	      "esac\n", out);
	assert_int_equal(fchmod(fd, 0755), 0);
	assert_int_equal(fclose(out), 0);
	*state = f;
	return 0;
}

static int remove_ssh(void **state)
{
	struct fake *f = *state;

	unlink(f->path);
	free(f);
	return 0;
}

static struct ftp_client *connect_ssh(const char *command, const char *user, const char *host,
				      struct err *e)
{
	struct url p = { .kind = URL_SSH, .host = (char *)host, .user = (char *)user };
	struct ftp_client_config c = { .url = &p, .ssh_command = command,
				       .connect_timeout_ms = 5000 };

	memset(e, 0, sizeof(*e));
	return ftp_connect(&c, e);
}

static void test_ssh(void **state)
{
	static const struct { const char *user, *text; int code; } table[] = {
		{ "127", "rftpd was not found on h", -ENOENT },
		{ "255", "ssh to h failed: Permission denied (publickey).", -ECONNREFUSED },
		{ "noise", "login scripts on h may print text", -EPROTO },
		{ "mute", "rftpd on h ended before it sent anything", -EPIPE },
	};
	struct fake *f = *state;
	struct ftp_client *c;
	struct err e;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		assert_null(connect_ssh(f->path, table[i].user, "h", &e));
		if (!strstr(e.text, table[i].text))
			fail_msg("\"%s\" does not hold \"%s\"", e.text, table[i].text);
		assert_int_equal(e.code, table[i].code);
	}
	assert_null(connect_ssh("/nonexistent/ssh", "x", "h", &e));
	assert_non_null(strstr(e.text, "cannot run /nonexistent/ssh"));
	assert_null(connect_ssh(f->path, NULL, "-oProxyCommand=x", &e));
	assert_int_equal(e.code, -EINVAL);

	c = connect_ssh(f->path, "good", "h", &e);
	assert_non_null(c);
	assert_true(c->ssh);
	assert_int_equal(c->bulk.major, 1);
	ftp_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_silence),
		cmocka_unit_test(test_no_tls),
		cmocka_unit_test(test_plain_login),
		cmocka_unit_test(test_password_not_in_clear),
		cmocka_unit_test(test_refused_login),
		cmocka_unit_test(test_errno),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_endless_list),
		cmocka_unit_test(test_no_list),
		cmocka_unit_test_setup_teardown(test_ssh, make_ssh, remove_ssh),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
