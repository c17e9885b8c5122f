"""Add and edit servers: drafts, their trials, and what is written."""
