// SPDX-License-Identifier: Apache-2.0
/* How a data connection will come to be: EPSV and EPRT (RFC 2428), PASV and PORT (RFC 959). */
#include "control/session.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

enum { PORT_MIN = 1024 }; /* RFC 2577 §3: what is below belongs to services */

/* The IPv4 address in a, also one that IPv6 has mapped; false: there is none. */
static bool ipv4_of(const struct sockaddr_storage *a, uint8_t out[4])
{
	const struct in6_addr *six = &((const struct sockaddr_in6 *)a)->sin6_addr;

	if (a->ss_family == AF_INET)
		memcpy(out, &((const struct sockaddr_in *)a)->sin_addr, 4);
	else if (a->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(six))
		memcpy(out, six->s6_addr + 12, 4);
	else
		return false;
	return true;
}

/* The protocol number of RFC 2428 §2 for the control connection. */
static const char *own_protocol(const struct ftp_session *s)
{
	uint8_t four[4];

	return ipv4_of(&s->peer, four) ? "1" : "2";
}

/* ---- the client connects ---- */

static int no_port(struct ftp_session *s, const struct err *e)
{
	log_warn("%s: no data port: %s", s->peer_text, e->text);
	return ftp_session_reply(s, 425, "No data port is to be had now");
}

static int no_socket(struct ftp_session *s)
{
	return ftp_session_reply(s, 502, "No data connections beside this stream; "
				 "OPTS INLINE MLSD and BULK need none");
}

int cmd_epsv(struct ftp_session *s, char *arg)
{
	struct err e = ERR_INIT;
	uint16_t port;

	if (!s->has_peer)
		return no_socket(s);
	if (!strcasecmp(arg, "ALL")) {
		s->epsv_all = true;
		return ftp_session_reply(s, 200, "EPSV it is");
	}
	if (*arg && strcmp(arg, "1") && strcmp(arg, "2"))
		return ftp_session_reply(s, 501, "Syntax: EPSV [1|2|ALL]");
	if (*arg && strcmp(arg, own_protocol(s)))
		return ftp_session_reply(s, 522, "Not this network protocol, use (%s)",
					 own_protocol(s));
	if (data_listen(s, &port, &e) < 0)
		return no_port(s, &e);
	return ftp_session_reply(s, 229, "Entering Extended Passive Mode (|||%u|)", port);
}

/* After EPSV ALL the client has promised not to come with these (RFC 2428 §4). */
static int refuse_after_all(struct ftp_session *s)
{
	return ftp_session_reply(s, 501, "Nothing but EPSV after EPSV ALL");
}

int cmd_pasv(struct ftp_session *s, char *arg)
{
	struct sockaddr_storage at = { 0 };
	socklen_t len = sizeof(at);
	struct err e = ERR_INIT;
	uint8_t a[4];
	uint16_t port;

	if (!s->has_peer)
		return no_socket(s);
	if (s->epsv_all)
		return refuse_after_all(s);
	if (!ipv4_of(&s->peer, a))
		return ftp_session_reply(s, 502, "PASV is for IPv4 only; there is EPSV");
	if (data_listen(s, &port, &e) < 0)
		return no_port(s, &e);
	/* Where it listens is what is announced: the address that the client knows already,
	 * or the one that is configured. */
	if (getsockname(s->lfd, (struct sockaddr *)&at, &len) < 0 || !ipv4_of(&at, a)) {
		data_forget(s);
		return ftp_session_reply(s, 425, "No data port of IPv4 is to be had now");
	}
	return ftp_session_reply(s, 227, "Entering Passive Mode (%u,%u,%u,%u,%u,%u)", a[0], a[1],
				 a[2], a[3], port >> 8, port & 255);
}

/* ---- the server connects ---- */

/* Only to who has asked for it, and to no service of his: or the server could be made to
 * connect, and to send files, to anybody (RFC 2577 §3). */
