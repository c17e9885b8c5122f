"""The agent of a program, for `toolbus worker MODULE:NAME`."""

import importlib
import inspect
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbus.cli.errors import Usage
from toolbus.cli.terminal import working_folder
from toolbus.core.values.errors import ToolbusError

if TYPE_CHECKING:
    from toolbus.agent import Agent


class ProgramFailed(ToolbusError):
    """The program of a worker raised an error."""

    def __init__(self, target: str, error: Exception) -> None:
        self.target = target
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        super().__init__(
            f"{target}: your program raised {what}{_place(error)}; --debug shows where it came from"
        )


def agent_of_program(target: str) -> "Agent":
    """The agent of `MODULE:NAME`, from this folder or installed."""
    from toolbus.agent import Agent

    found = _found(target)
    if inspect.isfunction(found):
        try:
            found = found()
        except ToolbusError:
            raise  # says all by itself
        except Exception as error:
            raise ProgramFailed(target, error) from error
    if not isinstance(found, Agent):
        raise Usage(
            f"{target}: expected an Agent, or a function that returns one, not {type(found).__name__}"
        )
    if found.durable is None:
        raise Usage(f'{target}: the agent has no durable runs; create it with Agent(..., durable="runs.db")')
    return found


def _found(target: str) -> Any:
    module, _, name = target.partition(":")
    if not module or not name:
        raise Usage(f"expected MODULE:NAME, such as orders:agent, not {target!r}")
    folder = str(working_folder())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        imported = importlib.import_module(module)
    except ToolbusError:
        raise
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise Usage(f"{target}: {error}") from error
        raise ProgramFailed(target, error) from error
    try:
        return getattr(imported, name)
    except AttributeError as error:
        raise Usage(f"{target}: {error}") from error


def _place(error: Exception) -> str:
    """The line of the program, or else of a library, that raised an error."""
    if isinstance(error, SyntaxError):
        return ""  # its text ends with the place
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(working_folder())]
    last = (own or frames)[-1]
    return f" ({last.filename}, line {last.lineno})"
