"""What Tab prints: names that every shell takes literally, in the form that its script reads.

zsh evaluates what completion prints, and bash inserts it unquoted. Names come from servers, from the cache
and from whatever config is in the folder, so all of them pass one filter here, just before they are printed.
Nothing else is printed: no description, no error.
"""

import os
import re
import shlex
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from io import StringIO
from threading import Timer

import typer

SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@+%-]{0,199}=?")
"""No character of it means anything to bash, zsh, fish or PowerShell, quoted or not; `=` only at the end."""
OPTION = re.compile(r"--?[a-z][a-z-]*")
SECONDS = 10.0
"""What a Tab may take; a small YAML file can be written to take hours, and then nothing is offered."""

_BREAK = re.compile("[=:@]+")
_ESCAPED = re.compile(r"\\(.)")


def complete(shell: str, app: typer.Typer) -> int:
    """Print the names to offer at the cursor."""
    names: list[str] = []
    done = ""
    # The edge of a Tab: whatever goes wrong, the user is in the middle of a line.
    anything = suppress(Exception, SystemExit, KeyboardInterrupt)
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()), anything, _bounded():
        line, done = _typed(shell)
        names = _names(app, _split(line))
    if shell == "fish" and os.environ.get("_TYPER_COMPLETE_FISH_ACTION") == "is-args":
        return 0 if names else 1
    sys.stdout.write(_printed(shell, names, done))
    sys.stdout.flush()
    return 0


def _names(app: typer.Typer, words: Sequence[str]) -> list[str]:
    """All that can follow, as far as it is safe: whatever completes a word, its names come through here."""
    # What click documents for other shells; typer has a copy of click inside.
    from typer.completion import shell_completion  # pyright: ignore[reportPrivateImportUsage]
    from typer.main import get_command

    *before, typed = words
    command = get_command(app)
    kind = shell_completion.get_completion_class("bash")
    assert kind is not None
    items = kind(command, {}, "toolbus", "_TOOLBUS_COMPLETE").get_completions(before[1:], typed)
    # Only where an option is being typed: no server's name may look like one.
    is_option = typed.startswith("-") and "=" not in typed and "--" not in before
    pattern = OPTION if is_option else SAFE
    return [item.value for item in items if pattern.fullmatch(item.value)]


def mend_scripts() -> None:
    """Have bash leave out the space after `name=`, and zsh complete at the first Tab as at the second.

    typer has no setting for either, so its scripts are changed where it keeps them; without them, nothing is.
    """
    scripts: dict[str, str] = getattr(sys.modules.get("typer._completion_shared"), "_completion_scripts", {})
    nospace = "    [[ ${COMPREPLY-} != *= ]] || compopt -o nospace\n    return 0\n"
    if "bash" in scripts:
        scripts["bash"] = scripts["bash"].replace("    return 0\n", nospace)
    if "zsh" in scripts:
        # The first Tab loads the file, as a function of its name.
        scripts["zsh"] += '[ "$funcstack[1]" != "_%(prog_name)s" ] || %(complete_func)s\n'


def mended(words: Sequence[str], at: int) -> tuple[list[str], int, str]:
    """The words as they were typed, which of them is meant, and how much of it bash has done with.

    bash breaks words at `=`, `:` and `@`, of which arguments and URIs are full, and wants of a name only what
    follows the last break.
    """
    whole: list[str] = []
    place, done = at, ""
    glues = False
    for index, word in enumerate(words):
        is_break = bool(_BREAK.fullmatch(word))
        before = whole.pop() if whole and word and (is_break or glues) else ""
        if index == at:
            place = len(whole)
            done = before + word if is_break else before
        whole.append(before + word)
        glues = is_break
    return whole, place, done


def _typed(shell: str) -> tuple[str, str]:
    """The line up to the cursor, and how much of its last word the shell has done with."""
    if shell == "bash":
        # One to a line, as the script joins them; a test or another shell may join them by blanks.
        line = os.environ.get("COMP_WORDS", "")
        words = line.split("\n") if "\n" in line else line.split(" ")
        whole, place, done = mended(words, int(os.environ.get("COMP_CWORD", "0")))
        return "\n".join(whole[: place + 1]), _ESCAPED.sub(r"\1", done)
    line = os.environ.get("_TYPER_COMPLETE_ARGS", "")
    is_new_word = shell in ("powershell", "pwsh") and not os.environ.get("_TYPER_COMPLETE_WORD_TO_COMPLETE")
    return f"{line} " if is_new_word else line, ""


def _split(line: str) -> list[str]:
    """The words of a line, the last of which may be empty or within a quote."""
    # One more letter keeps the last word, also an empty one.
    lexer = shlex.shlex(f"{line}x", posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        words += lexer
    except ValueError:  # a quote is open
        words.append(lexer.token)
    return [*words[:-1], words[-1][:-1]]


def _printed(shell: str, names: Sequence[str], done: str) -> str:
    match shell:
        case "bash":
            lines = [name.removeprefix(done) for name in names]
        case "zsh":
            # Quoted, or a global alias of the user would be expanded.
            before_value = [f"'{name}'" for name in names if name.endswith("=")]
            others = [f"'{name}'" for name in names if not name.endswith("=")]
            lines = [f"compadd -S '' -- {' '.join(before_value)};"] if before_value else []
            lines += [f"compadd -- {' '.join(others)};"] if others else []
            lines = lines or ["_files"]
        case "fish":
            lines = names
        case "powershell" | "pwsh":
            lines = [f"{name}::: " for name in names]
        case _:
            lines = []
    return "".join(f"{line}\n" for line in lines if line)


@contextmanager
def _bounded() -> Generator[None]:
    """Ends the process when completing takes more time than a Tab may."""
    timer = Timer(SECONDS, os._exit, [0])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
