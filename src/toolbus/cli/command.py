"""A command: how a function becomes one, one run of it, and its result.

A function declares its parameters as typer reads them; `command` and its variants add the shared options. It
gets an `Invocation`, and returns a `CommandResult` or an exit code.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from functools import cached_property, partial, wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

import typer
from typer.core import TyperGroup

from toolbus.cli.completion import profile_names
from toolbus.cli.help import GLOBAL, PlainCommand, write_commands, write_options, write_usage
from toolbus.cli.options import (
    SharedOptions,
    TargetOptions,
    check_config,
    repeat_config,
)
from toolbus.cli.parameters import tape_of, tape_options
from toolbus.cli.target_words import TAKING_TARGETS, is_target, without_command
from toolbus.cli.terminal import run_until_signal
from toolbus.schema.values import JSON

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus
    from toolbus.cli.output.screen import Screen
    from toolbus.config import BusConfig
    from toolbus.core.ask.interactions import Interactions
    from toolbus.core.operation.events import Event


_TAKEN = ("import", "list")
"""Names that a function cannot have, or should not."""
NO_COMMANDS: Mapping[str, tuple[str, str]] = {}


class CommandResult(NamedTuple):
    """The result of a command, and how it is printed."""

    document: JSON | Callable[[], JSON]
    """The document of `--json`, or a function that makes it."""
    lines: Callable[[], object] | str
    """The line for a person, or a function that prints the lines."""
    code: int = 0


class Invocation:
    """One run of a command: its settings, its screen and its config."""

    def __init__(self, settings: SharedOptions) -> None:
        self.settings = settings

    @cached_property
    def screen(self) -> "Screen":
        """Stdout and stderr of the command."""
        from toolbus.cli.output.screen import Screen

        return Screen(self.settings)

    @cached_property
    def config(self) -> "BusConfig":
        """The config, after the user has trusted it; or one of the targets."""
        from toolbus.cli.session import load_trusted_config

        _ = self.screen  # it shows the log of what follows
        if self.settings.tape is not None:
            return _late("input.tapes").taped_config(self, self.settings.tape)
        if self.settings.target is not None:
            return _late("targets").target_config(self, self.settings.target)
        return load_trusted_config(self.settings)

    @cached_property
    def untrusted_config(self) -> "BusConfig":
        """The same config without asking for trust: to show it, not to use it."""
        from toolbus.cli.session import load_untrusted_config

        _ = self.screen
        return load_untrusted_config(self.settings)

    def selected(self, servers: Iterable[str] | None = None) -> list[str]:
        """The named servers, by default all; `ServerNotFound` for an unknown one."""
        from toolbus.cli.session import selected_servers

        return selected_servers(self.config, servers or ())

    def bus(
        self,
        servers: Collection[str],
        on_event: "Callable[[Event], None] | None" = None,
        *,
        asks: bool = False,
        wait: float = 0,
    ) -> "AbstractAsyncContextManager[Toolbus]":
        """A bus with these servers, as `open_bus` has it; with `asks`, the user may be asked."""
        from toolbus.cli.session import UNATTENDED, open_bus

        interactions = self.interactions() if asks else UNATTENDED
        return open_bus(self.screen, self.config, servers, on_event, interactions, wait)

    def interactions(self) -> "Interactions":
        """Interactions that ask on the terminal, if there is one."""
        from toolbus.cli.input.elicitation import terminal_interactions

        return terminal_interactions(self.screen)


def command(work: Callable[..., Any], *, cls: type[PlainCommand] = PlainCommand) -> Callable[..., int | None]:
    """Adapt a function that takes an `Invocation` to typer: each shared setting becomes an option."""
    return _adapted(work, cls=cls)


def config_command(work: Callable[..., Any]) -> Callable[..., int | None]:
    """The same for a command that cannot do anything without a config."""
    return _adapted(work, needs_config=True)


def target_command(work: Callable[..., Any], *, tapes: bool = True) -> Callable[..., int | None]:
    """The same for a command that also works with servers that no config has; with `tapes`, of a tape."""
    unused = [*_parameters(_target_options), *(_parameters(tape_options) if tapes else [])]
    return _adapted(work, unused, cls=TargetCommand, needs_config=True)


def bus_command(
    work: Callable[..., Any], *, imports: bool = False, tapes: bool = False
) -> Callable[..., int | None]:
    """The same for one that uses the background bus of `toolbus up`, and may be told not to.

    With `imports`, it offers the servers of editors if there is no config; with `tapes`, it can record and
    replay a tape.
    """
    # `cli/entry.py` has looked at the option: a command does not know where it runs.
    unused = _unused(tapes)
    return _adapted(work, unused, cls=TargetCommand, needs_config=True, imports=imports)


def bus_group(work: Callable[..., Any]) -> Callable[..., int | None]:
    """The same for such a command that has commands below it; it can record and replay a tape."""
    run = _adapted(work, _unused(tapes=True), cls=TargetCommand, needs_config=True, runs_alone=True)
    vars(run).update(group_class=TargetGroup)
    return run


def _unused(tapes: bool) -> list[inspect.Parameter]:
    """The options of a command on a bus, which its function does not take."""
    own = [*_parameters(_target_options), *_parameters(_bus_options)]
    return [*own, *(_parameters(tape_options) if tapes else [])]


def group(
    work: Callable[..., Any],
    *,
    runs_alone: bool = False,
    needs_config: bool = False,
    cls: "type[LazyGroup] | None" = None,
) -> Callable[..., int | None]:
    """The same for a group of commands; with `runs_alone`, it is called if none of them is."""
    run = _adapted(work, runs_alone=runs_alone, needs_config=needs_config)
    vars(run).update(group_class=cls or LazyGroup)
    return run


def root_group(work: Callable[..., Any]) -> Callable[..., int | None]:
    """The same for the program itself, which takes the options of every command."""
    return _adapted(work, _parameters(_bus_options))


def _shared_options(
    ctx: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            rich_help_panel=GLOBAL,
            help="Config file. Default: toolbus.yaml or mcp.json in this folder or a parent, or "
            "toolbus.yaml in your config folder.",
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="NAME",
            rich_help_panel=GLOBAL,
            help="Use only the servers and tools of a profile in the config.",
            autocompletion=profile_names,
        ),
    ] = None,
    json: Annotated[
        bool,
        typer.Option("--json", rich_help_panel=GLOBAL, help="Print one JSON document and nothing else."),
    ] = False,
    verbose: Annotated[
        int,
        typer.Option(
            "-v",
            "--verbose",
            count=True,
            show_default=False,
            metavar="",
            rich_help_panel=GLOBAL,
            help="Show info logs; -vv for debug.",
        ),
    ] = 0,
    no_color: Annotated[
        bool, typer.Option("--no-color", rich_help_panel=GLOBAL, help="Disable colored output.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", rich_help_panel=GLOBAL, help="Show a traceback on errors.")
    ] = False,
) -> None:
    """Never called; its parameters are added to every command."""


def _bus_options(
    no_up: Annotated[
        bool,
        typer.Option(
            "--no-up",
            rich_help_panel=GLOBAL,
            help="Start the servers for this command, even after 'toolbus up'.",
        ),
    ] = False,
) -> None:
    """Never called; `bus_command` adds its parameters to a command."""


def _target_options(
    server: Annotated[
        list[str] | None,
        typer.Option(
            "--server",
            metavar="TARGET",
            help="Use this server, and no config: a URL, server.json, .mcpb or Python file, or "
            "registry:NAME; repeatable. To use a command, leave out --server and end with: -- COMMAND",
        ),
    ] = None,
    save: Annotated[
        str | None, typer.Option("--save", metavar="NAME", help="Keep that server in the config.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="KEY=VALUE", help="HTTP header for that server; repeatable."),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="KEY=VALUE", help="Environment variable for that server; repeatable."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Start what a file or registry names without asking.")
    ] = False,
) -> None:
    """Never called; its parameters are added to a command that takes targets."""


_TARGET_NAMES = tuple(inspect.signature(_target_options).parameters)
_COMMAND = "toolbus.command"
"""The key for the command of a server in a context, which came after `--`."""


class TargetCommand(PlainCommand):
    """A command whose line may end with the command of a server, after `--`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words before the command, unless an argument is missing there."""
        before, command = without_command(args) if "--" in args else (args, ())
        if command and not ctx.resilient_parsing and self._has_arguments(ctx, list(before)):
            ctx.meta[_COMMAND] = tuple(command)
            args = list(before)
        return super().parse_args(ctx, args)

    def _has_arguments(self, ctx: Any, words: list[str]) -> bool:
        """Whether the words have every argument that is required."""
        required = [one for one in self.params if one.required and one.param_type_name == "argument"]
        if not required:
            return True
        found, _, _ = self.make_parser(ctx).parse_args(words)
        return all(found.get(one.name) for one in required)


def _target(values: dict[str, Any], context: Any) -> TargetOptions | None:
    """The servers to use instead of the config, taken out of the values; None if there is none."""
    given = {name: values.pop(name) for name in _TARGET_NAMES}
    named: list[str] = []
    if context.command.name in TAKING_TARGETS:
        words: list[str] = values["servers"] or []
        named = list(filter(is_target, words))
        values["servers"] = [word for word in words if word not in named] or None
    options = TargetOptions(
        servers=(*(given["server"] or ()), *named),
        command=context.meta.get(_COMMAND, ()),
        save=given["save"],
        headers=tuple(given["header"] or ()),
        env=tuple(given["env"] or ()),
        yes=given["yes"],
    )
    if options.servers or options.command:
        return options
    for name in ("save", "header", "env", "yes"):
        if given[name]:
            from toolbus.cli.errors import Usage

            raise Usage(f"--{name} is for a server that no config has; name it with --server, or after --")
    return None


def _adapted(
    work: Callable[..., Any],
    unused: Iterable[inspect.Parameter] = (),
    *,
    cls: type[PlainCommand] = PlainCommand,
    needs_config: bool = False,
    imports: bool = False,
    runs_alone: bool = False,
) -> Callable[..., int | None]:
    parameters, shared = _parameters(work)[1:], _parameters(_shared_options)

    @wraps(work)
    def run(**values: Any) -> int | None:
        context = values.pop("ctx")
        target = _target(values, context) if cls is TargetCommand else None
        tape = tape_of(values) if cls is TargetCommand else None
        for parameter in unused:
            values.pop(parameter.name, None)
        given = {parameter.name: values.pop(parameter.name) for parameter in shared[1:]}
        settings = replace(SharedOptions(**given).merged_with(context.obj), target=target, tape=tape)
        context.obj = settings
        repeat_config(settings.config)
        if runs_alone and context.invoked_subcommand is not None:
            _pass_on(parameters, values, context)
            return None
        own = Invocation(settings)
        has_servers = tape is not None and tape.replay is not None
        if needs_config and not has_servers and not values.get("registry"):  # a search there needs none
            names = values["servers"] if context.command.name in TAKING_TARGETS else None
            _require_config(own, imports=imports, server=(names or [""])[0])
        if (spelling := getattr(context.command, "new_spelling", "")) and not settings.json:
            own.screen.note(f"'{context.command_path}' is now 'toolbus {spelling}'")
        if target is not None:
            _ = own.config  # outside of the event loop: a registry may have to be asked
        with nullcontext() if tape is None else _late("input.tapes").taped(own):
            return _shown(own, work, values)

    del run.__wrapped__  # or typer would use the signature without the options
    every = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*parameters, *shared, *unused)]
    vars(run).update(__signature__=inspect.Signature(every), command_class=cls, runs_alone=runs_alone)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
    return run


def _require_config(own: Invocation, *, imports: bool, server: str) -> None:
    """Raise `ConfigError` if there is no config, unless the user takes over the servers of editors."""
    try:
        check_config(own.settings, server)
    except Exception:
        is_name = not set(server) & set(":./")  # an editor may have a server of that name
        if not is_name or not imports or not _has_editors():
            raise
        _late("commands.config.import_").offer_import(own)


def _has_editors() -> bool:
    """Whether there is a config of an editor; looks before the command that reads them is imported."""
    from toolbus.config.hosts.editors import files_here

    return bool(files_here())


def _late(module: str) -> Any:
    """A module that needs this one, imported when it is used."""
    return import_module(f"toolbus.cli.{module}")


def _shown(own: Invocation, work: Callable[..., Any], values: Mapping[str, Any]) -> int | None:
    """Run the command, and print its result for a person or as JSON; return the exit code."""
    result: Any = work(own, **values)
    if inspect.iscoroutine(result):
        result = run_until_signal(result)
    if not isinstance(result, CommandResult):
        return result
    own.screen.show(result.document, result.lines)
    return result.code


def _pass_on(own: list[inspect.Parameter], values: dict[str, Any], context: Any) -> None:
    """Make options of a group that are given before one of its commands options of that command."""
    given = {one.name: values[one.name] for one in own if values[one.name] != one.default}
    name = context.invoked_subcommand
    taken = {parameter.name for parameter in context.command.loaded(name).params}
    for unknown in given.keys() - taken:
        raise typer.BadParameter(f"--{unknown.replace('_', '-')} is not an option of {name!r}")
    context.default_map = {name: given}


def _parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    return list(inspect.signature(function, eval_str=True).parameters.values())


Table: TypeAlias = Mapping[str, tuple[str, str, str]]
"""The module, the line of help and the section of each command."""


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they run; until then, a line of help stands for each."""

    def list_below(
        self, table: Table, path: str = "", hidden: Mapping[str, tuple[str, str]] = NO_COMMANDS
    ) -> None:
        """Take the commands of the table that are directly below this path.

        Each has a module, with a function of the command's name. `hidden` commands are not listed; each has
        a module and its new spelling.
        """
        self._table, self._path, self._hidden = table, path, hidden
        self._loaded: dict[str, Any] = {}
        for words, (_, line, section) in table.items():
            above, _, name = words.rpartition(" ")
            if above == path:
                self.commands[name] = PlainCommand(
                    name, help=line, rich_help_panel="Commands" if path else section
                )

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, even if it is not listed."""
        return self.loaded(cmd_name) if cmd_name in self._hidden else super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The real command of that name."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, None if name is None or found is None else self.loaded(name), rest

    def loaded(self, name: str) -> Any:
        """The command, which is imported and built once."""
        if name not in self._loaded:
            words = f"{self._path} {name}".strip()
            module, spelling = self._hidden.get(name) or (self._table[words][0], "")
            self._loaded[name] = _built(module, words, self._table)
            self._loaded[name].new_spelling = spelling
        return self._loaded[name]

    # A group that runs alone may have arguments of its own, which its commands do not take.

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words for a command, or else as arguments of the group itself."""
        has_own = any(one.param_type_name == "argument" for one in self.params)
        ctx.allow_interspersed_args = has_own and _first_word(self.params, args) not in self.commands
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        """The options, and the arguments if no command is called."""
        is_own = ctx.command is self and ctx.allow_interspersed_args
        params = super().get_params(ctx)
        return [one for one in params if is_own or one.param_type_name == "option"]

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Write how the group is called, and how its commands are."""
        if self.invoke_without_command:
            write_usage(self, ctx, formatter)
        write_usage(self, ctx, formatter, "COMMAND [ARGS]...", is_first=not self.invoke_without_command)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands and the options."""
        write_commands(self.commands.values(), formatter)
        write_options(self, ctx, formatter)


