"""What travels through toolbus, and the protocols between its parts; imports no other part."""
