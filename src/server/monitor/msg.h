// SPDX-License-Identifier: Apache-2.0
/* All messages between the processes of an rftpd that root runs (docs/TRUST.md):
 *
 *   monitor  root; listens, counts, forks; never reads a byte that a client sent
 *   preauth  one per connection, as a user of its own in an empty root: TLS, and FTP until the
 *            login; afterwards it passes bytes on
 *   auth     one per attempt to log in; root until its child has checked the password, then the
 *            session, with the identity of the account and nothing else; that child has a
 *            child of its own, without rights, that reads a certificate
 *
 * A message is one of the structs below, in memory layout: both sides are the same program. No
 * receiver trusts the contents. A string must end with NUL within its array. */
#ifndef RFTP_SERVER_MONITOR_MSG_H
#define RFTP_SERVER_MONITOR_MSG_H

#include "control/control.h"

#include <limits.h>
#include <sys/mman.h>

enum { NAME_ROOM = 256, PASSWORD_ROOM = 1024 };

/* ---- requests to the monitor, and its replies; monitor/handlers.c has the rules ---- */

enum request_type {
	REQUEST_LOG = 1,      /* a record of log_set_sink(), or its first part */
	REQUEST_LOG_MORE,     /* the next part of that record */
	REQUEST_LOGIN,        /* struct login_request; answered by login_reply */
	REQUEST_REPORT,       /* struct check_report; answered by session_limits, if separate */
	REQUEST_MEMORY,       /* struct memory_request; answered by memory_reply */
	REQUEST_SESSION,      /* struct session_report */
	REQUEST_TRANSFER,     /* struct transfer_report */
	REQUEST_STATUS,       /* struct status_request; answered by status_reply */
	REQUEST_FACTS,        /* struct facts_request; answered by facts_reply */
};

/* The header of each packet. */
struct request_head {
	uint32_t type;
	uint32_t size;          /* bytes that follow in this packet; for a log record the bytes of
				 * all its packets */
};

/* A client wants to log in. The monitor replies when it is this login's turn (monitor.h). A
 * process that serves its connection alone sends this, too, and a check_report after its check. */
struct login_request {
	char user[NAME_ROOM];
};

/* With code 0 a preauth process also gets a descriptor: the line to the auth process. */
struct login_reply {
	int32_t code;           /* 0; -EACCES: refused; -EAGAIN: try again later */
};

/* The check of a password or a certificate has ended. */
struct check_report {
	int32_t code;           /* 0; -EACCES: the password was wrong, and counts as a failure;
				 * -EKEYREJECTED: the certificate is not the user's, which does not
				 * count; other errors */
	char name[64];          /* of the account */
};

struct session_limits {
	int32_t code;           /* 0; -EAGAIN: the account has too many sessions */
	uint32_t counted;       /* 1: the session must request memory for each transfer */
	uint64_t memory;        /* bytes for the pools of a transfer; 0: the session's default */
	uint64_t lock;          /* bytes of pools that may be locked without a memory request */
};

/* The session asks for this total: more when a transfer begins, less when it ends. */
struct memory_request {
	uint64_t memory;        /* bytes for pools */
};

struct memory_reply {
	int32_t code;           /* 0; -EAGAIN: nothing is free for now; other errors */
	uint64_t memory;        /* with code 0: the session's new total in bytes, perhaps less than
				 * requested */
	char why[200];          /* the text of an error, for the user */
};

/* The session begins. */
struct session_report {
	uint32_t tls;           /* 1: its control connection is under TLS */
	uint32_t method;        /* enum auth_method */
	char name[64];          /* of the account; the monitor believes only a process that serves
				 * its connection alone */
};

enum transfer_state { TRANSFER_BEGINS, TRANSFER_RUNS, TRANSFER_ENDS };
enum { BY_FTP = 3, CARRIERS = 5 };

/* The session's transfer; it has one at a time. */
struct transfer_report {
	uint32_t state;         /* enum transfer_state */
	uint32_t sends;         /* 1: this server is the source */
	uint32_t carrier;       /* BY_FTP, or the agreement's TRANSPORT_...; 0: not agreed */
	int32_t code;           /* of TRANSFER_ENDS: 0 or a negative errno */
	uint64_t bytes, files, failed; /* so far */
	char path[512];         /* its start, if it is longer */
};

extern const char *const carrier_words[CARRIERS];

/* The client wants to see running transfers. The monitor chooses those that it may see. */
struct status_request {
	uint32_t from;          /* 0, or next of the last reply */
};

struct status_reply {
	uint32_t next;          /* 0: there are no more; the other members are empty */
	uint64_t age;           /* ns since the transfer began */
	char user[64], peer[80];
	struct transfer_report transfer;
};

/* The client wants the facts of this machine, which a session process cannot read. A child of the
 * monitor answers. */
