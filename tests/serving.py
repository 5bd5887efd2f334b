"""A server of a map in the same process, and the map that asks it."""

from __future__ import annotations

import pytest


def served(path):
    pytest.importorskip("fastapi", reason="needs the extra web")
    from fastapi.testclient import TestClient

    from displace.web.api import make_app
    from displace.web.server import ServerSettings

    return TestClient(make_app(ServerSettings(path, workers=0)))


def asking(server):
    from displace.client import Client
    from displace.maps.remote import RemoteMap

    client = Client("http://testserver")
    client.http = server
    return RemoteMap(client)
