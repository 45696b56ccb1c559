# SPDX-License-Identifier: Apache-2.0
"""Files, secrets, locks, signals and kill points, on real files and processes."""
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import rftp_common
from rftp_common import Failure
from rftp_iser import plan


def mode(path):
    return os.stat(path).st_mode & 0o777


def test_write_file(tmp_path):
    mine, other = tmp_path / "mine", tmp_path / "other"
    other.write_text("kept")
    mine.symlink_to(other)
    rftp_common.write_file(str(mine), "new\udcff")
    assert not mine.is_symlink() and mine.read_bytes() == b"new\xff" and mode(mine) == 0o600
    assert other.read_text() == "kept" and sorted(os.listdir(tmp_path)) == ["mine", "other"]
    with pytest.raises(Failure, match="No such file"):
        rftp_common.write_file(str(tmp_path / "none" / "x"), "")
    (tmp_path / "dir").mkdir()
    with pytest.raises(Failure, match="Is a directory"):
        rftp_common.write_file(str(tmp_path / "dir"), "")
    assert sorted(os.listdir(tmp_path)) == ["dir", "mine", "other"]


def test_run(tmp_path):
    done = rftp_common.run(["sh", "-c", "echo $X$LC_ALL; cat; exit 3"], given="a\udcff", env={"X": "a"})
    assert done == rftp_common.Done(3, "aC.UTF-8\na\udcff", "")
    assert rftp_common.run(["sh", "-c", "kill -9 $$"]).status == 137
    assert rftp_common.output_of(["sh", "-c", "echo a; cat"]) == "a\n"  # no standard input
    for words, seconds, text in ((["sh", "-c", "echo a >&2; echo b >&2; exit 3"], 9, "^sh: b$"),
                                 (["false"], 9, "^false: exit status 1$"),
                                 ([str(tmp_path / "none")], 9, "No such file"),
                                 (["sleep", "9"], 0.05, "has not ended")):
        with pytest.raises(Failure, match=text):
            rftp_common.output_of(words, seconds)


def test_run_stopped(tmp_path):
    """A signal ends the program and its child processes."""
    pid = tmp_path / "pid"
    with rftp_common.Stop(obey=False) as stop:
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM))
        timer.start()
        with pytest.raises(rftp_common.Stopped):
            rftp_common.run(["sh", "-c", f"sleep 61 & echo $! >{pid}; wait"], stop)
    time.sleep(0.1)
    stat = f"/proc/{pid.read_text().strip()}/stat"
    assert not os.path.exists(stat) or ") Z " in open(stat).read()


def test_secret(tmp_path):
    path = str(tmp_path / "secrets" / "a.chap")
    assert plan.make_secret(path) and mode(path) == 0o600 and mode(os.path.dirname(path)) == 0o700
    secret = plan.read_secret(path)
    assert len(secret) == 16 and secret.isalnum() and not plan.make_secret(path)
    assert plan.read_secret(path) == secret
    os.chmod(path, 0o640)
    with pytest.raises(Failure, match="others can read it"):
        plan.read_secret(path)
    os.chmod(os.path.dirname(path), 0o770)
    with pytest.raises(Failure, match="others can write it"):
        plan.make_secret(path + "2")


@pytest.mark.parametrize("data, ours, text", [
    (b"qwxyz\n", True, "12 to 255 visible"), (b"x" * 256, True, "12 to 255 visible"),
    (b"has a blank in it\n", True, "12 to 255 visible"), (b"", True, "12 to 255 visible"), (b"NULL56789012\n", True, "NULL"),
    (b"", False, "empty"), (b"a\x07b\n", False, "control"), (b" ab\n", False, "blank"),
    (b"x" * 256, False, "longer than 255"), (b"short\r\n", False, None), (b"x" * 255 + b"\n", True, None)])
def test_secret_read(data, ours, text, tmp_path):
    path = tmp_path / "secret"
    path.write_bytes(data)
    path.chmod(0o600)
    if not text:
        assert plan.read_secret(str(path), ours) == data.split(b"\r")[0].strip().decode()
        return
    with pytest.raises(Failure, match=text) as why:
        plan.read_secret(str(path), ours)
    assert len(data) < 5 or data.strip().decode() not in str(why.value).replace(str(path), "")


def test_kill_point(monkeypatch):
    monkeypatch.setattr(rftp_common, "_program", "rftp-iser")
    monkeypatch.setenv("RFTP_FAULT_ISER", "before:EIO:after=2:count=1;kept:ENOSPC")
    rftp_common._passed.clear()
    seen = []
    for _ in range(4):
        try:
            rftp_common.kill_point("before")
            seen.append("")
        except Failure as why:
            seen.append(str(why))
    assert seen == ["", "", "a fault on purpose: Input/output error", ""]
    with pytest.raises(Failure, match="No space left"):
        rftp_common.kill_point("kept")
    rftp_common.kill_point("kill")


HOLD = """import sys, time
import rftp_common
rftp_common.lock(sys.argv[1], "busy", 0)
print("locked", flush=True)
time.sleep(60)"""


def test_lock(tmp_path):
    path = str(tmp_path / "lock")
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE, env=env) as holder:
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(Failure, match=f"busy .process {holder.pid}, "):
            rftp_common.lock(path, "busy", 0)
        holder.kill()
    fd = rftp_common.lock(path, "busy", 5)
    assert os.pread(fd, 20, 0) == b"%d\n" % os.getpid() and mode(path) == 0o600
    os.close(fd)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(Failure, match="symbolic links"):
        rftp_common.lock(str(tmp_path / "link"), "busy", 0)


def test_verbose_and_quiet(monkeypatch, capsys):
    monkeypatch.setattr(rftp_common, "_verbose", False)
    monkeypatch.setattr(rftp_common, "_quiet", False)
    command = rftp_common.Command("c", "About.", [])
    for flags, lines in ((["-v"], ["rftp: runs true", "rftp: warning: w"]), (["-q"], []),
                         (["-qv"], ["rftp: runs true"]), ([], ["rftp: warning: w"])):
        assert rftp_common.parse(command, flags).verbose == ("v" in "".join(flags))
        rftp_common.run(["true"])
        rftp_common.warn("w")
        assert capsys.readouterr().err.splitlines() == lines


@pytest.mark.parametrize("debug", [False, True])
def test_error_of_ours(tmp_path, debug):
    (tmp_path / "broken.py").write_text("def main():\n    return 1 // 0\n")
    start = "import sys, rftp_common; sys.exit(rftp_common.start('rftp-iser', 'broken'))"
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]))
    done = subprocess.run([sys.executable, "-B", "-c", start, *["--debug"] * debug], env=env, text=True,
                          capture_output=True, check=False)
    *before, last = done.stderr.splitlines()
    assert done.returncode == 1 and not done.stdout
    assert last.startswith("rftp-iser: an error in rftp-iser itself: ZeroDivisionError: ")
    assert (before[:1] == ["Traceback (most recent call last):"]) == debug == bool(before)


STOP = """import os, signal, time
import rftp_common
with rftp_common.Stop() as stop:
    os.kill(os.getpid(), signal.SIGTERM)
    try:
        stop.check()
    except rftp_common.Failure as why:
        print(why, flush=True)
time.sleep(60)"""


def test_stop():
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", STOP], stdout=subprocess.PIPE, env=env, timeout=30, check=False)
    assert done.stdout == b"stopped by a signal\n" and done.returncode == -signal.SIGTERM
    assert time.monotonic() - start < 20
