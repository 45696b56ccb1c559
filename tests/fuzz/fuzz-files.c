// SPDX-License-Identifier: Apache-2.0
/* Input: a text file, parsed as each of the files that users write: known_hosts, a netrc, the users
 * file, the map of certificates, rftp.conf, rftpd.conf. */
#include "client/credentials.h"
#include "client/options.h"
#include "crypto/crypto.h"
#include "server/auth/auth.h"

#include "tests/support/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void take_known_hosts(const char *file)
{
	struct err e = ERR_INIT;
	struct known_answer a;

	if (known_hosts_check(file, "host", 7321, "pin", &a, &e)) {
		MUST(e.text[0]);
		return;
	}
	MUST((a.kind == HOST_CHANGED) == (a.line > 0));
	MUST(a.kind != HOST_CHANGED || (a.pin[0] && strcmp(a.pin, "pin")));
}

static void take_netrc(const char *text, const char *user)
{
	struct err e = ERR_INIT;
	struct login l;
	struct netrc_server server = { "host", 7321, true, user };
	int r = netrc_parse("netrc", text, &server, &l, &e);

	MUST(r >= 0 || e.text[0]);
	MUST((r == 1) == (l.user || l.password));
	MUST(r != 1 || !user || !l.user || !strcmp(l.user, user));
	login_clear(&l);
}

static void take_users(const char *text, const char *file)
{
	char *copy = strdup(text), *rest = copy;
	struct err e = ERR_INIT;

	users_verify(file, NULL, NULL, &e);
	for (char *line; (line = strsep(&rest, "\n"));) {
		struct user u;
		int r = user_parse(line, &u, &e);

		if (r == 1) {
			MUST(u.name[0] && strlen(u.name) < 64 && u.home[0] == '/');
			MUST(!u.root[0] || u.root[0] == '/');
			MUST(u.rights >= RIGHTS_RO && u.rights <= RIGHTS_UPLOAD);
			MUST(!u.system_user || u.system_user[0]);
		}
		user_clear(&u);
	}
	free(copy);
}

static void take_certs(const char *text, const char *file)
{
	char *copy = strdup(text), *rest = copy;
	struct err e = ERR_INIT;

	certs_verify(file, true, &e);
	for (char *line; (line = strsep(&rest, "\n"));) {
		struct cert_line c;
		int r = cert_line_parse(line, &c, &e);

		if (r == 1) {
			MUST(c.user[0] && strlen(c.user) < 64 && !strpbrk(c.user, " \t\r\n"));
			MUST(!c.pin != !c.subject && (!c.pin || tls_is_pin(c.pin)));
			MUST(!c.subject || c.subject[0]);
		}
		cert_line_clear(&c);
	}
	free(copy);
}

/* Each value set by a file must be within the limits of the option table. */
static void check_options(const struct options *o)
{
	for (const struct option_def *d = rftp_options; d->name || d->help; d++) {
		const void *at = (const char *)o + d->at;
		unsigned words = 0;

		if (!d->name || !option_given(o, d->name))
			continue;
		while (d->words && d->words[words])
			words++;
		if (d->kind == &option_choice)
			MUST(*(const unsigned *)at < words);
		if (d->kind == &option_number)
			MUST(*(const unsigned *)at >= d->low && *(const unsigned *)at <= d->high);
		if (d->kind == &option_size)
			MUST(*(const uint64_t *)at >= d->low &&
			     (!d->high || *(const uint64_t *)at <= d->high));
	}
}

static void take_conf(const char *file, const char *host)
{
	struct err e = ERR_INIT;
	struct options o;

	options_default(&o);
	if (conf_load(file, &(struct url){ .host = (char *)host }, &o, &e))
		MUST(e.text[0]);
	else
		check_options(&o);
	options_clear(&o);
}

static void drop(void *arg, const void *record, size_t len)
{
	MUST(len && len <= LOG_RECORD_MAX);
}

/* Loading the shown settings must give the same settings again. */
static void show_again(const struct srv_options *o)
{
	char *first = NULL, *second = NULL, shown[64];
	char *argv[] = { (char *)"rftpd", (char *)"--config", shown };
	struct err e = ERR_INIT;
	struct srv_options again;
	size_t len, len2;
	FILE *out = open_memstream(&first, &len);
	int fd = memfd_create("shown", MFD_CLOEXEC);

	srv_options_show(out, o);
	fclose(out);
	MUST(fd >= 0 && write(fd, first, len) == (ssize_t)len);
	snprintf(shown, sizeof(shown), "/proc/self/fd/%d", fd);
	MUST(!srv_options_load(&again, 3, argv, &e));
	out = open_memstream(&second, &len2);
	srv_options_show(out, &again);
	fclose(out);
	MUST(len == len2 && !memcmp(first, second, len));
	srv_options_clear(&again);
	close(fd);
	free(first);
	free(second);
}

static void take_server_conf(char *file)
{
	char *argv[] = { (char *)"rftpd", (char *)"--config", file };
	struct err e = ERR_INIT;
	struct srv_options o;

	log_set_level(LOG_LV_ERROR);
	log_set_sink(drop, NULL);
	if (srv_options_load(&o, 3, argv, &e))
		MUST(e.text[0]);
	else
		show_again(&o);
	srv_options_clear(&o);
	log_set_sink(NULL, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size), file[64];
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	MUST(fd >= 0 && !fchmod(fd, 0600) && write(fd, data, size) == (ssize_t)size);
	snprintf(file, sizeof(file), "/proc/self/fd/%d", fd);
	take_known_hosts(file);
	take_netrc(text, NULL);
	take_netrc(text, "joe");
	take_users(text, file);
	take_certs(text, file);
	take_conf(file, NULL);
	take_conf(file, "host");
	take_server_conf(file);
	close(fd);
	free(text);
	return 0;
}
