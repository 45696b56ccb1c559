// SPDX-License-Identifier: Apache-2.0
/* transport: bytes and blocks between two hosts. The message stream carries control messages.
 * Paths carry blocks: over TCP, over verbs (src/rdma), or in-band where no data port can be
 * reached. The sender and receiver stages drive any path. */
#ifndef RFTP_TRANSPORT_H
#define RFTP_TRANSPORT_H

#include "block/block.h"
#include "crypto/crypto.h"
#include "numa/numa.h"
#include "proto/proto.h"
#include "util/util.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* ---- messages ---- */

#define NO_RDMA "this build has no RDMA"
/* The reason why a connection failed, in plain words. */
const char *net_reason(int code);
/* Put into e that no connection to host can be made, because of code. Returns code. */
int net_connect_failed(const char *host, uint16_t port, int code, struct err *e);
/* Warn that the type of service is not set, because of code. */
void net_tos_failed(int tos, int code);

/* ---- byte streams: a socket, TLS over it, or a pair of pipes ---- */

struct stream;

struct stream_ops {
	/* Results as tls_read and tls_write of crypto.h: the number of bytes; 0: a proper end;
	 * -EPIPE: the stream was cut; -ETIMEDOUT: no byte within timeout_ms (-1: no limit). */
	ssize_t (*read)(struct stream *s, void *p, size_t len, int timeout_ms);
	ssize_t (*write)(struct stream *s, const void *p, size_t len, int timeout_ms);
	/* Send up to len bytes of the file fd from offset without copying them into this
	 * process. Results as write, but 0: the file ends at offset; -EOPNOTSUPP: this file or
	 * descriptor cannot do it, use read and write. NULL: the stream has no sendfile. */
	ssize_t (*sendfile)(struct stream *s, int fd, uint64_t offset, size_t len,
			    int timeout_ms);
	size_t (*pending)(struct stream *s);
	int (*shutdown)(struct stream *s);  /* send a proper end; reading stays possible */
	/* End both directions for good, with -ECANCELED. Any thread. */
	void (*abort)(struct stream *s);
	void (*free)(struct stream *s);
};

struct stream {
	const struct stream_ops *ops;
	int fd;              /* TLS and packets: the socket */
	bool disowned;       /* free will leave the descriptors open */
	atomic_bool aborted; /* any thread */
};

/* Takes over both descriptors (the same one for a socket). Programs ignore SIGPIPE.
 * NULL with errno: no memory or no descriptor is left; the caller keeps its descriptors. */
struct stream *stream_plain(int rfd, int wfd);
/* Takes over fd and tls; NULL as above. */
struct stream *stream_tls(int fd, struct tls *tls);
/* Takes over fd, one end of a SOCK_SEQPACKET pair; the other end must use stream_packets(), too.
 * Its packets let the reader distinguish a proper end from a cut. NULL as above. */
struct stream *stream_packets(int fd);
void stream_free(struct stream *s);

/* Write all len bytes, without a time limit. 0 or a negative errno. */
int stream_write_all(struct stream *s, const void *buf, size_t len);
/* Copy from a to b until a ends. A proper end is passed on; any other end aborts both streams.
 * 0 after a proper end, or a negative errno. One thread for each direction. */
int stream_pass(struct stream *a, struct stream *b);

/* ---- the message stream: FTP's lines and the bulk mode's frames ---- */

/* The message stream. One thread may read; any number of threads may write. */
struct mstream;

/* Takes over s. NULL: out of memory; the caller keeps s. */
struct mstream *ms_new(struct stream *s);
void ms_free(struct mstream *m);
/* Change to another stream (after AUTH TLS) that has taken over the descriptors of the old one; the
 * old one is freed without closing them. -EPROTO: bytes of the old stream are still unread. They
 * arrived in clear text and may be injected; the caller keeps s. Check ms_readable before the
 * handshake too, to fail early. No other thread may read or write meanwhile, but ms_abort is
 * allowed. */
int ms_replace(struct mstream *m, struct stream *s);
/* Read a line without its CRLF (or LF), NUL-terminated, with Telnet IAC sequences removed (RFC 959
 * §5.3, RFC 1123 §4.1.2.10). Returns its length, which may be 0; -EPIPE: end of the stream;
 * -EMSGSIZE: longer than max - 1, and skipped; -EILSEQ: it contained a NUL, and was skipped;
 * -ETIMEDOUT: not complete timeout_ms after the call; the next call continues the line. */
