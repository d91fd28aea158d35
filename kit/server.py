"""The practice server: the Messages API on this machine, without a model behind it.

Every request goes through the rules of kit.protocol; kit.practice chooses the reply.
start(upstream=...) forwards to the real API instead (kit.live). Both keep the same log.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

from kit import practice, protocol, sse
from kit.exchange import (
    Answer,
    Request,
    api_answer,
    error_answer,
    new_id,
    status_problem,
    summary,
)
from kit.httpd import ADDRESS, App, Listener
from kit.live import LiveApi
from kit.usage import PrefixCache, estimate_tokens
from kit.wirelog import WireLog

MAX_REMEMBERED = 10_000  # thinking blocks; requests that are failing

MAX_INPUT_TOKENS = 200_000

# Fields of a message request that counting does not take (the SDK's types).
NOT_COUNTED = {
    "max_tokens",
    "stream",
    "stop_sequences",
    "temperature",
    "top_k",
    "top_p",
    "metadata",
    "container",
    "service_tier",
    "inference_geo",
    "diagnostics",
}
SCRIPTED = {
    429: protocol.problem(
        "rate_limit_error",
        "This request would exceed your organization's rate limit (scripted).",
    ),
    500: protocol.problem("api_error", "Internal server error"),
    529: protocol.problem("overloaded_error", "Overloaded"),
}


def start(
    *, port: int = 0, log: Path | None = None, upstream: str | None = None
) -> Server:
    """Serve on 127.0.0.1 in daemon threads, on a free port unless one is given.

    log: a file that gets one JSON line per exchange (kit.wirelog). upstream: the
    address of the real API, to forward to instead of practising. Raises OSError when
    the port is taken, the log cannot be opened, or upstream is no http(s) address.
    """
    wire = WireLog(log)
    try:
        app: App = LiveApi(upstream, wire) if upstream else PracticeApi(wire)
        return Server(Listener(app, port), wire)
    except Exception:
        wire.close()
        raise


class Server:
    """A running server; also a context manager that closes it."""

    def __init__(self, listener: Listener, log: WireLog) -> None:
        self._listener = listener
        self._log = log
        self.url = f"http://{ADDRESS}:{listener.port}"

    def close(self) -> None:
        """End all connections and free the port; a second call does nothing."""
        self._listener.close()
        self._log.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class ApiError(Exception):
    """A refusal on its way out, with the headers it needs beyond the usual."""

    def __init__(self, problem: protocol.Problem, **headers: str) -> None:
        super().__init__(summary(problem))
        self.problem = problem
        self.headers = [(k.replace("_", "-"), v) for k, v in headers.items()]


@dataclass
class Reply:
    """What a route answers: a body, and the events that stream it if that was asked."""

    body: dict[str, Any]
    events: list[sse.Event] | None = None
    error: str | None = None  # a stream that ends in an error


class PracticeApi:
    """The Messages API's routes; state is what the API itself would remember."""

    def __init__(self, log: WireLog) -> None:
        self._log = log
        self._cache = PrefixCache()
        self._lock = threading.Lock()
        self._issued: dict[str, dict[str, Any]] = {}
        self._failed: dict[int, int] = {}  # request -> scripted failures so far
        self._routes: dict[str, dict[str, Callable[[Request], Reply]]] = {
            "/": {"GET": self._welcome},
            "/v1/messages": {"POST": self._message},
            "/v1/messages/count_tokens": {"POST": self._count_tokens},
            "/v1/models": {"GET": self._models},
            "/v1/models/{id}": {"GET": self._model},
        }

    def answer(self, request: Request) -> Answer:
        """The API's answer, already in the log."""
        started = time.perf_counter()
        try:
            reply = self._route(request)(request)
        except ApiError as error:
            return self._refusal(request, error, started)
        answer = api_answer(200, reply.body, new_id("req"))
        self._log.write(
            request,
            200,
            answer.body,
            started=started,
            checked=True,
            stream=reply.events is not None,
            error=reply.error,
        )
        if reply.events is not None:
            answer.headers[0] = ("content-type", "text/event-stream; charset=utf-8")
            answer.stream = [sse.encode(event) for event in reply.events]
        return answer

    def refuse(self, request: Request, status: int, message: str) -> Answer:
        """The answer to what could not be read; a wrong path counts first."""
        error = ApiError(status_problem(status, message))
        if status == 413:
            try:
                self._route(request)
            except ApiError as wrong:
                error = wrong
        return self._refusal(request, error, time.perf_counter())

    def _refusal(self, request: Request, error: ApiError, started: float) -> Answer:
        answer = error_answer(error.problem)
        answer.headers.extend(error.headers)
        text, status = str(error), answer.status
        self._log.write(request, status, answer.body, started=started, error=text)
        return answer

    # Routes. Each gives a Reply or raises ApiError.

    def _route(self, request: Request) -> Callable[[Request], Reply]:
        """The route of a path without its query; HEAD is GET. Texts approximate."""
        path = request.path
        if path.startswith("/v1/models/"):
            path = "/v1/models/{id}"
        methods = self._routes.get(path)
        if methods is None:
            hint = " (the base URL ends without /v1)" if "/v1/v1" in path else ""
            message = f"Not Found: {request.path}{hint}"
            raise ApiError(protocol.problem("not_found_error", message))
        method = "GET" if request.method == "HEAD" else request.method
        if method not in methods:
            allowed = ", ".join(methods)
            message = f"Method Not Allowed: {request.path} takes {allowed}"
            raise ApiError(status_problem(405, message), allow=allowed)
        return methods[method]

    def _welcome(self, request: Request) -> Reply:
        return Reply({"message": "This practice server speaks the Messages API."})

    def _models(self, request: Request) -> Reply:
        _raise(protocol.check_headers(request.headers))
        ids = practice.MODELS
        ends = {"has_more": False, "first_id": ids[0], "last_id": ids[-1]}
        return Reply({"data": [_model_info(name) for name in ids], **ends})

    def _model(self, request: Request) -> Reply:
        _raise(protocol.check_headers(request.headers))
        name = unquote(request.path.removeprefix("/v1/models/"))
        if name not in practice.MODELS:
            raise ApiError(protocol.problem("not_found_error", f"model: {name}"))
        return Reply(_model_info(name))

    def _count_tokens(self, request: Request) -> Reply:
        body = self._checked(request, counting=True)
        return Reply({"input_tokens": estimate_tokens(body)})

    def _message(self, request: Request) -> Reply:
        body = self._checked(request)
        reply = practice.reply_to(body)
        fail = reply.get("fail", {})
        failure = self._due_failure(request, fail) if fail else None
        streamed = bool(body.get("stream"))
        if failure and not (streamed and "after_events" in fail):
            raise failure
        message = self._message_of(body, reply)
        if not streamed:
            return Reply(message)
        events = list(sse.events(message))
        if failure is None:
            return Reply(message, events)
        error = protocol.error_body(failure.problem, new_id("req"))
        events[fail["after_events"] :] = [sse.error_event(error)]
        return Reply(sse.assemble(events), events, str(failure))

    def _checked(self, request: Request, counting: bool = False) -> dict[str, Any]:
        """The body of a request that breaks no rule."""
        _raise(protocol.check_headers(request.headers))
        body: Any
        body, problem = protocol.parse_body(request.raw)
        _raise(problem)
        if counting and isinstance(body, dict):
            extra = next((name for name in body if name in NOT_COUNTED), None)
            if extra:
                message = f"{extra}: Extra inputs are not permitted"
                _raise(protocol.problem("invalid_request_error", message))
        problem = protocol.check_request(
            body,
            extra_fields=_is_beta(request),
            version=request.headers["anthropic-version"].strip(),
            models=_models_for(body),
            issued=self._issued,
            counting=counting,
        )
        _raise(problem)
        if len(request.raw) > MAX_INPUT_TOKENS and not counting:  # a byte a token
            _raise(protocol.prompt_fits(estimate_tokens(body), MAX_INPUT_TOKENS))
        checked: dict[str, Any] = body
        return checked

    def _message_of(
        self, body: dict[str, Any], reply: dict[str, Any]
    ) -> dict[str, Any]:
        """The whole message of a reply; its thinking is remembered."""
        content = reply["content"]
        with self._lock:
            protocol.remember(self._issued, content)
            if len(self._issued) > MAX_REMEMBERED:  # a new dict: others are reading
                newest = list(self._issued.items())[MAX_REMEMBERED // 2 :]
                self._issued = dict(newest)
        message = {
            "id": new_id("msg"),
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": reply["stop_reason"],
            "stop_sequence": reply.get("stop_sequence"),
            "usage": self._cache.usage_for(body, content),
        }
        if "stop_details" in reply:
            message["stop_details"] = reply["stop_details"]
        return message

    def _due_failure(self, request: Request, fail: dict[str, Any]) -> ApiError | None:
        """The scripted failure, while this request has not failed often enough.

        The SDK's retries say which attempt they are; for other clients, and for a
        person who tries again, the server counts. Either way it has an end.
        """
        key = hash(request.raw)
        said = request.headers.get("x-stainless-retry-count", "")[:4]
        with self._lock:
            attempt = self._failed.pop(key, 0)
            attempt = max(attempt, int(said) if said.isdecimal() else 0)
            if attempt >= fail["times"]:
                return None
            self._failed[key] = attempt + 1
            while len(self._failed) > MAX_REMEMBERED:
                del self._failed[next(iter(self._failed))]
        status = fail["status"]
        error = ApiError(SCRIPTED.get(status) or status_problem(status, "Scripted"))
        if "retry_after" in fail:
            error.headers.append(("retry-after", str(fail["retry_after"])))
        return error


def _raise(problem: protocol.Problem | None) -> None:
    if problem:
        raise ApiError(problem)


def _is_beta(request: Request) -> bool:
    asked = parse_qs(request.query).get("beta", [""])[-1]
    return asked == "true" or bool(request.headers.get("anthropic-beta", "").strip())


def _models_for(body: Any) -> list[str] | None:
    """The models on offer. Clients set to a real one are served too: any claude-*."""
    name = body.get("model") if isinstance(body, dict) else None
    real = isinstance(name, str) and name.startswith("claude-")
    return None if real else practice.MODELS


def _model_info(name: str) -> dict[str, Any]:
    return {
        "type": "model",
        "id": name,
        "display_name": f"{name} (practice script)",
        "created_at": "2026-01-01T00:00:00Z",
        "lifecycle": "active",
        "max_input_tokens": MAX_INPUT_TOKENS,
        "max_tokens": 64_000,
    }
