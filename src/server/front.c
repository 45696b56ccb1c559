// SPDX-License-Identifier: Apache-2.0
/* The front: TLS and FTP with a stranger, in an empty root, as a user that owns nothing; once
 * he has logged in, it carries bytes. */
#include "server/front.h"
#include "server/guard.h"
#include "server/monitor.h"
#include "server/msg.h"
#include "server/session.h"
#include "server/stranger.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	ASK_MS = 120 * 1000,      /* for a password to be checked: PAM may ask far away */
	COPY_BYTES = 32 << 10,    /* a packet of stream_packets */
};

struct front {
	const struct server *sv;
	struct state state;
	int monitor;
	int fd;                   /* the client's connection; not owned */
	int line;                 /* to the gate, the session; -1: nobody is there */
	struct stream *session;   /* its end of the control connection */
	struct mstream *ms;       /* the client's */
	char peer_text[80];
};

/* ---- the login ---- */

static int copy_word(char *to, size_t room, const char *from)
{
	if (strlen(from) >= room)
		return -EACCES; /* nobody has such a one */
	strcpy(to, from);
	return 0;
}

static int ask_monitor(struct front *f, const char *user, struct err *e)
{
	struct front_ask ask = { { 0 } };
	struct front_answer a;
	int rc = copy_word(ask.user, sizeof(ask.user), user);

	if (rc < 0)
		return rc;
	rc = msg_send(f->monitor, &ask, sizeof(ask), -1, ASK_MS);
	/* It always answers: at the latest when this login has waited for its turn too long. */
	if (rc == 0)
		rc = msg_await(f->monitor, f->fd);
	if (rc == -ECONNRESET)
		return err_set(e, rc, "the client left while its login waited");
	if (rc == 0)
		rc = msg_receive(f->monitor, &a, sizeof(a), &f->line, -1);
	if (rc < 0)
		return err_sys(e, rc, "no answer from the monitor");
	if (a.code < 0)
		return err_sys(e, a.code, "login");
	return f->line < 0 ? err_set(e, -EPROTO, "the monitor gave no line to a gate") : 0;
}

/* proof NULL: by the password. */
static int ask_gate(struct front *f, const struct gate_ask *ask, const struct gate_proof *proof,
		    struct gate_answer *a, int *control, struct err *e)
{
	int rc = msg_send(f->line, ask, sizeof(*ask), -1, ASK_MS);

	if (rc == 0 && proof)
		rc = msg_send(f->line, proof, sizeof(*proof), -1, ASK_MS);
	if (rc == 0)
		rc = msg_receive(f->line, a, sizeof(*a), control, ASK_MS);
	return rc < 0 ? err_sys(e, rc, "no answer to a login") : 0;
}

static int take_answer(struct front *f, const struct gate_answer *a, int *control,
		       struct ftp_account *account, struct err *e)
{
	if (a->code == -EKEYEXPIRED && memchr(a->why, '\0', sizeof(a->why)))
		return err_set(e, a->code, "%s", a->why);
	if (a->code < 0)
		return a->code == -EACCES ? -EACCES : err_sys(e, a->code, "login");
	if (a->code > 0 || *control < 0 || !memchr(a->name, '\0', sizeof(a->name)))
		return err_set(e, -EPROTO, "the gate gave no session");
	memcpy(account->name, a->name, sizeof(account->name));
	account->home = strdup("/");
	f->session = account->home ? stream_packets(*control) : NULL;
	if (!f->session)
		return err_sys(e, -ENOMEM, "login");
	*control = -1;
	return 0;
}

static int log_in(struct front *f, const struct gate_ask *ask, const struct gate_proof *proof,
		  struct ftp_account *account, struct err *e)
{
	int control CLEANUP_CLOSE = -1;
	struct gate_answer a;
	int rc = ask_monitor(f, ask->user, e);

	if (rc == 0)
		rc = ask_gate(f, ask, proof, &a, &control, e);
	if (rc == 0)
		rc = take_answer(f, &a, &control, account, e);
	if (rc < 0)
		cleanup_close(&f->line);
	return rc;
}

static int login(void *arg, const char *user, const char *password, struct ftp_account *account,
		 struct err *e)
{
	struct gate_ask ask = { .by_certificate = 0 };
	int rc = copy_word(ask.user, sizeof(ask.user), user);

	if (rc == 0)
		rc = copy_word(ask.password, sizeof(ask.password), password);
	if (rc == 0)
		rc = log_in(arg, &ask, NULL, account, e);
	crypto_wipe(&ask, sizeof(ask));
	return rc;
}

static const char *why_no_proof(ssize_t code)
{
	return code == -EOPNOTSUPP ? "that needs TLS 1.3" :
	       code == -EMSGSIZE ? "its handshake is too long" : strerror((int)-code);
}

/* Nobody has to believe this process whose certificate it was. */
static int cert_login(void *arg, const char *user, struct tls *tls, struct ftp_account *account,
		      struct err *e)
{
	CLEANUP_FREE struct gate_proof *proof = calloc(1, sizeof(*proof));
	ssize_t len = proof ? tls_proof(tls, proof->bytes) : -ENOMEM;
	struct gate_ask ask = { .by_certificate = 1 };
	struct front *f = arg;
	int rc;

