// SPDX-License-Identifier: Apache-2.0
/* transport: bytes and blocks between two hosts. The message stream carries control;
 * paths carry blocks, by TCP here, by verbs in src/rdma, in-band where no data port can
 * be reached; the sender and receiver stages drive any of them. */
#ifndef RFTP_TRANSPORT_H
#define RFTP_TRANSPORT_H

#include "block/block.h"
#include "crypto/crypto.h"
#include "numa/numa.h"
#include "proto/proto.h"
#include "transport/pace.h"
#include "util/util.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* ---- byte streams: a socket, TLS over it, or a pair of pipes ---- */

struct stream;

struct stream_ops {
	/* As tls_read and tls_write of crypto.h: bytes done, 0 at a proper end, -EPIPE
	 * when cut, -ETIMEDOUT after timeout_ms (-1: never) without a byte. */
	ssize_t (*read)(struct stream *s, void *p, size_t len, int timeout_ms);
	ssize_t (*write)(struct stream *s, const void *p, size_t len, int timeout_ms);
	/* Up to len bytes of fd's file from offset on, which do not pass through this
	 * process; otherwise as write. 0: the file ends there; -EOPNOTSUPP: not from this
	 * file or to this descriptor, so read and write them. NULL: this stream never can. */
	ssize_t (*sendfile)(struct stream *s, int fd, uint64_t offset, size_t len,
			    int timeout_ms);
	size_t (*pending)(struct stream *s);
	int (*shutdown)(struct stream *s);  /* say a proper end; reading may go on */
	/* Wake both directions for good, with -ECANCELED; any thread. */
	void (*abort)(struct stream *s);
	void (*disown)(struct stream *s);   /* leave the descriptors open at free */
	void (*free)(struct stream *s);
};

struct stream {
	const struct stream_ops *ops;
};

/* Takes over both descriptors (the same one for a socket). Programs ignore SIGPIPE.
 * NULL, with errno and the descriptors still the caller's: memory or descriptors are
 * out. */
struct stream *stream_plain(int rfd, int wfd);
/* Takes over fd and tls; NULL as above. */
struct stream *stream_tls(int fd, struct tls *tls);
/* Takes over fd, one of a pair of SOCK_SEQPACKET whose other end is such a stream, too: so
 * that a proper end and a cut differ also between processes. NULL as above. */
struct stream *stream_packets(int fd);
void stream_free(struct stream *s);

/* All of len bytes, however long it takes. 0 or a negative errno. */
int stream_write_all(struct stream *s, const void *buf, size_t len);
/* Pass on what comes from a to b, and its end: a proper one as such, otherwise both are aborted.
 * 0 after a proper end, or a negative errno. One thread for each direction. */
int stream_pass(struct stream *a, struct stream *b);

/* ---- the message stream: FTP's lines and the bulk mode's frames ---- */

/* One reader thread and any number of writer threads. */
struct mstream;

struct mstream *ms_new(struct stream *s);    /* takes over s */
void ms_free(struct mstream *m);
/* Change to another stream (after AUTH TLS), which has taken over the descriptors of
 * the old one: that is freed without closing them. -EPROTO when bytes of the old one
 * are waiting unread (they would have come in clear: an injection); s stays the
 * caller's then. Ask ms_readable before the handshake too, to fail early. Only while
 * no other thread reads or writes; ms_abort may come. */
int ms_replace(struct mstream *m, struct stream *s);
/* A line without CRLF (a lone LF is taken too), NUL-terminated, Telnet IAC sequences
 * removed (RFC 959 §5.3, RFC 1123 §4.1.2.10). Its length; 0 length lines are possible,
 * so the end of the stream is -EPIPE; -EMSGSIZE: longer than max - 1, the line has been
 * skipped; -EILSEQ: it held a NUL, skipped; -ETIMEDOUT: not whole timeout_ms after the
 * call, however the bytes dribble; what has come is kept for the next call. */
ssize_t ms_read_line(struct mstream *m, char *line, size_t max, int timeout_ms);
/* Exactly len bytes. 0 or a negative errno, after which the place in the stream is
 * lost. timeout_ms here and below: without a byte. */
int ms_read(struct mstream *m, void *p, size_t len, int timeout_ms);
/* At least one byte and at most len, as they come, whatever they mean: for who passes them on
 * from now on. Their number or a negative errno; the end of the stream is -EPIPE. */
