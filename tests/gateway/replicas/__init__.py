"""Several gateways on one store."""
