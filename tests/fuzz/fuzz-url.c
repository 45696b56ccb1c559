// SPDX-License-Identifier: Apache-2.0
/* Input: lines, each parsed as a location on the command line (a URL, host:path, a local path or
 * one of the special words), and as percent-encoded text, in which a server sends names. */
#include "util/util.h"

#include "tests/support/fuzz.h"

#include <string.h>

static void take_place(const char *word)
{
	struct err e = ERR_INIT;
	struct url p;

	if (url_parse(word, &p, &e)) {
		MUST(e.text[0] && !p.user && !p.host && !p.path);
		return;
	}
	MUST(p.path);
	MUST(url_is_remote(&p) == !!p.host);
	/* No value that ssh would take as an option. */
	MUST(!p.host || (*p.host && *p.host != '-'));
	MUST(p.kind != URL_SSH || !p.user || (*p.user && *p.user != '-'));
	url_clear(&p);
}

static void take_percent(const char *text)
{
	char *plain, *coded, *again;

	if (percent_decode(text, &plain))
		return;
	coded = percent_encode(plain);
	MUST(coded && !strpbrk(coded, "\r\n "));
	MUST(!percent_decode(coded, &again));
	MUST(!strcmp(plain, again));
	free(again);
	free(coded);
	free(plain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size), *rest = text;

	for (char *line; (line = strsep(&rest, "\n"));) {
		take_place(line);
		take_percent(line);
	}
	free(text);
	return 0;
}
