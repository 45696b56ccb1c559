// SPDX-License-Identifier: Apache-2.0
/* Completion vectors with interrupts on the CPUs of a node, according to /proc. */
#include "numa/topo.h"
#include "tests/support/sysfs.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct topo *topo;
static char proc[sizeof(tmp_dir) + 8];

static void file(const char *name, const char *text)
{
	char path[sizeof(proc) + 64];

	snprintf(path, sizeof(path), "%s/%s", proc, name);
	sysfs_parent(path);
	assert_int_equal(write_file_atomic(path, text, strlen(text), 0644, NULL), 0);
}

/* mlx5_1 of the machine of two nodes: vectors 0 and 2 on node 0, 1 and 3 on node 1. */
static int set_up(void **state)
{
	struct err e = ERR_INIT;

	if (tmp_setup(state))
		return -1;
	snprintf(proc, sizeof(proc), "%s/proc", tmp_dir);
	setenv("RFTP_PROC", proc, 1);
	topo = topo_read(sysfs_make("two"), &e);
	return topo ? 0 : -1;
}

static int take_down(void **state)
{
	topo_free(topo);
	unsetenv("RFTP_PROC");
	return tmp_teardown(state);
}

static unsigned vector(const char *device, const char *cpus, unsigned vectors, unsigned nth)
{
	struct ids s;

	assert_int_equal(ids_parse(cpus, &s), 0);
	return topo_vector(topo, device, &s, vectors, nth);
}

/* Without information, the guess is that the first vectors belong to near CPUs. */
static void test_unknown(void **state)
{
	(void)state;
	assert_int_equal(vector("mlx5_1", "8-9", 8, 0), 0);
	assert_int_equal(vector("mlx5_1", "8-9", 8, 1), 1);
	assert_int_equal(vector("mlx5_1", "8-9", 8, 2), 0);
	assert_int_equal(vector("mlx5_1", "", 8, 9), 1);
	assert_int_equal(vector("none", "8-9", 1, 5), 0);
	assert_int_equal(vector("none", "8-9", 0, 5), 0);
}

static void test_named(void **state)
{
	(void)state;
	file("interrupts",
	     "            CPU0       CPU1\n"
	     "  1:         12          0  IR-IO-APIC    1-edge      i8042\n"
	     " 40:          0          0  IR-PCI-MSIX-0000:83:00.0    0-edge      mlx5_async0@pci:0000:83:00.0\n"
	     " 41:          5          0  IR-PCI-MSIX-0000:83:00.0    1-edge      mlx5_comp0@pci:0000:83:00.0\n"
	     " 42:          0          7  IR-PCI-MSIX-0000:83:00.0    2-edge      mlx5_comp1@pci:0000:83:00.0\n"
	     " 43:          0          0  IR-PCI-MSIX-0000:83:00.0    3-edge      mlx5_comp2@pci:0000:83:00.0\n"
	     " 44:          0          0  IR-PCI-MSIX-0000:83:00.0    4-edge      mlx5_comp3@pci:0000:83:00.0\n"
	     " 51:          0          0  IR-PCI-MSIX-0000:03:00.0    4-edge      mlx5_comp2@pci:0000:03:00.0\n"
	     "NMI:          0          0   Non-maskable interrupts\n");
	file("irq/41/effective_affinity_list", "0\n");
	file("irq/42/effective_affinity_list", "9\n");
	file("irq/43/smp_affinity_list", "0-7\n");
	file("irq/44/smp_affinity_list", "8-15\n");
	file("irq/51/effective_affinity_list", "8\n"); /* of another device */
	assert_int_equal(vector("mlx5_1", "8-15", 4, 0), 1);
	assert_int_equal(vector("mlx5_1", "8-15", 4, 1), 3);
	assert_int_equal(vector("mlx5_1", "8-15", 4, 2), 1);
	assert_int_equal(vector("mlx5_1", "0-7", 4, 0), 0);
	assert_int_equal(vector("mlx5_1", "0-7", 4, 1), 2);
	assert_int_equal(vector("mlx5_0", "8-15", 4, 1), 2);
	/* With fewer vectors than interrupts, or a CPU without an interrupt, the guess applies. */
	assert_int_equal(vector("mlx5_1", "8-15", 3, 1), 1);
	assert_int_equal(vector("mlx5_1", "30", 4, 2), 0);
	/* Not a PCI device. */
	assert_int_equal(vector("rxe0", "8-9", 4, 3), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_named),
	};

	return cmocka_run_group_tests_name("irq", tests, set_up, take_down);
}
