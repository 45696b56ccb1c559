// SPDX-License-Identifier: Apache-2.0
/* Client certificates: requesting them, verifying them against a CA, the identity that the server
 * learns, and its proof to other servers. */
#include "crypto/tls_priv.h"
#include "tests/support/tls.h"

#include <errno.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define WAIT_MS 20000 /* longer than any test, even under valgrind */

static char dir[] = "/tmp/rftp-test-client-XXXXXX";
static char server_cert[128], server_key[128], ca_file[128], key_file[128];
static EVP_PKEY *ca_key, *other_key, *key;

static const char *in_dir(char out[128], const char *name)
{
	snprintf(out, 128, "%s/%s", dir, name);
	return out;
}

/* ---- certificates ---- */

static void extend(X509 *cert, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *ext;

	X509V3_set_ctx(&ctx, cert, cert, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	assert_non_null(ext);
	assert_int_equal(X509_add_ext(cert, ext, -1), 1);
	X509_EXTENSION_free(ext);
}

struct what {
	const char *cn, *o, *usage, *comment;
	bool ca, expired;
};

static void name_it(X509_NAME *name, const char *cn, const char *o)
{
	if (o)
		assert_int_equal(X509_NAME_add_entry_by_txt(name, "O", MBSTRING_UTF8,
							    (const void *)o, -1, -1, 0), 1);
	if (cn)
		assert_int_equal(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
							    (const void *)cn, -1, -1, 0), 1);
}

/* Writes a certificate for key k, with the name of the issuer, signed with the key by. */
static void write_cert(const char *path, const struct what *w, EVP_PKEY *k, const char *issuer,
		       EVP_PKEY *by)
{
	X509_NAME *from = X509_NAME_new();
	X509 *cert = X509_new();
	FILE *f = fopen(path, "w");

	assert_true(cert && from && f);
	X509_set_version(cert, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), 7);
	X509_gmtime_adj(X509_getm_notBefore(cert), -7200);
	X509_gmtime_adj(X509_getm_notAfter(cert), w->expired ? -3600 : 3600);
	name_it(X509_get_subject_name(cert), w->cn, w->o);
	name_it(from, issuer, NULL);
	X509_set_issuer_name(cert, from);
	X509_set_pubkey(cert, k);
	extend(cert, NID_basic_constraints, w->ca ? "critical,CA:TRUE" : "critical,CA:FALSE");
	if (w->usage)
		extend(cert, NID_ext_key_usage, w->usage);
	if (w->comment)
		extend(cert, NID_netscape_comment, w->comment);
	assert_true(X509_sign(cert, by, EVP_sha256()) > 0);
	assert_int_equal(PEM_write_X509(f, cert), 1);
	assert_int_equal(fclose(f), 0);
	X509_NAME_free(from);
	X509_free(cert);
}

static void write_key(const char *path, EVP_PKEY *k)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fchmod(fileno(f), 0600), 0);
	assert_int_equal(PEM_write_PrivateKey(f, k, NULL, NULL, 0, NULL, NULL), 1);
	assert_int_equal(fclose(f), 0);
}

static int group_setup(void **state)
{
	static const struct what ca = { .cn = "ca", .ca = true };
	struct err e = ERR_INIT;

	assert_non_null(mkdtemp(dir));
	ca_key = tls_new_key();
	other_key = tls_new_key();
	key = tls_new_key();
	write_cert(in_dir(ca_file, "ca.pem"), &ca, ca_key, "ca", ca_key);
	write_key(in_dir(key_file, "key.pem"), key);
	in_dir(server_cert, "server.pem");
	in_dir(server_key, "server-key.pem");
	return tls_make_certificate(server_cert, server_key, "localhost", &e);
}

static int group_teardown(void **state)
{
	char command[64];

	EVP_PKEY_free(ca_key);
	EVP_PKEY_free(other_key);
	EVP_PKEY_free(key);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

/* ---- a connection ---- */

struct pair {
	struct tls_ctx *sctx, *cctx;
	struct tls *s, *c, *resume, *control; /* control: the server's end of resume */
	struct err se, ce;
	int fd[2];
};

static void *start_server(void *arg)
{
	struct pair *p = arg;

	p->s = tls_start(p->sctx, p->fd[0], NULL, p->control, WAIT_MS, &p->se);
	if (!p->s)
		shutdown(p->fd[0], SHUT_WR);
	return NULL;
}

static void shake(struct pair *p)
{
	char byte = 'x';
	pthread_t t;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, p->fd), 0);
	assert_int_equal(thread_start(&t, "server", start_server, p), 0);
	p->c = tls_start(p->cctx, p->fd[1], "localhost", p->resume, WAIT_MS, &p->ce);
	pthread_join(t, NULL);
	assert_string_equal(p->ce.text, "");
	assert_string_equal(p->se.text, "");
	assert_true(p->c && p->s);
	/* Makes the client read its session ticket. */
	assert_int_equal(tls_write(p->s, &byte, 1, WAIT_MS), 1);
	assert_int_equal(tls_read(p->c, &byte, 1, WAIT_MS), 1);
}

