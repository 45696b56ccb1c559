/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a file to or from an rftpd server, and compares the digests of both:
 *
 *	cc -o librftp-example librftp-example.c $(pkg-config --cflags --libs librftp)
 *	./librftp-example put FILE rftp://user@host/path
 *	./librftp-example get rftp://user@host/path FILE
 *
 * The password comes from ~/.netrc; RFTP_EXAMPLE_ACCEPT_NEW=yes trusts an unknown server. ^C stops
 * the transfer, and the same command resumes it. */
#include <rftp.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_progress(void *arg, const struct rftp_progress *p)
{
	(void)arg;
	fprintf(stderr, "%llu of %llu bytes, %.1f s\n", (unsigned long long)p->bytes,
		(unsigned long long)p->bytes_known, p->seconds);
}

/* Another thread may cancel. A signal handler may not: it takes a lock. */
static void *wait_for_interrupt(void *arg)
{
	sigset_t set;
	int sig;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigwait(&set, &sig);
	rftp_cancel(arg);
	return NULL;
}

static int failed(const char *what, const struct rftp *r)
{
	fprintf(stderr, "%s: %s\n", what, rftp_error(r));
	return 1;
}

int main(int argc, char **argv)
{
	int put = argc == 4 && !strcmp(argv[1], "put");
	const char *url = put ? argv[3] : argv[2], *accept = getenv("RFTP_EXAMPLE_ACCEPT_NEW");
	struct rftp_stat st;
	struct rftp *r;
	char hex[129];
	pthread_t t;
	sigset_t set;
	int rc;

	if (argc != 4 || (!put && strcmp(argv[1], "get"))) {
		fprintf(stderr, "usage: %s put FILE URL | get URL FILE\n", argv[0]);
		return 2;
	}
	r = rftp_new();
	if (!r)
		return 1;

	/* Blocked in all threads, for the one that waits for it. */
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	pthread_create(&t, NULL, wait_for_interrupt, r);
	pthread_detach(t);

	if (accept && rftp_set(r, "accept-new", accept))
		return failed("accept-new", r);
	rftp_set_progress(r, on_progress, NULL);
	if (rftp_open(r, url))
		return failed(url, r);

	if (put)
		rc = rftp_put(r, argv[2], rftp_path(r), 0);
	else
		rc = rftp_get(r, rftp_path(r), argv[3], 0);
	if (rc == -ECANCELED)
		return failed("stopped; the same command resumes", r);
	if (rc)
		return failed("not copied", r);

	if (!rftp_stat(r, rftp_path(r), &st) &&
	    !rftp_checksum(r, rftp_path(r), "sha256", hex, sizeof(hex)))
		printf("%llu bytes, SHA-256 %s\n", (unsigned long long)st.size, hex);
	rftp_free(r);
	return 0;
}
