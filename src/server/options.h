// SPDX-License-Identifier: Apache-2.0
/* The settings of rftpd: one table for the command line, rftpd.conf(5) and --help. A value that
 * owns what it holds, and can be loaded again. */
#ifndef RFTP_SERVER_OPTIONS_H
#define RFTP_SERVER_OPTIONS_H

#include "server/networks.h"
#include "transport/transport.h"
#include "util/util.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define LISTEN_MAX 16
#define CHECKS_MAX 64
#define OPTIONS_MAX 80   /* rows of the table, at most */

struct listen_addr {
	char addr[64];     /* numeric */
	uint16_t port;     /* 0: any */
	bool optional;     /* a default that this host may not have */
};

/* Who may have files sent from here to another server: who has logged in, anonymous too, or
 * nobody, and then another cannot be told to put any here. */
enum third_party { THIRD_PARTY_USERS, THIRD_PARTY_ALL, THIRD_PARTY_OFF };

/* What an account may do, rftpd(8). */
enum rights { RIGHTS_NONE, RIGHTS_RO, RIGHTS_RW, RIGHTS_NODELETE, RIGHTS_UPLOAD };

/* Data connections under TLS: those of the client of the control connection, or any. */
enum tls_data { TLS_DATA_RESUMED, TLS_DATA_ANY };

enum tls_least { TLS_LEAST_1_3, TLS_LEAST_1_2 };

/* [user NAME], [group NAME] or [anonymous]: what it says; NULL and RIGHTS_NONE: nothing. */
struct srv_rules {
	char *name;              /* NULL: of [anonymous] */
	char *root, *home;       /* absolute; home is one below root */
	char *system_user;
	enum rights rights;
	unsigned umask;          /* 0, or UMASK_GIVEN and its bits */
};

enum { UMASK_GIVEN = 01000 };

struct srv_options {
	/* who may come */
	struct listen_addr listen[LISTEN_MAX];
	int nlisten;
	struct networks allow, refuse;
	unsigned max_sessions, max_per_host;
	unsigned max_per_user;       /* 0: no limit */
	unsigned max_checks;         /* of passwords; 0: by the memory */
	uint64_t login_timeout, idle_timeout; /* ns */

	/* who may log in, and what he finds */
	char *root, *users;
	enum rights anonymous;       /* RIGHTS_NONE: may not come */
	bool pam;                    /* the system's users */
	char *certificates;          /* whose clients' are; NULL: none are asked for */
	char *files_user;            /* the system user of who is none */
	bool allow_root;
	unsigned umask;
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
	char *nic;                   /* cards for data, "a,b"; NULL: as it suits */
	struct nic_rule *nics;       /* [nic NAME] */
	size_t nnics;
	uint64_t memory;             /* bytes for pools per transfer; 0: chosen */
	uint64_t memory_budget;      /* of all sessions' pools; 0: chosen */
	enum poll_mode poll;
	uint64_t stall;              /* ns; of data channels */
	char *numa, *nic_node;       /* as they were said; NULL: default */
	struct place_wish place;     /* what they mean; its strings are nic_node's */
	unsigned balance_percent;
	uint64_t balance_ns;
	unsigned pin;                /* 1: each thread has a CPU */
	unsigned hugepages;          /* srv_pages() tells */
	char *congestion;            /* control of TCP; NULL: the system's, see transfer.h */
	int tos;                     /* of data connections; -1: as the system has it */

	/* the log */
	char *log;                   /* srv_log_target() tells; NULL: stderr */
	enum log_format log_format;
	enum log_level log_level;

	/* the program */
	char *config;                /* the file that was read; NULL: none */
	char *port_file;             /* NULL: none */
	char *user;                  /* the system user before a login */
	bool one_process, foreground, stdio;
	uid_t front_uid; /* of the processes before login, once it is prepared; 0: none */
	bool hash_password, help, version, check_config, show_config;

	/* Where each row of the table was set: a line of the file, or 0: it was not, or not
	 * there. */
	unsigned line[OPTIONS_MAX];
	bool given[OPTIONS_MAX];
};

/* Defaults, then the file, then the command line. 0; or a negative errno: e has the last thing
 * that is wrong, all others have been logged; o is empty. */
int srv_options_load(struct srv_options *o, int argc, char **argv, struct err *e);
/* Harmless on what is zero. */
void srv_options_clear(struct srv_options *o);
/* Files that are to be there. Calls bad for each thing that is wrong with one, and weak for what
 * is allowed, but not safe. */
void srv_options_check(const struct srv_options *o, void (*bad)(const char *text),
		       void (*weak)(const char *text));
/* --help's text, made from the table. */
void srv_options_help(FILE *out);
/* All that is in force, as a file that would make it so. */
void srv_options_show(FILE *out, const struct srv_options *o);

/* Was option name of the table set, here or there? */
bool srv_option_given(const struct srv_options *o, const char *name);
/* What option name of the table was set by, as errors begin: "FILE:LINE: name", or "--name". */
const char *srv_option_where(const struct srv_options *o, const char *name, char out[512]);

/* stderr, syslog, journal, or else a file that it names; -EINVAL: it can be none. */
int srv_log_target(const char *value, enum log_target *target);

/* What rftpd.conf has for account name: [user name] first, and where that says nothing, the first
 * [group] of the file that is one of groups, the names of the system's groups that it is in. The
 * strings of out are o's. */
void srv_account_rules(const struct srv_options *o, const char *name, const char *const *groups,
		       size_t ngroups, struct srv_rules *out);

/* May a connection from peer be served at all? */
bool srv_admits(const struct srv_options *o, const struct sockaddr_storage *peer);

#endif
