// SPDX-License-Identifier: Apache-2.0
/* Control connections by libcurl: login, commands, and files and listings over data connections.
 * Each call is one curl_easy_perform() on the same handle, so it uses the same connection. URLs of
 * files and commands are absolute ("/%2Fpath"), so that libcurl does not change the directory
 * without need. */
#include "client/foreign/foreign.h"

#ifdef HAVE_CURL

#include <curl/curl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>

#define LOGIN_MS 30000L
#define REPLY_S (10 * 60L)       /* removals may take long */
#define DIGEST_S (60 * 60L)
#define DATA_S (2 * 60L)         /* without a byte */
#define BUFFER (256L << 10)
#define BUFFER_LEAST 1024L
#define RATE_LOW (1u << 20)      /* bytes per second */
#define TICK_MS 200
#define END_MS 30000             /* time for the server to close the data connection */

_Static_assert(sizeof(((struct fconn *)0)->why) >= CURL_ERROR_SIZE, "libcurl's text");

#define SET(c, option, value) curl_easy_setopt((c)->h, CURLOPT_##option, value)

/* ---- callbacks ---- */

static bool fconn_is_stopped(const struct fconn *c)
{
	return (c->stop && atomic_load(c->stop)) ||
	       (c->wish_fd >= 0 && poll_fd(c->wish_fd, POLLIN, 0) > 0);
}

static int fconn_on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t d, curl_off_t f)
{
	struct fconn *c = arg;

	if (c->paused) {
		c->paused = false;
		curl_easy_pause(c->h, CURLPAUSE_CONT);
	}
	return fconn_is_stopped(c);
}

/* Handle a line of the control connection. A result below len makes libcurl end the call. */
static size_t fconn_on_line(char *p, size_t size, size_t n, void *arg)
{
	struct fconn *c = arg;
	char line[FTP_LINE_MAX];
	size_t len = size * n, end = len;
	int rc;

	while (end && (p[end - 1] == '\n' || p[end - 1] == '\r'))
		end--;
	if (end >= sizeof(line) || memchr(p, '\0', end)) {
		c->rc = ftp_lost(c->host, -EMSGSIZE, c->e);
		return 0;
	}

	memcpy(line, p, end);
	line[end] = '\0';
	rc = ftp_reply_line(&c->reply, line);
	if (rc < 0) {
		c->rc = ftp_not_ftp(c->host, c->port, line, end, c->e);
		return 0;
	}

	c->asked |= rc && c->reply.code == 331;
	if (c->reply.code / 100 == 1)
		tls_hook_release(&c->hook, c->socket);
	return rc && c->reply.code == 331 && c->no_password ? 0 : len;
}

/* At low rates the kernel's default buffer would hold many seconds of data. Half a second of data
 * is enough. */
static int fconn_on_socket(void *arg, curl_socket_t fd, curlsocktype purpose)
{
	struct fconn *c = arg;
	int bytes = c->rate / 2 > 4096 ? (int)(c->rate / 2) : 4096;

	c->socket = fd;
	if (c->rate && c->rate < RATE_LOW)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	return CURL_SOCKOPT_OK;
}

/* fconn_close() must not open another connection. */
static int fconn_on_last_socket(void *arg, curl_socket_t fd, curlsocktype purpose)
{
	return CURL_SOCKOPT_ERROR;
}

static CURLcode fconn_on_tls(CURL *h, void *ssl_ctx, void *arg)
{
	struct fconn *c = arg;
	int code = c->reply.code;
	/* Before the control connection's TLS: no reply, the greeting, or the reply to AUTH. */
	bool data = code && code != 220 && code != 234 && code != 334;

	c->hook.holds = data && code / 100 != 1;
	return tls_hook_install(ssl_ctx, data, &c->hook) ? CURLE_SSL_CERTPROBLEM : CURLE_OK;
}

