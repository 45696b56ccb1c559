#!/usr/bin/env python3
# phony-speakers.py FILE: listeners of other protocols. One port for each, with "NAME PORT" lines in
# FILE when all are ready; ends when its standard input does.
import os, sys, time
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from phony import listen


def http(c):
    c.recv(1)
    c.sendall(b'HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n')


def ssh(c):
    c.sendall(b'SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n')
    time.sleep(60)


def silence(c):
    time.sleep(60)


def closes(c):
    pass


def binary(c):
    c.sendall(bytes(range(256)) * 16)
    time.sleep(60)


def endless(c):
    while True:
        c.sendall(b'x' * 65536)


def lines(c):
    while True:
        c.sendall(b'220-and so on\r\n' * 1000)


def number(c):
    c.sendall(b'2' * 65536)
    time.sleep(60)


def nul(c):
    c.sendall(b'220 he\0llo\r\n')
    time.sleep(60)


def busy(c):
    c.sendall(b'421 Too many sessions; try again later\r\n')


def plain(c):  # an FTP server without TLS
    f = c.makefile('rb')
    c.sendall(b'220 old server\r\n')
    while f.readline():
        c.sendall(b'500 what?\r\n')


def no_tls(c):  # accepts AUTH, but starts no TLS
    c.sendall(b'220 hello\r\n')
    c.recv(100)
    c.sendall(b'234 go on\r\n')
    c.recv(100)
    c.sendall(b'\x15\x03\x03garbage' * 100)
    time.sleep(60)


def injects(c):  # plain-text bytes after the 234
    c.sendall(b'220 hello\r\n')
    c.recv(100)
    c.sendall(b'234 go on\r\n230 you are in\r\n')
    time.sleep(60)


def dribbles(c):
    while True:
        c.sendall(b'2')
        time.sleep(0.2)


def preliminary(c):  # sends only preliminary replies
    while True:
        c.sendall(b'120 wait\r\n')
        time.sleep(0.2)


def preliminaries(c):
    while True:
        c.sendall(b'120 wait\r\n' * 1000)


def slow_lines(c):  # a greeting that never ends
    while True:
        c.sendall(b'220-and so on\r\n')
        time.sleep(0.2)


def talk(fn):
    def one(c):
        try:
            fn(c)
        except OSError:
            pass
        c.close()
    return one


speakers = {fn.__name__: talk(fn) for fn in (
    http, ssh, silence, closes, binary, endless, lines, number, nul, busy, plain, no_tls, injects,
    dribbles, preliminary, preliminaries, slow_lines)}
speakers['stuck'] = None
listen(sys.argv[1], speakers)
