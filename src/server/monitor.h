// SPDX-License-Identifier: Apache-2.0
/* What rftpd's processes say to each other when it is run by root: all of it. docs/TRUST.md
 * tells who trusts whom with what.
 *
 *   monitor  root; listens, counts, forks; never reads what a client sent
 *   front    one per connection, a user of its own in an empty root; TLS, and FTP until the
 *            login; afterwards it passes bytes on
 *   gate     one per attempt to log in; root until a child of its has checked the password,
 *            then the session, which has the identity of who logged in and nothing else;
 *            the child has one of its own, with a front's rights, read a certificate
 *
 * Each message is one of the structs below, as it is: both sides are the same program. Nobody
 * believes what is in one. Strings end with a NUL within their room. */
#ifndef RFTP_SERVER_MONITOR_H
#define RFTP_SERVER_MONITOR_H

#include "control/control.h"

#include <stdint.h>

enum { NAME_ROOM = 256, PASSWORD_ROOM = 1024 };

/* ---- front and monitor ---- */

/* A client wants to log in. The front then waits for the answer, which comes when it is this login's
 * turn (turns.h). Where a connection is one process, that process asks, and answers code 0 with a
 * struct gate_report. */
struct front_ask {
	char user[NAME_ROOM];
};

/* With code 0 comes a descriptor: the line to the gate. One process gets none. */
struct front_answer {
	int32_t code;           /* 0; -EACCES: refused, for now or for good; -EAGAIN: later */
};

/* ---- front and gate, on the line ---- */

struct gate_ask {
	char user[NAME_ROOM];
	uint32_t by_certificate; /* 1: a struct gate_proof follows; 0: by the password */
	char password[PASSWORD_ROOM];
};

/* By what the client has shown his certificate: of tls_proof. */
struct gate_proof {
	uint32_t len;           /* of bytes that count */
	uint8_t bytes[TLS_PROOF_MAX];
};

/* With code 0 comes a descriptor: the session's end of the control connection, in clear, for
 * stream_packets. The front answers with a struct ftp_handed. */
struct gate_answer {
	int32_t code;           /* 0; -EACCES: wrong; -EKEYEXPIRED: right, but not let in;
				 * -EAGAIN: later; other errors */
	char name[64];          /* of the account */
	char why[200];          /* of -EKEYEXPIRED, for the user */
};

/* The session wants a data connection, whose descriptor comes with it, put under TLS. */
struct guard_ask {
	uint32_t what;          /* GUARD_DATA */
};

enum { GUARD_DATA = 1 };

/* With code 0 comes a descriptor, for stream_packets. */
struct guard_answer {
	int32_t code;           /* 0 or a negative errno */
	char why[200];
};

/* ---- gate and monitor ---- */

/* The password was checked, or the certificate. */
struct gate_report {
	int32_t code;           /* 0; -EACCES: the password was wrong, which costs; -EKEYREJECTED:
				 * the certificate is not his, which is no guess; other errors */
	char name[64];          /* of the account */
};

/* What the session may have. */
struct gate_orders {
	int32_t code;           /* 0; -EAGAIN: there are too many */
	uint32_t counted;       /* 1: for each transfer it must ask for memory */
	uint64_t memory;        /* bytes for the pools of a transfer; 0: as the session chooses */
	uint64_t lock;          /* bytes of pools that may be locked; more may be with what it
				 * asks for */
};

/* ---- session and monitor, where there is a budget of memory ---- */

/* The session wants to have so much in all: more when a transfer begins, less when it ends. */
struct session_ask {
	uint64_t memory;        /* bytes for pools */
};

struct session_answer {
	int32_t code;           /* 0; -EAGAIN: nothing is left for now; other errors */
	uint64_t memory;        /* with code 0: that it has, which may be less than it wants */
	char why[200];          /* of an error, for the user */
};

#endif
