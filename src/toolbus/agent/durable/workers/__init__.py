"""Workers that execute durable runs: leases, versions and tools."""
