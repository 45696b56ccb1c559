// SPDX-License-Identifier: Apache-2.0
/* What changes LIO, as far as it is a program that is told and answers: here a shell script,
 * which does with each request what its "do" says. */
#include "iser_setup/carry.h"
#include "iser_setup/state.h"
#include "iser_setup/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/sysfs.h"

static const char stand_in[] =
	"#!/bin/sh\n"
	"cd \"${0%/*}\" && here=$PWD && cd \"$OLDPWD\"\n"
	"if [ \"$1\" = --check ]; then\n"
	"	[ ! -e \"$here/broken\" ] || { echo first >&2; echo 'rtslib is missing' >&2; exit 1; }\n"
	"	exit 0\n"
	"fi\n"
	"echo $$ >>\"$here/started\"\n"
	"while read -r line; do\n"
	"	echo \"$line\" >>\"$here/heard\"\n"
	"	case $line in\n"
	"	*'\"ok\"'*) echo '{\"ok\": true}' ;;\n"
	"	*'\"error\"'*) printf '%s\\n' '{\"error\": \"no\\u001bspace\"}' ;;\n"
	"	*'\"dies\"'*) echo before >&2; printf 'it hurts\\n\\n' >&2; exit 3 ;;\n"
	"	*'\"killed\"'*) kill -KILL $$ ;;\n"
	"	*'\"nonsense\"'*) echo 'nonsense' ;;\n"
	"	*'\"both\"'*) echo '{\"ok\": true, \"error\": \"x\"}' ;;\n"
	"	*'\"false\"'*) echo '{\"ok\": false}' ;;\n"
	"	*'\"twice\"'*) printf '%s\\n' '{\"ok\": true}' '{\"ok\": true}' ;;\n"
	"	*'\"endless\"'*) tr '\\0' x </dev/zero ;;\n"
	"	*'\"loud\"'*) head -c 300000 /dev/zero >&2; echo '{\"ok\": true}' ;;\n"
	"	*'\"slow\"'*) sleep 0.7; echo >>\"$here/slept\"; echo '{\"ok\": true}' ;;\n"
	"	*'\"hangs\"'*) exec sleep 30 ;;\n"
	"	*'\"parts\"'*) printf '{\"ok\"'; sleep 0.1; echo ': true}' ;;\n"
	"	*'\"deaf\"'*) exec <&-; sleep 0.1; echo '{\"ok\": true}'; sleep 30 ;;\n"
	"	*'\"who\"'*) { tr '\\0' '\\n' </proc/$$/environ; echo; ls -l /proc/$$/fd; readlink "
	"/proc/$$/cwd; cat /proc/$$/stat; } >\"$here/who\"; echo '{\"ok\": true}' ;;\n"
	"	esac\n"
	"done\n"
	"echo >>\"$here/ended\"\n";

static const char numactl[] = "#!/bin/sh\necho \"$*\" >>\"${0%/*}/numactl.args\"\n"
			      "while [ \"${1#--}\" != \"$1\" ]; do shift; done\nexec \"$@\"\n";

static void script(const char *name, const char *text)
{
	tmp_put(name, text);
	assert_int_equal(chmod(tmp_at(name), 0755), 0);
}

static int begin(void **state)
{
	char path[8192];

	if (tmp_setup(state))
		return -1;
	script("hands", stand_in);
	setenv("RFTP_ISER_LIO", tmp_at("hands"), 1);
	setenv("SECRET_THING", "of ours", 1);
	tmp_mkdir("bin");
	snprintf(path, sizeof(path), "%s:%s", tmp_at("bin"), getenv("PATH"));
	return setenv("PATH", path, 1);
}

static int fresh(void **state)
{
	static const char *const traces[] = { "started", "heard", "slept", "ended", "who", "broken" };

	(void)state;
	for (size_t i = 0; i < sizeof(traces) / sizeof(traces[0]); i++)
		unlink(tmp_at(traces[i]));
	return 0;
}

