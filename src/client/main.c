// SPDX-License-Identifier: Apache-2.0
/* The program rftp. */
#include "client/client.h"

int main(int argc, char **argv)
{
	return client_main(argc, argv);
}
