// SPDX-License-Identifier: Apache-2.0
/* Filters of system calls, from lists of names, and from arguments in jail_args.c. */
#include "server/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct refused {
	uint32_t arch;
	long call;
};

#ifdef HAVE_SECCOMP

#include "server/jail_args.h"

#include <sched.h>

/* Bytes, time, memory, threads. Without a vDSO libc asks the kernel for the time and the
 * processor, by one call or another: all of them are here. */
static const char *const basics[] = {
	"read", "write", "readv", "writev", "recvmsg", "sendmsg", "recvfrom", "sendto",
	"close", "shutdown", "poll", "ppoll", "eventfd2",
	"getsockopt", "getsockname", "getpeername", "fstat", "newfstatat", "lseek",
	"munmap", "mremap", "madvise", "brk",
	"futex", "set_robust_list", "rseq", "sched_yield", "gettid", "getpid",
	"exit", "exit_group", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack",
	"restart_syscall", "clock_gettime", "clock_gettime64", "clock_getres",
	"clock_getres_time64", "clock_nanosleep", "clock_nanosleep_time64", "nanosleep",
	"gettimeofday", "time", "getcpu", "futex_time64", "ppoll_time64",
	"getrandom", "getuid", "geteuid", "getgid", "getegid", NULL
};

/* Libraries try these and can do without. */
static const char *const useless_to_fronts[] = {
	"open", "openat", "access", "faccessat", "faccessat2", "stat", "lstat", "statx", "readlink",
	"readlinkat", "sysinfo", "uname", "sched_getaffinity", "membarrier", "socket",
	"connect", "ioctl", NULL
};

/* After ENOSYS libc makes an older call instead. A filter cannot read the arguments of clone3(2),
 * which lie in memory; those of clone(2) it can. */
static const char *const too_new_for_fronts[] = {
	"clone3", "close_range", "futex_waitv", "futex_wait", "futex_wake", "futex_requeue", NULL
};

static const char *const files_and_more[] = {
	/* files */
	"open", "openat", "openat2", "access", "faccessat", "faccessat2", "stat", "lstat", "statx",
	"statfs", "fstatfs", "readlink", "readlinkat", "getdents64", "rename", "renameat",
	"renameat2", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "link", "linkat",
	"symlink", "symlinkat", "chmod", "fchmod", "fchmodat", "chown", "fchown", "fchownat",
	"lchown", "utimensat", "truncate", "ftruncate", "fallocate", "fsync", "fdatasync",
	"sync_file_range", "syncfs", "fadvise64", "readahead", "flock", "pread64", "pwrite64",
	"preadv", "preadv2", "pwritev", "pwritev2", "sendfile", "splice", "tee", "vmsplice",
	"copy_file_range", "getxattr", "lgetxattr", "fgetxattr", "setxattr", "lsetxattr",
	"fsetxattr", "listxattr", "llistxattr", "flistxattr", "removexattr", "lremovexattr",
	"fremovexattr", "getcwd", "chdir", "fchdir", "umask",
	/* descriptors and sockets */
	"dup", "dup2", "dup3", "pipe2", "select", "pselect6", "epoll_create1", "epoll_ctl",
	"epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd", "bind", "listen", "connect",
	"accept", "accept4", "sendmmsg", "recvmmsg",
	/* memory and its nodes */
	"mlock", "mlock2", "munlock", "mbind", "get_mempolicy", "set_mempolicy", "mincore",
	"msync", "membarrier",
	/* io_uring(7) */
	"io_uring_setup", "io_uring_enter", "io_uring_register",
	/* where and how a thread runs */
	"sched_getaffinity", "sched_getscheduler", "sched_getparam", "sched_get_priority_max",
	"sched_get_priority_min", "set_tid_address",
	/* who and where we are */
	"getresuid", "getresgid", "getgroups", "getppid", "getpgrp", "getrlimit", "setrlimit",
	"getrusage", "sysinfo", "uname", "rt_sigpending",
	"rt_sigtimedwait", "rt_sigsuspend", NULL
};

/* Only an attacker would, or a sanitizer, to look at the process that it is in. */
static const char *const deadly_unless_sanitized[] = {
	"ptrace", "process_vm_readv", "process_vm_writev", "fork", "vfork", "personality", NULL
};

/* Only an attacker would. */
static const char *const deadly[] = {
	"execve", "execveat", "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid",
	"setgroups",
	"setfsuid", "setfsgid", "capset", "chroot", "pivot_root", "mount", "umount2", "move_mount",
	"open_tree", "fsopen", "fsmount", "fspick", "fsconfig", "mount_setattr", "unshare",
	"setns", "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load",
	"bpf", "perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key",
	"open_by_handle_at", "reboot", "swapon", "swapoff", "sethostname", "setdomainname",
	"settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "iopl", "ioperm",
	"modify_ldt", "quotactl", "quotactl_fd", "acct", "syslog", "mknod", "mknodat",
	"pidfd_getfd", "pidfd_open", "pidfd_send_signal", "process_madvise", "process_mrelease",
	"kcmp", "lookup_dcookie", "nfsservctl", NULL
};

static int add_all(scmp_filter_ctx f, uint32_t action, const char *const *names)
{
	int rc = 0;

	for (; rc == 0 && *names; names++) {
		int nr = seccomp_syscall_resolve_name(*names);

		/* Not every processor has every call. */
		if (nr != __NR_SCMP_ERROR && nr >= 0)
			rc = seccomp_rule_add(f, action, nr, 0);
	}
	return rc;
}

