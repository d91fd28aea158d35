"""The scripted model: real SDK objects, real refusals, texts that say what happened."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import anthropic
import pytest
from anthropic.types import Message

from kit.protocol import error_body, problem
from kit.scripted import (
    ScriptedModel,
    ScriptError,
    api_error,
    connection_error,
    reply,
    text,
    thinking,
    timeout_error,
    tool_use,
)

HI = [{"role": "user", "content": "hi"}]


def ask(model, messages=HI, **more):
    """One call, as a stage makes it."""
    request = {"model": "m", "max_tokens": 100, "messages": messages, **more}
    return model.messages.create(**request)


# Replies


def test_a_reply_is_a_message_of_the_sdk():
    call = tool_use("bash", {"command": "ls"}, id="toolu_1")
    message = ask(ScriptedModel([reply(thinking(), "Looking.", call)]))
    assert type(message) is Message
    assert [type(block).__name__ for block in message.content] == [
        "ThinkingBlock",
        "TextBlock",
        "ToolUseBlock",
    ]
    assert message.content[2].input == {"command": "ls"}
    assert (message.stop_reason, message.role, message.model) == (
        "tool_use",
        "assistant",
        "m",
    )
    assert message.usage.input_tokens > 0


@pytest.mark.parametrize(
    "script",
    ["Done.", [text("Done.")], reply("Done."), lambda sent: lambda again: "Done."],
    ids=["string", "blocks", "dict", "functions"],
)
def test_a_reply_can_be_written_in_several_ways(script):
    message = ask(ScriptedModel([script]))
    assert (message.content[0].text, message.stop_reason) == ("Done.", "end_turn")


def test_a_stop_reason_and_a_usage_can_be_given():
    usage = {"input_tokens": 5, "output_tokens": 7}
    message = ask(ScriptedModel([reply("x", stop_reason="max_tokens", usage=usage)]))
    assert message.stop_reason == "max_tokens"
    assert (message.usage.input_tokens, message.usage.output_tokens) == (5, 7)


def test_usage_can_be_missing_as_with_some_services():
    assert ask(ScriptedModel([{**reply("x"), "usage": None}])).usage is None


def test_ids_of_calls_are_new_each_time_unless_given():
    ids = {tool_use("bash", {})["id"] for _ in range(50)}
    assert len(ids) == 50
    assert tool_use("bash", {}, id="toolu_x")["id"] == "toolu_x"


def test_changing_a_reply_leaves_the_script_alone():
    script = reply(tool_use("bash", {"command": "ls"}))
    message = ask(ScriptedModel([script]))
    message.content[0].input["command"] = "rm"
    assert script["content"][0]["input"] == {"command": "ls"}


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt, KeyboardInterrupt(), api_error(529), TimeoutError]
)
def test_an_exception_in_the_script_is_raised_and_takes_its_place(error):
    model = ScriptedModel([error, "after"])
    kind = error if isinstance(error, type) else type(error)
    with pytest.raises(kind):
        ask(model)
    assert ask(model).content[0].text == "after"


def test_a_function_in_the_script_sees_the_request_and_can_raise():
    def answer(sent):
        if sent["messages"][-1]["content"] == "hi":
            return "hello"
        return connection_error()

    model = ScriptedModel([answer, answer])
    assert ask(model).content[0].text == "hello"
    with pytest.raises(anthropic.APIConnectionError):
        ask(model, [{"role": "user", "content": "bye"}])


def test_something_that_cannot_be_a_reply_is_named():
    with pytest.raises(ScriptError, match="7 cannot be a reply"):
        ask(ScriptedModel([7]))
    with pytest.raises(ScriptError, match="use api_error"):
        ask(ScriptedModel([anthropic.BadRequestError]))


# Requests


def test_requests_are_deep_copies():
    model = ScriptedModel(["one", "two"])
    messages = list(HI)
    ask(model, messages, tools=[{"name": "t", "input_schema": {"type": "object"}}])
    messages.append({"role": "user", "content": "more"})
    ask(model, messages)
    assert [len(sent["messages"]) for sent in model.requests] == [1, 2]
    assert model.requests[0]["tools"][0]["name"] == "t"


def test_sdk_objects_are_sent_with_the_fields_that_were_set():
    model = ScriptedModel([reply(thinking(), tool_use("t", {}, id="toolu_1")), "done"])
    first = ask(model)
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}
    ask(
        model,
        [
            *HI,
            {"role": "assistant", "content": first.content},
            {"role": "user", "content": [result]},
        ],
    )
    assert model.requests[1]["messages"][1]["content"] == [
        thinking(),
        tool_use("t", {}, id="toolu_1"),
    ]


def test_plain_objects_are_sent_with_their_attributes():
    block = SimpleNamespace(type="text", text="hello")
    model = ScriptedModel(["x"])
    ask(model, [*HI, {"role": "assistant", "content": [block]}, *HI])
    assert model.requests[0]["messages"][1]["content"] == [text("hello")]


def test_arguments_that_are_no_part_of_the_body_are_left_out():
    model = ScriptedModel(["x"])
    ask(model, timeout=5, extra_headers={"a": "b"}, system=anthropic.NOT_GIVEN)
    assert set(model.requests[0]) == {"model", "max_tokens", "messages"}


def test_an_argument_the_sdk_does_not_have_is_a_type_error_as_in_the_sdk():
    with pytest.raises(TypeError, match="temperature"):
        ask(ScriptedModel(["x"]), temperature=0)
    with pytest.raises(TypeError, match="max_tokens"):
        ScriptedModel(["x"]).messages.create(model="m", messages=HI)


@pytest.mark.parametrize("value", [b"bytes", float("nan"), "half \ud83d"])
def test_what_no_json_can_hold_raises_as_in_the_sdk(value):
    with pytest.raises((TypeError, ValueError)):
        ask(ScriptedModel(["x"]), [{"role": "user", "content": [text(value)]}])


# Refusals

UNANSWERED = [
    *HI,
    {"role": "assistant", "content": [tool_use("bash", {}, id="toolu_1")]},
    {"role": "user", "content": "and?"},
]


def test_a_bad_history_is_refused_with_the_sdks_error_and_the_apis_text():
    model = ScriptedModel(["never given"])
    with pytest.raises(anthropic.BadRequestError) as caught:
        ask(model, UNANSWERED)
    error = caught.value
    assert (error.status_code, error.type) == (400, "invalid_request_error")
    words = error.body["error"]["message"]
    assert words.startswith("messages.1: `tool_use` ids were found"), words
    assert [p["message"] for p in model.refused] == [words]
    assert len(model.requests) == 1


def test_a_refused_request_uses_up_no_reply():
    model = ScriptedModel(["later"])
    with pytest.raises(anthropic.BadRequestError):
        ask(model, [])
    assert ask(model).content[0].text == "later"


def test_a_refusal_shows_what_was_sent_where_python_can():
    with pytest.raises(anthropic.BadRequestError) as caught:
        ask(ScriptedModel(["x"]), UNANSWERED)
    notes = getattr(caught.value, "__notes__", None)
    if hasattr(caught.value, "add_note"):
        assert "1 assistant tool_use toolu_1 bash" in notes[0], notes


def test_a_swallowed_refusal_still_fails_at_the_end():
    model = ScriptedModel([])
    with pytest.raises(anthropic.BadRequestError):
        ask(model, UNANSWERED)
    with pytest.raises(ScriptError) as caught:
        model.check_done()
    assert "broke a rule of the API" in str(caught.value)
    assert "messages.1: `tool_use` ids were found" in str(caught.value)
    assert "1 assistant tool_use toolu_1 bash {}" in str(caught.value)


def test_a_model_that_is_not_strict_records_and_answers():
    model = ScriptedModel(["x"], strict=False)
    assert ask(model, UNANSWERED).content[0].text == "x"
    assert len(model.refused) == len(model.requests) == 1
    model.check_done()


# The script's length


def test_asking_for_more_than_the_script_has_fails_and_shows_the_last_request():
    model = ScriptedModel(["only one"])
    ask(model)
    with pytest.raises(ScriptError) as caught:
        ask(model)
    assert "called 2 times, but the script has only 1 replies" in str(caught.value)
    assert "0 user      'hi'" in str(caught.value)
    with pytest.raises(ScriptError, match="more often"):
        model.check_done()


def test_replies_left_over_fail_at_the_end_of_the_block():
    with pytest.raises(ScriptError) as caught, ScriptedModel(["a", "b", "c"]) as model:
        ask(model)
    assert "2 of 3 replies were never asked for" in str(caught.value)
    assert "The next one was: 'b'" in str(caught.value)


def test_a_failing_block_keeps_its_own_failure():
    with pytest.raises(ZeroDivisionError), ScriptedModel(["a"]):
        1 / 0  # noqa: B018


def test_a_finished_script_is_done():
    with ScriptedModel(["a"]) as model:
        ask(model)
    ScriptedModel().check_done()


def test_streaming_is_refused_in_words():
    with pytest.raises(ScriptError, match="drop stream=True"):
        ask(ScriptedModel(["x"]), stream=True)


# The same as the real SDK over HTTP


class Recorder(BaseHTTPRequestHandler):
    """Answers every request with what the server holds, and keeps the body."""

    def do_POST(self):
        size = int(self.headers["content-length"])
        self.server.sent.append(json.loads(self.rfile.read(size)))
        status, body = self.server.answer
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *args):
        pass


@pytest.fixture
def http(monkeypatch):
    """A real client, and the server on this machine that it talks to."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = HTTPServer(("127.0.0.1", 0), Recorder)
    server.sent = []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    with anthropic.Anthropic(api_key="k", base_url=url, max_retries=0) as client:
        yield client, server
    server.shutdown()
    server.server_close()
    thread.join()


