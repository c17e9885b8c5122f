"""The background bus: `toolbus up`, and the commands that run in it."""
