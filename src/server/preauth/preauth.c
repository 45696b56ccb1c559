// SPDX-License-Identifier: Apache-2.0
/* TLS and FTP with an unauthenticated client, in an empty root directory, as a user that owns no
 * files. After the login the process relays bytes between the client and the session: those of the
 * control connection, and those of each data connection under TLS, over its own socket pair. */
#include "server/monitor/msg.h"
#include "server/server.h"
#include "server/session/session.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>

enum {
	ASK_MS = 120 * 1000,      /* time for a password check: PAM may ask another host */
	COPY_BYTES = 32 << 10,    /* the most in a packet of stream_packets() */
	HANDSHAKE_MS = 30 * 1000,
	ANSWER_MS = HANDSHAKE_MS + 5 * 1000,
	DATA_AT_ONCE = 4,         /* FTP uses one at a time, but earlier ones may not have ended
				   * yet */
	LINGER_MS = 30 * 1000,
	FILES_MOST = 64,
	THREADS_MOST = 16,        /* two for the control connection, and two for each data
				   * connection */
	TASKS_OF_OTHERS = 1024,   /* threads that the preauth user may have elsewhere */
};

/* Bytes, without the threads' stacks. A preauth process uses about 10 MB. */
#define MEMORY_MOST ((rlim_t)128 << 20)

/* ---- rights ---- */

static rlim_t thread_stack(void)
{
	size_t stack = 8 << 20;
	pthread_attr_t a;

	if (pthread_attr_init(&a) == 0) {
		pthread_attr_getstacksize(&a, &stack);
		pthread_attr_destroy(&a);
	}
	return stack;
}

static int preauth_set_limits(const struct server *sv, struct err *e)
{
	/* Sanitizers reserve terabytes of address space, so with one there is no limit. */
	rlim_t memory = SANITIZED ? RLIM_INFINITY : MEMORY_MOST + THREADS_MOST * thread_stack();
	const struct {
		int resource;
		rlim_t most;
	} limits[] = {
		{ RLIMIT_AS, memory },
		/* The kernel counts all threads of the user, so this limits all preauth processes
		 * together. */
		{ RLIMIT_NPROC, THREADS_MOST * (rlim_t)sv->opt.max_sessions + TASKS_OF_OTHERS },
		{ RLIMIT_NOFILE, FILES_MOST },
		{ RLIMIT_CORE, 0 },
		{ RLIMIT_MEMLOCK, 0 },
		{ RLIMIT_MSGQUEUE, 0 },
	};

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		__rlimit_resource_t resource = (__rlimit_resource_t)limits[i].resource;
		struct rlimit r, had;
		int rc;

		rc = getrlimit(resource, &had);
		r.rlim_max = !rc && limits[i].most < had.rlim_max ? limits[i].most : had.rlim_max;
		r.rlim_cur = r.rlim_max;
		if (rc < 0 || setrlimit(resource, &r) < 0)
			return err_sys(e, -errno, "limits of the preauth process");
	}
	return 0;
}

int preauth_drop_rights(const struct server *sv, struct err *e)
{
	int rc = preauth_set_limits(sv, e);

	if (rc == 0 && (chroot(sv->empty) < 0 || chdir("/") < 0))
		rc = err_sys(e, -errno, "empty root %s", printable(sv->empty));
	if (rc == 0)
		rc = identity_assume(&sv->preauth, e);
	if (rc == 0) /* last, because the filter refuses the system calls above */
		rc = srv_jail(sv, jail_preauth, e);
	return rc;
}

/* ---- data connections: the session's half ---- */

struct stream *guard_data(int line, int fd, struct err *e)
{
	struct data_request ask = { .kind = DATA_TLS };
	int ours CLEANUP_CLOSE = -1;
	struct stream *st = NULL;
	struct data_reply a;
	int rc = msg_send(line, &ask, sizeof(ask), fd, ANSWER_MS);

	if (rc < 0) {
		err_sys(e, rc, "cannot send a request to the preauth process");
		return NULL;
	}

	rc = msg_receive(line, &a, sizeof(a), &ours, ANSWER_MS);

	/* Shut the line: a late answer would be read as the answer to the next request. */
	if (rc == -ETIMEDOUT)
		shutdown(line, SHUT_RDWR);
	a.why[sizeof(a.why) - 1] = '\0';
	if (rc < 0)
		err_sys(e, rc, "no answer from the preauth process");
	else if (a.code < 0)
		err_set(e, a.code, "%s", a.why);
	else if (ours < 0)
		err_set(e, -EPROTO, "the preauth process sent no descriptor");
	else if (!(st = stream_packets(ours)))
		err_nomem(e);
	if (st) {
		ours = -1;
		close(fd);
	}
	return st;
}

