// SPDX-License-Identifier: Apache-2.0
/* The server half of FTP against a scripted client on a socketpair: the reply to each command, and
 * the limits for unauthenticated clients. */
#include "control/control.h"
#include "control/server/session.h"
#include "tests/support/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { REPLY_MS = 10 * 1000 };

/* ---- the server in a thread, the client in the test ---- */

struct world {
	char dir[64];                 /* the root */
	struct ftp_server_config c;
	volatile sig_atomic_t stop;
	bool can_see, can_create, can_change;
	char body[64];                /* the bytes read by the bulk handler */
	size_t body_len;

	struct mstream *server_ms;
	int server_fd;
	struct sockaddr_storage peer;
	pthread_t thread;
	int served;                   /* the result of ftp_serve() */

	int fd;                       /* the client's socket */
	struct mstream *ms;
	struct ftp_reply reply;
};

static int login(void *arg, const char *user, const char *password, struct ftp_account *a,
		 struct err *e)
{
	struct world *w = arg;

	if (user && (strcmp(user, "alice") || strcmp(password, "secret")))
		return -EACCES;
	snprintf(a->name, sizeof(a->name), "%s", user ? user : "me");
	a->root = root_new(w->dir, true, e);
	a->home = strdup("/home");
	a->can_see = w->can_see;
	a->can_create = w->can_create;
	a->can_change = w->can_change;
	return a->root && a->home ? 0 : -ENOMEM;
}

static int bulk(void *arg, struct ftp_session *s, struct buf *body)
{
	struct world *w = arg;

	w->body_len = buf_len(body);
	buf_get(body, w->body, w->body_len < sizeof(w->body) ? w->body_len : sizeof(w->body));
	if (w->body_len == 4 && !memcmp(w->body, "stop", 4))
		w->stop = 1;
	return ftp_session_reply(s, 226, "bulk as %s", ftp_session_account(s)->name);
}

static void *serve(void *arg)
{
	struct world *w = arg;
	struct err e = ERR_INIT;

	w->served = ftp_serve(&w->c, w->server_ms, w->server_fd,
			      w->peer.ss_family ? &w->peer : NULL, &e);
	ms_free(w->server_ms);
	return NULL;
}

static void make_file(const struct world *w, const char *name, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", w->dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void make_dir(const struct world *w, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", w->dir, name);
	assert_int_equal(mkdir(path, 0755), 0);
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	snprintf(w->dir, sizeof(w->dir), "/tmp/test-ftp-server.XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	make_dir(w, "home");
	make_file(w, "home/hello", "hello\n");
	w->can_see = w->can_create = w->can_change = true;
	w->fd = -1;
	w->peer.ss_family = AF_INET;
	w->c = (struct ftp_server_config){ .login = login, .bulk = bulk, .arg = w,
					   .stop = &w->stop };
	*state = w;
	return 0;
}

static int next_reply(struct world *w);

/* Starts the server with w->c, and reads its greeting. */
static void start(struct world *w)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	w->server_fd = pair[0];
	w->server_ms = ms_new(stream_plain(pair[0], pair[0]));
	w->fd = pair[1];
	w->ms = ms_new(stream_plain(pair[1], pair[1]));
	assert_non_null(w->server_ms);
	assert_non_null(w->ms);
	assert_int_equal(pthread_create(&w->thread, NULL, serve, w), 0);
	assert_int_equal(next_reply(w), 220);
}

/* Closes the client's side and waits for the server's end. */
static void finish(struct world *w)
{
	ms_free(w->ms);
	w->ms = NULL;
	pthread_join(w->thread, NULL);
	ftp_reply_clear(&w->reply);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	return remove(path);
}

