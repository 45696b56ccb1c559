// SPDX-License-Identifier: Apache-2.0
/* Binds memory and threads to nodes, counts pages by node, and finds the interface of a route. */
#include "numa/topo.h"

#include <arpa/inet.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>

#ifdef HAVE_NUMA
#include <numaif.h>
#else
#include <linux/mempolicy.h>

/* Without libnuma every call fails. */
static long without_numa(void)
{
	errno = ENOSYS;
	return -1;
}

#define mbind(base, bytes, mode, mask, max, flags) \
	((void)(base), (void)(bytes), (void)(mode), (void)(mask), without_numa())
#define get_mempolicy(mode, mask, max, at, flags) ((void)(mode), (void)(mask), without_numa())
#define set_mempolicy(mode, mask, max) ((void)(mode), (void)(mask), without_numa())
#define move_pages(pid, n, at, nodes, status, flags) \
	((void)(n), (void)(at), (void)(status), without_numa())
#endif

#define NODES_MAX (NODE_MOST + 1u)
#define LOOK_AT 262144u  /* maximum number of pages of a region that are checked */
#define CHUNK 1024u      /* pages in one call */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* ---- memory ---- */

int place_memory(void *base, size_t bytes, int node, bool strict)
{
	unsigned long mask[NODES_MAX / (8 * sizeof(long))] = { 0 };
	const unsigned bits = 8 * sizeof(long);

	if (node < 0 || (unsigned)node >= NODES_MAX)
		return -EINVAL;
	mask[(unsigned)node / bits] = 1ul << (unsigned)node % bits;

	/* The kernel uses one bit fewer than the given maximum. */
	return mbind(base, bytes, strict ? MPOL_BIND : MPOL_PREFERRED, mask, NODES_MAX + 1, 0) ?
	       -errno : 0;
}

void place_anywhere(void *base, size_t bytes)
{
	(void)mbind(base, bytes, MPOL_DEFAULT, NULL, 0, 0);
}

void place_prefer(int node, struct place_policy *old)
{
	struct place_policy p = { .mode = MPOL_PREFERRED };
	const unsigned bits = 8 * sizeof(long);

	old->mode = -1;
	if (node < 0 || (unsigned)node >= NODES_MAX ||
	    get_mempolicy(&old->mode, old->nodes, NODES_MAX + 1, NULL, 0)) {
		old->mode = -1;
		return;
	}
	p.nodes[(unsigned)node / bits] = 1ul << (unsigned)node % bits;
	(void)set_mempolicy(p.mode, p.nodes, NODES_MAX + 1);
}

void place_back(const struct place_policy *old)
{
	if (old->mode >= 0)
		(void)set_mempolicy(old->mode, old->nodes, NODES_MAX + 1);
}

int place_count(const void *base, size_t bytes, int node, struct place_count *c)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page;
	size_t step = (pages + LOOK_AT - 1) / LOOK_AT;
	void *at[CHUNK];
	int status[CHUNK];

	*c = (struct place_count){ 0 };
	for (size_t i = 0; i < pages;) {
		size_t first = i, n = 0;

		for (; n < CHUNK && i < pages; i += step)
			at[n++] = (char *)(uintptr_t)base + i * page;
		/* Without a list of nodes move_pages() only reports where the pages are. */
		if (move_pages(0, n, at, NULL, status, 0))
			return -errno;
		for (size_t k = 0; k < n; k++) {
			size_t from = (first + k * step) * page, len = step * page;

			len = len < bytes - from ? len : bytes - from;
			if (status[k] == node)
				c->there += len;
			else if (status[k] >= 0)
				c->elsewhere += len;
			else
				c->untouched += len; /* -ENOENT, or the zero page */
		}
	}

	return 0;
}

int place_may_have(int node)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int r = p == MAP_FAILED ? -errno : place_memory(p, page, node, true);

	if (p != MAP_FAILED)
		munmap(p, page);
	return r;
}

int place_fault_in(void *base, size_t bytes)
{
	return madvise(base, bytes, MADV_POPULATE_WRITE) ? -errno : 0;
}

/* ---- threads ---- */

_Static_assert(sizeof(struct ids) * 8 == IDS_MAX, "a set is a bit for each");