/* ---- data connections: the preauth process's half ---- */

/* A data connection. */
struct guarded {
	struct guard *g;             /* NULL: the slot is free */
	struct stream *client, *session;
	int session_fd;              /* the descriptor of session, to poll for its end */
};

struct guard {
	int line;
	struct tls_ctx *tls;
	struct tls *control;
	const char *peer_text;
	pthread_mutex_t lock;        /* guards the slots */
	pthread_cond_t fewer;
	struct guarded all[DATA_AT_ONCE];
};

static void guarded_remove(struct guarded *d)
{
	struct guard *g = d->g;
	LOCK_GUARD(guard, &g->lock);

	stream_free(d->client);
	stream_free(d->session);
	*d = (struct guarded){ .g = NULL };
	pthread_cond_broadcast(&g->fewer);
}

static void *guarded_pass_up(void *arg)
{
	struct guarded *d = arg;

	stream_pass(d->client, d->session);
	return NULL;
}

static void *guarded_pass(void *arg)
{
	struct guarded *d = arg;
	pthread_t up;
	int rc = thread_start(&up, "data up", guarded_pass_up, d);

	if (rc < 0) {
		log_error("%s: data connection: %s", d->g->peer_text, strerror(-rc));
		guarded_remove(d);
		return NULL;
	}

	/* The connection ends when the session closes it, even if the client keeps its sending
	 * direction open. */
	if (stream_pass(d->session, d->client) == 0)
		poll_fd(d->session_fd, 0, -1);
	d->session->ops->abort(d->session);
	d->client->ops->abort(d->client);
	pthread_join(up, NULL);
	guarded_remove(d);
	return NULL;
}

/* A slot with a connection, or (is_free) without one; NULL: there is none. Call with the lock. */
static struct guarded *guard_slot(struct guard *g, bool is_free)
{
	for (unsigned i = 0; i < DATA_AT_ONCE; i++)
		if (!g->all[i].g == is_free)
			return &g->all[i];
	return NULL;
}

/* Start TLS on fd, which is taken over, and a detached thread. 0 with *theirs, the socket for the
 * session; or a negative errno with text. */
static int guard_add(struct guard *g, int fd, int *theirs, struct err *e)
{
	struct guarded new = { .g = g }, *d;
	int pair[2] = { -1, -1 }, rc;
	struct tls *tls;
	pthread_t t;

	pthread_mutex_lock(&g->lock);
	d = guard_slot(g, true);
	pthread_mutex_unlock(&g->lock);
	if (!d || msg_pair(pair) < 0) {
		close(fd);
		return err_sys(e, d ? -ENOMEM : -EBUSY, "data connection");
	}
	*theirs = pair[1];
	new.session_fd = pair[0];

	/* No session tickets are sent: a client that closes after an upload would leave them
	 * unread. */
	tls = tls_start(g->tls, fd, NULL, g->control, HANDSHAKE_MS, e);
	new.client = tls ? stream_tls(fd, tls) : NULL;
	new.session = new.client ? stream_packets(pair[0]) : NULL;
	if (!new.session) {
		rc = tls ? err_nomem(e) : e->code;
		if (!new.client) {
			tls_free(tls);
			close(fd);
		}
		close(pair[0]);
		stream_free(new.client);
		return rc;
	}

	pthread_mutex_lock(&g->lock);
	*d = new;
	pthread_mutex_unlock(&g->lock);
	rc = thread_start(&t, "data", guarded_pass, d);
	if (rc < 0) {
		guarded_remove(d);
		return thread_failed(e, rc);
	}
	pthread_detach(t);
	return 0;
}

/* The session has ended. Wait until the client has read its last output, at most LINGER_MS. */
static void guard_finish(struct guard *g)
{
	uint64_t end = now_ns() + (uint64_t)LINGER_MS * 1000000;
	LOCK_GUARD(guard, &g->lock);

	while (guard_slot(g, false) && cond_wait_until(&g->fewer, &g->lock, end) == 0)
		;
	for (unsigned i = 0; i < DATA_AT_ONCE; i++)
		if (g->all[i].g)
			g->all[i].client->ops->abort(g->all[i].client);
	while (guard_slot(g, false))
		pthread_cond_wait(&g->fewer, &g->lock);
}

