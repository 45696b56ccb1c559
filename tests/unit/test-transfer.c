// SPDX-License-Identifier: Apache-2.0
/* The whole engine, both sides in one process: the client in this thread, the server in
 * another, control over a socket pair, data over loopback. */
#include "transfer/transfer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

static char top[] = "/tmp/rftp-test-transfer-XXXXXX";

struct server {
	struct mstream *ms;
	pthread_t thread;
	int result;
	struct err e;
	struct transfer_result r;
	bool in_line;
};

static void serve_one(struct server *v, size_t n)
{
	struct bulk_request q = { 0 };
	struct transfer_server_config c = { .ms = v->ms, .request = &q, .cwd = top,
					    .can_write = true, .data_addr = "127.0.0.1",
					    .family = AF_INET };
	uint8_t *body = malloc(n);
	struct buf *b;

	transfer_tuning_default(&c.tuning);
	assert_int_equal(ms_read(v->ms, body, n, 5000), 0);
	b = buf_from(body, n);
	assert_int_equal(bulk_request_get(b, &q, &v->e), 0);
	buf_free(b);
	c.root = root_new("/", false, &v->e);
	ms_write(v->ms, "150 go\r\n", 8);
	v->result = transfer_serve(&c, &v->r, &v->in_line, &v->e);
	ms_write(v->ms, "226 done\r\n", 10);
	bulk_request_clear(&q);
	root_free(c.root);
	free(body);
}

static void *server_main(void *arg)
{
	struct server *v = arg;
	char line[100];
	size_t n;

	while (ms_read_line(v->ms, line, sizeof(line), 30000) > 0) {
		if (sscanf(line, "BULK %zu", &n) != 1)
			break;
		serve_one(v, n);
	}
	return NULL;
}

struct pair {
	struct server v;
	struct mstream *ms;
	struct transfer_client_config c;
};

static void pair_start(struct pair *p)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&p->c.peer;
	int sv[2];

	memset(p, 0, sizeof(*p));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	p->ms = ms_new(stream_plain(sv[0], sv[0]));
	p->v.ms = ms_new(stream_plain(sv[1], sv[1]));
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	p->c.ms = p->ms;
	p->c.peer_len = sizeof(*in);
	p->c.connect_timeout_ms = 5000;
	p->c.root = root_new("/", false, NULL);
	transfer_tuning_default(&p->c.tuning);
	p->c.request.flags = BULK_F_RECURSIVE | BULK_F_MODES | BULK_F_TIMES | BULK_F_HARDLINKS |
			     BULK_F_SPARSE | BULK_F_RESUME;
	p->c.request.offer.ack = ACK_WRITTEN;
	p->c.request.offer.prot_min = PROT_CLEAR;
	assert_int_equal(thread_start(&p->v.thread, "server", server_main, &p->v), 0);
}

static void pair_stop(struct pair *p)
{
	ms_free(p->ms);
	pthread_join(p->v.thread, NULL);
	ms_free(p->v.ms);
	root_free(p->c.root);
}

static char *at(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static char *at(const char *fmt, ...)
{
	static char out[8][4096];
	static int i;
	char *p = out[i++ % 8];
	int n = snprintf(p, 4096, "%s/", top);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p + n, 4096 - (size_t)n, fmt, ap);
	va_end(ap);
	return p;
}

static void shell(const char *fmt, ...)
{
	char cmd[8192];
	int n = snprintf(cmd, sizeof(cmd), "cd %s && ", top);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd + n, sizeof(cmd) - (size_t)n, fmt, ap);
	va_end(ap);
	if (system(cmd))
		fail_msg("%s", cmd);
}

/* Content, modes, times, link targets and hard links of both trees agree. */
static void same_tree(const char *a, const char *b)
{
	shell("for t in %s %s; do (cd $t && find . -printf '%%P %%y %%m %%T@ %%l %%n\\n' | "
	      "sed 's/\\(\\.[0-9]*\\)0* /\\1 /' | LC_ALL=C sort && find . -type f -exec md5sum {} + | "
	      "LC_ALL=C sort) > list.${t%%/*}; done; cmp list.%s list.%s", a, b, a, b);
}

static int run(struct pair *p, uint8_t op, const char *from, const char *to,
	       struct transfer_result *r, struct err *e)
{
	struct transfer_item item = { .kind = ITEM_PATH };
	char *sources[2] = { (char *)(uintptr_t)from, NULL };

	*e = (struct err)ERR_INIT;
	p->c.request.op = op;
	p->c.request.base = (char *)(uintptr_t)(op == BULK_PUT ? to : "");
	p->c.request.sources = op == BULK_PUT ? NULL : sources;
	p->c.request.nsources = op == BULK_PUT ? 0 : 1;
	item.path = op == BULK_PUT ? from : to;
	p->c.items = &item;
	p->c.nitems = 1;
	return transfer_client(&p->c, r, e);
}

