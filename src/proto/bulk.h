// SPDX-License-Identifier: Apache-2.0
/* The bulk mode's messages, rftp-protocol(7).
 *
 * "BULK <n>" is followed at once by n bytes, a struct bulk_request. The server reads them even if
 * it refuses the command. After "150 " the control stream carries frames in both directions until
 * each side has sent BULK_END; then it carries FTP lines again, beginning with the server's final
 * reply. A frame is: u8 type, u8 flags (0), u16 0, u32 length, then length bytes. An unknown type
 * below 128 is an error; from 128 on the receiver skips the frame. */
#ifndef RFTP_PROTO_BULK_H
#define RFTP_PROTO_BULK_H

#include "proto/negotiate.h"
#include "util/util.h"

#define BULK_MAJOR 2
#define BULK_MINOR 3
#define BULK_REQUEST_MAX (4u << 20)
#define BULK_FRAME_HEAD 8
#define BULK_FRAME_MAX (1u << 20)  /* payload; of BULK_DATA: a block with its head */
#define BULK_NAME_MAX 255
#define BULK_PATH_MAX 65536        /* of a link's target or a named path */
#define BULK_XATTRS_MAX 65536
#define BULK_RANGES_MAX 16384      /* data ranges in one message */
#define BULK_DETAILS_MAX (16u << 20) /* bytes of ranges and xattrs of unfinished entries */
#define BULK_FILTER_MAX (512u << 10) /* bytes of an encoded filter */
#define BULK_LINKED_MAX (1u << 19) /* most entries that may still get hard links */

enum bulk_type {
	BULK_AGREE = 1,     /* server → client, first */
	BULK_ENTRIES = 2,   /* source → sink: entries, one after another */
	BULK_VERDICTS = 3,  /* sink → source: whether to send entries with ENTRY_F_ASK */
	BULK_RUNS = 4,      /* sink → source: digests of the runs that the sink has of a file */
	BULK_SIZES = 5,     /* source → sink: final size of an entry of unknown size */
	BULK_FAILED = 6,    /* both ways: entry id, errno, text. The source could not read all
			     * of the file, or the sink could not write it. The entry is over. */
	BULK_DONE = 7,      /* sink → source: ranges of ids that are done (ack reached) */
	BULK_SENT = 8,      /* source → sink: totals, no more entries or blocks follow */
	BULK_BEAT = 9,      /* both ways: keepalive with counters */
	BULK_ABORT = 10,    /* both ways: errno, text; only BULK_END follows */
	BULK_SUMMARY = 11,  /* both ways, the last frame before BULK_END */
	BULK_END = 12,
	BULK_DATA = 13,     /* a block in-band: block head, table, payload */
	BULK_CREDIT = 14,   /* credits and acknowledgements for in-band blocks */
	BULK_KEPT = 15,     /* source → sink, after VERDICT_RUNS: entry id, number of bytes with
			     * matching digests, which are not sent again */
	BULK_READY = 16,    /* client → server, first: u8 transport of the agreement, or
			     * TRANSPORT_INBAND when no data channel could be opened */
	/* Numbers 17 to 19 belonged to LANE until version 2.1; do not reuse them. */
	BULK_KEY = 20,      /* from here to RESULT: copies between servers, third.h */
	BULK_DOOR = 21,
	BULK_STARTED = 22,
	BULK_PROGRESS = 23,
	BULK_FILE = 24,
	BULK_RESULT = 25,
	BULK_COMMITTED = 26, /* client → source of a copy, before DOOR */
	BULK_LOST = 27,      /* both ways: u64 channel, u64 errno: the frame's sender has given up
			      * this data channel; other channels carry the channel's blocks */
	BULK_CHANNELS = 28, /* sink → source, every 250 ms: for each data channel u64 received
			     * bytes, u64 complete blocks that are not acknowledged yet */
	BULK_DIGEST = 29,   /* source → sink, after VERDICT_DIGEST: digests of files */
	BULK_REMOVED = 30,  /* sink → source, after SENT: names that BULK_F_SYNC has removed */
	BULK_SUM = 31,      /* source → sink, with BULK_F_SUMS: digests of files */
	BULK_SKIPPED = 128, /* unknown types from here on are skipped */
	BULK_PLACE = 128,   /* sink → source, on one host: the directory created for a named
			     * source */
	BULK_WALKED = 129,  /* source → sink, empty: no more entries follow; the sink knows the
			     * total while data arrives */
	BULK_STAGES = 130,  /* both ways, every second: u64 ns in each state of transfer/xfer.h */
};

