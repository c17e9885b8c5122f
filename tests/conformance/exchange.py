"""Leg 1 of enterprise-managed authorization: an ID token becomes an assertion for one authorization server.

A company has a program for this; the config names it. Prints the assertion.
"""

import json
import os
import sys
import urllib.parse
import urllib.request

TYPES = "urn:ietf:params:oauth:token-type"
SECONDS = 20.0


def exchanged(issuer: str, resource: str) -> str:
    """The assertion of the identity provider for `issuer`, about `resource`."""
    context = json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "client_id": context["idp_client_id"],
        "subject_token": context["idp_id_token"],
        "subject_token_type": f"{TYPES}:id_token",
        "requested_token_type": f"{TYPES}:id-jag",
        "audience": issuer,
        "resource": resource,
    }
    body = urllib.parse.urlencode(form).encode()
    with urllib.request.urlopen(context["idp_token_endpoint"], body, SECONDS) as response:
        return json.load(response)["access_token"]


if __name__ == "__main__":
    print(exchanged(*sys.argv[1:]))
