"""Scripts that call tools: typed stubs, a sandbox, and scripts that wait for a person."""
