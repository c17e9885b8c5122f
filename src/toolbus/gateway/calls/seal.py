"""The key for values that clients of a gateway carry for us."""

import os
from hashlib import sha256
from pathlib import Path

from toolbus.config.trust import located
from toolbus.state.seal import key_file


def stored_key(config_file: str | Path) -> bytes:
    """The key of a config file, which is made when it is first needed: values stay valid after a restart.

    It is in the user's state folder. OSError if it cannot be read or written, or others can read it.
    """
    digest = sha256(os.fsencode(located(Path(config_file)))).hexdigest()
    return key_file(f"gateway/{digest}.seal")