ssize_t ms_read_line(struct mstream *m, char *line, size_t max, int timeout_ms);
/* Read exactly len bytes. 0, or a negative errno, after which the position in the stream is lost.
 * timeout_ms here and below: the longest time without a byte. */
int ms_read(struct mstream *m, void *p, size_t len, int timeout_ms);
/* Read 1 to len raw bytes, for a caller that relays the stream from now on. Returns their number or
 * a negative errno; the end of the stream is -EPIPE. */
ssize_t ms_read_some(struct mstream *m, void *p, size_t len, int timeout_ms);
/* Read and discard len bytes. 0 or a negative errno. */
int ms_skip(struct mstream *m, size_t len, int timeout_ms);
/* Read one frame into payload, which is reset first. 0; -EMSGSIZE: longer than max; -EBADMSG: not a
 * frame; -ETIMEDOUT: nothing is lost, call again with the same payload; or another negative
 * errno. */
int ms_read_frame(struct mstream *m, uint8_t *type, struct buf *payload, size_t max,
		  int timeout_ms);
/* Write the whole message; messages of other threads never mix with it. 0, or a negative errno,
 * which later writes return, too. Any thread. */
int ms_write(struct mstream *m, const void *p, size_t len);
int ms_write_frame(struct mstream *m, uint8_t type, const void *p, size_t len);
/* The same from n pieces, at most MS_PIECES. */
#define MS_PIECES 8
int ms_write_framev(struct mstream *m, uint8_t type, const struct iovec *iov, int n);
/* A write fails with -ETIMEDOUT when the peer reads no byte for ms (-1: never). The default is
 * 5 minutes. */
void ms_set_write_timeout(struct mstream *m, int ms);
int ms_write_timeout(struct mstream *m);
/* Wipe the bytes that have been read, after a secret. The reader's thread. */
void ms_wipe(struct mstream *m);
/* Send a proper end; reading stays possible. 0 or a negative errno. */
int ms_shutdown(struct mstream *m);
/* End all calls, present and later ones, with -ECANCELED. Any thread. */
void ms_abort(struct mstream *m);
bool ms_aborted(const struct mstream *m);
/* True: bytes can be read without sleeping. The reader's thread. */
bool ms_readable(struct mstream *m);

/* ---- paths ---- */

enum path_event_kind {
	PATH_RECEIVED, /* sink: the stage owns block; its head is not verified yet */
	PATH_ACKED,    /* source: the sink acknowledged block with status 0; the stage owns it */
	PATH_RETURNED, /* source: block must be sent again: its channel went down before the
			* acknowledgement, or the sink refused it (status); the stage owns it */
	PATH_DOWN,     /* a channel is down: error; 0: the peer closed it in good order */
};

struct path_event {
	enum path_event_kind kind;
	uint32_t channel;
	struct block *block;
	uint32_t status;
	int error;            /* negative errno */
};

/* The events of a path that its stage has not taken yet, the same for all transports. The
 * path's thread only (in-band: under its lock). Nothing is allocated per event. */
struct path_events {
	/* Blocks by the kind of their event, linked by next; a returned block has its status in
	 * sent_at. */
	struct {
		struct block *first, **end;
	} blocks[PATH_DOWN];
	uint32_t nblocks;
	uint32_t ndowns;
	int *downs;           /* [nchannels]: the error of a channel that went down, or
			       * PATH_NOT_DOWN */
};

#define PATH_NOT_DOWN 1

struct path;

/* The operations of one transport on a path. The path's one thread calls them; any thread may
 * call wake, release and refuse. */
