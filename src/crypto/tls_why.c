// SPDX-License-Identifier: Apache-2.0
/* Why a TLS handshake failed, in words that tell what to do. */
#include "crypto/tls_priv.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <openssl/x509_vfy.h>
#include <string.h>

const char *openssl_reason(void)
{
	unsigned long code = ERR_peek_last_error();
	const char *text = code ? ERR_reason_error_string(code) : NULL;

	ERR_clear_error();
	return text ? text : "no reason given";
}

/* RFC 8446 §5.1: a record begins with its type, 20 to 23, and 3 for its version. */
static bool looks_like_tls(const struct wire *w)
{
	if (w->nfirst > 0 && (w->first[0] < 20 || w->first[0] > 23))
		return false;
	return w->nfirst < 2 || w->first[1] == 3;
}

static int not_tls(struct tls *t, struct err *e)
{
	char said[WIRE_FIRST + 1];

	memcpy(said, t->wire.first, t->wire.nfirst);
	said[t->wire.nfirst] = '\0';
	said[strcspn(said, "\r\n")] = '\0';
	return err_set(e, -EPROTO, "the peer does not speak TLS (it sent: \"%s\")",
		       printable(said));
}

/* What can be done about it. */
static const char *advice(long why)
{
	switch (why) {
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		return "; call the server by a name that the certificate is for";
	case X509_V_ERR_CERT_HAS_EXPIRED:
		return "; it must be renewed, or the clock here is wrong";
	case X509_V_ERR_CERT_NOT_YET_VALID:
		return "; the clock here or there is wrong";
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
		return "; it is of no authority that is trusted here";
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
		return "; it is of no authority that is trusted here, or the server leaves "
		       "those in between out of its certificate file";
	default:
		return "";
	}
}

static int check_failed(struct tls *t, struct err *e)
{
	long why = SSL_get_verify_result(t->ssl);

	return err_set(e, -EKEYREJECTED, "the peer's certificate failed the check: %s%s",
		       X509_verify_cert_error_string(why), advice(why));
}

static int no_tls13(struct err *e)
{
	return err_set(e, -EPROTONOSUPPORT,
		       "the peer does not speak TLS 1.3, and nothing older is accepted");
}

/* Alerts that a peer of the same settings sends only when bytes changed on the way. A damaged list
 * of groups or ciphers looks like one without a common choice. */
static bool tells_of_damage(int reason)
{
	switch (reason) {
	case SSL_R_SSLV3_ALERT_BAD_RECORD_MAC:
	case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
	case SSL_R_SSLV3_ALERT_UNEXPECTED_MESSAGE:
	case SSL_R_TLSV1_ALERT_DECODE_ERROR:
	case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
	case SSL_R_TLSV1_ALERT_RECORD_OVERFLOW:
	case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
	case SSL_R_TLSV13_ALERT_MISSING_EXTENSION:
	case SSL_R_TLSV1_UNSUPPORTED_EXTENSION:
		return true;
	default:
		return false;
	}
}

/* The peer's reason reaches us as an alert, RFC 8446 §6.2. */
static int refused_by_peer(int reason, struct err *e)
{
	const char *text;

	if (reason == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION)
		return no_tls13(e);
	text = ERR_reason_error_string(ERR_peek_last_error());
	return err_set(e, tells_of_damage(reason) ? -EBADMSG : -EPROTO,
		       "the peer refused the TLS handshake: %s", text ? text : "unknown alert");
}

static int openssl_why(struct tls *t, struct err *e)
{
	int reason = ERR_GET_REASON(ERR_peek_last_error());

	if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
		return check_failed(t, e);
	if (reason == SSL_R_UNSUPPORTED_PROTOCOL)
		return no_tls13(e);
	if (reason > SSL_AD_REASON_OFFSET)
		return refused_by_peer(reason, e);
	/* Records that cannot be decoded or opened: bytes changed on the way. */
	return err_set(e, reason == SSL_R_WRONG_VERSION_NUMBER ? -EPROTO : -EBADMSG,
		       "the TLS handshake failed: %s", openssl_reason());
}

static int timed_out(struct tls *t, int timeout_ms, struct err *e)
{
	return err_set(e, -ETIMEDOUT, "the TLS handshake did not finish within %g s: %s",
		       timeout_ms / 1000.0,
		       t->wire.nfirst > 0 ? "the peer fell silent" :
					    "the peer sent nothing (does it speak TLS?)");
}

int tls_why(struct tls *t, int code, int timeout_ms, struct err *e)
{
	int r;

	if (!looks_like_tls(&t->wire))
		r = not_tls(t, e);
	else if (code == -ETIMEDOUT)
		r = timed_out(t, timeout_ms, e);
	else if (code == -EPIPE)
		r = err_set(e, code, "the peer closed the connection during the TLS handshake");
	else if (ERR_peek_last_error() != 0)
		r = openssl_why(t, e);
	else
		r = err_sys(e, code, "the TLS handshake failed");
	ERR_clear_error();
	return r;
}
