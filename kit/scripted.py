"""A scripted model for tests: the SDK's face, the API's strictness, no network.

model = ScriptedModel([reply(tool_use("bash", {"command": "ls"})), "Done."])
stage.client = model
with model:  # fails when replies are left over or a request was refused
    stage.agent_loop(messages)
model.requests[1]["messages"]  # what the second call sent, as plain JSON
"""

from __future__ import annotations

import copy
import inspect
import itertools
import json
from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

import anthropic
import httpx2  # the SDK's HTTP library: its errors carry a request and a response
from anthropic.resources.messages import Messages
from anthropic.types import Message

from kit.protocol import (
    STATUS,
    Problem,
    check_request,
    error_body,
    outline,
    shorten,
    wire_bytes,
)

Json = dict[str, Any]
Reply = Json | list[Any] | str | Message | BaseException | type[BaseException]
Script = Reply | Callable[[Json], Any]

_numbers = itertools.count(1)
_create = inspect.signature(Messages.create)

NOT_IN_BODY = {
    "extra_body",
    "extra_headers",
    "extra_query",
    "timeout",
    "user_profile_id",
    "workspace_id",
}
"""Arguments of `create` that the SDK does not put into the body."""

MESSAGES = {
    "authentication_error": "invalid x-api-key",
    "rate_limit_error": "This request would exceed your rate limit",
    "api_error": "Internal server error",
    "overloaded_error": "Overloaded",
}


class ScriptError(AssertionError):
    """The script and the calls do not fit together; the text says how."""


# Blocks and replies


def text(words: str) -> Json:
    """A text block."""
    return {"type": "text", "text": words}


def thinking(text: str = "", signature: str = "c2lnbmF0dXJl") -> Json:
    """A thinking block; its text is empty by default, as current models send it."""
    return {"type": "thinking", "thinking": text, "signature": signature}


def tool_use(name: str, input: Any, id: str | None = None) -> Json:
    """A call of a tool; without `id` it gets one that is new in this process."""
    id = f"toolu_{next(_numbers):06d}" if id is None else id
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def reply(
    *blocks: Any, stop_reason: str | None = None, usage: Json | None = None
) -> Json:
    """A reply of these blocks (a string is a text block).

    `stop_reason` defaults to `tool_use` when there is a call, else `end_turn`.
    A service that omits usage: `{**reply("hi"), "usage": None}`.
    """
    content = [text(block) if isinstance(block, str) else block for block in blocks]
    calls = [b for b in content if isinstance(b, dict) and b.get("type") == "tool_use"]
    reason = stop_reason or ("tool_use" if calls else "end_turn")
    message: Json = {"content": content, "stop_reason": reason}
    return message if usage is None else {**message, "usage": usage}


# Errors of the SDK


def api_error(
    status: int, type: str | None = None, message: str = ""
) -> anthropic.APIStatusError:
    """The SDK's own exception for an error response of that HTTP status."""
    if type is None:
        types = {code: name for name, code in STATUS.items()}
        other = "api_error" if status >= 500 else "invalid_request_error"
        type = types.get(status, other)
    words = message or MESSAGES.get(type, f"scripted {type}")
    return _status_error({"status": status, "type": type, "message": words})


def connection_error() -> anthropic.APIConnectionError:
    """What the SDK raises when there is no network."""
    return anthropic.APIConnectionError(request=_http_request())


def timeout_error() -> anthropic.APITimeoutError:
    """What the SDK raises when no answer comes in time."""
    return anthropic.APITimeoutError(request=_http_request())


def _http_request() -> httpx2.Request:
    return httpx2.Request("POST", "http://127.0.0.1/v1/messages")


def _instance(error: type[BaseException]) -> BaseException:
    try:
        return error()
    except TypeError:
        raise ScriptError(
            f"{error.__name__} cannot be made without arguments: use api_error(),"
            " connection_error() or timeout_error()."
        ) from None


def _status_error(problem: Problem) -> anthropic.APIStatusError:
    request_id = f"req_scripted{next(_numbers):06d}"
    body = error_body(problem, request_id)
    retry = {"x-should-retry": "false"} if problem["status"] == 400 else {}
    response = httpx2.Response(
        problem["status"],
        headers={"request-id": request_id, **retry},
        json=body,
        request=_http_request(),
    )
    message = f"Error code: {problem['status']} - {body}"
    return error_class(problem["status"])(message, response=response, body=body)


def error_class(status: int) -> type[anthropic.APIStatusError]:
    """The SDK's exception class for an HTTP status."""
    server_error: type[anthropic.APIStatusError] = anthropic.InternalServerError
    for parent in (anthropic.APIStatusError, server_error):
        for found in parent.__subclasses__():
            if vars(found).get("status_code") == status:
                return found
    return server_error if status >= 500 else anthropic.APIStatusError


# The model


