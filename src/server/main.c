// SPDX-License-Identifier: Apache-2.0
/* rftpd: reads its options; then it serves, or prints help, a hash or its settings. */
#include "server/handover.h"
#include "server/server.h"
#include "util/util.h"

#include <sys/stat.h>
#include <termios.h>

enum { PASSWORD_MAX = 1024 };

/* ---- options that print ---- */

static int flush_stdout(void)
{
	if (!fflush(stdout))
		return EXIT_SUCCESS;
	log_error("standard output: %s", strerror(errno));
	return EXIT_START;
}

/* Read a line from standard input, without echo if that is a terminal. */
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

static int print_password_hash(void)
{
	CLEANUP_FREE char *hash = NULL;
	char password[PASSWORD_MAX], again[PASSWORD_MAX];
	bool ok;

	setvbuf(stdin, NULL, _IONBF, 0); /* so that stdio keeps no copy of the password */
	ok = read_password("Password: ", password);
	if (ok && isatty(STDIN_FILENO))
		ok = read_password("Again: ", again) && !strcmp(password, again);
	crypto_wipe(again, sizeof(again));
	if (!ok) {
		log_error("no password: it is empty, too long, or the two differ");
		return EXIT_USAGE;
	}

	hash = password_hash(password);
	crypto_wipe(password, sizeof(password));
	if (!hash) {
		log_error(NO_MEMORY);
		return EXIT_START;
	}
	puts(hash);
	return flush_stdout();
}

/* Print for --help and the like. Returns the exit status; -1: no such option, so serve. */
static int print_only(const struct srv_options *o)
{
	if (o->help) {
		printf("Usage: rftpd [OPTION]...\n"
		       "Serve files to rftp and to FTP clients.\n");
		option_help(stdout, rftpd_options, OPTION_ANY, 0);
		printf("\nThe settings of rftpd.conf(5) have the same names, without the dashes.\n"
		       "\nExit status: 0 success; 1 with --stdio: the session failed; 2 usage; 3 it "
		       "cannot\nlisten, or cannot use its state.\n");
		return flush_stdout();
	}
	if (o->version) {
		printf("rftpd %s\nfeatures: %s\n", PACKAGE_VERSION, RFTP_FEATURES);
		return flush_stdout();
	}
	if (o->hash_password)
		return print_password_hash();
	if (o->check_config) {
		if (!srv_options_check(o))
			return EXIT_USAGE;
		printf("%s: no errors\n", o->config ? printable(o->config) : "the command line");
		return flush_stdout();
	}
	if (!o->show_config)
		return -1;
	srv_options_show(stdout, o);
	return flush_stdout();
}

/* ---- serving ---- */

static void on_stdio_stop(int sig)
{
	srv_stop = 1;
}

static int cannot_start(const struct activation *given, const struct err *e)
{
	log_error("%s", e->text);
	handover_failed(given, e->text);
	return EXIT_START;
}

static int serve_clients(struct server *sv, const struct activation *given)
{
	struct sigaction stop = { .sa_handler = on_stdio_stop };
	struct err e = ERR_INIT;
	int rc;

	/* The settings and the clients choose the modes of files; the umask of the calling process
	 * must not. */
	umask(0);

	/* Ignore these, so that a write to a closed connection, or beyond RLIMIT_FSIZE, returns an
	 * error. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	raise_fd_limit();

	/* The processes that serve clients must not inherit other descriptors of the calling
	 * process. */
	if (!sv->opt.stdio)
		close_fds(activation_end(given), UINT_MAX);

	/* Until the log is open, errors go to standard error. */
	rc = srv_check_files(&sv->opt, &e);
	if (rc == 0 && !sv->opt.stdio)
		rc = srv_prepare(sv, &e);
	if (rc == 0)
		rc = srv_open_log(&sv->opt, &e);
	if (rc < 0)
		return cannot_start(given, &e);

	if (sv->opt.stdio) {
		sigaction(SIGTERM, &stop, NULL);
		sigaction(SIGHUP, &stop, NULL);
		return srv_session_stdio(sv);
	}
	srv_say_start(sv);
	return srv_listen(sv, given);
}

int main(int argc, char **argv)
{
	struct server sv = { .argc = argc, .argv = argv, .sealed = -1 };
	struct err e = ERR_INIT, sockets = ERR_INIT;
	struct activation given;
	int bad, status;

	hold_standard_fds();
	log_init("rftpd", LOG_LV_INFO, false);
	limits_may_rise();
	notify_begin();
	bad = activation_take(&given, &sockets);

	if (srv_options_load(&sv.opt, argc, argv, &e) < 0) {
		cannot_start(&given, &e);
		status = EXIT_USAGE;
	} else {
		status = print_only(&sv.opt);
		if (status < 0 && bad < 0 && !sv.opt.stdio)
			status = cannot_start(&given, &sockets);
		if (status < 0)
			status = serve_clients(&sv, &given);
	}
	srv_clear(&sv);
	return status;
}
