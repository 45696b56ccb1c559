// SPDX-License-Identifier: Apache-2.0
/* Filters by arguments. Only numbers can be looked at: what a pointer leads to can change between
 * the look and the call. */

#ifdef HAVE_SECCOMP

#include "server/jail_args.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41 /* since Linux 5.17: a name for memory, of glibc's malloc */
#endif
/* RDMA_VERBS_IOCTL, all of the verbs: <rdma/...> is src/rdma's. */
#define VERBS_REQUEST 0xc0181b01
#define TYPE_MASK 0xf /* of a socket: without SOCK_CLOEXEC and SOCK_NONBLOCK */

/* Of a pthread; the second only musl gives. Not any more: no namespaces, no tracer. */
#define THREAD_FLAGS                                                                            \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |      \
	 CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | CLONE_DETACHED)

/* Bits of argument n. The kernel takes these for ints, whatever is in the upper half. */
#define BITS(n, mask, value) { n, SCMP_CMP_MASKED_EQ, (uint32_t)(mask), (uint32_t)(value) }
#define INT(n, value) BITS(n, 0xffffffff, value)
#define NOTHING(n) { n, SCMP_CMP_EQ, 0, 0 }

/* A call is allowed when all that is said of its arguments is so, in any of its lines. */
struct line {
	const char *call;
	struct scmp_arg_cmp args[3];
	unsigned n;
};

#define ONE(...) { __VA_ARGS__ }, 1
#define TWO(...) { __VA_ARGS__ }, 2
#define THREE(...) { __VA_ARGS__ }, 3

static const struct line for_both[] = {
	/* Memory is written or run, never both. */
	{ "mmap", ONE(BITS(2, PROT_EXEC, 0)) },
	{ "mprotect", ONE(BITS(2, PROT_EXEC, 0)) },
	/* A thread, no process. */
	{ "clone", ONE({ 0, SCMP_CMP_MASKED_EQ, ~(uint64_t)THREAD_FLAGS | CLONE_THREAD,
			 CLONE_THREAD }) },
	/* No signals or leases for what others do with a descriptor, no locks, no seals. */
	{ "fcntl", ONE(INT(1, F_GETFD)) },
	{ "fcntl", ONE(INT(1, F_SETFD)) },
	{ "fcntl", ONE(INT(1, F_GETFL)) },
	{ "fcntl", ONE(INT(1, F_SETFL)) },
	{ "fcntl", ONE(INT(1, F_DUPFD_CLOEXEC)) },
	{ "prctl", ONE(INT(0, PR_SET_NAME)) },
	{ "prctl", ONE(INT(0, PR_GET_NAME)) },
	{ "prctl", ONE(INT(0, PR_GET_DUMPABLE)) },
	{ "prctl", ONE(INT(0, PR_SET_VMA)) },
	{ "socketpair", ONE(INT(0, AF_UNIX)) },
	{ "setsockopt", TWO(INT(1, SOL_SOCKET), INT(2, SO_OOBINLINE)) },
	{ "setsockopt", TWO(INT(1, SOL_SOCKET), INT(2, SO_KEEPALIVE)) },
	{ "setsockopt", TWO(INT(1, IPPROTO_TCP), INT(2, TCP_NODELAY)) },
};

