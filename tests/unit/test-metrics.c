// SPDX-License-Identifier: Apache-2.0
/* The counters of --metrics-file: reports of a session that lies, and names in the text. */
#include "server/monitor/monitor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>

#include <cmocka.h>

static struct server server = { .separate = true };
static struct monitor m = { .sv = &server };
static struct conn c;

static int begin(void **state)
{
	m.metrics = (struct metrics){ .started = 1 };
	c = (struct conn){ .used = true, .activity.since = now_ns() - 1000000000 };
	return 0;
}

static int report(uint32_t state, uint32_t sends, uint32_t carrier, int code, uint64_t bytes,
		  uint64_t files)
{
	struct transfer_report r = { .state = state, .sends = sends, .carrier = carrier,
				     .code = code, .bytes = bytes, .files = files };

	return metrics_transfer(&m, &c, &r);
}

static void test_session(void **state)
{
	assert_int_equal(metrics_session(&m, &c, &(struct session_report){ .tls = 2 }), -EPROTO);
	assert_int_equal(metrics_session(&m, &c, &(struct session_report){ 1, AUTH_SELF, "" }),
			 -EPROTO);
	assert_int_equal(metrics_session(&m, &c, &(struct session_report){ 1, AUTH_PAM, "" }), 0);
	assert_int_equal(metrics_session(&m, &c, &(struct session_report){ 1, AUTH_PAM, "" }),
			 -EPROTO);
	assert_int_equal(m.metrics.sessions[1], 1);
	assert_int_equal(m.metrics.logins[AUTH_PAM], 1);
}

static void test_transfer(void **state)
{
	assert_int_equal(report(TRANSFER_BEGINS, 1, 0, 0, 0, 0), 0);
	assert_int_equal(report(TRANSFER_RUNS, 1, TRANSPORT_TCP, 0, 1000, 1), 0);
	assert_int_equal(report(TRANSFER_RUNS, 1, TRANSPORT_TCP, 0, 500, 0), 0); /* never less */
	assert_int_equal(m.metrics.bytes[1][TRANSPORT_TCP], 1000);
	assert_true(c.activity.running);
	assert_int_equal(report(TRANSFER_ENDS, 1, TRANSPORT_TCP, -ENOSPC, 700, 1), 0);
	assert_false(c.activity.running);
	assert_int_equal(m.metrics.bytes[1][TRANSPORT_TCP], 1200);
	assert_int_equal(m.metrics.transfers[1][TRANSPORT_TCP], 1);
	assert_int_equal(m.metrics.failures[4], 1);
	metrics_session_over(&m, &c);
	assert_int_equal(m.metrics.failures[8], 0);
}

static void test_malformed(void **state)
{
	struct transfer_report endless = { .state = TRANSFER_BEGINS };

	const uint64_t bytes = m.metrics.bytes[0][TRANSPORT_TCP];

	/* The report of the beginning may be lost. */
	assert_int_equal(report(TRANSFER_RUNS, 0, TRANSPORT_TCP, 0, 1, 1), 0);
	assert_int_equal(m.metrics.bytes[0][TRANSPORT_TCP], bytes);
	assert_int_equal(report(TRANSFER_ENDS + 1, 0, TRANSPORT_TCP, 0, 1, 1), -EPROTO);
	assert_int_equal(report(TRANSFER_BEGINS, 2, TRANSPORT_TCP, 0, 1, 1), -EPROTO);
	assert_int_equal(report(TRANSFER_BEGINS, 0, CARRIERS, 0, 1, 1), -EPROTO);
	assert_int_equal(report(TRANSFER_BEGINS, 0, TRANSPORT_TCP, 1, 1, 1), -EPROTO);
	assert_int_equal(report(TRANSFER_BEGINS, 0, TRANSPORT_TCP, 0, 1, 1), 0);
	assert_int_equal(report(TRANSFER_RUNS, 1, TRANSPORT_TCP, 0, 1, 1), -EPROTO);
	assert_int_equal(report(TRANSFER_ENDS, 0, TRANSPORT_TCP, INT32_MIN, 1, 1), 0);
	memset(endless.path, 'x', sizeof(endless.path));
	assert_int_equal(metrics_transfer(&m, &c, &endless), -EPROTO);
	assert_int_equal(m.metrics.failures[FAILURES - 1], 1);
}

