// SPDX-License-Identifier: Apache-2.0
/* FTP servers that need not be rftpd, reached by ftp:// or ftps://: control connections by libcurl,
 * and transfers over several of them, with a data connection per file. "Here" is this host, "there"
 * is the server. Functions with an err return 0 or a negative errno with text, unless they say
 * otherwise. */
#ifndef RFTP_CLIENT_FOREIGN_FOREIGN_H
#define RFTP_CLIENT_FOREIGN_FOREIGN_H

#include "client/client.h"
#include "client/engine.h"
#include "client/names.h"

#include <stdatomic.h>

#define FOREIGN_CONNECTIONS 4      /* without --channels */
#define FOREIGN_CONNECTIONS_MOST 32
#define FOREIGN_DEPTH_MOST 200     /* of directories; deeper ones are taken for a circle of links */
/* The suffix of parts on the server. The same names without it are reserved by rftpd for its own
 * parts. */
#define FOREIGN_PART ".put"
/* The suffix of a file that is being replaced, on servers that do not rename over a file. */
#define FOREIGN_OLD ".put.old"

/* ---- a connection ----
 * One thread uses it. Paths are below the login's directory unless they begin with "/"; a name with
 * a line break in it is refused (-EILSEQ). */

/* Features that FEAT has named, or common ones that the server has not refused so far. */
enum fconn_feature {
	FCONN_MLST = 1 << 0, FCONN_MLSD = 1 << 1, FCONN_SIZE = 1 << 2, FCONN_MDTM = 1 << 3,
	FCONN_MFMT = 1 << 4, FCONN_REST = 1 << 5, FCONN_APPE = 1 << 6, FCONN_HASH = 1 << 7,
	FCONN_XMD5 = 1 << 8, FCONN_XSHA1 = 1 << 9, FCONN_XSHA256 = 1 << 10,
	FCONN_XSHA512 = 1 << 11, FCONN_MDTM_SET = 1 << 12, FCONN_UTIME = 1 << 13,
	FCONN_CHMOD = 1 << 14, FCONN_LIST_ALL = 1 << 15,
	FCONN_DIGESTS = FCONN_HASH | FCONN_XMD5 | FCONN_XSHA1 | FCONN_XSHA256 | FCONN_XSHA512,
};

struct server;
struct report;
struct root;
struct transfer_item;

/* A sink takes n bytes of a file or a listing; a source gives up to n bytes (0: the end). A negative
 * errno with text ends the transfer. */
typedef int fconn_sink(void *arg, const void *p, size_t n, struct err *e);
typedef ssize_t fconn_source(void *arg, void *p, size_t n, struct err *e);

struct fconn {
	/* Other files may read these members: */
	const char *host;          /* of the URL, which must outlive the connection */
	char *home;                /* the directory of the login */
	char describe[256];        /* "host:port, TLSv1.3 ..." */
	char hashes[128];          /* the algorithms of HASH, as FEAT lists them */
	bool prot_p;               /* data connections use TLS */
	unsigned has;              /* enum fconn_feature; cleared when one turns out to be absent */
	const atomic_bool *stop;   /* set by the user: true ends a call with -EINTR; NULL: never */
	struct ftp_reply reply;    /* the last one */
	struct err gone;           /* why the connection is lost; code 0: it is not */

	/* Only conn.c uses these members: */
	void *h;                   /* the CURL easy handle */
	const struct ftp_client_config *cfg; /* only while the connection is opened */
	const char *user;          /* of the URL */
	char *base;                /* "ftp://host:port" */
	char *ca, *cert, *key;     /* files; NULL: none */
	long connect_ms;           /* time limit of connecting and login */
	uint16_t port;
	bool tls;
	bool no_password;          /* end the login when the server asks for a password */
	bool asked;                /* the server has asked for a password */
	bool ascii;                /* TYPE A may be set */
	bool commanded;            /* a command may have removed or left the directory of the last
				    * CWD */
	bool two_slashes;          /* that directory's URL ends with two slashes */
	atomic_uint *said;
	struct tls_hook hook;      /* with the pin of the server's key */
	int (*wish)(void *arg);    /* the config's stop() */
	void *arg;
	/* Members of the current call: */
	int wish_fd;
	struct err *e;
	int rc;                    /* a callback's failure, with its text in e */
	char why[256];             /* libcurl's text */
	int socket;                /* the last one opened: that of the data connection */
	uint64_t rate;
	fconn_sink *sink;
	fconn_source *source;
	void *file;                /* the argument of sink and source */
	uint64_t given;            /* bytes that the source has given */
	bool end_read;             /* the source has ended */
	bool paused;               /* the source waits until libcurl has sent its buffered bytes */
	bool ended;                /* the server has closed the data connection of a STOR */
};

/* Is the connection usable, as far as is known? After its loss each further call fails with the
 * first reason. */
static inline bool fconn_usable(const struct fconn *c)
{
	return c && !c->gone.code;
}