static void part(struct pair *p)
{
	tls_free(p->c);
	tls_free(p->s);
	close(p->fd[0]);
	close(p->fd[1]);
}

static int ask_client(struct tls_ctx *c, const char *cafile, struct err *e)
{
	const struct tls_pem ca = { .file = cafile };

	return tls_ask_client(c, cafile ? &ca : NULL, e);
}

static void make_pair(struct pair *p, const char *cafile, bool ask, const char *certfile)
{
	struct err e = ERR_INIT;

	*p = (struct pair){ .sctx = tls_server_new(server_cert, server_key, &e),
			    .cctx = tls_client_new(NULL, &e) };
	assert_true(p->sctx && p->cctx);
	tls_keep_proofs(p->sctx);
	if (ask)
		assert_int_equal(ask_client(p->sctx, cafile, &e), 0);
	if (certfile)
		assert_int_equal(tls_use_certificate(p->cctx, certfile, key_file, &e), 0);
	shake(p);
}

static void end_pair(struct pair *p)
{
	part(p);
	tls_ctx_free(p->sctx);
	tls_ctx_free(p->cctx);
}

/* subject is NULL if no CA vouches for the certificate. */
static void assert_known(struct tls *s, const char *certfile, const char *subject)
{
	struct err e = ERR_INIT;
	char *pin = tls_peer_pin(s), *found = tls_peer_subject(s);
	char *own = certfile ? tls_certificate_pin(certfile, &e) : NULL;

	if (certfile)
		assert_string_equal(pin, own);
	else
		assert_null(pin);
	if (subject)
		assert_string_equal(found, subject);
	else
		assert_null(found);
	free(pin);
	free(own);
	free(found);
}

/* ---- proofs ---- */

struct proof {
	uint8_t bytes[TLS_PROOF_MAX];
	ssize_t len;
};

static void take_proof(struct proof *f, struct tls *s)
{
	f->len = tls_proof(s, f->bytes);
	assert_true(f->len > 0);
}

static int check_proof(const struct pair *p, const struct proof *f, const char *server)
{
	struct tls_proven who;
	struct err e = ERR_INIT;
	int rc = tls_proof_check(p->sctx, f->bytes, (size_t)f->len, server, &who, &e);

	tls_proven_clear(&who);
	assert_int_equal(rc == 0, !*e.text);
	return rc;
}

static char *own_pin(void)
{
	struct err e = ERR_INIT;

	return tls_certificate_pin(server_cert, &e);
}

/* Checking the proof gives the same identity as the handshake. */
static void assert_proven(const struct pair *p, const char *certfile, const char *subject)
{
	char *server = own_pin();
	struct err e = ERR_INIT;
	char *pin = tls_certificate_pin(certfile, &e);
	struct tls_proven who;
	struct proof f;

	take_proof(&f, p->s);
	assert_int_equal(tls_proof_check(p->sctx, f.bytes, (size_t)f.len, server, &who, &e), 0);
	assert_string_equal(who.pin, pin);
	if (subject)
		assert_string_equal(who.subject, subject);
	else
		assert_null(who.subject);
	tls_proven_clear(&who);
	free(server);
	free(pin);
}

/* ---- tests ---- */

static const struct what alice = { .cn = "alice", .o = "Example" };

static void none_is_well(void **state)
{
	uint8_t room[TLS_PROOF_MAX];
	struct pair p;

	make_pair(&p, ca_file, true, NULL);
	assert_known(p.s, NULL, NULL);
	assert_int_equal(tls_proof(p.s, room), -ENOKEY);
	end_pair(&p);
}

