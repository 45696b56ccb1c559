// SPDX-License-Identifier: Apache-2.0
/* Input: all commands of a client to a server that accepts every login, without TLS, with a root
 * of a file, a directory and links. Data connections always fail. Nothing outside the root may
 * change. */
#include "control/control.h"

#include "tests/support/fuzz.h"
#include "tests/support/memory-stream.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *dir;
static char root[64]; /* below dir */
static struct stat outside;

static void shell(const char *command)
{
	char line[200];

	snprintf(line, sizeof(line), "cd %s && %s", dir, command);
	MUST(!system(line));
}

static void look(struct stat *st, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	memset(st, 0, sizeof(*st));
	if (stat(path, st))
		st->st_size = -1;
}

static void remove_all(void)
{
	char line[100];

	snprintf(line, sizeof(line), "chmod -R u+rwx %s; rm -rf %s", dir, dir);
	if (system(line))
		perror(dir);
}

static void begin(void)
{
	dir = fuzz_directory();
	atexit(remove_all);
	snprintf(root, sizeof(root), "%s/root", dir);
	log_init("fuzz", LOG_LV_ERROR, false);
	umask(022);
	shell("mkdir root outside && echo secret >outside/secret");
	look(&outside, "outside");
}

/* Makes the root again if a session may have changed it. */
static void furnish(void)
{
	struct stat top, file;

	look(&top, "root");
	look(&file, "root/d/f");
	if (file.st_size == 5 && top.st_nlink < 50)
		return;
	shell("chmod -R u+rwx root; rm -rf root && mkdir -p root/d && echo text >root/d/f && "
	      "ln -s d root/l && ln -s ../outside root/out && ln -s /etc root/abs");
}

static int login(void *arg, const char *user, const char *password, struct ftp_account *a,
		 struct err *e)
{
	snprintf(a->name, sizeof(a->name), "fuzz");
	a->root = root_new(root, true, e);
	a->home = strdup("/");
	a->can_see = a->can_create = a->can_change = true;
	return a->root && a->home ? 0 : -ENOMEM;
}

static int bulk(void *arg, struct ftp_session *s, struct buf *body)
{
	struct bulk_request r;

	if (!bulk_request_get(body, &r, NULL))
		bulk_request_clear(&r);
	return ftp_session_reply(s, 553, "not here");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct ftp_server_config c = { .greeting = "fuzz", .data_addr = "192.0.2.1",
					     .login_timeout_ms = 1000, .login = login,
					     .idle_timeout_ms = 1000, .bulk = bulk };
	struct err e = ERR_INIT;
	struct mstream *m;
	struct stat now;

	if (!*root)
		begin();
	furnish();
	m = ms_new(memory_stream(data, size, SIZE_MAX));
	ftp_serve(&c, m, -1, NULL, &e);
	ms_free(m);
	look(&now, "outside");
	MUST(now.st_mtim.tv_sec == outside.st_mtim.tv_sec &&
	     now.st_mtim.tv_nsec == outside.st_mtim.tv_nsec && now.st_mode == outside.st_mode);
	look(&now, "outside/secret");
	MUST(now.st_size == 7 && (now.st_mode & 0777) == 0644);
	return 0;
}