ssize_t ms_read_some(struct mstream *m, void *p, size_t len, int timeout_ms);
/* len bytes thrown away. */
int ms_skip(struct mstream *m, size_t len, int timeout_ms);
/* One frame into payload, which is reset first. -EMSGSIZE over max; -EBADMSG: no frame.
 * -ETIMEDOUT: nothing is lost, call again with the same payload. */
int ms_read_frame(struct mstream *m, uint8_t *type, struct buf *payload, size_t max,
		  int timeout_ms);
/* All of it, in one go with respect to other writers. */
int ms_write(struct mstream *m, const void *p, size_t len);
int ms_write_frame(struct mstream *m, uint8_t type, const void *p, size_t len);
/* The same of n pieces, at most MS_PIECES. */
#define MS_PIECES 8
int ms_write_framev(struct mstream *m, uint8_t type, const struct iovec *iov, int n);
/* Writers give up with -ETIMEDOUT after ms without a byte taken by the peer (-1: never).
 * At first 5 minutes. */
void ms_set_write_timeout(struct mstream *m, int ms);
int ms_write_timeout(struct mstream *m);
/* Wipe what has been read, where it was a secret. The reader's thread. */
void ms_wipe(struct mstream *m);
/* Say a proper end; reading may go on. 0 or a negative errno. */
int ms_shutdown(struct mstream *m);
/* Wake whoever sleeps in it, now and later, with -ECANCELED. Any thread. */
void ms_abort(struct mstream *m);
bool ms_aborted(const struct mstream *m);
/* Bytes could be read without sleeping. */
bool ms_readable(struct mstream *m);

/* ---- lanes: several streams in one message stream ---- */

/* What comes for a lane is kept until it is read, up to LANE_WINDOW bytes, beyond which its
 * sender waits: no lane waits for another's reader. */
struct lanes;

/* m carries frames of lanes only from now on, and has no other reader until lanes_end. NULL
 * with text; m is never taken over. */
struct lanes *lanes_new(struct mstream *m, unsigned n, struct err *e);
/* Lane i; each is taken, and freed before lanes_end, once. One reader and one writer at a time.
 * Its end is told to the other side when it is freed, and seen as -EPIPE by whoever writes,
 * as the stream's end by whoever reads. Its abort is m's, too, when its writer is asleep in m
 * and stays so for two seconds. */
struct stream *lanes_take(struct lanes *l, unsigned i);
/* Wait until the other side has ended its lanes, too, at most timeout_ms, and free l. 0: m is
 * what it was before; or a negative errno, and m is of no more use. */
int lanes_end(struct lanes *l, int timeout_ms);

/* ---- paths ---- */

enum path_event_kind {
	PATH_RECEIVED, /* sink: block is ours, its head not yet verified */
	PATH_ACKED,    /* source: block was acknowledged with status 0; ours again */
	PATH_RETURNED, /* source: block must be sent again: its channel died before it was
			* acknowledged, or the sink said so (status); ours again */
	PATH_DOWN,     /* a channel is gone: error; 0: the peer closed it in good order */
};

struct path_event {
	enum path_event_kind kind;
	uint32_t channel;
	struct block *block;
	uint32_t status;
	int error;            /* negative errno */
};

struct path;

/* What a transport does for one path and its one thread. Only wake, release and refuse
 * are called from other threads. */
