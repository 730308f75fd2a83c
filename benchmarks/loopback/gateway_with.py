"""The whole gateway over one HTTP client: ``gateway_with.py CLIENT serve --config FILE --port PORT``."""

import sys

import pointsman.gateway.upstream
from loopback.http_clients import CLIENTS
from pointsman.cli import main

if __name__ == "__main__":
    name = sys.argv.pop(1)
    if name != "ours":
        setattr(pointsman.gateway.upstream, "HttpClient", CLIENTS[name])  # noqa: B010 - it exports no such name
    main()
