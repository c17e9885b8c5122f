"""The options that every command takes, before its name or after it."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

P = ParamSpec("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What was asked of all commands alike."""

    config: Path | None = None
    json: bool = False
    verbose: int = 0
    no_color: bool = False
    debug: bool = False

    def over(self, before: "Settings | None") -> "Settings":
        """These settings, and those given before the name of the command."""
        if before is None:
            return self
        return Settings(
            config=self.config or before.config,
            json=self.json or before.json,
            verbose=max(self.verbose, before.verbose),
            no_color=self.no_color or before.no_color,
            debug=self.debug or before.debug,
        )


def _shared(
    ctx: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Config file to use."),
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
    """Never called: its signature is what `with_settings` adds to a command."""


def with_settings(command: Callable[Concatenate[Settings, P], int | None]) -> Callable[..., int | None]:
    """A command that takes `Settings` first, as typer wants it: with each of them as an option."""
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    shared = list(inspect.signature(_shared, eval_str=True).parameters.values())

    @wraps(command)
    def run(**values: Any) -> int | None:
        context, *given = (values.pop(parameter.name) for parameter in shared)
        names = [parameter.name for parameter in shared[1:]]
        settings = Settings(**dict(zip(names, given, strict=True))).over(context.obj)
        context.obj = settings
        # No positional arguments: typer passes everything by name.
        return command(settings, **values)  # pyright: ignore[reportCallIssue]

    del run.__wrapped__  # typer would look through to the signature without the options
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*own, *shared)]
    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
