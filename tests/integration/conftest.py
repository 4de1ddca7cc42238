"""What the integration tests share: a recorded Session of the opaque service, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.odd import record_odd
from helpers.processes import helper_server, running
from helpers.service import converse


@pytest.fixture(scope="session")
def opaque_capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Calls of all four kinds, recorded by a server process; clients that wait for each answer, and that do not."""
    path = tmp_path_factory.mktemp("opaque") / "a.cap"
    with running(helper_server("opaque_server", path)) as server:
        converse(server.address, "Bidi", [b"first", b"second", b"third"], metadata=(("tenant", "a"),))
        converse(server.address, "Unary", [b"abort with words \xc3\xbc"])
        converse(server.address, "ServerStreaming", [b"a,b,,c"])
        converse(server.address, "ClientStreaming", [b"headers h", b"trailers t"])
        converse(server.address, "Missing", [b"x"])
    return path


@pytest.fixture(scope="session")
def odd_capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Calls of odd.v1.Odd, whose messages have a schema."""
    return record_odd(tmp_path_factory.mktemp("odd") / "odd.cap")