/* The time limit of the login does not include the time that the user needs to answer. */
static int fconn_on_key(void *arg, const char *pin, struct err *e)
{
	struct fconn *c = arg;
	uint64_t began = now_ns();
	int rc;

	if (!c->cfg)
		return err_set(e, -EKEYREJECTED, "the key of %s cannot be checked now", c->host);

	rc = c->cfg->check_pin(c->cfg->arg, c->host, c->port, pin, e);
	SET(c, CONNECTTIMEOUT_MS, c->connect_ms + (long)((now_ns() - began) / 1000000));
	if (rc == PIN_OK)
		return 0;
	return e->code ? (e->code = -EKEYREJECTED) :
	       ftp_key_refused(c->host, c->port, e);
}

static size_t fconn_on_data(char *p, size_t size, size_t n, void *arg)
{
	struct fconn *c = arg;
	size_t len = size * n;

	c->rc = c->sink(c->file, p, len, c->e);
	return c->rc ? 0 : len;
}

/* Send the end of the file, then wait for the server's. If libcurl closed while session tickets
 * were unread, the kernel would send RST, and the last bytes could be lost. */
static void end_upload(struct fconn *c)
{
	const uint64_t until = ns_after(END_MS);
	char rest[512];

	tls_hook_end(&c->hook);
	shutdown(c->socket, SHUT_WR);
	while (!fconn_is_stopped(c) && now_ns() < until)
		if (poll_fd(c->socket, POLLIN, TICK_MS) &&
		    recv(c->socket, rest, sizeof(rest), 0) <= 0)
			break;
}

/* Give libcurl bytes only while the data connection accepts them. After a failed send libcurl does
 * not read the server's reply with the reason; after the end of the file it does. */
static size_t fconn_on_read(char *p, size_t size, size_t n, void *arg)
{
	struct fconn *c = arg;
	struct pollfd data = { .fd = c->socket, .events = POLLOUT | POLLRDHUP };
	curl_off_t sent = 0;
	ssize_t got;

	while (!data.revents) {
		if (fconn_is_stopped(c))
			return CURL_READFUNC_ABORT;
		poll(&data, 1, TICK_MS);
	}

	c->ended |= data.revents & (POLLERR | POLLHUP | POLLRDHUP | POLLNVAL);
	if (c->ended || c->rc)
		return 0;

	got = c->end_read ? 0 : c->source(c->file, p, size * n, c->e);
	c->given += got > 0 ? (uint64_t)got : 0;
	if (got == 0 && c->prot_p) {
		/* libcurl 8.7 and later asks for more while it has unsent bytes: pause. */
		c->end_read = true;
		curl_easy_getinfo(c->h, CURLINFO_SIZE_UPLOAD_T, &sent);
		c->paused = (uint64_t)sent < c->given;
		if (c->paused)
			return CURL_READFUNC_PAUSE;
		end_upload(c);
	}
	if (got >= 0)
		return (size_t)got;
	c->rc = (int)got;
	return fconn_is_stopped(c) ? CURL_READFUNC_ABORT : 0;
}

/* ---- one call ---- */

/* The server refuses TLS. Returns a negative errno with text. */
static int fconn_refused_tls(const struct fconn *c, struct err *e)
{
	if (*c->hook.describe)
		return err_set(e, -EPROTONOSUPPORT, "%s does not protect data (%d %s); --prot "
			       "clear sends files and listings in clear", c->host,
			       c->reply.code, printable(c->reply.text ? c->reply.text : ""));
	return ftp_no_tls(c->host, c->port, c->reply.code, c->reply.text, e);
}