static struct worker *worker(void)
{
	struct err e = ERR_INIT;
	struct worker *w = worker_new(NODE_UNKNOWN, &e);

	assert_string_equal(e.text, "");
	assert_non_null(w);
	return w;
}

static int do_it(struct worker *w, const char *what, struct err *e)
{
	*e = (struct err)ERR_INIT;
	return worker_do(w, json_pack("{s:s}", "do", what), e);
}

static unsigned lines(const char *name)
{
	const char *text = tmp_get(name);
	unsigned n = 0;

	for (const char *p = text; (p = strchr(p, '\n')); p++)
		n++;
	return n;
}

/* ---- answers ---- */

static void test_answers(void **state)
{
	struct worker *w = worker();
	struct err e;

	(void)state;
	/* It was asked whether it could; it is not started before it is to do something. */
	assert_int_equal(lines("started"), 0);
	assert_int_equal(do_it(w, "ok", &e), 0);
	assert_int_equal(do_it(w, "error", &e), -EIO);
	assert_string_equal(e.text, "no\\x1bspace");
	assert_int_equal(do_it(w, "parts", &e), 0);
	assert_int_equal(do_it(w, "loud", &e), 0);
	assert_int_equal(do_it(w, "ok", &e), 0);
	assert_int_equal(lines("started"), 1);
	assert_int_equal(lines("ended"), 0);
	worker_free(w);
	assert_int_equal(lines("ended"), 1);
	worker_free(NULL);
}

static void test_dies(void **state)
{
	struct worker *w = worker();
	struct err e;

	(void)state;
	assert_int_equal(do_it(w, "dies", &e), -EPIPE);
	assert_non_null(strstr(e.text, "has died (status 3): it hurts"));
	/* Another takes its place. */
	assert_int_equal(do_it(w, "ok", &e), 0);
	assert_int_equal(do_it(w, "killed", &e), -EPIPE);
	assert_non_null(strstr(e.text, "has died (signal 9)"));
	assert_int_equal(do_it(w, "ok", &e), 0);
	assert_int_equal(lines("started"), 3);
	worker_free(w);
}

static void test_nonsense(void **state)
{
	static const char *const kinds[] = { "nonsense", "both", "false", "twice", "endless" };
	struct worker *w = worker();
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		assert_int_equal(do_it(w, kinds[i], &e), -EPROTO);
		assert_non_null(strstr(e.text, "no answer"));
		assert_int_equal(do_it(w, "ok", &e), 0);
		assert_int_equal(lines("started"), i + 2);
	}
	worker_free(w);
}

/* One that has closed its input is not waited for when there is more to say than fits. */
static void test_long(void **state)
{
	char *text = calloc(1, WORKER_LINE_MAX + 1);
	struct worker *w = worker();
	struct err e = ERR_INIT;

	(void)state;
	memset(text, 'x', WORKER_LINE_MAX);
	assert_int_equal(worker_do(w, json_pack("{s:s, s:s}", "do", "ok", "x", text), &e),
			 -EMSGSIZE);
	assert_int_equal(lines("started"), 0);
	text[WORKER_LINE_MAX - 100] = '\0';
	assert_int_equal(worker_do(w, json_pack("{s:s, s:s}", "do", "ok", "x", text), &e), 0);
	assert_int_equal(do_it(w, "deaf", &e), 0);
	e = (struct err)ERR_INIT;
	assert_int_equal(worker_do(w, json_pack("{s:s, s:s}", "do", "ok", "x", text), &e), -EPIPE);
	free(text);
	worker_free(w);
}

/* The worker with all that it has started; -0 would be ourselves. */
static void kill_started(void)
{
	const int pid = atoi(tmp_get("started"));

	assert_true(pid > 1);
	assert_int_equal(kill(-pid, SIGKILL), 0);
}

