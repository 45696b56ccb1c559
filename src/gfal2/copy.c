// SPDX-License-Identifier: Apache-2.0
/* Copies: between this host and a server, and between two servers. */
#include "gfal2/plugin.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>

#define CHECKSUM_BYTES 1024

struct copy {
	struct plugin *plugin;
	gfalt_params_t params;
	const char *src, *dst;
	struct _gfalt_transfer_status status;
	/* Of the last marker. */
	double seconds;
	uint64_t bytes;
};

static bool is_file_url(const char *url)
{
	return !strncmp(url, "file:/", 6);
}

/* The path in a file: URL. gfal2 does not decode it. */
static const char *file_path(const char *url)
{
	const char *path = url + strlen("file:");

	return strncmp(path, "//", 2) ? path : path + 2;
}

int plugin_can_copy(plugin_handle data, gfal2_context_t context, const char *src, const char *dst,
		    gfal_url2_check check)
{
	(void)data;
	(void)context;
	return check == GFAL_FILE_COPY && ((is_rftp_url(src) && is_rftp_url(dst)) ||
					   (is_rftp_url(src) && is_file_url(dst)) ||
					   (is_file_url(src) && is_rftp_url(dst)));
}

static void event(const struct copy *c, gfal_event_side_t side, GQuark stage, const char *text)
{
	plugin_trigger_event(c->params, plugin_domain(), side, stage, "%s", text);
}

/* A performance marker. */
static void on_progress(void *arg, const struct rftp_progress *p)
{
	struct copy *c = arg;
	double span = p->seconds - c->seconds;

	c->status.status = 0;
	c->status.bytes_transfered = p->bytes;
	c->status.transfer_time = (time_t)p->seconds;
	c->status.average_baudrate = p->seconds > 0 ? (size_t)((double)p->bytes / p->seconds) : 0;
	if (span > 0 && p->bytes >= c->bytes)
		c->status.instant_baudrate = (size_t)((double)(p->bytes - c->bytes) / span);
	c->seconds = p->seconds;
	c->bytes = p->bytes;
	plugin_trigger_monitor(c->params, &c->status, c->src, c->dst);
}

/* ---- digests ---- */

static bool same_digest(const char *a, const char *b)
{
	a += strspn(a, "0");
	b += strspn(b, "0"); /* some storages leave out zeros of Adler-32 */
	return !strcasecmp(a, b);
}

struct digests {
	gfalt_checksum_mode_t mode;
	char type[64], user[CHECKSUM_BYTES], source[CHECKSUM_BYTES];
};

/* Compare the digest of one side with the caller's, or that of the destination with that of the
 * source. */
static int digest_check(const struct copy *c, struct digests *d, bool source, GError **err)
{
	const char *url = source ? c->src : c->dst, *side = source ? GFALT_ERROR_SOURCE :
							    GFALT_ERROR_DESTINATION;
	gfal_event_side_t at = source ? GFAL_EVENT_SOURCE : GFAL_EVENT_DESTINATION;
	const char *want = *d->user ? d->user : source ? "" : d->source;
	char got[CHECKSUM_BYTES];
	GError *why = NULL;

	event(c, at, GFAL_EVENT_CHECKSUM_ENTER, d->type);
	if (gfal2_checksum(c->plugin->context, url, d->type, 0, 0, got, sizeof(got), &why)) {
		gfalt_propagate_prefixed_error(err, why, __func__, side, GFALT_ERROR_CHECKSUM);
		return -1;
	}
	event(c, at, GFAL_EVENT_CHECKSUM_EXIT, got);
	if (*want && !same_digest(want, got)) {
		gfalt_set_error(err, plugin_domain(), EIO, __func__, side,
				GFALT_ERROR_CHECKSUM_MISMATCH, "%s: %s is %s, not %s", url, d->type,
				got, want);
		return -1;
	}
	if (source)
		g_strlcpy(d->source, got, sizeof(d->source));
	return 0;
}

/* ---- one copy ---- */

int destination_check(struct link *l, const char *path)
{
	struct rftp_stat there;
	struct stat here;

	if (g_str_has_suffix(path, "/"))
		return -EISDIR;
	if (l)
		return rftp_stat(l->r, path, &there) ? 0 : S_ISDIR(there.mode) ? -EISDIR : 0;
	return stat(path, &here) ? 0 : S_ISDIR(here.st_mode) ? -EISDIR : 0;
}