static void expect_code(int got, int want, const struct err *e)
{
	if (got != want)
		fail_msg("%d, not %d: %s", got, want, e->text);
}

static void run_ok(struct pair *p, uint8_t op, const char *from, const char *to,
		   struct transfer_result *r)
{
	struct err e;

	if (run(p, op, from, to, r, &e))
		fail_msg("%s", e.text);
	assert_int_equal(r->failed, 0);
}

static void make_tree(void)
{
	shell("rm -rf src && mkdir -p src/a/b/c src/empty src/many && "
	      "for i in $(seq 500); do echo $i > src/many/f$i; done && "
	      "head -c 0 /dev/null > src/zero && head -c 1 /dev/urandom > src/one && "
	      "head -c 1048575 /dev/urandom > src/a/block-1 && "
	      "head -c 1048576 /dev/urandom > src/a/block && "
	      "head -c 1048577 /dev/urandom > src/a/block+1 && "
	      "head -c 20000000 /dev/urandom > src/a/b/big && "
	      "ln src/one src/a/hard && ln src/a/b/big src/zbig && ln -s ../one src/a/soft && "
	      "chmod 4711 src/one && chmod 555 src/empty && chmod 750 src/a && "
	      "touch -d '2001-02-03 04:05:06.789' src/one src/a/b src/a/block && "
	      "truncate -s 200M src/sparse && echo x | dd of=src/sparse bs=1 seek=100000000 "
	      "conv=notrunc 2>/dev/null && printf x > \"src/$(printf 'n\\n\\377\\042')\"");
}

static void there_and_back(uint8_t prot, uint8_t ack)
{
	struct transfer_result r;
	struct pair p;

	shell("rm -rf back dst");
	pair_start(&p);
	p.c.request.offer.prot_min = prot;
	p.c.request.offer.ack = ack;
	run_ok(&p, BULK_PUT, at("src"), at("dst"), &r);
	assert_int_equal(r.agreement.prot, prot);
	assert_true(r.files > 500);
	same_tree("src", "dst");
	run_ok(&p, BULK_GET, at("dst"), at("back"), &r);
	same_tree("src", "back");
	pair_stop(&p);
	assert_int_equal(p.v.result, 0);
	shell("test -z \"$(find . -name '.rftp-*')\" && test $(du -m dst/sparse | cut -f1) -lt 3");
}

static void test_clear(void **state)
{
	there_and_back(PROT_CLEAR, ACK_WRITTEN);
}

static void test_safe(void **state)
{
	there_and_back(PROT_SAFE, ACK_RECEIVED);
}

static void test_private_synced(void **state)
{
	there_and_back(PROT_PRIVATE, ACK_SYNCED);
}

static void test_verified(void **state)
{
	there_and_back(PROT_PRIVATE, ACK_VERIFIED);
}

static void test_policies(void **state)
{
	struct transfer_result r;
	struct pair p;

	shell("rm -rf p q && mkdir p && echo new > p/a && echo b > p/b && cp -a p q && "
	      "echo other > q/a && touch -d 2000-01-01 q/a && rm q/b");
	pair_start(&p);
	p.c.request.policy = POLICY_SKIP;
	run_ok(&p, BULK_PUT, at("p"), at("q"), &r);
	assert_int_equal(r.skipped, 1);
	assert_int_equal(r.files, 1);
	shell("grep -q other q/a && cmp p/b q/b");
	p.c.request.policy = POLICY_UPDATE;
	run_ok(&p, BULK_GET, at("p"), at("q"), &r);
	assert_int_equal(r.skipped, 1);
	shell("cmp p/a q/a");
	p.c.request.policy = POLICY_SAME;
	shell("cp -a p/. q && touch -d 2001-01-01 q/b");
	run_ok(&p, BULK_PUT, at("p"), at("q"), &r);
	assert_int_equal(r.skipped, 1);
	assert_int_equal(r.files, 1);
	p.c.request.policy = POLICY_OVERWRITE;
	p.c.request.flags |= BULK_F_DRY_RUN;
	shell("rm -rf q/*");
	run_ok(&p, BULK_PUT, at("p"), at("q"), &r);
	shell("test -z \"$(ls q)\"");
	pair_stop(&p);
}

