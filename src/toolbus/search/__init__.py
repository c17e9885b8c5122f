"""The search among thousands of tools: an index over names, descriptions and arguments, and by meaning."""