class ScriptedModel:
    """Stands in for `anthropic.Anthropic()`: `.messages.create(**request)`.

    `replies` in the order they are given out: a reply dict, a list of blocks, a
    string, an exception (class or object, raised), or a function of the request's
    JSON that returns any of these. `requests` holds each body as it would have been
    sent; `refused` the Problems seen. With `strict` False a bad request is recorded
    in both and answered all the same.
    """

    def __init__(self, replies: Iterable[Script] = (), *, strict: bool = True):
        self.strict = strict
        self.requests: list[Json] = []
        self.refused: list[Problem] = []
        self.messages = _Messages(self)
        self._left = deque(replies)
        self._given = 0
        self._asked_too_often = False
        self._first_refusal = ""

    def answer(self, arguments: Json) -> Message:
        """One call of `create`: record, check, then the next reply."""
        if self.strict:
            _create.bind(None, **arguments)  # TypeError, as the SDK's own call
        wire = wire_bytes(body_of(arguments))
        sent: Json = json.loads(wire)
        self.requests.append(sent)
        self._check(sent, beta="anthropic-beta" in str(arguments.get("extra_headers")))
        if sent.get("stream"):
            raise ScriptError("ScriptedModel gives whole messages: drop stream=True.")
        if not self._left:
            self._asked_too_often = True
            raise ScriptError(
                f"The model was called {len(self.requests)} times, but the script has"
                f" only {self._given} replies: the loop should have stopped.\n"
                f"{self._last_request()}"
            )
        self._given += 1
        return _message(self._resolve(self._left.popleft(), sent), sent, len(wire))

    def _check(self, sent: Json, beta: bool) -> None:
        found = check_request(sent, extra_fields=beta)
        if found is None:
            return
        self.refused.append(found)
        sent_this = self._last_request()
        self._first_refusal = self._first_refusal or f"{found['message']}\n{sent_this}"
        if self.strict:
            error = _status_error(found)
            if hasattr(error, "add_note"):  # Python 3.11
                error.add_note(sent_this)
            raise error

    def _resolve(self, script: Script, sent: Json) -> Json | Message:
        """The reply a script item stands for; raises when it is an exception."""
        while callable(script) and not isinstance(script, type):
            script = script(json.loads(json.dumps(sent)))
        if isinstance(script, BaseException):
            raise script
        if isinstance(script, type) and issubclass(script, BaseException):
            raise _instance(script)
        if isinstance(script, (dict, Message)):
            return script
        if isinstance(script, str):
            return reply(script)
        if isinstance(script, list):
            return reply(*script)
        raise ScriptError(f"{script!r} cannot be a reply; see ScriptedModel.")

    def check_done(self) -> None:
        """Raise ScriptError unless every reply was used and no request was wrong."""
        if self.refused and self.strict:
            raise ScriptError(
                f"{len(self.refused)} request(s) broke a rule of the API. The first:"
                f" {self._first_refusal}"
            )
        if self._asked_too_often:
            raise ScriptError(
                f"The model was called more often than the script's {self._given}"
                f" replies.\n{self._last_request()}"
            )
        if self._left:
            raise ScriptError(
                f"{len(self._left)} of {len(self._left) + self._given} replies were"
                " never asked for: the loop stopped too early.\n"
                f"The next one was: {shorten(self._left[0], 200)}\n"
                f"{self._last_request()}"
            )

    def _last_request(self) -> str:
        if not self.requests:
            return "No request was sent."
        lines = outline(self.requests[-1].get("messages"))
        return f"Request {len(self.requests)} sent:\n{lines}"

    def __enter__(self) -> ScriptedModel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.check_done()


class _Messages:
    """`client.messages`."""

    def __init__(self, model: ScriptedModel):
        self._model = model

    def create(self, **request: Any) -> Message:
        """The next reply of the script as the SDK's Message.

        Raises TypeError for an argument the SDK does not have, the SDK's
        BadRequestError (and its like) for a request the API would refuse, and
        ScriptError when the script is at its end.
        """
        return self._model.answer(request)


def body_of(arguments: Json) -> Json:
    """The body the SDK makes of the arguments of `create`, not yet JSON."""
    unset = (anthropic.NotGiven, anthropic.Omit)
    return {
        **{
            name: value
            for name, value in arguments.items()
            if name not in NOT_IN_BODY and not isinstance(value, unset)
        },
        **(arguments.get("extra_body") or {}),
    }


def _message(reply: Json | Message, sent: Json, size: int) -> Message:
    """The reply as the SDK builds it: fields are filled in, nothing is validated."""
    if isinstance(reply, Message):
        return reply
    usage = {
        "input_tokens": size // 4,
        "output_tokens": len(str(reply.get("content"))) // 4,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }
    defaults: Json = {
        "id": f"msg_scripted{next(_numbers):06d}",
        "type": "message",
        "role": "assistant",
        "model": sent.get("model"),
        "stop_sequence": None,
        "usage": usage,
    }
    return Message.construct(**{**defaults, **copy.deepcopy(reply)})