static unsigned copy_flags(const struct copy *c)
{
	bool replaces = gfalt_get_replace_existing_file(c->params, NULL);

	return (gfalt_get_create_parent_dir(c->params, NULL) ? RFTP_PARENTS : 0) |
	       (replaces ? 0 : RFTP_EXCLUSIVE);
}

/* Move the data. from or to is NULL: it is on this host. */
static int copy_data(struct copy *c, struct link *from, struct link *to, GError **err)
{
	struct link *l = from ? from : to;
	unsigned streams = gfalt_get_nbstreams(c->params, NULL);
	char number[16];
	int rc;

	rc = destination_check(to, to ? rftp_path(to->r) : file_path(c->dst));
	if (rc) {
		gfalt_set_error(err, plugin_domain(), -rc, __func__, GFALT_ERROR_DESTINATION, NULL,
				"%s is a directory", c->dst);
		return -1;
	}
	/* A hint; the connection keeps it, so only one that is not kept gets it. */
	snprintf(number, sizeof(number), "%u", streams);
	if (streams > 1 && !rftp_set(l->r, "channels", number))
		l->once = true;
	rftp_set_progress(l->r, on_progress, c);
	if (from && to)
		rc = rftp_copy(from->r, rftp_path(from->r), to->r, rftp_path(to->r), copy_flags(c));
	else if (from)
		rc = rftp_get(from->r, rftp_path(from->r), file_path(c->dst), copy_flags(c));
	else
		rc = rftp_put(to->r, file_path(c->src), rftp_path(to->r), copy_flags(c));
	rftp_set_progress(l->r, NULL, NULL);
	if (!rc)
		return 0;
	gfalt_set_error(err, plugin_domain(), -rc, __func__,
			rc == -EEXIST ? GFALT_ERROR_DESTINATION : GFALT_ERROR_TRANSFER,
			rc == -EEXIST ? GFALT_ERROR_EXISTS : NULL, "%s", rftp_error(l->r));
	return -1;
}

int plugin_copy(plugin_handle data, gfal2_context_t context, gfalt_params_t params, const char *src,
		const char *dst, GError **err)
{
	struct copy c = { .plugin = data, .params = params, .src = src, .dst = dst };
	bool third = is_rftp_url(src) && is_rftp_url(dst);
	guint64 seconds = gfalt_get_timeout(params, NULL);
	struct link *from = NULL, *to = NULL;
	struct digests d = { .mode = GFALT_CHECKSUM_NONE };
	bool checks;
	char *both;
	int rc = 0;

	(void)context;
	checks = !gfalt_get_strict_copy_mode(params, NULL);
	d.mode = gfalt_get_checksum(params, d.type, sizeof(d.type), d.user, sizeof(d.user), NULL);
	if (!*d.type)
		g_strlcpy(d.type, "ADLER32", sizeof(d.type));
	both = g_strconcat(src, " => ", dst, NULL);

	event(&c, GFAL_EVENT_NONE, GFAL_EVENT_PREPARE_ENTER, both);
	if (checks && (d.mode & GFALT_CHECKSUM_SOURCE))
		rc = digest_check(&c, &d, true, err);
	if (!rc && is_rftp_url(src))
		rc = (from = link_take(data, src, seconds, err)) ? 0 : -1;
	if (!rc && is_rftp_url(dst))
		rc = (to = link_take(data, dst, seconds, err)) ? 0 : -1;
	event(&c, GFAL_EVENT_NONE, GFAL_EVENT_PREPARE_EXIT, both);

	if (!rc) {
		event(&c, GFAL_EVENT_NONE, GFAL_EVENT_TRANSFER_ENTER, both);
		event(&c, GFAL_EVENT_NONE, GFAL_EVENT_TRANSFER_TYPE,
		      third ? GFAL_TRANSFER_TYPE_PUSH : GFAL_TRANSFER_TYPE_STREAMED);
		rc = copy_data(&c, from, to, err);
		event(&c, GFAL_EVENT_NONE, GFAL_EVENT_TRANSFER_EXIT, both);
	}
	link_give(data, to);
	link_give(data, from);
	if (!rc && checks && (d.mode & GFALT_CHECKSUM_TARGET))
		rc = digest_check(&c, &d, false, err);
	g_free(both);
	return rc;
}
