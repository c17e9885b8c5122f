"""Records that travel through toolbus, and the protocols between its parts; imports only `toolbus.schema`."""
