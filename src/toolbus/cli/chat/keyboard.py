"""Read lines from the terminal, with editing and history if Python has readline."""

import sys

from toolbus.cli.input import ask

try:
    import readline
except ImportError:  # not every Python has it
    readline = None


class Keyboard:
    """The user's terminal."""

    def __init__(self) -> None:
        if readline is not None:
            readline.set_auto_history(False)  # answers such as yes do not belong in the history

    def read_line(self, prompt: str) -> str:
        """Read a line and add it to the history; EOFError on Ctrl-D, KeyboardInterrupt on Ctrl-C."""
        line = self._input(prompt)
        if readline is not None and line.strip():
            readline.add_history(line)
        return line

    def ask(self, prompt: str) -> str:
        """Ask a question; input typed ahead is discarded."""
        return ask.ask(prompt)

    def _input(self, prompt: str) -> str:
        if not sys.stdout.isatty():
            # input() would print the prompt to stdout, among the answers.
            print(prompt, end="", file=sys.stderr, flush=True)
            prompt = ""
        # Replace undecodable input, or the model's client would fail.
        return input(prompt).encode("utf-8", "replace").decode()
