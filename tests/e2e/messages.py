#!/usr/bin/env python3
# messages.py PART SRC: reads the strings of SRC's sources, with their places. PART is one of
#   list      each message as "FILE:LINE FUNCTION TEXT"
# or a rule, which prints each message that breaks it:
#   wording   a condition is worded otherwise than the table below has it
#   twice     two places have the same text
#   alike     two texts differ only in small words, case, punctuation or order
#   shape     a message ends in a full stop, or its first letter is of the wrong case
#   count     a number and its noun can disagree, as in "1 files"
#   riddle    a clause stands for a noun: who, whatever, nobody, ...
# A module, too, for read-guide.py.
import ast
import os
import re
import sys
from typing import NamedTuple

# The wording of each condition, and a pattern of others. A new condition, or a wording to forbid, is
# a row here. Patterns are case-sensitive: replies of FTP begin with a capital letter.
WORDINGS = (
    ("Cannot allocate memory", r"\b[Oo]ut of memory\b|\bno memory for\b|\bmemory exhausted\b"),
    ("cannot start a thread", r"\bno thread for\b|\bcannot (?:make|create) (?:a|the) thread\b"),
    ("PATH: cannot be read, written, removed or synced: REASON",
     r"\bcannot (?:read|open|write|remove|delete|unlink|sync) %s"),
    ("cannot ...", r"\bcould not (?!become)\b|\bunable to\b|\bfailed to\b|\bcan not\b|\bcan't\b"),
    ("standard output: REASON", r"\bcannot write to standard output\b"),
    ("is not a NOUN", r"(?<![Tt]here )\b(?:is|are) no (?!longer\b|more\b)\w"),
    ("PATH: Not a directory", r"%s:? is not a directory\b"),
    ("exists", r"\bis there already\b|\balready exists\b|\bexists already\b"),
    ("is missing", r"\bis not there\b|\bdoes not exist\b"),
    ("there is no NOUN NAME",
     r"^no such\b|\bthere is no such\b|\bno such (?:file|user|option|command|node)\b"),
    ("there is no command WORD", r"\bunknown command\b|\bno command called\b"),
    ("there is no option --NAME", r"\b(?:unknown|unrecognized|invalid) option\b"),
    ("there is no node N (rftp-numa topo lists them)", r"\bhas no node (?!%d)|\bno node %\w+ here\b"),
    ("must be CHOICES, not WORD",
     r"\bwas expected\b|\b(?:is not|must be) one of\b|\bis none of\b|\binvalid value\b|"
     r"--\S+ takes? (?!no |plain )"),
    ("X needs Y", r"\bwants (?!data)|\brequires (?!argument)"),
    ("A and B exclude each other",
     r"\bmutually exclusive\b|\bcannot be combined\b|\bdoes not work with --|\beither --"),
    ("(did you mean X?)", r"[:;,] did you mean|\bwas %s\S* meant\b"),
    ("HOST closed the connection",
     r"\bwent away\b|\bhung up\b|\bconnection (?:was |is )?closed by\b|"
     r"\bconnection to %s is lost\b"),
    ("HOST did not answer in time", r"\btimed out\b|\bdoes not answer in time\b|\bdid not reply\b"),
    ("takes too long", r"\b(?:has taken|took) too long\b"),
    ("HOST offers no X", r"\bdoes not (?:support|provide)\b|\bunsupported\b|\bnot supported\b"),
    ("this build has no X", r"(?<!fio was )\b(?:built|compiled) without\b"),
    ("changed while being read",
     r"\bchanged while (?:it|they) (?:is|was|were)\b|\bbecame shorter\b"),
    ("another transfer is writing it",
     r"(?<!another )\btransfers? (?:is|are) writing it\b"),
    ("contains a NUL", r"\bNUL bytes?\b|\b(?:has|with) a NUL\b|\bNUL in\b"),
    ("contains a line end", r"\bline's end\b|\bline break\b"),
    ("is listed twice",
     r"\bis there twice\b|\btwo lines for\b|\bhas two shares\b|\bduplicate\b"),
    ("others can read|write it",
     r"\bworld.writable\b|\b(?:may|can) be (?:written|read) by others\b|\bothers may\b|"
     r"\bopen to others\b"),
    ("belongs to another user", r"\bis owned by\b|\bis not owned by\b"),
    ("is longer than N bytes",
     r"\bexceeds\b|\bhas (?:at most|more than) (?:%\w+|\d+) bytes\b"),
    ("; try again later", r", try again later"),
    ("COMMAND needs root: use sudo", r"\bmust be root\b|\brun as root\b"),
    ("left out", r"\bskipping\b|\bignoring\b"),
    ("malformed", r"\bbadly formed\b|\bgarbled\b|\b[Bb]ad (?:reply|request|message)\b"),
    ("X is not known", r"\bnot known to this\b|\bdoes not know$"),
)

