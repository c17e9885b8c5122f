"""What was approved: the definitions of tools in a file, and how the current ones differ from it."""
