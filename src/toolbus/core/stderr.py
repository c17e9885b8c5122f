"""Which line on a program's standard error says why it ended.

It is seldom the last one: npm ends with the path of its log, Node with a stack and its version, Docker with
a word on --help. Programs are known by how their lines look, from the surest sign to the vaguest.
"""

import re
from collections.abc import Sequence

from toolbus.core.text import cleaned

_TRACEBACK = "Traceback (most recent call last):"
_SIGNS = (
    # Of Python, Node, git, Docker, uv.
    re.compile(
        r"(?:Uncaught )?[\w.$]*(?:Error|Exception)(?: \[\w+\])?: ."
        r"|(?:[\w./-]+: )?(?i:error|fatal|panic)(?:: .| response from )"
        r"|\u00d7 ."
    ),
    # Without the lines that only repeat it as a code, and the one about the log.
    re.compile(r"npm (?:error|ERR!) (?!(?:code|syscall|errno|path|dest|A complete log)\b)(?:\w+ +)?\S+ \S"),
    re.compile(r".*\b(?:ERROR|FATAL|CRITICAL)\b."),
    re.compile(
        r".*(?:not found|No such file or directory|Permission denied|No module named|cannot |could not "
        r"|is not set|is required|must be set)",
        re.IGNORECASE,
    ),
)
_CAUSE = re.compile(r"(?:cause|Caused by): .|\u2570\u2500\u25b6 ")  # as uv draws it


def telling_line(lines: Sequence[str]) -> str | None:
    """The line that says why the program ended, with the cause that stands below it; None if none does."""
    plain = [cleaned(line) for line in lines]
    raised = _raised(plain)
    if raised is not None:
        return raised
    shown = [line.strip(" |\t") for line in plain]
    for sign in _SIGNS:
        found = [index for index, line in enumerate(shown) if sign.match(line)]
        if found:
            # npm says the reason first and explains it then; others come to it at last.
            index = found[0 if shown[found[0]].startswith("npm ") else -1]
            below = shown[index + 1] if index + 1 < len(shown) else ""
            return f"{shown[index]} | {below}" if _CAUSE.match(below) else shown[index]
    return None


def _raised(lines: Sequence[str]) -> str | None:
    """The exception of the last Python traceback: the first line below it that is not indented."""
    header = next((index for index in reversed(range(len(lines))) if _TRACEBACK in lines[index]), None)
    if header is None:
        return None
    # In a group, every line stands behind a bar.
    margin = lines[header].partition(_TRACEBACK)[0]
    below = (line.removeprefix(margin) for line in lines[header + 1 :] if line.startswith(margin))
    return next((line.strip() for line in below if line.strip() and not line.startswith(" ")), None)
