"""Find the servers that other hosts have configured, and convert them."""
