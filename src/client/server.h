// SPDX-License-Identifier: Apache-2.0
/* A server that commands use: its URL and options, and the connection, if it is open. Main thread,
 * unless a comment says otherwise. */
#ifndef RFTP_CLIENT_SERVER_H
#define RFTP_CLIENT_SERVER_H

#include "client/client.h"
#include "client/foreign/foreign.h"
#include "control/control.h"

struct server {
	struct url url;             /* everything but the path */
	struct options o;           /* the options for this host */
	char *login;                /* the user from the netrc, if url has none */
	char *password;             /* kept for connecting again; NULL: not needed so far */
	char *pin;                  /* the pin of its key at the first connection; NULL: not
				     * connected yet, or no TLS */
	bool by_netrc;              /* the first password to try is from the netrc */
	bool port_path;             /* the URL was HOST:DIGITS, which is a path by ssh */
	struct ftp_client *client;  /* of an rftpd; NULL: not connected */
	struct fconn *foreign;      /* of another FTP server; NULL: not connected */
	uint64_t used_ns;           /* ns; the end of the last command that used it */
	unsigned turn;              /* of tcp_connect_turn() */
	atomic_uint said;           /* enum fconn_warning; shared by its connections */
};

/* A server that is not connected yet. NULL with text: the options for this host are wrong, or out
 * of memory. */
struct server *server_new(const struct job *j, const struct url *p, struct err *e);
void server_free(struct server *s);   /* closes */
/* Is p a URL on server s, with the same user? */
bool server_is(const struct server *s, const struct url *p);
/* Connect and log in, unless s is connected. 0; or a negative errno with text, for which exit_of()
 * gives EXIT_CONNECT or EXIT_INTERRUPTED. */
int server_connect(struct server *s, struct err *e);
/* Close the connection, if there is one. */
void server_close(struct server *s);
/* Open another connection to s, which was connected before, with the same user and the same key,
 * without questions to the user. Any thread, if no other thread uses s meanwhile. NULL with text;
 * ftp_close() frees the result. */
struct ftp_client *server_another(struct server *s, struct err *e);
struct fconn *server_another_foreign(struct server *s, struct err *e);
bool server_connected(const struct server *s);

/* ---- commands to a connected server ---- */

/* Send "VERB path" by ftp_simple(). 0, or a negative errno with text. */
int server_simple(struct server *s, enum ftp_verb verb, const char *path, struct err *e);
/* Set the mode (octal digits) of path. 0, or a negative errno with text. */
int server_chmod(struct server *s, const char *mode, const char *path, struct err *e);
/* ftp_stat() and ftp_list() on the connection of s. */
int server_stat(struct server *s, const char *path, struct ftp_facts *f, struct err *e);
int server_list(struct server *s, const char *path, struct facts_list *list, struct err *e);

struct tree_removal {
	bool lists;  /* remove nothing, only report the names */
	const struct filter *filter; /* names to keep, with their directories; NULL: none */
	/* Called for each removed name; depth 0: the tree itself. */
	void (*removed)(void *arg, const char *path, unsigned depth);
	void *arg;
};

/* Remove directory path with all its contents, name by name. Continues after an error; returns the
 * first one, with text. With a filter, directories with kept names stay. */
int server_remove_tree(struct server *s, const char *path, const struct tree_removal *r,
		       struct err *e);

/* Are a and b equal? NULL equals only NULL. */
static inline bool server_same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

/* ---- servers that stay connected between commands ---- */

struct servers {
	struct server **all;
	size_t n;
};

void servers_clear(struct servers *k); /* closes */
/* Remove and close the server of p, if k has it. */
void servers_drop(struct servers *k, const struct url *p);
/* The server of p for one command of j: the kept one, with this command's options and connected if
 * possible, or a new one. The caller owns it until server_give(). NULL with text. */
struct server *server_take(const struct job *j, const struct url *p, struct err *e);
/* The command has finished with s: keep it, or free it if j keeps no servers. NULL is harmless. */
void server_give(const struct job *j, struct server *s);

/* ---- the URLs of a command ---- */

/* The path of p for the server; "." for the directory where the login starts. */
const char *server_path(const struct url *p);
/* The name to print for p, j's current word. */
const char *server_shown(const struct job *j, const struct url *p);

/* Call fn for each word of j, a URL, with its connected server. Consecutive words on the same
 * server share the connection. A failure is reported, and the next word follows. Returns the exit
 * status. */
enum exit_status each_url(struct job *j, int (*fn)(struct job *j, struct server *s,
						   const struct url *p, struct err *e));

#endif