class TargetGroup(LazyGroup):
    """A group that runs alone, whose line may then end with the command of a server, after `--`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words before the command."""
        before, command = without_command(args) if "--" in args else (args, ())
        if command and not ctx.resilient_parsing and _first_word(self.params, before) not in self.commands:
            ctx.meta[_COMMAND] = tuple(command)
            args = list(before)
        return super().parse_args(ctx, args)


def _first_word(params: Iterable[Any], args: Iterable[str]) -> str | None:
    """The first of these words that is neither an option nor the value of one."""
    options = [one for one in params if one.param_type_name == "option"]
    with_value = {name for one in options if not (one.is_flag or one.count) for name in one.opts}
    words = iter(args)
    for word in words:
        if word in with_value:
            next(words, None)
        elif word == "--":
            return None
        elif not word.startswith("-"):
            return word
    return None


def _built(module: str, words: str, table: Table) -> Any:
    from typer.main import get_command

    name = words.rpartition(" ")[2]
    found: Any = import_module(f"toolbus.cli.commands.{module}")
    function = getattr(found, f"{name}_" if name in _TAKEN else name)
    is_group = any(other.startswith(f"{words} ") for other in table)
    plain: Any = {"add_completion": False, "rich_markup_mode": None}
    if is_group:
        names = {"help_option_names": ["-h", "--help"]}
        app = typer.Typer(name=name, cls=function.group_class, context_settings=names, **plain)
        app.callback(invoke_without_command=function.runs_alone)(function)
    else:
        app = typer.Typer(**plain)
        app.command(name, cls=function.command_class)(function)
    built: Any = get_command(app)
    _separate(built)
    if is_group:
        built.list_below(table, words)
    return built