/* The kernel's masks are arrays of long, struct ids is an array of uint64_t. Both have the same
 * bytes on 64-bit and on little-endian machines. */
int place_cpus(struct ids *cpus)
{
	memset(cpus, 0, sizeof(*cpus));
	return sched_getaffinity(0, sizeof(*cpus), (cpu_set_t *)cpus) < 0 ? -errno : 0;
}

int place_thread(const struct ids *cpus)
{
	struct ids allowed;
	int r = place_cpus(&allowed);

	if (r)
		return r;
	ids_intersect(&allowed, cpus);
	if (!ids_count(&allowed))
		return -EINVAL;
	return sched_setaffinity(0, sizeof(allowed), (const cpu_set_t *)&allowed) < 0 ? -errno : 0;
}

void place_self(const struct ids *cpus)
{
	char text[64];
	int r = ids_count(cpus) ? place_thread(cpus) : 0;

	if (r)
		log_warn("a thread cannot be put on CPUs %s: %s",
			 ids_format(text, sizeof(text), cpus), strerror(-r));
}

/* ---- routes ---- */

#define ANSWER_MAX 8192 /* the kernel's answer for one route has a few hundred bytes */

struct question {
	struct nlmsghdr head;
	struct rtmsg route;
	struct rtattr attr;
	unsigned char address[sizeof(struct in6_addr)];
};

/* Build the netlink request for the route to address. 0; -EINVAL: not an address. */
static int ask_for(struct question *q, const char *address)
{
	size_t bytes = sizeof(struct in_addr);

	*q = (struct question){ .route.rtm_family = AF_INET };
	if (inet_pton(AF_INET, address, q->address) != 1) {
		if (inet_pton(AF_INET6, address, q->address) != 1)
			return -EINVAL;
		q->route.rtm_family = AF_INET6;
		bytes = sizeof(struct in6_addr);
	}
	q->route.rtm_dst_len = (unsigned char)(bytes * 8);
	q->attr.rta_type = RTA_DST;
	q->attr.rta_len = (unsigned short)RTA_LENGTH(bytes);
	q->head.nlmsg_type = RTM_GETROUTE;
	q->head.nlmsg_flags = NLM_F_REQUEST;
	q->head.nlmsg_len = (uint32_t)(NLMSG_LENGTH(sizeof(q->route)) + q->attr.rta_len);
	return 0;
}

/* The interface index in an answer; or a negative errno. */
static int interface_in(const struct nlmsghdr *head, size_t bytes)
{
	const struct rtmsg *route = NLMSG_DATA(head);
	const struct nlmsgerr *error = NLMSG_DATA(head);
	const struct rtattr *attr = RTM_RTA(route);
	int left;

	if (!NLMSG_OK(head, bytes))
		return -EBADMSG;
	if (head->nlmsg_type == NLMSG_ERROR && NLMSG_PAYLOAD(head, 0) >= sizeof(*error))
		return error->error;
	if (head->nlmsg_type != RTM_NEWROUTE || NLMSG_PAYLOAD(head, 0) < sizeof(*route))
		return -EBADMSG;
	for (left = (int)RTM_PAYLOAD(head); RTA_OK(attr, left); attr = RTA_NEXT(attr, left))
		if (attr->rta_type == RTA_OIF && RTA_PAYLOAD(attr) == sizeof(int))
			return *(const int *)RTA_DATA(attr);
	return -ENODEV;
}

int route_netdev(const char *address, char ifname[IF_NAMESIZE])
{
	CLEANUP_CLOSE int fd = -1;
	union {
		struct nlmsghdr head;
		char bytes[ANSWER_MAX];
	} answer;
	struct question q;
	ssize_t n;
	int r = ask_for(&q, address);

	ifname[0] = '\0';
	if (r)
		return r;
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0 || send(fd, &q, q.head.nlmsg_len, 0) < 0)
		return -errno;
	n = recv(fd, &answer, sizeof(answer), 0);
	if (n < 0)
		return -errno;
	r = interface_in(&answer.head, (size_t)n);
	if (r <= 0)
		return r ? r : -ENODEV;
	return if_indextoname((unsigned)r, ifname) ? 0 : -errno;
}