static int teardown(void **state)
{
	struct world *w = *state;

	if (w->ms)
		finish(w);
	tls_ctx_free(w->c.tls);
	nftw(w->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(w);
	return 0;
}

/* Returns the reply code, or a negative errno if the connection ended. */
static int next_reply(struct world *w)
{
	char line[FTP_LINE_MAX];
	int rc = 0;

	ftp_reply_clear(&w->reply);
	while (rc == 0) {
		ssize_t n = ms_read_line(w->ms, line, sizeof(line), REPLY_MS);

		rc = n < 0 ? (int)n : ftp_reply_line(&w->reply, line);
	}
	return rc < 0 ? rc : w->reply.code;
}

static void send_bytes(struct world *w, const void *p, size_t len)
{
	assert_int_equal(ms_write(w->ms, p, len), 0);
}

/* Fails the test if the command table does not have the reply code. */
static int ask(struct world *w, const char *line)
{
	const struct ftp_command *cmd;
	char *copy = strdup(line), *arg;
	int code;

	assert_non_null(copy);
	send_bytes(w, line, strlen(line));
	send_bytes(w, "\r\n", 2);
	code = next_reply(w);
	ftp_command_parse(copy, &cmd, &arg);
	free(copy);
	if (code > 0 && cmd && !ftp_command_answers(cmd, code))
		fail_msg("%s: %d is not a reply to it", line, code);
	return code;
}

static void log_in(struct world *w)
{
	assert_int_equal(ask(w, "USER alice"), 331);
	assert_int_equal(ask(w, "PASS secret"), 230);
}

struct exchange {
	const char *line;
	int code;
	const char *text;  /* a part of the reply; NULL: not checked */
};

static void run_table(struct world *w, const struct exchange *x, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int code = ask(w, x[i].line);

		if (code != x[i].code)
			print_error("%s: %d %s\n", x[i].line, code,
				    w->reply.text ? w->reply.text : "");
		assert_int_equal(code, x[i].code);
		if (x[i].text && !strstr(w->reply.text, x[i].text))
			fail_msg("%s: \"%s\" does not hold \"%s\"", x[i].line, w->reply.text,
				 x[i].text);
	}
}

#define RUN(w, table) run_table(w, table, sizeof(table) / sizeof((table)[0]))

/* ---- commands and replies ---- */

static void test_before_login(void **state)
{
	static const struct exchange table[] = {
		{ "NOOP", 200, NULL }, { "noop", 200, NULL }, { "SYST", 215, "UNIX" },
		{ "FEAT", 211, " MLST type*;size*;modify*" }, { "FEAT", 211, "\n UTF8\n" },
		{ "FEAT", 211, " REST STREAM\n" }, { "FEAT", 211, "NAMES PERCENT" },
		{ "HELP", 214, "BULK <bytes>" }, { "HELP RETR", 214, "RETR <file>" },
		{ "HELP XYZZY", 501, NULL },
		{ "XYZZY", 500, NULL }, { "", 500, NULL }, { " ", 500, NULL },
		{ "USER", 501, NULL }, { "NOOP x", 501, NULL },
		{ "PASS x", 503, NULL },
		{ "PWD", 530, NULL }, { "RETR hello", 530, NULL }, { "STOR x", 530, NULL },
		{ "DELE hello", 530, NULL }, { "EPSV", 530, NULL }, { "SITE CHMOD 0 x", 530, NULL },
		{ "HASH hello", 530, NULL }, { "MLSD", 530, NULL }, { "TYPE I", 530, NULL },
		{ "AUTH TLS", 502, NULL }, { "AUTH GSSAPI", 504, NULL },
		{ "PBSZ 0", 503, NULL }, { "PROT P", 503, NULL }, { "PROT X", 504, NULL },
		{ "OPTS UTF8 ON", 200, NULL }, { "OPTS XYZZY", 501, NULL },
		{ "PASV", 530, NULL }, { "PORT 1,2,3,4,5,6", 530, NULL }, { "LIST", 530, NULL },
		{ "STAT", 530, NULL }, { "XPWD", 530, NULL }, { "ACCT x", 502, NULL },
		{ "REIN", 502, NULL }, { "SMNT x", 502, NULL }, { "STOU", 502, NULL },
		{ "HELP REIN", 502, NULL }, { "HELP site", 214, "UTIME" },
		{ "ABOR", 226, NULL }, { "QUIT", 221, NULL },
	};
	struct world *w = *state;

	start(w);
	RUN(w, table);
	assert_int_equal(next_reply(w), -EPIPE);
}

