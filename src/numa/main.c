// SPDX-License-Identifier: Apache-2.0
/* rftp-numa: the topology of this machine, its memory costs, and the best places for threads and
 * buffers. Its commands are Python programs, rftp-numa-COMMAND, which this program executes. They
 * execute it again for the internal commands, which touch memory and find the nodes of devices. */
#include "numa/measure.h"
#include "numa/model.h"
#include "numa/topo.h"

#include <limits.h>
#include <signal.h>
#include <sys/stat.h>

#define TOOL_NAME "rftp-numa"
#define KEEP_MOST (64u << 20)

enum { TOOL_DONE, TOOL_FAILED, TOOL_USAGE }; /* exit statuses */

/* ---- machine: the nodes, and the nodes of devices and files ---- */

static json_t *node_json(const struct topo *t, const struct node *n)
{
	json_t *distances = json_array(), *obj;
	struct node_memory m;
	char cpus[IDS_MAX];

	for (unsigned i = 0; i < topo_nodes(t); i++)
		json_array_append_new(distances, json_integer(n->distance[i]));
	obj = json_pack("{s:i, s:s, s:o}", "id", n->id, "cpus",
			ids_format(cpus, sizeof(cpus), &n->cpus), "distances", distances);
	if (obj && !topo_memory(t, n->id, &m)) {
		json_object_set_new(obj, "memory", json_integer((json_int_t)m.total));
		json_object_set_new(obj, "memory_free", json_integer((json_int_t)m.free));
		json_object_set_new(obj, "memory_room", json_integer((json_int_t)m.room));
	}
	return obj;
}

/* The nodes of a block device, or of the block device below a file's filesystem; empty: not known.
 * *absent: the reason if nothing is at path. In a copied sysfs only device names can be looked up:
 * symbolic links in /dev are made by the other machine's udev. */
static struct ids nodes_of_path(const struct topo *t, const char *path, const char **absent)
{
	const char *name = strncmp(path, "/dev/", strlen("/dev/")) ? NULL : path + strlen("/dev/");
	struct ids none = { 0 };
	struct stat st;

	if (sys_is_own(t)) {
		if (!stat(path, &st))
			return topo_device(t, S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev);
		*absent = strerror(errno);
		return none;
	}
	if (!name || strchr(name, '/'))
		return none;
	if (!topo_has_block(t, name))
		*absent = "no block device of this name exists there";
	return topo_block(t, name);
}

/* word: "net/NAME", "infiniband/NAME" or "block/NAME", as below class/ in sysfs, or a path that
 * begins with "/". */
static json_t *location_json(const struct topo *t, const char *word)
{
	const char *slash = strchr(word, '/'), *name = slash ? slash + 1 : word, *absent = NULL;
	char text[IDS_MAX], device[RDMA_NAME] = "";
	struct ids nodes = { 0 };
	int node = NODE_UNKNOWN;

	if (!strncmp(word, "net/", 4)) {
		node = topo_netdev(t, name);
		topo_netdev_rdma(t, name, NULL, device);
	} else if (!strncmp(word, "infiniband/", 11)) {
		node = topo_rdma(t, name);
	} else if (!strncmp(word, "block/", 6)) {
		nodes = topo_block(t, name);
	} else {
		nodes = nodes_of_path(t, word, &absent);
	}
	if (node != NODE_UNKNOWN)
		ids_add(&nodes, (unsigned)node);
	return json_pack("{s:s, s:o, s:s}", "nodes", ids_format(text, sizeof(text), &nodes), "rdma",
			 json_name(device), "absent", absent ? absent : "");
}

/* "found" has an element for each word; "limit": the bytes that this process's control group may
 * have. */
static json_t *machine_command(char **words, struct err *e)
{
	struct topo *t = topo_read(NULL, e);
	uint64_t limit = cgroup_memory_limit("/proc/self/cgroup", "/sys/fs/cgroup");
	json_t *nodes, *found;

	if (!t)
		return NULL;
	nodes = json_array();
	for (unsigned i = 0; i < topo_nodes(t); i++)
		json_array_append_new(nodes, node_json(t, topo_node(t, i)));
	found = json_array();
	for (; *words; words++)
		json_array_append_new(found, location_json(t, *words));
	topo_free(t);
	return json_pack("{s:o, s:o, s:I}", "nodes", nodes, "found", found, "limit",
			 limit < INT64_MAX ? (json_int_t)limit : INT64_MAX);
}

/* ---- check and keep ---- */

/* FILE: an I/O model, if it was measured on this machine. */
static json_t *check_command(char **words, struct err *e)
{
	struct topo *t = topo_read(NULL, e);
	struct model *m = t ? model_read(words[0], t, e) : NULL;
	json_t *found = m ? json_incref(m->root) : NULL;

	model_free(m);
	topo_free(t);
	return found;
}

/* NAME FILE: saves standard input, a model or a picture of it, atomically. */
static json_t *keep_command(char **words, struct err *e)
{
	CLEANUP_FREE char *data = NULL;
	size_t len;
	int r;

	if (!words[0] || !words[1]) {
		err_set(e, -EINVAL, "keep needs NAME FILE");
		return NULL;
	}
	/* When the file size limit is reached, fail with an error as for a full disk. */
	signal(SIGXFSZ, SIG_IGN);
	r = read_file("/dev/stdin", KEEP_MOST, &data, &len);
	if (r)
		err_sys(e, r, "standard input");
	else
		r = write_file_atomic(words[1], data, len, 0644, e);
	if (!r)
		return json_object();
	err_prefix(e, "%s is not saved", words[0]);
	return NULL;
}

