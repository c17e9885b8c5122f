"""What the administrator of this machine permits and requires of a bus."""

import logging

from toolbus.config import BusConfig
from toolbus.config.administrator import ASK, Administrator, read_administrator
from toolbus.core.errors import ConfigError
from toolbus.lock.file import NAME

logger = logging.getLogger("toolbus")


def administrator_of(config: BusConfig) -> Administrator:
    """The administrator's rules; ConfigError if they cannot be read, or require a trail that is missing."""
    found = read_administrator()
    for file in found.ignored:
        logger.warning("%s is not used: %s; to make it count: %s", file.path, file.reason, file.fix)
    _check_audit(config, found)
    return found


def check_lock(config: BusConfig, administrator: Administrator, *, exists: bool) -> None:
    """ConfigError if the administrator requires a lock that the config does not have."""
    file = administrator.requiring("lock")
    outside = _outside(config)
    if file is None or config.for_lock or not outside:
        return
    if config.file is None:
        raise _unmet(file, f"a {NAME} is required, and only a config in a file has one; write toolbus.yaml")
    for alias in outside:
        mode = config.servers[alias].lock or config.lock or "block"
        if mode != "block":
            raise _unmet(file, f"server {alias!r} has lock: {mode}, and block is required; remove it")
    if not exists:
        raise _unmet(file, f"a {NAME} is required next to {config.file}; create it: toolbus lock")


def _check_audit(config: BusConfig, administrator: Administrator) -> None:
    file = administrator.requiring("audit")
    if file is None or not _outside(config):
        return
    if config.audit is None:
        raise _unmet(file, "an audit trail is required; add audit: {file: audit.jsonl} to the config")
    if config.audit.content == "none":
        raise _unmet(file, "an audit trail of the arguments is required; set content: digest in audit")


def _outside(config: BusConfig) -> list[str]:
    """The servers that are not objects of this program, and not invalid."""
    servers = config.servers.items()
    return [alias for alias, server in servers if server.transport != "memory" and server.mistake is None]


def _unmet(file: str, problem: str) -> ConfigError:
    return ConfigError(f"{problem}, or {ASK}", file=file, key="require")