static void test_logged_in(void **state)
{
	static const struct exchange table[] = {
		{ "USER alice", 503, NULL },
		{ "PWD", 257, "\"/home\"" },
		{ "TYPE A", 200, NULL }, { "TYPE A N", 200, NULL }, { "TYPE E", 504, NULL },
		{ "SIZE hello", 550, "TYPE I" },
		{ "REST 5", 350, NULL }, { "RETR hello", 555, "TYPE I" },
		{ "REST 5", 350, NULL }, { "STOR x", 555, "TYPE I" },
		{ "REST 0", 350, NULL }, { "RETR hello", 425, NULL },
		{ "TYPE L 8", 200, NULL }, { "TYPE I", 200, NULL },
		{ "MODE S", 200, NULL }, { "MODE B", 504, NULL },
		{ "STRU F", 200, NULL }, { "STRU R", 504, NULL }, { "ALLO 100", 202, NULL },
		{ "SIZE hello", 213, "6" }, { "SIZE nope", 550, "No such file" },
		{ "SIZE /home", 550, NULL }, { "MDTM hello", 213, "20" },
		{ "REST 3", 350, NULL }, { "REST -1", 501, NULL }, { "REST x", 501, NULL },
		{ "HASH hello", 213, "SHA-256 0-5 5891b5b522d5df086d0ff0b110fbd9d21bb4fc716"
				     "3af34d08286a2e846f6be03 /home/hello" },
		{ "OPTS HASH", 200, "SHA-256" }, { "OPTS HASH md5", 200, "MD5" },
		{ "HASH hello", 213, "MD5 0-5 b1946ac92492d2347c6235b4d2611184" },
		{ "OPTS HASH XYZ", 504, "there are SHA-256, SHA-512" },
		{ "HASH .", 553, "/home: Not a plain file" },
		{ "FEAT", 211, ";MD5*;" },
		{ "MKD a \"b\"", 257, "\"/home/a \"\"b\"\"\"" },
		{ "MKD a \"b\"", 550, "File exists" },
		{ "CWD a \"b\"", 250, NULL }, { "PWD", 257, "\"/home/a \"\"b\"\"\"" },
		{ "CDUP", 250, NULL }, { "CWD ../../../..", 250, NULL },
		{ "PWD", 257, "\"/\"" }, { "CWD ~", 250, NULL }, { "PWD", 257, "\"/home\"" },
		{ "CWD hello", 550, "Not a directory" },
		{ "CWD nope", 550, "No such file" },
		{ "RMD a \"b\"", 250, NULL }, { "RMD a \"b\"", 550, NULL },
		{ "RNTO x", 503, NULL }, { "RNFR nope", 550, NULL },
		{ "RNFR hello", 350, NULL }, { "NOOP", 200, NULL }, { "RNTO x", 503, NULL },
		{ "RNFR hello", 350, NULL }, { "RNTO t/x", 553, "/home/t/x: No such file" },
		{ "RNFR hello", 350, NULL }, { "RNTO /home", 553, "/home: " },
		{ "RNFR hello", 350, NULL }, { "RNTO hello2", 250, NULL },
		{ "MLST hello2", 250, "type=file;size=6;" },
		{ "MLST hello", 550, NULL },
		{ "OPTS MLST type;UNIX.mode;", 200, "MLST OPTS type;UNIX.mode;" },
		{ "SITE CHMOD 0640 hello2", 200, NULL },
		{ "MLST hello2", 250, "\n type=file;UNIX.mode=0640; /home/hello2\n" },
		{ "SITE CHMOD x hello2", 501, NULL }, { "SITE XYZZY", 504, NULL },
		{ "MKD t", 257, NULL }, { "MKD t/u", 257, NULL }, { "RMD t", 550, "not empty" },
		{ "RMDA t", 250, NULL }, { "MLST t", 550, NULL }, { "RMDA /", 450, NULL },
		{ "DELE hello2", 250, NULL }, { "DELE hello2", 550, NULL },
		{ "RETR nope", 550, NULL }, { "RETR /home", 550, "/home: Not a plain file" },
		{ "EPSV 2", 522, "(1)" }, { "EPSV 3", 501, NULL },
		{ "EPSV ALL", 200, NULL },
		{ "STOR x", 425, NULL }, { "MLSD", 425, NULL }, { "MLST x", 550, NULL },
		{ "MLSD nope", 550, NULL },
		{ "PROT P", 503, NULL }, { "AUTH TLS", 502, NULL },
		{ "QUIT", 221, NULL },
	};
	struct world *w = *state;

	start(w);
	log_in(w);
	RUN(w, table);
	finish(w);
	assert_int_equal(w->served, 0);
}

