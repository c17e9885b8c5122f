"""`python -P -m toolbus.connect.python_file FILE [NAME]`: serve the server object of a Python file on stdio.

A process of its own, so that a crash or the prints of that file do no harm. Every mistake becomes one line.
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from inspect import currentframe, signature
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio

MODULE = "served_by_toolbus"
"""The name under which the file is imported, so that its `if __name__ == "__main__"` is not run."""
_ANYIO_RUN = anyio.run


def main() -> None:
    """Import the file, and serve until stdin ends."""
    file, *named = sys.argv[1:]
    path = Path(file)
    with _streams_apart():
        module = _imported(path)
    server = _chosen(path, _servers(module), named[0] if named else None, module)
    anyio.run(_serve, server)


@contextmanager
def _streams_apart() -> Generator[None]:
    """Keep the file from reading the messages while it is imported, and from printing among them."""
    sys.stdout.flush()
    stdin, stdout, nothing = os.dup(0), os.dup(1), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        for copy in (stdin, stdout, nothing):
            os.close(copy)


class _RunCall(BaseException):
    """The file has called `run()` of a server, which would not return."""


def _run_outside_of_servers(*args: Any, **options: Any) -> Any:
    """`anyio.run` while the file is imported: the `run()` of servers ends there."""
    frame = currentframe()
    caller = None if frame is None else frame.f_back
    if caller is not None and _is_server(caller.f_locals.get("self")):
        raise _RunCall
    return _ANYIO_RUN(*args, **options)


def _imported(path: Path) -> ModuleType:
    """The module, found and imported as `python FILE` does it; SystemExit with one line if that fails."""
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path)]
    spec = spec_from_file_location(MODULE, path)
    assert spec is not None
    assert spec.loader is not None, "its name ends with .py"
    module = module_from_spec(spec)
    sys.modules[MODULE] = module
    anyio.run = _run_outside_of_servers
    try:
        spec.loader.exec_module(module)
    except _RunCall:
        step = "put that under `if __name__ == '__main__':`"
        raise SystemExit(f"{path.name} calls run() while it is imported; {step}") from None
    except SyntaxError as error:
        where = f"{Path(error.filename or path).name}, line {error.lineno}"
        raise SystemExit(f"{where}: {error.msg}") from None
    except ModuleNotFoundError as error:
        step = f"install it there, or use another Python: -- PYTHON {path.name}"
        raise SystemExit(f"{path.name} needs {error.name}, which {sys.executable} lacks; {step}") from None
    except SystemExit as error:
        code, said = (1, f": {error.code}") if isinstance(error.code, str) else (error.code or 0, "")
        raise SystemExit(f"{path.name} exited with code {code} while it was imported{said}") from None
    except Exception as error:  # the edge to code of the user
        line = _line_in(path, error)
        raise SystemExit(f"{path.name}{line}: {type(error).__name__}: {error}") from None
    finally:
        anyio.run = _ANYIO_RUN
    return module


def _line_in(path: Path, error: Exception) -> str:
    """The last line of the file that led to the error."""
    found, trace = "", error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            found = f", line {trace.tb_lineno}"
        trace = trace.tb_next
    return found


def _servers(module: ModuleType) -> dict[str, Any]:
    """The server objects of the module, each under its first name."""
    found: dict[int, tuple[str, Any]] = {}
    for name, value in vars(module).items():
        if _is_server(value):
            found.setdefault(id(value), (name, value))
    return dict(found.values())


def _is_server(value: object) -> bool:
    from mcp.server import Server
    from mcp.server.mcpserver import MCPServer

    # FastMCP keeps the SDK's server in this attribute.
    return isinstance(
        vars(value).get("_mcp_server", value) if hasattr(value, "__dict__") else value, Server | MCPServer
    )


def _chosen(path: Path, servers: dict[str, Any], name: str | None, module: ModuleType) -> Any:
    """The server of that name, or the only one."""
    if name is not None and name not in servers and _is_server(getattr(module, name, None)):
        return getattr(module, name)  # another name of one
    listed = ", ".join(servers)
    if name is not None and name not in servers:
        raise SystemExit(f"{path.name} has no server {name!r}; it has: {listed or 'none'}")
    if not servers:
        raise SystemExit(f"{path.name} has no FastMCP, MCPServer or Server object; make one at its top level")
    if name is None and len(servers) > 1:
        raise SystemExit(
            f"{path.name} has several servers: {listed}; name one: {path.name}:{next(iter(servers))}"
        )
    return servers[name] if name is not None else next(iter(servers.values()))


async def _serve(server: Any) -> None:
    if hasattr(server, "run_stdio_async"):
        quiet = (
            {"show_banner": False} if "show_banner" in signature(server.run_stdio_async).parameters else {}
        )
        await server.run_stdio_async(**quiet)
        return
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    main()
