// SPDX-License-Identifier: Apache-2.0
/* Digests that a foreign server computes: HASH (draft-bryan-ftp-ext-hash), or the older verbs
 * with an algorithm each. */
#include "control/client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* It takes as long as it takes to read a file, but an answer that is lost never comes. */
enum { DIGEST_MS = 60 * 60 * 1000 };

static const struct verb {
	unsigned what;
	const char *verb, *alg;
	size_t hex;       /* digits of the digest */
} verbs[] = {
	{ FTP_HAS_XSHA256, "XSHA256", "SHA-256", 64 },
	{ FTP_HAS_XSHA512, "XSHA512", "SHA-512", 128 },
	{ FTP_HAS_XSHA1, "XSHA1", "SHA-1", 40 },
	{ FTP_HAS_XMD5, "XMD5", "MD5", 32 },
};

/* Is alg among HASH's names, as FEAT lists them: "SHA-256*;SHA-1;MD5"? */
static bool hash_knows(const struct ftp_client *c, const char *alg)
{
	size_t len = strlen(alg);

	for (const char *at = c->digests; *at; at += strspn(at, ";* ")) {
		size_t n = strcspn(at, ";* ");

		if (n == len && !strncasecmp(at, alg, n))
			return true;
		at += n;
	}
	return false;
}

/* The one word of the reply that is as many hex digits as the digest has. */
static int find_hex(const struct ftp_client *c, size_t digits, char *hex, struct err *e)
{
	for (const char *at = c->reply.text; *at; at += strspn(at, " \n")) {
		size_t n = strcspn(at, " \n");

		if (n == digits && strspn(at, "0123456789abcdefABCDEF") >= n) {
			for (size_t i = 0; i < n; i++)
				hex[i] = (char)(at[i] | (at[i] >= 'A' ? 0x20 : 0));
			hex[n] = '\0';
			return 0;
		}
		at += n;
	}
	return err_set(e, -EBADMSG, "%s: its answer is no digest: %s", c->host,
		       printable(c->reply.text));
}

static int simple(struct ftp_client *c, const char *verb, const char *arg, const char *path,
		  struct err *e)
{
	int code = client_send_word(c, verb, arg, path, e);

	if (code == 0)
		code = client_final_reply(c, DIGEST_MS, e);
	if (code < 0)
		return code;
	return code / 100 == 2 ? 0 : client_refused(c, e);
}

/* HASH has its algorithm and its range by OPTS and RANG. */
static int by_hash(struct ftp_client *c, const char *path, const struct verb *v, uint64_t len,
		   char *hex, struct err *e)
{
	char arg[64];
	int code, rc;

	snprintf(arg, sizeof(arg), "HASH %s", v->alg);
	rc = simple(c, "OPTS", arg, NULL, e);
	if (rc == 0 && len != UINT64_MAX) {
		snprintf(arg, sizeof(arg), "0 %" PRIu64, len - 1);
		code = client_word(c, "RANG", arg, false, e);
		rc = code < 0 ? code : code / 100 > 3 ? client_refused(c, e) : 0;
	}
	if (rc == 0)
		rc = simple(c, "HASH", path, path, e);
	if (rc == 0)
		rc = find_hex(c, v->hex, hex, e);
	/* It would hold for the next file, too, and for more than digests. */
	if (len != UINT64_MAX && !c->lost && client_word(c, "RANG", "1 0", false, NULL) < 0)
		c->lost = true;
	return rc;
}

/* XSHA256 and its like: the path, then where to start and end. Only a path with blanks has
 * quotes. */
static int by_verb(struct ftp_client *c, const char *path, const struct verb *v, uint64_t len,
		   char *hex, struct err *e)
{
	CLEANUP_FREE char *whole = client_absolute(c, path);
	CLEANUP_FREE char *arg = NULL;
	const char *quote = whole && strchr(whole, ' ') ? "\"" : "";
	int rc;

	if (whole && len == UINT64_MAX)
		rc = asprintf(&arg, "%s%s%s", quote, whole, quote);
	else
		rc = whole ? asprintf(&arg, "%s%s%s 0 %" PRIu64, quote, whole, quote, len) : -1;
	if (rc < 0) {
		arg = NULL;
		return err_sys(e, -ENOMEM, "digest");
	}
	rc = simple(c, v->verb, arg, NULL, e);
	return rc ? rc : find_hex(c, v->hex, hex, e);
}

int ftp_digest(struct ftp_client *c, const char *path, const char **alg, uint64_t len,
	       char hex[2 * DIGEST_MAX + 1], struct err *e)
{
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		const struct verb *v = &verbs[i];
		bool hash = (c->has & FTP_HAS_HASH) && hash_knows(c, v->alg);
		bool own = c->has & v->what;

		if ((*alg && strcasecmp(*alg, v->alg)) || (!hash && !own))
			continue;
		*alg = v->alg;
		/* What says its range itself leaves nothing behind. */
		hash &= !own || len == UINT64_MAX;
		return hash ? by_hash(c, path, v, len, hex, e) : by_verb(c, path, v, len, hex, e);
	}
	if (*alg)
		return err_set(e, -EOPNOTSUPP, "%s computes no %s digests (neither by HASH nor by "
			       "an X command)", c->host, *alg);
	return err_set(e, -EOPNOTSUPP, "%s computes no digests (neither by HASH nor by an X "
		       "command)", c->host);
}