static void test_read_only(void **state)
{
	static const struct exchange table[] = {
		{ "STOR x", 553, "may only read" }, { "APPE x", 550, "may only read" },
		{ "MFMT 20200101000000 hello", 550, NULL },
		{ "SITE UTIME 202001010000 hello", 550, NULL }, { "MKD x", 550, "Permission denied" },
		{ "DELE hello", 550, "Permission denied" }, { "RMD /home", 550, NULL },
		{ "RMDA /home", 550, NULL }, { "RNFR hello", 550, NULL },
		{ "SITE CHMOD 777 hello", 550, NULL }, { "MLST hello", 250, NULL },
	};
	struct world *w = *state;

	w->can_create = w->can_change = false;
	start(w);
	log_in(w);
	RUN(w, table);
}

static void test_no_delete(void **state)
{
	static const struct exchange table[] = {
		{ "MKD x", 257, NULL }, { "RMD x", 550, NULL }, { "DELE hello", 550, NULL },
		{ "RNFR hello", 550, NULL }, { "RMDA x", 550, NULL },
		{ "STOR hello", 553, "not permitted" }, { "TYPE I", 200, NULL },
		{ "REST 1", 350, NULL },
		{ "STOR hello", 553, "not permitted" }, { "APPE hello", 425, NULL },
		{ "SITE CHMOD 0 /", 550, "may not change" }, { "SITE HELP", 214, NULL },
		{ "MFMT 20200101000000 hello", 550, "may not change" },
		{ "MDTM 20200101000000 hello", 550, "may not change" },
		{ "SITE UTIME 202001010000 hello", 550, "may not change" },
		{ "MDTM hello", 213, NULL },
	};
	struct world *w = *state;

	w->can_change = false;
	start(w);
	log_in(w);
	RUN(w, table);
}

static void test_upload_only(void **state)
{
	static const struct exchange table[] = {
		{ "RETR hello", 550, "may only upload" }, { "HASH hello", 550, "may only upload" },
		{ "MLSD", 550, "may only upload" }, { "OPTS INLINE MLSD", 200, NULL },
		{ "MLSD", 550, "may only upload" }, { "STOR hello", 553, "not permitted" },
		{ "MKD in", 257, NULL }, { "CWD in", 250, NULL }, { "CDUP", 250, NULL },
		{ "DELE /home/hello", 550, NULL },
		/* allowed to resume an upload */
		{ "TYPE I", 200, NULL }, { "SIZE /home/hello", 213, "6" },
		{ "MLST /home/hello", 250, NULL },
	};
	struct world *w = *state;

	w->can_change = false;
	w->can_see = false;
	start(w);
	log_in(w);
	RUN(w, table);
}

/* ---- names ---- */

static void test_paths(void **state)
{
	static const struct { const char *cwd, *arg, *path; } table[] = {
		{ "/", "", "/" }, { "/", ".", "/" }, { "/", "..", "/" }, { "/", "/", "/" },
		{ "/", "a", "/a" }, { "/a", "b", "/a/b" }, { "/a", "b/", "/a/b/" },
		{ "/a", "/b", "/b" }, { "/a", "//b///c", "/b/c" }, { "/a", "../b", "/b" },
		{ "/a/b", "../..", "/" }, { "/a/b", "../../../../etc", "/etc" },
		{ "/a", "~", "/h/me" }, { "/a", "~/x", "/h/me/x" }, { "/a", "~x", "/a/~x" },
		{ "/a", "./~", "/a/~" }, { "/a", "~/../x", "/h/x" }, { "/a", "...", "/a/..." },
		{ "/a", "..b", "/a/..b" }, { "/a", "b/./c/.", "/a/b/c" },
		{ "/a", "b/..", "/a" }, { "/a", "b/../", "/a/" }, { "/", "../", "/" },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		char *path = ftp_path_resolve(table[i].cwd, "/h/me", table[i].arg);

		assert_string_equal(path, table[i].path);
		free(path);
	}
}

