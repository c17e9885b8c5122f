"""Signed tokens that a real authorization server would never issue, and keys that change."""

import base64
import hmac
import json
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import RSAAlgorithm

from tests.gateway.requests import Clock, refused, request
from tests.gateway.signing import AUDIENCE, Signer, signing
from tests.inside.config import setting
from tests.inside.gateway import (
    AGAIN_SECONDS,
    KEEP_SECONDS,
    LAST_RESORT_SECONDS,
    AccessControl,
    AccessTokens,
    Issuer,
    Principal,
    Refusal,
)
from toolbus.config import Secrets

pytestmark = pytest.mark.anyio


@pytest.fixture
def signer() -> Iterator[Signer]:
    with signing() as signer:
        signer.add_key("RS256")
        yield signer


class Door:
    """An access control for the tokens of a signer; nobody waits at it."""

    def __init__(self, signer: Signer, **oauth: Any) -> None:
        self.clock = Clock()
        settings = {"issuer": signer.issuer, "audience": AUDIENCE, **oauth}
        views: dict[str, Any] = {"default": {}, "research": {}}
        serve = setting("serve", {"auth": {"oauth": settings}, "views": views})
        assert serve.auth.oauth is not None
        self.tokens = AccessTokens(
            serve.auth.oauth, Issuer(serve.auth.oauth, Secrets(), clock=self.clock), "default"
        )
        self._made = lambda: AccessControl(serve, tokens=self.tokens)

    async def admit(self, token: str) -> Principal | Refusal:
        return await self._made().admit(request(token))


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
async def test_a_signed_token_is_accepted(signer: Signer, algorithm: str) -> None:
    signer.published.clear()
    signer.add_key(algorithm)
    found = await Door(signer).admit(signer.token(algorithm))
    assert isinstance(found, Principal)
    assert (found.kind, found.name, found.issuer) == ("subject", "ann", signer.issuer)
    assert (found.user, found.view) == ("ann", "default")


def unsigned(signer: Signer) -> str:
    """The token, with `alg: none` and no signature."""
    header = base64.urlsafe_b64encode(json.dumps({"alg": "none", "kid": "RS256"}).encode()).rstrip(b"=")
    return f"{header.decode()}.{signer.token().split('.')[1]}."


def signed_with_the_public_key(signer: Signer) -> str:
    """The public key taken for a shared secret."""
    public = signer.keys["RS256"].public_key()
    secret = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "kid": "RS256"}).encode()).rstrip(b"=")
    content = f"{header.decode()}.{signer.token().split('.')[1]}"
    signature = base64.urlsafe_b64encode(hmac.digest(secret, content.encode(), "sha256"))
    return f"{content}.{signature.decode().rstrip('=')}"


def signed_by_another(signer: Signer) -> str:
    """A key of somebody else under a known name."""
    public = signer.add_key("RS256", "other")
    signer.published.remove(public)
    return signer.token("other", algorithm="RS256", headers={"kid": "RS256"})


def with_its_own_key(signer: Signer) -> str:
    """A key inside the token."""
    public = signer.add_key("RS256", "own")
    signer.published.remove(public)
    return signer.token("own", algorithm="RS256", headers={"jwk": public, "kid": "RS256"})


def shared_secret(signer: Signer) -> str:
    """A shared secret among the published keys."""
    secret = b"s" * 64
    signer.keys["oct"] = secret
    encoded = base64.urlsafe_b64encode(secret).rstrip(b"=").decode()
    signer.published.append({"kty": "oct", "k": encoded, "kid": "oct"})
    return signer.token("oct", algorithm="HS256")


def for_encryption(signer: Signer) -> str:
    """A key that is published for encryption."""
    signer.add_key("RS256", "enc")["use"] = "enc"
    return signer.token("enc", algorithm="RS256")


@pytest.mark.parametrize(
    "forge",
    [
        unsigned,
        signed_with_the_public_key,
        signed_by_another,
        with_its_own_key,
        shared_secret,
        for_encryption,
    ],
)
async def test_a_forged_signature(signer: Signer, forge: Any) -> None:
    """It is refused."""
    assert refused(await Door(signer).admit(forge(signer)))[0] == 401


async def test_a_key_that_is_short_enough_to_be_computed(signer: Signer) -> None:
    """Its signatures are refused, whichever version of PyJWT checks them."""
    signer.keys["weak"] = key = rsa.generate_private_key(65537, 1024)
    public = {**json.loads(RSAAlgorithm.to_jwk(key.public_key())), "kid": "weak"}
    signer.published.append(public)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyJWT warns, too
        token = signer.token("weak", algorithm="RS256")
    problem = "the token is signed with an RSA key of less than 2048 bits"
    assert refused(await Door(signer).admit(token)) == (401, problem)
    assert isinstance(await Door(signer).admit(signer.token()), Principal)


@pytest.mark.parametrize("parts", [{"e": "AQ"}, {"n": "AA"}, {"n": "?"}, {"n": 5}, {"e": None}])
async def test_a_key_that_is_not_one(signer: Signer, parts: dict[str, Any]) -> None:
    """It lets nobody in, and the gateway answers."""
    signer.published[0].update(parts)
    assert refused(await Door(signer).admit(signer.token(headers={"kid": "RS256"}, sub="eve")))[0] == 401


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": 1}, "the token has expired"),
        ({"exp": None}, "the token is not valid"),
        ({"exp": True}, "the token has an invalid 'exp'"),
        ({"nbf": 32503680000}, "the token is not valid yet"),
        ({"iss": "https://other.example.com"}, "the token is of another issuer"),
        ({"iss": None}, "the token is not valid"),
        ({"aud": "https://other.example.com/mcp"}, "the token is for another audience"),
        ({"aud": f"{AUDIENCE}/"}, "the token is for another audience"),
        ({"aud": None}, "the token is not valid"),
        ({"aud": []}, "the token is not valid"),
        ({"sub": None}, "the token does not say whose it is"),
        ({"sub": ""}, "the token does not say whose it is"),
        ({"cnf": {"jkt": "x"}}, "the token is bound to a key (DPoP or mTLS), which is not supported"),
    ],
)
async def test_a_token_with_a_wrong_claim(signer: Signer, claims: dict[str, Any], reason: str) -> None:
    """It is refused with the reason."""
    found = await Door(signer).admit(signer.token(**claims))
    assert refused(found) == (401, reason)
    assert isinstance(found, Refusal)
    assert f'error_description="{reason}"'.replace("'", "") in found.headers["www-authenticate"].replace(
        "'", ""
    )