static void nobody_asks(void **state)
{
	char cert[128];
	struct pair p;

	write_cert(in_dir(cert, "alice.pem"), &alice, key, "ca", ca_key);
	make_pair(&p, NULL, false, cert);
	assert_known(p.s, NULL, NULL);
	end_pair(&p);
}

static void vouched_for(void **state)
{
	char cert[128];
	struct pair p;

	write_cert(in_dir(cert, "alice.pem"), &alice, key, "ca", ca_key);
	make_pair(&p, ca_file, true, cert);
	assert_known(p.s, cert, "CN=alice,O=Example");
	assert_proven(&p, cert, "CN=alice,O=Example");
	end_pair(&p);
	/* Without a CA the pin is the only identity. */
	make_pair(&p, NULL, true, cert);
	assert_known(p.s, cert, NULL);
	assert_proven(&p, cert, NULL);
	end_pair(&p);
}

/* A resumed session has the same client identity. */
static void resumed(void **state)
{
	struct pair p, q = { 0 };
	uint8_t room[TLS_PROOF_MAX];
	char cert[128];

	write_cert(in_dir(cert, "alice.pem"), &alice, key, "ca", ca_key);
	make_pair(&p, ca_file, true, cert);
	q.sctx = p.sctx;
	q.cctx = p.cctx;
	q.resume = p.c;
	q.control = p.s;
	shake(&q);
	assert_int_equal(SSL_session_reused(q.s->ssl), 1);
	assert_true(tls_proof(q.s, room) < 0); /* only control connections have proofs */
	assert_known(q.s, cert, "CN=alice,O=Example");
	part(&q);
	end_pair(&p);
}

/* A data connection without resumption belongs to its client if it has the same certificate, and is
 * refused with another one. */
static void data_by_certificate(void **state)
{
	struct err e = ERR_INIT;
	struct pair p, q = { 0 };
	char cert[128], other[128], own_key[128];
	pthread_t t;

	write_cert(in_dir(cert, "alice.pem"), &alice, key, "ca", ca_key);
	make_pair(&p, ca_file, true, cert);
	q.sctx = p.sctx;
	q.cctx = p.cctx;
	q.control = p.s;
	shake(&q);
	assert_int_equal(SSL_session_reused(q.s->ssl), 0);
	assert_known(q.s, cert, "CN=alice,O=Example");
	part(&q);
	/* The same name with another key. */
	write_cert(in_dir(other, "other.pem"), &alice, other_key, "ca", ca_key);
	write_key(in_dir(own_key, "other-key.pem"), other_key);
	q = (struct pair){ .sctx = p.sctx, .control = p.s, .cctx = tls_client_new(NULL, &e) };
	assert_int_equal(tls_use_certificate(q.cctx, other, own_key, &e), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, q.fd), 0);
	assert_int_equal(thread_start(&t, "server", start_server, &q), 0);
	q.c = tls_start(q.cctx, q.fd[1], "localhost", NULL, WAIT_MS, &q.ce);
	pthread_join(t, NULL);
	assert_null(q.s);
	assert_int_equal(q.se.code, -EKEYREJECTED);
	tls_ctx_free(q.cctx);
	part(&q);
	end_pair(&p);
}

/* Clients with these certificates are accepted by their key, but get no subject. */
static void not_vouched_for(void **state)
{
	static const struct what expired = { .cn = "alice", .o = "Example", .expired = true };
	static const struct what server = { .cn = "alice", .o = "Example", .usage = "serverAuth" };
	static const struct what nameless = { .cn = NULL };
	const struct { const struct what *w; const char *issuer; EVP_PKEY *by; } cases[] = {
		{ &alice, "ca", other_key },    /* names the CA, but is signed with another key */
		{ &alice, "alice", key },       /* self-signed */
		{ &expired, "ca", ca_key },
		{ &server, "ca", ca_key },      /* not made for clients */
		{ &nameless, "ca", ca_key },
	};
	char cert[128], *pin = own_pin();
	struct proof f;

	in_dir(cert, "other.pem");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct err e = ERR_INIT;
		struct pair p;

		write_cert(cert, cases[i].w, key, cases[i].issuer, cases[i].by);
		make_pair(&p, ca_file, true, cert);
		assert_known(p.s, cert, NULL);
		assert_int_equal(tls_peer_validity(p.s, &e),
				 cases[i].w->expired ? -EKEYEXPIRED : 0);
		take_proof(&f, p.s);
		assert_int_equal(check_proof(&p, &f, pin),
				 cases[i].w->expired ? -EKEYEXPIRED : 0);
		if (!cases[i].w->expired)
			assert_proven(&p, cert, NULL);
		end_pair(&p);
	}
	free(pin);
}

