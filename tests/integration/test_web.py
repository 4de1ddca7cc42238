"""`capture-view --web`: the viewer in a browser, and nobody else's page at its door."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import pytest

from helpers.processes import BIN
from helpers.viewer import SESSION


@dataclass
class Served:
    """A viewer that is served: its page with the token, and where it is without."""

    page: str
    base: str


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    port = free_port()
    words = [BIN / "capture-view", SESSION, "--web", "--port", str(port), "--frame", "11"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found is not None
    yield Served(found[0], f"http://127.0.0.1:{port}")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 0


@asynccontextmanager
async def browser() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:  # an IP address has cookies
        yield session


def test_the_viewer_comes_over_the_socket(served: Served) -> None:
    async def main() -> bytes:
        async with browser() as session:
            async with session.get(served.page) as page:
                assert page.status == 200
                assert "ws://127.0.0.1" in await page.text()
            async with session.get(f"{served.base}/static/js/textual.js") as script:
                assert script.status == 200
            socket = await session.ws_connect(
                f"{served.base}/ws?width=100&height=30", headers={"Origin": served.base}, max_msg_size=0
            )
            got = b""
            async with asyncio.timeout(60):
                async for message in socket:
                    got += message.data if isinstance(message.data, bytes) else b""
                    if b"PAYLOAD_CORRUPT" in got and b"frame 11" in got:
                        break
            await socket.close()
            return got

    assert b"Calls" in asyncio.run(main())


@pytest.mark.parametrize(
    ("path", "headers", "says"),
    [
        ("", {}, "token"),
        ("/?token=guessed", {}, "token"),
        ("/static/js/textual.js", {}, "token"),
        ("/ws", {}, "token"),
        ("/?token=é", {}, "token"),
        ("PAGE", {"Host": "evil.example"}, "answers to"),
        ("PAGE", {"Origin": "http://evil.example"}, "answers to"),
        ("PAGE", {"Origin": "null"}, "answers to"),
    ],
)
def test_who_has_no_business_here_is_sent_away(path: str, headers: dict[str, str], says: str, served: Served) -> None:
    async def main() -> tuple[int, str]:
        async with browser() as session:
            address = served.page if path == "PAGE" else served.base + path
            async with session.get(address, headers=headers) as answer:
                return answer.status, await answer.text()

    status, text = asyncio.run(main())
    assert status == 403
    assert says in text


def test_another_sites_script_has_no_socket_even_with_the_cookie(served: Served) -> None:
    async def main() -> None:
        async with browser() as session:
            async with session.get(served.page) as page:
                cookie = page.headers["Set-Cookie"]
            assert "HttpOnly" in cookie
            assert "SameSite=Strict" in cookie
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(f"{served.base}/ws", headers={"Origin": "http://127.0.0.1:1"})
            assert refused.value.status == 403

    asyncio.run(main())


def test_it_listens_on_this_machine_alone(served: Served) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent: this tells the address that other machines see
            outside = probe.getsockname()[0]
        except OSError:
            pytest.skip("this machine has no other address")
    with socket.socket() as caller:
        assert caller.connect_ex((outside, int(served.base.rpartition(":")[2]))) != 0


def test_a_port_that_is_taken_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        words = [BIN / "capture-view", SESSION, "--web", "--port", port]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert f"cannot serve on port {port}" in done.stderr
    assert "Traceback" not in done.stderr
