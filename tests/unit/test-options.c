// SPDX-License-Identifier: Apache-2.0
/* The options of rftp: the table, the command line, rftp.conf, and their precedence. */
#include "client/options.h"
#include "proto/proto.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void test_table_is_sound(void **state)
{
	const struct option_def *def, *other;

	for (def = rftp_options; def->name || def->help; def++) {
		assert_non_null(def->help);
		if (!def->name)
			continue;
		assert_true(def->where & ON_ALL);
		assert_ptr_equal(option_find(rftp_options, def->name), def);
		if (def->letter)
			assert_ptr_equal(option_letter(rftp_options, def->letter, def->where & ON_ALL), def);
		for (other = def + 1; other->name || other->help; other++)
			if (other->name)
				assert_string_not_equal(def->name, other->name);
	}
	assert_null(option_find(rftp_options, ""));
	assert_null(option_find(rftp_options, "bloc"));
	assert_null(option_letter(rftp_options, '\0', ON_LS));
}

static int set(struct options *o, const char *name, const char *value)
{
	const struct option_target t = options_target(o);
	struct err e = ERR_INIT;
	int rc = option_set(&t, option_find(rftp_options, name), value, OPTION_ARGV, &e);

	assert_true((rc == 0) == (e.text[0] == '\0'));
	return rc;
}

static void test_values(void **state)
{
	static const struct {
		const char *name, *value;
		int rc;
	} cases[] = {
		{ "block", "1M", 0 }, { "block", "64K", 0 }, { "block", "64M", 0 },
		{ "block", "65535", -EINVAL }, { "block", "65M", -EINVAL },
		{ "block", "1X", -EINVAL }, { "block", NULL, -EINVAL },
		{ "channels", "1", 0 }, { "channels", "256", 0 },
		{ "channels", "0", -EINVAL }, { "channels", "257", -EINVAL },
		{ "channels", "1K", -EINVAL },
		{ "rate", "10Gbit", 0 }, { "rate", "fast", -EINVAL },
		{ "connect-timeout", "200ms", 0 }, { "connect-timeout", "0", -EINVAL },
		{ "connect-timeout", "2h", -EINVAL },
		{ "prot", "clear", 0 }, { "prot", "Clear", -EINVAL }, { "prot", "", -EINVAL },
		{ "crc", "off", 0 }, { "crc", "maybe", -EINVAL },
		{ "poll", "never", 0 }, { "poll", "often", -EINVAL },
		{ "tos", "ef", 0 }, { "tos", "255", 0 }, { "tos", "256", -EINVAL },
		{ "tos", "best", -EINVAL },
		{ "json", NULL, 0 }, { "json", "no", 0 }, { "json", "2", -EINVAL },
		{ "verbose", NULL, 0 }, { "verbose", "2", 0 }, { "verbose", "9", -EINVAL },
	};
	struct options o;

	options_default(&o);
	for (size_t i = 0; i < COUNT(cases); i++)
		if (set(&o, cases[i].name, cases[i].value) != cases[i].rc)
			fail_msg("%s %s", cases[i].name, cases[i].value);
	options_clear(&o);
}

/* option_given() knows each option separately, also the last of the table. */
static void test_given(void **state)
{
	const struct option_def *def, *other;
	struct options o;

	for (def = rftp_options; def->name || def->help; def++) {
		if (!def->name || def->kind != &option_flag || def->arg)
			continue;
		options_default(&o);
		assert_int_equal(set(&o, def->name, NULL), 0);
		for (other = rftp_options; other->name || other->help; other++)
			if (other->name)
				assert_int_equal(option_given(&o, other->name), other == def);
		options_clear(&o);
	}
}

/* The error for a wrong value lists the allowed values in the form a user would type. */
static void test_errors_name_the_values(void **state)
{
	static const struct {
		const char *name, *value, *text;
	} cases[] = {
		{ "block", "1K", "must be a size from 64K to 64M, not \"1K\"" },
		{ "block", "1G", "must be a size from 64K to 64M, not \"1G\"" },
		{ "channels", "0", "must be a number from 1 to 256, not \"0\"" },
		{ "channels", "257", "must be a number from 1 to 256, not \"257\"" },
		{ "inflight", "x", "must be a number from 2 to 65536, not \"x\"" },
		{ "memory", "1K", "must be a size of at least 1M, not \"1K\"" },
		{ "memory", "99999999999P", "\"99999999999P\" is too large" },
		{ "rate", "fast", "must be a rate such as 100M or 10Gbit, not \"fast\"" },
		{ "connect-timeout", "0", "must be a time from 100ms to 1h, not \"0\"" },
		{ "connect-timeout", "2h", "must be a time from 100ms to 1h, not \"2h\"" },
		{ "prot", "none", "must be clear, safe or private, not \"none\"" },
		{ "json", "2", "must be yes or no, not \"2\"" },
		{ "prot", NULL, "needs a value (clear|safe|private)" },
	};
	struct options o;
	const struct option_target t = options_target(&o);

	options_default(&o);
	for (size_t i = 0; i < COUNT(cases); i++) {
		const char *name = cases[i].name;
		struct err e = ERR_INIT;

		assert_int_equal(option_set(&t, option_find(rftp_options, name), cases[i].value,
					    OPTION_ARGV, &e), -EINVAL);
		assert_string_equal(e.text, cases[i].text);
	}
	options_clear(&o);
}

