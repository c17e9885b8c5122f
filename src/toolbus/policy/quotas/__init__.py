"""Quotas: how many calls each key, user, view or server may make, over all workers and replicas."""
