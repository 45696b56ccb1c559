// SPDX-License-Identifier: Apache-2.0
/* Input: a text file, taken as each of those that people write: known_hosts, a netrc, the
 * users file, rftp.conf. */
#include "client/conf.h"
#include "client/known_hosts.h"
#include "client/passwords.h"
#include "server/users.h"

#include "tests/support/fuzz.h"

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
	MUST((a.what == HOST_CHANGED) == (a.line > 0));
	MUST(a.what != HOST_CHANGED || (a.pin[0] && strcmp(a.pin, "pin")));
}

static void take_netrc(const char *text, const char *user)
{
	struct err e = ERR_INIT;
	struct login l;
	int r = netrc_parse("netrc", text, "host", user, &l, &e);

	MUST(r >= 0 || e.text[0]);
	MUST((r == 1) == (l.user || l.password));
	MUST(r != 1 || !user || !l.user || !strcmp(l.user, user));
	login_clear(&l);
}

static void take_users(const char *text, const char *file)
{
	char *copy = strdup(text), *rest = copy;
	struct err e = ERR_INIT;

	users_verify(file, &e);
	for (char *line; (line = strsep(&rest, "\n"));) {
		struct user u;
		int r = user_parse(line, &u, &e);

		if (r == 1) {
			MUST(u.name[0] && strlen(u.name) < 64 && u.home[0] == '/');
			MUST(!u.root[0] || u.root[0] == '/');
			MUST(u.can_write || !u.can_delete);
		}
		user_clear(&u);
	}
	free(copy);
}

/* What a file has set lies where the table of options says that it may. */
static void check_options(const struct options *o)
{
	for (const struct option_def *d = option_table(); d->name || d->help; d++) {
		const void *at = (const char *)o + d->at;
		int words = 0;

		if (!d->name || !option_given(o, d->name))
			continue;
		while (d->choices && d->choices[words])
			words++;
		if (d->type == OPT_CHOICE)
			MUST(*(const int *)at >= 0 && *(const int *)at < words);
		if (d->type == OPT_UINT || d->type == OPT_SIZE)
			MUST(*(const uint64_t *)at >= d->low &&
			     (!d->high || *(const uint64_t *)at <= d->high));
	}
}

static void take_conf(const char *file, const char *host)
{
	struct err e = ERR_INIT;
	struct options o;

	options_default(&o);
	if (conf_load(file, host, &o, &e))
		MUST(e.text[0]);
	else
		check_options(&o);
	options_clear(&o);
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
	take_conf(file, NULL);
	take_conf(file, "host");
	close(fd);
	free(text);
	return 0;
}
