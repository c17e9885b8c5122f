"""The data behind the pages of policy, lock, held changes and audit."""
