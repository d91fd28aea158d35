"""Rules of the transport: headers, the size and the JSON of a body."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import date
from typing import Any

from kit.protocol.errors import Problem, invalid, problem

MAX_BODY = 32 * 1024 * 1024
"""Largest request body, in bytes (the API documents 32 MB)."""

VERSIONS = ("2026-10-21", "2023-06-01")
"""The values of `anthropic-version` in use, newest first."""


def check_headers(headers: Mapping[str, str]) -> Problem | None:
    """The version header, then the credential; keys in lower case."""
    return version_header(headers) or credential(headers)


def version_header(headers: Mapping[str, str]) -> Problem | None:
    """`anthropic-version` is present and known; the second wording approximates."""
    version = headers.get("anthropic-version", "").strip()
    if not version:
        return invalid("anthropic-version: header is required")
    if version not in VERSIONS:
        return invalid(f"anthropic-version: {version} is not a valid version")
    return None


def credential(headers: Mapping[str, str]) -> Problem | None:
    """A key in `x-api-key` or `Authorization: Bearer`; any non-blank key will do."""
    key = headers.get("x-api-key")
    bearer = headers.get("authorization")
    if key is None and bearer is None:
        return problem("authentication_error", "x-api-key header is required")
    if key is not None and key.strip():
        return None
    if bearer is None:
        return problem("authentication_error", "invalid x-api-key")
    scheme, _, token = bearer.strip().partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        return problem("authentication_error", "Invalid bearer token")
    return None


def body_size(size: int) -> Problem | None:
    """A body of `size` bytes is within MAX_BODY; the wording approximates the API's."""
    if size > MAX_BODY:
        return problem("request_too_large", "Request exceeds the maximum size")
    return None


def parse_body(raw: bytes) -> tuple[Any, None] | tuple[None, Problem]:
    """The JSON value of a request body, or why there is none. Never raises."""
    refused = body_size(len(raw))
    if refused:
        return None, refused
    try:
        body = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
        if b"\\ud" in raw or b"\\uD" in raw:
            json.dumps(body, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        reason = "no low surrogate in string"
    except RecursionError:
        reason = "nested too deeply"
    except ValueError as error:
        reason = str(error)
    else:
        return body, None
    return None, invalid(f"The request body is not valid JSON: {reason}")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def as_sent(value: Any) -> Any:
    """A deep copy of `value` as plain JSON, the way the SDK puts it on the wire.

    Raises what `wire_bytes` raises.
    """
    return json.loads(wire_bytes(value))


def wire_bytes(value: Any) -> bytes:
    """The JSON the SDK would send for `value`.

    SDK objects give only the fields that were set; other objects give their
    attributes. Raises TypeError or ValueError for what no JSON can hold (bytes,
    NaN, half of a surrogate pair), as the SDK does.
    """
    text = json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8")


def _plain(value: Any) -> Any:
    """One step from an object towards JSON; what it holds comes back here."""
    if callable(getattr(value, "model_dump", None)):
        return value.model_dump(
            mode="json", by_alias=True, exclude_unset=True, warnings=False
        )
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"{type(value).__name__} is not JSON serializable")
    if isinstance(value, (Sequence, Set, Iterator)):
        return list(value)
    try:
        attributes = vars(value)
    except TypeError:
        name = type(value).__name__
        raise TypeError(f"{name} is not JSON serializable") from None
    return {name: v for name, v in attributes.items() if not name.startswith("_")}
