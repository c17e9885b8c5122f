"""The outage test of replicas: three gateways behind HAProxy, a hundred clients, and what operators do.

`client.py` is the program of the clients, `accounts.py` compares what they were told with what the server
wrote down, and `scenarios.py` has what happens to the gateways and their store. `make replicas` runs it all.
"""
