// SPDX-License-Identifier: Apache-2.0
/* The gfal2 plugin for rftp:// URLs: connections, and the functions that its files share. gfal2 may
 * call the plugin from several threads at once. */
#ifndef RFTP_GFAL2_PLUGIN_H
#define RFTP_GFAL2_PLUGIN_H

#include "api/rftp.h"

#include <gfal_plugins_api.h>
#include <stdbool.h>

#define RFTP_PLUGIN_NAME "rftp"

/* A connection. One call uses it at a time, and gfal2's cancellation ends that call. */
struct link {
	struct rftp *r;
	char *identity;              /* a digest of its credentials and settings */
	bool once;                   /* has options of one call: it is not kept */
	gfal_cancel_token_t cancel;
	struct link *next;           /* of the idle ones */
};

struct plugin {
	gfal2_context_t context;
	GMutex lock;                 /* guards idle */
	struct link *idle;
};

GQuark plugin_domain(void);
bool is_rftp_url(const char *url);

/* A connection to the server of url, a kept one if possible; its rftp_path() is that of url.
 * seconds: the limit of each of its calls; 0: none. NULL with *err. */
struct link *link_take(struct plugin *p, const char *url, guint64 seconds, GError **err);
/* Keep it for the next call, or close it. NULL is harmless. */
void link_give(struct plugin *p, struct link *l);
/* The limit for calls that only concern names, from gfal2's configuration. */
guint64 names_seconds(const struct plugin *p);
/* Set *err to the error rc of a call on r. Returns -1. */
int link_failed(const struct rftp *r, int rc, const char *function, GError **err);

/* ---- file.c: opened files ---- */

gfal_file_handle plugin_open(plugin_handle data, const char *url, int flags, mode_t mode,
			     GError **err);
ssize_t plugin_read(plugin_handle data, gfal_file_handle fh, void *buf, size_t count, GError **err);
ssize_t plugin_write(plugin_handle data, gfal_file_handle fh, const void *buf, size_t count,
		     GError **err);
off_t plugin_lseek(plugin_handle data, gfal_file_handle fh, off_t offset, int whence, GError **err);
int plugin_close(plugin_handle data, gfal_file_handle fh, GError **err);

/* ---- copy.c ---- */

/* A destination is a name, and never a directory to put something into. l NULL: on this host. 0,
 * or a negative errno. */
int destination_check(struct link *l, const char *path);

int plugin_can_copy(plugin_handle data, gfal2_context_t context, const char *src, const char *dst,
		    gfal_url2_check check);
int plugin_copy(plugin_handle data, gfal2_context_t context, gfalt_params_t params, const char *src,
		const char *dst, GError **err);

#endif
