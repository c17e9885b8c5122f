"""Put a server into its sandbox: from its config to a launch line. Every program starts in the sandbox.

The package of a launcher is installed once, in a sandbox with network access and its own folder. That folder
is private to the launch line of one server, and the server can only read it. So a server never runs code from
a cache that another program could have changed.
"""

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from io import FileIO
from pathlib import Path

from toolbus.config import Resolved, ServerConfig
from toolbus.config.secrets.redact import url_secrets
from toolbus.connect.opening.diagnostics import Diagnostics
from toolbus.connect.sandbox.bubblewrap import WITHOUT, find_bubblewrap, wrapped
from toolbus.connect.sandbox.files import (
    SandboxFiles,
    granted_files,
    home_folder,
    named_files,
    working_folder,
)
from toolbus.connect.sandbox.programs import (
    InstalledPackage,
    NotLaunchable,
    local_program,
    package_of,
    runtime_paths,
)
from toolbus.connect.transports.process.child import Child, Launch
from toolbus.connect.transports.process.start import start_child
from toolbus.core.values.errors import ConnectFailed
from toolbus.state.files import state_folder

if sys.platform != "win32":
    import fcntl

# What a launcher needs to reach a registry; nothing of it is passed to the server.
_REGISTRY = re.compile(
    r"npm_config_\w+|NPM_TOKEN|NODE_AUTH_TOKEN|UV_\w+|PIP_\w+|SSL_CERT_FILE|SSL_CERT_DIR|NODE_EXTRA_CA_CERTS"
    r"|REQUESTS_CA_BUNDLE|(HTTP|HTTPS|ALL|NO)_PROXY",
    re.IGNORECASE,
)
_SETTINGS = (
    "~/.npmrc",
    "~/.config/uv/uv.toml",
    "~/.config/pip/pip.conf",
    "~/.pip",
    "/etc/uv",
    "/etc/pip.conf",
)
# Variables of ours that name such a file; those of the config could name any file.
_SETTINGS_VARIABLES = (
    *("npm_config_userconfig", "NPM_CONFIG_USERCONFIG", "UV_CONFIG_FILE", "PIP_CONFIG_FILE", "PIP_CERT"),
    *("UV_FIND_LINKS", "PIP_FIND_LINKS", "npm_config_cafile"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"),
)
# Before others on the PATH: the Python of a system may be too old for the package.
_PYTHON = os.path.join(sys.base_prefix, "bin")
_MARKER = "prepared.json"
_LOCK = "lock"
_POLL_INTERVAL = 0.05
_KILL_TIMEOUT = 2.0


@dataclass(frozen=True, slots=True)
class Installation:
    """The installation of the package of one server."""

    config: ServerConfig
    values: Resolved
    package: InstalledPackage
    launcher: str
    diagnostics: Diagnostics
    on_stderr: Callable[[bytes], None]
    """Gets what the launcher prints, and adds it to the diagnostics."""

    async def program(self, files: SandboxFiles) -> str:
        """The path of the installed program; raises `ConnectFailed`. A caller who is cancelled ends it.

        `files` gets what the installation has read: its own folder and the runtime. The package wrote that
        folder, so nothing else is concluded from its content.
        """
        package, alias = self.package, self.config.alias
        launch = (alias, str(self.values.folder), package.registry, package.options, package.program)
        # A package of another index is another package.
        settings = sorted(_registry_settings(self.values.env).items())
        name = f"sandbox/{sha256(json.dumps([*launch, settings]).encode()).hexdigest()[:20]}"
        try:
            state = state_folder()
            cache = state.make_folders(f"{name}/cache/x").parent
            async with _locked(cache.parent / _LOCK):
                program = _known_program(state.read(f"{name}/{_MARKER}"), cache)
                if program is None:
                    program = package.installed(cache, await self._run(cache))
                    state.write(f"{name}/{_MARKER}", json.dumps({"program": program}).encode())
            files.show([str(cache)])
            self._show_runtime(files)
            return program
        except OSError as error:
            cause = f"the folder for its packages cannot be used: {error.strerror or type(error).__name__}"
            raise ConnectFailed(alias, "spawn", cause, hint=f"check {error.filename or 'it'}") from error
        except NotLaunchable as error:
            raise ConnectFailed(alias, "spawn", self.values.redacted(str(error))) from None

    async def _run(self, cache: Path) -> str:
        """Install it; returns the output of the installation."""
        running = _InstallOutput(self.on_stderr)
        child = await start_child(running, self._launch(cache))
        try:
            child.stdin.close()
            await running.exited.wait()
            await running.output_ended.wait()
        finally:
            await _end(child)
        if running.code != 0:
            spec, name = self.values.redacted(self.package.spec), Path(self.launcher).stem
            raise ConnectFailed(
                self.config.alias,
                "spawn",
                f"{name} could not install {spec!r} for the sandbox (exit code {running.code})",
                hint="check the name of the package, and the connection to its registry",
                exit_code=running.code,
                stderr=self.diagnostics.stderr_tail(),
            )
        self.diagnostics.stderr.clear()  # it is not about the server
        return running.output.decode(errors="replace")

    def _launch(self, cache: Path) -> Launch:
        settings = _registry_settings(self._given)
        for value in settings.values():
            for secret in url_secrets(value):
                self.values.redacted.learn(secret)
        env = {"HOME": home_folder(), "PATH": self._search, **settings, **self.package.environment(cache)}
        files = SandboxFiles(home=home_folder(), net=True)
        files.grant([str(cache)], "write")
        files.show(_settings_files())
        self._show_runtime(files)
        return wrapped(self.config.alias, self.package.install(self.launcher), files, env, home_folder())

    def _show_runtime(self, files: SandboxFiles) -> None:
        """Show the launcher and the interpreters: every program that an installation can refer to."""
        beside = os.path.join(os.path.dirname(self.launcher), "uv")
        for program in (self.launcher, beside, os.path.join(_PYTHON, "python3")):
            files.show(runtime_paths(program, self._search, files.can_change))

    @property
    def _given(self) -> dict[str, str]:
        return dict(os.environ) | dict(self.values.env)

    @property
    def _search(self) -> str:
        return os.pathsep.join((_PYTHON, self._given.get("PATH", os.defpath)))


def _registry_settings(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if _REGISTRY.fullmatch(name)}


def _settings_files() -> list[str]:
    variables = (os.environ[name] for name in _SETTINGS_VARIABLES if name in os.environ)
    named = [os.path.expanduser(path) for path in (*_SETTINGS, *variables)]
    return [path for path in named if os.path.isabs(path) and os.path.exists(path)]


def _known_program(marker: bytes | None, cache: Path) -> str | None:
    """The program of an earlier installation, if it is still complete."""
    with suppress(ValueError, KeyError, TypeError):
        program = Path(json.loads(marker or b"")["program"])
        interpreters = [program.with_name("python")] if program.parent.name == "bin" else []
        if program.is_relative_to(cache) and all(path.exists() for path in (program, *interpreters)):
            return str(program)
    return None


@asynccontextmanager
async def _locked(path: Path) -> AsyncGenerator[None]:
    """Hold a lock between processes; the caller sets a timeout."""
    with FileIO(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)) as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(_POLL_INTERVAL)
        yield


async def _end(child: Child) -> None:
    try:
        if child.kill():
            with suppress(TimeoutError):
                async with asyncio.timeout(_KILL_TIMEOUT):
                    await child.wait_gone()
    finally:
        child.close()


class _InstallOutput:
    """The output of a launcher, as `ChildEvents`."""

    def __init__(self, on_stderr: Callable[[bytes], None]) -> None:
        self._on_stderr = on_stderr
        self.output = b""
        self.code: int | None = None
        self.exited = asyncio.Event()
        self.output_ended = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self.output = (self.output + data)[-64 * 1024 :]
        else:
            self._on_stderr(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self.output_ended.set()

    def process_exited(self, code: int | None) -> None:
        self.code = code
        self.exited.set()

    def pause_writing(self) -> None:
        """Nothing is written."""

    def resume_writing(self) -> None:
        """Nothing is written."""


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