static void test_where_values_go(void **state)
{
	struct options o;

	options_default(&o);
	assert_int_equal(o.prot, PROT_PRIVATE);
	assert_int_equal(o.ack, ACK_SYNCED);
	assert_int_equal(o.policy, POLICY_OVERWRITE);
	assert_true(o.crc);
	assert_false(option_given(&o, "prot"));

	set(&o, "prot", "safe");
	set(&o, "ack", "written");
	set(&o, "transport", "tcp");
	set(&o, "op", "read");
	set(&o, "progress", "never");
	set(&o, "rate", "8Kbit");
	set(&o, "connect-timeout", "2s");
	set(&o, "crc", "off");
	set(&o, "update", NULL);
	set(&o, "both", NULL);
	set(&o, "verbose", NULL);
	set(&o, "verbose", NULL);
	assert_int_equal(o.prot, PROT_SAFE);
	assert_int_equal(o.ack, ACK_WRITTEN);
	assert_int_equal(o.transport, USE_TCP);
	assert_int_equal(o.op, USE_READ);
	assert_int_equal(o.progress, PROGRESS_NEVER);
	assert_int_equal(o.rate, 1000);
	assert_int_equal(o.connect_timeout, 2000000000);
	assert_false(o.crc);
	assert_int_equal(o.policy, POLICY_UPDATE);
	assert_int_equal(o.bench_way, WAY_BOTH);
	assert_int_equal(o.verbose, 2);
	assert_true(option_given(&o, "prot"));
	assert_false(option_given(&o, "json"));
	options_clear(&o);
}

/* Parses copies of the words, which are valid until the next call. */
static int parse(struct option_args *a, struct err *e, const char *const *words)
{
	static char copies[16][64], *argv[17];
	int n = 1;

	argv[0] = strcpy(copies[0], "rftp");
	for (; *words; words++, n++)
		argv[n] = strcpy(copies[n], *words);
	argv[n] = NULL;
	*e = (struct err)ERR_INIT;
	return options_parse(a, n, argv, e);
}

#define PARSE(a, e, ...) parse(a, e, (const char *const []){ __VA_ARGS__, NULL })

static void test_command_line(void **state)
{
	struct option_args a;
	struct err e;

	assert_int_equal(PARSE(&a, &e, "put", "-rv", "--block", "1M",
			       "x", "--prot=clear", "-",
			       "--", "-r", "--json"), 0);
	assert_int_equal(a.nwords, 5);
	assert_string_equal(a.words[0], "put");
	assert_string_equal(a.words[1], "x");
	assert_string_equal(a.words[2], "-");
	assert_string_equal(a.words[3], "-r");
	assert_string_equal(a.words[4], "--json");
	assert_null(a.words[5]);
	assert_int_equal(a.nsettings, 4);
	assert_string_equal(a.settings[0].def->name, "recursive");
	assert_string_equal(a.settings[1].def->name, "verbose");
	assert_string_equal(a.settings[2].def->name, "block");
	assert_string_equal(a.settings[2].value, "1M");
	assert_string_equal(a.settings[3].value, "clear");
	option_args_clear(&a);

	assert_int_equal(PARSE(&a, &e, "put", "--blok=1M"), -EINVAL);
	assert_non_null(strstr(e.text, "--blok (did you mean --block?)"));
	assert_int_equal(PARSE(&a, &e, "put", "-rZ"), -EINVAL);
	assert_non_null(strstr(e.text, "-Z"));

	/* A unique beginning is enough. */
	assert_int_equal(PARSE(&a, &e, "put", "--chan=3", "--dry"), 0);
	assert_string_equal(a.settings[0].def->name, "channels");
	assert_string_equal(a.settings[1].def->name, "dry-run");
	option_args_clear(&a);
	assert_int_equal(PARSE(&a, &e, "put", "--pro=3"), -EINVAL);
	assert_non_null(strstr(e.text, "--prot, --progress"));
	assert_int_equal(PARSE(&a, &e, "put", "--block"), -EINVAL);
}

