// SPDX-License-Identifier: Apache-2.0
/* The engine of rftp: connections to servers, and transfers with them. The commands of rftp and
 * librftp share it, so it keeps no state outside of its structs, asks no questions, reads no
 * rftp.conf, and writes nothing but log lines. A server and its transfers are used by one thread at
 * a time, unless a comment says otherwise. */
#ifndef RFTP_CLIENT_ENGINE_H
#define RFTP_CLIENT_ENGINE_H

#include "client/options.h"
#include "control/control.h"
#include "transfer/transfer.h"

/* ---- the program or library that uses the engine ---- */

struct fconn;
struct foreign_calls;

/* Its answers to the engine. It must outlive the servers that have it. */
struct engine_env {
	/* A descriptor that becomes, and stays, readable to stop the current call; -1: nothing will
	 * stop it. */
	int (*stop_fd)(void *arg);
	/* Has the user asked to stop? Any thread. */
	bool (*stopped)(void *arg);
	/* A transfer begins to poll stop_fd() (true), or ends that (false). Any thread. */
	void (*stoppable)(void *arg, bool on);
	/* May the key of an unknown server be trusted from now on? name: "host:port". NULL: no. */
	bool (*trusts)(void *arg, const char *name, const char *pin);
	/* A password, malloc'd; again: the last one was wrong. NULL, also its result: none. */
	char *(*password)(void *arg, const char *user, const char *host, bool again);
	/* The umask for new files. The process's own umask must not remove more than it. */
	mode_t (*umask)(void *arg);
	bool silent; /* the program shows no log lines: a warning about safety is an error */
	/* Connections by ftp:// and ftps://; NULL: they are refused. */
	const struct foreign_calls *foreign;
	void *arg;
};

/* ---- errors ---- */

/* Does code, a negative errno, mean that the control connection was lost, and a new one may
 * work? */
bool error_is_lost(int code);
/* Does code mean that the peer's data was malformed (-EPROTO) or failed its check (-EBADMSG)? It
 * was damaged in transit, or the peer breaks the protocol; the connection is unusable. */
bool error_is_damaged(int code);
/* Does code concern the connection or the login, not a file? */
bool error_is_connection(int code);

/* ---- a server ---- */

struct server {
	const struct engine_env *env;
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
	int refused;                /* the errno of the last server_connect() that failed */
	uint64_t used_ns;           /* ns; the end of the last command that used it */
	unsigned turn;              /* of tcp_connect_turn() */
	atomic_uint said;           /* enum fconn_warning; shared by its connections */
};

/* A server that is not connected yet, without options: the caller fills in o. NULL: out of
 * memory. */
struct server *server_make(const struct engine_env *env, const struct url *p);
void server_free(struct server *s);   /* closes */
/* Is p a URL on server s, with the same user? */
bool server_is(const struct server *s, const struct url *p);
/* Connect and log in, unless s is connected. 0; or a negative errno with text, which is
 * error_is_connection(). */
int server_connect(struct server *s, struct err *e);
/* Close the connection, if there is one. */
void server_close(struct server *s);
/* Servers end idle sessions, and firewalls forget idle connections: close the connection of s if
 * the server does not answer on it. Call it before a command after a pause. */
void server_check(struct server *s);
/* Open another connection to s, which was connected before, with the same user and the same key,
 * without questions to the user. Any thread, if no other thread uses s meanwhile. NULL with text;
 * ftp_close() frees the result. */
struct ftp_client *server_another(struct server *s, struct err *e);
struct fconn *server_another_foreign(struct server *s, struct err *e);
bool server_connected(const struct server *s);
/* The path of p for the server; "." for the directory where the login starts. */
const char *server_path(const struct url *p);

/* The calls for servers that are not rftpd: those of foreign.h. */
struct foreign_calls {
	struct fconn *(*open)(const struct ftp_client_config *c, struct err *e);
	void (*close)(struct fconn *c);
	int (*simple)(struct fconn *c, enum ftp_verb verb, const char *path, struct err *e);
	int (*set_mode)(struct fconn *c, const char *path, uint32_t mode, struct err *e);
	int (*stat)(struct fconn *c, const char *path, struct ftp_facts *f, struct err *e);
	int (*list)(struct fconn *c, const char *path, struct facts_list *list, struct err *e);
};

/* ---- commands to a connected server; 0, or a negative errno with text ---- */

/* Send "VERB path" by ftp_simple(). */
int server_simple(struct server *s, enum ftp_verb verb, const char *path, struct err *e);
/* Set the mode (octal digits) of path. */
int server_chmod(struct server *s, const char *mode, const char *path, struct err *e);
int server_rename(struct server *s, const char *from, const char *to, struct err *e);
/* ftp_stat() and ftp_list() on the connection of s. */
int server_stat(struct server *s, const char *path, struct ftp_facts *f, struct err *e);
/* As server_stat(), for the target of path if it is a symbolic link. -ELOOP: too many links. */
int server_stat_target(struct server *s, const char *path, struct ftp_facts *f, struct err *e);
int server_list(struct server *s, const char *path, struct facts_list *list, struct err *e);
/* Is path a directory there? Errors count as no. */
bool server_is_directory(struct server *s, const char *path);
/* Make path, which has no slash at its end, and its missing parents. An existing directory is no
 * error. */
int server_make_dirs(struct server *s, const char *path, struct err *e);

struct tree_removal {
	bool lists;  /* remove nothing, only report the names */
	const struct filter *filter; /* names to keep, with their directories; NULL: none */
	size_t rel_at; /* where in the path the path for the filter begins */
	/* Called for each removed name; depth 0: the tree itself. */
	void (*removed)(void *arg, const char *path, unsigned depth);
	void *arg;
};

