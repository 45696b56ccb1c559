// SPDX-License-Identifier: Apache-2.0
/* The program rftp: parses the command line, and runs a command or the shell. */
#include "client/client.h"
#include "client/shell/shell.h"
#include "client/signals.h"

#include <poll.h>

/* Commands that users know from rclone and shells. */
static const struct option_hint commands_elsewhere[] = {
	{ "cat", "rftp get -q URL -" },
	{ "check", "rftp verify MANIFEST URL, or rftp sync --checksum --dry-run" },
	{ "config", "sections [NAME] of rftp.conf(5)" },
	{ "copy", "rftp put, get or cp, with -r --skip-same" },
	{ "copyto", "rftp put, get or cp" },
	{ "delete", "rftp rm -r" },
	{ "deletefile", "rftp rm" },
	{ "dir", "rftp ls" },
	{ "hashsum", "rftp hash -r --alg NAME" },
	{ "help", "rftp --help" },
	{ "listremotes", "sections [NAME] of rftp.conf(5)" },
	{ "lsd", "rftp ls" },
	{ "lsf", "rftp ls -1p" },
	{ "lsjson", "rftp ls --json" },
	{ "lsl", "rftp ls -lR" },
	{ "md5sum", "rftp hash -r --alg MD5" },
	{ "mirror", "rftp sync --delete" },
	{ "move", "rftp cp, then rftp rm; on one server rftp mv" },
	{ "purge", "rftp rm -r" },
	{ "sha256sum", "rftp hash -r" },
	{ "shell", "rftp URL" },
	{ "tree", "rftp ls -R" },
	{ NULL, NULL },
};

/* Report that the first word is not a command, and not a URL that stands alone. */
static enum exit_status report_no_command(const struct option_args *a)
{
	const char *word = a->words[0], *near = NULL;
	struct err e = ERR_INIT;
	struct url p;

	for (const struct command *c = commands; c->name && !near; c++)
		if (word_is_near(word, c->name))
			near = c->name;

	if (option_advice(commands_elsewhere, word)) {
		log_error("there is no command \"%s\" (use %s)", word,
			  option_advice(commands_elsewhere, word));
	} else if (near) {
		log_error("there is no command \"%s\" (did you mean %s?)", printable(word), near);
	} else if (!strstr(word, "://")) {
		log_error("there is no command \"%s\" (rftp --help lists them%s%s)",
			  printable(word), a->nwords > 1 ? "" : "; a server is rftp://",
			  a->nwords > 1 ? "" : printable(word));
	} else if (url_of_server(word, &p, &e)) {
		log_error("%s", e.text);
	} else {
		url_clear(&p);
		log_error("%s must be the only word, or follow a command (rftp --help lists them)",
			  printable(word));
	}
	return EXIT_USAGE;
}

/* Has the reader of standard output closed it, as head(1) does? */
static bool stdout_closed(void)
{
	struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };
	int was = errno;
	bool closed = poll(&out, 1, 0) > 0 && (out.revents & POLLERR);

	errno = was;
	return closed;
}

int main(int argc, char **argv)
{
	struct err e = ERR_INIT;
	enum exit_status status;
	struct option_args a;
	struct job j;

	hold_standard_fds();
	log_init("rftp", LOG_LV_WARN, false);
	limits_may_rise();
	if (options_parse(&a, argc, argv, &e)) {
		log_error("%s", e.text);
		return EXIT_USAGE;
	}

	signals_init();
	conf_use(&a);
	j = (struct job){ .args = &a, .words = a.words + 1, .nwords = a.nwords - 1 };
	if (a.nwords)
		j.cmd = command_find(a.words[0]);
	if (j.cmd)
		options_settle(&a, j.cmd->bit);

	status = EXIT_DONE;
	if (option_args_last(&a, "version"))
		help_version(stdout);
	else if (option_args_last(&a, "help") && j.cmd)
		help_command(stdout, j.cmd);
	else if (option_args_last(&a, "help"))
		help_program(stdout);
	else if (option_args_last(&a, "show-config"))
		status = show_config(&a);
	else if (!a.nwords || (a.nwords == 1 && !j.cmd && word_is_remote(a.words[0])))
		status = shell_main(&a);
	else
		status = j.cmd ? job_run(&j) : report_no_command(&a);
	option_args_clear(&a);

	/* A write error, such as a full disk, perhaps at an earlier write; but the reader may close a
	 * pipe. */
	errno = 0;
	if ((fflush(stdout) || ferror(stdout)) && status == EXIT_DONE && !stdout_closed()) {
		log_error("standard output: %s", strerror(errno ? errno : EIO));
		status = EXIT_SOME_FAILED;
	}
	return status;
}
