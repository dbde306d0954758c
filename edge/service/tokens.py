"""Who calls: the bearer of a request, and the identity that its transactions take on."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import jwt

from core.config import Config
from core.errors import OperatorError
from edge.service.problems import Problem, unauthorized
from tasks.transaction import Identity, account, service

Role = Literal["authenticated", "admin", "service_role"]
_LONGEST_TOKEN = 8192
_ALGORITHM_OF_KEY = {"RSA": "RS256", "EC": "ES256"}


@dataclass(frozen=True)
class Caller:
    """The holder of a valid token."""

    role: Role
    user_id: UUID | None
    """The account; None for a service."""
    expires_at: float | None
    """Seconds since 1970; None for the service token, which does not end."""

    @property
    def is_operator(self) -> bool:
        """Tell whether it may see and do what is about all accounts."""
        return self.role in ("admin", "service_role")

    @property
    def account(self) -> UUID:
        """The account that it acts as. Raises a 403 where the token names none."""
        if self.user_id is None or self.role == "service_role":
            raise Problem(403, "This is for the token of an account.")
        return self.user_id

    def identity(self) -> Identity:
        """Return what its transactions act as. Raises a 403 where the token names no account."""
        return account(self.account, admin=self.role == "admin")

    def operator_identity(self) -> Identity:
        """Return the identity of an operator. Raises a 403 for everybody else."""
        if not self.is_operator:
            raise Problem(403, "Only services and administrators.")
        return self.identity() if self.role == "admin" else service()


class Tokens:
    """Checks bearers. The algorithm comes from what is configured, never from a token."""

    def __init__(self, config: Config) -> None:
        if config.jwt_secret is not None and config.jwks is not None:
            raise OperatorError("set STATS_REFRESH_JWT_SECRET or STATS_REFRESH_JWKS, not both")
        self._service_token = None if config.service_token is None else _digest(config.service_token)
        self._keys: Mapping[str | None, tuple[Any, str]] = {}
        if config.jwt_secret is not None:
            self._keys = {None: (config.jwt_secret, "HS256")}
        elif config.jwks is not None:
            self._keys = _keys_of_file(config.jwks)

    def caller(self, authorization: str | None) -> Caller:
        """Return who the Authorization header stands for. Raises a 401 Problem."""
        scheme, _, token = (authorization or "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise unauthorized("Send Authorization: Bearer with a token.")
        if len(token) > _LONGEST_TOKEN:
            raise unauthorized("The token is too long.")
        if self._service_token is not None and hmac.compare_digest(_digest(token), self._service_token):
            return Caller("service_role", None, None)
        return _caller_of(self._claims(token))

    def _claims(self, token: str) -> dict[str, Any]:
        try:
            key, algorithm = self._key(jwt.get_unverified_header(token).get("kid"))
            return jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                options={"require": ["exp", "role"], "verify_aud": False},
            )
        except jwt.ExpiredSignatureError as error:
            raise unauthorized("The token has expired.") from error
        except jwt.ImmatureSignatureError as error:
            raise unauthorized("The token is not valid yet.") from error
        except (jwt.InvalidTokenError, ValueError, TypeError) as error:
            # Not which of its parts is wrong: that would help to make one.
            raise unauthorized("The token is not valid.") from error

    def _key(self, kid: object) -> tuple[Any, str]:
        if not self._keys:
            raise unauthorized("This service has no key to check tokens with.")
        if None in self._keys:
            return self._keys[None]
        if kid is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        found = self._keys.get(kid) if isinstance(kid, str) else None
        if found is None:
            raise unauthorized("The token is not valid.")
        return found


def sign(secret: str, user_id: UUID, role: Role = "authenticated", seconds: int = 3600) -> str:
    """Return an HS256 token of `user_id` that is valid for that many seconds."""
    now = int(time.time())
    return jwt.encode({"sub": str(user_id), "role": role, "iat": now, "exp": now + seconds}, secret, "HS256")


def _caller_of(claims: Mapping[str, Any]) -> Caller:
    role = claims["role"]
    if role not in ("authenticated", "admin", "service_role"):
        raise unauthorized("The token's role is none of authenticated, admin and service_role.")
    if role == "service_role":
        return Caller(role, None, float(claims["exp"]))
    metadata = claims.get("app_metadata")
    if role == "authenticated" and isinstance(metadata, dict) and metadata.get("role") == "admin":
        role = "admin"
    try:
        user_id = UUID(claims["sub"])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise unauthorized("The token's sub is not an account.") from error
    return Caller(role, user_id, float(claims["exp"]))


def _digest(text: str) -> bytes:
    # Of one length, so that the comparison tells nothing of the length either.
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _keys_of_file(path: Path) -> dict[str | None, tuple[Any, str]]:
    """Return the keys by their id, each with the one algorithm that it is for."""
    try:
        keys = jwt.PyJWKSet.from_dict(json.loads(path.read_text())).keys
        found: dict[str | None, tuple[Any, str]] = {}
        for place, key in enumerate(keys):
            found[key.key_id or f"key {place}"] = (key.key, _ALGORITHM_OF_KEY[key.key_type or ""])
    except (OSError, ValueError, KeyError, AttributeError, jwt.PyJWTError) as error:
        raise OperatorError(
            f"STATS_REFRESH_JWKS: {path} is no key set of RSA or P-256 keys ({type(error).__name__})"
        ) from error
    return found
