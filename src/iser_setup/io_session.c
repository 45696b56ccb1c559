// SPDX-License-Identifier: Apache-2.0
/* iscsiadm is told, sysfs is looked at. An interface of open-iscsi's, made for this session,
 * carries the initiator name, so that the host's own does not change. */
#include "iser_setup/io_session.h"

#include "iser_setup/initiator.h"
#include "iser_setup/prepare.h"
#include "iser_setup/run.h"
#include "iser_setup/sessions.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DISK_WAIT_MS 30000
#define LOGOUT_WAIT_MS 15000
#define STEP_MS 50
#define IFACE "rftp-verify-io" /* one test at a time has it */

/* ---- iscsiadm ---- */

static int set_iface(const struct io_session *s, const char *name, const char *value,
		     struct err *e)
{
	const char *const words[] = { "iscsiadm", "-m", "iface", "-I", IFACE, "-o", "update",
				      "-n", name, "-v", value, NULL };

	return run_words(s->stop, NULL, e, words);
}

static int set_node(const struct io_session *s, const char *name, const char *value,
		    struct err *e)
{
	const char *const words[] = { "iscsiadm", "-m", "node", "-T", s->iqn, "-p", s->address,
				      "-I", IFACE, "-o", "update", "-n", name, "-v", value, NULL };

	return run_words(s->stop, NULL, e, words);
}

/* One that a killed test has left goes first. */
static int make_iface(struct io_session *s, struct err *e)
{
	const char *const gone[] = { "iscsiadm", "-m", "iface", "-I", IFACE, "-o", "delete", NULL };
	const char *const words[] = { "iscsiadm", "-m", "iface", "-I", IFACE, "-o", "new", NULL };
	struct err none = ERR_INIT;
	int r;

	if (run_words(s->stop, NULL, &none, gone) == -EINTR)
		return err_set(e, -EINTR, "stopped by a signal");
	r = run_words(s->stop, NULL, e, words);
	if (r)
		return r;
	s->iface_made = true;
	r = set_iface(s, "iface.transport_name", "iser", e);
	return r ? r : set_iface(s, "iface.initiatorname", s->initiator, e);
}

/* Whatever iscsid.conf says for others. */
static int make_node(struct io_session *s, struct err *e)
{
	static const struct { const char *name, *value; } settings[] = {
		{ "node.startup", "manual" }, { "node.session.auth.authmethod", "None" },
		{ "node.session.initial_login_retry_max", INITIATOR_RETRIES },
		{ "node.session.scan", "auto" },
	};
	const char *const words[] = { "iscsiadm", "-m", "node", "-T", s->iqn, "-p", s->address,
				      "-I", IFACE, "-o", "new", NULL };
	int r = run_words(s->stop, NULL, e, words);

	if (r)
		return r;
	s->node_made = true;
	for (size_t i = 0; !r && i < sizeof(settings) / sizeof(settings[0]); i++)
		r = set_node(s, settings[i].name, settings[i].value, e);
	return r;
}

static int log_in(const struct io_session *s, struct err *e)
{
	const char *const words[] = { "iscsiadm", "-m", "node", "-T", s->iqn, "-p", s->address,
				      "-I", IFACE, "--login", NULL };

	return run_words(s->stop, NULL, e, words);
}

/* ---- the disk ---- */

/* Is there a session with iqn? What cannot be read is taken for one. */
static bool is_there(const char *iqn)
{
	struct err ignored = ERR_INIT;
	struct sessions all;
	bool there = sessions_read(NULL, &all, &ignored) || sessions_find(&all, iqn);

	sessions_clear(&all);
	return there;
}

/* What has another serial is somebody's disk. */
static int take_disk(struct io_session *s, const struct session *from, struct err *e)
{
	const struct session_disk *d = from->disks;

	snprintf(s->device, sizeof(s->device), "/dev/%s", d->name);
	snprintf(s->transport, sizeof(s->transport), "%s", from->transport);
	if (strcmp(d->serial, s->serial))
		return err_set(e, -ENXIO, "%s has not the serial of the disk that was made for the "
			       "test: it is left alone", s->device);
	return disk_is_there(s->device) ? 0 : -EAGAIN;
}

/* -EAGAIN: it is not there yet. */
static int find_disk(struct io_session *s, struct err *e)
{
	struct sessions all;
	int r = sessions_read(NULL, &all, e);
	const struct session *one = r ? NULL : sessions_find(&all, s->iqn);

	if (!r)
		r = one && one->n_disks ? take_disk(s, one, e) : -EAGAIN;
	sessions_clear(&all);
	return r;
}

static int wait_for_disk(struct io_session *s, struct err *e)
{
	const uint64_t end = ns_after(DISK_WAIT_MS);
	int r = find_disk(s, e);

	while (r == -EAGAIN && ms_to(end)) {
		if (stop_asked(s->stop))
			return err_set(e, -EINTR, "stopped by a signal");
		poll_fd(-1, 0, STEP_MS);
		r = find_disk(s, e);
	}
	return r == -EAGAIN ? err_set(e, -ETIMEDOUT, "logged in, but no disk has appeared within "
				      "%d seconds: is the module sd_mod loaded?",
				      DISK_WAIT_MS / 1000) : r;
}

/* ---- all ---- */

int io_session_begin(struct io_session *s, struct err *e)
{
	struct login_portal at = { .port = s->portal->port };
	int r;

	snprintf(at.address, sizeof(at.address), "%s", s->portal->address);
	login_portal_text(s->address, &at);
	r = prepare_modules(LOGIN_ISER, s->stop, e);
	if (!r)
		r = prepare_daemon(s->stop, e);
	if (!r)
		r = make_iface(s, e);
	if (!r)
		r = make_node(s, e);
	if (!r)
		r = log_in(s, e);
	if (!r)
		r = wait_for_disk(s, e);
	return r > 0 ? -EIO : r;
}

/* Again and again: iscsid refuses while it is still logging in, as it may be for a test that was
 * killed. */
static int log_out(const char *iqn, struct err *e)
{
	const char *const words[] = { "iscsiadm", "-m", "node", "-T", iqn, "--logout", NULL };
	const uint64_t end = ns_after(LOGOUT_WAIT_MS);

	for (;;) {
		*e = (struct err)ERR_INIT;
		if (!run_words(NULL, NULL, e, words) || !is_there(iqn))
			return 0;
		if (!ms_to(end))
			return e->code;
		poll_fd(-1, 0, STEP_MS);
	}
}

/* Before all others: a session that stays would hang when its target goes. Its record, too, is
 * needed as long as it is there. */
void io_session_forget(const char *iqn)
{
	const char *const gone[] = { "iscsiadm", "-m", "node", "-T", iqn, "-o", "delete", NULL };
	struct err e = ERR_INIT;

	if (is_there(iqn) && log_out(iqn, &e))
		log_warn("the session with %s, made for the test, is left: %s", iqn, e.text);
	else
		(void)run_words(NULL, NULL, &e, gone);
}

void io_session_end(struct io_session *s)
{
	const char *const words[] = { "iscsiadm", "-m", "iface", "-I", IFACE, "-o", "delete",
				      NULL };
	struct err e = ERR_INIT;

	if (s->node_made)
		io_session_forget(s->iqn);
	if (s->iface_made && run_words(NULL, NULL, &e, words))
		log_warn("%s", e.text);
	s->iface_made = s->node_made = false;
}
