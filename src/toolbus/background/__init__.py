"""The background bus: `toolbus up` holds the servers of a config, other commands run in it.

A command runs where the bus is, in a thread of its own, on the terminal of the client: its streams are
passed over a socket. So there is one implementation of each command, and no second protocol.
"""
