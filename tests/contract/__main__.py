"""Write a new recording: `python -m tests.contract [PART ...]`."""

import sys

from tests.contract.parts import PARTS
from tests.contract.recording import write

for part in sys.argv[1:] or PARTS:
    write(part, PARTS[part]())
