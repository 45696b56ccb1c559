// SPDX-License-Identifier: Apache-2.0
/* Makes changes fail on purpose, as RFTP_FAULT_ISER says; the rules' grammar is in util/fault.h.
 * Points: "before" and "after" each step, "undo" before what takes one back, "kept" once what is
 * going to be made is on stable storage. */
#ifndef RFTP_ISER_FAULT_H
#define RFTP_ISER_FAULT_H

/* The negative errno to fail with, or 0. */
int fault_iser(const char *point);

#endif
