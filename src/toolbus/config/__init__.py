"""Servers and settings from a config in any dialect; secrets are filled in when a server connects."""

from toolbus.config.find import find_config
from toolbus.config.load import load_config, load_server
from toolbus.config.load import usable_config as usable_config
from toolbus.config.model import BusConfig, ServerConfig
from toolbus.config.model import ContextSource as ContextSource
from toolbus.config.model import LockMode as LockMode
from toolbus.config.model import Timeouts as Timeouts
from toolbus.config.model import Transport as Transport
from toolbus.config.secrets.expand import Resolved as Resolved
from toolbus.config.secrets.expand import Secrets, resolved
from toolbus.config.secrets.lookup import GetSecret
from toolbus.config.settings.auth import Auth as Auth
from toolbus.config.settings.auth import BearerAuth as BearerAuth
from toolbus.config.settings.auth import ClientCredentials as ClientCredentials
from toolbus.config.settings.auth import IdentityAssertion as IdentityAssertion
from toolbus.config.settings.auth import OAuth as OAuth
from toolbus.config.settings.auth import Workload as Workload
from toolbus.config.settings.sandbox import Sandbox as Sandbox
from toolbus.config.trust import bus_config as bus_config
from toolbus.config.trust import found_config as found_config

__all__ = [
    "BusConfig",
    "GetSecret",
    "Secrets",
    "ServerConfig",
    "find_config",
    "load_config",
    "load_server",
    "resolved",
]
