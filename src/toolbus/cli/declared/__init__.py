"""The arguments and options of the commands, as typer needs them."""
