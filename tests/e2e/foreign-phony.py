#!/usr/bin/env python3
"""An FTP server without TLS that is unusual or hostile in one way; one session after the other.

foreign-phony.py PORTFILE ROOT ODDITY...

Files are in ROOT; commands are logged to standard error, one per line. Oddities:

  list         no FEAT: LIST, SIZE and MDTM only, no LIST -a
  dos          the same, with listings in DOS format
  names        lists names that lead outside the directory
  control      lists names with control characters
  nul          lists a name with a NUL in it
  short        sends half of a file and says 226
  long         sends more than the file has and says 226
  aborted      sends half of a file and says 426
  local-error  sends half of a file and says 451
  cut          sends half of a file and drops the control connection, but not for the rest of it
  no-epsv      knows only PASV, whose reply has an address of another host
  no-replace   does not rename to an existing name
  no-rename    does not rename at all
  no-rest      refuses REST
  full         has no room for a file of more than 100000 bytes
  nothing      does not answer USER
  vms          has paths without slashes
  no-size      knows neither SIZE nor MDTM
  loses        keeps only half of each upload
  cut-store    drops both connections in the middle of the first upload
  store-451    keeps half of the first upload, and says 451
  size-once    answers SIZE once
  digest-fails offers XSHA256, which fails
  strands      renames only to the name that a file gets before it is replaced
  cut-end      keeps the first upload, and drops the control connection before 226
  replaced     as cut; then another file of that length has the name
  links        lists links as such, and drops the control connection at the first CWD to "zlink"
  dash-a       lists the file whose name is the argument of LIST
  denied       removes files only, no links to directories and no directories
  touched      reports another time for a file after sending it
  mlst-CODE, mlsd-CODE  answers MLST, or MLSD, with CODE, though FEAT lists them
"""
import os
import socket
import sys
import threading
import time

portfile, root, odd = sys.argv[1], sys.argv[2], set(sys.argv[3:])
OLD = odd & {"list", "dos"}
EVIL = [b"good", b"../up", b"a/b", b"/etc/x"]
sent = set()
CONTROL = [b"tab\there", b"esc\x1b[2J", b"good"]


done = set()


def log(text):
    """Writes each line at once: sessions log at the same time."""
    os.write(2, text.encode() + b"\n")


def first(oddity):
    """True the first time, if this server has the oddity."""
    if oddity not in odd or oddity in done:
        return False
    done.add(oddity)
    return True


class Gone(Exception):
    pass


