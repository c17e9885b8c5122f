"""Arguments and options that several commands take: metavar, help text, completion and durations."""

import inspect
import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from toolbus.cli.completion import argument_names, server_names
from toolbus.cli.errors import Usage
from toolbus.cli.help import TAPES
from toolbus.cli.options import TapeMode, TapeOptions

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(rf"(\d+(?:\.\d+)?|\.\d+)\s*([{''.join(_UNITS)}]?)")


def seconds_in(text: str) -> float | None:
    """The seconds in a text such as `90`, `30s`, `5m`, `2h` or `1d`; None if it is not a duration."""
    found = _DURATION.fullmatch(text.strip())
    seconds = float(found[1]) * _UNITS[found[2]] if found else math.inf
    return seconds if math.isfinite(seconds) else None


def duration(text: str | float) -> float:
    """The value of an option that takes a duration, or 0; a `BadParameter` if it is none."""
    seconds = seconds_in(str(text))
    if seconds is None:
        raise typer.BadParameter(f"{str(text)!r} is not a time such as 30s, 5m, 2h or 1d")
    return seconds


def positive_duration(text: str | float) -> float:
    """The same for a duration above 0."""
    seconds = duration(text)
    if not seconds:
        raise typer.BadParameter("expected a time above 0, such as 30s, 5m, 2h or 1d")
    return seconds


Servers = Annotated[
    list[str] | None,
    typer.Argument(metavar="SERVER", help="Servers to include; default: all.", autocompletion=server_names),
]
ServersOrTargets = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SERVER",
        help="Servers to include, or one to use without a config, as for --server; default: all.",
        autocompletion=server_names,
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="TIME",
        parser=positive_duration,
        help="Time limit for the tool, such as 30s.",
    ),
]
Idle = Annotated[
    float | None,
    typer.Option(
        "--idle",
        metavar="TIME",
        parser=positive_duration,
        help="Stop after this time without a command, such as 30m.",
    ),
]
Wait = Annotated[
    float,
    typer.Option(
        "--wait",
        metavar="TIME",
        parser=duration,
        show_default=False,
        help="Wait up to this long for servers that are not ready, such as 30s; default: do not wait.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Save images and other binary data in this folder."),
]
OnInput = Annotated[
    Literal["ask", "suspend"],
    typer.Option(
        "--on-input",
        help="Answer questions of the server or the policy on the terminal, or stop and print the call as "
        "JSON for 'toolbus call --resume'.",
    ),
]
ToolArguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="Tool arguments. Values are converted to the types in the tool's schema. Examples: n=5, "
        "on=true, tags=a,b (or tags=a tags=b), a.b=1 (nested), text=@FILE (from a file). Use - to read a "
        "JSON object from stdin.",
        autocompletion=argument_names,
    ),
]
Args = Annotated[str | None, typer.Option("--args", metavar="JSON", help="Arguments as a JSON object.")]
ArgsFile = Annotated[
    Path | None, typer.Option("--args-file", metavar="FILE", help="File that contains the JSON object.")
]
FormValues = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="Values for the form; without them, you are asked on the terminal.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="A model such as openai:gpt-5.1, or the URL of an OpenAI-compatible server such as "
        "http://localhost:11434/v1#qwen3. Default: $TOOLBUS_MODEL, or the first available, from a provider "
        "whose API key is set or a local server.",
    ),
]
Accept = Annotated[
    bool, typer.Option("--accept", help="Accept the URL, or submit the form with its defaults.")
]
Decline = Annotated[bool, typer.Option("--decline", help="Decline the request.")]
Cancel = Annotated[bool, typer.Option("--cancel", help="Cancel without answering.")]
LogFormatOption = Annotated[
    Literal["text", "json"] | None,
    typer.Option(
        "--log-format",
        metavar="FORMAT",
        help="Log as text, or as one JSON object per line (json); default: $TOOLBUS_LOG_FORMAT, or text.",
    ),
]
WriteUnasked = Annotated[bool, typer.Option("--yes", "-y", help="Write the file without asking.")]


def tape_options(
    record: Annotated[
        Path | None,
        typer.Option(
            "--record",
            metavar="FILE",
            rich_help_panel=TAPES,
            help="Record what servers receive, send and offer.",
        ),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(
            "--replay",
            metavar="FILE",
            rich_help_panel=TAPES,
            help="Repeat a tape instead of starting servers; needs no config.",
        ),
    ] = None,
    tape_mode: Annotated[
        TapeMode | None,
        typer.Option(
            "--tape-mode",
            rich_help_panel=TAPES,
            help="Choose which calls to record: all if there is no tape (once), all again (all), "
            "those that the tape lacks (new_episodes), or none (none).",
        ),
    ] = None,
    match_ignore: Annotated[
        list[str] | None,
        typer.Option(
            "--match-ignore",
            metavar="PATH",
            rich_help_panel=TAPES,
            help="Do not compare this argument with the tape, such as filter.since; repeatable.",
        ),
    ] = None,
    match_pattern: Annotated[
        list[str] | None,
        typer.Option(
            "--match-pattern",
            metavar="PATH=GLOB",
            rich_help_panel=TAPES,
            help="Treat all values of this argument that match as the same; repeatable.",
        ),
    ] = None,
    match_order: Annotated[
        bool,
        typer.Option("--match-order", rich_help_panel=TAPES, help="Require the calls in the recorded order."),
    ] = False,
) -> None:
    """Never called; its parameters are added to a command that can use a tape."""


_TAPE_NAMES = tuple(inspect.signature(tape_options).parameters)


def tape_of(values: dict[str, Any]) -> TapeOptions | None:
    """The tape of a command, taken out of the values; None if there is none."""
    if _TAPE_NAMES[0] not in values:
        return None
    given = {name: values.pop(name) for name in _TAPE_NAMES}
    if given["record"] is not None or given["replay"] is not None:
        return TapeOptions(
            record=given["record"],
            replay=given["replay"],
            mode=given["tape_mode"],
            ignore=tuple(given["match_ignore"] or ()),
            patterns=tuple(given["match_pattern"] or ()),
            in_order=given["match_order"],
        )
    for name, value in given.items():
        if value:
            option = name.replace("_", "-")
            raise Usage(f"--{option} is for a tape; name it with --record or --replay")
    return None
