"""The keyring of a process that a test starts; it is named by PYTHON_KEYRING_BACKEND."""

import os
from pathlib import Path

from tests.auth.keyrings import FileKeyring


class ProcessKeyring(FileKeyring):
    """The keyring in the file that the variable KEYRING_FILE names."""

    def __init__(self) -> None:
        super().__init__(Path(os.environ["KEYRING_FILE"]))
