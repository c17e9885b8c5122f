"""Commands about trust, lock, policy and audit."""