static void test_names_percent(void **state)
{
	static const struct exchange table[] = {
		{ "OPTS NAMES PERCENT", 200, NULL },
		{ "MKD a%0D%0Ab%25", 257, "\"/home/a%0D%0Ab%25\"" },
		{ "MLST a%0d%0ab%25", 250, " /home/a%0D%0Ab%25\n" },
		{ "CWD a%0D%0Ab%25", 250, NULL },
		{ "PWD", 257, "\"/home/a%0D%0Ab%25\"" },
		{ "CWD %2", 501, NULL }, { "CWD x%00y", 501, NULL },
		{ "CWD %2e%2e/%2e%2e/%2e%2e", 250, NULL }, { "PWD", 257, "\"/\"" },
	};
	struct world *w = *state;

	start(w);
	log_in(w);
	RUN(w, table);
}

/* Names with line ends never break a listing's lines, with or without encoded names. */
static void test_names_plain(void **state)
{
	struct world *w = *state;

	make_dir(w, "home/x\n226 forged\r\ny");
	make_file(w, "home/x\n226 forged\r\ny/f", "");
	start(w);
	log_in(w);
	assert_int_equal(ask(w, "OPTS INLINE MLSD"), 200);
	assert_int_equal(ask(w, "MLSD"), 150);
	assert_null(strstr(w->reply.text, "forged"));
	assert_non_null(strstr(w->reply.text, " hello"));
	assert_int_equal(next_reply(w), 226);
	assert_string_equal(w->reply.text, "Done");
	assert_int_equal(ask(w, "OPTS NAMES PERCENT"), 200);
	assert_int_equal(ask(w, "CWD x%0A226%20forged%0D%0Ay"), 250);
	assert_int_equal(ask(w, "OPTS NAMES PLAIN"), 200);
	assert_int_equal(ask(w, "PWD"), 257);
	assert_string_equal(w->reply.text, "\"/home/x?226 forged??y\" is where you are");
	assert_int_equal(ask(w, "MLST f"), 553);
	assert_int_equal(ask(w, "NOOP"), 200);
}

static void test_inline_listing(void **state)
{
	struct world *w = *state;

	make_dir(w, "home/sub dir");
	start(w);
	log_in(w);
	assert_int_equal(ask(w, "OPTS INLINE MLSD"), 200);
	assert_int_equal(ask(w, "MLSD"), 150);
	assert_non_null(strstr(w->reply.text, "type=file;size=6;"));
	assert_non_null(strstr(w->reply.text, " sub dir\n"));
	assert_int_equal(next_reply(w), 226);
	assert_int_equal(ask(w, "MLSD sub dir"), 150);
	assert_int_equal(next_reply(w), 226);
	assert_int_equal(ask(w, "MLSD hello"), 550);
}

/* No symbolic link leads out of the root directory. */
static void test_root(void **state)
{
	static const struct exchange table[] = {
		{ "CWD out", 550, NULL }, { "MLST out/passwd", 550, NULL },
		{ "SIZE abs/passwd", 550, NULL }, { "RETR out/passwd", 550, NULL },
		{ "MKD out/x", 550, NULL }, { "SITE CHMOD 777 out/passwd", 550, NULL },
		{ "SITE CHMOD 777 abs", 550, NULL }, { "HASH abs/passwd", 550, NULL },
	};
	struct world *w = *state;
	char path[128];

	snprintf(path, sizeof(path), "%s/home/out", w->dir);
	assert_int_equal(symlink("../../../../../../../../etc", path), 0);
	snprintf(path, sizeof(path), "%s/home/abs", w->dir);
	assert_int_equal(symlink("/etc", path), 0);
	start(w);
	log_in(w);
	assert_int_equal(ask(w, "TYPE I"), 200);
	RUN(w, table);
}

/* ---- hostile lines ---- */

