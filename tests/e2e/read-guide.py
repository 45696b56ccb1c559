#!/usr/bin/env python3
# read-guide.py GUIDE PART: prints parts of a guide in Markdown, for guide.sh. PART is one of
#   commands         each command of its blocks, one per line, as "HOST PROMPT COMMAND"; HOST is
#                    empty for this host
#   output COMMAND   the output of this command in the guide
#   file PATH        the guide's configuration file with this path
#   files            the paths of all configuration files
#   options HELP     options in commands and in `code` that the help of their program lacks, or has
#                    with another value; HELP is a directory with the help of each
#   programs         the programs, with their commands, that "options" checks
#   texts SRC        quoted messages that match no string in SRC's sources
#   links TOP        missing files and sections of manual pages
import os, re, shlex, sys

from markdown import blocks as blocks_of
from messages import messages

PROGRAMS = ("rftp", "rftpd", "rftp-iser", "rftp-numa")
WITH_COMMANDS = ("rftp", "rftp-iser", "rftp-numa")
PROMPT = re.compile(r" *(?P<host>all|(?:store|dtn)\d|server|)(?P<prompt>[#$]) (?P<command>.*)")

text = open(sys.argv[1]).read()
what, more = sys.argv[2], sys.argv[3:]


def blocks():
    return blocks_of(text)


def commands():
    """Yields (host, prompt, command, output lines) of each command."""
    for language, lines in blocks():
        if language == "shell":
            yield from (("", "$", line, []) for line in lines)
        if language:
            continue
        found = None
        rest = iter(lines)
        for line in rest:
            match = PROMPT.fullmatch(line)
            if not match:
                if found:
                    found[3].append(line)
                continue
            if found:
                yield tuple(found)
            command = match["command"]
            while command.endswith("\\"):
                command = command[:-1].rstrip() + " " + next(rest).strip()
            found = [match["host"], match["prompt"], command, []]
        if found:
            yield tuple(found)


def files():
    """The configuration files, by path: the path is their first line, after a #."""
    return {lines[0][2:]: lines for language, lines in blocks()
            if language and lines[0].startswith("# ")}


def prose():
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.M | re.S)


def spans():
    """The `code` spans in the prose."""
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose())]


# ---- options -------------------------------------------------------------------------

def uses(command):
    """Yields (program with its command, words after it) for each of ours in a shell line."""
    words = []
    for word in shlex.split(command.replace("$(", "; ").replace(")", " "), comments=False):
        words += ["|"] if word in ("|", ";", "&&", "||") else \
            [word.rstrip(";"), "|"] if word.endswith(";") else [word]
    at = 0
    while at < len(words):
        end = words.index("|", at) if "|" in words[at:] else len(words)
        one = words[at:end]
        at = end + 1
        if not one:
            continue
        name = one[0].removeprefix("/usr/local/bin/")
        if name.startswith("scripts/"):
            yield name, one[1:]
        elif name in PROGRAMS:
            has = name in WITH_COMMANDS and len(one) > 1 and one[1].isalpha()
            yield name + (" " + one[1] if has else ""), one[1 + has:]


def all_uses():
    lines = [c[2] for c in commands()]
    lines += [span for span in spans() if re.match(r"(rftp|scripts/)", span)]
    for lines_of in files().values():
        joined = "\n".join(lines_of).replace("\\\n", " ")
        lines += re.findall(r"^Exec\w+=(.*)$", joined, re.M)
        lines += re.findall(r"^LOGIN=\"(.*)\"$", joined.replace('="', '="rftp-iser login '), re.M)
    for line in lines:
        yield from uses(line)


def options_of(help_text):
    """Parses a help text into {option: values or None}."""
    found = {}
    for match in re.finditer(r"(?<![\w-])(--?[a-zA-Z0-9][\w-]*)(?: ([a-z]+(?:\|[a-z]+)+)(?= |$))?",
                             help_text, re.M):
        values = match[2].split("|") if match[2] else None
        found[match[1]] = values or found.get(match[1])
    return found


def read_help(directory, program):
    return options_of(open(os.path.join(directory, program.replace("/", "_"))).read())