/* Remove directory path with all its contents, name by name. Continues after an error; returns the
 * first one, with text. With a filter, directories with kept names stay. */
int server_remove_tree(struct server *s, const char *path, const struct tree_removal *r,
		       struct err *e);

/* "SHA-256 0-4095 HEX name", draft-bryan-ftp-ext-hash */
struct hash_reply {
	char alg[32], range[48], hex[2 * DIGEST_MAX + 1];
};

/* Choose the algorithm of all further digests on this connection; NULL: the server's own. */
int hash_choose(struct ftp_client *client, const char *alg, struct err *e);
/* The digest of path. alg: a digest_name() that the answer must have; NULL: any. */
int hash_ask(struct ftp_client *client, const char *path, const char *alg, struct hash_reply *r,
	     struct err *e);
/* -EBADMSG with text; place: of the answer. */
int digest_bad_answer(const char *place, const char *answer, struct err *e);

/* ---- a transfer that is repeated after a failure ---- */

/* Told about attempts, in the thread that calls attempts_make(). */
struct attempt_watch {
	/* Have both sides agreed on the transfer since the first attempt? */
	bool (*begun)(void *arg);
	/* Before an attempt. rereads: files that change while they are read will be read again, so
	 * they have not failed. */
	void (*rereads)(void *arg, bool rereads);
	/* Names that were in the way have been removed; the files follow in another attempt. */
	void (*pass)(void *arg, const struct transfer_result *r);
	/* An attempt has failed with e, and is repeated after wait seconds. */
	void (*retry)(void *arg, unsigned attempt, unsigned wait, const struct err *e);
};

struct attempts {
	/* connect: connect all servers. once: make one attempt; attempt counts from 1. Both return
	 * 0, or a negative errno with text. */
	int (*connect)(void *arg, struct err *e);
	int (*once)(void *arg, unsigned attempt, struct transfer_result *r, struct err *e);
	void *arg;
	const struct engine_env *env;
	const struct attempt_watch *watch; /* NULL: only once() is called */
	void *watch_arg;
	uint64_t retries;            /* the most repetitions */
	struct bulk_request *request;
	struct committed *committed; /* the files that later attempts skip; NULL: none */
	bool rereads;                /* the result counts the files that changed while they were
				      * read; connect() may set it */
	bool pipe;                   /* reads or writes a pipe, so there is one attempt only */
	bool to_stdout;              /* that pipe is standard output */
	bool resumable;              /* by attempts_make(): parts of files are kept */
};

/* Run the transfer with repetitions. 0 with *r; or a negative errno with text. */
int attempts_make(struct attempts *a, struct transfer_result *r, struct err *e);
/* Is another attempt useful after one that ended with code, a negative errno? done: the number of
 * repetitions so far; retries: the most. reached: all servers were connected before; otherwise only
 * damaged data (-EBADMSG) is worth one more attempt, because the host may not speak the protocol at
 * all. away: a server, or an RDMA device that carried data before, may be unreachable while it
 * restarts. Pure. */
bool again_worth(int code, uint64_t done, uint64_t retries, bool reached, bool away);
/* The seconds to wait before the repetition of attempt, which counts from 1. Pure. */
unsigned again_wait(unsigned attempt);

/* ---- between this host and a server ---- */

struct bulk {
	struct server *server;              /* not owned */
	struct transfer_config c;           /* bulk_once() adds the members that depend on the
					     * connection */
	uint8_t key[KEY_BYTES];             /* c.master points here during an attempt */
	struct attempts attempts;           /* by bulk_once(); the caller sets pipe, to_stdout and
					     * watch */
};

/* Fill in the members of q that come from options. The caller sets the paths. 0 or -ENOMEM. */
int bulk_request_of(const struct options *o, enum bulk_op op, struct bulk_request *q);
/* Append copies of n paths to the sources. 0 or -ENOMEM. */
int bulk_add_sources(struct bulk_request *q, char *const *paths, size_t n);
/* Prepare b from the options of s. The caller sets items, root, events and the paths. 0; or a
 * negative errno with text: the options ask for a feature that is not available here. In both cases
 * bulk_clear() frees b's contents. */
int bulk_prepare(struct bulk *b, struct server *s, enum bulk_op op, struct err *e);
/* Free b's contents, with the request. */
void bulk_clear(struct bulk *b);
/* Does the connected server accept a request with these flags (BULK_F_...)? 0, or
 * -EPROTONOSUPPORT with a text that names the versions or the missing features. */
int bulk_possible(const struct server *s, uint32_t flags, struct err *e);
/* Run one attempt of bulk, a struct bulk, without output. 0 with *r, or a negative errno with text.
 * Closes the server's connection if the error makes it unusable. */
int bulk_once(void *bulk, unsigned attempt, struct transfer_result *r, struct err *e);

/* ---- between two servers ---- */

struct third_side;

/* A copy from one server directly to another. */
struct third_copy {
	struct third_give give;             /* the request; the caller sets the paths */
	struct attempts attempts;           /* the caller sets watch */
	/* Called one at a time, from threads of the copy. Set before the first attempt. */
	struct transfer_events events;
	void (*sink_progress)(void *arg, const struct transfer_progress *p); /* NULL: not called */
	void *sink_arg;
	/* The rest belongs to third.c. */
	struct third_side *sides;           /* the source, the sink */
	pthread_mutex_t lock;
	int done;                           /* an eventfd: a side has ended */
};

/* Prepare a copy from one server to the other, with the options of from. Both have the same env.
 * 0, or a negative errno with text; in both cases
 * third_copy_clear() frees c's contents. */
int third_copy_init(struct third_copy *c, struct server *from, struct server *to,
		    const struct options *o, struct err *e);
void third_copy_clear(struct third_copy *c);

/* Are a and b equal? NULL equals only NULL. */
static inline bool same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

#endif
