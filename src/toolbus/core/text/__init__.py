"""Text and JSON: cleaned, compared, escaped and shown."""
