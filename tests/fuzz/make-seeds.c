// SPDX-License-Identifier: Apache-2.0
/* Writes the seeds of the fuzz targets: make-seeds DIRECTORY, with a subdirectory for each target.
 * Run it when a message changes, and commit the result. */
#include "crypto/crypto.h"
#include "proto/proto.h"
#include "tests/support/wire.h"

#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *top;

static void make_directory(const char *path)
{
	if (mkdir(path, 0777) < 0 && errno != EEXIST)
		err(1, "%s", path);
}

static void seed(const char *target, const char *name, const void *data, size_t len)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", top, target);
	make_directory(path);
	snprintf(path, sizeof(path), "%s/%s/%s", top, target, name);
	f = fopen(path, "w");
	if (!f || fwrite(data, 1, len, f) != len || fclose(f))
		err(1, "%s", path);
}

static void seed_buf(const char *target, const char *name, struct buf *b)
{
	seed(target, name, buf_ptr(b), buf_len(b));
	buf_reset(b);
}

static void check(int r)
{
	if (r)
		errx(1, "a seed cannot be encoded: %s", strerror(-r));
}

/* ---- requests and agreements ---- */

static struct offer an_offer(void)
{
	struct offer o = {
		.transports = TRANSPORT_TCP | TRANSPORT_RDMA | TRANSPORT_INBAND,
		.ops = OP_WRITE | OP_READ, .prot_min = PROT_PRIVATE, .ack = ACK_SYNCED,
		.cpus = 8, .memory = 1 << 30, .locked = UINT64_MAX, .block_max = 64 << 20, .channels_max = 256,
		.rtt_ns = 95000000, .nnics = 2,
		.nics = { { "eth0", "192.0.2.1", 100000, 0, 24, true, true, false, false },
			  { "eth1", "2001:db8::1", 100000, 1, 64, true, false, true, false } },
		.host = { 1, 2, 3, 4 },
	};

	return o;
}

static void request_seeds(struct buf *b)
{
	char *sources[] = { (char *)"data/", (char *)"file", NULL };
	struct bulk_piece pieces[] = {
		{ .dated = false },
		{ { 1 << 30, 1 << 30 }, .dated = true, .size = 3u << 30, .mtime_s = 1700000000,
		  .mtime_ns = 5 },
	};
	struct bulk_request put = { .major = BULK_MAJOR, .op = BULK_PUT, .base = (char *)"/in/",
				    .flags = BULK_F_RECURSIVE | BULK_F_RESUME,
				    .offer = an_offer() };
	struct bulk_request get = { .major = BULK_MAJOR, .op = BULK_GET, .base = (char *)"",
				    .sources = sources, .nsources = 2, .has_key = true,
				    .offer = an_offer() };
	struct err e = ERR_INIT;

	check(bulk_request_put(b, &put));
	seed_buf("request", "put", b);
	memset(get.nonce, 1, sizeof(get.nonce));
	memset(get.key, 2, sizeof(get.key));
	check(bulk_request_put(b, &get));
	seed_buf("request", "get", b);
	get.flags = BULK_F_FILTER;
	check(filter_add(&get.filter, true, "/a/**[!b-d]?.[[:alpha:]]*/", &e));
	check(filter_add(&get.filter, false, "*\\*", &e));
	get.filter.size_most = 5000;
	check(bulk_request_put(b, &get));
	seed_buf("request", "filter", b);
	filter_clear(&get.filter);
	get.flags = BULK_F_RANGES;
	get.pieces = pieces;
	memset(&get.set, 3, sizeof(get.set));
	check(bulk_request_put(b, &get));
	seed_buf("request", "ranges", b);
	get.pieces = NULL;
	get.flags = 0;
	get.minor = BULK_MINOR + 1;
	check(bulk_request_put(b, &get));
	check(buf_put(b, "later", 5));
	seed_buf("request", "later-minor", b);
	get.major = BULK_MAJOR + 1;
	check(bulk_request_put(b, &get));
	seed_buf("request", "other-major", b);
}

