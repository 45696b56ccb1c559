# SPDX-License-Identifier: Apache-2.0
"""The commands of rftp-numa that plan, compare and draw. The C program measures for them."""
