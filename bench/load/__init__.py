"""The load that a gateway carries: more processes, clients, servers, tools and users, until it bends."""
