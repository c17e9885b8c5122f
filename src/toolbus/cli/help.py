"""The help of a command: plain text that fits 80 columns, and the global options only once."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from typer.core import TyperCommand

GLOBAL = "Global options"
"""The section of the options that every command takes; only `toolbus --help` has it."""
TAPES = "Tapes"
"""The section of the options of commands that record and replay."""


class PlainCommand(TyperCommand):
    """A command whose help shows its own options."""

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Write how the command is called."""
        write_usage(self, ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and the options."""
        write_options(self, ctx, formatter)


def write_usage(command: Any, ctx: Any, formatter: Any, commands: str = "", *, is_first: bool = True) -> None:
    """Write the words that call the command, or one of the `commands` of a group."""
    arguments = [_argument(one) for one in command.get_params(ctx) if _is_argument(one)]
    words = ["[OPTIONS]", commands] if commands else ["[OPTIONS]", *arguments]
    formatter.write_usage(ctx.command_path, " ".join(words), None if is_first else " " * len("Usage: "))


def write_commands(commands: Iterable[Any], formatter: Any) -> None:
    """Write a line for each command, by section."""
    listed = list(commands)
    width = max(len(one.name) for one in listed)
    for section, found in groupby(listed, lambda one: one.rich_help_panel):
        with formatter.section(section):
            formatter.write_dl([(one.name.ljust(width), one.help) for one in found])


def write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the arguments and options; the global options only for the program itself."""
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], TAPES: [], GLOBAL: []}
    for one in command.get_params(ctx):
        if _is_argument(one):
            sections["Arguments"].append((_argument(one), _about(one, ctx)))
        elif not one.hidden:
            sections[one.rich_help_panel or "Options"].append((_option(one, ctx), _about(one, ctx)))
    has_global = bool(sections[GLOBAL])
    if ctx.parent is not None:
        del sections[GLOBAL]
    for title, rows in sections.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)
    if has_global and ctx.parent is not None:
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text("Global options, such as --config and --json: toolbus --help")


def _is_argument(parameter: Any) -> bool:
    return parameter.param_type_name == "argument"


def _argument(argument: Any) -> str:
    """The name of an argument, in brackets if it may be left out."""
    name = argument.metavar or argument.name.upper()
    return (name if argument.required else f"[{name}]") + ("..." if argument.nargs != 1 else "")


def _option(option: Any, ctx: Any) -> str:
    """The names of an option, and the placeholder for its value."""
    names = ", ".join(sorted([*option.opts, *option.secondary_opts], key=len))
    if option.is_flag or option.count:
        return names
    is_choice = option.metavar is None and option.type_descriptor.is_choice
    return f"{names} {option.display_type(ctx)[1:-1] if is_choice else option.metavar or option.name.upper()}"


def _about(parameter: Any, ctx: Any) -> str:
    """The help of a parameter, and its default; brackets tell already whether an argument is required."""
    text: str = parameter.get_help_record(ctx)[1]
    return text.removesuffix("  [required]") if _is_argument(parameter) else text
