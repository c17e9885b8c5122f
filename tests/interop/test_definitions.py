"""The recorded definitions match the installed servers."""

from pathlib import Path

import pytest

from tests.interop.definitions import listed, recorded
from tests.interop.servers import require_git, require_installed

require_installed("time", "git", "sqlite", "node")

pytestmark = pytest.mark.anyio


async def test_the_record_has_what_the_installed_servers_list(tmp_path: Path) -> None:
    require_git()
    assert await listed(tmp_path) == recorded(), "record them again: python -m tests.interop.definitions"
