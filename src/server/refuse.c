// SPDX-License-Identifier: Apache-2.0
/* The last words to clients that are not served. */
#include "server/refuse.h"

#include <stdio.h>

void refusal_log(const char *peer, const char *why)
{
	struct log_field fields[] = {
		LOG_NAME("event", "refused"), LOG_NAME("peer", peer), LOG_NAME("result", why),
	};

	log_event(LOG_LV_WARN, fields, sizeof(fields) / sizeof(fields[0]),
		  "connection from %s refused: %s", peer, why);
}

/* Whom the settings do not let in learns no more. */
void refuse_address(int fd, const struct sockaddr_storage *peer)
{
	static const char line[] = "421 Your address is not served here\r\n";
	char text[80];

	refusal_log(srv_peer_text(peer, text), "the address is not one that may connect");
	send(fd, line, sizeof(line) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void refuse_for_now(int fd, const struct sockaddr_storage *peer, const char *why)
{
	CLEANUP_FREE char *line = NULL;
	char text[80];
	int len = asprintf(&line, "421 %s, try again later\r\n", why);

	refusal_log(srv_peer_text(peer, text), why);
	if (len < 0)
		line = NULL;
	else
		send(fd, line, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL);
}