/* The head of a frame. get: 0; -EBADMSG: an unknown type below 128, or flags that are not 0;
 * -EMSGSIZE: a length over max. The caller skips unknown types from 128 on. */
void bulk_frame_put(uint8_t p[BULK_FRAME_HEAD], uint8_t type, uint32_t length);
int bulk_frame_get(const uint8_t p[BULK_FRAME_HEAD], size_t max, uint8_t *type, uint32_t *length);

enum bulk_op { BULK_PUT, BULK_GET, BULK_BENCH_PUT, BULK_BENCH_GET };

static inline bool bulk_is_bench(int op)
{
	return op == BULK_BENCH_PUT || op == BULK_BENCH_GET;
}
/* For a name that exists: replace it; skip it; replace it if the source is newer; skip it if size
 * and time are the same; skip it if size and digest are the same. */
enum bulk_policy {
	POLICY_OVERWRITE, POLICY_SKIP, POLICY_UPDATE, POLICY_SAME, POLICY_CHECKSUM, POLICIES,
};

enum {
	BULK_F_RECURSIVE = 1 << 0,
	BULK_F_MODES = 1 << 1,     /* preserve permission bits */
	BULK_F_TIMES = 1 << 2,
	BULK_F_OWNER = 1 << 3,
	BULK_F_XATTRS = 1 << 4,    /* with ACLs, which are xattrs on Linux */
	BULK_F_FOLLOW = 1 << 5,    /* copy the targets of links instead of the links */
	BULK_F_INPLACE = 1 << 6,
	BULK_F_SEVERAL = 1 << 7,   /* several sources: the destination must be a directory */
	BULK_F_RESUME = 1 << 8,    /* write a journal, and continue existing parts */
	BULK_F_HARDLINKS = 1 << 9,
	BULK_F_SPARSE = 1 << 10,
	BULK_F_DRY_RUN = 1 << 11,  /* send entries, but no blocks; change nothing */
	BULK_F_MKDIRS = 1 << 12,   /* create the destination's missing parents */
	BULK_F_INTO = 1 << 13,     /* the destination is a directory to put things into, even if it
				    * does not look like one (--files-from) */
	BULK_F_SEQUENTIAL = 1 << 14, /* the sink is a stream: blocks in order of offset */
	BULK_F_AGAIN = 1 << 15,    /* a repeated attempt. Put: entries may be COMMITTED. Get: the
				    * source asks about each file */
	BULK_F_ARCHIVE = 1 << 18,  /* with OWNER and XATTRS: as far as the sink's account may */
	BULK_F_CHECKSUM = 1 << 17, /* the policy may be POLICY_CHECKSUM */
	BULK_F_FILTER = 1 << 16,   /* the request carries a filter for the source; with SYNC the
				    * sink protects the names that it leaves out */
	BULK_F_SUMS = 1 << 20,     /* the source sends the digest named by sum of each file */
	BULK_F_SYNC = 1 << 19,     /* the request carries a struct bulk_sync */
	BULK_F_RANGES = 1 << 21,   /* ranges of files; a get carries a piece for each source */
};

/* ---- versions and features ----
 *
 * FEAT's line is "BULK MAJOR.MINOR NAME,NAME...", where each NAME stands for a bit of
 * bulk_request.flags. A new field or policy that the receiver must not ignore has such a bit. The
 * sender does not send a request with bits that the receiver has not announced; the receiver
 * refuses a request with bits that it does not know. */

struct bulk_version {
	uint16_t major, minor;   /* major 0: FEAT named no bulk mode */
	uint32_t features;       /* BULK_F_...; names that this side does not know are ignored */
};

#define BULK_VERSION_TEXT 256
/* This side's version and features, as FEAT shows them after "BULK ". Returns text. */
const char *bulk_version_text(char text[BULK_VERSION_TEXT]);

/* Parse the text of a server after "BULK ". 0; -EBADMSG with *v zeroed: no version at the
 * beginning. */
int bulk_version_parse(const char *text, struct bulk_version *v);

/* 0: a server that announced v accepts a request with these flags. -EPROTONOSUPPORT: e names both
 * versions, or the missing features. */