/* fork(3) is clone(2) on most. */
static int add_deadly(scmp_filter_ctx f)
{
	int rc = add_all(f, SCMP_ACT_KILL_PROCESS, deadly);

	if (rc == 0)
		rc = add_all(f, SCMP_ACT_KILL_PROCESS, deadly_unless_sanitized);
	return rc ? rc : seccomp_rule_add(f, SCMP_ACT_KILL_PROCESS, SCMP_SYS(clone), 1,
					  SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
}

/* Of all threads, should there be some; and calls of another kind, 32 bit ones, are the end, too,
 * for the lists do not know them. */
static int set_attributes(scmp_filter_ctx f)
{
	int rc = seccomp_attr_set(f, SCMP_FLTATR_CTL_TSYNC, 1);

	return rc ? rc : seccomp_attr_set(f, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
}

static int load(scmp_filter_ctx f, int rc, struct err *e)
{
	if (rc == 0)
		rc = set_attributes(f);
	if (rc == 0)
		rc = seccomp_load(f);
	seccomp_release(f);
	if (rc == -EINVAL || rc == -ENOSYS)
		return err_set(e, -EOPNOTSUPP, "this kernel filters no system calls (seccomp)");
	return rc < 0 ? err_set(e, -EINVAL, "filter of system calls: %s", strerror(-rc)) : 0;
}

/* The sanitizers' own calls are many, and change. */
static int loosely(scmp_filter_ctx f)
{
	return add_all(f, SCMP_ACT_KILL_PROCESS, deadly);
}

static int for_fronts(scmp_filter_ctx f)
{
	int rc = add_all(f, SCMP_ACT_ALLOW, basics);

	if (rc == 0)
		rc = jail_args_front(f);
	if (rc == 0)
		rc = add_all(f, SCMP_ACT_ERRNO(ENOSYS), too_new_for_fronts);
	return rc ? rc : add_all(f, SCMP_ACT_ERRNO(EPERM), useless_to_fronts);
}

/* clone3 and other new calls get ENOSYS, as all that is in no list. */
static int for_sessions(scmp_filter_ctx f)
{
	int rc = add_deadly(f);

	if (rc == 0)
		rc = add_all(f, SCMP_ACT_ALLOW, basics);
	if (rc == 0)
		rc = add_all(f, SCMP_ACT_ALLOW, files_and_more);
	return rc ? rc : jail_args_session(f);
}

static int jail(int (*fill)(scmp_filter_ctx f), uint32_t others, struct err *e)
{
	scmp_filter_ctx f;

	if (SANITIZED) {
		fill = loosely;
		others = SCMP_ACT_ALLOW;
	}
	f = seccomp_init(others);
	return f ? load(f, fill(f), e) : err_sys(e, -ENOMEM, "filter of system calls");
}

int jail_front(struct err *e)
{
	return jail(for_fronts, SCMP_ACT_KILL_PROCESS, e);
}

int jail_session(struct err *e)
{
	return jail(for_sessions, SCMP_ACT_ERRNO(ENOSYS), e);
}

static const char *name_of(struct refused r, char out[JAIL_CALL_TEXT])
{
	char *name = seccomp_syscall_resolve_num_arch(r.arch, (int)r.call);

	snprintf(out, JAIL_CALL_TEXT, "%ld (%.40s)", r.call, name ? name : "unknown");
	free(name);
	return out;
}

#else

static const char *name_of(struct refused r, char out[JAIL_CALL_TEXT])
{
	snprintf(out, JAIL_CALL_TEXT, "%ld", r.call);
	return out;
}

static int without(struct err *e)
{
	return err_set(e, -EOPNOTSUPP, "this rftpd was built without libseccomp");
}

int jail_front(struct err *e)
{
	return without(e);
}

int jail_session(struct err *e)
{
	return without(e);
}

#endif

/* ---- calls that were refused ---- */

enum { RECORD_TRIES = 5, RECORD_MS = 2 };

/* Reads r from "...type=1326 ... pid=P ... arch=A syscall=N ..." if P is pid. */
static bool is_of(const char *record, pid_t pid, struct refused *r)
{
	const char *type = strstr(record, "type=1326 "), *p = type ? strstr(type, " pid=") : NULL;
	const char *arch = p ? strstr(p, " arch=") : NULL;
	const char *call = arch ? strstr(arch, " syscall=") : NULL;

	if (!call || strtol(p + 5, NULL, 10) != pid)
		return false;
	r->arch = (uint32_t)strtoul(arch + 6, NULL, 16);
	r->call = strtol(call + 9, NULL, 10);
	return true;
}

/* A read gives one record of kmsg; EPIPE: some were overwritten. The last record counts, because
 * process ids are used again. */
static bool find_call(int kmsg, pid_t pid, struct refused *r)
{
	char record[8192];
	bool found = false;
	ssize_t n;

	while ((n = read(kmsg, record, sizeof(record) - 1)) > 0 ||
	       (n < 0 && (errno == EPIPE || errno == EINTR))) {
		record[n < 0 ? 0 : n] = '\0';
		found = is_of(record, pid, r) || found;
	}
	return found;
}

const char *jail_refused_call(pid_t pid, char out[JAIL_CALL_TEXT])
{
	int kmsg CLEANUP_CLOSE = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	bool found = false;
	struct refused r;

	for (int i = 0; kmsg >= 0 && !found && i < RECORD_TRIES; i++) {
		if (i)
			poll(NULL, 0, RECORD_MS);
		found = find_call(kmsg, pid, &r);
	}
	*out = '\0';
	return found ? name_of(r, out) : out;
}
