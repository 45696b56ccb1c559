// SPDX-License-Identifier: Apache-2.0
/* The settings of rftpd: the struct, the tables of options that fill it from the command line and
 * rftpd.conf(5), and the functions that load, check and print it. Only one thread loads settings;
 * any thread may read them. */
#ifndef RFTP_SERVER_CONFIG_OPTIONS_H
#define RFTP_SERVER_CONFIG_OPTIONS_H

#include "transfer/transfer.h"
#include "util/util.h"

#include <netinet/in.h>

/* ---- networks, for the lists of allowed and refused addresses; option_rows.c ---- */

/* An IPv4 network is stored as an IPv6 network below ::ffff:0:0/96. */
struct network {
	struct in6_addr addr;
	uint8_t bits;
	bool all;                /* any address, IPv4 and IPv6 */
};

struct networks {
	struct network *at;
	size_t n;
};

/* Parse "192.0.2.0/24", "2001:db8::/32", a single address, or "all". 0; -EINVAL with text:
 * malformed, or an address bit after the prefix is 1, which is a typing error. */
int network_parse(const char *text, struct network *n, struct err *e);
#define NETWORK_TEXT 64

/* Write n to out in the form that network_parse() reads. Returns out. */
const char *network_text(const struct network *n, char out[NETWORK_TEXT]);

/* Append the networks of list, separated by commas or blanks, to l. 0; -EINVAL or -ENOMEM with
 * text. */
int networks_add(struct networks *l, const char *list, struct err *e);
void networks_clear(struct networks *l);

/* May peer connect? The longest prefix of either list that contains peer decides; if both lists
 * have one of the same length, the answer is no. An address in neither list may connect if allow is
 * empty. Pure. */
bool networks_admit(const struct networks *allow, const struct networks *refuse,
		    const struct sockaddr_storage *peer);

/* ---- the settings ---- */

#define LISTEN_MAX 16
#define CHECKS_MAX 64

struct listen_addr {
	char addr[64];     /* numeric */
	uint16_t port;     /* 0: any */
	bool optional;     /* a default address that this host may not have */
};

/* The accounts that may copy files from this server to another one: named users, all including
 * anonymous, or none. OFF also forbids copies from another server to this one. */
enum third_party { THIRD_PARTY_USERS, THIRD_PARTY_ALL, THIRD_PARTY_OFF };

/* The rights of an account, rftpd(8). */
enum rights { RIGHTS_NONE, RIGHTS_RO, RIGHTS_RW, RIGHTS_NODELETE, RIGHTS_UPLOAD };

/* FTP data connections under TLS must resume the TLS session of the control connection, or may have
 * any TLS session. */
enum tls_data { TLS_DATA_RESUMED, TLS_DATA_ANY };

enum tls_least { TLS_LEAST_1_3, TLS_LEAST_1_2 };

/* The section [user NAME], [group NAME] or [anonymous]; NULL and RIGHTS_NONE: not set. */
struct srv_rules {
	char *name;              /* NULL: of [anonymous] */
	char *root, *home;       /* absolute; home is below root */
	char *system_user;
	enum rights rights;
	unsigned umask;          /* 0, or UMASK_GIVEN and its bits */
};

enum { UMASK_GIVEN = 01000 };

struct srv_options {
	/* connections */
	struct listen_addr listen[LISTEN_MAX];
	int nlisten;
	struct networks allow, refuse;
	unsigned max_sessions, max_per_host;
	unsigned max_per_user;       /* 0: no limit */
	unsigned max_checks;         /* concurrent password checks; 0: depends on the memory of the
				      * host */
	uint64_t login_timeout, idle_timeout; /* ns */

	/* accounts and rights */
	char *root, *users;
	enum rights anonymous;       /* RIGHTS_NONE: anonymous may not log in */
	bool pam;                    /* users of the system may log in, checked by PAM */
	char *certificates;          /* the map of certificates to users; NULL: clients are not
				      * asked for certificates */
	char *files_user;            /* the system user for accounts that are not system users */
	bool allow_root;
	char *admin;                 /* users that see all transfers, with commas; NULL: none */
	uint64_t parts_age;          /* ns; 0: unfinished files stay */
	enum third_party third_party;
	struct srv_rules *user_rules, *group_rules, anonymous_rules;
	size_t nuser_rules, ngroup_rules;

