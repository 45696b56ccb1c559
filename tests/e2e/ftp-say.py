"""Sends FTP commands to a server over TLS; prints its replies and the time of each.

    ftp-say.py PORT [--cert FILE] [--timeout SECONDS] [--hold] COMMAND...

A line of output has the seconds, and the reply's lines joined by " | ". --hold: stays connected
after that until standard input ends.
"""
import argparse
import ftplib
import ssl
import sys
import time


def main():
    p = argparse.ArgumentParser()
    p.add_argument('port', type=int)
    p.add_argument('--cert')
    p.add_argument('--timeout', type=int, default=60)
    p.add_argument('--hold', action='store_true')
    p.add_argument('commands', nargs='+')
    a = p.parse_args()
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if a.cert:
        context.load_cert_chain(a.cert)
    ftp = ftplib.FTP_TLS(context=context)
    ftp.connect('127.0.0.1', a.port, timeout=a.timeout)
    ftp.auth()
    for command in a.commands:
        began = time.monotonic()
        ftp.putcmd(command)
        try:
            reply = ftp.getmultiline()
        except (EOFError, OSError):
            reply = 'closed'
        print(f'{time.monotonic() - began:.3f} ' + reply.replace('\n', ' | '), flush=True)
    if a.hold:
        sys.stdin.read()


main()
