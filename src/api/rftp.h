/* SPDX-License-Identifier: Apache-2.0 */
/* librftp: transfers with rftpd servers, by RDMA or TCP. librftp(3) has an introduction and an
 * example.
 *
 * A handle (struct rftp) is one connection to one server. One thread at a time may use a handle;
 * only rftp_cancel() may be called by any thread at any time. Different handles are independent.
 * The library has no global state, writes no output, installs no signal handler, never exits, and
 * leaves the process's umask and working directory alone. The threads of a call have ended when it
 * returns; only the look-up of a host name that was cancelled ends later. After fork(2) a child
 * must not use the handles of its parent.
 *
 * A function that returns int returns 0, or a negative errno value; rftp_error() then has a text
 * for people. Common values:
 *
 *   -ENOENT -EEXIST -ENOTDIR -EISDIR -ENOTEMPTY -ENOSPC -EROFS  of names, as of system calls
 *   -EACCES        refused: the login, a password, the server's key, or permission for a name
 *   -EPERM         the server does not allow it to this account
 *   -EINVAL        a wrong argument, URL or option
 *   -ECOMM         the connection was lost, or the peer sent malformed data
 *   -ECONNREFUSED -EHOSTUNREACH -ENETUNREACH  the server cannot be reached
 *   -ETIMEDOUT     the server does not answer, or the time of rftp_set_timeout() is over
 *   -EAGAIN        a file changed while it was read, or the server is busy
 *   -ESTALE        a file changed while it was read, or is not the one that was asked for
 *   -ECANCELED     rftp_cancel() was called
 *   -EOPNOTSUPP    the server does not offer this
 *   -ENOMEM        out of memory
 *
 * Strings are copied; the caller keeps its own. Remote paths are bytes as the server has them, not
 * URL-encoded; a relative one begins at the directory of the login. */
#ifndef RFTP_H
#define RFTP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

struct rftp;

/* The version of the library, such as "0.1.0". Never freed. */
const char *rftp_version(void);

/* ---- a handle ---- */

/* A handle without a server. NULL: out of memory or of descriptors. rftp_free() frees it. */
struct rftp *rftp_new(void);
/* Close the connection, and free the handle. No other function may be running on it. NULL is
 * harmless. */
void rftp_free(struct rftp *r);

/* Set an option of rftp.conf(5) by its name, such as "known-hosts", "ca", "cert", "key", "prot",
 * "transport", "rate", "retries", "connect-timeout". The library does not read rftp.conf(5) and the
 * environment variables of options. Options of the login count from the next rftp_open() on, others
 * from the next call. 0; or -EINVAL with text: no such option, or a wrong value. */
int rftp_set(struct rftp *r, const char *option, const char *value);
/* The password of the user in the URL; NULL: none. Without it a netrc file is asked, as by rftp(1).
 * 0 or -ENOMEM. */
int rftp_set_password(struct rftp *r, const char *password);
/* Called in the thread of a call, before anything is sent, if the server's key is not in the file
 * of known servers: shall it be trusted, and added to that file? server: "host:port"; pin: the
 * digest of the key. Not 0: yes. Without this function (NULL) and the option "accept-new", unknown
 * servers are refused with -EACCES. A key that has changed is always refused. */
typedef int rftp_trust_fn(void *arg, const char *server, const char *pin);
void rftp_set_trust(struct rftp *r, rftp_trust_fn *fn, void *arg);
/* The time limit of each further call, in milliseconds; 0: none. A call that exceeds it fails with
 * -ETIMEDOUT, and the connection is made anew by the next one. */
void rftp_set_timeout(struct rftp *r, unsigned ms);

/* Connect to the server of url, rftp://[user@]host[:port]/path or host:path by ssh, and log in. A
 * handle that was open is closed first. A lost connection is made anew by the call that needs it.
 * 0, or a negative errno. */
int rftp_open(struct rftp *r, const char *url);
/* The decoded path of that URL; "" before rftp_open(). Valid until the next rftp_open(), rftp_at()
 * or rftp_free(). */
const char *rftp_path(const struct rftp *r);
/* Let rftp_path() be the path of url, without connecting. 0; -EXDEV: url is on another server than
 * that of rftp_open(), or has another user; -EINVAL: it is no URL of a server. */
int rftp_at(struct rftp *r, const char *url);
/* The text of the last error on this handle; "" if there was none. Valid until the next call. */
const char *rftp_error(const struct rftp *r);

/* End the current call with -ECANCELED, and also all later ones until rftp_uncancel(). A stopped
 * transfer can be resumed. Any thread; not while rftp_free() runs. */
void rftp_cancel(struct rftp *r);
void rftp_uncancel(struct rftp *r);

/* ---- names on the server ---- */

struct rftp_stat {
	uint32_t mode;       /* type and permissions, as st_mode of stat(2) */
	uint32_t uid, gid;   /* valid if has_owner */
	uint64_t size;       /* bytes */
	int64_t mtime_s;     /* seconds since 1970 */
	uint32_t mtime_ns;
	uint8_t has_owner;
	uint8_t has_mode;    /* 0: the permissions in mode are a guess */
	uint8_t reserved[34]; /* 0 */
};

