"""Approvals that clients have used: each counts for one call, also after a restart of the gateway."""

import os
from hashlib import sha256
from pathlib import Path

from toolbus.config.trust import located
from toolbus.state.files import state_folder
from toolbus.state.spent import Spent


def stored_spent(config_file: str | Path) -> Spent:
    """The used approvals of a config file, in the user's state folder; OSError if there is none."""
    digest = sha256(os.fsencode(located(Path(config_file)))).hexdigest()
    return Spent(state_folder(), f"gateway/{digest}.spent")