struct path_ops {
	const char *name;
	/* Source: put b on the wire on the channel that suits best. 0: the path owns b
	 * until it comes back in an event; -EAGAIN: no credit or no room now, poll first;
	 * -EPIPE: no channel is left. b->base holds the wire head and table already. */
	int (*post)(struct path *p, struct block *b);
	/* Move bytes; up to max events; sleeps at most timeout_ms (-1: until there is an
	 * event, room to post again after -EAGAIN, or wake). Number of events, 0 also
	 * when only room or a wake came; or a negative errno when the path is lost. */
	int (*poll)(struct path *p, struct path_event *ev, int max, int timeout_ms);
	/* Sink: b has been dealt with (status 0) or must come again; back to its pool,
	 * and the credit to the source. Any thread. */
	void (*release)(struct path *p, struct block *b, uint32_t status);
	/* Sink: b is not what was sent. Nothing in it is to be believed, its number least of
	 * all, so no answer can name it: b goes back to its pool and the channel it came by is
	 * taken down (PATH_DOWN, -EBADMSG); what was on it comes again by others. Any thread. */
	void (*refuse)(struct path *p, struct block *b);
	void (*wake)(struct path *p); /* any thread */
	/* No more posts or releases come: flush what is queued, close channels in good
	 * order. */
	int (*finish)(struct path *p, int timeout_ms);
	/* Now and then, once the stage that drove the path has ended (left), until it is freed:
	 * let go of a device that is being removed. One thread. May be NULL. */
	void (*tend)(struct path *p);
	/* The path's thread ends: accept no more channels. May be NULL. */
	void (*leave)(struct path *p);
	void (*free)(struct path *p);
};

/* What is known of the progress of a channel. */
struct channel_watch {
	atomic_bool lost;            /* any thread: the peer has given it up */
	_Atomic uint32_t held;       /* blocks that the sink has whole and has not answered. Sink:
				      * counted; source: as the sink reports */
	_Atomic uint64_t reported;   /* source: bytes that the sink has got by it */
	/* the path's thread: */
	bool moved, acked;           /* since the last look */
	uint64_t seen;               /* reported, at the last look */
	uint64_t moved_ns, acked_ns; /* on the watch's clock */
};

#define STALL_MS 30000u
/* A sink that holds blocks and acknowledges none has so many times the limit: its storage may
 * be slow, or the reader of its standard output. */
#define HELD_LIMITS 120u

struct watch {
	bool source;
	atomic_bool any_lost;        /* any thread; then look at once */
	uint64_t limit_ns;
	uint64_t looked_ns;
	uint64_t awake_ns;           /* a clock that stands still while the process does */
	struct channel_watch *ch;    /* [nchannels]; NULL: in-band */
};

/* What takes a channel down that the peer has given up. */
#define CHANNEL_GIVEN_UP (-ENOLINK)

struct path {
	const struct path_ops *ops;
	uint32_t nchannels;          /* at most: by TCP some may come later, or never */
	_Atomic uint32_t alive;      /* channels that are up: the path's thread writes, any reads */
	atomic_bool left;            /* its thread has ended; the stage's */
	struct pool *pool;           /* not owned */
	struct watch watch;
	/* Both [nchannels], written by the path's thread; others read them with __atomic_load_n. */
	uint64_t *channel_bytes;     /* carried so far */
	uint64_t *channel_ahead;     /* of blocks that are not answered (source) or not whole
				      * (sink): bytes that are at the sink; NULL: not known */
};

/* Bytes of incomplete blocks that have arrived at the sink. Any thread. */
uint64_t path_ahead(const struct path *p);

struct path_config {
	bool source;
	struct pool *pool;
	uint32_t payload;            /* agreement's block */
	uint32_t inflight;           /* blocks unacknowledged at most */
	const struct message_keys *keys; /* NULL: clear; not needed after the path is made */
	uint16_t first;              /* number of its first channel */
	bool client;
	bool far;                    /* TCP: a long path: sample its streams */
	uint64_t rate;               /* TCP source: of the whole transfer, bytes per second, to which
				      * the kernel paces each stream if it is low; 0: no limit */
	const char *congestion;      /* TCP: congestion control; NULL: the system's, and bbr on a
				      * far path that loses packets, where it may be used; outlives
				      * the path */
	uint32_t stall_ms;           /* a channel on which the peer owes us something goes down
				      * after so long without progress; 0: 30 s */
};

/* The sink's report of a channel, for the source. Any thread. */
void path_report(struct path *p, uint32_t channel, uint64_t bytes, uint32_t held);
/* The peer has given this channel up: it goes down (PATH_DOWN, CHANNEL_GIVEN_UP). Any thread. */
void path_lose(struct path *p, uint32_t channel);

/* For the path's own thread. 0 or -ENOMEM; watch_free in any case. */
int watch_init(struct path *p, uint32_t stall_ms);
void watch_free(struct path *p);
/* The channel has opened now: its limits start here. */
void watch_begin(struct path *p, uint32_t channel);
/* Is it time to look at each channel? In so many milliseconds it is. now_ns: the present
 * time, from now_ns(). */
