"""The `toolbus` program: runs a command in the background bus of its config, if there is one, or by itself.

Until that is known, nothing is imported that takes time.
"""

import sys


def main() -> None:
    """Run the program."""
    from toolbus.background.command_line import bus_command

    command = bus_command(sys.argv[1:])
    if command is not None and sys.platform != "win32":
        from toolbus.background.client import run_in_background

        code = run_in_background(command, sys.argv[1:])
        if code is not None:
            sys.exit(code)
    from toolbus.cli.app import main as run_here

    run_here()