struct path_ops {
	const char *name;
	/* Source: send b on the best channel. b->base holds the wire head and table already. 0:
	 * the path owns b until an event returns it; -EAGAIN: no credit or no room now, poll
	 * first; -EPIPE: no channel is left. */
	int (*post)(struct path *p, struct block *b);
	/* Move bytes and return up to max events; sleep at most timeout_ms (-1: until there is
	 * an event, room to post again after -EAGAIN, or a wake). The number of events, which is
	 * 0 also after a wake or when there is room again; or a negative errno when the path is
	 * lost. */
	int (*poll)(struct path *p, struct path_event *ev, int max, int timeout_ms);
	/* Sink: b is done (status 0), or must be sent again. b returns to its pool, and its
	 * credit to the source. Any thread. */
	void (*release)(struct path *p, struct block *b, uint32_t status);
	/* Sink: b fails its check. Even its number may be wrong, so no answer can name it: b
	 * returns to its pool, and its channel goes down (PATH_DOWN, -EBADMSG). The source sends
	 * the blocks of that channel again on others. Any thread. */
	void (*refuse)(struct path *p, struct block *b);
	void (*wake)(struct path *p); /* any thread */
	/* After the last post or release: flush the queues, close the channels in good order. */
	int (*finish)(struct path *p, int timeout_ms);
	/* Release a device that is being removed. One thread calls it regularly, from the end of
	 * the stage (left) until free. May be NULL. */
	void (*tend)(struct path *p);
	/* The path's thread ends: accept no more channels. May be NULL. */
	void (*leave)(struct path *p);
	void (*free)(struct path *p);
};

/* The progress of a channel. */
struct channel_watch {
	atomic_bool lost;            /* any thread: the peer has given it up */
	_Atomic uint32_t held;       /* whole blocks that the sink has not answered: counted by the
				      * sink, reported to the source */
	_Atomic uint64_t reported;   /* source: bytes that the sink has received on it */
	/* The path's thread: */
	bool moved, acked;           /* since the last check */
	uint64_t seen;               /* reported, at the last check */
	uint64_t moved_ns, acked_ns; /* on the watch's clock */
};

#define STALL_MS 30000u
/* The time limit is this many times longer while the sink holds blocks and acknowledges none: its
 * storage, or the reader of its standard output, may be slow. */
#define HELD_LIMITS 120u

struct watch {
	bool source;
	atomic_bool any_lost;        /* any thread; then check at once */
	uint64_t limit_ns;
	uint64_t looked_ns;
	uint64_t awake_ns;           /* a clock that stops while the process is stopped */
	struct channel_watch *ch;    /* [nchannels]; NULL: in-band */
};

/* The error of a channel that the peer has given up. */
#define CHANNEL_GIVEN_UP (-ENOLINK)

struct path {
	const struct path_ops *ops;
	uint32_t nchannels;          /* at most: over TCP some may open later, or never */
	_Atomic uint32_t alive;      /* channels that are up: the path's thread writes, any reads */
	atomic_bool left;            /* its thread has ended; set by the stage */
	struct pool *pool;           /* not owned */
	struct watch watch;
	struct path_events events;
	bool want_room;              /* post returned -EAGAIN */
	/* Both [nchannels], written by the path's thread; others read them with __atomic_load_n. */
	uint64_t *channel_bytes;     /* carried so far */
	uint64_t *channel_ahead;     /* bytes at the sink that belong to unanswered (source) or
				      * incomplete (sink) blocks; NULL: not known */
};

/* Bytes of incomplete blocks that have arrived at the sink. Any thread. */
uint64_t path_ahead(const struct path *p);

struct path_config {
	bool source;
	struct pool *pool;
	uint32_t payload;            /* bytes in a block at most: the agreement's block */
	uint32_t inflight;           /* most unacknowledged blocks */
	const struct message_keys *keys; /* NULL: clear; not needed after the path is made */
	uint16_t first;              /* number of its first channel */
	bool client;
	bool far;                    /* TCP: a long path: sample its streams */
	uint64_t rate;               /* TCP source: bytes per second of the whole transfer; the
				      * kernel paces each stream to a low rate; 0: no limit */
	const char *congestion;      /* TCP: congestion control; NULL: the system's, and bbr on a
				      * far path that loses packets, if it is allowed; outlives
				      * the path */
	uint32_t stall_ms;           /* a channel goes down after this long without progress of the
				      * peer; 0: 30 s */
};

/* The sink's report of a channel, for the source. Any thread. */
void path_report(struct path *p, uint32_t channel, uint64_t bytes, uint32_t held);
/* The peer has given this channel up: it goes down (PATH_DOWN, CHANNEL_GIVEN_UP). Any thread. */
void path_lose(struct path *p, uint32_t channel);

/* ---- for the transports (path.c) ---- */

