"""Find the line on a program's standard error that explains why it exited.

It is rarely the last line: npm ends with the path of its log, and Node with a stack and its version. Lines
are recognized by patterns, from the most specific to the vaguest.
"""

import re
from collections.abc import Sequence

from toolbus.core.text.text import cleaned

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
        r"|is not set|is required|must be set|unable to |failed to |\w*(?:Error|Exception): .)",
        re.IGNORECASE,
    ),
)
_NAMES_CAUSE = re.compile(
    r".*(?:cannot |can't |could not |failed to |no such |not found|denied|refused|does not exist"
    r"|is not set|missing)",
    re.IGNORECASE,
)
"""A line above the reason that explains it: "Cannot access directory /home/user, skipping"."""
_NOISE = re.compile(
    r"\s*(?:File \".+\", line \d+.*|[\^~]+|[\s{}\[\]();,]*|Node\.js v\d.*|node:internal/\S+:\d+)"
    r"|\s+(?:at .+|.*;)|\s+\[?\w+\]?: (?:['\"\[{\d-]|undefined|null|true|false).*"
)
"""Stack frames, carets, braces, and the fields of an object that Node prints below an error."""
_CAUSE = re.compile(r"(?:cause|Caused by): .|\u2570\u2500\u25b6 ")  # as uv draws it


def error_line(lines: Sequence[str]) -> str | None:
    """The line that explains why the program exited, with the cause above or below it; None if none does."""
    return " | ".join(error_lines(lines)) or None


def error_lines(lines: Sequence[str]) -> list[str]:
    """The same as one or two lines, or none."""
    plain = [cleaned(line) for line in lines]
    raised = _traceback_error(plain)
    if raised is not None:
        return [raised]
    shown = [line.strip(" |\t") for line in plain]
    for pattern in _PATTERNS:
        found = [index for index, line in enumerate(shown) if pattern.match(line)]
        if found:
            # npm prints the reason first and then explains it; others print it last.
            is_npm = shown[found[0]].startswith("npm ")
            index = found[0 if is_npm else -1]
            below = shown[index + 1] if index + 1 < len(shown) else ""
            if _CAUSE.match(below):
                return [shown[index], below]
            return [*(() if is_npm else _cause_above(plain, shown, index)), shown[index]]
    return []


def quoted(lines: Sequence[str], most: int = 3) -> str:
    """The part of a program's standard error to quote: the reason, else the last lines that say something."""
    return error_line(lines) or " | ".join(_telling(lines)[-most:])


def last_line(lines: Sequence[str]) -> str:
    """The last line that says something."""
    return _telling(lines)[-1]


def _telling(lines: Sequence[str]) -> list[str]:
    return [line.strip() for line in lines if not _NOISE.fullmatch(cleaned(line))] or list(lines)


def _cause_above(plain: Sequence[str], shown: Sequence[str], index: int) -> list[str]:
    """The line right above the reason, if it names the cause."""
    telling = [at for at in range(index) if not _NOISE.fullmatch(plain[at])]
    above = shown[telling[-1]] if telling else ""
    return [above] if _NAMES_CAUSE.match(above) and above not in shown[index] else []


def _traceback_error(lines: Sequence[str]) -> str | None:
    """The exception of the last Python traceback: the first line below it that is not indented."""
    header = next((index for index in reversed(range(len(lines))) if _TRACEBACK in lines[index]), None)
    if header is None:
        return None
    # In an exception group, every line starts with a bar.
    margin = lines[header].partition(_TRACEBACK)[0]
    below = (line.removeprefix(margin) for line in lines[header + 1 :] if line.startswith(margin))
    return next((line.strip() for line in below if line.strip() and not line.startswith(" ")), None)