static void test_long_line(void **state)
{
	struct world *w = *state;
	char *line = malloc(FTP_LINE_MAX + 100);

	assert_non_null(line);
	start(w);
	memset(line, 'x', FTP_LINE_MAX + 99);
	line[FTP_LINE_MAX + 99] = '\0';
	assert_int_equal(ask(w, line), 500);
	assert_int_equal(ask(w, "NOOP"), 200);
	send_bytes(w, "NO\0OP\r\n", 7);
	assert_int_equal(next_reply(w), 501);
	/* Telnet: IAC IP IAC DM before ABOR, and a doubled IAC in a name. */
	send_bytes(w, "\xff\xf4\xff\xf2" "ABOR\r\n", 10);
	assert_int_equal(next_reply(w), 226);
	log_in(w);
	send_bytes(w, "MKD a\xff\xff" "b\r\n", 10);
	assert_int_equal(next_reply(w), 257);
	snprintf(line, 128, "%s/home/a\xff" "b", w->dir);
	assert_int_equal(access(line, F_OK), 0);
	free(line);
}

static void test_pipelined(void **state)
{
	static const char all[] = "USER alice\r\nPASS secret\r\nTYPE I\r\nPWD\nQUIT\r\n";
	struct world *w = *state;

	start(w);
	send_bytes(w, all, sizeof(all) - 1);
	assert_int_equal(next_reply(w), 331);
	assert_int_equal(next_reply(w), 230);
	assert_int_equal(next_reply(w), 200);
	assert_int_equal(next_reply(w), 257);
	assert_int_equal(next_reply(w), 221);
}

/* ---- BULK ---- */

static void test_bulk_before_login(void **state)
{
	struct world *w = *state;

	start(w);
	send_bytes(w, "BULK 12\r\nUSER nobody\nNOOP\r\n", 27);
	assert_int_equal(next_reply(w), 530);
	assert_int_equal(next_reply(w), 200);
	assert_int_equal(w->body_len, 0);
}

static void test_bulk(void **state)
{
	struct world *w = *state;

	start(w);
	log_in(w);
	send_bytes(w, "BULK 5\r\n\0\r\n\xff" "xNOOP\r\n", 19);
	assert_int_equal(next_reply(w), 226);
	assert_int_equal(next_reply(w), 200);
	assert_int_equal(w->body_len, 5);
	assert_memory_equal(w->body, "\0\r\n\xff" "x", 5);
	assert_int_equal(ask(w, "BULK 0"), 226);
	assert_int_equal(w->body_len, 0);
}

static void test_bulk_bad_length(void **state)
{
	static const struct exchange table[] = {
		{ "BULK 4194305", 552, NULL }, { "BULK 99999999999999999999999", 552, NULL },
		{ "BULK -1", 501, NULL }, { "BULK 5x", 501, NULL }, { "BULK", 501, NULL },
	};
	struct world *w = *state;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		start(w);
		run_table(w, &table[i], 1);
		assert_int_equal(next_reply(w), -EPIPE);
		finish(w);
	}
}

/* ---- login ---- */

static void test_wrong_password(void **state)
{
	struct world *w = *state;
	uint64_t began;

	start(w);
	assert_int_equal(ask(w, "USER bob"), 331);
	began = now_ns();
	assert_int_equal(ask(w, "PASS secret"), 530);
	assert_true(now_ns() - began >= 900000000);
	assert_int_equal(ask(w, "PASS secret"), 503);
	log_in(w);
}

static void test_trusted(void **state)
{
	struct world *w = *state;

	w->c.trusted = true;
	w->peer.ss_family = AF_UNSPEC;
	start(w);
	assert_int_equal(ask(w, "PWD"), 257);
	assert_int_equal(ask(w, "USER x"), 230);
	assert_int_equal(ask(w, "PASS x"), 230);
	assert_int_equal(ask(w, "EPSV"), 502);
}

static void test_login_timeout(void **state)
{
	struct world *w = *state;

	w->c.login_timeout_ms = 300;
	start(w);
	assert_int_equal(next_reply(w), 421);
	assert_int_equal(next_reply(w), -EPIPE);
	finish(w);
	assert_int_equal(w->served, -ETIMEDOUT);
}

