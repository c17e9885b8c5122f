"""The gateway over HTTP: streamable HTTP of both eras, health and metrics."""
