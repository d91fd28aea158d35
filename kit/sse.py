"""Server-sent events of the Messages API: a message taken apart, and put together.

events() and encode() are what the server sends; parse() and assemble() read a
stream back, for the log of a live run. Pure functions over dicts and bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

Event = tuple[str, dict[str, Any]]

PIECE = 24  # characters of one delta
MAX_PIECES = 200  # per block: a long text comes in longer pieces, not in more


def json_bytes(value: object) -> bytes:
    """UTF-8 JSON in one line; escapes text that UTF-8 cannot hold (lone surrogates)."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def events(message: dict[str, Any]) -> Iterator[Event]:
    """(event, data) pairs that stream this message, in the API's order.

    The input counts are in both usages, the final output count in the last one.
    """
    usage = message["usage"]
    opening = message | {"content": [], "stop_reason": None, "stop_sequence": None}
    opening["usage"] = usage | {"output_tokens": min(1, usage["output_tokens"])}
    opening.pop("stop_details", None)
    yield _event("message_start", message=opening)
    yield _event("ping")
    for index, block in enumerate(message["content"]):
        yield from _block_events(index, block)
    ending = ("stop_reason", "stop_sequence", "stop_details")
    delta = {key: message[key] for key in ending if key in message}
    yield _event("message_delta", delta=delta, usage=usage)
    yield _event("message_stop")


def error_event(body: dict[str, Any]) -> Event:
    """The event that ends a stream in its middle: body is the API's error body."""
    return "error", body


def encode(event: Event) -> bytes:
    """One event as it goes over the wire."""
    name, data = event
    return b"event: %s\ndata: %s\n\n" % (name.encode(), json_bytes(data))


def parse(raw: bytes) -> Iterator[Event]:
    """The (event, data) pairs in the bytes of a stream; what is no JSON is left out."""
    for part in raw.replace(b"\r\n", b"\n").split(b"\n\n"):
        fields = dict(_field(line) for line in part.split(b"\n"))
        try:
            data = json.loads(fields.get(b"data", b""))
        except ValueError:
            continue
        if isinstance(data, dict):
            yield fields.get(b"event", b"").decode("utf-8", "replace"), data


def assemble(stream: Iterable[Event]) -> dict[str, Any]:
    """The message (or the error body) that a stream carried, as far as it came.

    Raises: nothing for a stream that breaks off; KeyError, TypeError or IndexError
    for events that are not the API's.
    """
    message: dict[str, Any] = {}
    partial: dict[int, str] = {}
    for name, data in stream:
        if name == "message_start":
            message = data["message"] | {"content": []}
        elif name == "content_block_start":
            message["content"].append(dict(data["content_block"]))
        elif name == "content_block_delta":
            _apply(data["delta"], message["content"], data["index"], partial)
        elif name == "message_delta":
            message.update(data["delta"])
            message["usage"] = message["usage"] | data.get("usage", {})
        elif name == "error":
            message = message | data
    for index, text in partial.items():
        message["content"][index]["input"] = _input(text)
    return message


def _event(name: str, **data: Any) -> Event:
    return name, {"type": name, **data}


def _block_events(index: int, block: dict[str, Any]) -> Iterator[Event]:
    """Start, deltas and stop of one block; a kind without deltas comes whole."""
    opening, deltas = block, []
    if block["type"] == "text":
        opening = block | {"text": ""}
        deltas = _deltas("text_delta", "text", block["text"])
    elif block["type"] == "tool_use":
        opening = block | {"input": {}}
        text = json.dumps(block["input"], ensure_ascii=False)
        deltas = _deltas("input_json_delta", "partial_json", text)
        deltas.insert(0, {"type": "input_json_delta", "partial_json": ""})
    elif block["type"] == "thinking":
        opening = block | {"thinking": "", "signature": ""}
        deltas = _deltas("thinking_delta", "thinking", block["thinking"])
        signature = block["signature"]
        deltas.append({"type": "signature_delta", "signature": signature})
    yield _event("content_block_start", index=index, content_block=opening)
    for delta in deltas:
        yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _deltas(kind: str, key: str, text: str) -> list[dict[str, Any]]:
    size = max(PIECE, -(-len(text) // MAX_PIECES))
    pieces = (text[at : at + size] for at in range(0, len(text), size))
    return [{"type": kind, key: piece} for piece in pieces]


def _field(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b":")
    return name, value.removeprefix(b" ")


def _apply(
    delta: dict[str, Any], content: list[Any], index: int, partial: dict[int, str]
) -> None:
    """Add one delta to its block; input text is collected in partial until the end."""
    if delta["type"] == "input_json_delta":
        partial[index] = partial.get(index, "") + delta["partial_json"]
        return
    block = content[index]
    for key in ("text", "thinking", "signature"):
        if key in delta:
            block[key] = block.get(key, "") + delta[key]


def _input(text: str) -> object:
    """The input of a tool_use; the bare text where a broken stream left half of it."""
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text