int bulk_version_check(const struct bulk_version *v, uint32_t flags, struct err *e);
/* 0: this side accepts messages of this version and flags; or -EPROTONOSUPPORT with text. */
int bulk_accept(uint16_t major, uint16_t minor, uint32_t flags, struct err *e);

/* What the sink does with names that the source does not have. */
enum {
	SYNC_DELETE = 1 << 0,      /* remove them, after everything else went well */
	SYNC_EXCLUDED = 1 << 1,    /* also those that the filter leaves out */
	SYNC_FORCE = 1 << 2,       /* also if files failed, or the source is empty */
	SYNC_LAST = 1 << 3,        /* the transfer before has removed the names in the way of other
				    * types: entries that still find one fail */
};
struct bulk_sync {
	uint8_t flags;
	uint64_t most;             /* if there are more names, remove none; UINT64_MAX: no limit */
	char *trash;               /* a directory to move them to; a relative path begins at the
				    * destination. "": remove them */
};

struct bulk_range {
	uint64_t offset, length;
};

/* A source of a request, or what of it is wanted. */
struct bulk_piece {
	struct bulk_range range; /* length 0: the whole file */
	bool dated;              /* a file must have this size and time */
	uint64_t size;
	int64_t mtime_s;
	uint32_t mtime_ns;
};

/* The name of a set of transfers that write ranges of the same files, cut in the same way. */
struct bulk_set {
	uint8_t id[16];
};

struct bulk_request {
	uint16_t major, minor;
	uint8_t op;              /* enum bulk_op */
	uint8_t policy;
	uint32_t flags;
	char *base;              /* PUT: destination; GET: relative sources start here; may be "" */
	char **sources;          /* GET: paths asked for; NULL-terminated */
	uint32_t nsources;
	/* With BULK_F_RANGES. */
	struct bulk_set set;
	struct bulk_piece *pieces; /* GET: [nsources] */
	uint64_t rate;           /* most bytes per second; 0: no limit */
	uint64_t bench_ns;       /* BENCH: the duration; 0: see bench_bytes */
	uint64_t bench_bytes;
	uint8_t nonce[32];
	bool has_key;            /* over ssh: the client creates the key */
	uint8_t key[32];         /* zeros without has_key: the key is exported from TLS */
	struct offer offer;
	struct filter filter;    /* sent only with BULK_F_FILTER */
	struct bulk_sync sync;   /* sent only with BULK_F_SYNC */
	char sum[16];            /* a digest_name(): the source computes it for each file that it
				  * sends; "": none. Sent only with BULK_F_SUMS, as in a put the
				  * client itself is the source */
};

void bulk_request_clear(struct bulk_request *r);

/* For a copy between servers: from is the client's request; to becomes the request that the
 * source's server sends to the sink's server. The fields that describe one side or one
 * connection are cleared, and the caller sets them. Without BULK_F_SYNC only the source applies
 * the filter, so the sink does not receive it. Both share base, filter and sync: clear only
 * from. */
void bulk_request_onward(const struct bulk_request *from, struct bulk_request *to);
int bulk_request_put(struct buf *b, const struct bulk_request *r);

/* 0; -EBADMSG; -ENOMEM; -EPROTONOSUPPORT with text: another major version, or unknown flags. The
 * caller clears r after success. */
int request_malformed(struct err *e, int code); /* text for an error of decoding; returns code */
int bulk_request_get(struct buf *b, struct bulk_request *r, struct err *e);

struct bulk_agree {
	uint16_t major, minor;
	uint64_t session;        /* identifies the transfer on data channels */
	uint8_t nonce[32];
	struct agreement agreement;
	struct offer offer;      /* the server's, so that the client can check */
	uint32_t nports;         /* data listeners, one per path; addr "": the address of the
				  * control connection */
	struct { char addr[64]; uint16_t port; } ports[NICS_MAX];
};

int bulk_agree_put(struct buf *b, const struct bulk_agree *a);
int bulk_agree_get(struct buf *b, struct bulk_agree *a, struct err *e);