void guard_serve(int line, struct tls_ctx *tls, struct tls *control, const char *peer_text)
{
	struct guard g = { .line = line, .tls = tls, .control = control, .peer_text = peer_text };
	struct data_request ask;
	int fd, rc;

	pthread_mutex_init(&g.lock, NULL);
	cond_init(&g.fewer);
	while ((rc = msg_receive(line, &ask, sizeof(ask), &fd, -1)) == 0) {
		if (fd < 0 || ask.kind != DATA_TLS || !control)
			rc = -EPROTO;
		if (rc < 0 && fd >= 0)
			close(fd);
		if (rc == 0) {
			struct data_reply a = { 0 };
			int theirs CLEANUP_CLOSE = -1;
			struct err e = ERR_INIT;

			a.code = guard_add(&g, fd, &theirs, &e);
			snprintf(a.why, sizeof(a.why), "%.*s", (int)sizeof(a.why) - 1,
				 a.code ? e.text : "");
			rc = msg_send(line, &a, sizeof(a), a.code ? -1 : theirs, ANSWER_MS);
		}
		if (rc < 0)
			break;
	}

	if (rc != -EPIPE)
		log_error("%s: the session sent a request that is not allowed: %s", peer_text,
			  strerror(-rc));
	guard_finish(&g);
	pthread_cond_destroy(&g.fewer);
	pthread_mutex_destroy(&g.lock);
}

/* ---- the login ---- */

struct preauth {
	const struct server *sv;
	struct state state;
	struct channel *monitor;
	int fd;                   /* the client's connection; not owned */
	int line;                 /* connects to the auth process, later the session; -1: there is
				   * none */
	struct stream *session;   /* carries the control connection to and from the session */
	struct mstream *ms;       /* the client's connection */
	char peer_text[80];
};

/* Wait for the login's turn, send it to the auth process, and take the result. proof NULL: the
 * login is by password. */
static int preauth_log_in(struct preauth *p, const struct credentials *ask,
			  const struct cert_proof *proof, struct ftp_account *account,
			  struct err *e)
{
	int control CLEANUP_CLOSE = -1;
	struct login_result a;
	int rc = channel_await_login(p->monitor, ask->user, p->fd, &p->line, e);

	if (rc < 0) {
		cleanup_close(&p->line);
		return rc;
	}
	if (p->line < 0)
		return err_set(e, -EPROTO, "the monitor sent no line to an auth process");

	rc = msg_send(p->line, ask, sizeof(*ask), -1, ASK_MS);
	if (rc == 0 && proof)
		rc = msg_send(p->line, proof, sizeof(*proof), -1, ASK_MS);
	if (rc == 0)
		rc = msg_receive(p->line, &a, sizeof(a), &control, ASK_MS);

	if (rc < 0) {
		err_sys(e, rc, "no answer to a login");
	} else if (a.code == -EKEYEXPIRED && memchr(a.why, '\0', sizeof(a.why))) {
		rc = err_set(e, a.code, "%s", a.why);
	} else if (a.code < 0) {
		rc = a.code == -EACCES ? -EACCES : err_sys(e, a.code, "login");
	} else if (a.code > 0 || control < 0 || !memchr(a.name, '\0', sizeof(a.name))) {
		rc = err_set(e, -EPROTO, "the auth process sent no line to the session");
	} else {
		memcpy(account->name, a.name, sizeof(account->name));
		account->home = strdup("/");
		p->session = account->home ? stream_packets(control) : NULL;
		if (p->session)
			control = -1;
		else
			rc = err_nomem(e);
	}
	if (rc < 0)
		cleanup_close(&p->line);
	else
		cleanup_close(&p->monitor->down); /* no further login is possible */
	return rc;
}

static int preauth_by_password(void *arg, const char *user, const char *password,
			       struct ftp_account *account, struct err *e)
{
	struct credentials ask = { .by_certificate = 0 };
	int rc;

	/* A longer name or password cannot be right. */
	if (strlen(user) >= sizeof(ask.user) || strlen(password) >= sizeof(ask.password))
		return -EACCES;
	strcpy(ask.user, user);
	strcpy(ask.password, password);
	rc = preauth_log_in(arg, &ask, NULL, account, e);
	crypto_wipe(&ask, sizeof(ask));
	return rc;
}

/* The auth process reads the certificate from the proof itself, because it does not trust this
 * process. */
static int preauth_by_certificate(void *arg, const char *user, struct tls *tls,
				  struct ftp_account *account, struct err *e)
{
	CLEANUP_FREE struct cert_proof *proof = calloc(1, sizeof(*proof));
	ssize_t len = proof ? tls_proof(tls, proof->bytes) : -ENOMEM;
	struct credentials ask = { .by_certificate = 1 };
	struct preauth *p = arg;