bool watch_due(struct path *p, uint64_t now_ns);
int watch_ms(const struct path *p, uint64_t now_ns);
/* waits: the peer owes us something on this channel. 0, or the error to take it down with. */
int watch_look(struct path *p, uint32_t channel, bool waits);
static inline bool watch_lost(struct path *p)
{
	return atomic_load(&p->watch.any_lost) && atomic_exchange(&p->watch.any_lost, false);
}

/* Keys of the messages that are not blocks; each direction has its own. */
struct message_keys {
	uint8_t from_source[KEY_BYTES], from_sink[KEY_BYTES];
};

/* Seals or checks the messages of one channel in one direction. One thread. */
struct messages {
	struct sealer *sealer;       /* NULL: a CRC32C */
	uint64_t next;               /* sequence */
	uint16_t channel;
};

/* key NULL: clear. 0 or -ENOMEM; messages_close in any case. */
int messages_open(struct messages *m, const uint8_t *key, uint16_t channel);
void messages_close(struct messages *m);
/* Put head and tag around the count items of len bytes that lie at p + MESSAGE_HEAD.
 * 0 or -EIO. */
int message_seal(struct messages *m, uint8_t *p, uint32_t magic, uint32_t count, size_t len);
/* Check a message of count items of item bytes. -EBADMSG: it is not the next one that the
 * peer sent on this channel. */
int message_check(struct messages *m, const uint8_t *p, size_t len, uint32_t magic,
		  size_t item, uint32_t max, uint32_t *count);

/* Who a data channel belongs to and how it proves it, rftp-protocol(7). */
struct channel_auth {
	uint64_t session;
	uint8_t token[KEY_BYTES];
	uint8_t client_nonce[NONCE_BYTES], server_nonce[NONCE_BYTES];
};

/* Listen on addr (numeric; "" any of family) on a port in [lo, hi] (0,0: any).
 * A descriptor, with *port; or a negative errno with text. */
int tcp_listen(const char *addr, int family, uint16_t lo, uint16_t hi, uint16_t *port,
	       struct err *e);
/* Connect to host, which may be a name: all its addresses are tried, interleaved
 * families, within timeout_ms, which the look-up of the name does not count to. stop: a
 * descriptor that becomes readable when it should give up (-ECANCELED), or -1. TCP_NODELAY
 * and keepalive are set. A descriptor or a negative errno with a text that names host, port
 * and reason. */
int tcp_connect(const char *host, uint16_t port, int stop, int timeout_ms, struct err *e);
/* The least round trip time that the kernel has seen on fd: the path without queues. 0: not
 * known. */
uint64_t tcp_rtt_ns(int fd);
/* A path of n channels over proven sockets, which it takes over (they become non-blocking); on
 * failure they stay the caller's. -1: the channel is not open yet; at least one must be. */
struct path *tcp_path_new(const struct path_config *c, const int *fds, uint32_t n,
			  struct err *e);

/* A path through the message stream. The thread that reads m hands it BULK_DATA and
 * BULK_CREDIT payloads. */
struct path *inband_path_new(const struct path_config *c, struct mstream *m, struct err *e);
int inband_path_data(struct path *p, struct buf *payload);
int inband_path_credit(struct path *p, struct buf *payload);

/* What both ends of a fresh data channel say first: 56 bytes that prove the session, and
 * name the memory that the other may reach (RDMA's remote key; 0 over TCP). 0 or -EIO. */
int channel_hello_put(uint8_t p[HELLO_BYTES], bool server, const struct channel_auth *a,
		      uint16_t channel, uint32_t key);
/* NULL, or why what the server (or client) said is not to be believed. */
const char *channel_hello_check(const uint8_t p[HELLO_BYTES], bool server,
				const struct channel_auth *a, uint16_t *channel, uint32_t *key);

/* ---- endpoints: what other transports hook in by ---- */

/* What a path's thread does when nothing is to be done: sleep at once (NEVER); look on for a
 * moment (ALWAYS); do so while it pays (AUTO). */
enum poll_mode { POLL_AUTO, POLL_ALWAYS, POLL_NEVER };

#define NIC_DEVICE_NAME 64

/* 1 with the name of the RDMA device that has address a, which is network interface ifname's;
 * 0: none has; or a negative errno with text: there can be none here. Opens no device. */
