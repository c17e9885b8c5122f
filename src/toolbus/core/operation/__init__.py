"""One operation: its steps, its events, its journal and its trace."""
