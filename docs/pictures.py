#!/usr/bin/env python3
"""Draws the pictures of the documents: docs/pipeline.svg and docs/processes.svg.

    docs/pictures.py [--check]    --check: write nothing; status 1 when a picture is not what the script
                                  draws
"""
import os
import sys
from xml.sax.saxutils import escape

HERE = os.path.dirname(os.path.abspath(__file__))
COLOURS = {"work": "#dbe9f6", "queue": "#fdf2d0", "store": "#e4e4e4", "root": "#f6dcdc", "none": "#dff0df"}


class Picture:
    def __init__(self, width, height, title):
        self.size = width, height
        self.parts = [f"<title>{escape(title)}</title>"]

    def text(self, x, y, line, size=13, anchor="middle", weight="normal"):
        self.parts.append(f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" '
                          f'font-weight="{weight}">{escape(line)}</text>')

    def box(self, x, y, width, height, kind, *lines):
        """The first line is the name; the centre is at x, y."""
        radius = 3 if kind != "queue" else height // 2
        self.parts.append(f'<rect x="{x - width / 2}" y="{y - height / 2}" width="{width}" '
                          f'height="{height}" rx="{radius}" fill="{COLOURS[kind]}" stroke="#444"/>')
        top = y - 8 * (len(lines) - 1) + 4
        for i, line in enumerate(lines):
            self.text(x, top + 16 * i, line, 13 if i == 0 else 11, weight="bold" if i == 0 else "normal")

    def arrow(self, *points, label="", back=False, label_at=None):
        path = " ".join(f"{x},{y}" for x, y in points)
        dash = ' stroke-dasharray="5 4"' if back else ""
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="#444" stroke-width="1.5"'
                          f'{dash} marker-end="url(#tip)"/>')
        if label:
            x, y = label_at or ((points[0][0] + points[-1][0]) / 2, (points[0][1] + points[-1][1]) / 2 - 6)
            self.text(x, y, label, 11)

    def svg(self):
        width, height = self.size
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                'font-family="sans-serif">\n'
                '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
                'markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#444"/></marker></defs>\n'
                f'<rect width="{width}" height="{height}" fill="white"/>\n'
                + "\n".join(self.parts) + "\n</svg>\n")


def pipeline():
    """The stages of a transfer, from the source's files to the sink's."""
    p = Picture(1040, 330, "The pipeline of a transfer")
    p.text(20, 28, "source", 15, "start", "bold")
    p.text(20, 218, "sink", 15, "start", "bold")
    upper, lower = 80, 265
    p.box(80, upper, 100, 50, "store", "files")
    p.box(230, upper, 110, 50, "work", "walk", "names, attributes")
    p.box(390, upper, 110, 50, "queue", "plan", "files to read")
    p.box(550, upper, 110, 50, "work", "readers", "read, seal")
    p.box(710, upper, 110, 50, "queue", "ready", "full blocks")
    p.box(880, upper, 120, 50, "work", "sender", "one per path")
    p.box(880, lower, 120, 50, "work", "receiver", "one per path")
    p.box(710, lower, 110, 50, "queue", "arrived", "full blocks")
    p.box(550, lower, 110, 50, "work", "writers", "check, write")
    p.box(370, lower, 130, 50, "work", "commit", "sync, give names")
    p.box(180, lower, 100, 50, "store", "files")
    row = [(80, 50), (230, 55), (390, 55), (550, 55), (710, 55), (880, 60)]
    for (x, half), (next_x, next_half) in zip(row, row[1:]):
        p.arrow((x + half, upper), (next_x - next_half, upper))
    row = [(880, 60), (710, 55), (550, 55), (370, 65), (180, 50)]
    for (x, half), (next_x, next_half) in zip(row, row[1:]):
        p.arrow((x - half, lower), (next_x + next_half, lower))
    p.arrow((860, upper + 25), (860, lower - 25), label="blocks", label_at=(835, 165))
    p.text(820, 182, "RDMA or TCP", 11)
    p.arrow((905, lower - 25), (905, upper + 25), back=True)
    p.text(912, 165, "credits,", 11, "start")
    p.text(912, 180, "acknowledgements", 11, "start")
    p.arrow((395, lower - 25), (395, upper + 25), back=True)
    p.text(403, 165, "DONE: files are on stable storage;", 11, "start")
    p.text(403, 180, "the window moves on", 11, "start")
    p.arrow((230, upper + 25), (230, 195), (345, 195), (345, lower - 25))
    p.text(238, 172, "entries (control", 11, "start")
    p.text(238, 187, "connection)", 11, "start")
    return p.svg()


def processes():
    """The processes of rftpd that root has started."""
    p = Picture(900, 360, "The processes of rftpd")
    p.box(110, 90, 130, 54, "store", "client", "not logged in yet")
    p.box(400, 90, 190, 70, "none", "preauth process", "TLS and FTP; no rights,", "empty root, filter")
    p.box(720, 90, 190, 70, "root", "monitor", "root: listens, counts, forks;", "reads no client's bytes")
    p.box(720, 265, 190, 70, "root", "auth process", "root: checks the password", "in a child, then becomes")
    p.box(400, 265, 190, 70, "work", "session", "the user's rights, the root", "directory; files, blocks")
    p.box(110, 265, 130, 54, "store", "client", "data connections")
    p.arrow((175, 90), (305, 90), label="control, TLS")
    p.arrow((495, 80), (625, 80), label="login?")
    p.arrow((625, 100), (495, 100), back=True)
    p.text(560, 116, "its turn", 11)
    p.arrow((720, 125), (720, 230), label="forks", label_at=(745, 182))
    p.arrow((625, 265), (495, 265), label="the session")
    p.arrow((400, 125), (400, 230), label="", back=False)
    p.text(408, 175, "FTP lines and frames,", 11, "start")
    p.text(408, 190, "without TLS", 11, "start")
    p.arrow((305, 265), (175, 265), label="RDMA, TCP")
    p.text(450, 340, "red: rights of root; green: no rights; blue: rights of one user (docs/TRUST.md)", 12)
    return p.svg()


def main(words):
    wrong = 0
    for name, draw in (("pipeline", pipeline), ("processes", processes)):
        path = os.path.join(HERE, name + ".svg")
        if words == ["--check"]:
            with open(path, encoding="utf-8") as f:
                if f.read() != draw():
                    print(f"{path} is not what docs/pictures.py draws")
                    wrong = 1
        else:
            with open(path, "w", encoding="utf-8") as f:
                f.write(draw())
    return wrong


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
