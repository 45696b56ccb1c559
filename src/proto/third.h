// SPDX-License-Identifier: Apache-2.0
/* Copies from one server to another, rftp-protocol(7) THIRD PARTIES.
 *
 * The client sends "GIVE <n>" to the source and "TAKE <n>" to the sink, each followed at once by n
 * bytes, a struct third_give or third_take; after "150 " both streams carry frames, as with BULK:
 *
 *   source → client   BULK_KEY: the pin of a key that the source has created for this copy
 *   sink → client     BULK_DOOR: where the sink listens for the owner of that key
 *   client → source   BULK_COMMITTED, any number, in a repeated attempt
 *                     the same BULK_DOOR, with addresses
 *   both → client     BULK_STARTED, BULK_PROGRESS, BULK_FILE; BULK_RESULT
 *   client → both     BULK_ABORT to stop; BULK_END once RESULT has come, and both answer it
 *
 * and empty BULK_BEAT frames in both directions. The source connects to the sink separately, and is
 * the client of a BULK put on that connection. */
#ifndef RFTP_PROTO_THIRD_H
#define RFTP_PROTO_THIRD_H

#include "proto/bulk.h"

#define THIRD_TOKEN 32          /* bytes, random */
#define THIRD_PIN_MAX 63        /* "SHA256:" and base64, of a public key */
#define THIRD_HOST_MAX 255
#define THIRD_ADDRESSES 4
#define THIRD_PORT_LEAST 1024   /* ports below belong to services */
#define THIRD_CONNECT_MS_MAX 60000
#define THIRD_BODY_MAX (BULK_REQUEST_MAX + 4096)
#define THIRD_BEAT_MS 1000      /* each side sends something at least this often */
#define THIRD_SILENCE_MS 30000  /* a side that is silent for this long is lost */

enum {
	THIRD_F_EACH_FILE = 1 << 0, /* BULK_FILE also for files that are done */
};

/* GIVE. request: a put; base is the destination on the sink, sources are paths of the source server
 * (relative ones: from its working directory). With BULK_F_INTO the first source is a directory;
 * the others are paths below it, and keep their relative paths below base. */
struct third_give {
	uint32_t flags;
	uint32_t connect_ms;     /* to connect to the sink; 0: the source's default */
	struct bulk_request request;
};

/* For all messages below: put returns 0, or a negative errno and appends nothing; get returns 0, or
 * -EBADMSG or -ENOMEM, and then consumes nothing and zeroes the message. A message with a clear
 * function must be cleared after a successful get, and may be cleared after a failed one. */

void third_give_clear(struct third_give *g);
int third_give_put(struct buf *b, const struct third_give *g);
/* -EPROTONOSUPPORT with text: as with bulk_request_get(). */
int third_give_get(struct buf *b, struct third_give *g, struct err *e);

/* TAKE: the pin of the source that may connect, its only destination, the policy and flags of its
 * request, and the weakest allowed protection. */
struct third_take {
	uint8_t policy;          /* policy and request_flags: as in the source's request */
	uint32_t request_flags;
	uint8_t prot_min;        /* PROT_... */
	uint32_t seconds;        /* to wait for the source, at most; 0: the sink decides */
	char pin[THIRD_PIN_MAX + 1];
	char *base;
	/* With BULK_F_SYNC and BULK_F_FILTER: those of the client, which count. */
	struct bulk_sync sync;
	struct filter filter;
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
	uint32_t seconds;        /* until the sink stops listening */
	char pin[THIRD_PIN_MAX + 1]; /* of the sink's key, made for this copy */
	uint8_t token[THIRD_TOKEN];
	uint32_t naddrs;         /* names or addresses, tried in this order */
	char addrs[THIRD_ADDRESSES][THIRD_HOST_MAX + 1];
};

int third_door_put(struct buf *b, const struct third_door *d);
int third_door_get(struct buf *b, struct third_door *d);

/* BULK_STARTED: agreement_put and agreement_get. */

/* The stages that can hold a transfer back. */
enum stage_of_transfer {
	STAGE_NAMES, STAGE_SOURCE_STORAGE, STAGE_SOURCE_CPU, STAGE_CREDITS, STAGE_NETWORK,
	STAGE_SINK_CPU, STAGE_SINK_STORAGE, STAGE_RATE, STAGES,
};
/* In words, such as "source storage"; static. */
const char *stage_name(enum stage_of_transfer s);
/* The stage with the largest share, and that share in percent; STAGES: no time was measured. */
enum stage_of_transfer stage_slowest(const uint64_t ns[STAGES], unsigned *percent);

