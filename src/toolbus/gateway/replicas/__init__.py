"""Several gateways behind a load balancer: each finds the others' state in the store that they share."""