ODD = {
    "content": [
        text(""),
        thinking(),
        tool_use("t", {"a": [1]}, id="toolu_1"),
        {"type": "made_up", "field": 1},
    ],
    "stop_reason": "made_up",
}


@pytest.mark.parametrize(
    "script",
    [
        ODD,
        reply(tool_use("t", "not an object", id="toolu_1")),
        reply(),
        {**reply("x"), "usage": None},
        {**reply("x"), "content": None},
        {**reply("x"), "stop_details": {"type": "refusal", "category": None}},
    ],
    ids=["odd", "input", "empty", "no usage", "no content", "details"],
)
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_a_message_is_what_the_sdk_makes_of_the_same_reply(http, script):
    client, server = http
    scripted = ask(ScriptedModel([script]))
    fixed = {"id": scripted.id, "type": "message", "role": "assistant", "model": "m"}
    usage = None if scripted.usage is None else scripted.usage.to_dict()
    server.answer = 200, {**fixed, "stop_sequence": None, "usage": usage, **script}
    real = ask(client)
    assert repr(scripted) == repr(real)
    assert scripted.to_dict() == real.to_dict()


def test_a_request_is_recorded_as_the_sdk_sends_it(http):
    client, server = http
    server.answer = 200, {"type": "message", **reply("x")}
    model = ScriptedModel([{**ODD, "stop_reason": "end_turn"}, "x"], strict=False)
    first = ask(model)
    messages = [
        *HI,
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": ({"type": "text", "text": t} for t in "ä✓")},
    ]
    messages[2]["content"] = tuple(messages[2]["content"])
    more = {
        "cache_control": {"type": "ephemeral"},
        "system": "s",
        "tools": [],
        "thinking": anthropic.NOT_GIVEN,
        "extra_body": {"new": 1},
        "extra_headers": {"x": "y"},
    }
    ask(client, messages, **more)
    ask(model, messages, **more)
    assert model.requests[1] == server.sent[0]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 429, 500, 529, 418])