/* Report a failure that neither a callback nor the server has explained. */
static int failed_connection(const struct fconn *c, CURLcode code, struct err *e)
{
	const char *why = *c->why ? c->why : curl_easy_strerror(code);
	long os = 0;

	switch (code) {
	case CURLE_COULDNT_RESOLVE_HOST:
		return err_set(e, -EHOSTUNREACH, "%s: %s", c->host, why);
	case CURLE_COULDNT_CONNECT:
		curl_easy_getinfo(c->h, CURLINFO_OS_ERRNO, &os);
		return net_connect_failed(c->host, c->port, os ? -(int)os : -ECONNREFUSED, e);
	case CURLE_OPERATION_TIMEDOUT:
		return ftp_lost(c->host, -ETIMEDOUT, e);
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_ISSUER_ERROR:
		return err_set(e, -EKEYREJECTED, "%s port %u: %s", c->host, c->port, why);
	case CURLE_OUT_OF_MEMORY:
		return ftp_lost(c->host, -ENOMEM, e);
	case CURLE_URL_MALFORMAT:
		return err_set(e, -EILSEQ, "%s cannot be asked for names with control characters",
			       c->host);
	case CURLE_RECV_ERROR:
	case CURLE_SEND_ERROR:
	case CURLE_GOT_NOTHING:
	case CURLE_PARTIAL_FILE:
		log_debug("%s: %s", c->host, why);
		return ftp_lost(c->host, -EPIPE, e);
	default:
		return err_set(e, -EPROTO, "%s port %u: %s", c->host, c->port, why);
	}
}

/* Report the cause: first a callback's, then the server's, then libcurl's (with *lost). */
static int failed_call(struct fconn *c, CURLcode code, bool *lost, struct err *e)
{
	if (fconn_is_stopped(c))
		return err_set(e, -EINTR, "interrupted");
	if (c->rc)
		return c->rc;
	if (c->hook.e.code) {
		*e = c->hook.e;
		return e->code;
	}

	if (code == CURLE_USE_SSL_FAILED)
		return fconn_refused_tls(c, e);
	if (c->reply.code == 421)
		return ftp_reply_refused(c->host, c->reply.code, c->reply.text, e);

	if (code == CURLE_LOGIN_DENIED || (c->cfg && c->reply.code == 530))
		return ftp_login_refused(c->host, c->user, c->reply.code, c->reply.text, e);
	if (c->reply.code >= 400 && c->reply.done)
		return ftp_reply_refused(c->host, c->reply.code, c->reply.text, e);
	*lost = true;
	return failed_connection(c, code, e);
}

/* lines: the value of the option when, commands to send first; NULL: none. */
static int perform_call(struct fconn *c, CURLoption when, const char *const *lines, struct err *e)
{
	struct curl_slist *all = NULL, *more;
	curl_socket_t fd = CURL_SOCKET_BAD;
	bool lost = false;
	CURLcode code;
	int rc;

	c->wish_fd = c->wish ? c->wish(c->arg) : -1;
	if (fconn_is_stopped(c))
		return err_set(e, -EINTR, "interrupted");

	for (; lines && *lines; lines++) {
		more = curl_slist_append(all, *lines);
		if (!more) {
			curl_slist_free_all(all);
			return err_nomem(e);
		}
		all = more;
	}

	curl_easy_setopt(c->h, when, all);
	c->e = e;
	c->rc = 0;
	c->asked = c->ended = c->hook.closed = c->end_read = c->paused = false;
	c->given = 0;
	c->hook.e.code = 0;
	*c->why = '\0';
	ftp_reply_clear(&c->reply);
	code = curl_easy_perform(c->h);
	curl_easy_setopt(c->h, when, NULL);
	curl_slist_free_all(all);

	rc = code == CURLE_OK ? c->rc : failed_call(c, code, &lost, e);
	curl_easy_getinfo(c->h, CURLINFO_ACTIVESOCKET, &fd);
	if (fd != CURL_SOCKET_BAD && c->reply.code != 421 && !lost)
		return rc;

	/* Shut the socket, because libcurl's QUIT would wait for a reply. */
	if (fd != CURL_SOCKET_BAD)
		shutdown(fd, SHUT_RDWR);

	/* A login may be tried again, on another connection. */
	if (rc && !c->cfg)
		c->gone = *e;
	else if (!c->cfg)
		ftp_lost(c->host, -EPIPE, &c->gone);
	return rc;
}

enum kind {
	COMMAND,   /* no path */
	LIST,      /* change to path and list it; without a path the command names the directory */
	RETRIEVE,
	STORE,
};

