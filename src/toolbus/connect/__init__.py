"""Stage 2, a live link per server. Without imports, because some modules have to load without the SDK."""