static struct bulk_agree an_agree(void)
{
	struct bulk_agree a = { .major = BULK_MAJOR, .session = 0x1234, .offer = an_offer(),
				.nports = 2, .ports = { { "", 40000 }, { "192.0.2.1", 40001 } } };

	check(negotiate(&a.offer, &a.offer, &a.agreement, NULL));
	return a;
}

static void agree_seeds(struct buf *b)
{
	struct bulk_agree a = an_agree();

	check(bulk_agree_put(b, &a));
	seed_buf("request", "agree", b);
}

/* ---- entries ---- */

static void put_entries(struct buf *b)
{
	struct buf *x CLEANUP_BUF = buf_new(1024);
	uint8_t ranges[32];
	struct bulk_entry e[] = {
		{ .id = 1, .type = ENTRY_DIR, .flags = ENTRY_F_TOP, .mode = 0755, .name = "d" },
		{ .id = 2, .parent = 1, .type = ENTRY_FILE, .flags = ENTRY_F_ASK, .mode = 0644,
		  .size = 1 << 20, .mtime_s = 1700000000, .mtime_ns = 5, .name = "file" },
		{ .id = 3, .parent = 1, .type = ENTRY_FILE, .flags = ENTRY_F_SPARSE,
		  .size = 1 << 30, .name = "sparse", .nranges = 2, .ranges = ranges },
		{ .id = 4, .parent = 1, .type = ENTRY_LINK, .name = "link", .target = "../x" },
		{ .id = 5, .parent = 1, .type = ENTRY_HARDLINK, .name = "hard", .link_id = 2 },
		{ .id = 6, .parent = 1, .type = ENTRY_FILE, .flags = ENTRY_F_NOSIZE,
		  .name = "pipe" },
		{ .type = ENTRY_NAME, .parent = 1, .name = "fifo" },
		{ .id = 1, .type = ENTRY_DIR_END },
	};

	bulk_range_set(ranges, 0, (struct bulk_range){ 0, 4096 });
	bulk_range_set(ranges, 1, (struct bulk_range){ 1 << 20, 8192 });
	check(bulk_xattr_put(x, "user.comment", "hello", 5));
	e[1].xattrs = buf_ptr(x);
	e[1].xattrs_len = (uint32_t)buf_len(x);
	for (size_t i = 0; i < sizeof(e) / sizeof(e[0]); i++)
		check(bulk_entry_put(b, &e[i]));
}

static void entry_seeds(struct buf *b)
{
	struct bulk_entry small = { .id = 1, .type = ENTRY_FILE, .name = "a" };
	uint8_t data[16];
	struct bulk_entry ranged = {
		.id = 1, .type = ENTRY_FILE, .name = "a", .size = 1 << 30, .ranges = data,
		.flags = ENTRY_F_ASK | ENTRY_F_SPARSE | ENTRY_F_RANGE, .nranges = 1,
		.range = { 1 << 20, 1 << 20 },
	};

	put_entries(b);
	seed_buf("entries", "tree", b);
	check(bulk_entry_put(b, &small));
	seed_buf("entries", "one", b);
	bulk_range_set(data, 0, ranged.range);
	check(bulk_entry_put(b, &ranged));
	seed_buf("entries", "range", b);
	check(bulk_entry_put(b, &small));
	check(buf_put(b, "later", 5));
	buf_poke_u32(b, 0, (uint32_t)buf_len(b) - 4);
	seed_buf("entries", "later-minor", b);
}

/* ---- frames ---- */

static void frame(struct buf *out, uint8_t type, struct buf *payload)
{
	uint8_t *p;

	check(buf_reserve(out, BULK_FRAME_HEAD, &p));
	bulk_frame_put(p, type, (uint32_t)buf_len(payload));
	check(buf_put(out, buf_ptr(payload), buf_len(payload)));
	buf_reset(payload);
}