static int set_dial(struct ftp_session *s, const struct sockaddr_storage *to, uint64_t port)
{
	if (!same_host(to, &s->peer))
		return ftp_session_reply(s, 504, "Data goes to your own address only");
	if (port < PORT_MIN)
		return ftp_session_reply(s, 504, "Data goes to ports from %d on only", PORT_MIN);
	data_forget(s);
	s->dial = s->peer; /* with its scope, which the text does not have */
	if (s->dial.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&s->dial)->sin6_port = htons((uint16_t)port);
	else
		((struct sockaddr_in *)&s->dial)->sin_port = htons((uint16_t)port);
	return ftp_session_reply(s, 200, "Port %u it is", (unsigned)port);
}

/* What is the same for PORT and EPRT. 0; 1: the reply has been given. */
static int check_active(struct ftp_session *s)
{
	int rc;

	if (!s->has_peer)
		rc = no_socket(s);
	else if (!s->c->active)
		rc = ftp_session_reply(s, 502, "This server does not connect; use EPSV or PASV");
	else if (s->epsv_all)
		rc = refuse_after_all(s);
	else
		return 0;
	return rc < 0 ? rc : 1;
}

/* "h1,h2,h3,h4,p1,p2" */
static bool parse_port(char *arg, struct sockaddr_storage *to, uint64_t *port)
{
	struct sockaddr_in *in = (struct sockaddr_in *)to;
	uint8_t bytes[6];
	int n = 0;

	for (char *one; n < 6 && (one = strsep(&arg, ",")); n++) {
		uint64_t v;

		if (parse_uint(one, 0, 255, &v) < 0)
			return false;
		bytes[n] = (uint8_t)v;
	}
	if (n < 6 || arg)
		return false;
	memset(to, 0, sizeof(*to));
	in->sin_family = AF_INET;
	memcpy(&in->sin_addr, bytes, 4);
	*port = (uint64_t)(bytes[4] << 8 | bytes[5]);
	return true;
}

int cmd_port(struct ftp_session *s, char *arg)
{
	struct sockaddr_storage to;
	uint64_t port;
	int rc = check_active(s);

	if (rc)
		return rc < 0 ? rc : 0;
	if (!parse_port(arg, &to, &port))
		return ftp_session_reply(s, 501, "Syntax: PORT h1,h2,h3,h4,p1,p2");
	return set_dial(s, &to, port);
}

/* The three fields between four times the same character; false: these are not they. */
static bool split_eprt(char *arg, char *field[3])
{
	char d[2] = { arg[0], '\0' };

	if (d[0] < 33 || d[0] > 126)
		return false;
	arg++;
	for (int i = 0; i < 3; i++) {
		field[i] = arg;
		arg = strchr(arg, d[0]);
		if (!arg)
			return false;
		*arg++ = '\0';
	}
	return !*arg;
}

/* The address of family in text, and no name. */
static bool parse_address(const char *text, int family, struct sockaddr_storage *to)
{
	memset(to, 0, sizeof(*to));
	to->ss_family = (sa_family_t)family;
	if (family == AF_INET)
		return inet_pton(AF_INET, text, &((struct sockaddr_in *)to)->sin_addr) == 1;
	return inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)to)->sin6_addr) == 1;
}

int cmd_eprt(struct ftp_session *s, char *arg)
{
	struct sockaddr_storage to;
	char *field[3];
	uint64_t port;
	int rc = check_active(s);

	if (rc)
		return rc < 0 ? rc : 0;
	if (!split_eprt(arg, field) || parse_uint(field[2], 1, UINT16_MAX, &port) < 0)
		return ftp_session_reply(s, 501, "Syntax: EPRT |<1|2>|<address>|<port>|");
	if (strcmp(field[0], own_protocol(s)))
		return ftp_session_reply(s, 522, "Not this network protocol, use (%s)",
					 own_protocol(s));
	if (!parse_address(field[1], *field[0] == '1' ? AF_INET : AF_INET6, &to))
		return ftp_session_reply(s, 501, "That is no address of this protocol");
	return set_dial(s, &to, port);
}
