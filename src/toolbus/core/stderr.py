"""Find the line on a program's standard error that explains why it exited.

It is rarely the last one: npm ends with the path of its log, Node with a stack and its version, Docker with
a hint about --help. Lines are recognized by patterns, from the most specific to the vaguest.
"""

import re
from collections.abc import Sequence

from toolbus.core.text import cleaned

_TRACEBACK = "Traceback (most recent call last):"
_PATTERNS = (
    # Python, Node, git, Docker, uv.
    re.compile(
        r"(?:Uncaught )?[\w.$]*(?:Error|Exception)(?: \[\w+\])?: ."
        r"|(?:[\w./-]+: )?(?i:error|fatal|panic)(?:: .| response from )"
        r"|\u00d7 ."
    ),
    # Without the lines that only repeat it as a code, and the line about the log.
    re.compile(r"npm (?:error|ERR!) (?!(?:code|syscall|errno|path|dest|A complete log)\b)(?:\w+ +)?\S+ \S"),
    re.compile(r".*\b(?:ERROR|FATAL|CRITICAL)\b."),
    re.compile(
        r".*(?:not found|No such file or directory|Permission denied|No module named|cannot |could not "
        r"|is not set|is required|must be set)",
        re.IGNORECASE,
    ),
)
_CAUSE = re.compile(r"(?:cause|Caused by): .|\u2570\u2500\u25b6 ")  # as uv draws it


def error_line(lines: Sequence[str]) -> str | None:
    """The line that explains why the program exited, with the cause below it; None if there is none."""
    plain = [cleaned(line) for line in lines]
    raised = _traceback_error(plain)
    if raised is not None:
        return raised
    shown = [line.strip(" |\t") for line in plain]
    for pattern in _PATTERNS:
        found = [index for index, line in enumerate(shown) if pattern.match(line)]
        if found:
            # npm prints the reason first and then explains it; others print it last.
            index = found[0 if shown[found[0]].startswith("npm ") else -1]
            below = shown[index + 1] if index + 1 < len(shown) else ""
            return f"{shown[index]} | {below}" if _CAUSE.match(below) else shown[index]
    return None


def _traceback_error(lines: Sequence[str]) -> str | None:
    """The exception of the last Python traceback: the first line below it that is not indented."""
    header = next((index for index in reversed(range(len(lines))) if _TRACEBACK in lines[index]), None)
    if header is None:
        return None
    # In an exception group, every line starts with a bar.
    margin = lines[header].partition(_TRACEBACK)[0]
    below = (line.removeprefix(margin) for line in lines[header + 1 :] if line.startswith(margin))
    return next((line.strip() for line in below if line.strip() and not line.startswith(" ")), None)