static void put_from_source(struct buf *out, struct buf *p)
{
	struct bulk_counts c = { .entries = 7, .files = 4, .blocks = 3, .bytes = 1 << 20 };

	put_entries(p);
	frame(out, BULK_ENTRIES, p);
	frame(out, BULK_WALKED, p);
	check(bulk_pair_put(p, 6, 12345));
	frame(out, BULK_SIZES, p);
	check(bulk_pair_put(p, 2, 4096));
	frame(out, BULK_KEPT, p);
	check(bulk_digest_put(p, 3, (const uint8_t *)"0123456789abcdef"));
	frame(out, BULK_DIGEST, p);
	check(bulk_sum_put(p, 3, "d41d8cd98f00b204e9800998ecf8427e"));
	frame(out, BULK_SUM, p);
	check(bulk_pair_put(p, 1, ETIMEDOUT));
	frame(out, BULK_LOST, p);
	check(bulk_pair_put(p, 70000, 3));
	check(bulk_pair_put(p, 1234, 0));
	frame(out, BULK_CHANNELS, p);
	check(bulk_counts_put(p, &c));
	frame(out, BULK_BEAT, p);
	frame(out, 200, p);
	check(bulk_counts_put(p, &c));
	frame(out, BULK_SENT, p);
	frame(out, BULK_END, p);
}

static void put_from_sink(struct buf *out, struct buf *p)
{
	static const uint8_t digest[16] = { 1, 2, 3 };
	const struct bulk_removed removed = { .bytes = 9, .path = (char *)"gone/" };
	struct bulk_failure f = { .id = 3, .code = -ENOSPC, .text = "disk full" };
	struct bulk_agree a = an_agree();

	check(bulk_agree_put(p, &a));
	frame(out, BULK_AGREE, p);
	check(bulk_runs_head_put(p, 2));
	check(bulk_run_put(p, 0, 1 << 20, digest));
	check(bulk_run_put(p, 5 << 20, 1 << 18, digest));
	frame(out, BULK_RUNS, p);
	check(bulk_verdict_put(p, 2, VERDICT_RUNS));
	check(bulk_verdict_put(p, 3, VERDICT_DIGEST));
	check(bulk_verdict_put(p, 4, VERDICT_SKIP));
	check(bulk_verdict_put(p, 5, VERDICT_CORRECT));
	frame(out, BULK_VERDICTS, p);
	check(bulk_failure_put(p, &f));
	frame(out, BULK_FAILED, p);
	check(bulk_pair_put(p, 1, 7));
	frame(out, BULK_DONE, p);
	check(bulk_removed_put(p, &removed));
	frame(out, BULK_REMOVED, p);
	check(bulk_place_put(p, 1, 2049, 4711));
	frame(out, BULK_PLACE, p);
	f.id = 0;
	check(bulk_failure_put(p, &f));
	frame(out, BULK_ABORT, p);
	frame(out, BULK_END, p);
}

static void frame_seeds(struct buf *b)
{
	struct buf *p CLEANUP_BUF = buf_new(BULK_FRAME_MAX);

	put_from_source(b, p);
	seed_buf("frames", "source", b);
	put_from_sink(b, p);
	seed_buf("frames", "sink", b);
}

/* ---- data channels ---- */

static void block_seeds(void)
{
	struct block_head h = { .prot = PROT_PRIVATE, .extents = 2, .number = 9, .payload = 5000,
				.key = 65537, .nonce = 3, .crc = 7, .tag = { 1 } };
	struct channel_hello hello = { BULK_MAJOR, 3, 0x1234, { 1, 2, 3 }, 5 };
	struct credit credit = { 9, 2, 0 };
	struct announce announce = { 9, 2, 84, 5000 };
	uint8_t p[BLOCK_WIRE_HEAD + 2 * BLOCK_WIRE_EXTENT];

	block_head_put(p, &h);
	block_extent_put(p + BLOCK_WIRE_HEAD, 2, 0, 4096);
	block_extent_put(p + BLOCK_WIRE_HEAD + BLOCK_WIRE_EXTENT, 3, 1 << 20, 904);
	seed("block", "head", p, sizeof(p));
	message_head_put(p, CREDIT_MAGIC, &(struct message_head){ 3, 1, 7 });
	credit_put(p + MESSAGE_HEAD, &credit);
	memset(p + MESSAGE_HEAD + CREDIT_BYTES, 0x5a, MESSAGE_TAG);
	seed("block", "credits", p, MESSAGE_HEAD + CREDIT_BYTES + MESSAGE_TAG);
	message_head_put(p, ANNOUNCE_MAGIC, &(struct message_head){ 3, 1, 7 });
	announce_put(p + MESSAGE_HEAD, &announce);
	memset(p + MESSAGE_HEAD + ANNOUNCE_BYTES, 0x5a, MESSAGE_TAG);
	seed("block", "announces", p, MESSAGE_HEAD + ANNOUNCE_BYTES + MESSAGE_TAG);
	hello_put(p, &hello);
	seed("block", "hello", p, HELLO_BYTES);
}

