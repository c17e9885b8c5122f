"""What authorizes the HTTP requests to a server."""