/* 0: the connection is usable; otherwise the errno of its loss, with its text in e. */
static inline int fconn_lost(const struct fconn *c, struct err *e)
{
	if (c->gone.code)
		*e = c->gone;
	return c->gone.code;
}

static inline bool fconn_has(const struct fconn *c, unsigned features)
{
	return c->has & features;
}

/* Connect, start TLS, log in, learn the features. NULL with text; e->code as of ftp_connect(). A
 * build without libcurl always fails, with -EPROTONOSUPPORT. */
struct fconn *fconn_open(const struct ftp_client_config *cfg, struct err *e);
void fconn_close(struct fconn *c);       /* sends QUIT; waits at most 1 s. NULL is harmless */

/* ---- commands (ask.c) ---- */

/* Warnings that are given once for each server. */
enum fconn_warning { FCONN_SAID_MLST = 1, FCONN_SAID_MODES = 2, FCONN_SAID_TIMES = 4,
		     FCONN_SAID_DIGESTS = 8 };
/* Must w still be given? Then it counts as given. Any thread. */
bool fconn_warns(const struct fconn *c, enum fconn_warning w);
/* Send "VERB path"; success is 2xx, and 350 for RNFR. */
int fconn_simple(struct fconn *c, enum ftp_verb verb, const char *path, struct err *e);
int fconn_rename(struct fconn *c, const char *from, const char *to, struct err *e);
/* As ftp_stat(). If the server has no MLST, the name is the whole path. */
int fconn_stat(struct fconn *c, const char *path, struct ftp_facts *f, struct err *e);
/* As ftp_list(). */
int fconn_list(struct fconn *c, const char *path, struct facts_list *list, struct err *e);
/* -EOPNOTSUPP: the server has no such command. */
int fconn_size(struct fconn *c, const char *path, uint64_t *size, struct err *e);
int fconn_mtime(struct fconn *c, const char *path, int64_t *sec, uint32_t *ns, struct err *e);
int fconn_set_mtime(struct fconn *c, const char *path, int64_t sec, struct err *e);
int fconn_set_mode(struct fconn *c, const char *path, uint32_t mode, struct err *e);
/* The digest of path in lower-case hex. *alg: a name for digest_new(); NULL: set it to the server's
 * best algorithm. */
int fconn_digest(struct fconn *c, const char *path, const char **alg,
		 char hex[2 * DIGEST_MAX + 1], struct err *e);
/* For conn.c: learn the features from the reply to FEAT, which may be a refusal. */
int fconn_learn(struct fconn *c, struct err *e);
/* Returns path in the form for commands: absolute, without "~" and without a slash at its end;
 * malloc'd. NULL with text: out of memory, or path has a line break in it. */
char *fconn_absolute(const struct fconn *c, const char *path, struct err *e);

/* The calls above for struct engine_env. */
extern const struct foreign_calls foreign_calls;

/* ---- files (conn.c) ---- */

/* Receive the file from byte at on. rate: bytes per second that the sink takes; 0: any. *cut: TLS
 * for the data ended without close_notify, so only the size shows completeness. */
int fconn_retrieve(struct fconn *c, const char *path, uint64_t at, uint64_t rate,
		   fconn_sink *fn, void *arg, bool *cut, struct err *e);
/* Send a file. *at: the size of the part there, to which REST or APPE appends; becomes 0, before
 * the first call of fn, if the server cannot resume. If fn fails, the server keeps the part. */
int fconn_store(struct fconn *c, const char *path, uint64_t *at, fconn_source *fn, void *arg,
		struct err *e);

/* ---- for ask.c ---- */

/* Send "VERB beforePATHbehind"; each of the three may be NULL. Returns the reply's code. */
int fconn_ask(struct fconn *c, const char *verb, const char *before, const char *path,
	      const char *behind, struct err *e);
/* Run command, a kind of LIST, in dir (NULL: command names its directory), and append its text to
 * l. */
int fconn_list_text(struct fconn *c, const char *dir, const char *command, struct listing_text *l,
		    struct err *e);

/* ---- transfers (engine.c) ---- */

struct foreign_job {
	struct server *server;
	struct report *report;
	struct root *root;
	size_t nsources;
	bool several;              /* more than one source */
	bool into;                 /* --files-from: into a directory, names are paths */
	/* get: the paths there, and the destination here */
	const char *const *sources;
	const char *base;          /* of --files-from: the directory that names are relative to; "" */
	const struct transfer_item *to;
	/* put: the sources here, and the destination there */
	const struct transfer_item *items;
	const char *const *targets; /* NULL: none */
	const char *path;          /* the destination there */
};

/* Run the transfer and report all its errors. Returns the exit status. */
enum exit_status foreign_get(const struct foreign_job *job);
enum exit_status foreign_put(const struct foreign_job *job);

/* Refuse options that do not apply to a foreign server: 0, or -EINVAL with text. put false: get,
 * and commands that copy nothing. */
int foreign_check(const struct job *j, bool put, struct err *e);
/* Warn, once in a run, that there is no RDMA and no block integrity. */
void foreign_note(const struct server *s);

#endif