typedef int nic_device(const struct sockaddr_storage *a, const char *ifname,
		       char name[NIC_DEVICE_NAME], struct err *why);

struct port_range {
	uint16_t lo, hi;                /* 0, 0: any */
};

/* What is wanted of one card. */
struct nic_rule {
	char *name;                     /* of its interface */
	char *address;                  /* numeric: which of its family's is for data; NULL: the
					 * first */
	struct port_range ports;        /* of data by it */
};

struct nic_rules {
	const struct nic_rule *at;
	size_t n;
};

/* NULL: there is none. */
const struct nic_rule *nic_rule_of(const struct nic_rules *rules, const char *name);
/* The same of the card that has this address. */
const struct nic_rule *nic_rule_at(const struct nic_rules *rules,
				   const struct sockaddr_storage *addr);

struct nic_wish {
	const char *names;              /* "a,b": of cards, devices, or addresses; NULL or "":
					 * no preference */
	struct sockaddr_storage local;  /* this side's end of the control connection;
					 * AF_UNSPEC: not known */
	nic_device *device;             /* NULL: no RDMA in this build */
	const char *nodes;              /* struct place_wish's nics; NULL: as sysfs says */
	struct nic_rules rules;
	bool lenient;                   /* a name that there is not costs a warning */
};

/* This machine's cards for an offer: those that are named; or that of the control connection
 * and all that do RDMA, each by one address. *why: why there is no RDMA at all. 0, or a
 * negative errno with text: a name that there is not. */
int nics_find(struct nic_offer nics[NICS_MAX], uint32_t *n, const struct nic_wish *w,
	      struct err *why, struct err *e);
/* "eth0 (192.0.2.1) on node 1", as far as it is known. text. */
#define NIC_TEXT 128
const char *nic_text(const struct nic_offer *n, char text[NIC_TEXT]);
/* A numeric address, its port 0; 0 when it is none. */
socklen_t address_parse(const char *text, struct sockaddr_storage *ss);
/* The address by which this machine's routes lead to another; AF_UNSPEC on failure. */
int address_source(const struct sockaddr_storage *to, socklen_t len,
		   struct sockaddr_storage *from);

struct endpoint_config {
	bool source;
	const struct agreement *agr;     /* outlives the endpoint; NULL: only to resolve */
	const struct channel_auth *auth; /* the same */
	uint16_t first;                  /* its channels: first .. first + agr->channels - 1 */
	uint64_t rtt_ns;                 /* measured; 0: not known */
	int tos;                         /* type of service; -1: as the system has it */
	enum poll_mode poll;             /* RDMA's */
	int node;                        /* NUMA node of the card; NODE_UNKNOWN */
	struct sockaddr_storage from;    /* client: connect from there; AF_UNSPEC: by the routes */
};

/* One side's end of one path, from before its pool exists until after its path is gone:
 * listen or resolve, then the pool with its hooks, then open, then free path, pool, endpoint. */
struct endpoint;

struct endpoint_ops {
	const char *name;
	/* Server: wait for the client at a (its port is not looked at; AF_UNSPEC, or zeros:
	 * at any) on a port in [lo, hi]. 0 with *port, or a negative errno with text. */
	int (*listen)(struct endpoint *p, const struct sockaddr_storage *a, uint16_t lo,
		      uint16_t hi, uint16_t *port, struct err *e);
	/* Client: find the way to a. */
	int (*resolve)(struct endpoint *p, const struct sockaddr_storage *a, socklen_t len,
		       int stop, int timeout_ms, struct err *e);
	/* How the path's pool is registered; NULL: it need not be. Lives as long as the
	 * endpoint. */
	const struct pool_hooks *(*hooks)(struct endpoint *p);
	/* Connect, or accept, the channels that the path begins with. stop as in opener_first. */
	struct path *(*open)(struct endpoint *p, const struct path_config *c, int stop,
			     int timeout_ms, struct err *e);
	void (*free)(struct endpoint *p);
};

struct endpoint {
	const struct endpoint_ops *ops;
};

/* What makes them for one transport. NULL with the reason in e. */
typedef struct endpoint *endpoint_maker(const struct endpoint_config *c, struct err *e);

