"""The page of a bus: its servers, tools, calls and questions, for the person who runs it."""