/* A stop during a command waits for the command's end; the commands queued after it do not run. */
static void test_stop(void **state)
{
	struct world *w = *state;

	start(w);
	log_in(w);
	send_bytes(w, "BULK 4\r\nstopMKD x\r\n", 19);
	assert_int_equal(next_reply(w), 226);
	assert_int_equal(next_reply(w), 421);
	finish(w);
	assert_int_equal(w->served, -ECANCELED);
}

/* ---- TLS ---- */

static void make_tls(struct world *w)
{
	char cert[128], key[128];
	struct err e = ERR_INIT;

	snprintf(cert, sizeof(cert), "%s/cert.pem", w->dir);
	snprintf(key, sizeof(key), "%s/key.pem", w->dir);
	assert_int_equal(tls_make_certificate(cert, key, "test", &e), 0);
	w->c.tls = tls_server_new(cert, key, &e);
	assert_non_null(w->c.tls);
}

static void test_needs_tls(void **state)
{
	static const struct exchange table[] = {
		{ "USER alice", 530, NULL }, { "PASS secret", 503, NULL }, { "PWD", 530, NULL },
		{ "FEAT", 211, " AUTH TLS\n PBSZ\n PROT\n" }, { "AUTH SSL", 504, NULL },
	};
	struct world *w = *state;

	make_tls(w);
	w->c.require_tls = true;
	start(w);
	RUN(w, table);
	send_bytes(w, "BULK 4\r\nxxxxNOOP\r\n", 18);
	assert_int_equal(next_reply(w), 530);
	assert_int_equal(next_reply(w), 200);
}

static void test_needs_prot(void **state)
{
	static const struct exchange table[] = {
		{ "RETR hello", 521, NULL }, { "MLSD", 521, NULL }, { "STOR x", 521, NULL },
		{ "MLST x", 550, NULL },
	};
	struct world *w = *state;

	w->c.require_prot = true;
	start(w);
	log_in(w);
	RUN(w, table);
}

static void test_tls(void **state)
{
	static const struct exchange table[] = {
		{ "PASS secret", 503, NULL }, { "AUTH TLS", 503, NULL }, { "PROT P", 503, NULL },
		{ "PBSZ 0", 200, "PBSZ=0" }, { "PROT S", 536, NULL }, { "PROT E", 536, NULL },
		{ "PROT C", 200, NULL }, { "PROT p", 200, NULL }, { "PROT Q", 504, NULL },
		{ "USER alice", 331, NULL }, { "PASS secret", 230, NULL },
		{ "AUTH TLS", 503, NULL }, { "PWD", 257, "\"/home\"" }, { "QUIT", 221, NULL },
	};
	struct world *w = *state;
	struct tls_ctx *ctx = tls_client_new(NULL, NULL);
	struct err e = ERR_INIT;
	struct tls *tls;

	make_tls(w);
	start(w);
	/* A login in clear does not count after AUTH TLS (RFC 4217 §4). */
	assert_int_equal(ask(w, "USER alice"), 331);
	assert_int_equal(ask(w, "AUTH TLS"), 234);
	tls = tls_start(ctx, w->fd, NULL, NULL, REPLY_MS, &e);
	assert_non_null(tls);
	assert_int_equal(ms_replace(w->ms, stream_tls(w->fd, tls)), 0);
	RUN(w, table);
	finish(w);
	assert_int_equal(w->served, 0);
	tls_ctx_free(ctx);
}

/* An attacker on the network may append a command to AUTH TLS in clear. It must never run as the
 * client's (CVE-2011-0411 and similar). */
static void test_injection(void **state)
{
	static const char both[] = "AUTH TLS\r\nNOOP\r\n";
	struct world *w = *state;
	struct tls_ctx *ctx = tls_client_new(NULL, NULL);
	struct err e = ERR_INIT;
	struct tls *tls;

	make_tls(w);
	start(w);
	send_bytes(w, both, sizeof(both) - 1);
	assert_int_equal(next_reply(w), 234);
	tls = tls_start(ctx, w->fd, NULL, NULL, REPLY_MS, &e);
	if (tls) {
		char byte;

		/* The client must not get a reply to it either. */
		assert_true(tls_read(tls, &byte, 1, REPLY_MS) <= 0);
		tls_free(tls);
	}
	finish(w);
	assert_int_equal(w->served, -EPROTO);
	tls_ctx_free(ctx);
}

