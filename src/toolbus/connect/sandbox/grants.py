"""The files that a sandboxed server gets: those that its config and its command line name."""

import os
import stat

from toolbus.config import Resolved, ServerConfig
from toolbus.connect.sandbox.environment import home_folder
from toolbus.connect.sandbox.files import Access, OutsideSandbox, SandboxFiles
from toolbus.core.values.errors import ConnectFailed

_CA_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE")


def granted_files(config: ServerConfig, values: Resolved) -> SandboxFiles:
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
            found.append(os.path.abspath(os.path.join(working_folder(values), os.path.expanduser(text))))
    return found


def named_files(values: Resolved, args: tuple[str, ...], env: dict[str, str]) -> list[str]:
    """The files, not the folders, that the command line names, and the certificates of the environment.

    Not by an argument with the name of a user: that could be the name of any file beside the config.
    """
    fixed = tuple(word for word in args if word not in values.personal_args)
    found = [path for path in argument_paths(values, fixed) if is_file(path)]
    certificates = (env[name] for name in _CA_VARIABLES if name in env)
    return [*found, *(path for path in certificates if os.path.isabs(path) and os.path.exists(path))]


def is_file(path: str) -> bool:
    """Whether there is a plain file."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def working_folder(values: Resolved) -> str:
    """The working directory outside."""
    try:
        return os.path.abspath(values.cwd or "")
    except OSError:  # the current folder was deleted
        return os.sep
