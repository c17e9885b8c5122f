"""Lines that a person types, with editing and history where Python has readline."""

import sys

from toolbus.cli.input import typed

try:
    import readline
except ImportError:  # not every Python has it
    readline = None


class Keyboard:
    """The terminal that the program was started in."""

    def __init__(self) -> None:
        if readline is not None:
            readline.set_auto_history(False)  # a yes is nothing to come back to

    def line(self, prompt: str) -> str:
        """A line to keep in the history; EOFError on Ctrl-D, KeyboardInterrupt on Ctrl-C."""
        line = self._typed(prompt)
        if readline is not None and line.strip():
            readline.add_history(line)
        return line

    def answer(self, prompt: str) -> str:
        """A line that was typed after the prompt was there: no word typed ahead may answer a question."""
        return typed.answer(prompt)

    def _typed(self, prompt: str) -> str:
        if not sys.stdout.isatty():
            # input() would write the prompt where the answers go.
            print(prompt, end="", file=sys.stderr, flush=True)
            prompt = ""
        # What the terminal could not decode must not fail in the model's client.
        return input(prompt).encode("utf-8", "replace").decode()
