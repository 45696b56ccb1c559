// SPDX-License-Identifier: Apache-2.0
/* The plugin's table, its connections, and operations on names. */
#include "gfal2/plugin.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GROUP "RFTP PLUGIN"
#define SCHEME "rftp://"
#define NAMES_SECONDS 300
#define CHECKSUM_SECONDS 1800
#define IDLE_MOST 16 /* connections that are kept; calls at the same time may use more */

GQuark plugin_domain(void)
{
	return g_quark_from_static_string("rftp");
}

bool is_rftp_url(const char *url)
{
	return !strncmp(url, SCHEME, strlen(SCHEME));
}

static const char *plugin_name(void)
{
	return RFTP_PLUGIN_NAME;
}

/* ---- credentials and options ---- */

struct credentials {
	char *cert, *key, *user, *password;
};

/* url without its user: the prefix of a credential need not have one. */
static char *url_without_user(const char *url)
{
	const char *host = url + strlen(SCHEME), *at = memchr(host, '@', strcspn(host, "/"));

	return g_strconcat(SCHEME, at ? at + 1 : host, NULL);
}

/* A credential that gfal2 has for url, with or without the user in it. NULL: there is none, or only
 * a default (X509), which *other gets if other is not NULL. */
static char *credential(const struct plugin *p, const char *type, const char *url, char **other)
{
	char *bare = url_without_user(url);
	const char *const urls[] = { url, bare };
	char *found = NULL;

	for (int i = 0; i < 2 && !found; i++) {
		const char *prefix = NULL;
		char *value = gfal2_cred_get(p->context, type, urls[i], &prefix, NULL);

		if (value && *value && prefix && *prefix)
			found = g_steal_pointer(&value);
		else if (value && *value && other && !*other)
			*other = g_steal_pointer(&value);
		g_free(value);
	}
	g_free(bare);
	return found;
}

static char *setting(const struct plugin *p, const char *key)
{
	return gfal2_get_opt_string_with_default(p->context, GROUP, key, NULL);
}

/* Certificate and key, and user and password, come from one place each: gfal2's credentials for
 * this URL, our group, or for a certificate gfal2's default, a proxy that may not exist. */
static void credentials_find(const struct plugin *p, const char *url, struct credentials *k)
{
	const char *host = url + strlen(SCHEME);
	bool has_user = memchr(host, '@', strcspn(host, "/"));
	char *cert = NULL, *key = NULL;

	k->cert = credential(p, GFAL_CRED_X509_CERT, url, &cert);
	k->key = credential(p, GFAL_CRED_X509_KEY, url, &key);
	if (!k->cert) {
		g_clear_pointer(&k->key, g_free);
		k->cert = setting(p, "CERT");
		k->key = k->cert ? setting(p, "KEY") : NULL;
	}
	if (!k->cert && cert && !access(cert, R_OK)) {
		k->cert = g_steal_pointer(&cert);
		k->key = g_steal_pointer(&key);
	}
	g_free(cert);
	g_free(key);

	k->user = credential(p, GFAL_CRED_USER, url, NULL);
	k->password = credential(p, GFAL_CRED_PASSWD, url, NULL);
	if (has_user || k->user || k->password)
		return;
	k->user = setting(p, "USER");
	k->password = k->user ? setting(p, "PASSWORD") : NULL;
}

static void credentials_clear(struct credentials *k)
{
	g_free(k->cert);
	g_free(k->key);
	g_free(k->user);
	if (k->password)
		explicit_bzero(k->password, strlen(k->password));
	g_free(k->password);
}

/* url with the user of the credentials, unless it has one. */
static char *url_with_user(const char *url, const struct credentials *k)
{
	const char *host = url + strlen(SCHEME);
	char *user, *with;

	if (!k->user || memchr(host, '@', strcspn(host, "/")))
		return g_strdup(url);
	user = g_uri_escape_string(k->user, NULL, FALSE);
	with = g_strconcat(SCHEME, user, "@", host, NULL);
	g_free(user);
	return with;
}

