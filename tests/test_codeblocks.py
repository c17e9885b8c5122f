"""The Markdown reader that the documentation tests use."""

import pytest

from tests.codeblocks import Block, code_blocks


def test_blocks_come_in_order_with_language_text_and_line() -> None:
    page = "# Title\n\n```python\nprint(1)\n\nprint(2)\n```\nprose\n```text\n1\n2\n```\n"
    assert code_blocks(page) == [
        Block(language="python", text="print(1)\n\nprint(2)\n", line=3),
        Block(language="text", text="1\n2\n", line=9),
    ]


def test_a_fence_without_a_language_is_a_block_without_one() -> None:
    assert code_blocks("```\nx\n```") == [Block(language="", text="x\n", line=1)]


def test_only_the_first_word_after_the_fence_is_the_language() -> None:
    assert code_blocks('``` yaml title="a b"\nx: 1\n```') == [Block(language="yaml", text="x: 1\n", line=1)]


def test_a_longer_fence_holds_shorter_ones() -> None:
    page = "````text\n```python\nx\n```\n````\n"
    assert code_blocks(page) == [Block(language="text", text="```python\nx\n```\n", line=1)]


def test_tildes_and_backticks_do_not_close_each_other() -> None:
    assert code_blocks("~~~text\n```\n~~~\n") == [Block(language="text", text="```\n", line=1)]


def test_a_block_inside_a_list_loses_the_indent_of_the_list_only() -> None:
    page = "1. first\n   ```python\n   if x:\n       y()\n\n   ```\n"
    assert code_blocks(page) == [Block(language="python", text="if x:\n    y()\n\n", line=2)]


def test_inline_code_is_not_a_block() -> None:
    assert code_blocks("Use ```x``` or `y`.\n```not a fence``` here\n") == []


def test_a_block_left_open_is_an_error_that_names_its_line() -> None:
    with pytest.raises(ValueError, match="line 2: this code block is never closed"):
        code_blocks("text\n```python\nx = 1\n")
