"""Token figures of the practice server: an estimate, and a prompt cache.

Both read a request as the API does, in the order tools, system, messages. A prefix
is a number that each block changes on the way, so one pass over the history finds
every prefix of it.
"""

from __future__ import annotations

import marshal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

BYTES_PER_TOKEN = 4
LIFE = {"5m": 300.0, "1h": 3600.0}  # seconds, by the ttl of a cache_control
MAX_ENTRIES = 10_000

Step = tuple[int, int, Any]  # prefix, tokens up to here, cache_control or None


def estimate_tokens(body: dict[str, Any]) -> int:
    """Input tokens of tools, system and messages: about one per 4 bytes.

    An estimate that grows as the real count does; the same body, the same figure.
    """
    return sum(_tokens(data) for data, _ in _pieces(body))


def output_tokens(blocks: list[dict[str, Any]]) -> int:
    """Tokens of a reply by the same estimate; at least 1, as an empty reply costs."""
    return max(1, sum(_tokens(marshal.dumps(block, 2)) for block in blocks))


class PrefixCache:
    """The prefixes that requests marked with cache_control, each for its life time.

    An entry is made at each breakpoint: a block that carries cache_control, and the
    last block of a request with a top-level cache_control. It lives 5 minutes (1 hour
    with ttl "1h") after its last use. Simpler than the real API in two ways: that one
    caches nothing below a minimum (1024 tokens and more, by model) and looks back 20
    blocks from a breakpoint; this one caches from the first token and looks back all
    the way.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: dict[int, tuple[float, float]] = {}  # prefix -> (end, life)
        self._lock = threading.Lock()

    def usage_for(
        self, body: dict[str, Any], output_blocks: list[dict[str, Any]]
    ) -> dict[str, int]:
        """The usage dict of this reply, in tokens; remembers the breakpoints.

        The three input figures add up to estimate_tokens(body), cached or not.
        """
        steps = _steps(body)
        last = max((at for at, step in enumerate(steps) if step[2]), default=-1)
        marked = steps[last][1] if last >= 0 else 0
        with self._lock:
            now = self._clock()
            read = self._read(steps[: last + 1], now)
            for prefix, _, mark in steps:
                if mark:
                    self._keep(prefix, _life(mark), now)
        return {
            "input_tokens": (steps[-1][1] if steps else 0) - marked,
            "cache_creation_input_tokens": marked - read,
            "cache_read_input_tokens": read,
            "output_tokens": output_tokens(output_blocks),
        }

    def _read(self, steps: list[Step], now: float) -> int:
        """Tokens of the longest prefix that is still alive; its life starts again."""
        for prefix, tokens, _ in reversed(steps):
            end, life = self._entries.get(prefix, (now, 0.0))
            if end > now:
                self._keep(prefix, life, now)
                return tokens
        return 0

    def _keep(self, prefix: int, life: float, now: float) -> None:
        """Put an entry at the young end; the oldest ones make room."""
        self._entries.pop(prefix, None)
        self._entries[prefix] = (now + life, life)
        while len(self._entries) > MAX_ENTRIES:
            del self._entries[next(iter(self._entries))]


def _steps(body: dict[str, Any]) -> list[Step]:
    """Every prefix of a request; a model reads only what it cached itself."""
    prefix, tokens = hash(body.get("model")), 0
    steps: list[Step] = []
    for data, mark in _pieces(body):
        prefix, tokens = hash((prefix, data)), tokens + _tokens(data)
        steps.append((prefix, tokens, mark))
    if steps and body.get("cache_control"):
        steps[-1] = (prefix, tokens, steps[-1][2] or body["cache_control"])
    return steps


def _pieces(body: dict[str, Any]) -> Iterator[tuple[bytes, Any]]:
    """Each block in order as (bytes without its cache_control, its cache_control)."""
    for tool in body.get("tools") or ():
        yield _piece("tool", tool)
    for block in _blocks(body.get("system")):
        yield _piece("system", block)
    for message in body.get("messages") or ():
        for block in _blocks(message.get("content")):
            yield _piece(message.get("role"), block)


def _blocks(content: Any) -> list[Any]:
    """A string is short for one text block, for the cache too."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content or []


def _piece(place: Any, block: Any) -> tuple[bytes, Any]:
    mark = None
    if isinstance(block, dict) and "cache_control" in block:
        mark = block["cache_control"]
        block = {key: block[key] for key in block if key != "cache_control"}
    # marshal: as long as JSON within a few percent, in a fifth of the time.
    return marshal.dumps((place, block), 2), mark


def _life(mark: Any) -> float:
    ttl = mark.get("ttl") if isinstance(mark, dict) else None
    return LIFE["1h"] if ttl == "1h" else LIFE["5m"]


def _tokens(data: bytes) -> int:
    return -(-len(data) // BYTES_PER_TOKEN)
