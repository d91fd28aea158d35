"""Token figures of the practice server: an estimate, and a prompt cache.

Both read a request as the API does, in the order tools, system, messages. A prefix
is a number that each block changes on the way, so one pass over the history finds
every prefix of it.
"""

from __future__ import annotations

import json
import marshal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

BYTES_PER_TOKEN = 4
FILE_TOKENS = 1600  # a picture at full size, as documented; a guess for a PDF
LIFE = {"5m": 300.0, "1h": 3600.0}  # seconds, by the ttl of a cache_control
MAX_ENTRIES = 10_000

Step = tuple[int, int, Any]  # prefix, tokens up to here, cache_control or None


def estimate_tokens(body: dict[str, Any]) -> int:
    """Input tokens of tools, system and messages: about one per 4 bytes.

    An estimate that grows as the real count does; the same body, the same figure.
    """
    return sum(tokens for _, tokens, _ in _pieces(body))


def output_tokens(blocks: list[dict[str, Any]]) -> int:
    """Tokens of a reply by the same estimate; at least 1, as an empty reply costs."""
    return max(1, sum(_tokens(_bytes(block), block) for block in blocks))


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
    for data, size, mark in _pieces(body):
        prefix, tokens = hash((prefix, data)), tokens + size
        steps.append((prefix, tokens, mark))
    if steps and body.get("cache_control"):
        steps[-1] = (prefix, tokens, steps[-1][2] or body["cache_control"])
    return steps


def _pieces(body: dict[str, Any]) -> Iterator[tuple[bytes, int, Any]]:
    """Each block in order: its bytes without cache_control, its tokens, its mark."""
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


def _piece(place: Any, block: Any) -> tuple[bytes, int, Any]:
    mark = None
    if isinstance(block, dict) and "cache_control" in block:
        mark = block["cache_control"]
        block = {key: block[key] for key in block if key != "cache_control"}
    data = _bytes((place, block))
    return data, _tokens(data, block), mark


def _bytes(value: Any) -> bytes:
    """The same bytes for the same value, about as many as its JSON has."""
    try:
        return marshal.dumps(value, 2)  # takes a fifth of the time of JSON
    except ValueError:  # nested deeper than marshal goes
        return json.dumps(value).encode()


def _tokens(data: bytes, block: Any) -> int:
    """About one per 4 bytes; a picture or PDF counts by the piece instead."""
    text, files = len(data), 0
    if text > FILE_TOKENS:
        for base64 in _files(block):
            text, files = text - len(base64), files + 1
    return -(-text // BYTES_PER_TOKEN) + FILE_TOKENS * files


def _files(block: Any) -> Iterator[str]:
    """The base64 data of a block, and of the blocks inside a tool_result."""
    if isinstance(block, dict):
        source, content = block.get("source"), block.get("content")
        if isinstance(source, dict) and source.get("type") == "base64":
            yield str(source.get("data"))
        for inner in content if isinstance(content, list) else ():
            yield from _files(inner)


def _life(mark: Any) -> float:
    ttl = mark.get("ttl") if isinstance(mark, dict) else None
    return LIFE["1h"] if ttl == "1h" else LIFE["5m"]
