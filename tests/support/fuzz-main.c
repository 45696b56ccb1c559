// SPDX-License-Identifier: Apache-2.0
/* main() of the fuzz targets without libFuzzer: runs LLVMFuzzerTestOneInput once for each named
 * file, and for each file of each named directory. */
#include "tests/support/fuzz.h"

#include "util/util.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define INPUT_MAX (64u << 20)

static int run_file(const char *path)
{
	char *data;
	uint8_t *exact;
	size_t len;
	int r = read_file(path, INPUT_MAX, &data, &len);

	if (r < 0) {
		fprintf(stderr, "%s: %s\n", path, strerror(-r));
		return 1;
	}
	/* Without the final NUL, so that a sanitizer reports reads beyond the end. */
	exact = malloc(len ? len : 1);
	if (!exact)
		abort();
	memcpy(exact, data, len);
	free(data);
	LLVMFuzzerTestOneInput(exact, len);
	free(exact);
	return 0;
}

static int run(const char *path);

static int run_directory(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *d;
	int failed = 0;

	if (!dir) {
		perror(path);
		return 1;
	}
	while ((d = readdir(dir))) {
		char *name = NULL;

		if (d->d_name[0] == '.')
			continue;
		if (asprintf(&name, "%s/%s", path, d->d_name) < 0)
			abort();
		failed |= run(name);
		free(name);
	}
	closedir(dir);
	return failed;
}

static int run(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0) {
		perror(path);
		return 1;
	}
	return S_ISDIR(st.st_mode) ? run_directory(path) : run_file(path);
}

int main(int argc, char **argv)
{
	int failed = 0;

	for (int i = 1; i < argc; i++)
		failed |= run(argv[i]);
	return failed;
}