/* ---- certificates ---- */

static int cert_login(void *arg, const char *user, struct tls *tls, struct ftp_account *a,
		      struct err *e)
{
	CLEANUP_FREE char *pin = tls_peer_pin(tls);

	if (!strcmp(user, "expired"))
		return err_set(e, -EKEYEXPIRED, "change it first");
	if (!strcmp(user, "later"))
		return err_set(e, -EAGAIN, "not now");
	return pin && !strcmp(user, "alice") ? login(arg, user, "secret", a, e) : -EACCES;
}

static void start_with_certificate(struct world *w, struct tls_ctx *ctx)
{
	struct err e = ERR_INIT;
	struct tls *tls;

	make_tls(w);
	assert_int_equal(tls_ask_client(w->c.tls, NULL, &e), 0);
	w->c.cert_login = cert_login;
	start(w);
	/* Before TLS there is no certificate to identify the client. */
	assert_int_equal(ask(w, "USER alice"), 331);
	assert_int_equal(ask(w, "AUTH TLS"), 234);
	tls = tls_start(ctx, w->fd, NULL, NULL, REPLY_MS, &e);
	assert_non_null(tls);
	assert_int_equal(ms_replace(w->ms, stream_tls(w->fd, tls)), 0);
}

static void test_certificate(void **state)
{
	static const struct exchange known[] = {
		{ "USER bob", 331, NULL }, { "USER expired", 530, "change it first" },
		{ "PWD", 530, NULL }, { "USER alice", 232, "alice" }, { "PASS x", 202, NULL },
		{ "USER bob", 503, NULL }, { "PWD", 257, "\"/home\"" }, { "QUIT", 221, NULL },
	};
	char pin_cert[192], pin_key[192];
	struct err e = ERR_INIT;
	struct tls_ctx *ctx = tls_client_new(NULL, &e);
	struct world *w = *state;

	snprintf(pin_cert, sizeof(pin_cert), "%s/client.pem", w->dir);
	snprintf(pin_key, sizeof(pin_key), "%s/client-key.pem", w->dir);
	assert_int_equal(tls_make_certificate(pin_cert, pin_key, "alice", &e), 0);
	assert_int_equal(tls_use_certificate(ctx, pin_cert, pin_key, &e), 0);
	start_with_certificate(w, ctx);
	RUN(w, known);
	finish(w);
	tls_ctx_free(ctx);
}

static void test_no_certificate(void **state)
{
	static const struct exchange table[] = {
		{ "USER alice", 331, NULL }, { "PASS secret", 230, NULL }, { "QUIT", 221, NULL },
	};
	struct tls_ctx *ctx = tls_client_new(NULL, NULL);
	struct world *w = *state;

	start_with_certificate(w, ctx);
	RUN(w, table);
	finish(w);
	tls_ctx_free(ctx);
}

static void test_certificate_later(void **state)
{
	struct tls_ctx *ctx = tls_client_new(NULL, NULL);
	struct world *w = *state;

	start_with_certificate(w, ctx);
	assert_int_equal(ask(w, "USER later"), 421);
	finish(w);
	assert_int_equal(w->served, -EAGAIN);
	tls_ctx_free(ctx);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_before_login),
		TEST(test_logged_in),
		TEST(test_read_only),
		TEST(test_no_delete),
		TEST(test_upload_only),
		cmocka_unit_test(test_paths),
		TEST(test_names_percent),
		TEST(test_names_plain),
		TEST(test_inline_listing),
		TEST(test_root),
		TEST(test_long_line),
		TEST(test_pipelined),
		TEST(test_bulk_before_login),
		TEST(test_bulk),
		TEST(test_bulk_bad_length),
		TEST(test_wrong_password),
		TEST(test_trusted),
		TEST(test_login_timeout),
		TEST(test_stop),
		TEST(test_needs_tls),
		TEST(test_needs_prot),
		TEST(test_tls),
		TEST(test_injection),
		TEST(test_certificate),
		TEST(test_no_certificate),
		TEST(test_certificate_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