enum bulk_entry_type {
	ENTRY_FILE = 1, ENTRY_DIR = 2, ENTRY_LINK = 3, ENTRY_HARDLINK = 4,
	ENTRY_DIR_END = 5,      /* only id and flags: the directory has no further entries */
	ENTRY_NAME = 6,         /* with SYNC_DELETE, only parent and name: the source has the name,
				 * but does not send it. It has no id. */
};
enum {
	ENTRY_F_ASK = 1 << 0,     /* the source waits for the sink's verdict */
	ENTRY_F_NOSIZE = 1 << 1,  /* size unknown (a pipe): BULK_SIZES follows */
	ENTRY_F_TOP = 1 << 2,     /* a named source; parent is 0 */
	ENTRY_F_SPARSE = 1 << 3,  /* ranges lists all data; the rest is holes */
	ENTRY_F_CONTENTS = 1 << 4,/* with TOP on a DIR named with a final "/": put its contents into
				   * the destination itself */
	/* On a FILE with ASK and SPARSE, whose ranges are in range: only this range of the file is
	 * sent. Several transfers may write one file; the sink keeps it as a part. */
	ENTRY_F_RANGE = ENTRY_F_CONTENTS,
	ENTRY_F_COMMITTED = 1 << 5,/* with ASK on a FILE: an earlier attempt has committed it; skip
				    * it if size and time are still the same */
	ENTRY_F_LINKED = 1 << 6,  /* a HARDLINK to this entry may follow */
	ENTRY_F_LAST = 1 << 7,    /* on a HARDLINK: the last one to its target */
	ENTRY_F_PARTIAL = ENTRY_F_NOSIZE, /* on a DIR_END: not all names were read */
};

/* Ids count up from 1 without gaps. parent 0: the destination. */
struct bulk_entry {
	uint64_t id, parent;
	uint8_t type, flags;
	uint32_t mode, uid, gid;
	int64_t mtime_s;
	uint32_t mtime_ns;
	uint64_t size;
	const char *name;        /* one component: not "", ".", "..", no "/" (checked); a
				  * view into the frame, NUL-terminated there */
	const char *target;      /* LINK; a view */
	uint64_t link_id;        /* HARDLINK: an id before this one */
	uint32_t nranges;        /* SPARSE */
	const uint8_t *ranges;   /* nranges pairs as on the wire: see bulk_range_at */
	struct bulk_range range; /* with RANGE */
	uint32_t xattrs_len;     /* repeated: u16 name length, name, u32 value length, value */
	const uint8_t *xattrs;
};

/* The bytes of an entry that count against BULK_DETAILS_MAX. */
static inline uint32_t bulk_entry_details(const struct bulk_entry *e)
{
	return e->nranges * 16 + e->xattrs_len;
}

/* put: 0; -EINVAL: get would refuse the entry; or the error of buf_reserve(). The entry is appended
 * completely or not at all. get: 0; -EBADMSG; -ENOMEM. e points into b's memory. */
int bulk_entry_put(struct buf *b, const struct bulk_entry *e);
int bulk_entry_get(struct buf *b, struct bulk_entry *e);
struct bulk_range bulk_range_at(const uint8_t *ranges, uint32_t i);
void bulk_range_set(uint8_t *ranges, uint32_t i, struct bulk_range r);
/* True for one component of at most BULK_NAME_MAX bytes: not "", ".", "..", no "/". */
#define BULK_LONG_WHY "the list of names is longer than a request may be"
bool bulk_name_ok(const char *name);

/* Append an extended attribute to b, the attributes of an entry. 0; -EINVAL: the name is empty or
 * too long; or the error of buf_reserve(). */
int bulk_xattr_put(struct buf *b, const char *name, const void *value, size_t len);

/* Get the next attribute of x at *pos, which is 0 for the first call. name and value point into x;
 * name is not NUL-terminated. 1: an attribute; 0: the end; -EBADMSG. */
int bulk_xattr_next(const uint8_t *x, uint32_t len, uint32_t *pos, const char **name,
		    size_t *name_len, const uint8_t **value, size_t *value_len);

/* DIGEST, with POLICY_CHECKSUM: the sink has a file of this size. The source answers with
 * BULK_DIGEST, and then the sink sends another verdict. */
enum bulk_verdict {
	VERDICT_SEND = 1, VERDICT_SKIP = 2, VERDICT_RUNS = 3, VERDICT_DIGEST = 4,
	/* With BULK_F_SYNC. As SKIP: the file's attributes are corrected; or something is in its
	 * way, and will be removed, if the source can read the file. */
	VERDICT_CORRECT = 5, VERDICT_LATER = 6,
};