/* Steps of fuzz-rdma.c. First byte: 0 a sink with OP_WRITE, 1 a source with OP_WRITE, 2 a sink with
 * OP_READ, 3 a source with OP_READ. */
#define STEPS(name, ...) do { \
	const uint8_t steps_[] = { __VA_ARGS__ }; \
	seed("rdma", name, steps_, sizeof(steps_)); \
} while (0)
#define LOOK 0
#define POST 2
#define RELEASE 4, 0
#define REFUSE 4, 0x80
#define ON(channel, what) ((channel) == 2 ? (what) : 0x10 | (channel) << 5 | (what))
#define GRANT(channel, buffer) ON(channel, 6), 1, 1, buffer
#define ANSWER(channel, buffer) ON(channel, 6), 1, 0, buffer
#define ANNOUNCE(channel, buffer) ON(channel, 8), 1, 1, buffer
#define WRITE(channel, buffer) ON(channel, 10), 1, buffer
#define KILL(channel) ON(channel, 12)
#define HOLD 15

static void rdma_seeds(void)
{
	STEPS("write-source", 1, GRANT(0, 0), GRANT(1, 1), LOOK, POST, POST, ANSWER(0, 0), LOOK,
	      POST, ANSWER(1, 1), ANSWER(0, 0), LOOK);
	STEPS("write-sink", 0, LOOK, WRITE(0, 0), WRITE(1, 1), LOOK, RELEASE, LOOK, RELEASE, LOOK,
	      WRITE(0, 0), LOOK, RELEASE);
	STEPS("read-sink", 2, ANNOUNCE(0, 0), ANNOUNCE(1, 1), LOOK, LOOK, RELEASE, RELEASE, LOOK,
	      ANNOUNCE(0, 2), LOOK, RELEASE);
	STEPS("read-source", 3, POST, POST, LOOK, ANSWER(0, 0), ANSWER(1, 1), LOOK, POST, LOOK);
	STEPS("granted-to-two", 1, GRANT(0, 3), LOOK, POST, GRANT(1, 3), GRANT(1, 2), LOOK, POST,
	      POST, ANSWER(1, 3), LOOK);
	STEPS("granted-twice", 1, GRANT(0, 3), GRANT(0, 3), LOOK, POST, POST, LOOK);
	STEPS("refused-late", 0, LOOK, WRITE(0, 0), WRITE(0, 3), LOOK, KILL(0), LOOK, REFUSE,
	      REFUSE, LOOK, WRITE(1, 1), LOOK, RELEASE);
	STEPS("dies-held", 2, HOLD, ANNOUNCE(0, 0), ANNOUNCE(0, 1), LOOK, KILL(0), LOOK, HOLD,
	      ANNOUNCE(1, 0), LOOK, RELEASE);
}

/* ---- lines ---- */

static void line_seeds(void)
{
	static const struct { const char *name, *text; } seeds[] = {
		{ "commands", "USER joe\nPASS  x \nTYPE I\nEPSV\nRETR a b\nBULK 100\nXYZZY\n" },
		{ "replies", "220 hello\n211-Features\n SIZE\n211 End\n229 x (|||6446|)\n" },
		{ "facts", "type=file;size=3;modify=20260101000000.5;UNIX.mode=0644; a b\n"
			   "type=OS.unix=slink:/a;UNIX.uid=0;UNIX.gid=0; l\n type=dir; /x\n"
			   "type=file; a%0Ab\nsize=3;size=x; x\n" },
		{ "times", "20000229235960\n19700101000000.123456789\n" },
	};

	for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++)
		seed("ftp", seeds[i].name, seeds[i].text, strlen(seeds[i].text));
}

