"""JSON-RPC messages: written, read and matched with their requests."""
