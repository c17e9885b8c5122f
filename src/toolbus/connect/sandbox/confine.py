"""Put a server into its sandbox: from its config to what is started. Nothing is started without one."""

import os
from collections.abc import Callable
from pathlib import Path

from toolbus.config import Resolved, ServerConfig
from toolbus.connect.opening.diagnostics import Diagnostics
from toolbus.connect.sandbox.bubblewrap import WITHOUT, find_bubblewrap, wrapped
from toolbus.connect.sandbox.grants import granted_files, named_files, working_folder
from toolbus.connect.sandbox.launchers import NotLaunchable, local_program, package_of
from toolbus.connect.sandbox.prepare import Installation
from toolbus.connect.sandbox.runtime import runtime_paths
from toolbus.connect.transports.process.child import Launch
from toolbus.core.values.errors import ConnectFailed

_CONTAINERS = frozenset({"docker", "podman", "nerdctl"})


def refuse_container(alias: str, command: str) -> None:
    """`ConnectFailed` if the command starts containers, whether it is installed or not."""
    if (name := Path(command).stem) in _CONTAINERS:
        cause = f"{name} cannot run in a sandbox: it asks a service outside of it to start the server"
        raise ConnectFailed(alias, "spawn", cause, hint="set sandbox: false; the container isolates it")


async def confined(
    config: ServerConfig,
    values: Resolved,
    program: str,
    env: dict[str, str],
    diagnostics: Diagnostics,
    on_stderr: Callable[[bytes], None],
) -> Launch:
    """The launch of a server in its sandbox; its package is installed first, if it has a launcher.

    Raises `ConnectFailed` if there can be no sandbox. `on_stderr` gets what the launcher prints, and adds
    it to the diagnostics.
    """
    find_bubblewrap(config.alias)
    refuse_container(config.alias, program)
    name = Path(program).stem
    files = granted_files(config, values)
    args = values.args
    try:
        package = package_of(program, args)
    except NotLaunchable as error:
        cause = f"{name} cannot be used in a sandbox like this: {values.redacted(str(error))}"
        hint = f"give the path of the installed program as command, {WITHOUT}"
        raise ConnectFailed(config.alias, "spawn", cause, hint=hint) from None
    local = None if package is None else local_program(package, working_folder(values))
    if package is not None:
        args = package.args
        if local is None:
            install = Installation(config, values, package, program, diagnostics, on_stderr)
            program = await install.program(files)
        else:
            program = local
        env = {**env, "PATH": os.pathsep.join((os.path.dirname(program), env.get("PATH", os.defpath)))}
    if package is None or local is not None:
        files.show(runtime_paths(program, env.get("PATH", os.defpath), files.can_change))
    files.show(named_files(values, args, env))
    folder = working_folder(values)
    inside = folder if files.has_folder(folder) else files.home
    return wrapped(config.alias, [program, *args], files, env, inside)