static void test_destination_rule(void **state)
{
	struct transfer_result r;
	struct pair p;
	struct err e;

	shell("rm -rf d && mkdir -p d/dir && echo 1 > d/file");
	pair_start(&p);
	run_ok(&p, BULK_PUT, at("one"), at("d/x"), &r);      /* a new name */
	run_ok(&p, BULK_PUT, at("one"), at("d/dir"), &r);    /* into a directory */
	run_ok(&p, BULK_PUT, at("one"), at("d/new/"), &r);   /* makes it */
	run_ok(&p, BULK_PUT, at("tree"), at("d/t"), &r);     /* becomes it */
	run_ok(&p, BULK_PUT, at("tree"), at("d/t"), &r);     /* the same on a rerun */
	run_ok(&p, BULK_PUT, at("tree"), at("d/in/"), &r);   /* into it */
	run_ok(&p, BULK_PUT, at("tree/"), at("d/c/"), &r);   /* its contents */
	shell("test -f d/x && test -f d/dir/one && test -f d/new/one && test -f d/t/leaf && "
	      "! test -e d/t/tree && test -f d/in/tree/leaf && test -f d/c/leaf && "
	      "! test -e d/c/tree");
	expect_code(run(&p, BULK_PUT, at("tree"), at("d/file"), &r, &e), -ENOTDIR, &e);
	p.c.request.flags |= BULK_F_SEVERAL;
	expect_code(run(&p, BULK_PUT, at("one"), at("d/y"), &r, &e), -EINVAL, &e);
	pair_stop(&p);
}

static void test_missing_and_unreadable(void **state)
{
	struct transfer_result r;
	struct pair p;
	struct err e;

	shell("rm -rf m n && mkdir -p m/d && echo 1 > m/a && echo 2 > m/z && mkfifo m/fifo && "
	      "rm -rf n && mkdir -p n/a");
	pair_start(&p);
	assert_int_equal(run(&p, BULK_PUT, at("not-there"), at("n/"), &r, &e), 0);
	assert_int_equal(r.failed, 1);
	/* n/a is a directory: that file fails, the other goes. */
	assert_int_equal(run(&p, BULK_PUT, at("m"), at("n"), &r, &e), 0);
	assert_int_equal(r.failed, 1);
	assert_int_equal(r.files, 1);
	shell("cmp m/z n/z && test -d n/a");
	pair_stop(&p);
}

static void count_texts(void *arg, const char *path, int code, const char *text)
{
	unsigned *texts = arg;

	(void)path;
	(void)code;
	*texts += *text != 0;
}

/* All below a directory that could not be made has failed, and one message says why. */
static void test_below_a_failed_directory(void **state)
{
	static const uint8_t ops[] = { BULK_PUT, BULK_GET };
	struct transfer_result r;
	struct err e;

	for (size_t i = 0; i < 2; i++) {
		unsigned texts = 0;
		struct pair p;

		shell("rm -rf m n && mkdir -p m/sub/x/y m/sub/z n && touch m/sub/x/f m/sub/x/y/g && "
		      "ln -s f m/sub/x/l && echo 1 > m/good && touch n/sub");
		pair_start(&p);
		p.c.events.file_failed = count_texts;
		p.c.events.arg = &texts;
		assert_int_equal(run(&p, ops[i], at("m"), at("n"), &r, &e), 0);
		pair_stop(&p);
		assert_int_equal(r.failed, 7); /* sub x y z f g l */
		assert_int_equal(r.local.failed, 7);
		assert_int_equal(r.remote.failed, 7);
		assert_int_equal(texts, 1);
		shell("cmp m/good n/good && test -f n/sub");
	}
}

static void test_bench(void **state)
{
	struct transfer_item zero = { .kind = ITEM_ZERO, .size = 100000000 };
	struct transfer_item null = { .kind = ITEM_NULL };
	struct transfer_result r;
	struct err e = ERR_INIT;
	struct pair p;

	pair_start(&p);
	p.c.nitems = 1;
	p.c.items = &zero;
	p.c.request.op = BULK_BENCH_PUT;
	p.c.request.base = (char[]){ "" };
	p.c.request.bench_bytes = zero.size;
	assert_int_equal(transfer_client(&p.c, &r, &e), 0);
	assert_int_equal(r.bytes, zero.size);
	p.c.items = &null;
	p.c.request.op = BULK_BENCH_GET;
	p.c.request.bench_ns = 300000000;
	assert_int_equal(transfer_client(&p.c, &r, &e), 0);
	assert_true(r.bytes > 0 && r.wall_ns > 250000000);
	pair_stop(&p);
}

static void stop_in_the_middle(void *arg, const struct transfer_progress *p)
{
	if (p->bytes > 60000000)
		__atomic_store_n((volatile sig_atomic_t *)arg, 1, __ATOMIC_RELAXED);
}