static void test_hangs(void **state)
{
	struct worker *w;
	struct err e;
	uint64_t start = now_ns();

	(void)state;
	setenv("RFTP_ISER_LIMIT", "1", 1);
	w = worker();
	unsetenv("RFTP_ISER_LIMIT");
	assert_int_equal(do_it(w, "hangs", &e), -ETIMEDOUT);
	assert_non_null(strstr(e.text, "has not answered for 1 s"));
	/* What it does, it may still be doing. */
	assert_int_equal(do_it(w, "ok", &e), -ETIMEDOUT);
	assert_non_null(strstr(e.text, "still busy"));
	worker_free(w);
	assert_true(now_ns() - start < 20000000000ull);
	kill_started();
}

/* ---- what it is given ---- */

static void test_surroundings(void **state)
{
	FILE *ours = fopen(tmp_at("hands"), "r"); /* open on purpose, and to be inherited */
	struct worker *w = worker();
	char text[8192] = "";
	struct err e;
	int fd, pid, parent, group, session;

	(void)state;
	assert_non_null(ours);
	assert_int_equal(do_it(w, "who", &e), 0);
	fd = open(tmp_at("who"), O_RDONLY | O_CLOEXEC);
	assert_true(read_full(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	assert_null(strstr(text, "SECRET_THING"));
	assert_non_null(strstr(text, "PATH="));
	/* The shell has its script open, above 9. */
	assert_null(strstr(text, " 3 -> "));
	assert_null(strstr(text, " 4 -> "));
	assert_non_null(strstr(text, " 2 -> pipe:"));
	assert_non_null(strstr(text, "\n/\n"));
	assert_int_equal(sscanf(strstr(text, "\n/\n") + 3, "%d (%*[^)]) %*c %d %d %d", &pid, &parent,
				&group, &session), 4);
	assert_int_equal(parent, getpid());
	assert_int_equal(group, pid);
	assert_int_equal(session, pid);
	fclose(ours);
	worker_free(w);
}

/* Secrets are in no argument; it has heard them. */
static void test_secret(void **state)
{
	char text[256] = "", path[64];
	struct worker *w = worker();
	struct err e = ERR_INIT;
	int fd;

	(void)state;
	assert_int_equal(worker_do(w, json_pack("{s:s, s:s}", "do", "ok", "secret", "abc12345"), &e),
			 0);
	assert_non_null(strstr(tmp_get("heard"), "abc12345"));
	snprintf(path, sizeof(path), "/proc/%d/cmdline", atoi(tmp_get("started")));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(read_full(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	for (size_t i = 0; i + 8 < sizeof(text); i++)
		assert_memory_not_equal(text + i, "abc12345", 8);
	worker_free(w);
}

static void test_node(void **state)
{
	char want[3 * sizeof(tmp_dir)];
	struct worker *w;
	struct err e = ERR_INIT;

	(void)state;
	script("bin/numactl", numactl);
	setenv("RFTP_SYSFS", sysfs_make("four"), 1);
	w = worker_new(3, &e);
	assert_non_null(w);
	assert_int_equal(do_it(w, "ok", &e), 0);
	worker_free(w);
	snprintf(want, sizeof(want), "--membind=3 --cpunodebind=3 %s/hands --check\n"
		 "--membind=3 --cpunodebind=3 %s/hands\n", tmp_dir, tmp_dir);
	assert_string_equal(tmp_get("bin/numactl.args"), want);
	/* Memory and no CPUs. */
	unlink(tmp_at("bin/numactl.args"));
	w = worker_new(4, &e);
	assert_non_null(w);
	worker_free(w);
	snprintf(want, sizeof(want), "--membind=4 %s/hands --check\n", tmp_dir);
	assert_string_equal(tmp_get("bin/numactl.args"), want);
	unsetenv("RFTP_SYSFS");
	unlink(tmp_at("bin/numactl"));
}

static void cannot(int node, int code, const char *why)
{
	struct err e = ERR_INIT;

	assert_null(worker_new(node, &e));
	assert_int_equal(e.code, code);
	if (!strstr(e.text, why))
		print_message("%s\n", e.text);
	assert_non_null(strstr(e.text, why));
	assert_null(strchr(e.text, '\n'));
}

static void test_missing(void **state)
{
	char *path = strdup(getenv("PATH"));

	(void)state;
	tmp_put("broken", "");
	cannot(NODE_UNKNOWN, -ENOENT, "rtslib is missing");
	unlink(tmp_at("broken"));
	setenv("PATH", tmp_at("bin"), 1);
	cannot(0, -ENOENT, "numactl");
	setenv("PATH", path, 1);
	free(path);
	setenv("RFTP_ISER_LIO", tmp_at("none"), 1);
	cannot(NODE_UNKNOWN, -ENOENT, "none, which changes LIO: No such file");
	script("odd", "#!/no/python3\n");
	setenv("RFTP_ISER_LIO", tmp_at("odd"), 1);
	cannot(NODE_UNKNOWN, -ENOENT, "python3");
	setenv("RFTP_ISER_LIO", tmp_at("hands"), 1);
}

/* ---- signals ---- */

static volatile sig_atomic_t alarms;

static void on_alarm(int sig)
{
	(void)sig;
	alarms++;
}

/* One that is handled comes in the middle of a request, which goes on; and no SIGPIPE ends us. */
static void test_signals(void **state)
{
	const struct itimerval soon = { { 0, 20000 }, { 0, 20000 } }, never = { { 0, 0 }, { 0, 0 } };
	struct sigaction a = { .sa_handler = on_alarm };
	struct worker *w = worker();
	struct err e;

	(void)state;
	signal(SIGPIPE, SIG_DFL);
	sigaction(SIGALRM, &a, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	assert_int_equal(do_it(w, "slow", &e), 0);
	setitimer(ITIMER_REAL, &never, NULL);
	assert_true(alarms > 2);
	assert_int_equal(lines("slept"), 1);
	kill_started();
	assert_int_equal(do_it(w, "ok", &e), -EPIPE);
	assert_int_equal(do_it(w, "ok", &e), 0);
	worker_free(w);
}

/* A process with a worker, which holds the state for it if that is asked for, is ended by a signal
 * in the middle of a request. */
static void ended_at_work(bool holds)
{
	struct iser_state s;
	struct err e = ERR_INIT;
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		struct worker *w = worker_new(NODE_UNKNOWN, &e);

		if (!w || (holds && iser_state_open(&s, tmp_at("state"), "p",
						    &(struct lock_wait){ .seconds = 5 }, &e)))
			_exit(1);
		if (holds)
			worker_hold(w, s.lock);
		if (do_it(w, "ok", &e))
			_exit(1);
		signal(SIGALRM, SIG_DFL);
		setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 0 }, { 0, 100000 } }, NULL);
		_exit(do_it(w, "slow", &e) ? 2 : 3);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
}

/* It is done all the same, and then it ends, too. */
static void test_we_die(void **state)
{
	(void)state;
	ended_at_work(false);
	for (int i = 0; i < 1000 && lines("slept") == 0; i++)
		usleep(10000);
	assert_int_equal(lines("slept"), 1);
	for (int i = 0; i < 1000 && !kill(atoi(tmp_get("started")), 0); i++)
		usleep(10000);
	assert_int_equal(kill(atoi(tmp_get("started")), 0), -1);
}

/* What it holds for us is held until that is done. */
static void test_holds(void **state)
{
	struct iser_state s;
	struct err e = ERR_INIT;

	(void)state;
	ended_at_work(true);
	assert_int_equal(lines("slept"), 0);
	assert_int_equal(iser_state_open(&s, tmp_at("state"), "p", &(struct lock_wait){ .seconds = 5 }, &e), 0);
	assert_int_equal(lines("slept"), 1);
	iser_state_close(&s);
}

/* Whoever was started without a standard input, output or error has its first file there. */
static void test_holds_low(void **state)
{
	(void)state;
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		int own CLEANUP_CLOSE = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		int held CLEANUP_CLOSE = open(tmp_at("held"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		CLEANUP_FREE char *who = NULL;
		struct worker *w = worker();
		struct err e;
		int r;

		assert_true(own >= 0 && held >= 0 && dup3(held, fd, O_CLOEXEC) == fd);
		worker_hold(w, fd);
		r = do_it(w, "who", &e);
		assert_int_equal(dup2(own, fd), fd);
		assert_int_equal(r, 0);
		assert_int_equal(read_file(tmp_at("who"), 65536, &who, NULL), 0);
		assert_non_null(strstr(who, tmp_at("held")));
		worker_free(w);
	}
}

static void say(void *arg, const char *line)
{
	(void)arg;
	(void)line;
}

/* What may still come is not as good as taken back. */
static void test_may_come(void **state)
{
	static const struct {
		const char *what;
		int code;
		size_t left;
	} table[] = { { "killed", -EPIPE, 0 }, { "hangs", -ETIMEDOUT, 1 } };

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct iser_step step = { .text = (char *)"a step", .node = NODE_UNKNOWN,
					  .request = json_pack("{s:s}", "do", table[i].what),
					  .undo = json_pack("{s:s}", "do", "error") };
		const struct iser_steps steps = { .v = &step, .n = 1 };
		struct carry c = { .say = say, .hold = -1 };
		struct lines left CLEANUP_LINES = { 0 };
		struct err e = ERR_INIT;
		size_t done;

		unlink(tmp_at("started"));
		setenv("RFTP_ISER_LIMIT", "1", 1);
		assert_int_equal(carry_out(&c, &steps, &done, &e), table[i].code);
		assert_int_equal(done, 0);
		carry_back(&c, &steps, done, true, &left);
		unsetenv("RFTP_ISER_LIMIT");
		assert_int_equal(left.n, table[i].left);
		carry_end(&c);
		json_decref(step.request);
		json_decref(step.undo);
	}
	kill_started();
}

/* A ramdisk's memory is of one node, too, but there is no file to look at. */
static void test_no_file(void **state)
{
	struct iser_step step = { .text = (char *)"a ramdisk", .node = NODE_UNKNOWN,
				  .strictly = true,
				  .request = json_pack("{s:s, s:s}", "do", "ok", "path", "") };
	const struct iser_steps steps = { .v = &step, .n = 1 };
	struct carry c = { .say = say, .hold = -1 };
	struct err e = ERR_INIT;
	size_t done;

	(void)state;
	if (carry_out(&c, &steps, &done, &e))
		fail_msg("%s", e.text);
	assert_int_equal(done, 1);
	carry_end(&c);
	json_decref(step.request);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_answers, fresh), cmocka_unit_test_setup(test_dies, fresh),
		cmocka_unit_test_setup(test_nonsense, fresh), cmocka_unit_test_setup(test_long, fresh),
		cmocka_unit_test_setup(test_hangs, fresh),
		cmocka_unit_test_setup(test_no_file, fresh),
		cmocka_unit_test_setup(test_surroundings, fresh),
		cmocka_unit_test_setup(test_secret, fresh), cmocka_unit_test_setup(test_node, fresh),
		cmocka_unit_test_setup(test_missing, fresh), cmocka_unit_test_setup(test_signals, fresh),
		cmocka_unit_test_setup(test_we_die, fresh), cmocka_unit_test_setup(test_holds, fresh),
		cmocka_unit_test_setup(test_holds_low, fresh),
		cmocka_unit_test_setup(test_may_come, fresh),
	};

	return cmocka_run_group_tests(tests, begin, tmp_teardown);
}