/* A transport that needs devices of its own. */
struct device_transport {
	endpoint_maker *endpoint;
	nic_device *device;
};

endpoint_maker tcp_endpoint;

/* ---- a path's one thread asleep ---- */

/* It sleeps in epoll; others wake it when they have left something for it. Each of them first
 * stores what it has to say, then kicks: that takes sleeping away, and writes to efd if it was
 * set. The thread lies down (stores sleeping) first and looks at what was left after that. All
 * are sequentially consistent, so of the two at least one sees the other's store: no wake-up is
 * lost, and none costs a system call while the thread is busy. */
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
/* Any thread: end its sleep, for what was stored before; the same, and leave word that it was
 * woken. */
void sleeper_kick(struct sleeper *s);
void sleeper_wake(struct sleeper *s);
/* The thread's own: has it been woken since this was last asked? */
bool sleeper_woken(struct sleeper *s);
/* From now on who kicks will be heard. False: it was woken meanwhile; then, or when anything
 * else was left, it is not to sleep longer than 0 ms. */
bool sleeper_lie_down(struct sleeper *s);
/* As epoll_wait(2); 0 also for a signal. */
int sleeper_sleep(struct sleeper *s, struct epoll_event *e, int max, int timeout_ms);

/* ---- stages ---- */

/* The source's last stage: takes filled blocks from q and sees them acknowledged. */
struct sender_config {
	struct path *path;           /* not owned */
	struct bq *q;                /* not owned; its closing ends the stage. Its notify
				      * is set at the start and stays, on the path: start
				      * before others push, free the path after it */
	struct pace *pace;           /* NULL: no limit; others may share it; not owned */
	/* Called by the sender's thread. acked: b is back in its pool after this.
	 * returned: no channel of this path is left to send b by; whoever takes it owns
	 * it (0), or negative: nobody can, the transfer fails. */
	void (*acked)(void *arg, struct block *b);
	int (*returned)(void *arg, struct block *b);
	/* down: a channel is gone; the transfer goes on while another is left. */
	void (*down)(void *arg, uint32_t channel, int error);
	/* failed: it ends now, before all is acknowledged, for this reason; once, unless it
	 * was told to end. Whoever waits for room or for acknowledgements waits in vain. */
	void (*failed)(void *arg, int error);
	void *arg;
	struct ids cpus;             /* its thread's; empty: any */
};

struct sender;
struct sender *sender_start(const struct sender_config *c, const char *name, struct err *e);
/* End now: blocks that are not acknowledged stay with the path. Any thread, until it is
 * freed. */
void sender_abort(struct sender *s);
/* Waits for its end: all blocks acknowledged (0), or the first error. Once. */
int sender_join(struct sender *s);
void sender_free(struct sender *s); /* after the join */

/* The sink's first stage: puts arriving blocks on q. */
struct receiver_config {
	struct path *path;
	struct bq *q;                /* unbounded: the pool bounds it */
	void (*down)(void *arg, uint32_t channel, int error);
	void *arg;
	struct ids cpus;             /* its thread's; empty: any */
};

struct receiver;
struct receiver *receiver_start(const struct receiver_config *c, const char *name,
				struct err *e);
/* Ask it to end once what has been released is acknowledged; then join. */
void receiver_stop(struct receiver *r);
/* The same at once: the transfer has failed, and the peer does not wait for answers. */
void receiver_abort(struct receiver *r);
int receiver_join(struct receiver *r); /* once */
void receiver_free(struct receiver *r); /* after the join */

/* ---- faults, for tests ---- */

/* RFTP_FAULT_TRANSPORT, the grammar of util/fault.h: points connect accept send recv
 * sendfile, and without an action corrupt (a bit of an arriving block flips) corrupt-head
 * (one of its number) cut (a channel is closed) stall (a channel's thread sleeps 100 ms)
 * wrong-key, wrong-place (RDMA: the other's memory is reached for where it may not be)
 * lossy (a path's streams seem to have lost packets) far (a round trip seems to take 100 ms).
 * 0 or the negative errno to fail with. Any thread. */
int fault_transport(const char *point, uint64_t bytes);
/* Take these rules in place of those there are; NULL or "": none. */
int fault_transport_set(const char *rules, struct err *e);
extern bool fault_transport_on;

#endif