# The texts of these are replies of FTP, which begin with a capital letter; in these files the text
# of an error is one, too.
REPLIES = re.compile(
    r"(?:ftp_session_reply|session_reply_about|reply_other_server|body_refuse)$")
REPLY_FILES = ("server/session/session.c", "server/session/third_party.c", "server/auth/auth.c")
# These take messages.
MESSAGES = re.compile(
    r"(?:err_\w+|log_(?:error|warn|info|debug|at|event|weak)|\w*usage\w*|\w*_fail(?:ed)?|"
    r"part_(?:say|err)|\w*misuse\w*|misused|Failure|Misuse|warn|say|\w*refuse|opener_reject|"
    r"foreign_left_out|refuse_client)$")
CAPITALS = re.compile(r"(?!Cannot allocate memory)[A-Z][a-z]+\b")  # not RDMA, HiGHS
RIDDLE = re.compile(
    r"\b(?:who|whom|whose|whoever|whatever|whichever|(?:no|some|any|every)body|he|him|his|"
    r"(?:goes|gone|go|went) on)\b(?<!as nobody)|\bwhat\b", re.I)
# A number that can be 1, and a noun or pronoun that cannot. Limits are never 1.
COUNT = re.compile(r"(?<!more than )(?<!at most )(?<!deeper than )(?<!can be )(?<!reads of )"
                   r"%(?:ll|l|z|j)?[ud] (?!(?:bytes|is|was|has|does|shows|offers|keeps|goes|owns|"
                   r"differs|us|ms)\b)([a-z]+s)\b(?!%s)")
# Words that do not tell conditions apart.
SMALL = set("a an the its it this that these is are was were be been being has have had to of in on at "
            "for by with from as and or but there then too also all own".split())
VALUE = r"%[-+ #0-9.*]*(?:hh|h|ll|l|z|j)?[a-zA-Z]"


class Message(NamedTuple):
    path: str
    line: int
    call: str      # the function whose argument it is; "{": in a table; "": elsewhere
    text: str      # "%s" and the like for values
    shared: bool   # part of it is a constant with a name

    def __str__(self):
        return "%s:%d %s %s" % (self.path, self.line, self.call or "-", self.text)


# ---- C --------------------------------------------------------------------------------

TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|/\*.*?\*/|//[^\n]*', re.S)
STRING = r'"(?:[^"\\\n]|\\.)*"'
DEFINE = re.compile(r'^#define (\w+)((?:\s|\\\n)+(?:%s|\s|\\\n|[A-Z_]+)+)$' % STRING, re.M)
PARTS = re.compile(r'(?:(?:%s|\b[A-Z][A-Z0-9_]{2,}\b|\bPRI[a-zA-Z0-9]+)\s*)+' % STRING)
PART = re.compile(r'"((?:[^"\\\n]|\\.)*)"|(\w+)')


def without_comments(source):
    return TOKEN.sub(lambda m: m[0] if m[0][0] in "\"'" else re.sub(r"[^\n]", " ", m[0]), source)


def caller(source, at):
    """The function whose argument is at this offset, or the bracket or ";" in front."""
    depth = 0
    for i in range(at - 1, max(-1, at - 3000), -1):
        c = source[i]
        if c in ")]":
            depth += 1
        elif c in "([":
            if not depth:
                name = re.search(r"(\w+)\s*$", source[max(0, i - 60):i])
                return name[1] if c == "(" and name else ""
            depth -= 1
        elif c in ";{}" and not depth:
            return "{" if c == "{" else ""
    return ""


def joined(text, constants):
    out, shared = "", False
    for string, word in PART.findall(text):
        if not word:
            out += string
        elif word.startswith("PRI"):
            out += "llu" if word[3] == "u" else "lld"
        elif word in constants:
            out += constants[word]
            shared = True
    return out.replace('\\"', '"').replace("\\n", "\n"), shared


def c_messages(path, source, constants):
    source = re.sub(r"^#\s*(?:include.*|define \w+)", lambda m: " " * len(m[0]),
                    without_comments(source), flags=re.M)
    for match in PARTS.finditer(source):
        text, shared = joined(match[0], constants)
        if text:
            yield Message(path, source.count("\n", 0, match.start()) + 1,
                          caller(source, match.start()), text, shared)


# ---- Python ---------------------------------------------------------------------------

