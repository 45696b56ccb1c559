// SPDX-License-Identifier: Apache-2.0
/* Handles: options, the connection, the end of a call by time or by another thread, and errors. */
#include "api/api.h"

#include <poll.h>
#include <sys/timerfd.h>

#define NS 1000000000L

const char *rftp_version(void)
{
	return PACKAGE_VERSION;
}

/* ---- the answers to the engine ---- */

static int env_stop_fd(void *arg)
{
	const struct rftp *r = arg;

	return r->lead->timer;
}

static bool env_stopped(void *arg)
{
	const struct rftp *r = arg;

	return poll_fd(r->lead->timer, POLLIN, 0) > 0;
}

static void env_stoppable(void *arg, bool on)
{
	(void)arg; /* a call can be stopped at any time */
	(void)on;
}

static bool env_trusts(void *arg, const char *name, const char *pin)
{
	const struct rftp *r = arg;

	return r->trust && r->trust(r->trust_arg, name, pin);
}

/* umask(2) would change it for all threads. */
static mode_t env_umask(void *arg)
{
	CLEANUP_FREE char *text = NULL;
	const char *at;

	(void)arg;
	if (read_file("/proc/self/status", 1 << 16, &text, NULL))
		return 022;
	at = strstr(text, "\nUmask:");
	return at ? (mode_t)strtoul(at + strlen("\nUmask:"), NULL, 8) & 0777 : 022;
}

/* ---- a handle ---- */

struct rftp *rftp_new(void)
{
	struct rftp *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	r->path = strdup("");
	options_default(&r->before);
	r->before.ssh = strdup("ssh -oBatchMode=yes"); /* ssh must not ask, either */
	if (r->timer < 0 || !r->path || !r->before.ssh) {
		cleanup_close(&r->timer);
		options_clear(&r->before);
		free(r->path);
		free(r);
		return NULL;
	}
	pthread_mutex_init(&r->lock, NULL);
	r->lead = r;
	r->env = (struct engine_env){
		.stop_fd = env_stop_fd, .stopped = env_stopped, .stoppable = env_stoppable,
		.trusts = env_trusts, .umask = env_umask, .silent = true, .arg = r,
	};
	return r;
}

static void password_forget(struct rftp *r)
{
	if (r->password)
		explicit_bzero(r->password, strlen(r->password));
	free(steal_ptr(&r->password));
}

void rftp_free(struct rftp *r)
{
	if (!r)
		return;
	server_free(r->server);
	options_clear(&r->before);
	password_forget(r);
	pthread_mutex_destroy(&r->lock);
	close(r->timer);
	free(r->path);
	free(r);
}

int rftp_set(struct rftp *r, const char *option, const char *value)
{
	struct option_target t = options_target(r->server ? &r->server->o : &r->before);

	r->error = (struct err)ERR_INIT;
	return option_set_key(&t, option, value, 1, &r->error);
}

int rftp_set_password(struct rftp *r, const char *password)
{
	char *copy = password ? strdup(password) : NULL;

	if (password && !copy)
		return -ENOMEM;
	password_forget(r);
	r->password = copy;
	return 0;
}

void rftp_set_trust(struct rftp *r, rftp_trust_fn *fn, void *arg)
{
	r->trust = fn;
	r->trust_arg = arg;
}

void rftp_set_timeout(struct rftp *r, unsigned ms)
{
	r->timeout_ms = ms;
}

const char *rftp_path(const struct rftp *r)
{
	return r->path;
}

const char *rftp_error(const struct rftp *r)
{
	return r->error.text;
}

/* ---- the end of a call ---- */

/* After ms milliseconds; 0: never. */
static void timer_set(int timer, unsigned ms)
{
	struct itimerspec at = { .it_value = { .tv_sec = ms / 1000,
					       .tv_nsec = (long)(ms % 1000) * (NS / 1000) } };

	timerfd_settime(timer, 0, &at, NULL);
}

void rftp_cancel(struct rftp *r)
{
	static const struct itimerspec now = { .it_value = { .tv_nsec = 1 } };
	LOCK_GUARD(guard, &r->lock);

	r->cancelled = true;
	timerfd_settime(r->timer, 0, &now, NULL);
}

void rftp_uncancel(struct rftp *r)
{
	LOCK_GUARD(guard, &r->lock);

	r->cancelled = false;
	timer_set(r->timer, 0);
}

