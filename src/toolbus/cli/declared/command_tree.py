"""The commands as typer builds them, made fit to be run by several threads at a time.

The background bus runs every command in a thread of its own, which typer does not expect.
"""

from contextlib import nullcontext
from inspect import signature
from typing import Any

import typer


def command_tree(app: typer.Typer) -> Any:
    """The commands of the app, each of which several threads may run."""
    from typer.main import get_command

    tree = get_command(app)
    _separate(tree)
    return tree


def _separate(command: Any) -> None:
    """Have every run of the command, and of those below it, keep its own values.

    Typer's callback writes them where the next run does, too: a call could be made with the arguments of
    another client. So each run makes a callback.
    """
    from typer.main import get_callback

    for below in getattr(command, "commands", {}).values():
        _separate(below)
    if command.callback is None:
        return
    function = command.callback.__wrapped__
    names = list(signature(function).parameters)
    parameters = {one.name: one for one in command.params if one.name in names}  # not those of typer
    context = next((name for name in names if name not in parameters), None)

    def run(**values: Any) -> Any:
        callback = get_callback(
            callback=function,
            params=list(parameters.values()),
            context_param_name=context,
            pretty_exceptions_short=False,
        )
        assert callback is not None
        return callback(**values)

    command.callback = run


def keep_environment() -> None:
    """Have typer leave the environment alone from now on, in every thread.

    Typer disables pydantic's plugins with a variable that it sets for a moment. Two threads would remove it
    twice, and a server that another thread starts in that moment would inherit it.
    """
    from typer import _adapters  # pyright: ignore[reportPrivateUsage]  # typer has no setting for it

    _adapters.disabled_pydantic_plugins = nullcontext
