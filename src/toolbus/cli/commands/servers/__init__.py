"""Commands that keep servers running and sign in to them."""
