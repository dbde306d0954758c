"""`python -m edge.service`: the HTTP service on STATS_REFRESH_HTTP_HOST and STATS_REFRESH_HTTP_PORT."""

from __future__ import annotations

import logging
import sys

from core.config import config
from core.errors import OperatorError
from edge.service.app import Service
from edge.service.server import serve


def main() -> None:
    """Run until SIGTERM. Exits with a line on stderr where something is set wrong."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        service = Service(config())
    except OperatorError as error:
        sys.exit(f"stats-refresh: {error}")
    serve(service, config())


if __name__ == "__main__":
    main()
