"""Access to the gateway: keys, tokens, hosts and origins, views."""
