// SPDX-License-Identifier: Apache-2.0
/* Copies from one server to another, rftp-protocol(7) THIRD PARTIES.
 *
 * The client says "GIVE <n>" to the source and "TAKE <n>" to the sink, each followed at once
 * by n bytes, a struct third_give or third_take; after "150 " both streams carry frames, as
 * with BULK:
 *
 *   source → client   BULK_KEY: the pin of a key that the source has made for this copy
 *   sink → client     BULK_DOOR: where the sink listens for the bearer of that key
 *   client → source   BULK_COMMITTED, any number, when it is tried again
 *                     the same BULK_DOOR, with addresses
 *   both → client     BULK_STARTED, BULK_PROGRESS, BULK_FILE; BULK_RESULT
 *   client → both     BULK_ABORT to stop; BULK_END once RESULT has come, and both answer it
 *
 * and BULK_BEAT, empty, either way. Between source and sink there is a connection of their
 * own, on which the source is the client of a BULK put. */
#ifndef RFTP_PROTO_THIRD_H
#define RFTP_PROTO_THIRD_H

#include "proto/bulk.h"

#define THIRD_TOKEN 32          /* bytes, random */
#define THIRD_PIN_MAX 63        /* "SHA256:" and base64, of a public key */
#define THIRD_HOST_MAX 255
#define THIRD_ADDRESSES 4
#define THIRD_PORT_LEAST 1024   /* a door is no port below: those are of services */
#define THIRD_CONNECT_MS_MAX 60000
#define THIRD_BODY_MAX (BULK_REQUEST_MAX + 4096)
#define THIRD_BEAT_MS 1000      /* each side says something so often */
#define THIRD_SILENCE_MS 30000  /* and is lost after so long without */

enum {
	THIRD_F_EACH_FILE = 1 << 0, /* BULK_FILE also for files that are done */
};

/* GIVE. request: a put; base is the destination on the sink, sources are paths of the source
 * server (relative ones: from its working directory). With BULK_F_INTO the first of them is a
 * directory, and the others lie below it and become the same below base. */
struct third_give {
	uint32_t flags;
	uint32_t connect_ms;     /* for reaching the sink; 0: as the source has it */
	struct bulk_request request;
};

/* All of these: put gives 0, or a negative errno with nothing put; get 0, or -EBADMSG (-ENOMEM)
 * with nothing taken and zeros out. What has a clear function must be cleared after a get that
 * succeeded, and may be after one that did not. */

void third_give_clear(struct third_give *g);
int third_give_put(struct buf *b, const struct third_give *g);
/* -EPROTONOSUPPORT with text: as bulk_request_get(). */
int third_give_get(struct buf *b, struct third_give *g, struct err *e);

/* TAKE: who may come, the one destination that he may write to, how, and the weakest
 * protection. */
struct third_take {
	uint8_t policy;          /* of his request, which must have just these */
	uint32_t request_flags;
	uint8_t prot_min;        /* PROT_... */
	uint32_t seconds;        /* to wait for him; the sink may wait less; 0: as it likes */
	char pin[THIRD_PIN_MAX + 1];
	char *base;
};

void third_take_clear(struct third_take *t);
int third_take_put(struct buf *b, const struct third_take *t);
int third_take_get(struct buf *b, struct third_take *t, struct err *e);

/* BULK_KEY: string8 pin. */
int third_key_put(struct buf *b, const char *pin);
int third_key_get(struct buf *b, char pin[THIRD_PIN_MAX + 1]);

/* BULK_DOOR. */
struct third_door {
	uint16_t port;
	uint32_t seconds;        /* until it closes */
	char pin[THIRD_PIN_MAX + 1]; /* of the sink's key, made for this copy */
	uint8_t token[THIRD_TOKEN];
	uint32_t naddrs;         /* names or addresses, to be tried in this order */
	char addrs[THIRD_ADDRESSES][THIRD_HOST_MAX + 1];
};

int third_door_put(struct buf *b, const struct third_door *d);
int third_door_get(struct buf *b, struct third_door *d);

/* BULK_STARTED: agreement_put and agreement_get. */

/* BULK_PROGRESS. */
#define THIRD_WORDS_MAX 63
struct third_progress {
	uint64_t entries, files_done, files_failed, files_skipped;
	uint64_t bytes, bytes_kept, bytes_known;
	bool walked;
	uint64_t ns;             /* since it began */
	char bottleneck[THIRD_WORDS_MAX + 1]; /* "": not known */
};

int third_progress_put(struct buf *b, const struct third_progress *p);
int third_progress_get(struct buf *b, struct third_progress *p);

/* BULK_FILE: done (code 0; perhaps left alone) or failed. */
struct third_file {
	int code;                /* negative errno */
	bool skipped;
	uint64_t bytes;
	char *path;              /* of that server */
	char text[1024];         /* why it failed; cut there */
};

void third_file_clear(struct third_file *f);
int third_file_put(struct buf *b, const struct third_file *f);
int third_file_get(struct buf *b, struct third_file *f);

/* Of what a server that could not do its part complains. */
enum third_where {
	THIRD_HERE,   /* of itself */
	THIRD_REACH,  /* it could not get to the other server, or was not reached by it */
	THIRD_OTHER,  /* of what the other server said, or that it went away */
	THIRD_CLIENT, /* the client stopped it, or has gone */
};

/* BULK_RESULT. */
struct third_result {
	int code;                /* 0: it came to its end; or a negative errno, and */
	uint8_t where;           /* enum third_where */
	char text[1024];
	bool agreed;             /* agreement means something */
	struct agreement agreement;
	bool fell_back;
	struct bulk_counts local, remote;
	uint64_t wall_ns, files, failed, skipped, bytes, resumed, rtt_ns;
	uint32_t channels_lost;
	uint32_t nchannels;
	uint64_t channel_bytes[CHANNELS_MAX];
	/* From version 2.1 on; before, 0: */
	uint64_t touched;        /* of failed: files that changed while they were read */
	bool resumable;          /* broken off, with data at the sink that another attempt uses */
};

int third_result_put(struct buf *b, const struct third_result *r);
int third_result_get(struct buf *b, struct third_result *r);

#endif