/* A session of one second cannot have moved more than about 1 TB and 1,000,000 files. */
static void test_liar(void **state)
{
	for (int i = 0; i < 1000; i++) {
		report(TRANSFER_BEGINS, 0, BY_FTP, 0, 0, 0);
		report(TRANSFER_RUNS, 0, BY_FTP, 0, UINT64_MAX, UINT64_MAX);
		report(TRANSFER_ENDS, 0, TRANSPORT_RDMA, 0, UINT64_MAX, UINT64_MAX);
	}
	assert_in_range(m.metrics.bytes[0][BY_FTP] + m.metrics.bytes[0][TRANSPORT_RDMA],
			(uint64_t)1 << 39, (uint64_t)1 << 46);
	assert_in_range(m.metrics.files[0][BY_FTP] + m.metrics.files[0][TRANSPORT_RDMA],
			1000000, 60000000);
}

static void test_death(void **state)
{
	report(TRANSFER_BEGINS, 0, BY_FTP, 0, 0, 0);
	report(TRANSFER_RUNS, 0, BY_FTP, 0, 5, 0);
	metrics_session_over(&m, &c);
	metrics_session_over(&m, &c);
	assert_int_equal(m.metrics.failures[8], 1);
	assert_int_equal(m.metrics.transfers[0][BY_FTP], 1);
	assert_int_equal(m.metrics.bytes[0][BY_FTP], 5);
}

/* ---- RDMA ports ---- */

static void make_file(const char *dir, const char *name, const char *text)
{
	CLEANUP_FREE char *path = NULL;

	assert_true(asprintf(&path, "%s/%s", dir, name) > 0);
	assert_int_equal(make_dirs(dir, 0700), 0);
	assert_int_equal(write_file_atomic(path, text, strlen(text), 0600, NULL), 0);
}

static char *ports(const char *sysfs)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	metrics_put_cards(out, sysfs);
	fclose(out);
	return text;
}

static void test_ports(void **state)
{
	char top[] = "/tmp/rftp-metrics.XXXXXX", dir[200], remove[100];
	char *text;

	assert_non_null(mkdtemp(top));
	snprintf(dir, sizeof(dir), "%s/class/infiniband/m\"x\\\n0/ports/1", top);
	make_file(dir, "state", "4: ACTIVE\n");
	snprintf(dir, sizeof(dir), "%s/class/infiniband/m\"x\\\n0/ports/1/hw_counters", top);
	make_file(dir, "rnr_nak_retry_err", "17\n");
	make_file(dir, "send_err", "<not a number>\n");
	make_file(dir, "lifespan", "10\n");
	snprintf(dir, sizeof(dir), "%s/class/infiniband/m\"x\\\n0/ports/1/counters", top);
	make_file(dir, "port_xmit_data", "25\n");
	snprintf(dir, sizeof(dir), "%s/class/infiniband/down/ports/2", top);
	make_file(dir, "state", "1: DOWN\n");
	snprintf(dir, sizeof(dir), "%s/class/net/eth0", top);
	make_file(dir, "operstate", "up\n");
	snprintf(dir, sizeof(dir), "%s/class/net/eth0/statistics", top);
	make_file(dir, "rx_bytes", "1234567890123\n");
	snprintf(dir, sizeof(dir), "%s/devices/system/cpu", top);
	make_file(dir, "online", "0\n");

	text = ports(top);
	assert_non_null(strstr(text, "\nrftpd_rdma_port_up{device=\"m\\\"x\\\\\\n0\",port=\"1\"} "
			       "1\n"));
	assert_non_null(strstr(text, "\nrftpd_rdma_port_up{device=\"down\",port=\"2\"} 0\n"));
	assert_non_null(strstr(text, "\nrftpd_rdma_events_total{device=\"m\\\"x\\\\\\n0\","
			       "port=\"1\",event=\"rnr_nak_retry_err\"} 17\n"));
	assert_non_null(strstr(text, "\nrftpd_rdma_bytes_total{device=\"m\\\"x\\\\\\n0\",port=\"1\","
			       "direction=\"sent\"} 100\n"));
	assert_non_null(strstr(text, "\nrftpd_card_bytes_total{device=\"eth0\","
			       "direction=\"received\"} 1234567890123\n"));
	assert_null(strstr(text, "send_err"));
	assert_null(strstr(text, "lifespan"));
	free(text);
	snprintf(remove, sizeof(remove), "rm -r %s", top);
	assert_int_equal(system(remove), 0);
}

#define TEST(fn) cmocka_unit_test_setup(fn, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_session), TEST(test_transfer), TEST(test_malformed), TEST(test_liar),
		TEST(test_death), TEST(test_ports),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
