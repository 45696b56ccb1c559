// SPDX-License-Identifier: Apache-2.0
/* rftpd: reads its options and does what they say. */
#include "server/handover.h"
#include "server/notify.h"
#include "server/server.h"
#include "util/util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

enum { PASSWORD_MAX = 1024 };

/* ---- --hash-password ---- */

/* Without an echo where it is typed. */
static bool read_password(const char *prompt, char out[PASSWORD_MAX])
{
	struct termios old, quiet;
	bool tty = tcgetattr(STDIN_FILENO, &old) == 0;
	bool got;

	if (tty) {
		quiet = old;
		quiet.c_lflag &= ~(tcflag_t)ECHO;
		tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
		fputs(prompt, stderr);
	}
	got = fgets(out, PASSWORD_MAX, stdin) != NULL;
	if (tty) {
		tcsetattr(STDIN_FILENO, TCSAFLUSH, &old);
		fputc('\n', stderr);
	}
	if (!got)
		return false;
	got = strchr(out, '\n') || strlen(out) < PASSWORD_MAX - 1;
	out[strcspn(out, "\r\n")] = '\0';
	return got && *out;
}

static bool read_password_twice(char out[PASSWORD_MAX])
{
	char again[PASSWORD_MAX];
	bool ok = read_password("Password: ", out);

	if (ok && isatty(STDIN_FILENO))
		ok = read_password("Again: ", again) && !strcmp(out, again);
	crypto_wipe(again, sizeof(again));
	return ok;
}

/* What was asked for has to arrive. */
static int printed(void)
{
	if (!fflush(stdout))
		return EXIT_SUCCESS;
	log_error("cannot write to standard output: %s", strerror(errno));
	return EXIT_START;
}

static int hash_password(void)
{
	CLEANUP_FREE char *hash = NULL;
	char password[PASSWORD_MAX];

	setvbuf(stdin, NULL, _IONBF, 0); /* no copy in a buffer of the library's */
	if (!read_password_twice(password)) {
		log_error("no password: it is empty, too long, or the two differ");
		return EXIT_USAGE;
	}
	hash = password_hash(password);
	crypto_wipe(password, sizeof(password));
	if (!hash) {
		log_error("out of memory");
		return EXIT_START;
	}
	puts(hash);
	return printed();
}

/* ---- serving ---- */

/* Modes are given by us and our clients, not by who started us; a client that goes away
 * is an error of a write, as is a file or a log beyond RLIMIT_FSIZE; and a session needs
 * descriptors for files and channels. */
static void set_process(void)
{
	umask(0);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	raise_fd_limit();
}

static void on_stop(int sig)
{
	srv_stop = 1;
}

static int serve_stdio(struct server *sv)
{
	struct sigaction sa = { .sa_handler = on_stop };

	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	return srv_session_stdio(sv);
}

/* Whom we were to replace learns it, too. */
static int cannot_start(const struct activation *given, const struct err *e)
{
	log_error("%s", e->text);
	handover_failed(given, e->text);
	return EXIT_START;
}

static int serve(struct server *sv, const struct activation *given)
{
	struct err e = ERR_INIT;
	int rc;

	set_process();
	/* What else we were started with is nobody's here. */
	if (!sv->opt.stdio)
		close_fds(activation_end(given), UINT_MAX);
	/* Until the log is open whoever starts us reads it, wherever it goes. */
	rc = srv_check_files(&sv->opt, &e);
	if (rc == 0 && !sv->opt.stdio)
		rc = srv_prepare(sv, &e);
	if (rc == 0)
		rc = srv_open_log(&sv->opt, &e);
	if (rc < 0)
		return cannot_start(given, &e);
	if (sv->opt.stdio)
		return serve_stdio(sv);
	srv_say_start(sv);
	return srv_listen(sv, given);
}

/* ---- telling ---- */

static bool all_is_well;

static void say_bad(const char *text)
{
	log_error("%s", text);
	all_is_well = false;
}

static void say_weak(const char *text)
{
	log_warn("%s", text);
}

/* Nothing is made, nothing is opened for long. */
static int check_config(const struct srv_options *o)
{
	all_is_well = true;
	srv_options_check(o, say_bad, say_weak);
	if (!all_is_well)
		return EXIT_USAGE;
	printf("%s: all is well\n", o->config ? printable(o->config) : "the command line");
	return printed();
}

/* What is said and done without serving; -1: nothing was asked for. */
static int tell(const struct srv_options *o)
{
	if (o->help) {
		srv_options_help(stdout);
		return printed();
	}
	if (o->version) {
		printf("rftpd %s\nfeatures: %s\n", PACKAGE_VERSION, RFTP_FEATURES);
		return printed();
	}
	if (o->hash_password)
		return hash_password();
	if (o->check_config)
		return check_config(o);
	if (!o->show_config)
		return -1;
	srv_options_show(stdout, o);
	return printed();
}

static int run(struct server *sv)
{
	struct activation given;
	struct err e = ERR_INIT, sockets = ERR_INIT;
	int bad = activation_take(&given, &sockets), status;

	if (srv_options_load(&sv->opt, sv->argc, sv->argv, &e) < 0) {
		log_error("%s (rftpd --help lists the options)", e.text);
		handover_failed(&given, e.text);
		return EXIT_USAGE;
	}
	status = tell(&sv->opt);
	if (status >= 0)
		return status;
	if (bad < 0 && !sv->opt.stdio)
		return cannot_start(&given, &sockets);
	return serve(sv, &given);
}

int main(int argc, char **argv)
{
	struct server sv = { .argc = argc, .argv = argv, .sealed = -1 };
	int status;

	hold_standard_fds();
	log_init("rftpd", LOG_LV_INFO, false);
	notify_begin();
	status = run(&sv);
	srv_clear(&sv);
	return status;
}