@pytest.mark.parametrize("headers", [{"typ": "dpop+jwt"}, {"typ": "secevent+jwt"}, {"crit": ["b64"]}])
async def test_another_kind_of_signed_document(signer: Signer, headers: dict[str, Any]) -> None:
    """It is not taken for an access token."""
    assert refused(await Door(signer).admit(signer.token(headers=headers)))[0] == 401


@pytest.mark.parametrize("text", ["a.b.c", "..", "eyJhbGciOiJSUzI1NiJ9..", "x" * 20_000, "opaque"])
async def test_what_is_not_a_token(signer: Signer, text: str) -> None:
    """It is refused without asking anybody."""
    assert refused(await Door(signer).admit(text))[0] == 401
    assert signer.asked.count("/jwks") <= 1


async def test_the_claim_that_names_the_user(signer: Signer) -> None:
    by_mail = Door(signer, user="email")
    found = await by_mail.admit(signer.token(email="ann@example.com"))
    assert isinstance(found, Principal)
    assert (found.name, found.user) == ("ann", "ann@example.com")
    assert refused(await by_mail.admit(signer.token()))[1] == "the token has no 'email', which names the user"
    nobody = await Door(signer, user="").admit(signer.token())
    assert isinstance(nobody, Principal)
    assert nobody.user == ""
    machine = await Door(signer).admit(signer.token(sub=None, client_id="bot"))
    assert isinstance(machine, Principal)
    assert (machine.kind, machine.name, machine.user) == ("client", "bot", "client:bot")


async def test_scopes_in_any_of_their_forms(signer: Signer) -> None:
    door = Door(signer, scopes={"write": "default", "read": "research"})
    forms: list[dict[str, Any]] = [
        {"scope": "openid read"},
        {"scope": None, "scp": ["read"]},
        {"scope": None, "scp": "a read"},
    ]
    for claims in forms:
        found = await door.admit(signer.token(**claims))
        assert isinstance(found, Principal)
        assert found.view == "research"
    # The first of the config decides.
    both = await door.admit(signer.token(scope="read write"))
    assert isinstance(both, Principal)
    assert both.view == "default"
    for scope in ("", "reader", "READ", None):
        found = await door.admit(signer.token(scope=scope))
        assert refused(found) == (403, "the subject 'ann' may not use any view")
        assert isinstance(found, Refusal)
        challenge = found.headers["www-authenticate"]
        assert 'error="insufficient_scope"' in challenge
        assert 'scope="write"' in challenge


async def test_a_new_key_of_the_issuer_is_found(signer: Signer) -> None:
    door = Door(signer)
    assert isinstance(await door.admit(signer.token()), Principal)
    signer.add_key("ES256")
    signer.published.pop(0)
    door.clock.pass_(AGAIN_SECONDS)
    assert isinstance(await door.admit(signer.token("ES256")), Principal)
    assert refused(await door.admit(signer.token(jti="new")))[1] == "the token is signed with an unknown key"


async def test_tokens_with_invented_keys(signer: Signer) -> None:
    """They cannot make the gateway send a request each."""
    door = Door(signer)
    for number in range(20):
        await door.admit(signer.token(headers={"kid": f"invented {number}"}))
    assert signer.asked.count("/jwks") == 1
    assert isinstance(await door.admit(signer.token()), Principal)


async def test_an_issuer_that_does_not_respond(signer: Signer, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody is admitted meanwhile, and it is not the client's fault."""
    signer.status = 500
    door = Door(signer)
    with caplog.at_level(logging.WARNING, "toolbus"):
        found = await door.admit(signer.token())
    assert refused(found) == (503, "the authorization server does not respond")
    assert isinstance(found, Refusal)
    assert found.headers["retry-after"]
    assert "HTTP 500" in caplog.text
    signer.status = 200
    assert refused(await door.admit(signer.token()))[0] == 503
    door.clock.pass_(AGAIN_SECONDS)
    assert isinstance(await door.admit(signer.token()), Principal)
    # Known keys count for a day.
    signer.status = 500
    door.clock.pass_(KEEP_SECONDS + 1)
    assert isinstance(await door.admit(signer.token(jti="a")), Principal)
    door.clock.pass_(LAST_RESORT_SECONDS)
    assert refused(await door.admit(signer.token(jti="b")))[0] == 503


async def test_metadata_of_another_issuer(signer: Signer) -> None:
    """Its keys are not used."""
    own, signer.issuer = signer.issuer, "https://somebody.example.com"
    door = Door(signer, issuer=own)
    assert refused(await door.admit(signer.token(iss=own)))[0] == 503


async def test_the_keys_may_be_elsewhere(signer: Signer) -> None:
    door = Door(signer, issuer="https://id.example.com", jwks_url=f"{signer.issuer}/jwks")
    found = await door.admit(signer.token(iss="https://id.example.com"))
    assert isinstance(found, Principal)
    assert signer.asked == ["/jwks"]
