"""What the HTTP service of a stack checks tokens with: as configured, else made up and kept in a private file."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from core.config import Config
from core.errors import OperatorError
from embedded.run_folder import write_private

HTTP_SECRETS_FILE = "http.json"


@dataclass(frozen=True)
class HttpSecrets:
    """The keys of a stack's HTTP service."""

    jwt_secret: str | None
    """None where the tokens are checked by public keys."""
    service_token: str
    jwks: str | None
    file: Path
    """Where they can be read, by its owner alone."""

    def environment(self) -> Mapping[str, str]:
        """Return the variables of the service."""
        given = {"JWT_SECRET": self.jwt_secret, "SERVICE_TOKEN": self.service_token, "JWKS": self.jwks}
        return {f"STATS_REFRESH_{name}": value or "" for name, value in given.items()}


def secrets_of_http(config: Config, file: Path) -> HttpSecrets:
    """Return the configured secrets; those that are missing come from `file`, where a first start writes them."""
    made_up = _kept(file) or {name: secrets.token_urlsafe(32) for name in ("jwt_secret", "service_token")}
    jwks = None if config.jwks is None else str(config.jwks.absolute())
    jwt_secret = config.jwt_secret or (None if jwks else made_up["jwt_secret"])
    found = HttpSecrets(jwt_secret, config.service_token or made_up["service_token"], jwks, file)
    write_private(file, json.dumps({name: asdict(found)[name] for name in ("jwt_secret", "service_token")}))
    return found


def _kept(file: Path) -> dict[str, str] | None:
    try:
        kept = json.loads(file.read_text())
        return {
            name: str(kept[name] or secrets.token_urlsafe(32)) for name in ("jwt_secret", "service_token")
        }
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OperatorError(
            f"{file} can't be read ({type(error).__name__}): remove it for new secrets"
        ) from error
