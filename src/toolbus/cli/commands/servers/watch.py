"""`toolbus watch`: keep servers running and show events until Ctrl-C."""

import time
from collections.abc import Coroutine
from typing import Any

from toolbus.cli.command import Invocation, config_command
from toolbus.cli.parameters import Servers


@config_command
def watch(own: Invocation, servers: Servers = None) -> Coroutine[Any, Any, int]:
    """Keep servers running and show events until Ctrl-C.

    Reloads the config when the file changes.
    """
    began = time.time_ns()
    selected = own.selected(servers)
    with own.screen.spinner("starting " + ", ".join(selected)):  # the imports take a while
        from toolbus.cli.commands.servers.watched import ServerWatch
        from toolbus.gateway.serve.signals import until_stopped

        watched = ServerWatch(own.screen, own.config, servers or [], began)
    return until_stopped(watched.run)
