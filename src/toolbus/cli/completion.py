"""Tab completion for bash, zsh, fish and PowerShell.

Candidates are servers from the config, and everything else from the listing cache. No server is started,
nothing is asked, and no reference is resolved. zsh evaluates what completion prints, and bash inserts it
unquoted. Names come from servers, the cache and the folder's config, so all of them pass one filter just
before they are printed. Nothing else is printed: no descriptions, no errors.
"""

import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from threading import Timer
from typing import Any

import typer

from toolbus.cli.listing_cache import MAX_BYTES, offers, origins

SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@+%-]{0,199}=?")
"""Only characters without special meaning in bash, zsh, fish or PowerShell; `=` only at the end."""
OPTION = re.compile(r"--?[a-z][a-z-]*")
TIMEOUT = 10.0
"""Time limit in seconds, because a small malicious YAML file can take hours to parse."""

_WORD_BREAK = re.compile("[=:@]+")
_ESCAPED = re.compile(r"\\(.)")


def complete(shell: str, commands: Any) -> int:
    """Print the completions at the cursor."""
    names: list[str] = []
    done = ""
    # Ignore all errors: the user is in the middle of a line.
    anything = suppress(Exception, SystemExit, KeyboardInterrupt)
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()), anything:
        line, done = _command_line(shell)
        words = _split(line)
        for word in [word for word in words[1:-1] if commands.get_command(None, word)][:1]:
            commands.loaded(word)  # imported before the clock runs: a busy machine takes long for it
        with _time_limit():
            names = _names(commands, words)
    if shell == "fish" and os.environ.get("_TYPER_COMPLETE_FISH_ACTION") == "is-args":
        return 0 if names else 1
    sys.stdout.write(_formatted(shell, names, done))
    sys.stdout.flush()
    return 0


def _names(commands: Any, words: Sequence[str]) -> list[str]:
    """All safe completions; every name passes through here."""
    # click's documented API for custom shells; typer vendors click.
    from typer.completion import shell_completion  # pyright: ignore[reportPrivateImportUsage]

    *before, typed = words
    kind = shell_completion.get_completion_class("bash")
    assert kind is not None
    items = kind(commands, {}, "toolbus", "_TOOLBUS_COMPLETE").get_completions(before[1:], typed)
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

    bash splits words at `=`, `:` and `@`, which are common in arguments and URIs. It expects only the part of
    a name after the last split.
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


# The candidates


def tool_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Tool names with this prefix; none for a call that is resumed."""
    if ctx.params.get("resume"):
        return []
    return [
        name
        for tools in offers(_config_path(ctx), "tools").values()
        for name in tools
        if name.startswith(incomplete)
    ]


def tool_origins(ctx: typer.Context, incomplete: str) -> list[str]:
    """Servers, and their tools as `server/tool`."""
    listed = origins(_config_path(ctx))
    tools = [f"{alias}/{tool}" for alias, names in listed.items() for tool in names]
    return [*server_names(ctx, incomplete), *(name for name in tools if name.startswith(incomplete))]


def policy_targets(ctx: typer.Context, incomplete: str) -> list[str]:
    """The targets of a policy: tools, or with an option `server/uri`, `server/prompt` and requests."""
    from toolbus.config.settings.policy import REQUESTS

    path = _config_path(ctx)
    if ctx.params.get("resource"):
        names = [f"{alias}/{uri}" for alias, own in offers(path, "uris").items() for uri in own]
    elif ctx.params.get("prompt"):
        names = [f"{alias}/{name}" for alias, own in offers(path, "prompts").items() for name in own]
    elif ctx.params.get("request"):
        names = [f"{alias}/{request}" for alias in server_names(ctx, "") for request in REQUESTS]
    elif ctx.params.get("forget") or "/" in incomplete:
        return tool_origins(ctx, incomplete)
    else:
        return tool_names(ctx, incomplete)
    return [name for name in names if name.startswith(incomplete)]


def argument_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Arguments of the tool on the command line that are not given yet."""
    name = ctx.params.get("name") or ""
    tools = offers(_config_path(ctx), "tools").values()
    known = [own[name] for own in tools if name in own]
    return _remaining(known[:1], ctx.params.get("pairs") or (), incomplete)


