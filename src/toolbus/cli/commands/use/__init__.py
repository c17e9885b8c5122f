"""Commands that use what servers offer."""
