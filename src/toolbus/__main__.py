"""`python -m toolbus`, for where the command is not on the PATH."""

from toolbus.cli.entry import main

if __name__ == "__main__":
    main()
