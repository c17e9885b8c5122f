"""The keyboard of a chat: lines with editing and history, and answers to questions."""

from toolbus.cli.input import ask
from toolbus.cli.input.line_editor import read_line
from toolbus.cli.terminal import client_terminal


class Keyboard:
    """The user's terminal."""

    def read_line(self, prompt: str) -> str:
        """Read a line and add it to the history; EOFError on Ctrl-D, KeyboardInterrupt on Ctrl-C."""
        client = client_terminal()
        return read_line(prompt) if client is None else client.read_line(prompt)

    def ask(self, prompt: str) -> str:
        """Ask a question; input typed ahead is discarded."""
        return ask.ask(prompt)
