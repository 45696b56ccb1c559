# Parses Markdown pages, for read-guide.py and type-guide.py.
import re

FENCED = r"^ *```(\S*)\n(.*?)^ *```$"


def blocks(text):
    """Yields (language, lines) of each fenced block."""
    for match in re.finditer(FENCED, text, re.M | re.S):
        yield match[1], match[2].splitlines()


def blocks_below(text):
    """The same, with the heading above the block in front."""
    heading = ""
    for match in re.finditer(r"^#+ ([^\n]*)$|" + FENCED, text, re.M | re.S):
        if match[1]:
            heading = match[1]
        else:
            yield heading, match[2], match[3].splitlines()