def command_tree(app: typer.Typer) -> Any:
    """The commands of the app, each of which several threads may run.

    The background bus runs every command in a thread of its own, which typer does not expect.
    """
    from typer.main import get_command

    tree = get_command(app)
    _separate(tree)
    return tree


def _separate(built: Any) -> None:
    """Have every run of the command keep its own values.

    Typer's callback writes them to a place that all runs share, so a call could be made with the arguments of
    another client. So each run makes a callback.
    """
    function = built.callback.__wrapped__
    names = list(inspect.signature(function).parameters)
    parameters = {one.name: one for one in built.params if one.name in names}  # not those of typer
    context = next((name for name in names if name not in parameters), None)
    built.callback = partial(_run_separately, function, list(parameters.values()), context)


def _run_separately(
    function: Callable[..., Any], params: list[Any], context: str | None, **values: Any
) -> Any:
    from typer.main import get_callback

    callback = get_callback(
        callback=function, params=params, context_param_name=context, pretty_exceptions_short=False
    )
    assert callback is not None
    return callback(**values)


def keep_environment() -> None:
    """Have typer leave the environment alone from now on, in every thread.

    Typer disables pydantic's plugins with a variable that it sets for a moment. Two threads would remove it
    twice, and a server that another thread starts in that moment would inherit it.
    """
    from typer import _adapters  # pyright: ignore[reportPrivateUsage]  # typer has no setting for it

    _adapters.disabled_pydantic_plugins = nullcontext
