"""Options that every command takes, before or after its name."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from toolbus.cli.suggested import repeat_config
from toolbus.cli.terminal import client_terminal, working_folder
from toolbus.core.files import named_file, nearest_file

P = ParamSpec("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOptions:
    """The values of the shared options."""

    config: Path | None = None
    json: bool = False
    verbose: int = 0
    no_color: bool = False
    debug: bool = False

    def merged_with(self, outer: "SharedOptions | None") -> "SharedOptions":
        """Return these settings combined with those given before the command's name."""
        if outer is None:
            return self
        return SharedOptions(
            config=self.config or outer.config,
            json=self.json or outer.json,
            verbose=max(self.verbose, outer.verbose),
            no_color=self.no_color or outer.no_color,
            debug=self.debug or outer.debug,
        )


def _shared_options(
    ctx: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="Config file. Default: toolbus.yaml or mcp.json in this folder or a parent, or "
            "toolbus.yaml in your config folder.",
        ),
    ] = None,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON document and nothing else."),
    ] = False,
    verbose: Annotated[
        int,
        typer.Option(
            "-v",
            "--verbose",
            count=True,
            show_default=False,
            metavar="",
            help="Show info logs; -vv for debug.",
        ),
    ] = 0,
    no_color: Annotated[bool, typer.Option("--no-color", help="Disable colored output.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:
    """Never called; `with_settings` adds its parameters to a command."""


def _bus_options(
    no_up: Annotated[
        bool, typer.Option("--no-up", help="Start the servers for this command, even after 'toolbus up'.")
    ] = False,
) -> None:
    """Never called; `with_bus_settings` adds its parameters to a command."""


def with_settings(command: Callable[Concatenate[SharedOptions, P], int | None]) -> Callable[..., int | None]:
    """Adapt a command that takes `SharedOptions` to typer: each setting becomes an option."""
    return _adapted(command, [])


def with_config_settings(
    command: Callable[Concatenate[SharedOptions, P], int | None],
) -> Callable[..., int | None]:
    """The same for a command that cannot do anything without a config."""
    return _adapted(command, [], needs_config=True)


def with_bus_settings(
    command: Callable[Concatenate[SharedOptions, P], int | None],
) -> Callable[..., int | None]:
    """The same for a command that uses the background bus of `toolbus up`, and may be told not to."""
    # `cli/entry.py` has looked at them: a command does not know where it runs.
    return _adapted(command, _parameters(_bus_options), needs_config=True)


def with_group_settings(
    command: Callable[Concatenate[SharedOptions, P], int | None],
) -> Callable[..., int | None]:
    """The same for a group of commands, which is called if none of them is."""
    return _adapted(command, [], is_group=True)


def _adapted(
    command: Callable[Concatenate[SharedOptions, P], int | None],
    unused: list[inspect.Parameter],
    *,
    is_group: bool = False,
    needs_config: bool = False,
) -> Callable[..., int | None]:
    own, shared = _parameters(command)[1:], _parameters(_shared_options)

    @wraps(command)
    def run(**values: Any) -> int | None:
        for parameter in unused:
            values.pop(parameter.name)
        context, *given = (values.pop(parameter.name) for parameter in shared)
        names = [parameter.name for parameter in shared[1:]]
        settings = SharedOptions(**dict(zip(names, given, strict=True))).merged_with(context.obj)
        context.obj = settings
        repeat_config(settings.config)
        if is_group and context.invoked_subcommand is not None:
            _pass_on(own, values, context)
            return None
        if needs_config:
            check_config(settings)
        # No positional arguments: typer passes everything by name.
        return command(settings, **values)  # pyright: ignore[reportCallIssue]

    del run.__wrapped__  # or typer would use the signature without the options
    every = (*own, *unused, *shared)
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in every]
    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def check_config(settings: SharedOptions) -> None:
    """Raise `ConfigError` if there is no config, before slow imports."""
    if settings.config or client_terminal() is not None or named_file() is not None:
        return
    folder = working_folder()
    if nearest_file(folder) is None:
        raise no_config(folder)


def no_config(folder: Path) -> Exception:
    """The error for a folder without a config, which says how to get one."""
    from toolbus.core.values.errors import ConfigError

    return ConfigError(
        f"no config found in {str(folder)!r} or its parents; create one with 'toolbus init', import an "
        "editor's with 'toolbus import', pass one with --config, or try 'toolbus demo'"
    )


def _pass_on(own: list[inspect.Parameter], values: dict[str, Any], context: Any) -> None:
    """Make options of a group that are given before one of its commands options of that command."""
    given = {one.name: values[one.name] for one in own if values[one.name] != one.default}
    name = context.invoked_subcommand
    taken = {parameter.name for parameter in context.command.get_command(context, name).params}
    for unknown in given.keys() - taken:
        raise typer.BadParameter(f"--{unknown.replace('_', '-')} is not an option of {name!r}")
    context.default_map = {name: given}


def _parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    return list(inspect.signature(function, eval_str=True).parameters.values())
