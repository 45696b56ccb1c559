# SPDX-License-Identifier: Apache-2.0
"""The commands of rftp-numa that plan, compare and draw. The C program measures for them."""
import importlib
import signal


def start(command: str) -> int:
    """One of them as a program: its exit status."""
    # Until the command says otherwise, Ctrl-C ends it at once, without a traceback.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    common = importlib.import_module("rftp_numa.common")
    module = importlib.import_module("rftp_numa." + command)
    return int(common.run_command(module.command))
