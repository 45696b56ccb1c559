// SPDX-License-Identifier: Apache-2.0
/* The complete engine, both sides in one process: the client in this thread, the server in another,
 * with control over a socket pair and data over loopback. */
#include "tests/support/pair.h"

#include <errno.h>
#include <string.h>
#include <sys/xattr.h>

/* Both trees have the same content, modes, times, link targets and hard links. */
static void same_tree(const char *a, const char *b)
{
	shell("for t in %s %s; do (cd $t && find . -printf '%%P %%y %%m %%T@ %%l %%n\\n' | "
	      "sed 's/\\(\\.[0-9]*\\)0* /\\1 /' | LC_ALL=C sort && find . -type f -exec md5sum {} + | "
	      "LC_ALL=C sort) > list.${t%%/*}; done; cmp list.%s list.%s", a, b, a, b);
}

static void expect_code(int got, int want, const struct err *e)
{
	if (got != want)
		fail_msg("%d, not %d: %s", got, want, e->text);
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
	struct pair p;

	shell("rm -rf back dst");
	pair_start(&p);
	if (geteuid() == 0)
		p.c.request.flags |= BULK_F_OWNER; /* set-id bits need the owner */
	else
		shell("chmod u-s src/one");
	p.c.request.offer.prot_min = prot;
	p.c.request.offer.ack = ack;
	pair_put_ok(&p, at("src"), at("dst"));
	assert_int_equal(p.r.agreement.prot, prot);
	assert_true(p.r.files > 500);
	same_tree("src", "dst");
	pair_move_ok(&p, BULK_GET, at("dst"), at("back"));
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
	struct pair p;

	shell("rm -rf p q && mkdir p && echo new > p/a && echo b > p/b && cp -a p q && "
	      "echo other > q/a && touch -d 2000-01-01 q/a && rm q/b");
	pair_start(&p);
	p.c.request.policy = POLICY_SKIP;
	pair_put_ok(&p, at("p"), at("q"));
	assert_int_equal(p.r.skipped, 1);
	assert_int_equal(p.r.files, 1);
	shell("grep -q other q/a && cmp p/b q/b");
	p.c.request.policy = POLICY_UPDATE;
	pair_move_ok(&p, BULK_GET, at("p"), at("q"));
	assert_int_equal(p.r.skipped, 1);
	shell("cmp p/a q/a");
	p.c.request.policy = POLICY_SAME;
	shell("cp -a p/. q && touch -d 2001-01-01 q/b");
	pair_put_ok(&p, at("p"), at("q"));
	assert_int_equal(p.r.skipped, 1);
	assert_int_equal(p.r.files, 1);
	p.c.request.policy = POLICY_OVERWRITE;
	p.c.request.flags |= BULK_F_DRY_RUN;
	shell("rm -rf q/*");
	pair_put_ok(&p, at("p"), at("q"));
	shell("test -z \"$(ls q)\"");
	pair_stop(&p);
}

static void test_destination_rule(void **state)
{
	struct pair p;

	shell("rm -rf d && mkdir -p d/dir && echo 1 > d/file");
	pair_start(&p);
	pair_put_ok(&p, at("one"), at("d/x"));      /* a new name */
	pair_put_ok(&p, at("one"), at("d/dir"));    /* into an existing directory */
	pair_put_ok(&p, at("one"), at("d/new/"));   /* creates the directory */
	pair_put_ok(&p, at("tree"), at("d/t"));     /* the tree becomes d/t */
	pair_put_ok(&p, at("tree"), at("d/t"));     /* the same on a rerun */
	pair_put_ok(&p, at("tree"), at("d/in/"));   /* into the directory */
	pair_put_ok(&p, at("tree/"), at("d/c/"));   /* its contents */
	shell("test -f d/x && test -f d/dir/one && test -f d/new/one && test -f d/t/leaf && "
	      "! test -e d/t/tree && test -f d/in/tree/leaf && test -f d/c/leaf && "
	      "! test -e d/c/tree");
	expect_code(pair_put(&p, at("tree"), at("d/file")), -ENOTDIR, &p.e);
	p.c.request.flags |= BULK_F_SEVERAL;
	expect_code(pair_put(&p, at("one"), at("d/y")), -EINVAL, &p.e);
	pair_stop(&p);
}

