"""HTTP/1.1 on this machine only: requests in, answers out, whatever a client sends.

The standard library does the parsing. This module adds what a server that nothing may
bring down needs: limits in size and time, bodies in chunks, errors in the API's shape,
one write per answer, and a close that ends the open connections too.
"""

from __future__ import annotations

import io
import re
import socket
import socketserver
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol, cast

from kit.exchange import Answer, Request
from kit.protocol import MAX_BODY

ADDRESS = "127.0.0.1"

IDLE_SECONDS = 300.0  # an open connection between two requests
HEAD_SECONDS = 10.0  # request line and headers, from the first byte on
BODY_SECONDS = 60.0
SEND_SECONDS = 60.0
LINGER_SECONDS = 3.0  # reading on after an early refusal, so that it arrives

# A web page that renamed its own host to this address must not reach the server.
LOCAL_HOST = re.compile(r"(127\.0\.0\.1|localhost)(:\d*)?", re.IGNORECASE)
LENGTH = re.compile(r"[0-9]{1,15}")
CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(;.*)?\r?\n")


class App(Protocol):
    """What answers the requests. Both methods run on many threads at once."""

    def answer(self, request: Request) -> Answer: ...

    def refuse(self, request: Request, status: int, message: str) -> Answer:
        """The answer to a request that could not be read or that crashed answer()."""


class Refused(Exception):
    """A request that is not read to its end: (status, message)."""


class Listener(socketserver.ThreadingTCPServer):
    """Serves an App on 127.0.0.1, a daemon thread per connection, until close()."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, app: App, port: int = 0) -> None:
        self.app = app
        self._closing = False
        self._open: set[socket.socket] = set()
        self._changed = threading.Condition()
        super().__init__((ADDRESS, port), Handler)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def close(self) -> None:
        """Stop listening and end every open connection. A second call does nothing."""
        if self._closing:
            return
        self._closing = True
        with suppress(OSError):  # wakes the thread that waits for a connection
            socket.create_connection((ADDRESS, self.port), 1).close()
        self._thread.join()
        self.server_close()
        with self._changed:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._changed.wait_for(lambda: not self._open, timeout=2)

    def _accept(self) -> None:
        while not self._closing:
            self.handle_request()

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError:
            time.sleep(0.01)  # out of file descriptors: do not spin
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._changed:
            self._open.discard(request)
            self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: what ends here is a client that went away."""