/* ---- conversations ---- */

static void talk_seeds(void)
{
	static const struct { const char *target, *name, *text; } seeds[] = {
		{ "session", "names",
		  "USER x\r\nPASS y\r\nFEAT\r\nOPTS UTF8 ON\r\nPWD\r\nCWD d\r\nCDUP\r\nMLST d/f\r\n"
		  "STAT l\r\nSIZE out/secret\r\nMDTM abs/passwd\r\nHASH d/f\r\nQUIT\r\n" },
		{ "session", "changes",
		  "USER x\r\nPASS y\r\nMKD n\r\nRNFR n\r\nRNTO d/n\r\nRMD d/n\r\nDELE ../outside/secret\r\n"
		  "SITE CHMOD 600 d/f\r\nMFMT 20200101000000 d/f\r\nRNFR d/f\r\nRNTO out/f\r\n" },
		{ "session", "data",
		  "USER x\r\nPASS y\r\nTYPE I\r\nMODE S\r\nSTRU F\r\nEPSV\r\nEPSV ALL\r\nREST 3\r\nRETR d/f\r\n"
		  "STOR g\r\nAPPE g\r\nMLSD .\r\nABOR\r\nALLO 5\r\nNOOP\r\nHELP\r\n" },
		{ "session", "listing",
		  "USER x\r\nPASS y\r\nSTAT -la\r\nSTAT -R *\r\nSTAT d/[a-f]*\r\nSTAT -1d \\?\r\n"
		  "LIST out/*\r\nNLST -l */../*\r\nSTAT\r\nHELP SITE\r\n" },
		{ "session", "setting",
		  "USER x\r\nPASS y\r\nMDTM 20200101000000 d/f\r\nSITE UTIME 202001010101 d/f\r\n"
		  "SITE UTIME d/f 20200101010101 20200101010101 20200101010101 UTC\r\n"
		  "PORT 127,0,0,1,100,1\r\nEPRT |2|::1|2000|\r\nPASV\r\nALLO 5 R 1\r\nXMKD x\r\n" },
		{ "session", "bulk", "USER x\r\nPASS y\r\nBULK 5\r\nhelloOPTS MLST type;size;\r\nAUTH TLS\r\n" },
		{ "client", "server",
		  "220 hello\r\n331 password\r\n230 in\r\n211-Features\r\n BULK 1\r\n MLST type*;\r\n"
		  "211 End\r\n200 ok\r\n200 ok\r\n200 ok\r\n200 ok\r\n200 ok\r\n"
		  "250-facts\r\n type=file;size=3; /file\r\n250 End\r\n"
		  "150-list\r\n type=file;size=3; a%0Ab\r\n type=cdir; .\r\n150 End\r\n226 ok\r\n"
		  "250 gone\r\n" },
		{ "client", "refuses", "220-a\r\n220 b\r\n331 x\r\n530 no\r\n331 x\r\n530 no\r\n421 bye\r\n" },
		{ "client", "other", "SSH-2.0-OpenSSH_9.2\r\n" },
		{ "stream", "lines", "\001200 hello\r\n\377\364\377\362ABOR\r\nlone\nx\377\377y\r\n" },
		{ "files", "known_hosts",
		  "# seen\nhost:7321 sha256:abc\n[::1]:7321 pin\nHOST:7321 pin\n" },
		{ "files", "netrc",
		  "machine host login joe password \"a \\\" b\"\nmacdef init\ncd /\n\n"
		  "default login anonymous password x account y\n" },
		{ "files", "users", "# users\njoe:scrypt$15$8$1$AAAA$BBBB:/srv:/in:nodelete\nann::::ro\n" },
		{ "files", "certificates",
		  "# keys\nSHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA joe\n"
		  "subject \"CN=a \\\"b\\\",O=c\"\tann\n" },
		{ "files", "rftp.conf",
		  "prot = private # best\nblock 1M\n[host *.example]\nrate = \"10G\"\nack synced\n"
		  "[host host]\nchannels 4\nio=uring\nconnect-timeout 3s\naccept-new on\n" },
		{ "url", "urls",
		  "rftp://joe@host:7321/~/a%20b\nssh://[fe80::1%25eth0]:22/x\nhost:path\n"
		  "user@[::1]:x\n./a:b\n-\nnull:\nzero:10G\nftp://h\n" },
	};

	for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++)
		seed(seeds[i].target, seeds[i].name, seeds[i].text, strlen(seeds[i].text));
}

