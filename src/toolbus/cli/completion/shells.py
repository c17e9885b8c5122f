"""Print completions in the format of each shell, limited to names that are safe in every shell.

zsh evaluates what completion prints, and bash inserts it unquoted. Names come from servers, the cache and
the folder's config, so all of them pass one filter just before they are printed. Nothing else is printed:
no descriptions, no errors.
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
"""Only characters without special meaning in bash, zsh, fish or PowerShell; `=` only at the end."""
OPTION = re.compile(r"--?[a-z][a-z-]*")
TIMEOUT = 10.0
"""Time limit in seconds, because a small malicious YAML file can take hours to parse."""

_WORD_BREAK = re.compile("[=:@]+")
_ESCAPED = re.compile(r"\\(.)")


def complete(shell: str, app: typer.Typer) -> int:
    """Print the completions at the cursor."""
    names: list[str] = []
    done = ""
    # Ignore all errors: the user is in the middle of a line.
    anything = suppress(Exception, SystemExit, KeyboardInterrupt)
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()), anything, _time_limit():
        line, done = _command_line(shell)
        names = _names(app, _split(line))
    if shell == "fish" and os.environ.get("_TYPER_COMPLETE_FISH_ACTION") == "is-args":
        return 0 if names else 1
    sys.stdout.write(_formatted(shell, names, done))
    sys.stdout.flush()
    return 0


def _names(app: typer.Typer, words: Sequence[str]) -> list[str]:
    """All safe completions; every name passes through here."""
    # click's documented API for custom shells; typer vendors click.
    from typer.completion import shell_completion  # pyright: ignore[reportPrivateImportUsage]
    from typer.main import get_command

    *before, typed = words
    command = get_command(app)
    kind = shell_completion.get_completion_class("bash")
    assert kind is not None
    items = kind(command, {}, "toolbus", "_TOOLBUS_COMPLETE").get_completions(before[1:], typed)
    # Offer options only where one is typed: a server's name must not look like one.
    is_option = typed.startswith("-") and "=" not in typed and "--" not in before
    pattern = OPTION if is_option else SAFE
    return [item.value for item in items if pattern.fullmatch(item.value)]


def patch_scripts() -> None:
    """Patch typer's scripts: no space after `name=` in bash, and completion at the first Tab in zsh.

    typer has no setting for either. If its scripts are not where we expect them, nothing is patched.
    """
    scripts: dict[str, str] = getattr(sys.modules.get("typer._completion_shared"), "_completion_scripts", {})
    nospace = "    [[ ${COMPREPLY-} != *= ]] || compopt -o nospace\n    return 0\n"
    if "bash" in scripts:
        scripts["bash"] = scripts["bash"].replace("    return 0\n", nospace)
    if "zsh" in scripts:
        # The first Tab only loads the file; call its function as well.
        scripts["zsh"] += '[ "$funcstack[1]" != "_%(prog_name)s" ] || %(complete_func)s\n'


def rejoined_words(words: Sequence[str], at: int) -> tuple[list[str], int, str]:
    """The words as typed, the index of the current one, and the part of it that bash has completed.

    bash splits words at `=`, `:` and `@`, which are common in arguments and URIs, and expects only the part
    of a name after the last split.
    """
    whole: list[str] = []
    place, done = at, ""
    glues = False
    for index, word in enumerate(words):
        is_break = bool(_WORD_BREAK.fullmatch(word))
        before = whole.pop() if whole and word and (is_break or glues) else ""
        if index == at:
            place = len(whole)
            done = before + word if is_break else before
        whole.append(before + word)
        glues = is_break
    return whole, place, done


def _command_line(shell: str) -> tuple[str, str]:
    """The line up to the cursor, and the part of its last word that the shell has completed."""
    if shell == "bash":
        # The script joins words with line feeds; tests and other shells may use spaces.
        line = os.environ.get("COMP_WORDS", "")
        words = line.split("\n") if "\n" in line else line.split(" ")
        whole, place, done = rejoined_words(words, int(os.environ.get("COMP_CWORD", "0")))
        return "\n".join(whole[: place + 1]), _ESCAPED.sub(r"\1", done)
    line = os.environ.get("_TYPER_COMPLETE_ARGS", "")
    is_new_word = shell in ("powershell", "pwsh") and not os.environ.get("_TYPER_COMPLETE_WORD_TO_COMPLETE")
    return f"{line} " if is_new_word else line, ""


def _split(line: str) -> list[str]:
    """The words of a line; the last one may be empty or inside a quote."""
    # An extra letter keeps the last word, even if it is empty.
    lexer = shlex.shlex(f"{line}x", posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        words += lexer
    except ValueError:  # an unclosed quote
        words.append(lexer.token)
    return [*words[:-1], words[-1][:-1]]


def _formatted(shell: str, names: Sequence[str], done: str) -> str:
    match shell:
        case "bash":
            lines = [name.removeprefix(done) for name in names]
        case "zsh":
            # Quoted, or zsh would expand the user's global aliases.
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
def _time_limit() -> Generator[None]:
    """Exit the process when the time limit is reached."""
    timer = Timer(TIMEOUT, os._exit, [0])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
