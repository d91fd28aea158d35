"""What a refusal is: the API's error types, their HTTP status and the error body."""

from __future__ import annotations

from typing import Any

Problem = dict[str, Any]
"""A refusal: `{"status": int, "type": str, "message": str}`, and `"details"` if any."""

STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "overloaded_error": 529,
}
"""HTTP status by error type, as the API documents them."""


def problem(type: str, message: str, **details: Any) -> Problem:
    """A refusal of that type; `details` becomes the error's `details` object.

    Raises KeyError for a type that is not in STATUS.
    """
    found: Problem = {"status": STATUS[type], "type": type, "message": message}
    if details:
        found["details"] = details
    return found


def invalid(message: str) -> Problem:
    """A 400, the refusal of nearly every rule."""
    return {"status": 400, "type": "invalid_request_error", "message": message}


def error_body(problem: Problem, request_id: str) -> dict[str, Any]:
    """The JSON body the API answers a refusal with."""
    error = {"type": problem["type"], "message": problem["message"]}
    if "details" in problem:
        error["details"] = problem["details"]
    body = {"error": error, "request_id": request_id}
    if problem["status"] == STATUS["request_too_large"]:
        return body  # sent by the edge, which knows no top-level type
    return {"type": "error", **body}