/* The settings of our group are options of rftp.conf: KNOWN_HOSTS is known-hosts. */
static int set_options(const struct plugin *p, struct rftp *r, const struct credentials *k)
{
	static const char *const ours[] = { "USER", "PASSWORD", "CERT", "KEY" };
	gsize n = 0;
	char **keys = gfal2_get_opt_keys(p->context, GROUP, &n, NULL);
	int rc = 0;

	for (gsize i = 0; !rc && keys && i < n; i++) {
		char *name = g_ascii_strdown(keys[i], -1), *value;
		bool mine = false;

		for (size_t o = 0; o < sizeof(ours) / sizeof(ours[0]); o++)
			mine |= !strcmp(keys[i], ours[o]);
		g_strdelimit(name, "_", '-');
		value = gfal2_get_opt_string_with_default(p->context, GROUP, keys[i], "");
		if (!mine)
			rc = rftp_set(r, name, value);
		g_free(value);
		g_free(name);
	}
	g_strfreev(keys);
	if (!rc && k->cert)
		rc = rftp_set(r, "cert", k->cert);
	if (!rc && k->cert && k->key)
		rc = rftp_set(r, "key", k->key);
	if (!rc && k->password)
		rc = rftp_set_password(r, k->password);
	return rc;
}

static void add_text(GChecksum *sum, const char *text)
{
	g_checksum_update(sum, (const guchar *)(text ? text : ""),
			  text ? (gssize)strlen(text) + 1 : 1);
}

/* A digest of the credentials and settings that a connection is made with. */
static char *identity_of(const struct plugin *p, const struct credentials *k)
{
	GChecksum *sum = g_checksum_new(G_CHECKSUM_SHA256);
	gsize n = 0;
	char **keys = gfal2_get_opt_keys(p->context, GROUP, &n, NULL), *identity;

	add_text(sum, k->cert);
	add_text(sum, k->key);
	add_text(sum, k->password);
	for (gsize i = 0; keys && i < n; i++) {
		char *value = gfal2_get_opt_string_with_default(p->context, GROUP, keys[i], "");

		add_text(sum, keys[i]);
		add_text(sum, value);
		explicit_bzero(value, strlen(value));
		g_free(value);
	}
	g_strfreev(keys);
	identity = g_strdup(g_checksum_get_string(sum));
	g_checksum_free(sum);
	return identity;
}

/* ---- connections ---- */

int link_failed(const struct rftp *r, int rc, const char *function, GError **err)
{
	gfal2_set_error(err, plugin_domain(), -rc, function, "%s", rftp_error(r));
	return -1;
}

guint64 names_seconds(const struct plugin *p)
{
	return (guint64)gfal2_get_opt_integer_with_default(p->context, CORE_CONFIG_GROUP,
							   CORE_CONFIG_NAMESPACE_TIMEOUT,
							   NAMES_SECONDS);
}

static void on_cancel(gfal2_context_t context, void *r)
{
	(void)context;
	rftp_cancel(r);
}

static void link_free(struct link *l)
{
	rftp_free(l->r);
	g_free(l->identity);
	g_free(l);
}

/* Remove the idle connection to the server of url with this identity, and return it; NULL: there is
 * none. */
static struct link *link_find(struct plugin *p, const char *url, const char *identity)
{
	struct link **at, *l = NULL;

	g_mutex_lock(&p->lock);
	for (at = &p->idle; *at; at = &(*at)->next) {
		if (strcmp((*at)->identity, identity) || rftp_at((*at)->r, url))
			continue;
		l = *at;
		*at = l->next;
		break;
	}
	g_mutex_unlock(&p->lock);
	return l;
}

struct link *link_take(struct plugin *p, const char *url, guint64 seconds, GError **err)
{
	struct credentials k = { 0 };
	struct link *l;
	char *identity, *full;
	bool found;
	int rc = 0;

