// SPDX-License-Identifier: Apache-2.0
/* The program rftp. */
#include "client/client.h"
#include "util/util.h"

int main(int argc, char **argv)
{
	hold_standard_fds();
	return client_main(argc, argv);
}
