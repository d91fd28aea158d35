"""A logging proxy to the real API: bytes both ways, as they come.

The learner's key arrives in the request's headers and goes on in them; it is kept
nowhere. Only headers that concern one connection are left out, and the answer is asked
for uncompressed, so that the log can be read. Outgoing proxies from the environment
(HTTPS_PROXY) are not used: the real API must be reachable directly.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Generator
from urllib.parse import urlsplit

from kit import sse
from kit.exchange import Answer, Request, error_answer, status_problem, summary
from kit.wirelog import WireLog

CONNECT_SECONDS = 20.0
READ_SECONDS = 600.0  # between two pieces, as in the SDK
MAX_LOGGED = 32 * 1024 * 1024  # bytes of one stream

UNSENDABLE = (http.client.InvalidURL, UnicodeError)

# RFC 9110, section 7.6.1, and what this side of the proxy says anew.
ONE_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
STREAM_HOP = ONE_HOP | {"content-length"}
NOT_FORWARDED = ONE_HOP | {"host", "content-length", "expect", "accept-encoding"}


class LiveApi:
    """Forwards every request to one address, for example https://api.anthropic.com.

    Raises OSError for an address that is no http or https URL.
    """

    def __init__(self, upstream: str, log: WireLog) -> None:
        self._log = log
        try:
            self._url = urlsplit(upstream)
            usable = self._url.scheme in ("http", "https") and self._url.hostname
            self._port = self._url.port
        except ValueError:
            usable = None
        if not usable:
            raise OSError(f"{upstream!r} is no http or https address of an API")
        self._host = str(self._url.hostname)
        self._tls = ssl.create_default_context()

    def answer(self, request: Request) -> Answer:
        """What the real API says; a 502 api_error when it cannot be reached."""
        started = time.perf_counter()
        connection = self._connection()
        try:
            response = self._forward(request, connection)
            kind = response.getheader("content-type", "")
            if kind.startswith("text/event-stream"):
                headers = _passed_on(response.getheaders(), STREAM_HOP)
                stream = self._relay(request, response, connection, started)
                return Answer(response.status, headers, stream=stream)
            body = response.read()
        except UNSENDABLE:
            connection.close()
            return self._failed(request, 400, "Bad request target or header", started)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return self._failed(request, 502, self._sentence(error), started)
        connection.close()
        status = response.status
        found = _error_in(body) if status >= 400 else None
        self._log.write(request, status, body, started=started, error=found)
        headers = _passed_on(response.getheaders(), ONE_HOP)
        return Answer(status, headers, body)

    def refuse(self, request: Request, status: int, message: str) -> Answer:
        """The answer to what is not forwarded, because it could not be read."""
        return self._failed(request, status, message, time.perf_counter())

    def _failed(
        self, request: Request, status: int, message: str, started: float
    ) -> Answer:
        problem = status_problem(status, message)
        answer, text = error_answer(problem), summary(problem)
        self._log.write(request, status, answer.body, started=started, error=text)
        return answer

    def _connection(self) -> http.client.HTTPConnection:
        if self._url.scheme == "http":
            return http.client.HTTPConnection(
                self._host, self._port, timeout=CONNECT_SECONDS
            )
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=CONNECT_SECONDS, context=self._tls
        )

    def _forward(
        self, request: Request, connection: http.client.HTTPConnection
    ) -> http.client.HTTPResponse:
        """Send the request on, its body byte for byte, and wait for the answer's head.

        Raises OSError or HTTPException, UNSENDABLE for what HTTP cannot carry.
        """
        connection.connect()
        connection.sock.settimeout(READ_SECONDS)
        target = self._url.path.rstrip("/") + request.target
        connection.putrequest(request.method, target, skip_accept_encoding=True)
        for name, value in _passed_on(request.fields, NOT_FORWARDED):
            connection.putheader(name, value.encode("latin-1"))
        connection.putheader("accept-encoding", "identity")
        if request.raw or request.method == "POST":
            connection.putheader("content-length", str(len(request.raw)))
        connection.endheaders(request.raw or None)
        return connection.getresponse()

    def _relay(
        self,
        request: Request,
        response: http.client.HTTPResponse,
        connection: http.client.HTTPConnection,
        started: float,
    ) -> Generator[bytes, None, None]:
        """The pieces of a stream as they come; its end, good or bad, is logged.

        Raises OSError where the real API broke off.
        """
        seen = bytearray()
        error = None
        try:
            while piece := response.read1(65536):
                seen += piece[: MAX_LOGGED - len(seen)]
                yield piece
            if response.length:
                raise http.client.IncompleteRead(b"", response.length)
        except GeneratorExit:
            error = "The client went away before the end of the stream."
            raise
        except (OSError, http.client.HTTPException) as broken:
            error = self._sentence(broken)
            raise ConnectionError(error) from broken
        finally:
            connection.close()
            body = _assembled(bytes(seen))
            self._log.write(
                request,
                response.status,
                body,
                started=started,
                stream=True,
                error=error or _error_in(body),
            )

    def _sentence(self, error: Exception) -> str:
        """What went wrong with the real API, in a plain sentence."""
        if isinstance(error, ssl.SSLCertVerificationError):
            return (
                f"The certificate of {self._host} could not be verified "
                f"({error.verify_message}). If Python has no certificates of its own, "
                "set SSL_CERT_FILE to a file that has them."
            )
        if isinstance(error, TimeoutError):
            return f"The API at {self._host} did not answer in time."
        if isinstance(error, (http.client.IncompleteRead, http.client.BadStatusLine)):
            return f"The connection to {self._host} broke off before the answer's end."
        return f"The API at {self._host} could not be reached: {error}."


def _passed_on(
    fields: list[tuple[str, str]], left_out: frozenset[str]
) -> list[tuple[str, str]]:
    """The headers without those of one connection, also those it names itself."""
    named = {
        word.strip().lower()
        for name, value in fields
        if name.lower() == "connection"
        for word in value.split(",")
    }
    return [
        (name, value)
        for name, value in fields
        if name.lower() not in left_out and name.lower() not in named
    ]


def _error_in(raw: bytes) -> str | None:
    """Type and message of an error body, or of a stream that ended in an error."""
    try:
        return summary(json.loads(raw)["error"])
    except (ValueError, RecursionError, LookupError, TypeError):
        return None


def _assembled(raw: bytes) -> bytes:
    """The message a stream carried, as JSON; the stream itself if it carried none."""
    try:
        message = sse.assemble(sse.parse(raw))
    except (KeyError, TypeError, IndexError, AttributeError):
        return raw
    return sse.json_bytes(message) if message else raw
