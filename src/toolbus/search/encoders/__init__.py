"""Encoders: texts become vectors, near each other when the texts mean the same."""
