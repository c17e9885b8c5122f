"""The MCP conformance suite with a client, by default a bus.

For each scenario the suite starts a server, and runs `client.py` against it. It does so for all scenarios at
once; the clients then take turns, so that each has the machine for itself.
"""

import shlex
from pathlib import Path

from tests import warm
from tests.conformance.outcomes import Outcome, outcomes_in
from tests.conformance.suite import EXTENSION, PATIENCE, scenarios, suite

VERIFIED = ("verify-digest", "verify-size", "verify-frontmatter")
SKILLS = tuple(f"sep-2640-client-{check}" for check in ("no-prefetch", *VERIFIED))
CLIENT = Path(__file__).with_name("client.py")
THROUGH_GATEWAY = Path(__file__).with_name("client_through_gateway.py")


def judged_client(
    version: str, folder: Path, command: str | None = None, client: Path = CLIENT
) -> dict[str, Outcome]:
    """Have the suite run the client through all scenarios of a version; of extensions, sign-in and skills."""
    which = ("extensions",) if version == EXTENSION else ("all", "--spec-version", version)
    where = ("--output-dir", str(folder), "--timeout", f"{PATIENCE * 1000:.0f}")
    ours = shlex.join([warm.python(), str(client)])
    _, said = suite(
        "client", "--command", command or ours, "--suite", *which, *where, CONFORMANCE_TURN=str(folder)
    )
    # No suite has these.
    for name in SKILLS if version == EXTENSION else ():
        args = ("--command", command or ours, "--scenario", name, *where)
        _, more = suite("client", *args, CONFORMANCE_TURN=str(folder))
        said += more
    named = [name for its_version, name in scenarios("client") if its_version == version]
    wanted = [name for name in named if version != EXTENSION or name.startswith("auth/") or name in SKILLS]
    return outcomes_in(folder, wanted, said)
