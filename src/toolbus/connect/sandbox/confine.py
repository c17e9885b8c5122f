"""Put a server into its sandbox: from its config to what is started. Nothing is started without one."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from toolbus.config import Resolved, ServerConfig
from toolbus.connect.diagnostics import Diagnostics
from toolbus.connect.sandbox.bubblewrap import WITHOUT, find_bubblewrap, wrapped
from toolbus.connect.sandbox.environment import home_folder
from toolbus.connect.sandbox.files import Access, OutsideSandbox, SandboxFiles
from toolbus.connect.sandbox.launchers import NotLaunchable, local_program, package_of
from toolbus.connect.sandbox.prepare import Installation
from toolbus.connect.sandbox.runtime import runtime_paths
from toolbus.connect.transports.child import Launch
from toolbus.core.errors import ConnectFailed

_CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
_CA_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE")


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
    if (name := Path(program).stem) in _CONTAINERS:
        cause = f"{name} cannot run in a sandbox: it asks a service outside of it to start the server"
        raise ConnectFailed(
            config.alias, "spawn", cause, hint="set sandbox: false; the container isolates it"
        )
    files = granted(config, values)
    args = values.args
    try:
        package = package_of(program, args)
    except NotLaunchable as error:
        cause = f"{name} cannot be used in a sandbox like this: {values.redacted(str(error))}"
        hint = f"give the path of the installed program as command, {WITHOUT}"
        raise ConnectFailed(config.alias, "spawn", cause, hint=hint) from None
    if package is not None:
        args, local = package.args, local_program(package, _folder(values))
        if local is not None:
            program = local
        else:
            install = Installation(config, values, package, program, diagnostics, on_stderr)
            program = await install.program()
        env = {**env, "PATH": os.pathsep.join((os.path.dirname(program), env.get("PATH", os.defpath)))}
    files.show(runtime_paths(program, env.get("PATH", os.defpath), files.can_change))
    files.show(_own_files(values, args, env))
    folder = _folder(values)
    inside = folder if files.has_folder(folder) else files.home
    return wrapped(config.alias, [program, *args], files, env, inside)


def granted(config: ServerConfig, values: Resolved) -> SandboxFiles:
    """The files that the config names; raises `ConnectFailed` if one cannot be shown."""
    assert config.sandbox is not None
    files = SandboxFiles(home=home_folder(), net=config.sandbox.net)
    try:
        grants: list[tuple[Access, tuple[str, ...]]] = [("write", values.writable), ("read", values.readable)]
        for access, paths in grants:
            try:
                files.grant(paths, access)
                files.check_links(paths)
            except OutsideSandbox as error:
                cause = f"sandbox.{access}: {values.redacted(str(error))}"
                raise ConnectFailed(config.alias, "spawn", cause, hint="check the path") from None
    except OSError as error:
        cause = f"its sandbox cannot be made: {error.strerror or type(error).__name__}"
        raise ConnectFailed(config.alias, "spawn", cause) from None
    return files


def argument_paths(values: Resolved, args: tuple[str, ...]) -> list[str]:
    """The arguments that are paths, from the working directory; also the value of `--option=PATH`."""
    found: list[str] = []
    for word in args:
        text = word.partition("=")[2] if word.startswith("-") else word
        if text and "\0" not in text and "://" not in text:
            found.append(os.path.abspath(os.path.join(_folder(values), os.path.expanduser(text))))
    return found


def _own_files(values: Resolved, args: tuple[str, ...], env: dict[str, str]) -> list[str]:
    """The files, not the folders, that the command line names, and the certificates of the environment."""
    found = [path for path in argument_paths(values, args) if _is_file(path)]
    certificates = (env[name] for name in _CA_VARIABLES if name in env)
    return [*found, *(path for path in certificates if os.path.isabs(path) and os.path.exists(path))]


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def _folder(values: Resolved) -> str:
    try:
        return os.path.abspath(values.cwd or "")
    except OSError:  # the current folder was deleted
        return os.sep
