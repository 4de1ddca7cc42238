"""The viewer in a browser on this machine: textual-serve, behind a door.

What is served reads a capture, writes files and may start servers, all in the user's name. So the page needs a token
that only the terminal shows, as Jupyter's does, and neither another host name (DNS rebinding) nor another site's script
(cross-site WebSocket hijacking, https://owasp.org/www-community/attacks/csrf) gets in.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from textual_serve.server import Server

HOST: Final = "127.0.0.1"
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Door(Server):
    """Serves `command`, a viewer for each page that is opened, to who has the token. `address` is the page's."""

    def __init__(self, command: str, port: int) -> None:
        super().__init__(command, host=HOST, port=port, title="capture-view")
        self._cookie = f"capture-view-{port}"  # cookies do not know of ports
        self._token = secrets.token_urlsafe(24)
        self.address = f"http://{HOST}:{port}/?token={self._token}"

    def initialize_logging(self) -> None:
        """Errors alone."""
        logging.basicConfig(level="ERROR")

    async def on_startup(self, app: web.Application) -> None:  # noqa: ARG002
        """Say where the page is, once it is there."""
        self._announcing = asyncio.create_task(self._announce())

    async def _announce(self) -> None:
        while True:
            try:
                _, writer = await asyncio.open_connection(HOST, self.port)
            except OSError:
                await asyncio.sleep(0.01)
                continue
            writer.close()
            break
        self.console.print(f"capture-view is at {self.address}", markup=False, highlight=False, soft_wrap=True)
        self.console.print("ctrl+c ends it", highlight=False)

    async def _make_app(self) -> web.Application:
        app: web.Application = await super()._make_app()
        app.middlewares.append(self._guard)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        own = f"{HOST}:{self.port}"
        if request.host != own or request.headers.get("Origin", f"http://{own}") != f"http://{own}":
            raise web.HTTPForbidden(text=f"capture-view answers to http://{own} only")
        given = request.query.get("token") or request.cookies.get(self._cookie, "")
        if not secrets.compare_digest(given.encode(), self._token.encode()):
            raise web.HTTPForbidden(text="the address in the terminal has the token that is missing here")
        response = await handler(request)
        if not response.prepared:
            response.set_cookie(self._cookie, self._token, httponly=True, samesite="Strict")
            # the page asks nobody else for anything
            response.headers["Content-Security-Policy"] = (
                f"default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob: ws://{own}"
            )
        return response
