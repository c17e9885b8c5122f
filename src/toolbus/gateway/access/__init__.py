"""Who may use the gateway, and what of it: keys, tokens, hosts and origins, views."""