/* The argument of a short option is the rest of its word, or the next word. */
static void test_letters_with_arguments(void **state)
{
	struct option_args a;
	struct err e;

	assert_int_equal(PARSE(&a, &e, "-kcls -l", "-b", "-", "-kb", "-k", "-vcv"), 0);
	assert_int_equal(a.nwords, 0);
	assert_int_equal(a.nsettings, 7);
	assert_string_equal(a.settings[0].def->name, "keep-going");
	assert_string_equal(a.settings[1].def->name, "command");
	assert_string_equal(a.settings[1].value, "ls -l");
	assert_string_equal(a.settings[2].def->name, "batch");
	assert_string_equal(a.settings[2].value, "-");
	assert_string_equal(a.settings[3].def->name, "keep-going");
	assert_string_equal(a.settings[4].def->name, "batch");
	assert_string_equal(a.settings[4].value, "-k");
	assert_string_equal(a.settings[5].def->name, "verbose");
	assert_string_equal(a.settings[6].value, "v");
	option_args_clear(&a);

	assert_int_equal(PARSE(&a, &e, "-kb"), -EINVAL);
	assert_non_null(strstr(e.text, "--batch needs a value"));
}

static const struct url none;

static void write_conf(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static char *temp_file(char *path)
{
	int fd;

	strcpy(path, "/tmp/test-options.XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	return path;
}

static void test_conf_sections(void **state)
{
	char path[64];
	struct options o;
	struct err e = ERR_INIT;

	write_conf(temp_file(path),
		   "prot safe\nretries = 7\n[host a.example]\nprot clear\n"
		   "[host *.lab]\nblock 2M\naccept-new yes\n");
	options_default(&o);
	assert_int_equal(conf_load(path, &none, &o, &e), 0);
	assert_int_equal(o.prot, PROT_SAFE);
	assert_int_equal(o.retries, 7);
	assert_int_equal(o.block, 0);
	options_clear(&o);

	options_default(&o);
	assert_int_equal(conf_load(path, &(struct url){ .host = (char *)"A.example" }, &o, &e), 0);
	assert_int_equal(o.prot, PROT_CLEAR);
	assert_false(o.accept_new);
	options_clear(&o);

	options_default(&o);
	assert_int_equal(conf_load(path, &(struct url){ .host = (char *)"x.lab" }, &o, &e), 0);
	assert_int_equal(o.prot, PROT_SAFE);
	assert_int_equal(o.block, 2 << 20);
	assert_true(o.accept_new);
	options_clear(&o);
	unlink(path);
}

static void test_conf_errors(void **state)
{
	static const struct { const char *text, *says; } cases[] = {
		{ "prot clear\nprotection safe\n", ":2: " },
		{ "ecro 4\n", "there is no setting \"ecro\"" },
		{ "retires 4\n", "(did you mean \"retries\"?)" },
		{ "[host other]\nprot maybe\n", ":2: " },  /* another host's, but checked */
		{ "[group x]\nprot clear\n", "[group x]" },
		{ "[host]\nurl a:b\n", ":1: there is no section [host]" },
		{ "[-a]\nurl a:b\n", ":1: there is no section [-a]" },
		{ "\n[hostx]\nprot clear\n[host y]\n", ":2: this section needs a line" },
		{ "[a]\nurl a:b\n[hostx]\nprot clear\n", ":3: this section needs a line" },
		{ "[a]\nurl /tmp\n", ":2: url: /tmp is not on a server" },
		{ "[a]\nurl rftp://u:p@h\n", ":2: url: a password in a URL" },
		{ "[a]\nurl a:b\nprot maybe\n", ":3: prot: " },
		{ "url a:b\n", "there is no setting \"url\"" },
		{ "help yes\n", "command line only" },
		{ "files-from list\n", "command line only" },
		{ "block 1\n", "block: must be a size from 64K" },
	};
	const struct url h = { .host = (char *)"h" };
	char path[64];

	temp_file(path);
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct options o;
		struct err e = ERR_INIT;

		write_conf(path, cases[i].text);
		options_default(&o);
		assert_int_equal(conf_load(path, &h, &o, &e), -EINVAL);
		if (!strstr(e.text, cases[i].says) || strncmp(e.text, path, strlen(path)))
			fail_msg("\"%s\" says \"%s\"", cases[i].text, e.text);
		options_clear(&o);
	}
	unlink(path);
}

static void test_order(void **state)
{
	static const char *const variables[] = { "RFTP_PROT", "RFTP_BLOCK", "RFTP_VERBOSE",
						 "RFTP_JSON" };
	char path[64];
	struct option_args a;
	struct options o;
	struct err e;

	write_conf(temp_file(path), "prot safe\nverbose 2\nblock 2M\njson yes\n");
	assert_int_equal(PARSE(&a, &e, "put", "--config", path, "-v",
			       "--prot", "clear", "--json=no"), 0);
	assert_int_equal(options_load(&a, &none, NULL, &o, &e), 0);
	assert_int_equal(o.prot, PROT_CLEAR);  /* the command line overrides the file */
	assert_int_equal(o.block, 2 << 20);
	assert_int_equal(o.verbose, 1);
	assert_false(o.json);
	options_clear(&o);
	option_args_clear(&a);

	/* The environment is between both. */
	setenv("RFTP_PROT", "private", 1);
	setenv("RFTP_BLOCK", "4M", 1);
	setenv("RFTP_VERBOSE", "3", 1);
	setenv("RFTP_JSON", "", 1);
	assert_int_equal(PARSE(&a, &e, "put", "--config", path, "--prot", "clear"), 0);
	assert_int_equal(options_load(&a, &none, NULL, &o, &e), 0);
	assert_int_equal(o.prot, PROT_CLEAR);
	assert_int_equal(o.block, 4 << 20);
	assert_int_equal(o.verbose, 3);
	assert_true(o.json);
	options_clear(&o);
	setenv("RFTP_BLOCK", "1", 1);
	assert_int_equal(options_load(&a, &none, NULL, &o, &e), -EINVAL);
	assert_memory_equal(e.text, "RFTP_BLOCK: ", 12);
	option_args_clear(&a);
	for (size_t i = 0; i < COUNT(variables); i++)
		unsetenv(variables[i]);

	/* A file named with --config must exist. */
	unlink(path);
	assert_int_equal(PARSE(&a, &e, "put", "--config", path), 0);
	assert_int_equal(options_load(&a, &none, NULL, &o, &e), -ENOENT);
	option_args_clear(&a);

	assert_int_equal(PARSE(&a, &e, "put", "--config", "/dev/null",
			       "--block", "x"), 0);
	assert_int_equal(options_load(&a, &none, NULL, &o, &e), -EINVAL);
	assert_int_equal(strncmp(e.text, "--block: ", 9), 0);
	option_args_clear(&a);
}

static void test_own_file(void **state)
{
	char *path;

	setenv("HOME", "/home/x", 1);
	unsetenv("XDG_CONFIG_HOME");
	path = own_file(OWN_CONFIG, "known_hosts");
	assert_string_equal(path, "/home/x/.config/rftp/known_hosts");
	free(path);
	setenv("XDG_CONFIG_HOME", "/xdg", 1);
	path = own_file(OWN_CONFIG, "rftp.conf");
	assert_string_equal(path, "/xdg/rftp/rftp.conf");
	free(path);
	setenv("XDG_CONFIG_HOME", "relative", 1); /* the XDG specification: ignore relative paths */
	path = own_file(OWN_CONFIG, "rftp.conf");
	assert_string_equal(path, "/home/x/.config/rftp/rftp.conf");
	free(path);
	unsetenv("HOME");
	unsetenv("XDG_CONFIG_HOME");
	assert_null(own_file(OWN_CONFIG, "x"));
}

/* rftp.conf(5) describes each setting allowed in the files, and no others. */
static void test_conf_manual(void **state)
{
	const char *top = getenv("top_srcdir");
	CLEANUP_FREE char *path = NULL;
	CLEANUP_FREE char *text = NULL;
	char item[64];

	if (!top)
		skip(); /* not run by make check */
	assert_true(asprintf(&path, "%s/man/rftp.conf.5", top) > 0);
	assert_int_equal(read_file(path, 1 << 20, &text, NULL), 0);
	for (const struct option_def *def = rftp_options; def->name || def->help; def++) {
		bool found;

		if (!def->name)
			continue;
		snprintf(item, sizeof(item), ".It Cm %s%c", def->name, def->arg ? ' ' : '\n');
		found = strstr(text, item);
		if (found != !!(def->where & OPTION_IN_FILE))
			fail_msg("%s is %s rftp.conf(5)", def->name, found ? "in" : "not in");
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table_is_sound),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_given),
		cmocka_unit_test(test_errors_name_the_values),
		cmocka_unit_test(test_where_values_go),
		cmocka_unit_test(test_command_line),
		cmocka_unit_test(test_letters_with_arguments),
		cmocka_unit_test(test_conf_sections),
		cmocka_unit_test(test_conf_errors),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_own_file),
		cmocka_unit_test(test_conf_manual),
	};

	return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
