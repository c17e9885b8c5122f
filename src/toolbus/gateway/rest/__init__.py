"""The tools of a gateway as a REST API."""
