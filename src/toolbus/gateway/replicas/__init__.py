"""Several gateways behind a balancer: each finds what another one has, through the store that they share."""