	credentials_find(p, url, &k);
	full = url_with_user(url, &k);
	identity = identity_of(p, &k);
	l = link_find(p, full, identity);
	found = l != NULL;
	if (!l) {
		l = g_new0(struct link, 1);
		l->identity = g_steal_pointer(&identity);
		l->r = rftp_new();
		rc = l->r ? set_options(p, l->r, &k) : -ENOMEM;
	}
	if (l->r) {
		l->cancel = gfal2_register_cancel_callback(p->context, on_cancel, l->r);
		if (gfal2_is_canceled(p->context)) /* before the callback was there */
			rftp_cancel(l->r);
		rftp_set_timeout(l->r, seconds > G_MAXUINT / 1000 ? 0 : (guint)seconds * 1000);
		rftp_set_progress(l->r, NULL, NULL);
	}
	if (!rc && !found)
		rc = rftp_open(l->r, full);
	if (rc) {
		if (l->r)
			link_failed(l->r, rc, __func__, err);
		else
			gfal2_set_error(err, plugin_domain(), -rc, __func__, "%s", g_strerror(-rc));
		if (l->cancel)
			gfal2_remove_cancel_callback(p->context, l->cancel);
		link_free(l);
		l = NULL;
	}
	g_free(identity);
	g_free(full);
	credentials_clear(&k);
	return l;
}

/* Let the path of l be that of url, on the same server. 0, or a negative errno. */
static int link_at(struct plugin *p, struct link *l, const char *url)
{
	struct credentials k = { 0 };
	char *full;
	int rc;

	credentials_find(p, url, &k);
	full = url_with_user(url, &k);
	rc = rftp_at(l->r, full);
	g_free(full);
	credentials_clear(&k);
	return rc;
}

void link_give(struct plugin *p, struct link *l)
{
	struct link *oldest = NULL;
	unsigned idle = 0;

	if (!l)
		return;
	gfal2_remove_cancel_callback(p->context, l->cancel);
	l->cancel = NULL;
	rftp_uncancel(l->r);
	g_mutex_lock(&p->lock);
	if (!l->once) {
		l->next = p->idle;
		p->idle = g_steal_pointer(&l);
	}
	for (struct link *k = p->idle; k; k = k->next)
		if (++idle == IDLE_MOST)
			oldest = g_steal_pointer(&k->next);
	g_mutex_unlock(&p->lock);
	if (l)
		link_free(l);
	if (oldest) /* the last one */
		link_free(oldest);
}

/* ---- names ---- */

static void stat_of(const struct rftp_stat *from, struct stat *to)
{
	*to = (struct stat){
		.st_mode = from->mode, .st_nlink = 1, .st_uid = from->uid, .st_gid = from->gid,
		.st_size = (off_t)from->size, .st_blksize = 1 << 20,
		.st_blocks = (blkcnt_t)((from->size + 511) / 512),
		.st_mtim = { .tv_sec = from->mtime_s, .tv_nsec = from->mtime_ns },
		.st_atim = { .tv_sec = from->mtime_s }, .st_ctim = { .tv_sec = from->mtime_s },
	};
}

static int stat_by(struct plugin *p, const char *url, struct stat *buf, GError **err,
		   int (*fn)(struct rftp *r, const char *path, struct rftp_stat *st))
{
	struct link *l = link_take(p, url, names_seconds(p), err);
	struct rftp_stat st;
	int rc = l ? fn(l->r, rftp_path(l->r), &st) : -1;

	if (l && rc)
		rc = link_failed(l->r, rc, __func__, err);
	else if (l)
		stat_of(&st, buf);
	link_give(p, l);
	return rc;
}

static int plugin_stat(plugin_handle data, const char *url, struct stat *buf, GError **err)
{
	return stat_by(data, url, buf, err, rftp_stat);
}

static int plugin_lstat(plugin_handle data, const char *url, struct stat *buf, GError **err)
{
	return stat_by(data, url, buf, err, rftp_lstat);
}

