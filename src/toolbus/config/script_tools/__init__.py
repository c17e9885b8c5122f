"""Scripts of a config that are tools: their entries and their files."""
