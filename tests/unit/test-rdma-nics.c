// SPDX-License-Identifier: Apache-2.0
/* The RDMA device for an address, from trees in the form of /sys. */
#include "rdma/path.h"

#include "tests/support/tmptree.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void put_file(const char *path, const char *text)
{
	char dir[8192];
	int fd;

	snprintf(dir, sizeof(dir), "%s/%s", tmp_dir, path);
	*strrchr(dir, '/') = '\0';
	assert_int_equal(make_dirs(dir, 0755), 0);
	fd = open(tmp_at(path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void put_gid(const char *device, int port, int index, const char *gid)
{
	char path[200], line[64];

	snprintf(path, sizeof(path), "class/infiniband/%s/ports/%d/gids/%d", device, port, index);
	snprintf(line, sizeof(line), "%s\n", gid);
	put_file(path, line);
}

#define NO_GID "0000:0000:0000:0000:0000:0000:0000:0000"

/* A NIC with two ports and gaps in its tables; a software device; InfiniBand. */
static void make_machine(void)
{
	put_file("devices/system/cpu/online", "0\n");
	put_gid("mlx5_0", 1, 0, "fe80:0000:0000:0000:0202:c9ff:fe00:0001");
	put_gid("mlx5_0", 1, 1, NO_GID);
	put_gid("mlx5_0", 1, 2, "0000:0000:0000:0000:0000:ffff:0a01:0001");
	put_gid("mlx5_0", 2, 0, NO_GID);
	put_gid("mlx5_0", 2, 1, "2001:0db8:0000:0000:0000:0000:0000:00ab");
	for (int i = 0; i < 20; i++)
		put_gid("rxe_eth0", 1, i, NO_GID);
	put_gid("rxe_eth0", 1, 3, "0000:0000:0000:0000:0000:ffff:c000:0207");
	put_gid("rxe_eth0", 1, 20, "0000:0000:0000:0000:0000:ffff:c000:0299"); /* not read */
	put_gid("mlx4_0", 1, 0, "fe80:0000:0000:0000:0002:c903:0000:1491");
	put_file("class/infiniband/mlx4_0/device/net/ib0/mtu", "2044\n");
	put_file("class/net/eth9/device/vendor", "0x8086\n");
}

static void test_devices(void **state)
{
	static const struct { const char *address, *ifname, *device; } rows[] = {
		{ "10.1.0.1", "ens1", "mlx5_0" },
		{ "2001:db8::ab", "ens2", "mlx5_0" },
		{ "192.0.2.7", "eth0", "rxe_eth0" },
		{ "192.0.2.153", "eth0", "" },
		{ "10.1.0.2", "ens1", "" },
		{ "::", "ens1", "" },
		{ "10.5.0.1", "ib0", "mlx4_0" },
		{ "10.6.0.1", "eth9", "" },
		{ "10.6.0.1", "../../etc", "" },
	};

	(void)state;
	make_machine();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err why = ERR_INIT;
		struct sockaddr_storage a;
		char name[NIC_DEVICE_NAME];
		int r;

		assert_true(address_parse(rows[i].address, &a));
		r = rd_device_of(tmp_dir, &a, rows[i].ifname, name, &why);
		assert_string_equal(name, rows[i].device);
		assert_int_equal(r, rows[i].device[0] != '\0');
		assert_int_equal(why.code, 0);
	}
}

static void test_none(void **state)
{
	struct err why = ERR_INIT;
	struct sockaddr_storage a;
	char name[NIC_DEVICE_NAME];

	(void)state;
	address_parse("10.1.0.1", &a);
	assert_int_equal(rd_device_of(tmp_at("nowhere"), &a, "eth0", name, &why), -ENODEV);
	assert_non_null(strstr(why.text, "softroce"));
	assert_string_equal(name, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_devices),
	};

	return cmocka_run_group_tests(tests, tmp_setup, tmp_teardown);
}