/* ---- commands ---- */

/* Execute the Python program of a command; returns only on failure. It finds this program by the
 * path in RFTP_NUMA_PROGRAM. */
static int become(int argc, char **argv)
{
	char self[PATH_MAX] = "", path[2 * PATH_MAX], python[] = PYTHON;
	char **words = calloc((size_t)argc + 2, sizeof(*words));

	if (!words || readlink("/proc/self/exe", self, sizeof(self) - 1) < 0 ||
	    setenv("RFTP_NUMA_PROGRAM", self, 1)) {
		log_error("%s: cannot be started: %s", argv[0], strerror(errno));
		free(words);
		return TOOL_FAILED;
	}
	*strrchr(self, '/') = '\0';
	/* In a build directory the Python programs are beside this program. */
	snprintf(path, sizeof(path), "%s/rftp-numa-%s", self, argv[0]);
	if (access(path, R_OK))
		snprintf(path, sizeof(path), PKGLIBEXECDIR "/rftp-numa-%s", argv[0]);
	words[0] = python;
	words[1] = path;
	memcpy(words + 2, argv + 1, (size_t)(argc - 1) * sizeof(*words));
	if (access(path, R_OK))
		log_error("%s: %s (is rftp installed as a whole?)", path, strerror(errno));
	else if (execv(python, words))
		log_error("%s: cannot be started: %s (it is the Python that rftp was built for)",
			  python, strerror(errno));
	free(words);
	return TOOL_FAILED;
}

static const struct {
	const char *name, *about; /* about NULL: internal, not listed by --help */
	/* An internal command: its result as JSON, or NULL with text. NULL: a Python program. */
	json_t *(*run)(char **words, struct err *e);
} commands[] = {
	{ "topo", "the nodes of this machine and their devices", NULL },
	{ "model", "the cost of copies between nodes, and classes of similar nodes", NULL },
	{ "plan", "how many threads should move how many bytes through which nodes", NULL },
	{ "affinity", "the cost of buffers or threads on another node", NULL },
	{ "factor", "how much worse the memory of other nodes is", NULL },
	{ "measure", "the bandwidths behind the result of model, round by round", NULL },
	{ "machine", NULL, machine_command },
	{ "copy", NULL, copy_command },
	{ "walk", NULL, walk_command },
	{ "check", NULL, check_command },
	{ "keep", NULL, keep_command },
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static int list_commands(void)
{
	printf("Usage: " TOOL_NAME " COMMAND [OPTIONS]\n\nCommands:\n");
	for (size_t i = 0; i < COMMANDS; i++)
		if (commands[i].about)
			printf("  %-12s %s\n", commands[i].name, commands[i].about);
	printf("\n" TOOL_NAME " COMMAND --help lists a command's options.\n\n"
	       "Options:\n"
	       "  -h, --help     print this help, and exit\n"
	       "  -V, --version  print the version, and exit\n");
	return TOOL_DONE;
}

/* Print a usage error, and how to get help. */
static int misused(const char *text)
{
	log_error("%s (" TOOL_NAME " --help lists commands, " TOOL_NAME " COMMAND --help options)",
		  text);
	return TOOL_USAGE;
}

/* 'h', 'v' or 'q' if word is a flag that all commands accept, also before the command; or 0. */
static char common_flag(const char *word)
{
	static const char *const flags[] = { "--help", "--verbose", "--quiet" };

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (!strcmp(word, flags[i]) || (!strncmp(word, flags[i] + 1, 2) && !word[2]))
			return flags[i][2];
	return 0;
}

static int run_command(int argc, char **argv)
{
	struct err e = ERR_INIT;
	bool help = false;
	int word = 1, r;
	json_t *found;
	char *command;
	size_t i = 0;

	for (; word < argc && common_flag(argv[word]); word++)
		help |= common_flag(argv[word]) == 'h';
	if (word == argc)
		return help ? list_commands() : misused("no command");
	/* Put the flags before the command behind it: "-v topo" means "topo -v". */
	command = argv[word];
	argv[word] = argv[1];
	argv[1] = command;
	if (!strcmp(argv[1], "-V") || !strcmp(argv[1], "--version")) {
		printf(TOOL_NAME " %s\nfeatures: %s\n", PACKAGE_VERSION, RFTP_FEATURES);
		return TOOL_DONE;
	}
	while (i < COMMANDS && strcmp(commands[i].name, argv[1]) != 0)
		i++;
	if (i == COMMANDS) {
		if (*argv[1] == '-')
			err_set(&e, -EINVAL, "there is no option %s before a command",
				printable(argv[1]));
		else
			err_set(&e, -EINVAL, "there is no command \"%s\"", printable(argv[1]));
		return misused(e.text);
	}
	if (!commands[i].run)
		return become(argc - 1, argv + 1);

	found = commands[i].run(argv + 2, &e);
	r = found || !e.code ? json_emit(stdout, found) : e.code;
	if (r)
		log_error("%s", e.code ? e.text : strerror(-r));
	return r ? TOOL_FAILED : TOOL_DONE;
}

int main(int argc, char **argv)
{
	int status;

	hold_standard_fds();
	log_init(TOOL_NAME, LOG_LV_INFO, false);
	status = run_command(argc, argv);

	/* Internal commands check their own output; help and version are checked here. */
	if (status == TOOL_DONE && fflush(stdout)) {
		log_error("standard output: %s", strerror(errno));
		status = TOOL_FAILED;
	}
	return status;
}
