// SPDX-License-Identifier: Apache-2.0
/* The commands of the shell, for running them, for help, the manual and completion. */
#include "client/shell.h"

#include <string.h>

#define HEADING(text) { .help = text }

static const struct shell_command table[] = {
	HEADING("Servers"),
	{ "open", "connect", ON_STAT, 1, 2, WORDS_SERVER, WORDS_NONE, "URL | HOST [PORT]",
	  "connect to a server; others that were opened stay connected", shell_open },
	{ "user", NULL, ON_STAT, 1, 1, WORDS_NONE, WORDS_NONE, "NAME",
	  "log in to the open server as another user", shell_user },
	{ "close", "disconnect", ON_STAT, 0, 0, WORDS_NONE, WORDS_NONE, "",
	  "leave the open server", shell_close },

	HEADING("Directories"),
	{ "cd", "cwd", ON_STAT, 0, 1, WORDS_REMOTE_DIR, WORDS_NONE, "[DIRECTORY | -]",
	  "go to a directory there; to the home; back", shell_cd },
	{ "pwd", NULL, ON_STAT, 0, 0, WORDS_NONE, WORDS_NONE, "",
	  "say which directory there it is", shell_pwd },
	{ "lcd", NULL, ON_STAT, 0, 1, WORDS_LOCAL_DIR, WORDS_NONE, "[DIRECTORY]",
	  "go to a directory here", shell_lcd },
	{ "lpwd", NULL, ON_STAT, 0, 0, WORDS_NONE, WORDS_NONE, "",
	  "say which directory here it is", shell_lpwd },
	{ "ls", "dir list", ON_LS, 0, -1, WORDS_REMOTE, WORDS_REMOTE, "[-l | -1] [-adRrSt] [NAME...]",
	  "list directories there", shell_ls },

	HEADING("Copies"),
	{ "get", "recv reget", ON_GET, 1, 2, WORDS_REMOTE, WORDS_LOCAL, "[-r] NAME [LOCAL]",
	  "copy from there; a partial copy goes on", shell_get },
	{ "put", "send reput", ON_PUT, 1, 2, WORDS_LOCAL, WORDS_REMOTE, "[-r] LOCAL [NAME]",
	  "copy to there; a partial copy goes on", shell_put },
	{ "mget", NULL, ON_GET, 1, -1, WORDS_REMOTE, WORDS_REMOTE, "[-r] NAME...",
	  "copy several from there, into the directory here", shell_mget },
	{ "mput", NULL, ON_PUT, 1, -1, WORDS_LOCAL, WORDS_LOCAL, "[-r] LOCAL...",
	  "copy several to the directory there", shell_mput },
	{ "cp", NULL, ON_CP, 2, -1, WORDS_REMOTE, WORDS_REMOTE, "[-r] NAME... URL",
	  "copy from there to another server, directly", shell_cp },
	{ "bench", NULL, ON_BENCH, 0, 1, WORDS_REMOTE, WORDS_NONE,
	  "[--time TIME | --size SIZE] [--put | --get | --both]",
	  "measure the path, from memory to memory", shell_bench },

	HEADING("Files there"),
	{ "stat", NULL, ON_STAT, 1, -1, WORDS_REMOTE, WORDS_REMOTE, "NAME...",
	  "show what is known about files", shell_remote },
	{ "size", NULL, ON_STAT, 1, -1, WORDS_REMOTE, WORDS_REMOTE, "NAME...",
	  "say how many bytes files have", shell_size },
	{ "hash", NULL, ON_HASH, 0, -1, WORDS_REMOTE, WORDS_REMOTE, "[--alg NAME] NAME...",
	  "have the server compute digests of files", shell_remote },
	{ "mkdir", "mkd", ON_MKDIR, 1, -1, WORDS_REMOTE_DIR, WORDS_REMOTE_DIR, "[-p] NAME...",
	  "make directories", shell_remote },
	{ "rmdir", "rmd", ON_STAT, 1, -1, WORDS_REMOTE_DIR, WORDS_REMOTE_DIR, "NAME...",
	  "remove empty directories", shell_rmdir },
	{ "rm", "delete mdelete dele", ON_RM, 1, -1, WORDS_REMOTE, WORDS_REMOTE, "[-r] [--parts] NAME...",
	  "remove files", shell_remote },
	{ "mv", "rename", ON_MV, 2, 2, WORDS_REMOTE, WORDS_REMOTE, "NAME NAME",
	  "rename a file", shell_rename },
	{ "chmod", NULL, ON_STAT, 2, -1, WORDS_NONE, WORDS_REMOTE, "MODE NAME...",
	  "set the permission bits of files, in octal", shell_chmod },

	HEADING("The shell"),
	{ "set", NULL, ON_STAT, 0, 2, WORDS_OPTION, WORDS_NONE, "[OPTION [VALUE]]",
	  "set an option for all commands to come; show those that are set", shell_set },
	{ "unset", NULL, ON_STAT, 1, -1, WORDS_OPTION, WORDS_OPTION, "OPTION...",
	  "take back what set has set", shell_unset },
	{ "status", NULL, ON_STAT, 0, 0, WORDS_NONE, WORDS_NONE, "",
	  "say where the shell is, and what is set", shell_status },
	{ "prompt", NULL, ON_STAT, 0, 1, WORDS_NONE, WORDS_NONE, "[on | off]",
	  "ask about each file that mget or mput would copy, or do not", shell_prompt },
	{ "help", "?", ON_STAT, 0, 1, WORDS_COMMAND, WORDS_NONE, "[COMMAND]",
	  "list the commands, or tell about one", shell_help },
	{ "quit", "exit bye", ON_STAT, 0, 0, WORDS_NONE, WORDS_NONE, "",
	  "leave", shell_quit },
	{ "binary", "bin ascii image type", ON_STAT, 0, 1, WORDS_NONE, WORDS_NONE, "",
	  "nothing: files are always copied byte by byte", shell_nothing },
	{ .name = NULL },
};

const struct shell_command *shell_commands(void)
{
	return table;
}

/* Is name one of the words of list? */
static bool listed(const char *list, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = list; at && *at;) {
		size_t n = strcspn(at, " ");

		if (n == len && !memcmp(at, name, n))
			return true;
		at += n + strspn(at + n, " ");
	}
	return false;
}

const struct shell_command *shell_command_find(const char *name)
{
	for (const struct shell_command *c = table; c->name || c->help; c++)
		if (c->name && (!strcmp(c->name, name) || listed(c->also, name)))
			return c;
	return NULL;
}