def python_string(node):
    """Turns an expression into a printf format: "%s" for each part that is not constant."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(map(python_string, node.values))
    if isinstance(node, ast.FormattedValue) and isinstance(node.value, ast.Call) and \
            getattr(node.value.func, "id", "") == "len":
        return "%d"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return python_string(node.left) + python_string(node.right)
    return "%s"


def python_messages(path, source):
    def walk(node, call):
        if isinstance(node, (ast.JoinedStr, ast.BinOp)) or \
                isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = python_string(node)
            if text.strip("%s") and call != "compile":
                yield Message(path, node.lineno, call, text, False)
        if isinstance(node, ast.Call):
            name = node.func
            call = name.id if isinstance(name, ast.Name) else getattr(name, "attr", "")
        body = getattr(node, "body", None)
        for child in ast.iter_child_nodes(node):
            if isinstance(body, list) and body and child is body[0] and isinstance(child, ast.Expr) \
                    and isinstance(child.value, ast.Constant):
                continue  # a docstring
            if isinstance(node, ast.JoinedStr) and isinstance(child, ast.Constant):
                continue
            if isinstance(node, ast.BinOp) and python_string(child) != "%s":
                continue
            yield from walk(child, call)
    yield from walk(ast.parse(source), "")


# ---- all ------------------------------------------------------------------------------

def messages(top):
    sources = {}
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith((".c", ".h", ".py")):
                with open(path, encoding="utf-8") as f:
                    sources[os.path.relpath(path, top)] = f.read()
    constants = {}
    for _ in range(2):  # one may have another in it
        for source in sources.values():
            for name, value in DEFINE.findall(source):
                constants[name] = joined(value, constants)[0]
    for path in sorted(sources):
        yield from python_messages(path, sources[path]) if path.endswith(".py") else \
            c_messages(path, sources[path], constants)


def core(text):
    """A text without the object in front, the value behind, and brackets and the like around."""
    return re.sub(r"^[\W_]+|[\W_]+$", "", re.sub(VALUE, "%", text))


def words_of(text):
    """The words of a text that tell conditions apart, sorted."""
    words = re.findall(r"%|--?[a-z][a-z-]+|[a-z][a-z0-9']*", core(text).lower())
    return tuple(sorted(re.sub(r"'s$|s$", "", w) for w in words if w not in SMALL))


def is_text(m):
    """For people: at least two words."""
    return len(re.findall(r"[A-Za-z]{2,}", m.text)) >= 2 and " " in m.text.strip()


def is_message(m):
    return is_text(m) and bool(MESSAGES.match(m.call) or REPLIES.match(m.call))


def wording(found):
    rules = [(wanted, re.compile(pattern)) for wanted, pattern in WORDINGS]
    for m in filter(is_text, found):
        for wanted, pattern in rules:
            if pattern.search(m.text):
                yield m, wanted


def groups(found, key):
    """Messages of three words and more, by their key."""
    of = {}
    for m in filter(is_message, found):
        if len(set(words_of(m.text)) - {"%"}) >= 3:
            of.setdefault(key(m.text), []).append(m)
    return of.values()


def twice(found):
    for group in groups((m for m in found if not m.shared), str):
        for m in group[1:]:
            yield m, "as in %s:%d" % group[0][:2]


def alike(found):
    for group in groups(found, words_of):
        for m in group[1:]:
            one, other = core(m.text), core(group[0].text)
            if one != other and not (m.shared and group[0].shared) and (one.lower() != other.lower() or
                                 not any(REPLIES.match(x.call) for x in (m, group[0]))):
                yield m, "like %s" % (group[0],)


def shape(found):
    for m in filter(is_message, found):
        first = m.text.lstrip('"(')
        reply = REPLIES.match(m.call)
        if re.search(r"(?<!\.)[.!]$", m.text):
            yield m, "ends in a full stop"
        elif CAPITALS.match(first) and not reply and m.path not in REPLY_FILES:
            yield m, "begins with a capital letter"
        elif re.match(r"[a-z]", first) and reply and not m.shared:
            yield m, "begins without a capital letter"


def count(found):
    for m in filter(is_message, found):
        for noun in COUNT.findall(m.text):
            yield m, "1 " + noun


def riddle(found):
    for m in filter(is_text, found):
        if RIDDLE.search(m.text):
            yield m, RIDDLE.search(m.text)[0]


def main():
    part, top = sys.argv[1:]
    found = list(messages(top))
    if part == "list":
        for m in filter(is_text, found):
            print(str(m).replace("\n", "\\n"))
        return
    for m, why in globals()[part](found):
        print(str(m).replace("\n", "\\n") + " -- " + why.replace("\n", "\\n"))


if __name__ == "__main__":
    main()
