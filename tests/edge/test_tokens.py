"""Who gets in: every way in which a token can be wrong, and whose data a right one opens."""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from support.serving import SECRET, SERVICE_TOKEN

from core.config import Config
from core.errors import OperatorError
from edge.service.problems import Problem
from edge.service.tokens import Tokens, sign

ACCOUNT = str(uuid.uuid4())


def claims(**more: Any) -> dict[str, Any]:
    made = {"sub": ACCOUNT, "role": "authenticated", "exp": int(time.time()) + 60, **more}
    return {name: value for name, value in made.items() if value is not None}


def segment(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def by_secret() -> Tokens:
    return Tokens(Config(jwt_secret=SECRET, service_token=SERVICE_TOKEN))


def refused(tokens: Tokens, token: str | None) -> str:
    with pytest.raises(Problem) as problem:
        tokens.caller(None if token is None else f"Bearer {token}")
    assert problem.value.status == 401
    assert problem.value.headers == {"WWW-Authenticate": "Bearer"}
    return problem.value.detail


def signed(secret: str = SECRET, algorithm: str = "HS256", **more: Any) -> str:
    return jwt.encode(claims(**more), secret, algorithm)


REFUSED: dict[str, tuple[Callable[[], str | None], str]] = {
    "none": (lambda: None, "Send"),
    "empty": (lambda: "", "Send"),
    "no token": (lambda: "x", "is not valid"),
    "no parts": (lambda: "a.b.c", "is not valid"),
    "too long": (lambda: "x" * 9000, "too long"),
    "another secret": (lambda: signed("another secret that is just as long as it"), "is not valid"),
    "another algorithm": (lambda: signed(algorithm="HS512"), "is not valid"),
    "expired": (lambda: signed(exp=int(time.time()) - 5), "expired"),
    "not yet valid": (lambda: signed(nbf=int(time.time()) + 50), "not valid yet"),
    "without end": (lambda: signed(exp=None), "is not valid"),
    "no role": (lambda: signed(role=None), "is not valid"),
    "unknown role": (lambda: signed(role="postgres"), "role"),
    "no account": (lambda: signed(sub=None), "sub"),
    "account is no uuid": (lambda: signed(sub="me"), "sub"),
    "algorithm none": (
        lambda: f"{segment({'alg': 'none', 'typ': 'JWT'})}.{segment(claims())}.",
        "is not valid",
    ),
    "algorithm None": (lambda: f"{segment({'alg': 'None'})}.{segment(claims())}.", "is not valid"),
    "head is a list": (lambda: f"{segment([])}.{segment(claims())}.x", "is not valid"),
    "service token cut": (lambda: SERVICE_TOKEN[:-1], "is not valid"),
    "not ascii": (lambda: "\u00e9", "is not valid"),
}
"""What is sent, made when the test runs, and what the refusal says."""


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused(kind: str) -> None:
    token, detail = REFUSED[kind]
    assert detail in refused(by_secret(), token())


def test_a_good_token_under_another_scheme_opens_nothing() -> None:
    with pytest.raises(Problem) as problem:
        by_secret().caller(f"Basic {signed()}")
    assert problem.value.status == 401


def test_who_is_let_in_as_whom() -> None:
    tokens = by_secret()
    caller = tokens.caller(f"Bearer {sign(SECRET, uuid.UUID(ACCOUNT))}")
    assert (caller.role, str(caller.account), caller.is_operator) == ("authenticated", ACCOUNT, False)
    for given in (claims(role="admin"), claims(app_metadata={"role": "admin"})):
        admin = tokens.caller(f"bearer {jwt.encode(given, SECRET, 'HS256')}")
        assert json.loads(admin.identity().claims)["app_metadata"] == {"role": "admin"}
        assert admin.is_operator
    for token in (SERVICE_TOKEN, jwt.encode(claims(role="service_role"), SECRET, "HS256")):
        service = tokens.caller(f"Bearer {token}")
        assert service.operator_identity().role == "service_role"
        with pytest.raises(Problem):
            _ = service.account


def test_a_token_can_t_choose_its_algorithm(tmp_path: Path) -> None:
    rsa_key, ec_key = rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1())
    keys = [
        {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(rsa_key.public_key())), "kid": "one"},
        {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(ec_key.public_key())), "kid": "two"},
    ]
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": keys}))
    tokens = Tokens(Config(jwks=file))
    for key, algorithm, kid in ((rsa_key, "RS256", "one"), (ec_key, "ES256", "two")):
        good = jwt.encode(claims(), key, algorithm, headers={"kid": kid})
        assert str(tokens.caller(f"Bearer {good}").account) == ACCOUNT
    refused(tokens, jwt.encode(claims(), rsa_key, "RS256", headers={"kid": "two"}))
    refused(tokens, jwt.encode(claims(), rsa_key, "RS512", headers={"kid": "one"}))
    refused(tokens, jwt.encode(claims(), rsa_key, "RS256"))
    # The public key is known to everybody: used as a secret it must open nothing.
    public = rsa_key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head, body = segment({"alg": "HS256", "kid": "one"}), segment(claims())
    signature = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(
        f"{head}.{body}".encode(), public
    )
    refused(tokens, f"{head}.{body}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}")
    # And a signature by key where a secret is configured.
    refused(by_secret(), jwt.encode(claims(), rsa_key, "RS256"))


def test_what_is_set_wrong_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text('{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}')
    for config in (
        Config(jwks=tmp_path / "none.json"),
        Config(jwks=tmp_path / "keys.json"),
        Config(jwks=tmp_path / "keys.json", jwt_secret=SECRET),
    ):
        with pytest.raises(OperatorError, match="STATS_REFRESH_JWKS"):
            Tokens(config)
    refused(Tokens(Config()), sign(SECRET, uuid.uuid4()))
