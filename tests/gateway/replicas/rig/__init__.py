"""The outage test of replicas: three gateways behind HAProxy, a hundred clients, and operators.

`client.py` is the program of the clients. `accounts.py` compares their answers with the server's journal.
`scenarios.py` has the outages of the gateways and their store. `make replicas` runs it all.
"""