/* The server does not tell the rights of this account. A right is missing for certain only if the
 * mode gives it to no class of users. */
static int plugin_access(plugin_handle data, const char *url, int mode, GError **err)
{
	struct stat st;
	unsigned bits = (mode & R_OK ? 0444u : 0) | (mode & W_OK ? 0222u : 0) |
			(mode & X_OK ? 0111u : 0);

	if (plugin_stat(data, url, &st, err))
		return -1;
	for (unsigned right = 0444; right; right = right == 0111 ? 0 : right / 2) {
		if (!(bits & right) || (st.st_mode & right))
			continue;
		gfal2_set_error(err, plugin_domain(), EACCES, __func__, "%s: its mode is %04o", url,
				st.st_mode & 07777u);
		return -1;
	}
	return 0;
}

static int plugin_chmod(plugin_handle data, const char *url, mode_t mode, GError **err)
{
	struct plugin *p = data;
	struct link *l = link_take(p, url, names_seconds(p), err);
	int rc = l ? rftp_chmod(l->r, rftp_path(l->r), mode) : -1;

	if (l && rc)
		rc = link_failed(l->r, rc, __func__, err);
	link_give(p, l);
	return rc;
}

static int plugin_rename(plugin_handle data, const char *from, const char *to, GError **err)
{
	struct plugin *p = data;
	struct link *l = link_take(p, from, names_seconds(p), err);
	char *old = l ? g_strdup(rftp_path(l->r)) : NULL;
	int rc = l ? link_at(p, l, to) : -1;

	if (l && !rc)
		rc = rftp_rename(l->r, old, rftp_path(l->r));
	if (l && rc)
		rc = link_failed(l->r, rc, __func__, err);
	link_give(p, l);
	g_free(old);
	return rc;
}

static int plugin_mkdir(plugin_handle data, const char *url, mode_t mode, gboolean parents,
			GError **err)
{
	struct plugin *p = data;
	struct link *l = link_take(p, url, names_seconds(p), err);
	int rc = l ? rftp_mkdir(l->r, rftp_path(l->r), parents) : -1;

	(void)mode; /* the server's umask decides */
	if (l && rc)
		rc = link_failed(l->r, rc, __func__, err);
	link_give(p, l);
	return rc;
}

static int remove_by(struct plugin *p, const char *url, const char *function, GError **err,
		     int (*fn)(struct rftp *r, const char *path))
{
	struct link *l = link_take(p, url, names_seconds(p), err);
	int rc = l ? fn(l->r, rftp_path(l->r)) : -1;

	if (l && rc)
		rc = link_failed(l->r, rc, function, err);
	link_give(p, l);
	return rc;
}

static int plugin_rmdir(plugin_handle data, const char *url, GError **err)
{
	return remove_by(data, url, __func__, err, rftp_rmdir);
}

static int plugin_unlink(plugin_handle data, const char *url, GError **err)
{
	return remove_by(data, url, __func__, err, rftp_unlink);
}

/* On the kept connection, one after another. */
static int plugin_unlink_list(plugin_handle data, int n, const char *const *urls, GError **errors)
{
	int rc = 0;

	for (int i = 0; i < n; i++)
		if (plugin_unlink(data, urls[i], &errors[i]))
			rc = -1;
	return rc;
}

/* ---- directories ---- */

struct entry {
	char *name;
	struct rftp_stat st;
};

struct listing {
	GArray *all;                 /* of struct entry */
	guint at;
	struct dirent entry;
};

static void entry_clear(void *entry)
{
	g_free(((struct entry *)entry)->name);
}

static int listing_add(void *arg, const char *name, const struct rftp_stat *st)
{
	struct listing *d = arg;
	struct entry e = { g_strdup(name), *st };

	g_array_append_val(d->all, e);
	return 0;
}

