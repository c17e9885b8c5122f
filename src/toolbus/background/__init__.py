"""The background bus: `toolbus up` holds the servers of a config, other commands run in it.

A command runs in the process of the bus, in a thread of its own. It uses the terminal of the client, whose
streams are passed over a socket. So each command has one implementation, and there is no second protocol.
"""
