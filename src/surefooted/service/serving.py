"""Runs the application: on which address, and how it ends."""

import asyncio
import ipaddress
import signal
import socket
from types import FrameType

import uvicorn
from fastapi import FastAPI

from surefooted.errors import SurefootedError
from surefooted.live.store import Store
from surefooted.service import tokens
from surefooted.service.protocol import Prompt

GRACE = 20  # seconds for requests under way when the service ends
IDLE = 75  # seconds for which a connection without requests is kept; longer than most proxies keep theirs
BACKLOG = 512  # connections that wait to be accepted


def is_local(host: str) -> bool:
    """Whether an address can only be reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_address(store: Store, host: str) -> None:
    """Refuse an address that others can reach, as long as there is no token."""
    if not is_local(host) and not tokens.exist(store):
        raise SurefootedError(
            f"{host} can be reached from other machines, and the store has no valid token. Create one first: "
            f"surefooted token create NAME --role administer --store {store.name}"
        )


class Server(uvicorn.Server):
    """A server that ends its streams of events first when it is told to end."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGINT or SIGTERM: answer what was asked, and end with code 0; a second SIGINT ends it at once."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.end()

    def end(self) -> None:
        """Take no more requests, end all streams, answer what was asked, and return from `run`."""
        held = self.config.app.state.context  # type: ignore[union-attr]
        held.stop()
        self.should_exit = True


def server(app: FastAPI, host: str = "127.0.0.1", port: int = 8000) -> Server:
    """The server of an application; `run` blocks until a signal ends it."""
    config = uvicorn.Config(
        app, host=host, port=port, log_config=None, access_log=False, server_header=False, date_header=False,
        ws="none", timeout_keep_alive=IDLE, timeout_graceful_shutdown=GRACE, backlog=BACKLOG, proxy_headers=False,
        h11_max_incomplete_event_size=32_768, http=Prompt,
    )  # fmt: skip
    return Server(config)


def listening(host: str, port: int) -> socket.socket:
    """A socket on that address; an error that says so if it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio sends at once only if TCP is said
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(BACKLOG)  # from now on, whoever connects is not refused
    except OSError as error:
        made.close()
        raise SurefootedError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from error
    return made


def run(app: FastAPI, made: socket.socket) -> None:
    """Serve on a socket until a signal ends it."""
    running = server(app)
    try:
        asyncio.run(running.serve(sockets=[made]))
    except KeyboardInterrupt:
        pass
    finally:
        made.close()


def has_tokens(store: Store) -> bool:
    """Whether anybody can use the service."""
    return tokens.exist(store)