/* Fill in the parts of a zeroed path that all transports share. watched: its channels have a struct
 * channel_watch. 0 or -ENOMEM; call path_destroy() in any case. */
int path_init(struct path *p, const struct path_ops *ops, const struct path_config *c,
	      uint32_t nchannels, bool watched);
/* Blocks in untaken events go back to their pool. */
void path_destroy(struct path *p);

/* Queue an event for the stage. A channel that is down already keeps its first error. */
void path_add_block(struct path *p, enum path_event_kind kind, struct block *b, uint32_t status);
void path_add_down(struct path *p, uint32_t channel, int error);
static inline bool path_has_events(const struct path *p)
{
	return p->events.nblocks || p->events.ndowns;
}
/* Take up to max events, blocks before the end of their channel. Returns their number. */
int path_take_events(struct path *p, struct path_event *ev, int max);
/* Dispose of events that arrive while a path is closed; *result keeps the first error. */
void path_drop_events(const struct path_event *ev, int n, int *result);

static inline void path_count(struct path *p, uint32_t channel, uint64_t bytes)
{
	__atomic_store_n(&p->channel_bytes[channel], p->channel_bytes[channel] + bytes,
			 __ATOMIC_RELAXED);
}

/* Bytes on the wire: b's head and extent table; the whole block. */
static inline uint32_t block_wire_head(const struct block *b)
{
	return BLOCK_WIRE_HEAD + b->nextents * BLOCK_WIRE_EXTENT;
}

static inline uint32_t block_wire_bytes(const struct block *b)
{
	return block_wire_head(b) + b->len;
}

/* True: the encoded head of b agrees with b's members. */
bool block_head_agrees(const struct block *b);

/* The channel has opened: its time limits start now. */
void watch_begin(struct path *p, uint32_t channel);
/* True: check each channel now. now_ns: the present time. */
bool watch_due(struct path *p, uint64_t now_ns);
/* Milliseconds until the next check is due. */
int watch_ms(const struct path *p, uint64_t now_ns);
/* Check a channel. waits: the peer owes this side data or an answer on it. 0, or the negative errno
 * with which the channel must go down. */
int watch_check(struct path *p, uint32_t channel, bool waits);

/* Keys of the messages other than blocks; each direction has its own. */
struct message_keys {
	uint8_t from_source[KEY_BYTES], from_sink[KEY_BYTES];
};

/* Seals or checks the messages of one channel in one direction. One thread. */
struct messages {
	struct sealer *sealer;       /* NULL: a CRC32C */
	uint64_t next;               /* sequence number of the next message */
	uint16_t channel;
};

/* key NULL: PROT_CLEAR, a CRC32C instead of a tag. 0 or -ENOMEM; call messages_close() in any
 * case. */
int messages_open(struct messages *m, const uint8_t *key, uint16_t channel);
void messages_close(struct messages *m);
/* Put head and tag around the count items at p + MESSAGE_HEAD, which have len bytes together.
 * 0 or -EIO. */
int message_seal(struct messages *m, uint8_t *p, uint32_t magic, uint32_t count, size_t len);
/* Check a message of at most max items of item bytes; *count is their number. 0; -EBADMSG: it is
 * not the next message of the peer on this channel. */
int message_check(struct messages *m, const uint8_t *p, size_t len, uint32_t magic,
		  size_t item, uint32_t max, uint32_t *count);

/* The session of a data channel and the proof of it, rftp-protocol(7). */
struct channel_auth {
	uint64_t session;
	uint8_t token[KEY_BYTES];
	uint8_t client_nonce[NONCE_BYTES], server_nonce[NONCE_BYTES];
};

/* Listen on addr (numeric; "" any of family) on a port in [lo, hi] (0,0: any).
 * A descriptor, with *port; or a negative errno with text. */
int tcp_listen(const char *addr, int family, uint16_t lo, uint16_t hi, uint16_t *port,
	       struct err *e);
/* Connect to host, a name or an address: try all its addresses, families interleaved, within
 * timeout_ms, not counting the look-up of the name. stop: a descriptor that becomes readable to
 * cancel (-ECANCELED), or -1. TCP_NODELAY and keepalive are set. A descriptor, or a negative
 * errno with a text that names host, port and reason. */
