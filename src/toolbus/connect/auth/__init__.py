"""The authorization of HTTP requests to a server."""
