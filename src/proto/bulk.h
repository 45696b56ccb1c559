// SPDX-License-Identifier: Apache-2.0
/* The bulk mode's messages, rftp-protocol(7).
 *
 * "BULK <n>" is followed at once by n bytes, a struct bulk_request. The server reads
 * them whatever it answers. After "150 " the control stream carries frames in both
 * directions until each side has sent BULK_END; then FTP's lines again, first the
 * server's closing reply. A frame is: u8 type, u8 flags (0), u16 0, u32 length, then
 * length bytes. An unknown type below 128 is an error, from 128 on it is skipped. */
#ifndef RFTP_PROTO_BULK_H
#define RFTP_PROTO_BULK_H

#include "proto/negotiate.h"
#include "util/util.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BULK_MAJOR 2
#define BULK_MINOR 1
#define BULK_REQUEST_MAX (4u << 20)
#define BULK_FRAME_HEAD 8
#define BULK_FRAME_MAX (1u << 20)  /* payload; of BULK_DATA: a block with its head */
#define BULK_NAME_MAX 255
#define BULK_PATH_MAX 65536        /* of a link's target or a named path */
#define BULK_XATTRS_MAX 65536
#define BULK_RANGES_MAX 16384      /* data ranges in one message */
#define BULK_DETAILS_MAX (16u << 20) /* bytes of ranges and xattrs of entries not over */
#define BULK_LINKED_MAX (1u << 19) /* entries that hard links may still come for */

enum bulk_type {
	BULK_AGREE = 1,     /* server → client, first */
	BULK_ENTRIES = 2,   /* source → sink: entries, one after another */
	BULK_VERDICTS = 3,  /* sink → source: what to do with entries that asked */
	BULK_RUNS = 4,      /* sink → source: digests of runs the sink has of one file */
	BULK_SIZES = 5,     /* source → sink: final size of an entry of unknown size */
	BULK_FAILED = 6,    /* both ways: entry id, errno, text. From the source: it could
			     * not be read whole; from the sink: not written. Final. */
	BULK_DONE = 7,      /* sink → source: ranges of ids that are done (ack reached) */
	BULK_SENT = 8,      /* source → sink: totals, no more entries or blocks follow */
	BULK_BEAT = 9,      /* both ways: alive, and how far */
	BULK_ABORT = 10,    /* both ways: errno, text; nothing after it but BULK_END */
	BULK_SUMMARY = 11,  /* both ways, last but BULK_END */
	BULK_END = 12,
	BULK_DATA = 13,     /* a block in-band: block head, table, payload */
	BULK_CREDIT = 14,   /* credits and acknowledgements for in-band blocks */
	BULK_KEPT = 15,     /* source → sink, after VERDICT_RUNS: entry id, bytes whose
			     * digests fit, which therefore are not sent again */
	BULK_READY = 16,    /* client → server, its first: u8 transport of the agreement, or
			     * TRANSPORT_INBAND when no data channel could be opened */
	BULK_LANE_DATA = 17,  /* both ways, between LANE and its closing reply, where there
			     * are no others than these: u8 lane, its bytes */
	BULK_LANE_ROOM = 18, /* u8 lane, u32 bytes that were read: so many more may come */
	BULK_LANE_END = 19, /* u8 lane: nothing more from here, and nothing is read */
	BULK_KEY = 20,      /* from here to RESULT: copies between servers, third.h */
	BULK_DOOR = 21,
	BULK_STARTED = 22,
	BULK_PROGRESS = 23,
	BULK_FILE = 24,
	BULK_RESULT = 25,
	BULK_COMMITTED = 26, /* client → source of a copy, before DOOR */
	BULK_LOST = 27,      /* both ways: u64 channel, u64 errno: its sender has given up this
			     * data channel; blocks on it go by others */
	BULK_CHANNELS = 28, /* sink → source, each 250 ms: of each data channel u64 bytes that
			     * came by it, u64 whole blocks that are not answered yet */
	BULK_SKIPPED = 128, /* from here on what is not known is skipped */
	BULK_PLACE = 128,   /* sink → source, on one host: which directory a named one became */
	BULK_WALKED = 129,  /* source → sink, empty: no more entries follow, so that the sink
			     * knows how much there is while it comes */
};

/* The head of a frame. get: -EBADMSG for a type below 128 that is not known and for flags
 * set; -EMSGSIZE for a length over max. What has a type from 128 on is skipped. */
