"""`toolbus chat`: chat with a model that can use the servers' tools."""

import os
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from toolbus.cli.command import Invocation, bus_command
from toolbus.cli.errors import Usage
from toolbus.cli.input.arguments import check_out_folder
from toolbus.cli.options import SharedOptions
from toolbus.cli.parameters import Model


@partial(bus_command, tapes=True)
def chat(
    own: Invocation,
    prompt: Annotated[
        str | None,
        typer.Argument(metavar="PROMPT", help="Answer this prompt and exit; piped text is appended."),
    ] = None,
    model: Model = None,
    approve: Annotated[
        Literal["never", "writes", "ask"],
        typer.Option(
            "--approve",
            help="Never ask, ask before all but read-only tools of servers with trust_annotations: true, "
            "or ask before every call. Without a terminal, and with --json, calls that need approval are "
            "not run.",
        ),
    ] = "writes",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Save images here; default: a temporary folder."),
    ] = None,
) -> int:
    """Chat with a model that can use your servers' tools.

    Starts a dialog on a terminal; with PROMPT or piped text, prints one answer. The model's text goes to
    stdout; if stdout is not a terminal, only the final answer. Requires pip install "toolbus[agent]".

    With --json, prints one document per event, each on its own line: text, thinking, tool_called,
    tool_progressed, tool_returned, approval_asked. The last one is result, with text, usage and calls.
    """
    check_out_folder(out)
    if prompt is None and own.settings.json and _is_terminal():
        raise Usage("--json needs a prompt; pass one, or pipe it in")
    screen, config = own.screen, own.config
    own.selected()  # raises if there is none
    whole = _full_prompt(prompt)
    _silence_libraries(own.settings)
    with screen.spinner("loading the agent"):
        from toolbus.cli.chat.models import choose_model
        from toolbus.cli.chat.run import run_chat
    with screen.spinner("looking for a model"):
        choice = choose_model(config, model)
    return run_chat(screen, config, choice, whole, approve, out)


def _silence_libraries(settings: SharedOptions) -> None:
    """Hide messages that libraries address to programmers."""
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")
    if not (settings.verbose or settings.debug):
        warnings.simplefilter("ignore")


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _full_prompt(prompt: str | None) -> str | None:
    """The prompt followed by piped text; None for a dialog."""
    if _is_terminal():
        if prompt is not None and not prompt.strip():
            raise Usage("the prompt is empty; write one")
        return prompt
    try:
        piped = "" if sys.stdin is None else sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise Usage("the piped text is not UTF-8; convert it") from None
    whole = "\n\n".join(part.strip("\r\n") for part in (prompt or "", piped) if part.strip())
    if not whole:
        raise Usage("no prompt; pass one, pipe text in, or run it on a terminal")
    return whole