int tcp_connect(const char *host, uint16_t port, int stop, int timeout_ms, struct err *e);
/* The same, but begin with this address of them all, in the order of their bytes, from 1, and
 * warn if it does not answer: so that several processes share the hosts of one name. turn 0: as
 * tcp_connect(). */
int tcp_connect_turn(const char *host, uint16_t port, unsigned turn, int stop, int timeout_ms,
		     struct err *e);
/* The least round trip time that the kernel has measured on fd: the path without queues. 0: not
 * known. */
uint64_t tcp_rtt_ns(int fd);
/* A path of n channels over sockets that have proved the session. It takes them over, and they
 * become non-blocking; on failure the caller keeps them. -1: the channel is not open yet; at least
 * one must be open. NULL with text. */
struct path *tcp_path_new(const struct path_config *c, const int *fds, uint32_t n,
			  struct err *e);

/* A path through the message stream. The thread that reads m hands it the payloads of BULK_DATA and
 * BULK_CREDIT; 0 or a negative errno. NULL with text. */
struct path *inband_path_new(const struct path_config *c, struct mstream *m, struct err *e);
int inband_path_data(struct path *p, struct buf *payload);
int inband_path_credit(struct path *p, struct buf *payload);

/* The first 56 bytes of either end on a new data channel: they prove the session, and name the
 * memory that the peer may access (RDMA's remote key; 0 over TCP). 0 or -EIO. */
int channel_hello_put(uint8_t p[HELLO_BYTES], bool server, const struct channel_auth *a,
		      uint16_t channel, uint32_t key);
/* NULL, or the reason to reject the hello of the server (or client). */
#define PROTOCOL_WHY "it does not speak this protocol"
#define CHANNEL_WHY "it answers for another channel"
const char *channel_hello_check(const uint8_t p[HELLO_BYTES], bool server,
				const struct channel_auth *a, uint16_t *channel, uint32_t *key);

/* ---- endpoints ---- */

/* An idle thread of an RDMA path sleeps at once (NEVER), polls without sleeping (ALWAYS), or polls
 * for a moment while that pays (AUTO). */
enum poll_mode { POLL_AUTO, POLL_ALWAYS, POLL_NEVER };

#define NIC_DEVICE_NAME 64

/* 1 with the name of the RDMA device that has address a of network interface ifname; 0: no device
 * has it; or a negative errno with text: this host cannot use RDMA. Opens no device. */
typedef int nic_device(const struct sockaddr_storage *a, const char *ifname,
		       char name[NIC_DEVICE_NAME], struct err *why);

struct port_range {
	uint16_t lo, hi;                /* 0, 0: any port */
};

/* The settings of one card. */
struct nic_rule {
	char *name;                     /* of its interface */
	char *address;                  /* numeric: its address for data; NULL: the first of each
					 * family */
	struct port_range ports;        /* for data */
};

struct nic_rules {
	const struct nic_rule *at;
	size_t n;
};

/* The rule of interface name, or NULL. */
const struct nic_rule *nic_rule_of(const struct nic_rules *rules, const char *name);
/* The rule of the card that has this address, or NULL. */
const struct nic_rule *nic_rule_at(const struct nic_rules *rules,
				   const struct sockaddr_storage *addr);

struct nic_wish {
	const char *names;              /* "a,b": of cards, devices, or addresses; NULL or "":
					 * no preference */
	struct sockaddr_storage local;  /* this side's end of the control connection;
					 * AF_UNSPEC: not known */
	nic_device *device;             /* NULL: no RDMA in this build */
	const char *nodes;              /* as struct place_wish's nics; NULL: the nodes of sysfs */
	struct nic_rules rules;
	bool lenient;                   /* an unknown name is a warning, not an error */
};

/* This machine's cards for an offer: the named ones; or the card of the control connection and
 * all RDMA cards, with one address each. *why: the reason when no card has RDMA. 0, or a negative
 * errno with text: an unknown name. */
int nics_find(struct nic_offer nics[NICS_MAX], uint32_t *n, const struct nic_wish *w,
	      struct err *why, struct err *e);