def test_an_api_error_is_the_one_the_sdk_raises(http, status):
    client, server = http
    made = api_error(status)
    server.answer = status, made.body
    with pytest.raises(anthropic.APIStatusError) as caught:
        ask(client)
    # (the SDK has `api_message` from 2.5 on)
    for name in ("status_code", "type", "body", "message", "api_message"):
        got, want = getattr(made, name, None), getattr(caught.value, name, None)
        assert got == want, f"{name}: scripted {got!r}, SDK {want!r}"
    assert type(made) is type(caught.value)
    assert str(made) == str(caught.value)


def test_a_refusal_is_the_one_the_sdk_raises_for_that_answer(http):
    client, server = http
    with pytest.raises(anthropic.BadRequestError) as scripted:
        ask(ScriptedModel(["x"]), [])
    found = problem(
        "invalid_request_error", "messages: at least one message is required"
    )
    server.answer = 400, error_body(found, scripted.value.request_id)
    with pytest.raises(anthropic.BadRequestError) as real:
        ask(client)
    assert str(scripted.value) == str(real.value)


def test_connection_and_timeout_errors_are_the_sdks():
    assert type(connection_error()) is anthropic.APIConnectionError
    assert type(timeout_error()) is anthropic.APITimeoutError
    assert str(connection_error()) == "Connection error."


def test_an_api_error_can_say_anything():
    error = api_error(404, message="model: claude-0")
    assert error.type == "not_found_error"
    assert error.body["error"]["message"] == "model: claude-0"
    assert type(error) is anthropic.NotFoundError
    assert api_error(400, "permission_error").type == "permission_error"
