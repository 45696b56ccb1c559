// SPDX-License-Identifier: Apache-2.0
/* Filters of system calls, from lists of names. */
#include "server/jail.h"

#include <errno.h>

#ifdef HAVE_SECCOMP

#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/mman.h>

/* Bytes, time, memory, threads: what everybody needs. */
static const char *const basics[] = {
	"read", "write", "readv", "writev", "recvmsg", "sendmsg", "recvfrom", "sendto",
	"close", "shutdown", "poll", "ppoll", "fcntl", "eventfd2", "socketpair",
	"getsockopt", "setsockopt", "getsockname", "getpeername", "fstat", "newfstatat", "lseek",
	"munmap", "mremap", "madvise", "brk",
	"futex", "set_robust_list", "rseq", "sched_yield", "gettid", "getpid", "tgkill",
	"exit", "exit_group", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack",
	"restart_syscall", "clock_gettime", "clock_nanosleep", "nanosleep", "gettimeofday",
	"getrandom", "getuid", "geteuid", "getgid", "getegid", "prctl", NULL
};

/* Libraries try these and can do without. */
static const char *const useless_to_fronts[] = {
	"open", "openat", "access", "faccessat", "faccessat2", "stat", "lstat", "statx", "readlink",
	"readlinkat", "sysinfo", "uname", "prlimit64", "sched_getaffinity", "socket", "connect",
	"ioctl", NULL
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
	"fremovexattr", "getcwd", "chdir", "fchdir", "umask", "memfd_create", "inotify_init1",
	"inotify_add_watch", "inotify_rm_watch",
	/* descriptors and sockets */
	"dup", "dup2", "dup3", "pipe2", "select", "pselect6", "epoll_create1", "epoll_ctl",
	"epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd", "timerfd_create",
	"timerfd_settime", "timerfd_gettime", "signalfd4", "socket", "bind", "listen", "connect",
	"accept", "accept4", "sendmmsg", "recvmmsg", "ioctl",
	/* memory and its nodes */
	"mlock", "mlock2", "munlock", "mbind", "get_mempolicy", "set_mempolicy", "move_pages",
	"migrate_pages", "mincore", "msync", "membarrier",
	/* io_uring(7) */
	"io_uring_setup", "io_uring_enter", "io_uring_register",
	/* where and how a thread runs */
	"sched_getaffinity", "sched_setaffinity", "sched_getscheduler", "sched_getparam",
	"sched_get_priority_max", "sched_get_priority_min", "getcpu", "getpriority",
	"setpriority", "ioprio_get", "ioprio_set", "set_tid_address",
	/* who and where we are */
	"getresuid", "getresgid", "getgroups", "getppid", "getpgrp", "getrlimit", "setrlimit",
	"prlimit64", "getrusage", "times", "sysinfo", "uname", "clock_getres", "time",
	"rt_sigpending", "rt_sigtimedwait", "rt_sigsuspend", "kill", "alarm", "setitimer",
	"getitimer", "wait4", "waitid", NULL
};

/* Only an attacker would. */
static const char *const deadly[] = {
	"execve", "execveat", "ptrace", "process_vm_readv", "process_vm_writev", "fork", "vfork",
	"setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups",
	"setfsuid", "setfsgid", "capset", "chroot", "pivot_root", "mount", "umount2", "move_mount",
	"open_tree", "fsopen", "fsmount", "fspick", "fsconfig", "mount_setattr", "unshare",
	"setns", "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load",
	"bpf", "perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key",
	"open_by_handle_at", "reboot", "swapon", "swapoff", "sethostname", "setdomainname",
	"settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "iopl", "ioperm",
	"modify_ldt", "personality", "quotactl", "acct", "syslog", "mknod", "mknodat",
	"pidfd_getfd", "pidfd_open", "kcmp", "lookup_dcookie", "nfsservctl", NULL
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

/* Memory is written or run, never both; libibverbs loads the cards' drivers. A new thread, but
 * no new process; what glibc asks for with arguments in memory, which nobody can look into, it
 * asks for otherwise after ENOSYS. */
static int add_looked_at(scmp_filter_ctx f, uint32_t others, bool may_load)
{
	enum { WX = PROT_WRITE | PROT_EXEC };
	int rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
				  SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));

	if (rc == 0 && may_load)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
				      SCMP_A2(SCMP_CMP_MASKED_EQ, WX, PROT_EXEC));
	if (rc == 0)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
				      SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (rc == 0)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				      SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
	/* Nor may a rule say what is said of all others anyway. */
	if (rc == 0 && others != SCMP_ACT_ERRNO(ENOSYS))
		rc = seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	return rc;
}

static int load(scmp_filter_ctx f, int rc, struct err *e)
{
	if (rc == 0)
		rc = seccomp_load(f);
	seccomp_release(f);
	if (rc == -EINVAL || rc == -ENOSYS)
		return err_set(e, -EOPNOTSUPP, "this kernel filters no system calls (seccomp)");
	return rc < 0 ? err_set(e, -EINVAL, "filter of system calls: %s", strerror(-rc)) : 0;
}

/* The sanitizers' own calls are many, and change; tracing is among them. */
static int loosely(scmp_filter_ctx f, uint32_t others)
{
	static const char *const never[] = { "execve", "mount", "setuid", NULL };

	(void)others;
	return add_all(f, SCMP_ACT_KILL_PROCESS, never);
}

static int for_fronts(scmp_filter_ctx f, uint32_t others)
{
	int rc = add_all(f, SCMP_ACT_ALLOW, basics);

	if (rc == 0)
		rc = add_looked_at(f, others, false);
	return rc ? rc : add_all(f, SCMP_ACT_ERRNO(EPERM), useless_to_fronts);
}

static int for_sessions(scmp_filter_ctx f, uint32_t others)
{
	int rc = add_all(f, SCMP_ACT_KILL_PROCESS, deadly);

	if (rc == 0)
		rc = add_all(f, SCMP_ACT_ALLOW, basics);
	if (rc == 0)
		rc = add_all(f, SCMP_ACT_ALLOW, files_and_more);
	return rc ? rc : add_looked_at(f, others, true);
}

static int jail(int (*fill)(scmp_filter_ctx f, uint32_t others), uint32_t others, struct err *e)
{
	scmp_filter_ctx f;

	if (SANITIZED) {
		fill = loosely;
		others = SCMP_ACT_ALLOW;
	}
	f = seccomp_init(others);
	return f ? load(f, fill(f, others), e) : err_sys(e, -ENOMEM, "filter of system calls");
}

int jail_front(struct err *e)
{
	return jail(for_fronts, SCMP_ACT_KILL_PROCESS, e);
}

int jail_session(struct err *e)
{
	return jail(for_sessions, SCMP_ACT_ERRNO(ENOSYS), e);
}

#else

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
