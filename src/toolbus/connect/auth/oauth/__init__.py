"""OAuth: discovery, sign-in and tokens."""