/* "eth0 (192.0.2.1) on node 1"; the node only if it is known. Returns text. */
#define NIC_TEXT 128
const char *nic_text(const struct nic_offer *n, char text[NIC_TEXT]);
/* Parse a numeric address, with port 0. Its length; 0: not an address. */
socklen_t address_parse(const char *text, struct sockaddr_storage *ss);
/* The numeric address without its port; "?" if there is none. Returns out. */
const char *address_host(const struct sockaddr_storage *a, char out[INET6_ADDRSTRLEN]);
void address_set_port(struct sockaddr_storage *a, uint16_t port);
/* Write a to out: "192.0.2.1:99", "[2001:db8::1]:99", or "stdio" for NULL. Returns out. */
const char *sockaddr_text(const struct sockaddr_storage *a, char out[80]);
/* a as an IPv6 address; an IPv4 address becomes ::ffff:a.b.c.d. */
struct in6_addr address_as_v6(const struct sockaddr_storage *a);
/* Convert an IPv4-mapped IPv6 address to AF_INET, the form that network devices have. */
void address_unmap(struct sockaddr_storage *a);
/* The local address that the routes choose for to; AF_UNSPEC on failure. */
int address_source(const struct sockaddr_storage *to, socklen_t len,
		   struct sockaddr_storage *from);

struct endpoint_config {
	bool source;
	const struct agreement *agr;     /* outlives the endpoint; NULL: only to resolve */
	const struct channel_auth *auth; /* as agr */
	uint16_t first;                  /* its channels: first .. first + agr->channels - 1 */
	uint64_t rtt_ns;                 /* measured; 0: not known */
	int tos;                         /* type of service; -1: the system's */
	enum poll_mode poll;             /* RDMA only */
	int node;                        /* NUMA node of the card; NODE_UNKNOWN */
	struct sockaddr_storage from;    /* client: connect from there; AF_UNSPEC: by the routes */
};

/* One side's end of one path, from before its pool exists until after its path is gone:
 * listen or resolve, then the pool with its hooks, then open, then free path, pool, endpoint. */
struct endpoint;

struct endpoint_ops {
	/* Server: listen at address a (its port is ignored; AF_UNSPEC or zeros: any address) on
	 * a port in [lo, hi]. 0 with *port, or a negative errno with text. */
	int (*listen)(struct endpoint *p, const struct sockaddr_storage *a, uint16_t lo,
		      uint16_t hi, uint16_t *port, struct err *e);
	/* Client: find the route to a. */
	int (*resolve)(struct endpoint *p, const struct sockaddr_storage *a, socklen_t len,
		       int stop, int timeout_ms, struct err *e);
	/* Hooks that register the path's pool; NULL: none needed. They live as long as the
	 * endpoint. */
	const struct pool_hooks *(*hooks)(struct endpoint *p);
	/* Connect, or accept, the first channels of the path. stop as in tcp_connect(). NULL with
	 * text. */
	struct path *(*open)(struct endpoint *p, const struct path_config *c, int stop,
			     int timeout_ms, struct err *e);
	void (*free)(struct endpoint *p);
};

struct endpoint {
	const struct endpoint_ops *ops;
};

/* Makes an endpoint of one transport. NULL with the reason in e. */
typedef struct endpoint *endpoint_maker(const struct endpoint_config *c, struct err *e);

/* A transport with devices of its own. */
struct device_transport {
	endpoint_maker *endpoint;
	nic_device *device;
};

endpoint_maker tcp_endpoint;

/* ---- a path's one thread asleep ---- */

/* The thread sleeps in epoll; other threads wake it when they have work for it. A waker first
 * stores the work, then calls sleeper_kick(), which clears sleeping and writes to efd if sleeping
 * was set. The thread first sets sleeping (sleeper_lie_down()), then checks for work. All stores
 * are sequentially consistent, so at least one side sees the store of the other: no wake-up is
 * lost, and no wake-up costs a system call while the thread is busy. */
struct sleeper {
	int ep, efd;
	atomic_bool sleeping, woken;
};

#define SLEEPER_WOKEN UINT64_MAX /* data of the event that only wakes */

int sleeper_open(struct sleeper *s);   /* 0 or a negative errno; close it either way */
void sleeper_close(struct sleeper *s);
/* As EPOLL_CTL_ADD and _DEL; 0 or a negative errno. */
int sleeper_watch(struct sleeper *s, int fd, uint32_t events, epoll_data_t data);
void sleeper_unwatch(struct sleeper *s, int fd);
/* Any thread: end the sleep, so that the thread sees the work stored before. sleeper_wake also
 * sets woken. */
