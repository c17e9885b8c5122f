"""The catalog of a bus: shaped, searched, and offered as tools."""