/* BULK_VERDICTS: pairs of u64 id, u8 verdict, to the end of the frame. */
int bulk_verdict_put(struct buf *b, uint64_t id, uint8_t verdict);
int bulk_verdict_get(struct buf *b, uint64_t *id, uint8_t *verdict);

/* BULK_RUNS: u64 id, then runs to the end: u64 offset, u32 length, 16-byte digest. After all runs
 * of the id the verdict VERDICT_RUNS follows. Lengths are from 1 to BLOCK_MAX. */
int bulk_runs_head_put(struct buf *b, uint64_t id);
int bulk_runs_head_get(struct buf *b, uint64_t *id);
int bulk_run_put(struct buf *b, uint64_t offset, uint32_t length, const uint8_t digest[16]);
int bulk_run_get(struct buf *b, uint64_t *offset, uint32_t *length, uint8_t digest[16]);

/* BULK_DIGEST: pairs of u64 id, file_digest() to the end of the frame. */
int bulk_digest_put(struct buf *b, uint64_t id, const uint8_t digest[16]);
int bulk_digest_get(struct buf *b, uint64_t *id, uint8_t digest[16]);

/* BULK_SUM: one or more of these. */
#define BULK_SUM_MAX 128
int bulk_sum_put(struct buf *b, uint64_t id, const char *hex);
int bulk_sum_get(struct buf *b, uint64_t *id, char hex[BULK_SUM_MAX + 1]);

/* BULK_SIZES: u64 id, u64 size. BULK_KEPT: u64 id, u64 bytes. BULK_DONE: u64 first, u64
 * last, inclusive. */
int bulk_pair_put(struct buf *b, uint64_t x, uint64_t y);
int bulk_pair_get(struct buf *b, uint64_t *x, uint64_t *y);

/* BULK_STAGES: the ns that the sender has spent in each of its states (transfer/xfer.h). */
#define BULK_STATES 7
int bulk_stages_put(struct buf *b, const uint64_t ns[BULK_STATES]);
int bulk_stages_get(struct buf *b, uint64_t ns[BULK_STATES]);

/* BULK_PLACE: u64 id of the entry, u64 st_dev, u64 st_ino; both 0: no directory. */
int bulk_place_put(struct buf *b, uint64_t id, uint64_t dev, uint64_t ino);
int bulk_place_get(struct buf *b, uint64_t *id, uint64_t *dev, uint64_t *ino);

/* BULK_REMOVED: one or more of these. */
struct bulk_removed {
	bool in_the_way;         /* an entry of another type needs the name: the source must send
				  * its files once more */
	uint64_t bytes;          /* of a file */
	char *path;              /* for people; of a directory with a final "/" */
};
/* As bulk_failure_put(); after get the caller frees path. */
int bulk_removed_put(struct buf *b, const struct bulk_removed *r);
int bulk_removed_get(struct buf *b, struct bulk_removed *r);

/* BULK_FAILED (id) and BULK_ABORT (id 0): u64 id, u32 errno (Linux numbers), text. */
struct bulk_failure {
	uint64_t id;
	int code;            /* negative errno; anything unknown becomes -EIO */
	char text[1024];     /* longer texts are cut; the receiver makes control bytes printable */
};
int bulk_failure_put(struct buf *b, const struct bulk_failure *f);
int bulk_failure_get(struct buf *b, struct bulk_failure *f);

/* BULK_BEAT, BULK_SENT and BULK_SUMMARY carry the same counters; 0: not known. */
struct bulk_counts {
	uint64_t entries, files, failed, skipped;
	uint64_t bytes;       /* of payload: sent, or written by the sink */
	uint64_t blocks;      /* block numbers used: 0 .. blocks-1 */
	uint64_t cpu_ns;      /* CPU time of that side's process in this transfer */
	uint64_t stamp_ns;    /* BEAT: sender's clock */
	uint64_t echo_ns;     /* BEAT: the other side's last stamp, 0: none */
	uint64_t resumed;     /* bytes that existed already */
	uint64_t left_out;    /* names that are not a file, directory or link */
};
int bulk_counts_put(struct buf *b, const struct bulk_counts *c);
int bulk_counts_get(struct buf *b, struct bulk_counts *c);

/* ---- blocks ---- */

#define BLOCK_MAGIC 0x52465442u /* "RFTB" */
#define BLOCK_WIRE_HEAD 64
#define BLOCK_WIRE_EXTENT 20    /* u64 file, u64 offset, u32 length */
#define BLOCK_WIRE_EXTENTS 200

