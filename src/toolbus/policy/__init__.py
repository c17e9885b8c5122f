"""Permissions: the rules of a policy, and the answers of people who are asked."""
