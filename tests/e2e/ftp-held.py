#!/usr/bin/env python3
"""An FTP client that executes the lines on standard input on one connection, and prints the code of
each reply.

    ftp-held.py PORT        login USER PASSWORD | get NAME | put NAME SIZE | list | do COMMAND | end
"""
import ftplib
import io
import ssl
import sys

from ftplib_tls import FTP_TLS


def connect(port):
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    ftp = FTP_TLS(context=context, timeout=60)
    ftp.makepasv = lambda: ftplib.parse229(ftp.sendcmd("EPSV"), ftp.sock.getpeername())
    print(ftp.connect("127.0.0.1", port)[:3], flush=True)
    return ftp


def login(ftp, user, password):
    if not isinstance(ftp.sock, ssl.SSLSocket):
        ftp.auth()
    ftp.sendcmd("USER " + user)
    reply = ftp.sendcmd("PASS " + password)
    ftp.prot_p()
    return reply


def act(ftp, what, words):
    if what == "login":
        return login(ftp, *words.split(" ", 1))
    if what == "get":
        return ftp.retrbinary("RETR " + words, lambda data: None)
    if what == "put":
        name, size = words.split(" ")
        return ftp.storbinary("STOR " + name, io.BytesIO(bytes(int(size))))
    if what == "list":
        return ftp.retrlines("MLSD", lambda line: None)
    return ftp.sendcmd(words)


def main():
    ftp = connect(int(sys.argv[1]))
    for line in sys.stdin:
        what, _, words = line.rstrip("\n").partition(" ")
        if what == "end":
            break
        try:
            code = act(ftp, what, words)[:3]
        except ftplib.Error as problem:
            code = str(problem)[:3]
        except (OSError, EOFError):
            code = "gone"
        print(code, flush=True)
    ftp.close()
    print("end", flush=True)


main()
