"""Input from the command line and from the user."""