/* ---- a journal ---- */

/* After the header: a byte, and records of offset, length, digest and room for a checksum. */
static void journal_seeds(void)
{
	static const uint8_t zeros[4096], page[4096] = "x"; /* the target's partial file: 0, x, 0 */
	uint8_t p[1 + 3 * 32] = { 1 << 2 };

	for (uint32_t i = 0; i < 3; i++) {
		uint32_t length = i == 2 ? 100 : 4096;

		put_be64(p + 1 + i * 32, i * 4096);
		put_be32(p + 1 + i * 32 + 8, length);
		crypto_run_digest(p + 1 + i * 32 + 12, i == 1 ? page : zeros, length);
	}
	seed("journal", "runs", p, sizeof(p));
	seed("journal", "torn", p, 1 + 32 + 20);
	/* run 0 with the digest of run 1 */
	crypto_run_digest(p + 1 + 12, page, sizeof(page));
	seed("journal", "lie", p, 1 + 32);
}

/* ---- copies between servers ---- */

/* The first byte selects the type of the message. */
static void third_seed(uint8_t kind, const char *name, struct buf *b)
{
	struct buf *all CLEANUP_BUF = buf_new(BULK_REQUEST_MAX);

	check(all ? 0 : -ENOMEM);
	check(buf_put(all, &kind, 1));
	check(buf_put(all, buf_ptr(b), buf_len(b)));
	seed_buf("third", name, all);
	buf_reset(b);
}

static void third_seeds(struct buf *b)
{
	char *sources[] = { (char *)"/data/", (char *)"file", NULL };
	struct third_give give = { .flags = THIRD_F_EACH_FILE, .connect_ms = 15000,
				   .request = { .major = BULK_MAJOR, .op = BULK_PUT,
						.base = (char *)"/in/", .sources = sources,
						.nsources = 2, .offer = an_offer() } };
	struct third_take take = { .prot_min = PROT_SAFE, .pin = "SHA256:abcdef",
				   .base = (char *)"/in/" };
	struct third_door door = { .port = 50000, .seconds = 60, .pin = "SHA256:fedcba",
				   .naddrs = 2, .addrs = { "192.0.2.1", "host.example" } };
	struct transfer_progress progress = { .bytes = 1 << 20, .bottleneck = "sink" };
	struct third_file file = { .code = -ENOSPC, .path = (char *)"/x", .text = "it is full" };
	struct third_result result = { .code = -EPIPE, .where = THIRD_OTHER, .text = "it went",
				       .agreed = true, .of = { .nchannels = 2,
				       .agreement = { .transport = TRANSPORT_TCP } } };

	check(third_give_put(b, &give));
	third_seed(0, "give", b);
	check(third_take_put(b, &take));
	third_seed(1, "take", b);
	check(third_key_put(b, take.pin));
	third_seed(2, "key", b);
	check(third_door_put(b, &door));
	third_seed(2, "door", b);
	check(third_progress_put(b, &progress));
	third_seed(3, "progress", b);
	check(third_file_put(b, &file));
	third_seed(3, "file", b);
	check(third_result_put(b, &result));
	third_seed(4, "result", b);
}

int main(int argc, char **argv)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_REQUEST_MAX);

	if (argc != 2)
		errx(2, "usage: make-seeds DIRECTORY");
	top = argv[1];
	make_directory(top);
	request_seeds(b);
	agree_seeds(b);
	entry_seeds(b);
	frame_seeds(b);
	block_seeds();
	rdma_seeds();
	line_seeds();
	talk_seeds();
	journal_seeds();
	third_seeds(b);
	return 0;
}
