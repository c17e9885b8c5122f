"""The clients that the authorization server knows from the start."""

import json
from secrets import token_hex
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

_key = ec.generate_private_key(ec.SECP256R1())
KEY = _key.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
).decode()
"""The private key of the client `signer`."""
SECRET = f"s3cret {token_hex(8)}: + % and /"
"""The secret of the client `bot`; it has to be encoded."""
DOCUMENT = "https://client.example.com/toolbus.json"
"""The URL of a client's metadata document."""

_MACHINE: dict[str, Any] = {"grant_types": ["client_credentials"], "redirect_uris": [], "response_types": []}
CLIENTS: list[dict[str, Any]] = [
    {**_MACHINE, "client_id": "bot", "client_secret": SECRET},
    {
        **_MACHINE,
        "client_id": "signer",
        "token_endpoint_auth_method": "private_key_jwt",
        "token_endpoint_auth_signing_alg": "ES256",
        "jwks": {"keys": [json.loads(ECAlgorithm.to_jwk(_key.public_key()))]},
    },
]
DOCUMENTS: dict[str, Any] = {
    DOCUMENT: {
        "client_id": DOCUMENT,
        "client_name": "toolbus",
        "application_type": "native",
        "redirect_uris": ["http://127.0.0.1/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
}
