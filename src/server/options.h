// SPDX-License-Identifier: Apache-2.0
/* The options of rftpd: one table for the command line and --help. */
#ifndef RFTP_SERVER_OPTIONS_H
#define RFTP_SERVER_OPTIONS_H

#include "transport/transport.h"
#include "util/util.h"

#include <stdbool.h>
#include <stdint.h>

#define LISTEN_MAX 16

struct listen_addr {
	char addr[64];     /* numeric */
	uint16_t port;     /* 0: any */
	bool optional;     /* a default that this host may not have */
};

/* Who may have files sent from here to another server: who has logged in, anonymous too, or
 * nobody, and then another cannot be told to put any here. */
enum third_party { THIRD_PARTY_USERS, THIRD_PARTY_ALL, THIRD_PARTY_OFF };

enum anonymous { ANONYMOUS_NO, ANONYMOUS_RO, ANONYMOUS_RW };

/* Strings are views into argv. */
struct srv_options {
	struct listen_addr listen[LISTEN_MAX];
	int nlisten;
	const char *root, *users, *state, *port_file;
	const char *nic;             /* cards for data, "a,b"; NULL: as it suits */
	enum anonymous anonymous;
	enum third_party third_party;
	uint16_t port_lo, port_hi;   /* of data listeners; 0, 0: any */
	uint8_t prot_min;
	uint64_t memory;             /* bytes for pools per transfer; 0: chosen */
	int tos;                     /* of data connections; -1: as the system has it */
	enum poll_mode poll;
	struct place_wish place;     /* NUMA nodes */
	unsigned balance_percent;    /* 0: default */
	uint64_t balance_ns;         /* 0: default */
	enum page_choice pages;      /* for blocks */
	const char *user;            /* whose the fronts are; NULL: rftpd, or nobody */
	const char *files_user;      /* whose sessions are that are no system user's */
	bool one_process;            /* also when run by root */
	bool foreground, stdio, plain, active;
	int verbosity;               /* -1 quiet, 0, 1 verbose */
	bool hash_password, help, version;
};

/* Defaults, then the command line. 0, or -EINVAL with text. */
int srv_options_parse(struct srv_options *o, int argc, char **argv, struct err *e);
/* --help's text, made from the table. */
void srv_options_help(FILE *out);

#endif
