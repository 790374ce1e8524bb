"""An application to serve."""

from __future__ import annotations

from aiohttp import web

from bots.common.web_server import refuse_other_hosts


def application(listen_host: str = "", *allowed_hosts: str) -> web.Application:
    web_application = web.Application()

    async def hello(request: web.Request) -> web.Response:
        return web.Response(text="hello")

    web_application.router.add_get("/", hello)
    refuse_other_hosts(web_application, listen_host, allowed_hosts)
    return web_application
