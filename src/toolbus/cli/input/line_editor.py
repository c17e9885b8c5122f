"""Read a line from the terminal, with editing and history if Python has readline."""

import sys

try:
    import readline
except ImportError:  # not every Python has it
    readline = None


def read_line(prompt: str) -> str:
    """Read a line and add it to the history; EOFError on Ctrl-D, KeyboardInterrupt on Ctrl-C."""
    if readline is not None:
        readline.set_auto_history(False)  # answers such as yes do not belong in the history
    if not sys.stdout.isatty():
        # input() would print the prompt to stdout, among the answers.
        print(prompt, end="", file=sys.stderr, flush=True)
        prompt = ""
    # Replace undecodable input, or the model's client would fail.
    line = input(prompt).encode("utf-8", "replace").decode()
    if readline is not None and line.strip():
        readline.add_history(line)
    return line