static void test_missing_and_unreadable(void **state)
{
	struct pair p;

	shell("rm -rf m n && mkdir -p m/d && echo 1 > m/a && echo 2 > m/z && mkfifo m/fifo && "
	      "rm -rf n && mkdir -p n/a");
	pair_start(&p);
	assert_int_equal(pair_put(&p, at("not-there"), at("n/")), 0);
	assert_int_equal(p.r.failed, 1);
	/* n/a is a directory: this file fails, the other is copied. */
	assert_int_equal(pair_put(&p, at("m"), at("n")), 0);
	assert_int_equal(p.r.failed, 1);
	assert_int_equal(p.r.files, 1);
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

/* If a directory cannot be made, all files below it count as failed, and one message gives the
 * reason. */
static void test_below_a_failed_directory(void **state)
{
	static const uint8_t ops[] = { BULK_PUT, BULK_GET };

	for (size_t i = 0; i < 2; i++) {
		unsigned texts = 0;
		struct pair p;

		shell("rm -rf m n && mkdir -p m/sub/x/y m/sub/z n && touch m/sub/x/f m/sub/x/y/g && "
		      "ln -s f m/sub/x/l && echo 1 > m/good && touch n/sub");
		pair_start(&p);
		p.c.events.file_failed = count_texts;
		p.c.events.arg = &texts;
		assert_int_equal(pair_move(&p, ops[i], at("m"), at("n")), 0);
		pair_stop(&p);
		assert_int_equal(p.r.failed, 7); /* sub x y z f g l */
		assert_int_equal(p.r.local.failed, 7);
		assert_int_equal(p.r.remote.failed, 7);
		assert_int_equal(texts, 1);
		shell("cmp m/good n/good && test -f n/sub");
	}
}

static void test_bench(void **state)
{
	struct transfer_item zero = { .kind = ITEM_ZERO, .size = 100000000 };
	struct transfer_item null = { .kind = ITEM_NULL };
	struct pair p;
	uint8_t wanted;

	pair_start(&p);
	p.c.nitems = 1;
	p.c.items = &zero;
	p.c.request.op = BULK_BENCH_PUT;
	p.c.request.base = (char[]){ "" };
	p.c.request.bench_bytes = zero.size;
	wanted = p.c.request.offer.transports;
	assert_int_equal(transfer_client(&p.c, &p.r, &p.e), 0);
	/* The offer keeps a transport that this transfer could not use. */
	assert_int_equal(p.c.request.offer.transports, wanted);
	assert_int_equal(p.r.bytes, zero.size);
	p.c.items = &null;
	p.c.request.op = BULK_BENCH_GET;
	p.c.request.bench_ns = 300000000;
	assert_int_equal(transfer_client(&p.c, &p.r, &p.e), 0);
	assert_true(p.r.bytes > 0 && p.r.wall_ns > 250000000);
	pair_stop(&p);
}

static void stop_in_the_middle(void *arg, const struct transfer_progress *p)
{
	if (p->bytes > 60000000)
		pair_interrupt(arg);
}

static void test_named_link_and_xattrs(void **state)
{
	struct pair p;

	shell("rm -rf x y && mkdir x && echo data > x/file && ln -s file x/link && mkdir x/d");
	if (setxattr(at("x/file"), "user.rftp", "v", 1, 0) && errno == EOPNOTSUPP) {
		skip();
		return;
	}
	setxattr(at("x/d"), "user.dir", "w", 1, 0);
	pair_start(&p);
	p.c.request.flags |= BULK_F_XATTRS;
	pair_put_ok(&p, at("x/link"), at("y")); /* the target of the link, under the link's name */
	shell("test -f y && ! test -L y && cmp x/file y && rm y");
	pair_put_ok(&p, at("x"), at("y"));
	same_tree("x", "y");
	char v[4];

	assert_int_equal(getxattr(at("y/file"), "user.rftp", v, sizeof(v)), 1);
	assert_int_equal(v[0], 'v');
	assert_int_equal(getxattr(at("y/d"), "user.dir", v, sizeof(v)), 1);
	pair_stop(&p);
}

static void test_interrupt_and_resume(void **state)
{
	struct pair p;

	shell("rm -rf r s && mkdir r s && head -c 200000000 /dev/urandom > r/big");
	pair_start(&p);
	pair_stoppable(&p);
	p.c.request.rate = 100000000;
	p.c.events = (struct transfer_events){ .progress = stop_in_the_middle, .arg = &p };
	expect_code(pair_put(&p, at("r/big"), at("s/big")), -EINTR, &p.e);
	p.c.events = (struct transfer_events){ 0 };
	shell("! test -e s/big && ls -A s | grep -q '^.rftp-'");
	pair_unstoppable(&p);
	p.c.request.rate = 0;
	pair_put_ok(&p, at("r/big"), at("s/big"));
	assert_true(p.r.resumed > 20000000);
	assert_true(p.r.bytes + p.r.resumed == 200000000);
	shell("cmp r/big s/big && test \"$(ls -A s)\" = big");
	pair_stop(&p);
}

/* Progress reports of the ticker and, at the end, of the main thread. */
struct told {
	int times;
	struct transfer_progress last;
};

static void on_progress(void *arg, const struct transfer_progress *p)
{
	struct told *t = arg;

	assert_true(p->bytes >= t->last.bytes && p->ns >= t->last.ns);
	t->last = *p;
	t->times++;
}

/* Slow enough for the ticker to see the stages start, work and end. */
static void tells_progress(uint8_t op, const char *from, const char *to)
{
	struct told t = { 0 };
	struct pair p;

	shell("rm -rf told");
	pair_start(&p);
	p.c.events = (struct transfer_events){ .progress = on_progress, .arg = &t };
	p.c.request.rate = 40000000;
	pair_move_ok(&p, op, from, to);
	assert_true(t.times > 1);
	assert_int_equal(t.last.bytes, 20000000);
	assert_int_equal(t.last.bytes_known, 20000000);
	assert_int_equal(t.last.files_done, 1);
	assert_string_equal(t.last.bottleneck, "rate");
	assert_in_range(t.last.share, 1, 100);
	pair_stop(&p);
}

static void test_progress(void **state)
{
	tells_progress(BULK_PUT, at("src/a/b/big"), at("told"));
	tells_progress(BULK_GET, at("src/a/b/big"), at("told"));
}

static int setup(void **state)
{
	(void)state;
	if (pair_setup("/tmp"))
		return -1;
	make_tree();
	shell("mkdir tree && echo leaf > tree/leaf && echo one > one");
	return 0;
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

	return cmocka_run_group_tests(tests, setup, pair_teardown);
}
