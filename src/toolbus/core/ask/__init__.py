"""Questions to people, and the handlers that answer them."""
