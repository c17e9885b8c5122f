"""`toolbus chat`: a model with the servers' tools, as a dialog or for one answer."""
