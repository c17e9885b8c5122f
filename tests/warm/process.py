"""The process that has made the imports of toolbus and of the test servers. Run by `tests.warm`."""

import gc
import logging
import os
import runpy
import sys
import tempfile
import warnings
from contextlib import suppress
from importlib import import_module
from pkgutil import walk_packages

from tests.patience import PATIENCE
from tests.warm.forking import serve
from toolbus.background import client
from toolbus.core import version
from toolbus.core.text.text import cleaned

IMPORTED = (
    "sqlite3",
    "encodings.utf_8_sig",
    "yaml",
    "dotenv",
    "platformdirs",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
    "anyio._backends._asyncio",
    "mcp.server.mcpserver",
    "typer._adapters",
    "typer._click.decorators",
    "rich._emoji_codes",
    "rich.logging",
    "jsonschema",
    "jsonschema_rs",
    "keyring.backends.SecretService",
    "keyring.backends.macOS",  # it looks for libraries with a compiler
    "pydantic_ai.models.function",
    "pydantic_ai.models.openai",
    "pydantic_ai.providers.openai",
    "openai.resources.chat.completions",
    "openai.resources.responses.responses",
    "genai_prices.data",
)
"""The programs' imports, besides all of toolbus."""

warm_python = ""
"""The program `python` of this process."""


def _prepare() -> None:
    """Do what every program would do first."""
    for module in (*IMPORTED, *_modules()):
        with suppress(ImportError):  # the environment of one adapter has not all of them
            import_module(module)
    tree = import_module("toolbus.cli.app").commands()
    for name in tree.commands:  # they are built now
        tree.loaded(name)
    client.ACCEPTED_WITHIN = PATIENCE  # or a command would report a bus that is slow on a busy machine
    version()
    cleaned("\x00")  # compiles a large pattern
    import_module("tests.servers.everyday").everyday()
    import_module("tests.servers.asking").asking()
    logging.basicConfig(level="WARNING", handlers=[], force=True)  # undo what a server of the SDK sets up
    tempfile.tempdir = None  # every program has its own
    gc.collect()
    gc.freeze()


def _modules() -> list[str]:
    """The modules of toolbus, but for those that would import a framework, or are programs."""
    import toolbus

    found = walk_packages(toolbus.__path__, "toolbus.", onerror=lambda name: None)
    left_out = ("toolbus.adapters.", "toolbus.extension.", "toolbus.__main__")
    return [module.name for module in found if not module.name.startswith(left_out)]


def _serve(address: str) -> None:
    global warm_python
    warm_python = os.path.join(os.path.dirname(address), "bin", "python")
    serve(address, _start)


def _start(words: list[str]) -> None:
    match words:
        case ["forking", address]:
            # Not our child: we would kill it together with its worker, and it has to end its programs.
            if os.fork() == 0:
                _serve(address)
        case ["python", "-m", module, *more]:
            sys.argv = [module, *more]
            sys.modules.pop(module, None)  # runpy warns of what was imported before
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["python", "-W", action, script, *more] if action in ("error", "default"):
            warnings.simplefilter(action)
            _start(["python", script, *more])
        case ["python", "-c", code, *more]:
            sys.argv = ["-c", *more]
            sys.path[0] = ""
            exec(code, {"__name__": "__main__"})
        case ["python", first, *more] if first.startswith("-"):
            os.execv(sys.executable, [sys.executable, first, *more])  # a cold one
        case ["python", script, *more]:
            sys.executable = warm_python  # for what the script starts in its turn
            sys.argv = [script, *more]
            sys.path[0] = os.path.dirname(os.path.abspath(script))
            runpy.run_path(script, run_name="__main__")
        case _:
            from toolbus.cli.entry import main

            if words[1:2] in (["demo"], ["init"]):
                sys.executable = warm_python  # for their servers
            sys.argv = words
            main()


if __name__ == "__main__":
    _prepare()
    _serve(sys.argv[1])