	if (len == -ENOKEY) /* who has none has said nothing wrong */
		return -EACCES;
	if (len < 0) {
		log_warn("login of \"%s\" from %s by a certificate: %s", printable(user),
			 f->peer_text, why_no_proof(len));
		return -EACCES;
	}
	proof->len = (uint32_t)len;
	rc = copy_word(ask.user, sizeof(ask.user), user);
	return rc < 0 ? rc : log_in(f, &ask, proof, account, e);
}

/* ---- carrying ---- */

/* What the client sends, until it has gone: then the session is told. */
static void *carry_up(void *arg)
{
	struct front *f = arg;
	uint8_t *buf = malloc(COPY_BYTES);
	ssize_t n = buf ? 1 : -ENOMEM;

	while (n > 0) {
		n = ms_read_some(f->ms, buf, COPY_BYTES, -1);
		if (n > 0 && stream_write_all(f->session, buf, (size_t)n) < 0)
			n = -EPIPE;
	}
	if (buf)
		crypto_wipe(buf, COPY_BYTES);
	free(buf);
	f->session->ops->shutdown(f->session);
	return NULL;
}

/* What the session says, until it is over: then the client is told, if that was the end that
 * it should be. */
static void *carry_down(void *arg)
{
	struct front *f = arg;
	uint8_t *buf = malloc(COPY_BYTES);
	ssize_t n = buf ? 1 : -ENOMEM;

	while (n > 0) {
		n = f->session->ops->read(f->session, buf, COPY_BYTES, -1);
		if (n > 0 && ms_write(f->ms, buf, (size_t)n) < 0)
			n = -EPIPE;
	}
	if (n == 0)
		ms_shutdown(f->ms);
	if (buf)
		crypto_wipe(buf, COPY_BYTES);
	free(buf);
	/* A session whose client takes nothing more learns it so. */
	f->session->ops->abort(f->session);
	ms_abort(f->ms);
	return NULL;
}

static int carry(struct front *f, struct tls *control, struct err *e)
{
	pthread_t up, down;
	int rc = thread_start(&up, "up", carry_up, f);

	if (rc < 0)
		return err_sys(e, rc, "thread");
	rc = thread_start(&down, "down", carry_down, f);
	if (rc < 0) {
		f->session->ops->abort(f->session);
		ms_abort(f->ms);
		pthread_join(up, NULL);
		return err_sys(e, rc, "thread");
	}
	guard_serve(f->line, f->state.tls, control, f->peer_text);
	pthread_join(down, NULL);
	pthread_join(up, NULL);
	return 0;
}

static int handover(void *arg, struct ftp_session *fs, const struct ftp_handed *h, struct err *e)
{
	struct front *f = arg;
	int rc = msg_send(f->line, h, sizeof(*h), -1, ASK_MS);

	malloc_trim(0); /* what was for the login */
	f->ms = ftp_session_stream(fs);
	if (rc < 0)
		return err_sys(e, rc, "the session went before it began");
	return carry(f, ftp_session_tls(fs), e);
}

/* ---- the process ---- */

static int serve(struct front *f, int fd, const struct ends *ends, struct err *e)
{
	struct stream *st = stream_plain(fd, fd);
	struct mstream *ms = st ? ms_new(st) : NULL;
	struct ftp_server_config c;
	int rc;

	if (!ms) {
		stream_free(st);
		return err_sys(e, -ENOMEM, "connection");
	}
	srv_ftp_config(f->sv, ends, &c);
	c.tls = f->state.tls;
	c.login = login;
	c.cert_login = f->sv->opt.certificates ? cert_login : NULL;
	c.handover = handover;
	c.arg = f;
	rc = ftp_serve(&c, ms, fd, &ends->peer, e);
	ms_free(ms);
	stream_free(f->session);
	cleanup_close(&f->line);
	return rc;
}

int front_run(const struct server *sv, int fd, int monitor, const struct ends *ends)
{
	struct front f = { .sv = sv, .monitor = monitor, .fd = fd, .line = -1 };
	struct err e = ERR_INIT;
	int rc;

	mallopt(M_ARENA_MAX, 1); /* its threads do nothing but wait */
	srv_peer_text(&ends->peer, f.peer_text);
	rc = state_open_sealed(&f.state, &sv->opt, sv->sealed, &e);
	close(sv->sealed);
	if (rc == 0 && sv->opt.certificates)
		tls_keep_proofs(f.state.tls);
	if (rc == 0)
		rc = stranger_become(sv, &e);
	if (rc < 0) {
		log_error("%s: %s", f.peer_text, e.text);
		return EXIT_FAILURE;
	}
	log_debug("connection from %s", f.peer_text);
	rc = serve(&f, fd, ends, &e);
	if (rc < 0)
		log_info("%s: %s", f.peer_text, *e.text ? e.text : strerror(-rc));
	state_close(&f.state);
	return EXIT_SUCCESS;
}
