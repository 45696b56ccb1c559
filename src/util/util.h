// SPDX-License-Identifier: Apache-2.0
/* util: what every other folder stands on. One header for the outside. */
#ifndef RFTP_UTIL_H
#define RFTP_UTIL_H

#include "util/buf.h"
#include "util/cgroup.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/conf.h"
#include "util/err.h"
#include "util/fault.h"
#include "util/hash.h"
#include "util/io.h"
#include "util/json.h"
#include "util/log.h"
#include "util/random.h"
#include "util/sanitizer.h"
#include "util/sentry.h"
#include "util/stop.h"
#include "util/thread.h"
#include "util/tool.h"
#include "util/units.h"
#include "util/url.h"

#endif