/* BULK_PROGRESS. */
#define THIRD_WORDS_MAX 63
struct transfer_progress {
	uint64_t entries, files_done, files_failed, files_skipped;
	uint64_t bytes;         /* acknowledged, or existed already */
	uint64_t bytes_kept;    /* of bytes: those that existed already */
	uint64_t bytes_known;   /* of all entries so far; final when walked */
	bool walked;
	uint64_t ns;            /* since the transfer began */
	/* stage_name() of the stage that holds the transfer back, valid during the callback; NULL:
	 * not known. */
	const char *bottleneck;
	uint32_t share;         /* its share of the last seconds, in percent; 0: not known */
};

static inline double transfer_seconds(const struct transfer_progress *p)
{
	return (double)p->ns / 1e9;
}

int third_progress_put(struct buf *b, const struct transfer_progress *p);
/* text: memory for p->bottleneck. */
int third_progress_get(struct buf *b, struct transfer_progress *p, char text[THIRD_WORDS_MAX + 1]);

/* What has become of a name: copied; left alone, because it was the same, or existed; left alone,
 * but its attributes were corrected; removed, because the source does not have it. In a dry run:
 * what would become of it. */
enum file_end { FILE_COPIED, FILE_LEFT, FILE_CORRECTED, FILE_REMOVED };

/* BULK_FILE: a file is done (code 0) or has failed. */
struct third_file {
	int code;                /* negative errno */
	uint8_t end;             /* enum file_end */
	uint64_t bytes;
	char *path;              /* path on that server */
	char text[1024];         /* why it failed; longer texts are cut. Of a copied file with
				  * BULK_F_SUMS: its digest */
	/* The rest only with that digest. */
	int64_t mtime_s;
	uint32_t mtime_ns;
	char *rel;               /* as in struct file_report */
};

/* For transfer_events.file_done. */
struct file_report {
	enum file_end end;
	const char *path;        /* of the file on this side, for people */
	uint64_t bytes;
	bool plain;              /* a file; not a directory, a link or a further name of a file */
	struct bulk_range range; /* only this range was copied; length 0: the whole file */
	/* If digests were requested; NULL: there is none. */
	const char *sum;         /* hex, of a copied file */
	const char *rel;         /* the path below the destination; at a source as if all sources
				  * were put into it */
	int64_t mtime_s;
	uint32_t mtime_ns;
};

/* Is path, of a report, that of a directory? Reports have a slash behind its name. */
bool report_path_is_directory(const char *path);

void third_file_clear(struct third_file *f);
int third_file_put(struct buf *b, const struct third_file *f);
int third_file_get(struct buf *b, struct third_file *f);

/* The place of the fault that a server reports. */
enum third_where {
	THIRD_HERE,   /* this server */
	THIRD_REACH,  /* the connection to, or from, the other server failed */
	THIRD_OTHER,  /* the other server reported an error, or went away */
	THIRD_CLIENT, /* the client stopped the copy, or went away */
};

/* The result of one transfer. */
struct transfer_result {
	struct agreement agreement;
	struct bulk_counts local, remote;  /* remote: sent by the peer */
	uint64_t wall_ns;
	uint64_t files, failed, skipped;   /* of the whole transfer */
	uint64_t bytes;                    /* payload bytes transferred */
	uint64_t resumed;                  /* bytes that existed already */
	uint64_t rtt_ns;
	uint32_t nchannels;
	uint64_t channel_bytes[CHANNELS_MAX];
	uint32_t channels_lost;
	bool fell_back;                    /* no data channel was left: the rest went in-band */
	/* Version 2.0 does not send touched and resumable; they are then 0. */
	uint64_t touched;                  /* failed files with a changed ctime: a retry may
					    * succeed */
	bool resumable;                    /* aborted; a part and its journal hold data */
	/* Of BULK_F_SYNC. This and the rest is sent only if one is not 0. */
	uint64_t corrected;                /* of skipped: files with corrected attributes */
	uint64_t removed, removed_bytes;   /* names */
	uint64_t in_the_way;               /* entries and removed names: another transfer must
					    * put files there */
	uint64_t stages[STAGES];           /* ns for which each held the transfer back */
};

/* BULK_RESULT. */
struct third_result {
	int code;                /* 0: complete; or a negative errno, with where and text */
	uint8_t where;           /* enum third_where */
	char text[1024];
	bool agreed;             /* of.agreement is valid */
	struct transfer_result of;
};

int third_result_put(struct buf *b, const struct third_result *r);
int third_result_get(struct buf *b, struct third_result *r);

#endif
