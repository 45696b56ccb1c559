#!/usr/bin/env python3
# phony-ftp.py DIRECTORY: an FTP server without TLS, just enough for rftp's shell, with a tree of
# names that no correct server lists. Files in DIRECTORY control its behaviour from the next
# command on:
#   mute     verbs, one per line, that get no reply: the client waits. GREETING, TLS (AUTH gets a
#            reply, but no handshake follows), DATA (a list does not continue)
#   leave    verbs on which it closes the connection
#   refuse   no user may log in
#   outline  lists do not come in replies
# It writes its port to the file port, and every received verb to the file said. Ends when standard
# input does.
import os, socket, sys, threading
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from phony import Stream

place = sys.argv[1]
ESCAPE = b'\x1b]0;owned\x07\x1b[31mred'
# The names in each directory, as sent.
tree = {
    b'/': [b'd/', b'f', b'slash/', b'dotdot/', b'dot/', b'empty/', b'climb/', b'absolute/', b'escape/', b'link/'],
    b'/d': [b'one.dat', b'two.dat'],
    b'/slash': [b'good', b'a/b'],
    b'/dotdot': [b'good', b'..'],
    b'/dot': [b'good', b'.'],
    b'/empty': [b'good', b''],
    b'/climb': [b'good', b'../../stolen'],
    b'/absolute': [b'good', b'/tmp/rftp-stolen'],
    b'/escape': [b'good', ESCAPE],
    b'/link': [b'good', b'to'],
}


def has(name, word=None):
    try:
        with open(os.path.join(place, name)) as f:
            return word is None or word in f.read().split()
    except OSError:
        return False


def said(text):
    with open(os.path.join(place, 'said'), 'a') as f:
        f.write(text + '\n')


def facts(name):
    if name.endswith(b'/'):
        return b'type=dir;UNIX.mode=0755; ' + name[:-1]
    if name == b'to':
        return b'type=OS.unix=slink:' + ESCAPE.replace(b';', b',') + b'; to'
    return b'type=file;size=4;UNIX.mode=0644;modify=20200102030405; ' + name


def clean(path):
    path = os.path.normpath(b'/' + path)
    return b'/' + path.lstrip(b'/')


class Session(Stream):
    def mute(self, verb):
        """Stays silent until the client gives up."""
        if has('mute', verb):
            said('mute ' + verb)
            self.s.settimeout(None)
            self.drain()
            raise EOFError

    def say(self, text):
        self.send(text + b'\r\n')

    def run(self):
        self.mute('GREETING')
        self.say(b'220 phony')
        while True:
            verb, _, arg = self.line().partition(b' ')
            verb = verb.decode().upper()
            said(verb)
            self.mute(verb)
            if has('leave', verb):
                raise EOFError
            getattr(self, 'do_' + verb, self.unknown)(arg)

    def unknown(self, arg): self.say(b'502 no')

    def do_AUTH(self, arg):
        if has('mute', 'TLS'):
            self.say(b'234 go on')
            self.mute('TLS')
        self.say(b'502 no')

    def do_USER(self, arg): self.say(b'530 not you' if has('refuse') else b'331 and?')
    def do_PASS(self, arg): self.say(b'530 not in' if has('refuse') else b'230 in')
    def do_FEAT(self, arg): self.say(b'211-f\r\n MLST type*;size*;\r\n211 end')
    def do_TYPE(self, arg): self.say(b'200 I')
    def do_NOOP(self, arg): self.say(b'200 here')
    def do_PWD(self, arg): self.say(b'257 "/" is it')
    def do_RNFR(self, arg): self.say(b'350 and?')
    def do_QUIT(self, arg): raise EOFError

    def do_OPTS(self, arg):
        ok = arg == b'INLINE MLSD' and not has('outline')
        self.say(b'200 so it is' if ok else b'501 no')

    def do_MLST(self, arg):
        path = clean(arg)
        parent, name = os.path.split(path)
        if path in tree:
            fact = b'type=dir;UNIX.mode=0755; ' + path
        elif name in tree.get(parent, []):
            fact = facts(name).rsplit(b' ', 1)[0] + b' ' + path
        else:
            return self.say(b'550 No such file or directory')
        self.say(b'250-so\r\n ' + fact + b'\r\n250 end')

    def do_MLSD(self, arg):
        if clean(arg) not in tree:
            return self.say(b'550 No such file or directory')
        lines = [facts(n) + b'\r\n' for n in tree[clean(arg)]]
        self.send(b'150-list\r\n')
        self.mute('DATA')
        self.send(b''.join(b' ' + l for l in lines) + b'150 \r\n226 done\r\n')


def talk(s):
    session = Session(s, 60)
    try:
        session.run()
    except (EOFError, OSError):
        pass
    session.close()


listener = socket.create_server(('127.0.0.1', 0))
# A listener with a full queue: it accepts no more connections.
full = socket.create_server(('127.0.0.1', 0), backlog=0)
first = socket.create_connection(full.getsockname())


def accept():
    while True:
        threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()


threading.Thread(target=accept, daemon=True).start()
with open(os.path.join(place, 'port.new'), 'w') as out:
    out.write(f'{listener.getsockname()[1]} {full.getsockname()[1]}\n')
os.rename(os.path.join(place, 'port.new'), os.path.join(place, 'port'))
sys.stdin.read()
