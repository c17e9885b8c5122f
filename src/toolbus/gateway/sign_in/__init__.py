"""The authorization server of a gateway: clients get tokens that a person allowed."""