/* Set the options that differ between calls. */
static int prepare_call(struct fconn *c, enum kind kind, const char *path, struct err *e)
{
	const bool enters = path && kind == LIST;
	CLEANUP_FREE char *whole = NULL;
	CLEANUP_FREE char *url = NULL;
	char *escaped = NULL;
	int n;

	if (fconn_lost(c, e))
		return e->code;

	/* libcurl sends no CWD for the directory of the last CWD, which a command may have removed
	 * since. With another number of slashes the URL differs, so libcurl sends CWD again. */
	if (kind == COMMAND)
		c->commanded = true;
	else if (enters && c->commanded) {
		c->two_slashes = !c->two_slashes;
		c->commanded = false;
	}

	if (path) {
		whole = fconn_absolute(c, path, e);
		if (!whole)
			return e->code;
		escaped = curl_easy_escape(c->h, whole, (int)strlen(whole));
	}

	n = path && !escaped ? -1 : asprintf(&url, "%s/%s%s", c->base, escaped ? escaped :
					     kind == COMMAND ? "%2F" : "",
					     !enters ? "" : c->two_slashes ? "//" : "/");
	curl_free(escaped);
	if (n < 0)
		return err_nomem(e);

	SET(c, URL, url);
	SET(c, FTP_FILEMETHOD, (long)(enters ? CURLFTPMETHOD_SINGLECWD : CURLFTPMETHOD_NOCWD));
	SET(c, UPLOAD, kind == STORE ? 1L : 0L);
	SET(c, NOBODY, kind == COMMAND ? 1L : 0L);
	SET(c, CUSTOMREQUEST, NULL);
	SET(c, APPEND, 0L);
	SET(c, LOW_SPEED_TIME, kind == COMMAND ? 0L : DATA_S);
	SET(c, TIMEOUT, 0L);

	c->rate = 0;
	return 0;
}

int fconn_ask(struct fconn *c, const char *verb, const char *before, const char *path,
	      const char *behind, struct err *e)
{
	CLEANUP_FREE char *whole = path ? fconn_absolute(c, path, e) : strdup("");
	CLEANUP_FREE char *line = NULL;
	const char *lines[3] = { "*TYPE I", NULL, NULL };
	bool arg = path || before, digest = *verb == 'X' || !strcmp(verb, "HASH");
	int rc;

	if (path && !whole)
		return e->code;
	if (!whole || asprintf(&line, "*%s%s%s%s%s", verb, arg ? " " : "", before ? before : "",
			       whole, behind ? behind : "") < 0)
		return err_nomem(e);

	/* Servers refuse SIZE in TYPE A, which a listing has set. */
	lines[c->ascii] = line;
	rc = prepare_call(c, COMMAND, NULL, e);
	SET(c, SERVER_RESPONSE_TIMEOUT, digest ? DIGEST_S : REPLY_S);
	if (rc == 0)
		rc = perform_call(c, CURLOPT_QUOTE, lines, e);
	SET(c, SERVER_RESPONSE_TIMEOUT, REPLY_S);

	if (rc)
		return rc;
	c->ascii = false;
	return c->reply.code;
}

int fconn_list_text(struct fconn *c, const char *dir, const char *command, struct listing_text *l,
		    struct err *e)
{
	int rc = prepare_call(c, LIST, dir, e);

	if (rc == 0) {
		SET(c, CUSTOMREQUEST, command);
		SET(c, LOW_SPEED_TIME, REPLY_S);
		SET(c, TIMEOUT, DIGEST_S);
		c->sink = listing_add;
		c->file = l;
		rc = perform_call(c, CURLOPT_QUOTE, NULL, e);
	}
	c->ascii = true;

	/* libcurl treats a 450 as an empty listing. */
	if (rc == 0 && c->reply.code >= 400)
		rc = ftp_reply_refused(c->host, c->reply.code, c->reply.text, e);
	if (rc == 0 && l->text && c->prot_p && !c->hook.closed)
		rc = err_set(e, -EPIPE, "the listing from %s was cut", c->host);
	return rc;
}

/* ---- files ---- */