void bulk_frame_put(uint8_t p[BULK_FRAME_HEAD], uint8_t type, uint32_t length);
int bulk_frame_get(const uint8_t p[BULK_FRAME_HEAD], size_t max, uint8_t *type, uint32_t *length);

/* Lanes: byte streams side by side on one control connection. */
#define LANES_MAX 8
#define LANE_WINDOW (4u << 20)     /* bytes of a lane that may come before ROOM was given */
#define LANE_PIECE (64u << 10)     /* bytes in one BULK_LANE_DATA at most */

/* The heads of their payloads. get: -EBADMSG, also for a lane that is not below lanes. */
#define LANE_HEAD 1
#define LANE_ROOM_BYTES 5
void lane_room_put(uint8_t p[LANE_ROOM_BYTES], uint8_t lane, uint32_t bytes);
/* data: what follows the head of BULK_LANE_DATA, a view; room: of BULK_LANE_ROOM. */
struct lane_frame {
	uint8_t lane;
	uint32_t room;
	const uint8_t *data;
	size_t len;
};
int lane_frame_get(uint8_t type, const uint8_t *p, size_t len, unsigned lanes,
		   struct lane_frame *f);

enum bulk_op { BULK_PUT, BULK_GET, BULK_BENCH_PUT, BULK_BENCH_GET };

static inline bool bulk_is_bench(int op)
{
	return op == BULK_BENCH_PUT || op == BULK_BENCH_GET;
}
/* What becomes of a name that is there: replaced; left alone; replaced when the source is
 * newer; left alone when size and time are the same. */
enum bulk_policy { POLICY_OVERWRITE, POLICY_SKIP, POLICY_UPDATE, POLICY_SAME };

enum {
	BULK_F_RECURSIVE = 1 << 0,
	BULK_F_MODES = 1 << 1,     /* preserve permission bits */
	BULK_F_TIMES = 1 << 2,
	BULK_F_OWNER = 1 << 3,
	BULK_F_XATTRS = 1 << 4,    /* with ACLs, which are xattrs on Linux */
	BULK_F_FOLLOW = 1 << 5,    /* links become what they point to */
	BULK_F_INPLACE = 1 << 6,
	BULK_F_SEVERAL = 1 << 7,   /* several sources: the destination must be a directory */
	BULK_F_RESUME = 1 << 8,    /* journal and take over parts */
	BULK_F_HARDLINKS = 1 << 9,
	BULK_F_SPARSE = 1 << 10,
	BULK_F_DRY_RUN = 1 << 11,  /* entries flow, nothing is made, no block is sent */
	BULK_F_MKDIRS = 1 << 12,   /* make the destination's missing parents */
	BULK_F_INTO = 1 << 13,     /* the destination is a directory to put things into,
				    * whatever it looks like (--files-from) */
	BULK_F_SEQUENTIAL = 1 << 14, /* the sink is a stream: blocks in order of offset */
	BULK_F_AGAIN = 1 << 15,    /* a repeated attempt: put: entries may be COMMITTED; get: the
				    * source asks about each file */
};

/* ---- versions and features ----
 *
 * FEAT's line is "BULK MAJOR.MINOR NAME,NAME...", where each NAME stands for a bit of
 * bulk_request.flags. A field or a policy that the receiver must not ignore comes with such a bit.
 * The sender refuses a request whose bits the receiver has not announced, before it sends
 * anything; the receiver refuses a request with bits that it does not know. */

struct bulk_version {
	uint16_t major, minor;   /* major 0: FEAT named no bulk mode */
	uint32_t features;       /* BULK_F_...; names that this side does not know are left out */
};

#define BULK_VERSION_TEXT 256
/* This side's version and features, as they stand in FEAT behind "BULK ". Returns text. */
const char *bulk_version_text(char text[BULK_VERSION_TEXT]);
/* The same of a server. -EBADMSG, and *v is zeros: it does not begin with two numbers. */
int bulk_version_parse(const char *text, struct bulk_version *v);
/* A server that announced v takes a request with these flags: 0; -EPROTONOSUPPORT with both
 * versions, or the names of the missing features, in e. */
int bulk_version_check(const struct bulk_version *v, uint32_t flags, struct err *e);
/* This side takes a message of that version with these flags: 0, or -EPROTONOSUPPORT with text. */
int bulk_accept(uint16_t major, uint16_t minor, uint32_t flags, struct err *e);