/* Characters that separate or end parts of a name are escaped. */
static void odd_names(void **state)
{
	static const struct what odd = { .cn = "a,O=b\n", .o = "E+x" };
	char cert[128];
	struct pair p;

	write_cert(in_dir(cert, "odd.pem"), &odd, key, "ca", ca_key);
	make_pair(&p, ca_file, true, cert);
	assert_known(p.s, cert, "CN=a\\,O=b\\0A,O=E\\+x");
	end_pair(&p);
}

/* With every type of key that TLS supports, and with a HelloRetryRequest. */
static void all_keys(void **state)
{
	const struct { const char *type, *name; unsigned bits; } kinds[] = {
		{ "EC", "P-256", 0 }, { "EC", "P-384", 0 }, { "EC", "P-521", 0 }, { "ED25519", NULL, 0 },
		{ "ED448", NULL, 0 }, { "RSA", NULL, 2048 }, { "RSA-PSS", NULL, 2048 },
	};
	char cert[128], file[128];

	in_dir(cert, "kind.pem");
	in_dir(file, "kind-key.pem");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct pair p = { .sctx = NULL };
		struct err e = ERR_INIT;
		EVP_PKEY *own = kinds[i].bits ? NULL :
			EVP_PKEY_Q_keygen(NULL, NULL, kinds[i].type, kinds[i].name);
		EVP_PKEY_CTX *c = EVP_PKEY_CTX_new_from_name(NULL, kinds[i].type, NULL);

		if (kinds[i].bits) {
			assert_int_equal(EVP_PKEY_keygen_init(c), 1);
			assert_int_equal(EVP_PKEY_CTX_set_rsa_keygen_bits(c, 2048), 1);
			assert_int_equal(EVP_PKEY_generate(c, &own), 1);
		}
		EVP_PKEY_CTX_free(c);
		assert_non_null(own);
		write_cert(cert, &alice, own, "ca", ca_key);
		write_key(file, own);
		p.sctx = tls_server_new(server_cert, server_key, &e);
		p.cctx = tls_client_new(NULL, &e);
		tls_keep_proofs(p.sctx);
		assert_int_equal(ask_client(p.sctx, ca_file, &e), 0);
		assert_int_equal(tls_use_certificate(p.cctx, cert, file, &e), 0);
		if (i % 2) /* causes a HelloRetryRequest */
			assert_true(SSL_CTX_set1_groups_list(p.cctx->ctx, "X25519:P-256") == 1 &&
				    SSL_CTX_set1_groups_list(p.sctx->ctx, "P-256") == 1);
		if (i % 3 == 0)
			SSL_CTX_set_ciphersuites(p.cctx->ctx, "TLS_CHACHA20_POLY1305_SHA256");
		shake(&p);
		assert_proven(&p, cert, "CN=alice,O=Example");
		end_pair(&p);
		EVP_PKEY_free(own);
	}
}

/* Changing, removing or adding a byte makes the proof invalid. */
static void no_byte_of_a_proof_can_change(void **state)
{
	char cert[128], *server = own_pin();
	struct err e = ERR_INIT;
	struct proof f, g;
	struct pair p;

	write_cert(in_dir(cert, "alice.pem"), &alice, key, "ca", ca_key);
	make_pair(&p, ca_file, true, cert);
	take_proof(&f, p.s);
	assert_int_equal(check_proof(&p, &f, server), 0);
	for (ssize_t i = 0; i < f.len; i++) {
		int rc;

		f.bytes[i] ^= (uint8_t)(1 << i % 8);
		rc = check_proof(&p, &f, server);
		assert_true(rc == -EKEYREJECTED || rc == -EBADMSG);
		f.bytes[i] ^= (uint8_t)(1 << i % 8);
		g = (struct proof){ .len = i };
		memcpy(g.bytes, f.bytes, (size_t)i);
		assert_int_equal(check_proof(&p, &g, server), -EBADMSG);
	}
	g = f;
	g.len++;
	assert_int_equal(check_proof(&p, &g, server), -EBADMSG);
	free(server);
	server = tls_certificate_pin(cert, &e);
	assert_int_equal(check_proof(&p, &f, server), -EKEYREJECTED);
	assert_int_equal(check_proof(&p, &f, ""), -EKEYREJECTED);
	free(server);
	end_pair(&p);
}

