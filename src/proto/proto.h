// SPDX-License-Identifier: Apache-2.0
/* proto: what crosses the wire, as types and codecs; no I/O, no state. */
#ifndef RFTP_PROTO_H
#define RFTP_PROTO_H

#include "proto/bulk.h"
#include "proto/ftp.h"
#include "proto/ftp_list.h"
#include "proto/negotiate.h"
#include "proto/third.h"

#endif
