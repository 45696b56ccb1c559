# SPDX-License-Identifier: Apache-2.0
"""An FTP client that sends any bytes, and returns unchanged replies. For scripts beside it."""
import re
import socket
import ssl

PATIENCE = 60


def tls_context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Raw:
    def __init__(self, port, tls=False, host='127.0.0.1', login=None, prot='P'):
        self.host = host
        self.tls = False
        self.context = tls_context()
        self.sock = socket.create_connection((host, port), timeout=PATIENCE)
        self.rest = b''
        self.prot = 'C'
        self.expect_reply(220)
        if tls:
            self.start_tls()
        if login:
            self.login(*login)
        if login and tls:
            self.must('PBSZ 0', 200)
            self.must('PROT ' + prot, 200)
            self.prot = prot

    def start_tls(self):
        self.must('AUTH TLS', 234)
        self.sock = self.context.wrap_socket(self.sock)
        self.tls = True

    def login(self, user='anonymous', password='x@'):
        self.must('USER ' + user, 331)
        self.must('PASS ' + password, 230)

    # ---- control ----

    def send(self, line):
        if isinstance(line, str):
            line = line.encode('utf-8', 'surrogateescape')
        self.sock.sendall(line + b'\r\n')

    def line(self):
        while b'\n' not in self.rest:
            more = self.sock.recv(65536)
            if not more:
                raise EOFError('the server closed the connection')
            self.rest += more
        line, self.rest = self.rest.split(b'\n', 1)
        assert line.endswith(b'\r'), line
        return line[:-1].replace(b'\xff\xff', b'\xff')

    def reply(self):
        """Returns (code, lines)."""
        lines = [self.line()]
        head = re.match(rb'([1-5][0-9][0-9])([ -])', lines[0])
        assert head, lines[0]
        while head[2] == b'-' and not lines[-1].startswith(head[1] + b' '):
            lines.append(self.line())
        return int(head[1]), lines

    def ask(self, line):
        self.send(line)
        return self.reply()

    def code(self, line):
        return self.ask(line)[0]

    def expect_reply(self, code):
        got = self.reply()
        assert got[0] == code, (code, got)
        return got[1]

    def must(self, line, code):
        got = self.ask(line)
        assert got[0] == code, (line, code, got)
        return got[1]

    # ---- data ----

    def passive(self, how='EPSV'):
        text = self.must(how, 229 if how == 'EPSV' else 227)[0].decode()
        if how == 'EPSV':
            return self.host, int(re.search(r'\(\|\|\|(\d+)\|\)', text)[1])
        n = re.search(r'\((\d+),(\d+),(\d+),(\d+),(\d+),(\d+)\)', text).groups()
        return '.'.join(n[:4]), int(n[4]) * 256 + int(n[5])

    def wrap(self, conn):
        if self.prot != 'P':
            return conn
        # In TLS 1.3, OpenSSL receives the session with the first bytes that are read.
        return self.context.wrap_socket(conn, session=self.sock.session)

    def open(self, command, how='EPSV'):
        """Opens the data connection of command, and waits for its 150."""
        conn = socket.create_connection(self.passive(how), timeout=PATIENCE)
        self.must(command, 150)
        return self.wrap(conn)

    def listen(self, how='PORT'):
        """Opens a listener and announces it to the server."""
        family = socket.AF_INET6 if ':' in self.host else socket.AF_INET
        door = socket.socket(family)
        door.bind((self.host, 0))
        door.listen(1)
        door.settimeout(PATIENCE)
        port = door.getsockname()[1]
        if how == 'PORT':
            self.must('PORT %s,%d,%d' % (self.host.replace('.', ','), port >> 8, port & 255), 200)
        else:
            self.must('EPRT |%d|%s|%d|' % (2 if ':' in self.host else 1, self.host, port), 200)
        return door

    def open_active(self, command, how='PORT'):
        door = self.listen(how)
        self.must(command, 150)
        conn, _ = door.accept()
        door.close()
        conn.settimeout(PATIENCE)
        return self.wrap(conn)

    @staticmethod
    def close_data(conn):
        if isinstance(conn, ssl.SSLSocket):
            try:
                conn = conn.unwrap()
            except (OSError, ssl.SSLError):
                pass
        conn.close()

    @staticmethod
    def take(conn):
        return b''.join(iter(lambda: conn.recv(1 << 20), b''))

    def get(self, command, how='EPSV', code=226):
        conn = self.open(command, how) if how in ('EPSV', 'PASV') else \
            self.open_active(command, how)
        data = self.take(conn)
        self.close_data(conn)
        self.expect_reply(code)
        return data

    def put(self, command, data, how='EPSV', code=226):
        conn = self.open(command, how) if how in ('EPSV', 'PASV') else \
            self.open_active(command, how)
        conn.sendall(data)
        self.close_data(conn)
        self.expect_reply(code)