class Session:
    def __init__(self, sock):
        self.sock, self.lines = sock, sock.makefile("rb")
        self.cwd, self.rest, self.renamed, self.listener = b"/", 0, None, None

    def say(self, text):
        self.sock.sendall(text.encode() + b"\r\n")

    def path(self, arg):
        path = os.path.normpath(os.path.join(self.cwd, arg))
        return os.path.join(root.encode(), path.lstrip(b"/"))

    def run(self):
        self.say("220 odd")
        for line in self.lines:
            log(line.decode(errors="replace").rstrip())
            verb, _, arg = line.rstrip(b"\r\n").partition(b" ")
            do = getattr(self, "do_" + verb.decode().lower(), None)
            if do:
                do(arg)
            else:
                self.say("502 not here")

    def do_user(self, arg):
        if "nothing" not in odd:
            self.say("331 word?")

    def do_pass(self, arg):
        self.say("230 in")

    def do_type(self, arg):
        self.say("200 ok")

    do_noop = do_type

    def do_quit(self, arg):
        self.say("221 bye")
        raise Gone

    def do_feat(self, arg):
        if OLD:
            return self.say("500 what?")
        sizes = "" if "no-size" in odd else " SIZE\r\n MDTM\r\n"
        digests = " XSHA256\r\n" if "digest-fails" in odd else ""
        self.say("211-yes\r\n MLST type*;size*;\r\n REST STREAM\r\n" + sizes + digests +
                 "211 end")

    def do_xsha256(self, arg):
        self.say("451 disk")

    def do_pwd(self, arg):
        self.say('257 "DKA0:[JOE]"' if "vms" in odd else '257 "/" here')

    def do_cwd(self, arg):
        if "links" in odd and arg.endswith(b"zlink") and "zlink" not in sent:
            sent.add("zlink")
            raise Gone
        if not os.path.isdir(self.path(arg)):
            return self.say("550 no")
        self.cwd = arg
        self.say("250 ok")

    def listen(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=0 if "crowded" in odd else 9)
        if "crowded" in odd:  # its queue of connections is full
            self.others = [socket.socket() for _ in range(3)]
            for s in self.others:
                s.setblocking(False)
                s.connect_ex(self.listener.getsockname())
            time.sleep(0.2)
            log("crowded")
        return self.listener.getsockname()[1]

    def do_epsv(self, arg):
        if "no-epsv" in odd or OLD:
            return self.say("500 what?")
        self.say("229 Extended (|||%d|)" % self.listen())

    def do_pasv(self, arg):
        port = self.listen()
        self.say("227 Passive (10,9,8,7,%d,%d)" % (port >> 8, port & 255))

    def data(self, content, end="226 done"):
        self.say("150 here")
        conn, _ = self.listener.accept()
        conn.sendall(content)
        conn.close()
        self.listener.close()
        self.say(end) if end else None

    def names(self, path):
        return (EVIL if "names" in odd else CONTROL if "control" in odd else
                [b"good", b"a\0b"] if "nul" in odd else
                sorted(os.listdir(path)))

    def list_line(self, path, name):
        full = os.path.join(path, name)
        is_dir = os.path.isdir(full)
        size = os.path.getsize(full) if os.path.exists(full) else 5
        if "dos" in odd:
            return b"06-15-24  03:04PM %20s %s\r\n" % (
                b"<DIR>         " if is_dir else b"%d" % size, name)
        return b"%s 1 joe users %d Jun 15  2024 %s\r\n" % (
            b"drwxr-xr-x" if is_dir else b"-rw-r--r--", size, name)

    def do_list(self, arg):
        if "dash-a" in odd and os.path.isfile(self.path(arg)):
            return self.data(self.list_line(self.path(b""), arg))
        if arg:
            self.listener.close()
            return self.say("550 no such file")
        path = self.path(b"")
        lines = b"total 8\r\n" if "dos" not in odd else b""
        self.data(lines + b"".join(self.list_line(path, n) for n in self.names(path)))

    def facts(self, full, name):
        kind = b"dir" if os.path.isdir(full) else b"file"
        if "links" in odd and os.path.islink(full):
            kind = b"OS.unix=slink"
        size = os.path.getsize(full) if os.path.exists(full) else 5
        size = b"" if "no-size" in odd else b"size=%d;" % size
        return b"type=%s;%s %s" % (kind, size, name)

    def refuses(self, verb):
        for code in (o[len(verb) + 1:] for o in odd if o.startswith(verb + "-")):
            if self.listener:
                self.listener.close()
            self.say(code + " not " + verb)
            return True
        return False

    def do_mlst(self, arg):
        if self.refuses("mlst"):
            return
        if OLD or not os.path.exists(self.path(arg)):
            return self.say("502 no" if OLD else "550 No such file or directory")
        self.sock.sendall(b"250-here\r\n " + self.facts(self.path(arg), arg) + b"\r\n250 end\r\n")

    def do_mlsd(self, arg):
        if self.refuses("mlsd"):
            return
        path = self.path(arg)
        self.data(b"".join(self.facts(os.path.join(path, n), n) + b"\r\n"
                           for n in self.names(path)))

    def do_size(self, arg):
        path = self.path(arg)
        if "no-size" in odd:
            self.say("502 not here")
        elif "size-once" in odd and not first("size-once"):
            self.say("550 not now")
        elif os.path.isfile(path):
            self.say("213 %d" % os.path.getsize(path))
        else:
            self.say("550 no")

    def do_mdtm(self, arg):
        if "no-size" in odd:
            self.say("502 not here")
        elif os.path.isfile(self.path(arg)):
            later = odd & {"replaced", "touched"} and arg in sent
            self.say("213 20240615150406" if later else "213 20240615150405")
        else:
            self.say("550 no")

    def do_rest(self, arg):
        if "no-rest" in odd:
            return self.say("502 not here")
        self.rest = int(arg)
        self.say("350 from there")

    def do_retr(self, arg):
        rest, self.rest = self.rest, 0
        if not os.path.isfile(self.path(arg)):
            return self.say("550 No such file or directory")
        with open(self.path(arg), "rb") as f:
            whole = f.read()[rest:]
        half = whole[:len(whole) // 2]
        if "short" in odd:
            self.data(half)
        elif "long" in odd:
            self.data(whole + b"and more")
        elif "aborted" in odd:
            self.data(half, "426 gone")
        elif "local-error" in odd:
            self.data(half, "451 disk")
        elif "cut" in odd and not rest:
            self.data(half, None)
            raise Gone
        elif "replaced" in odd and not sent:
            sent.add(arg)
            with open(self.path(arg), "wb") as f:
                f.write(whole[::-1])
            self.data(half, None)
            raise Gone
        else:
            sent.add(arg)
            self.data(whole)

    def do_stor(self, arg, mode="wb"):
        self.say("150 go")
        conn, _ = self.listener.accept()
        content = b""
        cut = first("cut-store")
        while True:
            piece = conn.recv(1 << 20)
            if piece and not content:
                log("got")
            content += piece
            if not piece or (cut and len(content) > 1500000):
                break
            if "full" in odd and len(content) > 100000:
                conn.close()
                return self.say("552 no room")
        log("took %d" % len(content))
        conn.close()
        self.listener.close()
        rest, self.rest = self.rest, 0
        path = self.path(arg)
        broken = first("store-451")
        with open(path, "r+b" if rest and os.path.exists(path) else mode) as f:
            f.seek(rest)
            f.write(content[:len(content) // 2] if broken or "loses" in odd else content)
        if cut or first("cut-end"):
            raise Gone
        self.say("451 disk" if broken else "226 done")

    def do_appe(self, arg):
        self.do_stor(arg, "ab")

    def do_mkd(self, arg):
        try:
            os.mkdir(self.path(arg))
            self.say("257 made")
        except OSError:
            self.say("550 no")

    def do_rmd(self, arg):
        self.say("550 Permission denied")

    def do_dele(self, arg):
        if "denied" in odd and os.path.isdir(self.path(arg)):
            return self.say("550 Permission denied")
        try:
            os.unlink(self.path(arg))
            self.say("250 gone")
        except OSError:
            self.say("550 no")

    def do_rnfr(self, arg):
        self.renamed = arg
        self.say("350 to?" if os.path.exists(self.path(arg)) else "550 no")

    def do_rnto(self, arg):
        if "no-rename" in odd or ("no-replace" in odd and os.path.exists(self.path(arg))):
            return self.say("550 no")
        if "strands" in odd and not arg.endswith(b".old"):
            return self.say("553 no")
        try:
            os.rename(self.path(self.renamed), self.path(arg))
            self.say("250 ok")
        except OSError:
            self.say("553 no")


def serve(sock):
    try:
        Session(sock).run()
    except (Gone, OSError):
        pass
    # Needed because the file object keeps the socket open, too.
    sock.shutdown(socket.SHUT_RDWR)
    sock.close()


server = socket.create_server(("127.0.0.1", 0))
with open(portfile + ".new", "w") as f:
    print(server.getsockname()[1], file=f)
os.rename(portfile + ".new", portfile)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
