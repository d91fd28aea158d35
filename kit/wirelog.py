"""The log of what went over the wire: one JSON line per exchange, and no key in it."""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

from kit.exchange import Request
from kit.sse import json_bytes

SECRET_HEADERS = ("x-api-key", "authorization", "proxy-authorization", "cookie")
CONTROL = re.compile(rb"[\x00-\x1f]")
MIN_SECRET = 12  # a shorter one is a stand-in such as "practice", not a key


class WireLog:
    """Appends to a file, for many threads; with path None it keeps nothing.

    A line holds time, n, method, path (without its query), status, request (the body),
    response (the body, or the message a stream carried), ms, stream, and error where
    there was one. Headers are never written. Raises OSError for a path that cannot be
    opened; a disk that is full later on does not stop the exchange.
    """

    def __init__(self, path: Path | None) -> None:
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._file = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab", buffering=0)

    def write(
        self,
        request: Request,
        status: int,
        response: bytes,
        *,
        started: float,
        checked: bool = False,
        stream: bool = False,
        error: str | None = None,
    ) -> None:
        """Add one line. started is a time.perf_counter() value; checked says that

        both bodies are known to be JSON, which saves reading a long one again.
        """
        if self._file is None:
            return
        facts: dict[str, object] = {
            "method": request.method,
            "path": request.path,
            "status": status,
            "ms": round((time.perf_counter() - started) * 1000, 3),
            "stream": stream,
        }
        if error is not None:
            facts["error"] = error
        line = b'%b,"request":%b,"response":%b}\n' % (
            json_bytes(facts)[1:-1],
            _as_json(request.raw, checked),
            _as_json(response, checked),
        )
        for secret in _secrets(request):
            line = line.replace(secret, b"[key]")
        with self._lock, suppress(OSError, ValueError):
            now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
            start = json_bytes({"time": now, "n": next(self._numbers)})[:-1]
            self._file.write(start + b"," + line)

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.close()


def _as_json(raw: bytes, checked: bool) -> bytes:
    """A body as one line of JSON: itself where it is that, else a string or null."""
    if not raw:
        return b"null"
    as_it_is = raw[:1] == b"{" and not CONTROL.search(raw)
    try:
        raw.decode()
        value = None if checked and as_it_is else json.loads(raw)
    except (ValueError, RecursionError):
        return json_bytes(raw.decode("utf-8", "replace"))
    return raw if as_it_is else json_bytes(value)


def _secrets(request: Request) -> list[bytes]:
    values = [request.headers.get(name, "") for name in SECRET_HEADERS]
    words = [value.rpartition(" ")[2] for value in values]
    secrets = [word for word in words if len(word) >= MIN_SECRET]
    return [secret.encode("utf-8", "replace") for secret in secrets]