	if (len == -ENOKEY) /* the client has no certificate; that is not an error */
		return -EACCES;
	if (len < 0) {
		certificate_refused(user, p->peer_text, NULL,
				    len == -EOPNOTSUPP ? "that needs TLS 1.3" :
				    len == -EMSGSIZE ? "its handshake is too long" :
				    strerror((int)-len));
		return -EACCES;
	}
	if (strlen(user) >= sizeof(ask.user))
		return -EACCES;
	strcpy(ask.user, user);
	proof->len = (uint32_t)len;
	return preauth_log_in(p, &ask, proof, account, e);
}

/* ---- the control connection after the login ---- */

/* Relay from the client to the session, or from the session to the client, until the end of file.
 * 0, or a negative errno. */
static int carry(struct preauth *p, bool up)
{
	uint8_t *buf = malloc(COPY_BYTES);
	ssize_t n = buf ? 1 : -ENOMEM;

	while (n > 0) {
		n = up ? ms_read_some(p->ms, buf, COPY_BYTES, -1) :
			 p->session->ops->read(p->session, buf, COPY_BYTES, -1);
		if (n > 0 && (up ? stream_write_all(p->session, buf, (size_t)n) :
				   ms_write(p->ms, buf, (size_t)n)) < 0)
			n = -EPIPE;
	}
	if (buf)
		crypto_wipe(buf, COPY_BYTES);
	free(buf);
	return (int)n;
}

static void *carry_up(void *arg)
{
	struct preauth *p = arg;

	carry(p, true);
	p->session->ops->shutdown(p->session);
	return NULL;
}

/* If the session has ended cleanly, end the client's connection cleanly, too. */
static void *carry_down(void *arg)
{
	struct preauth *p = arg;

	if (carry(p, false) == 0)
		ms_shutdown(p->ms);

	/* This tells the session that its client reads no more. */
	p->session->ops->abort(p->session);
	ms_abort(p->ms);
	return NULL;
}

static int preauth_hand_over(void *arg, struct ftp_session *fs, const struct ftp_handed *h,
			     struct err *e)
{
	struct preauth *p = arg;
	int rc = msg_send(p->line, h, sizeof(*h), -1, ASK_MS);
	pthread_t up, down;

	malloc_trim(0); /* return the memory that the login needed to the kernel */
	p->ms = ftp_session_stream(fs);
	if (rc < 0)
		return err_sys(e, rc, "the session ended before it began");

	rc = thread_start(&up, "up", carry_up, p);
	if (rc < 0)
		return thread_failed(e, rc);

	rc = thread_start(&down, "down", carry_down, p);
	if (rc < 0) {
		p->session->ops->abort(p->session);
		ms_abort(p->ms);
		pthread_join(up, NULL);
		return thread_failed(e, rc);
	}

	guard_serve(p->line, p->state.tls, ftp_session_tls(fs), p->peer_text);
	pthread_join(down, NULL);
	pthread_join(up, NULL);
	return 0;
}

/* ---- the process ---- */

static int preauth_serve(struct preauth *p, int fd, const struct ends *ends, struct err *e)
{
	struct stream *st = stream_plain(fd, fd);
	struct mstream *ms = st ? ms_new(st) : NULL;
	struct ftp_server_config c;
	int rc;

	if (!ms) {
		stream_free(st);
		return err_nomem(e);
	}

	srv_ftp_config(p->sv, ends, &c);
	c.tls = p->state.tls;
	c.login = preauth_by_password;
	c.cert_login = p->sv->opt.certificates ? preauth_by_certificate : NULL;
	c.handover = preauth_hand_over;
	c.arg = p;
	rc = ftp_serve(&c, ms, fd, &ends->peer, e);
	ms_free(ms);
	stream_free(p->session);
	cleanup_close(&p->line);
	return rc;
}

int preauth_run(const struct server *sv, int fd, struct channel *monitor, const struct ends *ends)
{
	struct preauth p = { .sv = sv, .monitor = monitor, .fd = fd, .line = -1 };
	struct err e = ERR_INIT;
	int rc;

	mallopt(M_ARENA_MAX, 1); /* its threads mostly wait, so they can share one malloc arena */
	sockaddr_text(&ends->peer, p.peer_text);
	rc = state_open_sealed(&p.state, &sv->opt, sv->sealed, &e);
	close(sv->sealed);
	if (rc == 0 && sv->opt.certificates)
		tls_keep_proofs(p.state.tls);
	if (rc == 0)
		rc = preauth_drop_rights(sv, &e);
	if (rc < 0) {
		log_error("%s: %s", p.peer_text, e.text);
		return EXIT_FAILURE;
	}

	log_debug("connection from %s", p.peer_text);
	rc = preauth_serve(&p, fd, ends, &e);
	if (rc < 0)
		log_info("%s: %s", p.peer_text, *e.text ? e.text : strerror(-rc));
	state_close(&p.state);
	return EXIT_SUCCESS;
}