static void not_all_can_be_proven(void **state)
{
	static char comment[61000]; /* the certificate must still fit into a ticket */
	const struct what big = { .cn = "alice", .comment = comment };
	struct pair p = { .sctx = NULL };
	uint8_t room[TLS_PROOF_MAX];
	struct err e = ERR_INIT;
	char cert[128];

	memset(comment, 'x', sizeof(comment) - 1);
	write_cert(in_dir(cert, "alice.pem"), &big, key, "ca", ca_key);
	make_pair(&p, ca_file, true, cert);
	assert_int_equal(tls_proof(p.s, room), -EMSGSIZE);
	end_pair(&p);

	write_cert(in_dir(cert, "alice.pem"), &alice, key, "ca", ca_key);
	p = (struct pair){ .sctx = tls_server_new(server_cert, server_key, &e),
			   .cctx = tls_client_new(NULL, &e) };
	SSL_CTX_set_min_proto_version(p.cctx->ctx, TLS1_2_VERSION);
	SSL_CTX_set_min_proto_version(p.sctx->ctx, TLS1_2_VERSION);
	tls_keep_proofs(p.sctx);
	assert_int_equal(ask_client(p.sctx, ca_file, &e), 0);
	assert_int_equal(tls_use_certificate(p.cctx, cert, key_file, &e), 0);
	SSL_CTX_set_max_proto_version(p.cctx->ctx, TLS1_2_VERSION);
	shake(&p);
	assert_int_equal(tls_proof(p.s, room), -EOPNOTSUPP);
	end_pair(&p);
}

static void bad_files(void **state)
{
	char cert[128], wrong[128], open_key[128], both[128], none[128];
	struct err e = ERR_INIT;
	struct tls_ctx *c = tls_client_new(NULL, &e);
	char command[1024];

	write_cert(in_dir(cert, "alice.pem"), &alice, key, "ca", ca_key);
	write_key(in_dir(wrong, "wrong.pem"), other_key);
	write_key(in_dir(open_key, "open.pem"), key);
	assert_int_equal(chmod(open_key, 0640), 0);
	snprintf(command, sizeof(command), "cat %s %s >%s; chmod 600 %s", cert, key_file,
		 in_dir(both, "both.pem"), both);
	assert_int_equal(system(command), 0);
	in_dir(none, "none.pem");

	assert_int_equal(tls_use_certificate(c, both, NULL, &e), 0);
	assert_true(tls_use_certificate(c, cert, wrong, &e) < 0);
	assert_non_null(strstr(e.text, "does not fit"));
	assert_true(tls_use_certificate(c, cert, open_key, &e) < 0);
	assert_non_null(strstr(e.text, "chmod 600"));
	assert_true(tls_use_certificate(c, cert, NULL, &e) < 0);
	assert_true(tls_use_certificate(c, none, key_file, &e) < 0);
	assert_non_null(strstr(e.text, "none.pem"));
	assert_true(tls_use_certificate(c, key_file, key_file, &e) < 0);
	assert_non_null(strstr(e.text, "no certificate"));
	assert_true(ask_client(c, none, &e) < 0);
	assert_true(ask_client(c, key_file, &e) < 0);
	tls_ctx_free(c);
}

static void pins(void **state)
{
	static const struct { const char *text; bool is; } table[] = {
		{ "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", true },
		{ "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", false },
		{ "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", false },
		{ "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", false },
		{ "sha256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", false },
		{ "SHA256:", false }, { "", false },
	};
	struct err e = ERR_INIT;
	char *own = tls_certificate_pin(server_cert, &e);

	assert_true(tls_is_pin(own));
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		assert_int_equal(tls_is_pin(table[i].text), table[i].is);
	free(own);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(none_is_well),
		cmocka_unit_test(nobody_asks),
		cmocka_unit_test(vouched_for),
		cmocka_unit_test(resumed),
		cmocka_unit_test(data_by_certificate),
		cmocka_unit_test(not_vouched_for),
		cmocka_unit_test(odd_names),
		cmocka_unit_test(all_keys),
		cmocka_unit_test(no_byte_of_a_proof_can_change),
		cmocka_unit_test(not_all_can_be_proven),
		cmocka_unit_test(bad_files),
		cmocka_unit_test(pins),
	};

	return cmocka_run_group_tests_name("certificates of clients", tests, group_setup,
					   group_teardown);
}
