"""Servers and settings from a config in any dialect; secrets are filled in when a server connects."""

from toolbus.config.find import find_config
from toolbus.config.load import load_config, load_server, usable_config
from toolbus.config.model import BusConfig, ContextSource, LockMode, ServerConfig, Timeouts, Transport
from toolbus.config.secrets.expand import Resolved, Secrets, resolved
from toolbus.config.secrets.lookup import GetSecret
from toolbus.config.settings.auth import (
    Auth,
    BearerAuth,
    ClientCredentials,
    IdentityAssertion,
    OAuth,
    Workload,
)
from toolbus.config.settings.sandbox import Sandbox
from toolbus.config.trust import bus_config, found_config

__all__ = [
    "Auth",
    "BearerAuth",
    "BusConfig",
    "ClientCredentials",
    "ContextSource",
    "GetSecret",
    "IdentityAssertion",
    "LockMode",
    "OAuth",
    "Resolved",
    "Sandbox",
    "Secrets",
    "ServerConfig",
    "Timeouts",
    "Transport",
    "Workload",
    "bus_config",
    "find_config",
    "found_config",
    "load_config",
    "load_server",
    "resolved",
    "usable_config",
]
