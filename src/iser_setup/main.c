// SPDX-License-Identifier: Apache-2.0
/* rftp-iser: storage of a host, bound to its NUMA nodes, served by iSER, and used. */
#include "iser_setup/tool.h"

static const struct tool_command commands[] = {
	{ "plan", "what this host is to serve: a file to read, change and apply", tool_plan },
	{ "apply", "make this host serve what a plan says", tool_apply },
	{ "status", "what is up, and where it really is", tool_status },
	{ "verify", "is what is up what was applied?", tool_verify },
	{ "remove", "take away what was made for a plan", tool_remove },
	{ "login", "log this host in to targets, and have their disks", tool_login },
	{ "logout", "log it out again", tool_logout },
	{ 0 }
};

int main(int argc, char **argv)
{
	return tool_main("rftp-iser", commands, argc, argv);
}