static gfal_file_handle plugin_opendir(plugin_handle data, const char *url, GError **err)
{
	struct plugin *p = data;
	struct link *l = link_take(p, url, names_seconds(p), err);
	struct listing *d;
	int rc;

	if (!l)
		return NULL;
	d = g_new0(struct listing, 1);
	d->all = g_array_new(FALSE, FALSE, sizeof(struct entry));
	g_array_set_clear_func(d->all, entry_clear);
	rc = rftp_list(l->r, rftp_path(l->r), listing_add, d);
	if (rc)
		link_failed(l->r, rc, __func__, err);
	link_give(p, l);
	if (!rc)
		return gfal_file_handle_new2(RFTP_PLUGIN_NAME, d, NULL, url);
	g_array_unref(d->all);
	g_free(d);
	return NULL;
}

static struct dirent *plugin_readdirpp(plugin_handle data, gfal_file_handle dir, struct stat *st,
				       GError **err)
{
	struct listing *d = gfal_file_handle_get_fdesc(dir);
	const struct entry *e;

	(void)data;
	(void)err;
	if (d->at == d->all->len)
		return NULL;
	e = &g_array_index(d->all, struct entry, d->at);
	d->at++;
	d->entry = (struct dirent){ .d_ino = d->at, .d_off = d->at,
				    .d_reclen = sizeof(d->entry),
				    .d_type = IFTODT(e->st.mode) };
	g_strlcpy(d->entry.d_name, e->name, sizeof(d->entry.d_name));
	if (st)
		stat_of(&e->st, st);
	return &d->entry;
}

static struct dirent *plugin_readdir(plugin_handle data, gfal_file_handle dir, GError **err)
{
	return plugin_readdirpp(data, dir, NULL, err);
}

static int plugin_closedir(plugin_handle data, gfal_file_handle dir, GError **err)
{
	struct listing *d = gfal_file_handle_get_fdesc(dir);

	(void)data;
	(void)err;
	g_array_unref(d->all);
	g_free(d);
	gfal_file_handle_delete(dir);
	return 0;
}

/* ---- digests and attributes ---- */

static int plugin_checksum(plugin_handle data, const char *url, const char *type, char *hex,
			   size_t size, off_t offset, size_t length, GError **err)
{
	struct plugin *p = data;
	guint64 seconds = (guint64)gfal2_get_opt_integer_with_default(
		p->context, CORE_CONFIG_GROUP, CORE_CONFIG_CHECKSUM_TIMEOUT, CHECKSUM_SECONDS);
	struct link *l;
	int rc;

	if (offset || length) {
		gfal2_set_error(err, plugin_domain(), ENOSYS, __func__,
				"there are digests of whole files only");
		return -1;
	}
	l = link_take(p, url, seconds, err);
	rc = l ? rftp_checksum(l->r, rftp_path(l->r), type, hex, size) : -1;
	if (l && rc)
		rc = link_failed(l->r, rc == -EOPNOTSUPP ? -ENOSYS : rc, __func__, err);
	link_give(p, l);
	return rc;
}

static ssize_t xattr_give(const char *value, void *buf, size_t size, GError **err)
{
	size_t n = strlen(value) + 1;

	if (size && size < n) {
		gfal2_set_error(err, plugin_domain(), ERANGE, __func__, "no room for the value");
		return -1;
	}
	if (size)
		memcpy(buf, value, n);
	return (ssize_t)n;
}

/* The free space, as JSON in the form of other plugins, and the status of files, which are always
 * on disk. */
static ssize_t plugin_getxattr(plugin_handle data, const char *url, const char *key, void *buf,
			       size_t size, GError **err)
{
	struct plugin *p = data;
	struct stat st;
	uint64_t space;
	struct link *l;
	char json[64];
	int rc;

	if (!strcmp(key, GFAL_XATTR_STATUS)) {
		if (plugin_stat(data, url, &st, err))
			return -1;
		return xattr_give(GFAL_XATTR_STATUS_ONLINE, buf, size, err);
	}
	if (strcmp(key, GFAL_XATTR_SPACETOKEN)) {
		gfal2_set_error(err, plugin_domain(), ENODATA, __func__, "there is no attribute %s",
				key);
		return -1;
	}
	l = link_take(p, url, names_seconds(p), err);
	rc = l ? rftp_space(l->r, rftp_path(l->r), &space) : -1;
	if (l && rc)
		rc = link_failed(l->r, rc, __func__, err);
	link_give(p, l);
	if (!l || rc)
		return -1;
	snprintf(json, sizeof(json), "{\"unusedsize\": %llu}", (unsigned long long)space);
	return xattr_give(json, buf, size, err);
}