/* Begin a call: its time runs from now on. 0; -EINTR: it is cancelled. */
static int call_start(struct rftp *r)
{
	LOCK_GUARD(guard, &r->lock);

	r->error = (struct err)ERR_INIT;
	if (r->cancelled)
		return err_set(&r->error, -EINTR, "interrupted");
	timer_set(r->timer, r->timeout_ms);
	return 0;
}

/* The errno for the caller of the library, of an error rc of the engine. */
static int code_for_caller(int rc)
{
	static const int lost[] = { -EPIPE, -ECONNRESET, -ECONNABORTED, -ENOTCONN, -EPROTO,
				    -EBADMSG, -ENOLINK };

	for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++)
		if (rc == lost[i])
			return -ECOMM;
	return rc == -EKEYREJECTED || rc == -EKEYEXPIRED ? -EACCES : rc;
}

int api_end(struct rftp *r, int rc)
{
	bool stopped = (rc == -EINTR || rc == -ECANCELED) && env_stopped(r), cancelled;

	pthread_mutex_lock(&r->lock);
	cancelled = r->cancelled;
	if (!cancelled)
		timer_set(r->timer, 0);
	pthread_mutex_unlock(&r->lock);

	if (r->server && r->server->client &&
	    (stopped || error_is_connection(rc) || ftp_client_lost(r->server->client)))
		server_close(r->server);
	if (r->server)
		r->server->used_ns = now_ns();
	if (rc >= 0)
		return rc;
	if (stopped && cancelled)
		return err_set(&r->error, -ECANCELED, "cancelled");
	if (stopped)
		return err_set(&r->error, -ETIMEDOUT, "not done within %g s",
			       (double)r->timeout_ms / 1000);
	rc = code_for_caller(rc);
	if (!*r->error.text)
		err_sys(&r->error, rc, "librftp");
	return r->error.code = rc;
}

/* server_connect(), which hides the errno of a refused login. */
static int api_connect(struct rftp *r)
{
	int rc = server_connect(r->server, &r->error);

	return rc == -ENOTCONN && r->server->refused ? r->server->refused : rc;
}

int api_begin(struct rftp *r)
{
	int rc = call_start(r);

	if (rc)
		return rc;
	if (!r->server)
		return err_set(&r->error, -EINVAL, "no server was opened");
	server_check(r->server);
	return api_connect(r);
}

/* ---- opening ---- */

/* Make the server of p, with the options of the handle. */
static int open_server(struct rftp *r, const struct url *p)
{
	struct server *s = server_make(&r->env, p);

	if (s && r->password)
		s->password = strdup(r->password);
	if (!s || (r->password && !s->password)) {
		server_free(s);
		return err_nomem(&r->error);
	}
	if (r->server) {
		s->o = r->server->o;
		memset(&r->server->o, 0, sizeof(r->server->o));
		server_free(r->server);
	} else {
		s->o = r->before;
		memset(&r->before, 0, sizeof(r->before));
	}
	r->server = s;
	return 0;
}

int rftp_at(struct rftp *r, const char *url)
{
	struct url p = { 0 };
	char *path = NULL;
	int rc;

	r->error = (struct err)ERR_INIT;
	rc = url_parse(url, &p, &r->error);
	if (!rc && !url_is_remote(&p))
		rc = err_set(&r->error, -EINVAL, URL_LOCAL_WHY, printable(url));
	if (!rc && (!r->server || !server_is(r->server, &p)))
		rc = err_sys(&r->error, -EXDEV, "%s", printable(url));
	if (!rc) {
		path = strdup(p.path);
		rc = path ? 0 : err_nomem(&r->error);
	}
	if (!rc) {
		free(r->path);
		r->path = path;
	}
	url_clear(&p);
	return rc;
}

int rftp_open(struct rftp *r, const char *url)
{
	struct url p = { 0 };
	char *path = NULL;
	int rc = call_start(r);

	if (!rc)
		rc = url_parse(url, &p, &r->error);
	if (!rc && !url_is_remote(&p))
		rc = err_set(&r->error, -EINVAL, URL_LOCAL_WHY, printable(url));
	if (!rc) {
		path = strdup(p.path);
		rc = path ? open_server(r, &p) : err_nomem(&r->error);
	}
	if (!rc) {
		free(r->path);
		r->path = steal_ptr(&path);
		rc = api_connect(r);
	}
	free(path);
	url_clear(&p);
	return api_end(r, rc);
}
