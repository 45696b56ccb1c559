// SPDX-License-Identifier: Apache-2.0
/* Modules, iscsid, a name, and a way. */
#include "iser_setup/prepare.h"

#include "iser_setup/run.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define NAME_FILE "/etc/iscsi/initiatorname.iscsi"
#define NAME_FILE_MAX 65536u
#define DAEMON_WAIT_MS 10000
#define DAEMON_POLL_US 50000
#define DISCARD_PORT 9 /* any: nothing is sent there */

/* ---- modules ---- */

static int load(const char *module, const char *what, const struct stop *stop, struct err *e)
{
	struct stat st;
	char dir[80];
	int r;

	snprintf(dir, sizeof(dir), "/sys/module/%s", module);
	if (!stat(dir, &st))
		return 0;
	r = run_program(stop, NULL, e, "modprobe", module, NULL);
	if (r > 0)
		return err_prefix(e, "the kernel's module %s, for %s, cannot be loaded", module,
				  what);
	return r;
}

int prepare_modules(enum login_transport transport, const struct stop *stop, struct err *e)
{
	int r = load(login_modules[transport],
		     transport == LOGIN_ISER ? "iSER" : "iSCSI over TCP", stop, e);

	/* Without it a login is well, and no disk ever appears. */
	return r ? r : load("sd_mod", "disks", stop, e);
}

/* ---- iscsid ---- */

/* It hears on a name of its own; under systemd asking there starts it. */
static bool daemon_hears(void)
{
	static const char name[] = "ISCSIADM_ABSTRACT_NAMESPACE";
	CLEANUP_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	memcpy(a.sun_path + 1, name, sizeof(name) - 1);
	return fd >= 0 && !connect(fd, (struct sockaddr *)&a, (socklen_t)
				   (offsetof(struct sockaddr_un, sun_path) + sizeof(name)));
}

int prepare_daemon(const struct stop *stop, struct err *e)
{
	const bool systemd = !access("/run/systemd/system", F_OK);
	uint64_t until;
	int r;

	if (daemon_hears())
		return 0;
	if (systemd)
		r = run_program(stop, NULL, e, "systemctl", "start", "iscsid.socket",
				"iscsid.service", NULL);
	else
		r = run_program(stop, NULL, e, "iscsid", NULL);
	if (r)
		return err_prefix(e, "open-iscsi's daemon does not run, and cannot be started");
	for (until = ns_after(DAEMON_WAIT_MS); !daemon_hears(); usleep(DAEMON_POLL_US)) {
		if (stop_asked(stop))
			return err_set(e, -EINTR, "stopped by a signal");
		if (now_ns() > until)
			return err_set(e, -ETIMEDOUT, "open-iscsi's daemon was started, but does "
				       "not answer: see what iscsid -f -d 3 says");
	}
	log_info("started open-iscsi's daemon, iscsid%s", systemd ? "" :
		 " (there is no systemd here to look after it)");
	return 0;
}

/* ---- name ---- */

static int make_name(const char *file, const struct stop *stop, struct err *e)
{
	CLEANUP_FREE char *iqn = NULL, *text = NULL;
	int r = run_program(stop, &iqn, e, "iscsi-iname", NULL);

	if (!r && asprintf(&text, "InitiatorName=%.*s\n", (int)strcspn(iqn, "\r\n"), iqn) < 0)
		text = NULL;
	if (!r && !text)
		return err_set(e, -ENOMEM, "out of memory");
	if (!r)
		r = write_file_atomic(file, text, strlen(text), 0600, e);
	if (r)
		return err_prefix(e, "this host has no initiator's name");
	log_info("gave this host an initiator's name, in %s", file);
	return 0;
}

char *prepare_initiator(const char *file, const struct stop *stop, struct err *e)
{
	CLEANUP_FREE char *text = NULL;
	char *name;
	int r;

	file = file ? file : NAME_FILE;
	r = access(file, F_OK) && errno == ENOENT ? make_name(file, stop, e) : 0;
	if (r)
		return NULL;
	r = read_file(file, NAME_FILE_MAX, &text, NULL);
	if (r) {
		err_sys(e, r, "%s", file);
		return NULL;
	}
	name = login_initiator_name(text);
	if (!name)
		err_set(e, -EINVAL, "%s has no line InitiatorName=IQN: make one of what "
			"iscsi-iname prints, and restart iscsid", file);
	return name;
}

/* ---- the way ---- */

static int resolve(const char *host, struct login_portal *p, struct err *e)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	int r = getaddrinfo(host, NULL, &hints, &found);

	if (r)
		return err_set(e, -ENOENT, "%s is no address and no host's name: %s",
			       printable(host), gai_strerror(r));
	r = getnameinfo(found->ai_addr, found->ai_addrlen, p->address, sizeof(p->address), NULL, 0,
			NI_NUMERICHOST);
	freeaddrinfo(found);
	return r ? err_set(e, -ENOENT, "%s: %s", printable(host), gai_strerror(r)) : 0;
}

int prepare_portal(const char *word, struct login_portal *p, struct err *e)
{
	CLEANUP_FREE char *host = NULL;
	int r = login_address(word, &host, &p->port, e);

	return r ? r : resolve(host, p, e);
}

static bool same_address(const struct sockaddr *a, const struct sockaddr *b)
{
	if (!a || a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)b)->sin_addr.s_addr;
	return a->sa_family == AF_INET6 &&
	       !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
		       &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr));
}

/* The address that packets to it would come from. */
static int source_of(const char *address, struct sockaddr_storage *from)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST };
	CLEANUP_CLOSE int fd = -1;
	socklen_t len = sizeof(*from);
	struct addrinfo *to;
	char port[8];
	int r;

	snprintf(port, sizeof(port), "%d", DISCARD_PORT);
	if (getaddrinfo(address, port, &hints, &to))
		return -EINVAL;
	fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	r = fd < 0 || connect(fd, to->ai_addr, to->ai_addrlen) ||
	    getsockname(fd, (struct sockaddr *)from, &len) ? -errno : 0;
	freeaddrinfo(to);
	return r;
}

void prepare_netdev(const char *address, char ifname[IF_NAMESIZE])
{
	struct sockaddr_storage from;
	struct ifaddrs *all;

	*ifname = '\0';
	if (source_of(address, &from) || getifaddrs(&all))
		return;
	for (struct ifaddrs *i = all; i && !*ifname; i = i->ifa_next)
		if (same_address(i->ifa_addr, (struct sockaddr *)&from))
			snprintf(ifname, IF_NAMESIZE, "%s", i->ifa_name);
	freeifaddrs(all);
}

/* ---- RDMA ---- */

int prepare_rdma(const struct topo *t, const struct login_list *l, struct err *e)
{
	for (size_t i = 0; i < l->n; i++) {
		const char *address = l->v[i].portal.address;
		char ifname[IF_NAMESIZE], device[RDMA_NAME];

		prepare_netdev(address, ifname);
		if (!*ifname)
			return err_set(e, -ENODEV, "no network interface leads to %s", address);
		if (topo_netdev_rdma(t, ifname, device))
			return err_set(e, -ENODEV, "iSER needs an RDMA device on the way to %s, "
				       "and %s, which leads there, has none; --transport tcp does "
				       "without", address, printable(ifname));
	}
	return 0;
}
