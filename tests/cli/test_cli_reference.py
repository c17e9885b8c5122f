"""docs/cli.md says what the commands say."""

import pytest

from tests.cli.reference import PAGE, page


@pytest.mark.timeout(180)
def test_the_page_is_what_the_commands_print() -> None:
    assert page() == PAGE.read_text(encoding="utf-8"), "run `make docs`"
