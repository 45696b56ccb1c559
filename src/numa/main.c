// SPDX-License-Identifier: Apache-2.0
/* rftp-numa: what this machine's topology is, what it costs, and where to put things. */
#include "numa/tool.h"

static const struct tool_command commands[] = {
	{ "topo", "the nodes of this machine and what is on each", tool_topo },
	{ "model", "what copies between nodes cost, and which are alike", tool_model },
	{ "plan", "how many threads should carry what by which nodes", tool_plan },
	{ "affinity", "what it costs when buffers or threads are on another node", tool_affinity },
	{ "factor", "how much worse the memory of other nodes is", tool_factor },
	{ 0 }
};

int main(int argc, char **argv)
{
	return tool_main("rftp-numa", commands, argc, argv);
}
