"""Add and edit servers: drafts, trials and differences."""