def wrong_options(directory):
    known = {}
    for program, words in all_uses():
        options = known.setdefault(program, read_help(directory, program))
        for word, behind in zip(words, words[1:] + [""]):
            if not re.match(r"--?[A-Za-z]", word):
                continue
            if word not in options:
                yield "%s: %s" % (program, word)
            elif options[word] and behind not in options[word]:
                yield "%s: %s %s" % (program, word, behind)
    everywhere = {}
    for name in os.listdir(directory):
        everywhere.update(read_help(directory, name))
    for span in spans():
        if span.startswith("--"):
            option, _, value = span.partition(" ")
            if option not in everywhere:
                yield option
            elif everywhere[option] and value and value not in everywhere[option]:
                yield span


# ---- messages ------------------------------------------------------------------------

# A conversion of printf(3). Its value is not compared.
CONVERSION = re.compile(r"(%[-+ #0-9.*]*(?:hh|h|ll|l|z)?[a-zA-Z%])")


def fits(said, template):
    parts = CONVERSION.split(template)
    if sum(len(part) for part in parts[::2]) < 10:
        return said == template
    return re.fullmatch("".join(".*" if k % 2 else re.escape(part)
                                for k, part in enumerate(parts)), said)


def quoted():
    """Yields (text, whole): lines that programs print, and parts of such lines in tables."""
    for host, _, command, output in commands():
        if command.startswith("rftp-iser plan") or host in ("", "server"):
            continue  # compared with its output
        for line in output:
            match = re.match(r"(?:rftp(?:d|-iser|-numa)?: |.*info: )(.*)", line)
            if match:
                yield match[1], True
    for table in re.findall(r"^\| it says \|.*\n\| ?-.*\n((?:\|.*\n)+)", text, re.M):
        for cell in re.findall(r"^\| `([^`]+)`", table, re.M):
            yield cell, False


def strange_texts(top):
    known = {m.text.replace("\n", "") for m in messages(top)}
    for said, whole in quoted():
        if whole:
            good = any(fits(said, template) for template in known)
        else:
            parts = [part.strip() for part in said.split("...")]
            good = any(all(part in template for part in parts) for template in known)
        if not good:
            yield said


# ---- links ---------------------------------------------------------------------------

def heads(page):
    """Returns the sections and subsections of a manual page."""
    return {line.split(" ", 1)[1].strip('"\n') for line in open(page)
            if line.startswith((".Sh ", ".Ss "))}


def missing(top):
    here = os.path.dirname(os.path.abspath(sys.argv[1]))
    for link in re.findall(r"\]\(([^)#]+)", text):
        if "://" not in link and not os.path.exists(os.path.join(here, link)):
            yield link
    paths = re.findall(r"(?<![\w/.-])((?:scripts|bench|man|docs|tests)/[\w.-]+[\w])", text)
    for path in sorted(set(paths)):
        if not os.path.exists(os.path.join(top, path)):
            yield path
    for unit in sorted(set(re.findall(r"\b(rftp[a-z-]*@)store1", text))):
        if not os.path.exists(os.path.join(top, "systemd", unit + ".service.in")):
            yield unit
    flat = " ".join(prose().split())
    for name, number, section in re.findall(
            r"(rftp[\w.-]*)\((\d)\)(?:, ([A-Z]+(?: [A-Z]+)+|[A-Z]{2,}))?", flat):
        page = os.path.join(top, "man", "%s.%s" % (name, number))
        if not os.path.exists(page):
            yield "%s(%s)" % (name, number)
        elif section and section not in heads(page):
            yield "%s(%s), %s" % (name, number, section)


if what == "commands":
    for host, prompt, command, _ in commands():
        print(host, prompt, command)
elif what == "output":
    for _, _, command, output in commands():
        if command == more[0]:
            print("\n".join(output))
            break
elif what == "files":
    print("\n".join(files()))
elif what == "file":
    print("\n".join(files()[more[0]]))
elif what == "programs":
    print("\n".join(sorted({program for program, _ in all_uses()})))
elif what == "options":
    print("\n".join(wrong_options(more[0])), end="")
elif what == "texts":
    print("\n".join(strange_texts(more[0])), end="")
elif what == "links":
    print("\n".join(missing(more[0])), end="")
else:
    sys.exit("what?")
