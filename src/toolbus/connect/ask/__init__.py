"""Requests and notifications that servers send."""
