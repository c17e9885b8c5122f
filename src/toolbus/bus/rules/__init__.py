"""Scope, lock, policy and audit of a bus."""
