"""What the administrator of this machine permits and requires of a bus."""

import logging
from collections.abc import Iterator, Sequence

from toolbus.config import BusConfig
from toolbus.config.launch.administrator import ASK, Administrator, read_administrator
from toolbus.config.location import joined
from toolbus.config.permitted import without_sandbox
from toolbus.core.values.errors import ConfigError
from toolbus.lock.file import NAME

logger = logging.getLogger("toolbus")


def administrator_of(config: BusConfig, *, has_lock: bool) -> Administrator:
    """The administrator's rules; ConfigError if they cannot be read, with all that they require in vain."""
    found = read_administrator()
    for file in found.ignored:
        logger.warning("%s is not used: %s; to make it count: %s", file.path, file.reason, file.fix)
    outside = _outside(config)
    unmet = [*_unmet_lock(config, found, outside, exists=has_lock), *_unmet_audit(config, found)]
    if outside and unmet:
        # Otherwise those servers are refused alone.
        refused = (without_sandbox(config.servers[alias], found) for alias in outside)
        raise joined([*unmet, *(one for one in refused if one is not None)])
    return found


def _unmet_lock(
    config: BusConfig, administrator: Administrator, outside: Sequence[str], *, exists: bool
) -> Iterator[ConfigError]:
    file = administrator.requiring("lock")
    if file is None or config.for_lock:
        return
    if config.file is None:
        yield _unmet(file, f"a {NAME} is required, and only a config in a file has one; write toolbus.yaml")
        return
    modes = {alias: config.servers[alias].lock or config.lock or "block" for alias in outside}
    weak = {alias: mode for alias, mode in modes.items() if mode != "block"}
    for alias, mode in weak.items():
        yield _unmet(file, f"server {alias!r} has lock: {mode}, and block is required; remove it")
    if not exists and not weak:
        yield _unmet(file, f"a {NAME} is required next to {config.file}; create it: toolbus lock")


def _unmet_audit(config: BusConfig, administrator: Administrator) -> Iterator[ConfigError]:
    file = administrator.requiring("audit")
    if file is not None and config.audit is None:
        yield _unmet(file, "an audit trail is required; add audit: {file: audit.jsonl} to the config")
    if file is not None and config.audit is not None and config.audit.content == "none":
        yield _unmet(file, "an audit trail of the arguments is required; set content: digest in audit")


def _outside(config: BusConfig) -> list[str]:
    """The servers that are not objects of this program, and not invalid."""
    servers = config.servers.items()
    return [alias for alias, server in servers if server.transport != "memory" and server.mistake is None]


def _unmet(file: str, problem: str) -> ConfigError:
    return ConfigError(f"{problem}, or {ASK}", file=file, key="require")