void sleeper_kick(struct sleeper *s);
void sleeper_wake(struct sleeper *s);
/* The thread itself: has sleeper_wake been called since the last call? */
bool sleeper_woken(struct sleeper *s);
/* Announce the sleep: from now on a kick ends it. False: woken is set; then, or when there is
 * other work, the time-out of the sleep must be 0. */
bool sleeper_lie_down(struct sleeper *s);
/* As epoll_wait(2); 0 also after a signal. */
int sleeper_sleep(struct sleeper *s, struct epoll_event *e, int max, int timeout_ms);

/* ---- pace: a token bucket that keeps all senders of a transfer to one rate ---- */

/* While the bucket is not empty, a sender may take any number of bytes; the next sender waits
 * until the debt is paid. So a block may be larger than the bucket, the mean rate is kept, and the
 * other paths can use the share that one path leaves. The caller passes the time. */
struct pace {
	pthread_mutex_t lock; /* guards the rest, once senders run; rate is set before */
	uint64_t rate;        /* bytes per second; 0: no limit */
	uint64_t burst;       /* bytes the bucket holds */
	int64_t tokens;       /* bytes; negative: debt */
	uint64_t at_ns;       /* the time of tokens */
	uint64_t rest;        /* remainder of the last division, in bytes * 1e-9 */
};

void pace_init(struct pace *p);
void pace_destroy(struct pace *p);
/* Start with a full bucket; 0: no limit. */
void pace_start(struct pace *p, uint64_t rate, uint64_t now);
/* Any thread: nanoseconds until a sender may send; 0: now. */
uint64_t pace_wait_ns(struct pace *p, uint64_t now);
/* Any thread: these bytes were sent. */
void pace_take(struct pace *p, uint64_t bytes);

/* ---- stages, each with a thread of its own ---- */

struct stage;

struct stage_config {
	struct path *path;           /* not owned */
	struct bq *q;                /* not owned */
	/* Called by the stage's thread. down: a channel went down; the transfer continues while
	 * another is up. */
	void (*down)(void *arg, uint32_t channel, int error);
	void *arg;
	struct ids cpus;             /* of its thread; empty: any */

	/* sender */
	struct pace *pace;           /* NULL: no limit; others may share it; not owned */
	/* acked: b returns to its pool after the call. returned: this path has no channel left for
	 * b. 0: the callee owns b; negative: no path can send it, the transfer fails. */
	void (*acked)(void *arg, struct block *b);
	int (*returned)(void *arg, struct block *b);
	/* failed: the sender ends early for this reason; called once, but not after
	 * stage_abort. No block is acknowledged any more. */
	void (*failed)(void *arg, int error);
};

/* The source's last stage: sends the filled blocks of q until q is closed, and waits for their
 * acknowledgements. A push to q wakes the path: start the sender before others push, and free the
 * path after q. NULL with text. */
struct stage *sender_start(const struct stage_config *c, const char *name, struct err *e);
/* The sink's first stage: pushes received blocks to q. NULL with text. */
struct stage *receiver_start(const struct stage_config *c, const char *name, struct err *e);

/* End a receiver once all released blocks are acknowledged. A sender ends when its queue closes. */
void stage_stop(struct stage *s);
/* End now: the transfer has failed, so the peer does not wait for answers. A sender's path keeps
 * the unacknowledged blocks. Any thread, until stage_free(). */
void stage_abort(struct stage *s);
/* Wait for the end. 0 when all blocks are acknowledged, or the first error. Once. */
int stage_join(struct stage *s);
void stage_free(struct stage *s); /* after the join */
/* The processor time of its thread. Before the join. */
uint64_t stage_cpu_ns(const struct stage *s);

/* The fault points corrupt and corrupt-head, for a block that has just arrived with payload
 * bytes. True: a bit of the number in its head is flipped. */
static inline bool block_damage(struct block *b, uint32_t payload)
{
	if (FAULT("corrupt", payload) && payload)
		block_payload(b)[payload / 2] ^= 0x20;
	if (!FAULT("corrupt-head", payload))
		return false;
	b->base[15] ^= 1; /* the number is in bytes 8 to 15, see proto/bulk.h */
	return true;
}

#endif
