"""The engines behind a bus: of itself, of its users and of their sessions."""