/* The facts of path; rftp_stat() follows symbolic links, rftp_lstat() does not. */
int rftp_stat(struct rftp *r, const char *path, struct rftp_stat *st);
int rftp_lstat(struct rftp *r, const char *path, struct rftp_stat *st);
/* Call fn for each name in directory path, without "." and "..", in no particular order; st is that
 * of rftp_lstat(). fn must not use the handle. A result of fn other than 0 ends the listing and
 * becomes the result. */
typedef int rftp_list_fn(void *arg, const char *name, const struct rftp_stat *st);
int rftp_list(struct rftp *r, const char *path, rftp_list_fn *fn, void *arg);
/* parents not 0: make missing parents, too, and an existing directory is no error. */
int rftp_mkdir(struct rftp *r, const char *path, int parents);
/* Remove a file or a link; a directory fails with -EISDIR. */
int rftp_unlink(struct rftp *r, const char *path);
/* Remove an empty directory. */
int rftp_rmdir(struct rftp *r, const char *path);
/* Remove path, with all its contents if it is a directory. */
int rftp_remove_tree(struct rftp *r, const char *path);
/* Give from the name to on the same server; an existing file is replaced. */
int rftp_rename(struct rftp *r, const char *from, const char *to);
/* Set the permissions, at most 07777. */
int rftp_chmod(struct rftp *r, const char *path, unsigned mode);
/* The digest of a file in lower-case hex, computed by the server. alg: "adler32", "crc32c", "md5",
 * "sha256", and the other names of rftp-verify(1). hex: room for size bytes with the NUL; 129 are
 * always enough. -ERANGE: there is no room. */
int rftp_checksum(struct rftp *r, const char *path, const char *alg, char *hex, size_t size);
/* The bytes that this account may still store in the filesystem of directory path. -EOPNOTSUPP: the
 * server does not tell. */
int rftp_space(struct rftp *r, const char *path, uint64_t *available);

/* ---- transfers ---- */

/* Flags. */
#define RFTP_RECURSIVE 1u  /* directories with all their contents */
#define RFTP_PARENTS 2u    /* make missing parents of the destination */
#define RFTP_EXCLUSIVE 4u  /* replace nothing: -EEXIST if a file exists; the others are copied */

/* How far a transfer is. */
struct rftp_progress {
	uint64_t bytes;        /* arrived, with those kept from an earlier attempt */
	uint64_t bytes_known;  /* of all files found so far; 0: not known */
	uint64_t files, failed, skipped;
	double seconds;        /* since its begin */
	uint64_t reserved[4];  /* 0 */
};

/* Called about five times a second during transfers, from a thread of the library, one call at a
 * time. It must be quick, and must not use the handle but for rftp_cancel(). NULL: no calls. */
typedef void rftp_progress_fn(void *arg, const struct rftp_progress *p);
void rftp_set_progress(struct rftp *r, rftp_progress_fn *fn, void *arg);
/* Called in the same way for each file that has arrived (error 0, text "") or failed (error: a
 * negative errno, with text). path: its name on this host; in a copy between servers, at the
 * source. */
typedef void rftp_file_fn(void *arg, const char *path, uint64_t bytes, int error,
			  const char *text);
void rftp_set_file(struct rftp *r, rftp_file_fn *fn, void *arg);

/* Copy local, a file or with RFTP_RECURSIVE a directory, to remote, or remote to local. The place
 * of the copy follows the rule of rftp(1): below remote if that is an existing directory or ends in
 * "/", otherwise remote itself. A file appears whole or not at all, and an interrupted
 * transfer resumes. If some files fail, the others are copied, and the result is the error of the
 * first one. */
int rftp_put(struct rftp *r, const char *local, const char *remote, unsigned flags);
int rftp_get(struct rftp *r, const char *remote, const char *local, unsigned flags);
/* Copy the bytes of fd from its present position to its end into the file remote; or the file
 * remote into fd, in order. fd may be a pipe, a socket or a file, stays open, and must not be used
 * otherwise meanwhile. Not resumed after a lost connection. */
int rftp_put_fd(struct rftp *r, int fd, const char *remote, unsigned flags);
int rftp_get_fd(struct rftp *r, const char *remote, int fd);
/* The same for length bytes at offset; length 0: nothing is copied, and nothing checked. -ERANGE:
 * the file does not have them all. st, by rftp_stat(), not NULL: the file must have this size and
 * time, otherwise -ESTALE before the first byte. So several ranges are of one version of the
 * file. */
int rftp_get_range(struct rftp *r, const char *remote, const struct rftp_stat *st, uint64_t offset,
		   uint64_t length, int fd);
/* Copy the path from on the server of r to the path to on the server of other, directly between
 * both. Progress, errors, the time limit and rftp_cancel() are those of r; both handles are in
 * use. */
int rftp_copy(struct rftp *r, const char *from, struct rftp *other, const char *to, unsigned flags);
/* The numbers of the last transfer, as at its end. */
void rftp_result(const struct rftp *r, struct rftp_progress *p);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
