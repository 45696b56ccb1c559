# SPDX-License-Identifier: Apache-2.0
"""The commands of rftp-numa that plan, compare and draw. The C program measures for them."""
import signal

# Until a command says otherwise, Ctrl-C ends it at once, without a traceback.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