/* The first 64 bytes of a block:
 *  0 u32 magic        4 u8 version 1   5 u8 prot   6 u16 extents
 *  8 u64 number      16 u32 payload bytes         20 u32 key number
 * 24 u64 nonce       32 u32 crc32c (clear; over head with this 0, table, payload)
 * 36 u8[12] zero     48 u8[16] tag (safe, private)
 * Additional data under safe and private: bytes 0..47, then the table. */
struct block_head {
	uint8_t prot;
	uint16_t extents;
	uint64_t number;
	uint32_t payload;
	uint32_t key;
	uint64_t nonce;
	uint32_t crc;
	uint8_t tag[16];
};

void block_head_put(uint8_t *p, const struct block_head *h);

/* 0; -EBADMSG: wrong magic or version, more extents than BLOCK_WIRE_EXTENTS, or more payload than
 * payload_max. */
int block_head_get(const uint8_t *p, uint32_t payload_max, struct block_head *h);
void block_extent_put(uint8_t *p, uint64_t file, uint64_t offset, uint32_t length);
void block_extent_get(const uint8_t *p, uint64_t *file, uint64_t *offset, uint32_t *length);

/* Messages: everything on a data channel after its opening that is not a block.
 * u32 magic, u16 channel, u16 count, u64 sequence; count items; u8[16] tag.
 * The sequence starts at 0 for each channel and direction and grows by one, so that a message
 * that is lost, repeated or out of order is detected. tag: a GMAC over all bytes before it
 * (safe, private), or their CRC32C and 12 zero bytes (clear). */
#define MESSAGE_HEAD 16
#define MESSAGE_TAG 16
struct message_head {
	uint16_t channel;
	uint16_t count;
	uint64_t sequence;
};
void message_head_put(uint8_t *p, uint32_t magic, const struct message_head *h);
/* 0; -EBADMSG: another magic, or a count over max. */
int message_head_get(const uint8_t *p, uint32_t magic, uint32_t max, struct message_head *h);

/* Credits: the sink's answers to blocks, on the channel that carried the block. Magic "RFTC"; an
 * item: u64 block number, u32 buffer, u32 status (0: received; else an errno: the block must be
 * sent again). */
#define CREDIT_MAGIC 0x52465443u
#define CREDIT_BYTES 16
#define CREDITS_MAX 256
/* A special number, with RDMA WRITE: the credit grants its buffer and acknowledges no block. */
#define CREDIT_GRANT UINT64_MAX
struct credit {
	uint64_t number;
	uint32_t buffer;
	uint32_t status;
};
void credit_put(uint8_t *p, const struct credit *c);
void credit_get(const uint8_t *p, struct credit *c);

/* Announcements, over RDMA_READ: blocks that wait in the source's buffers. Magic "RFTA"; an item:
 * u64 block number, u32 buffer, u32 bytes of head and table, u32 bytes of payload, u32 zero. */
#define ANNOUNCE_MAGIC 0x52465441u
#define ANNOUNCE_BYTES 24
#define ANNOUNCES_MAX 256
struct announce {
	uint64_t number;
	uint32_t buffer;
	uint32_t head, payload;
};
void announce_put(uint8_t *p, const struct announce *a);
void announce_get(const uint8_t *p, struct announce *a);

/* ---- opening a data channel ---- */

/* 56 bytes, so that it fits the private data of rdma_connect:
 * u32 magic "RFTH", u16 major, u16 channel, u64 session, u8[32] proof, u32 key, u32 zero.
 * key: the remote key of the memory that the other side may write to or read from; 0 over TCP.
 * proof = HMAC-SHA-256(token, label | nonces | session | channel | key), with label "rftp client
 * channel" or "rftp server channel". */
#define HELLO_MAGIC 0x52465448u
#define HELLO_BYTES 56
struct channel_hello {
	uint16_t major;
	uint16_t channel;
	uint64_t session;
	uint8_t proof[32];
	uint32_t key;
};
void hello_put(uint8_t p[HELLO_BYTES], const struct channel_hello *h);

/* 0; -EBADMSG: wrong magic, or channel >= CHANNELS_MAX; -EPROTO: another major version; then only
 * h->major is set. */
int hello_get(const uint8_t p[HELLO_BYTES], struct channel_hello *h);

#endif
