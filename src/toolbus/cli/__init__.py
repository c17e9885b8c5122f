"""The command line: parse, call the library, print. Everything heavy is imported when a command runs."""
