// SPDX-License-Identifier: Apache-2.0
/* proto: types and codecs of everything that crosses the wire; no I/O, no state. */
#ifndef RFTP_PROTO_H
#define RFTP_PROTO_H

#include "proto/bulk.h"
#include "proto/ftp.h"
#include "proto/negotiate.h"
#include "proto/third.h"

#endif
