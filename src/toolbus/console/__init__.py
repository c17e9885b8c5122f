"""The web console of a bus: servers, tools, calls and questions."""