def server_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Enabled servers in the config with this prefix."""
    return _matching_servers(ctx, incomplete, include_disabled=False)


def lock_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """Servers, and first the commands of `toolbus lock`."""
    commands: Any = [] if ctx.params.get("servers") else vars(ctx.command)["commands"]
    return [*(name for name in commands if name.startswith(incomplete)), *server_names(ctx, incomplete)]


def all_server_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """All servers in the config with this prefix, including disabled ones."""
    return _matching_servers(ctx, incomplete, include_disabled=True)


def _matching_servers(ctx: typer.Context, incomplete: str, *, include_disabled: bool) -> list[str]:
    from toolbus.config.hosts.dialects import container
    from toolbus.config.hosts.entry import is_switched_off
    from toolbus.config.hosts.read import read_document
    from toolbus.config.location import Location
    from toolbus.core.values.errors import ConfigError

    file = Path(_config_path(ctx) or "")
    place = Location(file=str(file))
    try:
        if file.stat().st_size > MAX_BYTES:
            return []
        entries = container(read_document(file), place).entries
        return [
            alias
            for alias, entry in entries.items()
            if alias.startswith(incomplete) and (include_disabled or not is_switched_off(entry, place))
        ]
    except (OSError, ConfigError):
        return []


def prompt_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Servers, and prompts as `server/name`, or else by name."""
    found = [(alias, name) for alias, own in offers(_config_path(ctx), "prompts").items() for name in own]
    full = [f"{alias}/{name}" for alias, name in found]
    return [
        *server_names(ctx, incomplete),
        *(
            [name for name in full if name.startswith(incomplete)]
            or [name for _, name in found if name.startswith(incomplete)]
        ),
    ]


def prompt_arguments(ctx: typer.Context, incomplete: str) -> list[str]:
    """Arguments of the prompt on the command line that are not given yet."""
    name: str = ctx.params.get("name") or ""
    known = [
        arguments
        for alias, prompts in offers(_config_path(ctx), "prompts").items()
        for own, arguments in prompts.items()
        if name in (own, f"{alias}/{own}")
    ]
    return _remaining(known, ctx.params.get("pairs") or (), incomplete)


def read_arguments(ctx: typer.Context, incomplete: str) -> list[str]:
    """Servers, their URIs, and the variables of a template."""
    listed = offers(_config_path(ctx), "uris")
    first: str | None = ctx.params.get("first")
    given: list[str] = [*([first] if first else []), *(ctx.params.get("pairs") or ())]
    is_named = bool(given) and given[0] in listed
    if is_named:
        listed, given = {given[0]: listed[given[0]]}, given[1:]
    if given:
        return _remaining(
            [uris[given[0]] for uris in listed.values() if given[0] in uris], given[1:], incomplete
        )
    # Without a server, offer only URIs that a single server has.
    counts = Counter(uri for own in listed.values() for uri in own)
    uris = [uri for uri, count in counts.items() if uri.startswith(incomplete) and count == 1]
    return ([] if is_named else server_names(ctx, incomplete)) + uris


def profile_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """The profiles of the config."""
    from toolbus.config import usable_config
    from toolbus.core.values.errors import ConfigError

    try:
        path = _config_path(ctx)
        known = () if path is None else usable_config(path).profiles
    except ConfigError:
        return []
    return [name for name in known if name.startswith(incomplete)]


def editor_names(incomplete: str) -> list[str]:
    """Editors whose config can be imported."""
    from toolbus.config.hosts.editors import EDITORS

    return [name for name in EDITORS if name.startswith(incomplete)]


def _remaining(known: Sequence[Sequence[str]], pairs: Sequence[str], incomplete: str) -> list[str]:
    """Arguments with this prefix that are not given yet; none if the name is ambiguous."""
    given = {word.partition("=")[0] for word in pairs}
    arguments = known[0] if len(known) == 1 else ()
    return [f"{name}=" for name in arguments if name.startswith(incomplete) and name not in given]


def _config_path(ctx: typer.Context) -> str | None:
    """The config that the command line refers to."""
    place: Any = ctx
    while place is not None:
        if named := place.params.get("config"):
            return str(named)
        place = place.parent
    from toolbus.config import find_config
    from toolbus.core.values.errors import ConfigError

    try:
        return str(find_config())
    except ConfigError:
        return None