static void test_named_link_and_xattrs(void **state)
{
	struct transfer_result r;
	struct pair p;

	shell("rm -rf x y && mkdir x && echo data > x/file && ln -s file x/link && mkdir x/d");
	if (setxattr(at("x/file"), "user.rftp", "v", 1, 0) && errno == EOPNOTSUPP) {
		skip();
		return;
	}
	setxattr(at("x/d"), "user.dir", "w", 1, 0);
	pair_start(&p);
	p.c.request.flags |= BULK_F_XATTRS;
	run_ok(&p, BULK_PUT, at("x/link"), at("y"), &r); /* what it points to, under its name */
	shell("test -f y && ! test -L y && cmp x/file y && rm y");
	run_ok(&p, BULK_PUT, at("x"), at("y"), &r);
	same_tree("x", "y");
	char v[4];

	assert_int_equal(getxattr(at("y/file"), "user.rftp", v, sizeof(v)), 1);
	assert_int_equal(v[0], 'v');
	assert_int_equal(getxattr(at("y/d"), "user.dir", v, sizeof(v)), 1);
	pair_stop(&p);
}

static void test_interrupt_and_resume(void **state)
{
	static volatile sig_atomic_t stop;
	struct transfer_result r;
	struct pair p;
	struct err e;

	shell("rm -rf r s && mkdir r s && head -c 200000000 /dev/urandom > r/big");
	pair_start(&p);
	p.c.stop = &stop;
	p.c.request.rate = 100000000;
	stop = 0;
	p.c.events = (struct transfer_events){ .progress = stop_in_the_middle,
					       .arg = (void *)(uintptr_t)&stop };
	expect_code(run(&p, BULK_PUT, at("r/big"), at("s/big"), &r, &e), -EINTR, &e);
	p.c.events = (struct transfer_events){ 0 };
	shell("! test -e s/big && ls -A s | grep -q '^.rftp-'");
	stop = 0;
	p.c.request.rate = 0;
	run_ok(&p, BULK_PUT, at("r/big"), at("s/big"), &r);
	assert_true(r.resumed > 20000000);
	assert_true(r.bytes + r.resumed == 200000000);
	shell("cmp r/big s/big && test \"$(ls -A s)\" = big");
	pair_stop(&p);
}

/* What the ticker and, at the end, our own thread told of a transfer. */
struct told {
	int times;
	struct transfer_progress last;
};

static void on_progress(void *arg, const struct transfer_progress *p)
{
	struct told *t = arg;

	assert_true(p->bytes >= t->last.bytes && p->seconds >= t->last.seconds);
	assert_non_null(p->bottleneck);
	t->last = *p;
	t->times++;
}

/* Slow enough for the ticker to look at the stages as they start, work and end. */
static void tells_progress(uint8_t op, const char *from, const char *to)
{
	struct told t = { 0 };
	struct transfer_result r;
	struct pair p;

	shell("rm -rf told");
	pair_start(&p);
	p.c.events = (struct transfer_events){ .progress = on_progress, .arg = &t };
	p.c.request.rate = 40000000;
	run_ok(&p, op, from, to, &r);
	assert_true(t.times > 1);
	assert_int_equal(t.last.bytes, 20000000);
	assert_int_equal(t.last.bytes_known, 20000000);
	assert_int_equal(t.last.files_done, 1);
	pair_stop(&p);
}

static void test_progress(void **state)
{
	tells_progress(BULK_PUT, at("src/a/b/big"), at("told"));
	tells_progress(BULK_GET, at("src/a/b/big"), at("told"));
}

static int setup(void **state)
{
	umask(0);
	log_init("test", getenv("DBG") ? LOG_LV_DEBUG : LOG_LV_WARN, false);
	if (!mkdtemp(top))
		return -1;
	make_tree();
	shell("mkdir tree && echo leaf > tree/leaf && echo one > one");
	return 0;
}

static int teardown(void **state)
{
	char cmd[100];

	snprintf(cmd, sizeof(cmd), "chmod -R u+w %s; rm -rf %s", top, top);
	return system(cmd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clear),
		cmocka_unit_test(test_safe),
		cmocka_unit_test(test_private_synced),
		cmocka_unit_test(test_verified),
		cmocka_unit_test(test_policies),
		cmocka_unit_test(test_destination_rule),
		cmocka_unit_test(test_missing_and_unreadable),
		cmocka_unit_test(test_below_a_failed_directory),
		cmocka_unit_test(test_bench),
		cmocka_unit_test(test_named_link_and_xattrs),
		cmocka_unit_test(test_interrupt_and_resume),
		cmocka_unit_test(test_progress),
	};

	if (getenv("TEST_ONLY"))
		cmocka_set_test_filter(getenv("TEST_ONLY"));
	return cmocka_run_group_tests(tests, setup, teardown);
}
