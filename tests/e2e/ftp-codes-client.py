#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The reply codes of every command in every state, as TAP lines without numbers: "ok WHAT".

ftp-codes-client.py PORT PORT6 clear|tls; PORT6 is 0 without IPv6."""
import os
import socket
import ssl
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from raw_ftp import Raw  # noqa: E402

port, port6, mode = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
tls = mode == 'tls'
ANY = ('anonymous', 'x@')


def say(what, bad):
    for line in bad:
        print('# %s' % (line,))
    print('%s %s, %s' % ('not ok' if bad else 'ok', what, 'TLS' if tls else 'in clear'), flush=True)


def transcript(what, c, lines):
    """lines: "COMMAND=code", with "|" between the codes of successive replies."""
    bad = []
    for line in lines:
        command, codes = line.rsplit('=', 1)
        try:
            c.send(command)
            for code in codes.split('|'):
                got = c.reply()
                if got[0] != int(code):
                    bad.append('%s: %s instead of %s' % (command, got, code))
        except (OSError, EOFError, AssertionError) as e:
            bad.append('%s: %r' % (command, e))
            break
    say(what, bad)


def connect(**more):
    return Raw(port, tls=tls, **more)


# Commands that need an argument, then commands without one, then commands with either form.
VERBS = {
    'ALLO': 'ALLO 1', 'CWD': 'CWD d', 'RETR': 'RETR f', 'STOR': 'STOR f', 'APPE': 'APPE f',
    'REST': 'REST 1', 'SIZE': 'SIZE f', 'MDTM': 'MDTM f', 'MFMT': 'MFMT 20200101000000 f',
    'HASH': 'HASH f', 'MKD': 'MKD x', 'RMD': 'RMD x', 'RMDA': 'RMDA x', 'DELE': 'DELE x',
    'RNFR': 'RNFR f', 'RNTO': 'RNTO g', 'SITE': 'SITE CHMOD 644 f', 'TYPE': 'TYPE I',
    'MODE': 'MODE S', 'STRU': 'STRU F', 'PORT': 'PORT 127,0,0,1,100,1',
    'EPRT': 'EPRT |1|127.0.0.1|2000|', 'XMKD': 'XMKD x', 'XRMD': 'XRMD x', 'XCWD': 'XCWD d',
}
ALONE = ['PWD', 'CDUP', 'PASV', 'XPWD', 'XCUP']
EITHER = ['AVBL', 'EPSV', 'MLSD', 'MLST', 'LIST', 'NLST', 'STAT']

transcript('before login', connect(), [
    'NOOP=200', 'noop=200', 'nOoP=200', 'SYST=215', 'FEAT=211', 'HELP=214', 'HELP STOR=214',
    'HELP site=214', 'HELP XYZZY=501', 'HELP REIN=502', 'ABOR=226', 'OPTS UTF8 ON=200',
    'OPTS UTF8 OFF=504', 'OPTS HASH SHA-256=200', 'OPTS HASH X=504', 'OPTS MLST type;=200',
    'OPTS XYZZY=501', 'OPTS=501', 'PASS x=503', 'USER=501', 'RNTO x=530', 'ACCT x=502',
    'ACCT=501', 'REIN=502', 'REIN x=501', 'SMNT x=502', 'STOU=502', 'XYZZY=500', '=500', ' =500',
    ' NOOP=500', 'NOOP x=501', 'SYST x=501', 'FEAT x=501', 'ABOR x=501', 'QUIT x=501',
    'AUTH=501', 'AUTH KERBEROS_V4=504', 'PROT Z=504', 'BULK 0=530', 'GIVE 0=530', 'TAKE 0=530',
] + ([] if tls else ['PBSZ 0=503', 'PROT P=503', 'PROT C=503']) + [
    'USER nobody=331', 'PWD=530', 'USER anonymous=331', 'NOOP=200', 'PASS=230', 'QUIT=221'])
transcript('all that needs a login, before it', connect(),
           ['%s=530' % line for line in list(VERBS.values()) + ALONE + EITHER])
transcript('the same after USER alone', connect(),
           ['USER anonymous=331'] +
           ['%s=530' % line for line in list(VERBS.values()) + ALONE + EITHER])
transcript('without an argument', connect(login=ANY), ['%s=501' % verb for verb in VERBS])
transcript('with one too many', connect(login=ANY), ['%s x=501' % verb for verb in ALONE])
transcript('a wrong password', connect(),
           ['USER alice=331', 'PASS wrong=530', 'PASS secret=503', 'PWD=530', 'USER alice=331',
            'PASS secret=230', 'PWD=257', 'QUIT=221'])
transcript('after login', connect(login=ANY), [
    'USER anonymous=503', 'PASS x=202', 'AUTH TLS=503', 'SYST=215', 'NOOP=200', 'STAT=211',
    'ACCT x=502', 'REIN=502', 'SMNT x=502', 'STOU=502', 'STOU x=502',
    'TYPE A=200', 'TYPE A N=200', 'TYPE A T=504', 'TYPE A C=504', 'TYPE E=504', 'TYPE L=504',
    'TYPE L 8=200', 'TYPE L 7=504', 'TYPE I=200', 'TYPE X=504', 'type i=200', 'TYPE i=200',
    'MODE S=200', 'MODE B=504', 'MODE C=504', 'MODE Z=504', 'STRU F=200', 'STRU R=504',
    'STRU P=504', 'STRU X=504', 'ALLO 1=202', 'ALLO 1 R 1=202', 'ALLO x=501', 'ALLO 1 R=501',
    'ALLO -1=501', 'ALLO 9223372036854775807=552', 'ALLO 99999999999999999999=501',
    'AVBL=213', 'AVBL d=213', 'AVBL f=550', 'AVBL nope=550',
    'PWD=257', 'XPWD=257', 'CWD d=250', 'CDUP=250', 'XCWD d=250', 'XCUP=250', 'CWD nope=550',
    'CWD f=550', 'CWD ..=250', 'CWD /=250', 'CWD ~=250',
    'MKD m=257', 'MKD m=550', 'MKD nope/m=550', 'RMD m=250', 'RMD m=550', 'RMD f=550',
    'XMKD m=257', 'XRMD m=250', 'MKD t=257', 'MKD t/u=257', 'RMD t=550', 'RMDA t=250',
    'RMDA t=550', 'RMDA /=450', 'DELE nope=550', 'DELE d=550',
    'SIZE f=213', 'SIZE nope=550', 'SIZE d=550', 'MDTM f=213', 'MDTM nope=550',
    'MFMT 20200229010203 f=213', 'MFMT 20200230010203 f=501', 'MFMT f=501', 'MFMT 2020 f=501',
    'MFMT 20200101000000=501', 'MFMT 20200101000000 nope=550', 'MDTM 20200101000000 f=213',
    'MDTM 20200101000000 nope=550', 'MDTM 20209901000000 f=550',
    'MLST=250', 'MLST f=250', 'MLST nope=550', 'STAT f=213', 'STAT d=212', 'STAT nope=450',
    'STAT -l d=212', 'STAT *=213',
    'HASH f=213', 'HASH nope=550', 'HASH d=553', 'OPTS HASH MD5=200', 'HASH f=213',
    'SITE CHMOD 600 f=200', 'SITE chmod 0644 f=200', 'SITE CHMOD 8 f=501', 'SITE CHMOD 644=501',
    'SITE CHMOD 644 nope=550', 'SITE UTIME 202001010101 f=200', 'SITE UTIME 20200101010101 f=200',
    'SITE UTIME f 20200101010101 20200101010101 20200101010101 UTC=200', 'SITE UTIME f=501',
    'SITE UTIME 2020 f=501', 'SITE UTIME=501', 'SITE HELP=214', 'SITE=501', 'SITE XYZZY=504',
    'OPTS UTF8=200', 'OPTS UTF8 ON=200', 'OPTS utf8 on=200', 'OPTS MLST type;size;=200',
    'OPTS MLST=200', 'LANE 2=500', 'QUIT=221'])
transcript('sequences', connect(login=ANY), [
    'RNTO x=503', 'RNFR nope=550', 'RNTO x=503', 'RNFR f=350', 'NOOP=200', 'RNTO x=503',
    'RNFR f=350', 'RNTO g=250', 'RNTO h=503', 'RNFR g=350', 'RNFR g=350', 'RNTO f=250',
    'RNFR f=350', 'RNTO nope/f=553', 'RNFR f=350', 'RNTO d=553', 'RNFR d=350', 'RNTO d/d=553',
    'RNFR f=350', 'RNTO=501', 'RNTO g=503', 'RNFR f=350', 'XYZZY=500', 'RNTO f=503',
    'REST x=501', 'REST -1=501', 'REST 99999999999999999999=501', 'REST 0=350', 'REST 1=350',
    'TYPE A=200', 'SIZE f=550', 'RETR f=555', 'REST 1=350', 'STOR x=555', 'REST 1=350',
    'TYPE I=200', 'RETR f=425', 'REST 100=350', 'RETR f=554', 'REST 100=350', 'STOR f=554',
    'REST 1=350', 'STOR nope=553', 'RETR f=425'])
transcript('data without a connection for it', connect(login=ANY), [
    'RETR f=425', 'RETR nope=550', 'RETR d=550', 'STOR x=425', 'STOR d=553', 'STOR nope/x=553',
    'APPE x=425', 'APPE d=550', 'DELE x=250', 'LIST=425', 'LIST d=425', 'LIST nope=450',
    'NLST=425', 'NLST nope=450', 'NLST nope*=450', 'MLSD=425', 'MLSD nope=550', 'MLSD f=550'])
transcript('how data connections are set up', connect(login=ANY), [
    'EPSV=229', 'EPSV 1=229', 'EPSV 2=522', 'EPSV 3=501', 'EPSV x=501', 'PASV=227',
    'PORT 127,0,0,1,3,255=504', 'PORT 127,0,0,2,100,1=504', 'PORT 10,0,0,1,100,1=504',
    'PORT 127,0,0,1,100=501', 'PORT 127,0,0,1,100,1,1=501', 'PORT 127,0,0,256,100,1=501',
    'PORT x=501', 'PORT 127,0,0,1,100,=501', 'PORT 127,0,0,1,+1,1=501', 'PORT 127,0,0,1,4,0=200',
    'EPRT |1|127.0.0.1|1023|=504', 'EPRT |1|127.0.0.2|2000|=504', 'EPRT |2|::1|2000|=522',
    'EPRT |3|127.0.0.1|2000|=522', 'EPRT |1|localhost|2000|=501', 'EPRT |1|127.0.0.1|=501',
    'EPRT |1|127.0.0.1|0|=501', 'EPRT |1|127.0.0.1|65536|=501', 'EPRT |1|127.0.0.1|2000|x=501',
    'EPRT 1127.0.0.1200=501', 'EPRT !1!127.0.0.1!2000!=200', 'ABOR=226', 'RETR f=425',
    'EPSV ALL=200', 'PASV=501', 'PORT 127,0,0,1,100,1=501', 'EPRT |1|127.0.0.1|2000|=501',
    'EPSV=229', 'QUIT=221'])
if port6:
    transcript('the same by IPv6', Raw(port6, tls=tls, host='::1', login=ANY), [
        'EPSV=229', 'EPSV 2=229', 'EPSV 1=522', 'PASV=502', 'PORT 127,0,0,1,100,1=504',
        'EPRT |1|127.0.0.1|2000|=522', 'EPRT |2|::2|2000|=504', 'EPRT |2|::1|80|=504',
        'EPRT |2|::1|2000|=200', 'EPRT |2|0:0:0:0:0:0:0:1|2000|=200', 'QUIT=221'])
transcript('who may only read', connect(login=('bob', 'secret')), [
    'STOR x=553', 'APPE x=550', 'APPE f=550', 'MKD x=550', 'RMD d=550', 'RMDA d=550', 'DELE f=550',
    'RNFR f=550', 'SITE CHMOD 600 f=550', 'SITE UTIME 202001010101 f=550',
    'MFMT 20200101000000 f=550', 'MDTM 20200101000000 f=550', 'SIZE f=550', 'TYPE I=200',
    'SIZE f=213', 'MLST f=250', 'QUIT=221'])
if tls:
    transcript('protection', connect(login=ANY, prot='C'), [
        'PBSZ 0=200', 'PBSZ 100=200', 'PBSZ x=501', 'PROT C=200', 'PROT P=200', 'PROT S=536',
        'PROT E=536', 'PROT X=504', 'PROT=501', 'AUTH TLS=503', 'QUIT=221'])
    transcript('PROT before PBSZ', connect(), ['PROT P=503', 'PBSZ 0=200', 'PROT P=200'])


def attempt(what, run):
    try:
        run()
        say(what, [])
    except Exception as e:  # any exception is a finding of this test
        say(what, [repr(e)])


def transfers():
    for host, p, hows in (('127.0.0.1', port, ('EPSV', 'PASV', 'PORT', 'EPRT')),
                          ('::1', port6, ('EPSV', 'EPRT'))):
        if not p:
            continue
        c = Raw(p, tls=tls, host=host, login=ANY)
        c.must('TYPE I', 200)
        for how in hows:
            c.put('STOR x', b'0123456789', how)
            assert c.get('RETR x', how) == b'0123456789'
            c.must('REST 4', 350)
            assert c.get('RETR x', how) == b'456789'
            c.must('REST 4', 350)
            c.put('STOR x', b'abc', how)
            assert c.get('RETR x', how) == b'0123abc789'
            c.put('APPE x', b'END', how)
            c.put('APPE y', b'new', how)
            assert c.get('RETR x', how) == b'0123abc789END'
            assert c.get('RETR y', how) == b'new'
            c.must('DELE y', 250)
            c.must('REST 13', 350)
            assert c.get('RETR x', how) == b''
            for command in ('LIST', 'NLST', 'MLSD', 'LIST -la', 'NLST *', 'LIST x'):
                assert b'x\r\n' in c.get(command, how), command
            assert c.get('LIST d', how) == b''
        c.must('DELE x', 250)
        c.must('QUIT', 221)


def one_use():
    """A data connection setup serves one command only, even if the command is refused."""
    c = connect(login=ANY)
    for setup in (c.passive, lambda: c.passive('PASV'), c.listen):
        kept = setup()
        c.must('RETR nope', 550)
        c.must('RETR f', 425)
        del kept
    assert c.get('RETR f') == b'text\r\n'
    c.must('LIST', 425)


def nobody_there():
    """PORT to a port without a listener."""
    c = connect(login=ANY)
    door = c.listen()
    door.close()
    c.must('RETR f', 425)
    c.must('PWD', 257)


def last_setup():
    """The last of several setups counts."""
    c = connect(login=ANY)
    c.passive()
    door = c.listen('EPRT')
    c.must('RETR f', 150)
    conn = c.wrap(door.accept()[0])
    assert c.take(conn) == b'text\r\n'
    c.close_data(conn)
    c.expect_reply(226)


def reused():
    """A data connection resumes the TLS session of the control connection."""
    c = connect(login=ANY)
    c.must('NOOP', 200)
    for _ in range(3):
        assert c.sock.session is not None
        conn = c.open('RETR f')
        assert conn.session_reused
        c.take(conn)
        c.close_data(conn)
        c.expect_reply(226)


def stolen():
    """Another process on the client's host can neither receive nor send data without that session,
    even with its own TLS session with this server; the client can still transfer afterwards."""
    thief = connect(login=ANY)
    thief.must('NOOP', 200)
    for session in (None, thief.sock.session):
        c = connect(login=ANY)
        c.must('NOOP', 200)
        where = c.passive()
        conn = socket.create_connection(where)
        c.must('RETR f', 150)
        conn = thief.context.wrap_socket(conn, session=session)
        assert not conn.session_reused
        try:
            got = thief.take(conn)
        except (ssl.SSLError, OSError):
            got = b''
        assert got == b'', got
        c.expect_reply(522)
        where = c.passive()
        conn = socket.create_connection(where)
        c.must('STOR stolen', 150)
        # In a thread: Python 3.13 leaves the failure of unwrap() in OpenSSL's error queue of the
        # thread, where the next read of the control connection would find it.
        giver = threading.Thread(target=give, args=(thief, conn, session))
        giver.start()
        giver.join()
        c.expect_reply(522)
        c.must('SIZE stolen', 550)
        # The client's own connection comes second.
        where = c.passive()
        conn = socket.create_connection(where)
        own = socket.create_connection(where)
        c.must('RETR f', 150)
        try:
            thief.context.wrap_socket(conn, session=session).recv(1)
        except (ssl.SSLError, OSError):
            pass
        own = c.wrap(own)
        assert c.take(own) == b'text\r\n'
        c.close_data(own)
        c.expect_reply(226)
        c.must('QUIT', 221)


def give(thief, conn, session):
    try:
        conn = thief.context.wrap_socket(conn, session=session)
        conn.sendall(b'from a thief')
        conn.unwrap()
    except (ssl.SSLError, OSError):
        pass
    conn.close()


def ascii_type():
    c = connect(login=ANY)
    c.must('TYPE A', 200)
    c.put('STOR a', b'one\r\ntwo\r\n')
    c.put('APPE a', b'three\r\n')
    assert c.get('RETR a') == b'one\r\ntwo\r\nthree\r\n'
    c.must('TYPE L 8', 200)
    assert c.get('RETR a') == b'one\ntwo\nthree\n'
    c.must('DELE a', 250)


attempt('transfers, however the connection comes to be', transfers)
attempt('a connection is set up for one command', one_use)
attempt('nobody listens behind PORT', nobody_there)
attempt('the last set up counts', last_setup)
attempt('TYPE A', ascii_type)
if tls:
    attempt('sessions of TLS are reused', reused)
    attempt('a data connection of another process gets nothing and gives nothing', stolen)
