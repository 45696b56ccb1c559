// SPDX-License-Identifier: Apache-2.0
/* rftp-iser's commands. */
#ifndef RFTP_ISER_TOOL_H
#define RFTP_ISER_TOOL_H

#include "util/util.h"

tool_run tool_plan;
tool_run tool_apply;
tool_run tool_status;
tool_run tool_verify;
tool_run tool_remove;
tool_run tool_login;
tool_run tool_logout;

#endif