class TimedReader(io.RawIOBase):
    """The bytes of a socket; TimeoutError once the time allowed is over."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.allow(IDLE_SECONDS)

    def allow(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(max(0.001, self._until - time.monotonic()))
        return self._connection.recv_into(buffer)


class Handler(BaseHTTPRequestHandler):
    """One connection. Leaves it open only after a request that was read to its end."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    rbufsize = 0  # rfile is replaced in setup()

    def setup(self) -> None:
        super().setup()
        self.app = cast(Listener, self.server).app
        self._unread = False
        self._timed = TimedReader(self.connection)
        self.rfile.close()
        self.rfile = io.BufferedReader(self._timed, 65536)

    def handle(self) -> None:
        with suppress(OSError):
            super().handle()
            if self._unread:
                self._linger()

    def handle_one_request(self) -> None:
        self.close_connection = True
        self._timed.allow(IDLE_SECONDS)
        if cast(io.BufferedReader, self.rfile).peek(1):
            self._timed.allow(HEAD_SECONDS)
            super().handle_one_request()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on standard error: it belongs to the learner."""

    def send_error(
        self, code: int, message: str | None = None, explain: str | None = None
    ) -> None:
        """What the standard library found wrong, in the application's words."""
        code = 405 if code == HTTPStatus.NOT_IMPLEMENTED else code
        request = Request(self.command or "", self.path if self.command else "")
        self._refuse(request, code, message or HTTPStatus(code).phrase)

    def _serve(self) -> None:
        request = Request(self.command, self.path, self.headers.items())
        try:
            self._check_head()
            request.raw = self._body()
        except Refused as refused:
            self._refuse(request, *refused.args)
            return
        try:
            answer = self.app.answer(request)
        except Exception as error:
            answer = self.app.refuse(request, 500, f"Internal error: {error!r}")
        self._send(answer)

    do_GET = do_HEAD = do_POST = _serve
    do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _serve

    def _refuse(self, request: Request, status: int, message: str) -> None:
        self.close_connection = self._unread = True
        self._send(self.app.refuse(request, status, message))

    def _check_head(self) -> None:
        """Raise Refused for a head that is not clear, or not meant for this machine."""
        # The parser takes a bad line and all after it for a body, without an error.
        if self.headers.get_payload():
            raise Refused(400, "Bad header line")
        hosts = self.headers.get_all("host", [])
        if len(hosts) > 1 or not self.path.startswith("/"):
            raise Refused(400, "Bad Host header or request target")
        if hosts and not LOCAL_HOST.fullmatch(hosts[0].strip()):
            raise Refused(403, f"Requests to {hosts[0]!r} are not served here")

    def _body(self) -> bytes:
        """The whole body, at most MAX_BODY bytes. Raises Refused."""
        lengths = set(self.headers.get_all("content-length", []))
        codings = self.headers.get_all("transfer-encoding", [])
        self._timed.allow(BODY_SECONDS)
        try:
            if codings:
                if lengths or [c.strip().lower() for c in codings] != ["chunked"]:
                    raise Refused(400, "Bad Transfer-Encoding header")
                return b"".join(self._chunks())
            if not lengths:
                return b""
            length = LENGTH.fullmatch(lengths.pop().strip())
            if lengths or not length:
                raise Refused(400, "Bad Content-Length header")
            return self._exactly(_within(int(length[0]), MAX_BODY))
        except TimeoutError:
            raise Refused(408, "The request body did not arrive in time") from None

    def _chunks(self) -> Iterator[bytes]:
        room = MAX_BODY
        while True:
            size = CHUNK_SIZE.fullmatch(self.rfile.readline(1024))
            if not size:
                raise Refused(400, "Bad chunk in the request body")
            length = _within(int(size[1], 16), room)
            if not length:
                break
            room -= length
            yield self._exactly(length)
            if self._exactly(2) != b"\r\n":
                raise Refused(400, "Bad chunk in the request body")
        for _ in range(100):
            if self.rfile.readline(65536) in (b"\r\n", b"\n"):
                return
        raise Refused(400, "Bad trailer after the request body")

    def _exactly(self, length: int) -> bytes:
        data = self.rfile.read(length)
        if len(data) < length:
            raise Refused(400, "The request body ended before its announced length")
        return data

    def _send(self, answer: Answer) -> None:
        """Send head and body in one write, or a stream piece by piece."""
        pieces, headers = answer.stream, list(answer.headers)
        names = {name.lower() for name, _ in headers}
        chunked = pieces is not None and self.request_version == "HTTP/1.1"
        if chunked:
            headers.append(("transfer-encoding", "chunked"))
        elif pieces is not None:
            self.close_connection = True
        elif "content-length" not in names:
            headers.append(("content-length", str(len(answer.body))))
        if "date" not in names:
            headers.append(("date", self.date_time_string()))
        if self.close_connection:
            headers.append(("connection", "close"))
        elif self.request_version == "HTTP/1.0":
            headers.append(("connection", "keep-alive"))
        head = _head(answer.status, headers)
        if self.command == "HEAD":
            self._write(head)
        elif pieces is None:
            self._write(head + answer.body)
        elif isinstance(pieces, list):
            self._write(head + b"".join(_framed(pieces, chunked)))
        else:
            # The head waits for the first piece: a generator that was never started
            # would not do its cleaning up.
            with closing(pieces):
                for data in _framed(pieces, chunked):
                    self._write(head + data)
                    head = b""

    def _write(self, data: bytes) -> None:
        self.connection.settimeout(SEND_SECONDS)
        self.connection.sendall(data)

    def _linger(self) -> None:
        """Read what still comes: closing at once would throw away the answer."""
        self.connection.shutdown(socket.SHUT_WR)
        until = time.monotonic() + LINGER_SECONDS
        self.connection.settimeout(LINGER_SECONDS)
        while time.monotonic() < until and self.connection.recv(1 << 20):
            pass


PHRASES = {status.value: status.phrase for status in HTTPStatus}


def _head(status: int, headers: list[tuple[str, str]]) -> bytes:
    lines = [f"HTTP/1.1 {status} {PHRASES.get(status, 'Error')}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")


def _within(length: int, room: int) -> int:
    if length > room:
        raise Refused(413, "Request exceeds the maximum size")
    return length


def _framed(pieces: Iterable[bytes], chunked: bool) -> Iterator[bytes]:
    for piece in pieces:
        if piece:
            yield b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece
    if chunked:
        yield b"0\r\n\r\n"
