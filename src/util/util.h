// SPDX-License-Identifier: Apache-2.0
/* util: the base of all other folders, which include this header only. */
#ifndef RFTP_UTIL_H
#define RFTP_UTIL_H

#include "util/base.h"
#include "util/buf.h"
#include "util/child.h"
#include "util/err.h"
#include "util/fault.h"
#include "util/filter.h"
#include "util/io.h"
#include "util/json.h"
#include "util/limits.h"
#include "util/log.h"
#include "util/option.h"
#include "util/thread.h"
#include "util/units.h"
#include "util/url.h"

#endif
