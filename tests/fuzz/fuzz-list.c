// SPDX-License-Identifier: Apache-2.0
/* Input: a listing, one line per entry; each line is also parsed as a reply to PASV. */
#include "proto/proto.h"

#include "tests/support/fuzz.h"

#include <string.h>

static void take_line(const char *line)
{
	struct ftp_facts f;
	int rc = ftp_list_parse(line, 1718452800, &f);

	MUST(rc <= 1);
	MUST((rc == 1) == (f.name != NULL));
	if (rc == 1) {
		MUST(*f.name && strlen(f.name) < strlen(line));
		MUST(strchr("fdlo", f.type));
		MUST(f.mode <= 07777);
		MUST(!f.has_size || f.size <= INT64_MAX);
		MUST(!f.target || f.type == 'l');
		ftp_facts_clear(&f);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size);
	char *save = text;

	for (char *line; (line = strsep(&save, "\n"));)
		take_line(line);
	free(text);
	return 0;
}
