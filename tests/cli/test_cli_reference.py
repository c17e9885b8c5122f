"""docs/cli.md says what the commands say."""

from tests.cli.reference import PAGE, page


def test_the_page_is_what_the_commands_print() -> None:
    assert page() == PAGE.read_text(encoding="utf-8"), "run `make docs`"