struct bulk_request {
	uint16_t major, minor;
	uint8_t op;              /* enum bulk_op */
	uint8_t policy;
	uint32_t flags;
	char *base;              /* PUT: destination; GET: where relative sources start ("") */
	char **sources;          /* GET: paths asked for; NULL-terminated */
	uint32_t nsources;
	uint64_t rate;           /* bytes per second at most; 0: as fast as it goes */
	uint64_t bench_ns;       /* BENCH: how long (0: bench_bytes) */
	uint64_t bench_bytes;
	uint8_t nonce[32];
	bool has_key;            /* over a channel that is secret already (ssh) the client */
	uint8_t key[32];         /* draws the key; over TLS it is exported, and this is 0 */
	struct offer offer;
};

void bulk_request_clear(struct bulk_request *r);
/* The request with which the server of a copy's source passes the client's request on to the
 * server of its target. All fields go along, but those of one end or of one connection; the
 * sender fills these in anew. to's base is from's: bulk_request_clear() is for from only. */
void bulk_request_onward(const struct bulk_request *from, struct bulk_request *to);
int bulk_request_put(struct buf *b, const struct bulk_request *r);
/* -EBADMSG; -EPROTONOSUPPORT with text: of another major version, or with flags that are not
 * known here. */
int bulk_request_get(struct buf *b, struct bulk_request *r, struct err *e);

struct bulk_agree {
	uint16_t major, minor;
	uint64_t session;        /* names it on data channels */
	uint8_t nonce[32];
	struct agreement agreement;
	struct offer offer;      /* the server's, so that the client can check */
	uint32_t nports;         /* data listeners, one per path; addr "": the control's */
	struct { char addr[64]; uint16_t port; } ports[NICS_MAX];
};

int bulk_agree_put(struct buf *b, const struct bulk_agree *a);
int bulk_agree_get(struct buf *b, struct bulk_agree *a, struct err *e);

enum bulk_entry_type {
	ENTRY_FILE = 1, ENTRY_DIR = 2, ENTRY_LINK = 3, ENTRY_HARDLINK = 4,
	ENTRY_DIR_END = 5,      /* only id: nothing more goes into that directory */
};
enum {
	ENTRY_F_ASK = 1 << 0,     /* send nothing before the sink's verdict */
	ENTRY_F_NOSIZE = 1 << 1,  /* size unknown (a pipe): BULK_SIZES follows */
	ENTRY_F_TOP = 1 << 2,     /* a source that was named; parent is 0 */
	ENTRY_F_SPARSE = 1 << 3,  /* ranges lists all data; the rest is holes */
	ENTRY_F_CONTENTS = 1 << 4,/* with TOP on a DIR: named with "/": its contents go
				   * into the destination itself */
	ENTRY_F_COMMITTED = 1 << 5,/* with ASK on a FILE: an earlier attempt has committed it; it
				   * is left alone if it still has its size and time */
	ENTRY_F_LINKED = 1 << 6,  /* a HARDLINK to this one may follow */
	ENTRY_F_LAST = 1 << 7,    /* of a HARDLINK: no further one to its target follows */
};

struct bulk_range {
	uint64_t offset, length;
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
	uint32_t xattrs_len;     /* repeated: u16 name length, name, u32 value length, value */
	const uint8_t *xattrs;
};

/* What it takes of BULK_DETAILS_MAX. */
static inline uint32_t bulk_entry_details(const struct bulk_entry *e)
{
	return e->nranges * 16 + e->xattrs_len;
}

/* put: -EINVAL for what get would refuse; a buffer never holds half an entry. */
int bulk_entry_put(struct buf *b, const struct bulk_entry *e);
int bulk_entry_get(struct buf *b, struct bulk_entry *e);
struct bulk_range bulk_range_at(const uint8_t *ranges, uint32_t i);
void bulk_range_set(uint8_t *ranges, uint32_t i, struct bulk_range r);
/* True for one component of at most BULK_NAME_MAX bytes: not "", ".", "..", no "/". */
bool bulk_name_ok(const char *name);
/* Append an attribute to those of an entry. -EINVAL: the name is empty or too long. */
int bulk_xattr_put(struct buf *b, const char *name, const void *value, size_t len);
/* The next attribute of x, from *pos on, which starts as 0. name is not terminated. 1;
 * 0 at the end; -EBADMSG. */
int bulk_xattr_next(const uint8_t *x, uint32_t len, uint32_t *pos, const char **name,
		    size_t *name_len, const uint8_t **value, size_t *value_len);

