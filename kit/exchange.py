"""A request, its answer, and the shape that all answers of the Messages API have."""

from __future__ import annotations

import uuid
from collections.abc import Generator
from dataclasses import dataclass, field

from kit.protocol import Problem, error_body
from kit.sse import json_bytes


@dataclass
class Request:
    """One request: target is the path with its query, fields the headers as sent."""

    method: str = ""
    target: str = ""
    fields: list[tuple[str, str]] = field(default_factory=list)
    raw: bytes = b""

    def __post_init__(self) -> None:
        self.headers = {name.lower(): value for name, value in self.fields}
        self.path, _, self.query = self.target.partition("?")


@dataclass
class Answer:
    """One answer: a body, or a stream of pieces (a list goes out in one write).

    A generator that raises OSError breaks the connection off, as its source did.
    """

    status: int
    headers: list[tuple[str, str]]
    body: bytes = b""
    stream: list[bytes] | Generator[bytes, None, None] | None = None


def status_problem(status: int, message: str) -> Problem:
    """A refusal by HTTP status, where no rule of kit.protocol names its type."""
    kinds = {403: "permission_error", 413: "request_too_large"}
    other = "api_error" if status >= 500 else "invalid_request_error"
    return {"status": status, "type": kinds.get(status, other), "message": message}


def summary(problem: Problem) -> str:
    """A refusal in one line, as the log shows it."""
    return f"{problem['type']}: {problem['message']}"


def api_answer(status: int, body: object, request_id: str) -> Answer:
    """A JSON answer with the headers that all answers of the API have."""
    headers = [("content-type", "application/json"), ("request-id", request_id)]
    if status == 400:
        headers.append(("x-should-retry", "false"))
    return Answer(status, headers, json_bytes(body))


def error_answer(problem: Problem) -> Answer:
    """A refusal in the API's shape, its request id in the body and in a header."""
    request_id = new_id("req")
    return api_answer(problem["status"], error_body(problem, request_id), request_id)


def new_id(kind: str) -> str:
    """A fresh id such as req_0123456789abcdef01234567."""
    return f"{kind}_{uuid.uuid4().hex[:24]}"
