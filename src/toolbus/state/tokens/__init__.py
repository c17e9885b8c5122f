"""The places where tokens are kept."""