enum bulk_verdict { VERDICT_SEND = 1, VERDICT_SKIP = 2, VERDICT_RUNS = 3 };

/* BULK_VERDICTS: pairs of u64 id, u8 verdict, to the end of the frame. */
int bulk_verdict_put(struct buf *b, uint64_t id, uint8_t verdict);
int bulk_verdict_get(struct buf *b, uint64_t *id, uint8_t *verdict);

/* BULK_RUNS: u64 id, then runs to the end: u64 offset, u32 length, 16-byte digest; VERDICT_RUNS
 * for that id follows when all have been sent. Lengths are not 0, and at most BLOCK_MAX. */
int bulk_runs_head_put(struct buf *b, uint64_t id);
int bulk_runs_head_get(struct buf *b, uint64_t *id);
int bulk_run_put(struct buf *b, uint64_t offset, uint32_t length, const uint8_t digest[16]);
int bulk_run_get(struct buf *b, uint64_t *offset, uint32_t *length, uint8_t digest[16]);

/* BULK_SIZES: u64 id, u64 size. BULK_KEPT: u64 id, u64 bytes. BULK_DONE: u64 first, u64
 * last, inclusive. */
int bulk_pair_put(struct buf *b, uint64_t x, uint64_t y);
int bulk_pair_get(struct buf *b, uint64_t *x, uint64_t *y);

/* BULK_PLACE: u64 id of the entry, u64 st_dev, u64 st_ino; 0 and 0: there is none. */
int bulk_place_put(struct buf *b, uint64_t id, uint64_t dev, uint64_t ino);
int bulk_place_get(struct buf *b, uint64_t *id, uint64_t *dev, uint64_t *ino);

/* BULK_FAILED (id) and BULK_ABORT (id 0): u64 id, u32 errno (Linux numbers), text. */
struct bulk_failure {
	uint64_t id;
	int code;            /* negative errno; anything unknown becomes -EIO */
	char text[1024];     /* cut there; control bytes made printable on receipt */
};
int bulk_failure_put(struct buf *b, const struct bulk_failure *f);
int bulk_failure_get(struct buf *b, struct bulk_failure *f);

/* BULK_BEAT, BULK_SENT and BULK_SUMMARY carry the same counters; a sender leaves 0
 * what it does not know. */
struct bulk_counts {
	uint64_t entries, files, failed, skipped;
	uint64_t bytes;       /* of payload: sent, or down in the sink */
	uint64_t blocks;      /* block numbers given out: 0 .. blocks-1 */
	uint64_t cpu_ns;      /* of that side's process in this transfer */
	uint64_t stamp_ns;    /* BEAT: sender's clock */
	uint64_t echo_ns;     /* BEAT: the last stamp got from the other, 0: none */
	uint64_t resumed;     /* bytes that were there already */
	uint64_t left_out;    /* names found that are no file, directory or link */
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
/* -EBADMSG: magic, version, extents over BLOCK_WIRE_EXTENTS, or payload over max. */
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
/* -EBADMSG: another magic, or a count over max. */
int message_head_get(const uint8_t *p, uint32_t magic, uint32_t max, struct message_head *h);

/* Credits: the sink's answer to blocks, on the channel they came by. Magic "RFTC"; an item:
 * u64 block number, u32 buffer, u32 status (0: down; else an errno: that block must be sent
 * again). */
#define CREDIT_MAGIC 0x52465443u
#define CREDIT_BYTES 16
#define CREDITS_MAX 256
/* As number, over RDMA_WRITE: it answers nothing, the buffer is given anew. */
#define CREDIT_GRANT UINT64_MAX
struct credit {
	uint64_t number;
	uint32_t buffer;
	uint32_t status;
};
void credit_put(uint8_t *p, const struct credit *c);
void credit_get(const uint8_t *p, struct credit *c);

/* Announcements, over RDMA_READ: blocks that wait in the source's buffers. Magic "RFTA"; an
 * item: u64 block number, u32 buffer, u32 bytes of head and table, u32 bytes of payload, u32
 * zero. */
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
 * key: the remote key of the memory that the other side may write to or read from; 0 over
 * TCP. proof = HMAC-SHA-256(token, label | nonces | session | channel | key), with label
 * "rftp client channel" or "rftp server channel". */
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
/* -EBADMSG: magic, or channel not below CHANNELS_MAX; -EPROTO: another major, which is
 * then all that h holds. */
int hello_get(const uint8_t p[HELLO_BYTES], struct channel_hello *h);

#endif
