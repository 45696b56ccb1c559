// SPDX-License-Identifier: Apache-2.0
/* Asks the kernel for the route to an address: rtnetlink(7), RTM_GETROUTE. Nothing is sent. */
#include "numa/topo.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_MAX 8192 /* what the kernel itself makes of one route is some hundred bytes */

struct question {
	struct nlmsghdr head;
	struct rtmsg route;
	struct rtattr attr;
	unsigned char address[sizeof(struct in6_addr)];
};

/* 0; -EINVAL: it is no address. */
static int ask_for(struct question *q, const char *address)
{
	size_t bytes = sizeof(struct in_addr);

	*q = (struct question){ .route.rtm_family = AF_INET };
	if (inet_pton(AF_INET, address, q->address) != 1) {
		if (inet_pton(AF_INET6, address, q->address) != 1)
			return -EINVAL;
		q->route.rtm_family = AF_INET6;
		bytes = sizeof(struct in6_addr);
	}
	q->route.rtm_dst_len = (unsigned char)(bytes * 8);
	q->attr.rta_type = RTA_DST;
	q->attr.rta_len = (unsigned short)RTA_LENGTH(bytes);
	q->head.nlmsg_type = RTM_GETROUTE;
	q->head.nlmsg_flags = NLM_F_REQUEST;
	q->head.nlmsg_len = (uint32_t)(NLMSG_LENGTH(sizeof(q->route)) + q->attr.rta_len);
	return 0;
}

/* The number of the interface in an answer; or a negative errno. */
static int interface_in(const struct nlmsghdr *head, size_t bytes)
{
	const struct rtmsg *route = NLMSG_DATA(head);
	const struct nlmsgerr *error = NLMSG_DATA(head);
	const struct rtattr *attr = RTM_RTA(route);
	int left;

	if (!NLMSG_OK(head, bytes))
		return -EBADMSG;
	if (head->nlmsg_type == NLMSG_ERROR && NLMSG_PAYLOAD(head, 0) >= sizeof(*error))
		return error->error;
	if (head->nlmsg_type != RTM_NEWROUTE || NLMSG_PAYLOAD(head, 0) < sizeof(*route))
		return -EBADMSG;
	for (left = (int)RTM_PAYLOAD(head); RTA_OK(attr, left); attr = RTA_NEXT(attr, left))
		if (attr->rta_type == RTA_OIF && RTA_PAYLOAD(attr) == sizeof(int))
			return *(const int *)RTA_DATA(attr);
	return -ENODEV;
}

int route_netdev(const char *address, char ifname[IF_NAMESIZE])
{
	CLEANUP_CLOSE int fd = -1;
	union {
		struct nlmsghdr head;
		char bytes[ANSWER_MAX];
	} answer;
	struct question q;
	ssize_t n;
	int r = ask_for(&q, address);

	ifname[0] = '\0';
	if (r)
		return r;
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0 || send(fd, &q, q.head.nlmsg_len, 0) < 0)
		return -errno;
	n = recv(fd, &answer, sizeof(answer), 0);
	if (n < 0)
		return -errno;
	r = interface_in(&answer.head, (size_t)n);
	if (r <= 0)
		return r ? r : -ENODEV;
	return if_indextoname((unsigned)r, ifname) ? 0 : -errno;
}