struct facts_request {
	uint64_t storage;       /* dev_t of the storage of the session's files; 0: none */
};

enum { FACTS_ROOM = 96 << 10 };

struct facts_reply {
	int32_t code;           /* 0; -EBUSY: another child is at work, try again; other errors */
	char text[FACTS_ROOM];  /* the facts, one line of JSON each */
};

/* ---- preauth and auth process, on the line ---- */

struct credentials {
	char user[NAME_ROOM];
	uint32_t by_certificate; /* 1: a struct cert_proof follows; 0: check the password */
	char password[PASSWORD_ROOM];
};

/* The client's proof that it owns the certificate's key, as tls_proof() gives it. */
struct cert_proof {
	uint32_t len;           /* the number of used bytes */
	uint8_t bytes[TLS_PROOF_MAX];
};

/* With code 0 the message carries a descriptor for stream_packets(): it connects to the session,
 * for the bytes of the control connection in clear. The preauth process answers with a struct
 * ftp_handed. */
struct login_result {
	int32_t code;           /* 0; -EACCES: wrong; -EKEYEXPIRED: right, but the login is refused;
				 * -EAGAIN: try again later; other errors */
	char name[64];          /* of the account */
	char why[200];          /* the reason of -EKEYEXPIRED, for the user */
};

/* The session asks for TLS on a data connection; the request carries its descriptor. */
struct data_request {
	uint32_t kind;          /* DATA_TLS */
};

enum { DATA_TLS = 1 };

/* With code 0 the message carries a descriptor for stream_packets(). */
struct data_reply {
	int32_t code;           /* 0 or a negative errno */
	char why[200];
};

/* ---- the channel between the monitor and one process ---- */

/* Requests go up through a pipe; replies come down through a socket that the monitor has shut down
 * for reading. Neither can carry a descriptor to the monitor. This matters because the last
 * close(2) of a descriptor can block: of a connection with SO_LINGER, or of a file in a file system
 * that a user serves. A process must close every descriptor that is sent to its socket, even if it
 * never receives the message. */
struct channel {
	int up, down;           /* -1: closed */
};

enum { REQUEST_MAX = PIPE_BUF }; /* the most bytes of a packet, header included */

/* 0 or a negative errno. */
int channel_open(struct channel *monitor, struct channel *process);
void channel_close(struct channel *c);
/* In a process: send a request of len bytes within timeout_ms (-1: no limit). 0; -EPIPE: the
 * monitor has ended; -ETIMEDOUT; or another negative errno. Any thread. */
int channel_send(const struct channel *c, enum request_type type, const void *p, size_t len,
		 int timeout_ms);
/* In the monitor: read a packet, without waiting. Returns its length in bytes, at least that of a
 * header; -EAGAIN: there is none; -EPIPE: the process has closed its end; -EPROTO: the packet is
 * not a request. */
int channel_read(const struct channel *c, uint8_t packet[REQUEST_MAX]);
/* In a process: request a login of user, and wait for its turn. client: the client's connection.
 * *line: the received descriptor, which the caller owns; line NULL: none may arrive. 0;
 * -ECONNRESET: the client has closed its connection; or another negative errno; with text. */
int monitor_silent(struct err *e, int code); /* text for a missing answer; returns code */
int channel_await_login(const struct channel *c, const char *user, int client, int *line,
			struct err *e);
/* In a process that must not write the log itself: from now on send log lines through c. Closes the
 * log and standard input, output and error. The process must have one thread only. */
void channel_log(const struct channel *c);

/* ---- messages over sockets, with at most one descriptor ---- */

/* Make a pair of connected sockets for messages. 0 or a negative errno. */
int msg_pair(int fd[2]);
/* Send len bytes, and the descriptor pass (-1: none), which stays the caller's, within timeout_ms
 * (-1: no limit). 0; -EPIPE: the other side has closed; -ETIMEDOUT; or another negative errno. */
int msg_send(int fd, const void *p, size_t len, int pass, int timeout_ms);
/* Receive exactly len bytes within timeout_ms (-1: no limit), and a descriptor into *passed (-1:
 * none arrived), which the caller owns; passed NULL: none may arrive. 0; -EPIPE: the other side has
 * closed; -EPROTO: another length, or unwanted descriptors, which are closed; -ETIMEDOUT; or
 * another negative errno. */
int msg_receive(int fd, void *p, size_t len, int *passed, int timeout_ms);

/* ---- memory that children of fork(2) need not wipe ---- */

/* len zero bytes, private to this process; NULL: no memory. A child cannot cheaply wipe inherited
 * secrets: the first write to a page copies it. Unmapping these pages costs nothing. */
static inline void *pages_new(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* len: the length given at the allocation. p NULL is harmless. */
static inline void pages_free(void *p, size_t len)
{
	if (p)
		munmap(p, len);
}

#endif
