#!/usr/bin/env python3
"""A pyftpdlib server on loopback: user joe, password secret, and anonymous.

foreign-server.py PORTFILE ROOT CERT [--tls | --implicit] [--per-ip N] [--slow BYTES_PER_SECOND]
                  [--no-prot] [--port N] [--client-ca FILE] [--data-cert FILE]

CERT holds certificate and key. --client-ca: clients must show a certificate of that CA, also on
data connections, as there is no TLS resumption. --data-cert: data connections show the certificate
in FILE. Logs each command to standard error.
"""
import argparse
import logging
import os
import warnings

warnings.filterwarnings("ignore")

from pyftpdlib.authorizers import DummyAuthorizer  # noqa: E402
from pyftpdlib.handlers import DTPHandler, FTPHandler, ThrottledDTPHandler  # noqa: E402
from pyftpdlib.handlers import TLS_DTPHandler, TLS_FTPHandler  # noqa: E402
from pyftpdlib.servers import FTPServer  # noqa: E402

args = argparse.ArgumentParser()
args.add_argument("portfile")
args.add_argument("root")
args.add_argument("cert")
args.add_argument("--tls", action="store_true")
args.add_argument("--implicit", action="store_true")
args.add_argument("--per-ip", type=int, default=0)
args.add_argument("--slow", type=int, default=0)
args.add_argument("--no-prot", action="store_true")
args.add_argument("--port", type=int, default=0)
args.add_argument("--client-ca")
args.add_argument("--data-cert")
args = args.parse_args()

logging.basicConfig(level=logging.DEBUG, format="%(message)s")

users = DummyAuthorizer()
users.add_user("joe", "secret", args.root, perm="elradfmwMT")
users.add_anonymous(args.root)


class Handler(TLS_FTPHandler if args.tls or args.implicit else FTPHandler):
    authorizer = users
    use_sendfile = False

    if args.tls or args.implicit:
        certfile = args.cert
        tls_control_required = True
        tls_data_required = not args.no_prot

    if args.implicit:
        def handle(self):
            self.secure_connection(self.ssl_context)

        def handle_ssl_established(self):
            TLS_FTPHandler.handle(self)

    if args.no_prot:
        def ftp_PROT(self, line):
            self.respond("536 not here" if line.upper() == "P" else "200 ok")


if args.slow:
    class Slow(ThrottledDTPHandler, TLS_DTPHandler if args.tls or args.implicit else DTPHandler):
        read_limit = write_limit = args.slow
    Handler.dtp_handler = Slow

if args.data_cert:
    class OtherKey(TLS_DTPHandler):
        def secure_connection(self, ssl_context):
            TLS_DTPHandler.secure_connection(self, other_context)

    class Other(TLS_FTPHandler):
        certfile = args.data_cert
    other_context = Other.get_ssl_context()
    Handler.dtp_handler = OtherKey

if args.client_ca:
    from OpenSSL import SSL
    context = Handler.ssl_context or Handler.get_ssl_context()
    context.load_verify_locations(args.client_ca)
    context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT, lambda *a: bool(a[-1]))
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_options(SSL.OP_NO_TICKET)
    context.set_session_id(b"test")
    Handler.ssl_context = context

server = FTPServer(("127.0.0.1", args.port), Handler)
server.max_cons_per_ip = args.per_ip
with open(args.portfile + ".new", "w") as f:
    print(server.socket.getsockname()[1], file=f)
os.rename(args.portfile + ".new", args.portfile)
server.serve_forever(handle_exit=False)