	/* TLS */
	char *state, *certificate, *key, *ca, *tls_ciphers; /* NULL: default */
	enum tls_least tls_min;
	enum tls_data tls_data;
	bool plain;
	unsigned prot_min;           /* enum prot */

	/* data */
	char *data_address;          /* numeric; NULL: any */
	struct port_range data_ports;
	bool active;                 /* FTP's PORT and EPRT */
	struct nic_rule *nics;       /* [nic NAME] */
	size_t nnics;
	uint64_t memory_budget;      /* bytes for the pools of all sessions; 0: chosen by the
				      * server */
	uint64_t stall;              /* ns; time limit of a data channel without progress */
	char *numa;                  /* as given; NULL: default */
	unsigned pin;                /* 1: each thread has a CPU */
	unsigned hugepages;          /* 0: auto, 1: on, 2: off */
	/* The settings of each transfer; a session sets the umask of its account in its copy. Rows
	 * of the table set some members, and the load sets the others from the members above. The
	 * strings are owned. */
	struct transfer_tuning tuning;

	/* the log */
	char *log;                   /* for srv_log_target(); NULL: stderr */
	enum log_format log_format;
	enum log_level log_level;

	/* the program */
	char *config;                /* the file that was read; NULL: none */
	char *port_file, *metrics_file; /* NULL: none */
	char *user;                  /* the user of the preauth processes */
	bool one_process, foreground, stdio;
	uid_t preauth_uid;           /* the uid of the preauth processes; 0: not known yet */
	bool hash_password, help, version, check_config, show_config;

	unsigned from[OPTION_ROWS_MAX];  /* as struct option_target has it */
};

/* ---- tables, option_rows.c ---- */

/* Flags of rows. */
enum {
	NOT_STDIO = 1 << 0,  /* refused with --stdio */
	EARLY = 1 << 1,      /* decides which file is read, if any */
};

extern const struct option_def rftpd_options[];
extern const struct option_def srv_user_rows[];       /* of [user] and [group]: struct srv_rules */
extern const struct option_def srv_anonymous_rows[];  /* of [anonymous]: the same */
extern const struct option_def srv_nic_rows[];        /* of [nic]: struct nic_rule */
/* The word of each enum rights, "off" first; NULL at the end. */
extern const char *const srv_rights_words[];

/* ---- loading ---- */

/* Load defaults, then the file, then the command line. 0; or a negative errno with text: e has the
 * last error, the log has the others, and o is empty. */
int srv_options_load(struct srv_options *o, int argc, char **argv, struct err *e);
/* Free o's contents. A struct of zeros is harmless. */
void srv_options_clear(struct srv_options *o);
/* For --check-config: check o against this host; log each error, and a warning for each setting
 * that is allowed but not safe. True: there are no errors. Creates no files. */
bool srv_options_check(const struct srv_options *o);
/* Print o as an rftpd.conf that has the same effect. */
void srv_options_show(FILE *out, const struct srv_options *o);

/* Was option name set by the command line or the file? */
bool srv_option_given(const struct srv_options *o, const char *name);
/* Write the origin of option name to out, as error messages begin: "FILE:LINE: name", or "--name".
 * Returns out. */
const char *srv_option_where(const struct srv_options *o, const char *name, char out[512]);

/* Parse value: "stderr" (also for NULL), "syslog", "journal", or the path of a file. 0; -EINVAL:
 * none of these. */
int srv_log_target(const char *value, enum log_target *target);

/* Fill out with the settings of rftpd.conf for account name: those of [user name]; settings missing
 * there are from the first [group] section in the file that is in groups. groups: the account's
 * system groups. o owns the strings in out. */
void srv_account_rules(const struct srv_options *o, const char *name, const char *const *groups,
		       size_t ngroups, struct srv_rules *out);

#endif