int fconn_retrieve(struct fconn *c, const char *path, uint64_t at, uint64_t rate,
		   fconn_sink *fn, void *arg, bool *cut, struct err *e)
{
	long room = rate && rate / 10 < (uint64_t)BUFFER ? (long)(rate / 10) : BUFFER;
	char rest[32];
	const char *lines[] = { at ? rest : NULL, NULL };
	int rc = prepare_call(c, RETRIEVE, path, e);

	if (rc)
		return rc;

	snprintf(rest, sizeof(rest), "REST %" PRIu64, at);
	SET(c, BUFFERSIZE, room > BUFFER_LEAST ? room : BUFFER_LEAST);
	c->rate = rate;
	c->sink = fn;
	c->file = arg;
	c->ascii = false;

	rc = perform_call(c, CURLOPT_PREQUOTE, lines, e);
	SET(c, BUFFERSIZE, BUFFER);
	*cut = c->prot_p && !c->hook.closed;
	return rc;
}

int fconn_store(struct fconn *c, const char *path, uint64_t *at, fconn_source *fn, void *arg,
		struct err *e)
{
	enum { BY_REST, BY_APPE, ANEW };
	const uint64_t from = *at;
	char rest[32];
	int rc = 0;

	snprintf(rest, sizeof(rest), "REST %" PRIu64, from);
	for (int way = from ? BY_REST : ANEW; way <= ANEW; way++) {
		const char *lines[] = { way == BY_REST ? rest : NULL, NULL };

		if (way != ANEW && !fconn_has(c, way == BY_REST ? FCONN_REST : FCONN_APPE))
			continue;
		if (way == ANEW && from) {
			log_info("%s cannot resume a part, which is sent anew", c->host);
			*at = 0;
		}
		rc = prepare_call(c, STORE, path, e);
		if (rc)
			return rc;

		SET(c, APPEND, way == BY_APPE ? 1L : 0L);
		c->source = fn;
		c->file = arg;
		c->ascii = false;
		rc = perform_call(c, CURLOPT_PREQUOTE, lines, e);
		if (rc == 0 && c->ended)
			rc = err_set(e, -EPIPE, "%s closed the data connection", c->host);
		/* Try another way only after a refusal before the first byte was asked for. */
		if (rc >= 0 || rc == -EINTR || c->rc || c->reply.code < 400 ||
		    c->reply.code == 421 || *at != from)
			return rc;
	}
	return rc;
}

/* ---- opening ---- */

/* Log in with this password. NULL: end the login when the server asks for one. 0; 1 with text: the
 * password is wrong; or a negative errno with text. */
static int login_with(void *arg, const char *password, struct err *e)
{
	static const char *const feat[] = { "*FEAT", NULL };
	struct fconn *c = arg;
	int rc = prepare_call(c, COMMAND, NULL, e);

	c->no_password = !password;
	SET(c, USERNAME, c->user);
	SET(c, PASSWORD, password ? password : "");
	if (rc == 0)
		rc = perform_call(c, CURLOPT_QUOTE, feat, e);

	/* If the server refuses the name, other passwords do not help. */
	return rc == -EACCES && c->asked ? 1 : rc;
}

/* Send a known password at once. Otherwise ask the user, but only after the server has shown the
 * right key and has asked for a password. */
static int fconn_login(struct fconn *c, struct err *e)
{
	const struct ftp_client_config *cfg = c->cfg;
	int rc;

	rc = ftp_check_user(c->user, e);
	if (rc)
		return rc;
	if (!strcmp(c->user, "anonymous") || !strcmp(c->user, "ftp")) {
		rc = login_with(c, "rftp@", e);
		return rc > 0 ? e->code : rc;
	}
	if (!c->tls && !cfg->plain_password)
		return ftp_no_clear_password(c->host, c->user, e);

	rc = cfg->has_password ? 1 : login_with(c, NULL, e);
	if (rc <= 0 && (!rc || !c->asked))
		return rc;
	e->code = 0;
	return ftp_try_passwords(cfg, c->user, login_with, c, e);
}

