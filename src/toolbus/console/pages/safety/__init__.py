"""Pages about keys, policy, lock and audit."""