static ssize_t plugin_listxattr(plugin_handle data, const char *url, char *list, size_t size,
				GError **err)
{
	static const char names[] = GFAL_XATTR_STATUS "\0" GFAL_XATTR_SPACETOKEN;

	(void)data;
	(void)url;
	if (size && size < sizeof(names)) {
		gfal2_set_error(err, plugin_domain(), ERANGE, __func__, "no room for the names");
		return -1;
	}
	if (size)
		memcpy(list, names, sizeof(names));
	return sizeof(names);
}

/* ---- the table ---- */

static gboolean plugin_check_url(plugin_handle data, const char *url, plugin_mode operation,
				 GError **err)
{
	(void)data;
	(void)err;
	switch (operation) {
	case GFAL_PLUGIN_ACCESS:
	case GFAL_PLUGIN_CHMOD:
	case GFAL_PLUGIN_RENAME:
	case GFAL_PLUGIN_STAT:
	case GFAL_PLUGIN_LSTAT:
	case GFAL_PLUGIN_MKDIR:
	case GFAL_PLUGIN_MKDIR_REC:
	case GFAL_PLUGIN_RMDIR:
	case GFAL_PLUGIN_OPENDIR:
	case GFAL_PLUGIN_OPEN:
	case GFAL_PLUGIN_UNLINK:
	case GFAL_PLUGIN_CHECKSUM:
	case GFAL_PLUGIN_GETXATTR:
	case GFAL_PLUGIN_LISTXATTR:
		return is_rftp_url(url);
	default:
		return FALSE;
	}
}

static void plugin_delete(plugin_handle data)
{
	struct plugin *p = data;

	while (p->idle) {
		struct link *l = p->idle;

		p->idle = l->next;
		link_free(l);
	}
	g_mutex_clear(&p->lock);
	g_free(p);
}

/* gfal2 finds it by its name. */
gfal_plugin_interface gfal_plugin_init(gfal2_context_t context, GError **err);

__attribute__((visibility("default")))
gfal_plugin_interface gfal_plugin_init(gfal2_context_t context, GError **err)
{
	struct plugin *p = g_new0(struct plugin, 1);

	(void)err;
	p->context = context;
	g_mutex_init(&p->lock);
	return (gfal_plugin_interface){
		.plugin_data = p,
		.priority = 0, /* the plugin transfers data, and is no catalogue */
		.getName = plugin_name,
		.plugin_delete = plugin_delete,
		.check_plugin_url = plugin_check_url,
		.accessG = plugin_access,
		.chmodG = plugin_chmod,
		.renameG = plugin_rename,
		.statG = plugin_stat,
		.lstatG = plugin_lstat,
		.opendirG = plugin_opendir,
		.readdirG = plugin_readdir,
		.readdirppG = plugin_readdirpp,
		.closedirG = plugin_closedir,
		.mkdirpG = plugin_mkdir,
		.rmdirG = plugin_rmdir,
		.openG = plugin_open,
		.readG = plugin_read,
		.writeG = plugin_write,
		.lseekG = plugin_lseek,
		.closeG = plugin_close,
		.unlinkG = plugin_unlink,
		.unlink_listG = plugin_unlink_list,
		.getxattrG = plugin_getxattr,
		.listxattrG = plugin_listxattr,
		.checksum_calcG = plugin_checksum,
		.check_plugin_url_transfer = plugin_can_copy,
		.copy_file = plugin_copy,
	};
}