static void set_curl_options(struct fconn *c)
{
	const struct ftp_client_config *cfg = c->cfg;
	long ms = c->connect_ms;

	SET(c, ERRORBUFFER, c->why);
	SET(c, NOSIGNAL, 1L);
	SET(c, NOPROGRESS, 0L);
	SET(c, XFERINFOFUNCTION, fconn_on_progress);
	SET(c, XFERINFODATA, c);
	SET(c, HEADERFUNCTION, fconn_on_line);
	SET(c, HEADERDATA, c);
	SET(c, WRITEFUNCTION, fconn_on_data);
	SET(c, WRITEDATA, c);
	SET(c, READFUNCTION, fconn_on_read);
	SET(c, READDATA, c);
	SET(c, SOCKOPTFUNCTION, fconn_on_socket);
	SET(c, SOCKOPTDATA, c);
	SET(c, CONNECTTIMEOUT_MS, ms);
	SET(c, SERVER_RESPONSE_TIMEOUT, (ms + 999) / 1000);
	SET(c, LOW_SPEED_LIMIT, 1L);
	SET(c, BUFFERSIZE, BUFFER);
	SET(c, TCP_KEEPALIVE, 1L);
	SET(c, PATH_AS_IS, 1L);
	SET(c, HTTPPROXYTUNNEL, 1L);
	SET(c, SUPPRESS_CONNECT_HEADERS, 1L);

	/* libcurl would replace an idle connection by a new one, which lacks the options set by
	 * commands. */
	SET(c, MAXAGE_CONN, LONG_MAX / 1000);

	/* Trust neither the address in PASV's reply nor the reply to SIZE. */
	SET(c, FTP_SKIP_PASV_IP, 1L);
	SET(c, IGNORE_CONTENT_LENGTH, 1L);
	if (!c->tls)
		return;

	SET(c, USE_SSL, cfg->data_clear ? (long)CURLUSESSL_CONTROL : (long)CURLUSESSL_ALL);
	SET(c, FTPSSLAUTH, (long)CURLFTPAUTH_TLS);
	SET(c, SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	SET(c, SSL_SESSIONID_CACHE, 0L);
	SET(c, SSL_CTX_FUNCTION, fconn_on_tls);
	SET(c, SSL_CTX_DATA, c);
	SET(c, SSL_VERIFYPEER, cfg->cafile ? 1L : 0L);
	SET(c, SSL_VERIFYHOST, cfg->cafile ? 2L : 0L);
	if (cfg->cafile)
		SET(c, CAINFO, c->ca);
	c->hook = (struct tls_hook){ .check = cfg->cafile ? NULL : fconn_on_key, .arg = c,
				     .host = c->host,
				     .certfile = c->cert, .keyfile = c->key };
}

/* Make path absolute: the current directory may change between connections. malloc'd; NULL. */
static char *absolute_file(const char *path)
{
	char *whole = path ? realpath(path, NULL) : NULL;

	return whole || !path ? whole : strdup(path);
}

struct fconn *fconn_open(const struct ftp_client_config *cfg, struct err *e)
{
	const curl_version_info_data *v = curl_version_info(CURLVERSION_NOW);
	const struct url *p = cfg->url;
	const struct url server = { .kind = p->kind, .host = p->host, .port = url_port(p) };
	struct fconn *c = calloc(1, sizeof(*c));
	const char *home = NULL;
	int rc = 0;

	/* TLS libraries that this libcurl does not use by default are in parentheses. */
	if (!v->ssl_version || !strstr(v->ssl_version, "OpenSSL") ||
	    strstr(v->ssl_version, "(OpenSSL"))
		rc = err_set(e, -EPROTONOSUPPORT, "ftp:// needs a libcurl that is built with "
			     "OpenSSL, not with %s", v->ssl_version ? v->ssl_version : "no TLS");
	else if (!c)
		rc = err_nomem(e);
	if (rc) {
		free(c);
		return NULL;
	}

	*c = (struct fconn){ .h = curl_easy_init(), .cfg = cfg, .host = p->host,
			     .base = url_text(&server, ""), .port = url_port(p), .wish_fd = -1,
			     .user = p->user ? p->user : "anonymous", .ascii = true,
			     .tls = !cfg->plain, .prot_p = !cfg->plain && !cfg->data_clear,
			     .said = cfg->said, .wish = cfg->stop, .arg = cfg->arg,
			     .ca = absolute_file(cfg->cafile),
			     .cert = absolute_file(cfg->certfile),
			     .key = absolute_file(cfg->keyfile),
			     .connect_ms = cfg->connect_timeout_ms > 0 ?
					   cfg->connect_timeout_ms : LOGIN_MS };
	if (!c->h || !c->base || (cfg->cafile && !c->ca) || (cfg->certfile && !c->cert) ||
	    (cfg->keyfile && !c->key)) {
		err_nomem(e);
		fconn_close(c);
		return NULL;
	}

	set_curl_options(c);
	rc = fconn_login(c, e);
	if (rc == 0)
		curl_easy_getinfo(c->h, CURLINFO_FTP_ENTRY_PATH, &home);

	/* Paths without slashes, as on VMS, cannot be joined. */
	if (rc == 0 && (!home || *home != '/' || strpbrk(home, "\r\n")))
		rc = err_set(e, -EPROTO, "%s has no paths with slashes: it answers PWD with "
			     "\"%s\"", c->host, printable(home ? home : ""));
	if (rc == 0 && !(c->home = strdup(home)))
		rc = err_nomem(e);

	if (rc == 0) {
		snprintf(c->describe, sizeof(c->describe), strchr(c->host, ':') ?
			 "[%s]:%u, %s" : "%s:%u, %s", c->host, c->port,
			 c->tls ? c->hook.describe : "in clear");
		rc = fconn_learn(c, e);
	}
	SET(c, SERVER_RESPONSE_TIMEOUT, REPLY_S);

	if (rc == 0) {
		c->cfg = NULL;
		return c;
	}
	e->code = rc;
	fconn_close(c);
	return NULL;
}

void fconn_close(struct fconn *c)
{
	curl_socket_t fd = CURL_SOCKET_BAD;
	struct err e = ERR_INIT;

	if (!c)
		return;
	if (c->h)
		curl_easy_getinfo(c->h, CURLINFO_ACTIVESOCKET, &fd);
	if (fd != CURL_SOCKET_BAD && !prepare_call(c, COMMAND, NULL, &e)) {
		SET(c, SOCKOPTFUNCTION, fconn_on_last_socket);
		SET(c, SERVER_RESPONSE_TIMEOUT, 1L);
		SET(c, FORBID_REUSE, 1L);
		perform_call(c, CURLOPT_QUOTE, NULL, &e);
	}

	if (c->h)
		curl_easy_cleanup(c->h);
	tls_hook_clear(&c->hook);
	ftp_reply_clear(&c->reply);
	free(c->ca);
	free(c->cert);
	free(c->key);
	free(c->home);
	free(c->base);
	free(c);
}

#else /* without libcurl no connection can be opened, so the other functions are never called */

struct fconn *fconn_open(const struct ftp_client_config *cfg, struct err *e)
{
	err_set(e, -EPROTONOSUPPORT, "this build has no libcurl, which ftp:// and ftps:// "
		"need (configure --with-curl; Debian: libcurl4-openssl-dev, RHEL: libcurl-devel)");
	return NULL;
}

void fconn_close(struct fconn *c)
{
}

int fconn_ask(struct fconn *c, const char *verb, const char *before, const char *path,
	      const char *behind, struct err *e)
{
	return -EPROTONOSUPPORT;
}

int fconn_list_text(struct fconn *c, const char *dir, const char *command, struct listing_text *l,
		    struct err *e)
{
	return -EPROTONOSUPPORT;
}

int fconn_retrieve(struct fconn *c, const char *path, uint64_t at, uint64_t rate,
		   fconn_sink *fn, void *arg, bool *cut, struct err *e)
{
	return -EPROTONOSUPPORT;
}

int fconn_store(struct fconn *c, const char *path, uint64_t *at, fconn_source *fn, void *arg,
		struct err *e)
{
	return -EPROTONOSUPPORT;
}

#endif