static const struct line for_session[] = {
	/* libibverbs loads the cards' drivers. */
	{ "mmap", ONE(BITS(2, PROT_WRITE | PROT_EXEC, PROT_EXEC)) },
	{ "fcntl", ONE(INT(1, F_DUPFD)) },
	/* Its own limits, threads and pages. */
	{ "prlimit64", ONE(INT(0, 0)) },
	{ "sched_setaffinity", ONE(INT(0, 0)) },
	{ "move_pages", ONE(INT(0, 0)) },
	/* Where a file is on its disk, what waits in a socket, the name of a card; whether what
	 * the log goes to is a terminal, to which nothing else can be said. */
	{ "ioctl", ONE(INT(1, VERBS_REQUEST)) },
	{ "ioctl", ONE(INT(1, FS_IOC_FIEMAP)) },
	{ "ioctl", ONE(INT(1, FIONREAD)) },
	{ "ioctl", ONE(INT(1, SIOCGIFNAME)) },
	{ "ioctl", ONE(INT(1, SIOCGIFINDEX)) },
	{ "ioctl", ONE(INT(1, TCGETS)) },
	/* Names of users and hosts may be asked for by AF_UNIX; cards and routes are by netlink. */
	{ "socket", ONE(INT(0, AF_UNIX)) },
	{ "socket", THREE(INT(0, AF_INET), BITS(1, TYPE_MASK, SOCK_STREAM), INT(2, 0)) },
	{ "socket", THREE(INT(0, AF_INET), BITS(1, TYPE_MASK, SOCK_STREAM), INT(2, IPPROTO_TCP)) },
	{ "socket", THREE(INT(0, AF_INET), BITS(1, TYPE_MASK, SOCK_DGRAM), INT(2, 0)) },
	{ "socket", THREE(INT(0, AF_INET), BITS(1, TYPE_MASK, SOCK_DGRAM), INT(2, IPPROTO_UDP)) },
	{ "socket", THREE(INT(0, AF_INET6), BITS(1, TYPE_MASK, SOCK_STREAM), INT(2, 0)) },
	{ "socket", THREE(INT(0, AF_INET6), BITS(1, TYPE_MASK, SOCK_STREAM), INT(2, IPPROTO_TCP)) },
	{ "socket", THREE(INT(0, AF_INET6), BITS(1, TYPE_MASK, SOCK_DGRAM), INT(2, 0)) },
	{ "socket", THREE(INT(0, AF_INET6), BITS(1, TYPE_MASK, SOCK_DGRAM), INT(2, IPPROTO_UDP)) },
	{ "socket", TWO(INT(0, AF_NETLINK), INT(2, NETLINK_ROUTE)) },
	{ "socket", TWO(INT(0, AF_NETLINK), INT(2, NETLINK_RDMA)) },
	{ "setsockopt", TWO(INT(1, SOL_SOCKET), INT(2, SO_REUSEADDR)) },
	{ "setsockopt", TWO(INT(1, SOL_SOCKET), INT(2, SO_SNDBUF)) },
	{ "setsockopt", TWO(INT(1, SOL_SOCKET), INT(2, SO_RCVBUF)) },
	{ "setsockopt", TWO(INT(1, SOL_SOCKET), INT(2, SO_LINGER)) },
	{ "setsockopt", TWO(INT(1, SOL_SOCKET), INT(2, SO_MAX_PACING_RATE)) },
	{ "setsockopt", TWO(INT(1, SOL_SOCKET), INT(2, SO_RCVTIMEO)) },
	{ "setsockopt", TWO(INT(1, SOL_SOCKET), INT(2, SO_SNDTIMEO)) },
	{ "setsockopt", TWO(INT(1, SOL_SOCKET), INT(2, SO_PASSCRED)) },
	{ "setsockopt", TWO(INT(1, IPPROTO_TCP), INT(2, TCP_KEEPIDLE)) },
	{ "setsockopt", TWO(INT(1, IPPROTO_TCP), INT(2, TCP_KEEPINTVL)) },
	{ "setsockopt", TWO(INT(1, IPPROTO_TCP), INT(2, TCP_KEEPCNT)) },
	{ "setsockopt", TWO(INT(1, IPPROTO_TCP), INT(2, TCP_USER_TIMEOUT)) },
	{ "setsockopt", TWO(INT(1, IPPROTO_TCP), INT(2, TCP_CONGESTION)) },
	/* the last is the resolver's */
	{ "setsockopt", TWO(INT(1, IPPROTO_IP), INT(2, IP_TOS)) },
	{ "setsockopt", TWO(INT(1, IPPROTO_IP), INT(2, IP_MTU_DISCOVER)) },
	{ "setsockopt", TWO(INT(1, IPPROTO_IP), INT(2, IP_RECVERR)) },
	{ "setsockopt", TWO(INT(1, IPPROTO_IPV6), INT(2, IPV6_V6ONLY)) },
	{ "setsockopt", TWO(INT(1, IPPROTO_IPV6), INT(2, IPV6_TCLASS)) },
	{ "setsockopt", TWO(INT(1, IPPROTO_IPV6), INT(2, IPV6_RECVERR)) },
	{ "setsockopt", ONE(INT(1, SOL_NETLINK)) },
};

static int allow(scmp_filter_ctx f, const struct line *l)
{
	int nr = seccomp_syscall_resolve_name(l->call);

	/* Not every processor has every call. */
	if (nr == __NR_SCMP_ERROR || nr < 0)
		return 0;
	return seccomp_rule_add_array(f, SCMP_ACT_ALLOW, nr, l->n, l->args);
}

static int allow_all(scmp_filter_ctx f, const struct line *l, size_t n)
{
	int rc = 0;

	for (; rc == 0 && n; n--)
		rc = allow(f, l++);
	return rc;
}

/* raise(3) and abort(3) send signals by the first, kill(2) is used with getpid() only. */
static int allow_to_itself(scmp_filter_ctx f)
{
	const struct line lines[] = {
		{ "tgkill", ONE(INT(0, getpid())) },
		{ "kill", ONE(INT(0, getpid())) },
		{ "prlimit64", TWO(INT(0, getpid()), NOTHING(2)) },
	};

	return allow_all(f, lines, sizeof(lines) / sizeof(lines[0]));
}

int jail_args_front(scmp_filter_ctx f)
{
	static const struct line own_limits = { "prlimit64", TWO(INT(0, 0), NOTHING(2)) };
	int rc = allow_all(f, for_both, sizeof(for_both) / sizeof(for_both[0]));

	if (rc == 0)
		rc = allow_to_itself(f);
	return rc ? rc : allow(f, &own_limits);
}

int jail_args_session(scmp_filter_ctx f)
{
	int rc = allow_all(f, for_both, sizeof(for_both) / sizeof(for_both[0]));

	if (rc == 0)
		rc = allow_all(f, for_session, sizeof(for_session) / sizeof(for_session[0]));
	return rc ? rc : allow_to_itself(f);
}

#endif
