"""The practice server as the anthropic SDK sees it."""

import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import anthropic
import pytest

from kit import practice, server
from kit.usage import estimate_tokens

BASH = {
    "name": "bash",
    "description": "Run a command.",
    "input_schema": {
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
    },
}
CACHE = {"type": "ephemeral"}
THINKING = {"type": "thinking", "thinking": "", "signature": "signed-by-practice"}
TEXT = {"type": "text", "text": "I look at the files of this folder first. 你好"}
CALL = {
    "type": "tool_use",
    "id": "toolu_1",
    "name": "bash",
    "input": {"command": "ls -la"},
}
ASK = {"content": [THINKING, TEXT, CALL], "stop_reason": "tool_use"}
DONE = {"content": [{"type": "text", "text": "Done."}], "stop_reason": "end_turn"}


@pytest.fixture(scope="module")
def log_file(tmp_path_factory):
    return tmp_path_factory.mktemp("server") / "logs" / "wire.jsonl"


@pytest.fixture(scope="module")
def running(log_file):
    with server.start(log=log_file) as started:
        yield started


@pytest.fixture(scope="module")
def sdk(running):
    with anthropic.Anthropic(base_url=running.url, api_key="practice") as client:
        yield client


@pytest.fixture
def script(monkeypatch):
    """Sets the replies by the number of assistant turns in the history."""

    def play(*replies):
        def reply_to(body):
            turns = [m for m in body["messages"] if m["role"] == "assistant"]
            return replies[len(turns)]

        monkeypatch.setattr(practice, "reply_to", reply_to)

    return play


def request(text="hello", **fields):
    return {
        "model": "practice",
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": text}],
    } | fields


def lines_of(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def answer_calls(message, text="a.py"):
    """The user message that answers every call of a reply."""
    calls = [block.id for block in message.content if block.type == "tool_use"]
    results = [
        {"type": "tool_result", "tool_use_id": use_id, "content": text}
        for use_id in calls
    ]
    return {"role": "user", "content": results}


def test_the_server_listens_on_the_loopback_address_only(running):
    assert running.url.startswith("http://127.0.0.1:")
    assert running._listener.server_address[0] == "127.0.0.1"


def test_create_returns_the_scripted_message(sdk, script):
    script(ASK)
    found = sdk.messages.create(**request(tools=[BASH]))
    assert [block.to_dict() for block in found.content] == ASK["content"]
    assert found.stop_reason == "tool_use"
    assert found.model == "practice"
    assert found._request_id.startswith("req_")


def test_message_ids_are_unique(sdk, script):
    script(DONE)
    ids = [sdk.messages.create(**request()).id for _ in range(5)]
    assert len(set(ids)) == 5 and all(name.startswith("msg_") for name in ids), ids


def test_stream_and_create_agree_on_the_same_script(sdk, script):
    script(ASK, DONE)
    history = request("stream and create", tools=[BASH], cache_control=CACHE)
    for _ in range(2):
        sdk.messages.create(**history)  # fills the cache for the two to compare
        created = sdk.messages.create(**history)
        with sdk.messages.stream(**history) as stream:
            pieces = list(stream.text_stream)
            streamed = stream.get_final_message()
        same = created.to_dict() | {"id": streamed.id}
        assert {k: streamed.to_dict().get(k) for k in same} == same
        texts = [block.text for block in created.content if block.type == "text"]
        assert "".join(pieces) == "".join(texts)
        turn = {"role": "assistant", "content": streamed.content}
        history["messages"] += [turn, answer_calls(created)]
    assert texts == ["Done."]


def test_the_raw_stream_of_create_carries_the_same_events(sdk, script):
    script(ASK)
    found = [event.type for event in sdk.messages.create(**request(), stream=True)]
    assert found[0] == "message_start" and found[-2:] == [
        "message_delta",
        "message_stop",
    ]
    assert found.count("content_block_start") == 3


def test_a_refusal_carries_its_details_both_ways(sdk, script):
    details = {"type": "refusal", "category": "cyber", "explanation": "No."}
    script({"content": [], "stop_reason": "refusal", "stop_details": details})
    created = sdk.messages.create(**request())
    with sdk.messages.stream(**request()) as stream:
        streamed = stream.get_final_message()
    for found in (created, streamed):
        assert (found.stop_reason, found.content) == ("refusal", [])
        assert found.stop_details.explanation == "No."


def test_a_whole_loop_runs_and_its_history_is_accepted(sdk, script):
    script(ASK, DONE)
    messages = [{"role": "user", "content": "list"}]
    first = sdk.messages.create(**request(messages=messages, tools=[BASH]))
    messages += [{"role": "assistant", "content": first.content}, answer_calls(first)]
    second = sdk.messages.create(**request(messages=messages, tools=[BASH]))
    assert second.content[0].text == "Done."


def test_the_tool_runner_falls_back_from_threads_and_finishes(sdk, script):
    ran = []

    @anthropic.beta_tool
    def bash(command: str) -> str:
        """Run a command."""
        ran.append(command)
        return "a.py"

    script(ASK, DONE)
    runner = sdk.beta.messages.tool_runner(
        **request("list", tools=[bash]), max_iterations=5
    )
    found = list(runner)
    assert [message.stop_reason for message in found] == ["tool_use", "end_turn"]
    assert ran == ["ls -la"]


def test_the_streaming_tool_runner_finishes_too(sdk, script):
    @anthropic.beta_tool
    def bash(command: str) -> str:
        """Run a command."""
        return "a.py"

    script(ASK, DONE)
    runner = sdk.beta.messages.tool_runner(
        **request("list", tools=[bash]), max_iterations=5, stream=True
    )
    found = [stream.get_final_message().stop_reason for stream in runner]
    assert found == ["tool_use", "end_turn"]


def test_a_thread_is_refused_with_the_code_the_sdk_falls_back_on(sdk):
    with pytest.raises(anthropic.BadRequestError) as caught:
        sdk.messages.create(**request(), extra_body={"thread": {"type": "new"}})
    assert caught.value.error_code == "thread_unsupported_request"


def test_count_tokens_agrees_with_the_usage_of_a_message(sdk, script):
    script(DONE)
    counted = {"model": "practice", "system": "Be brief.", "tools": [BASH]}
    counted |= {"messages": [{"role": "user", "content": "hello " * 50}]}
    found = sdk.messages.count_tokens(**counted).input_tokens
    usage = sdk.messages.create(**counted, max_tokens=9).usage
    assert found == usage.input_tokens == estimate_tokens(counted)


def test_count_tokens_does_not_take_max_tokens(sdk):
    with pytest.raises(anthropic.BadRequestError, match="max_tokens: Extra inputs"):
        sdk.messages.count_tokens(
            model="practice",
            messages=[{"role": "user", "content": "hi"}],
            extra_body={"max_tokens": 5},
        )


def test_models_are_listed_and_found_by_id(sdk):
    listed = [model.id for model in sdk.models.list()]
    assert listed == practice.MODELS
    assert [sdk.models.retrieve(name).id for name in listed] == listed


def test_an_unknown_model_is_not_found(sdk):
    with pytest.raises(anthropic.NotFoundError) as caught:
        sdk.messages.create(**request(model="practise"))
    assert caught.value.api_message == "model: practise"
    with pytest.raises(anthropic.NotFoundError, match="model: practise"):
        sdk.models.retrieve("practise")


def test_a_client_set_to_a_real_model_is_served_under_that_name(sdk, script):
    script(DONE)
    found = sdk.messages.create(**request(model="claude-opus-9-9"))
    assert found.model == "claude-opus-9-9"


def test_a_growing_history_is_read_from_the_cache(sdk, script):
    script(ASK, DONE)
    body = request("grow", tools=[BASH], cache_control=CACHE)
    first = sdk.messages.create(**body)
    turn = {"role": "assistant", "content": first.content}
    messages = [*body["messages"], turn, answer_calls(first)]
    second = sdk.messages.create(**body | {"messages": messages}).usage
    assert first.usage.cache_creation_input_tokens > 0
    assert second.cache_read_input_tokens == first.usage.cache_creation_input_tokens
    assert second.cache_creation_input_tokens > 0
    assert second.input_tokens == 0


def test_a_bad_history_is_refused_in_the_words_of_the_api(sdk):
    messages = [
        {"role": "user", "content": "list"},
        {"role": "assistant", "content": [CALL]},
        {"role": "user", "content": "and?"},
    ]
    with pytest.raises(anthropic.BadRequestError) as caught:
        sdk.messages.create(**request(messages=messages))
    error = caught.value
    assert error.type == "invalid_request_error"
    assert error.api_message.startswith(
        "messages.1: `tool_use` ids were found without `tool_result` blocks"
    )
    assert error.body["type"] == "error"
    assert error.body["request_id"] == error.request_id
    assert error.response.headers["x-should-retry"] == "false"


def test_thinking_the_server_gave_out_must_come_back_unchanged(sdk, script):
    script(ASK, DONE)
    body = request("think", tools=[BASH])
    first = sdk.messages.create(**body)
    changed = [block.to_dict() for block in first.content]
    changed[0]["thinking"] = "I never thought this."
    messages = [
        *body["messages"],
        {"role": "assistant", "content": changed},
        answer_calls(first),
    ]
    with pytest.raises(anthropic.BadRequestError, match="cannot be modified"):
        sdk.messages.create(**body | {"messages": messages})


def test_memory_of_thinking_is_bounded_and_keeps_the_newest(monkeypatch):
    monkeypatch.setattr(server, "MAX_REMEMBERED", 10)
    api = server.PracticeApi(server.WireLog(None))
    for n in range(50):
        block = THINKING | {"signature": f"signature-{n}"}
        reply = {"content": [block], "stop_reason": "end_turn"}
        api._message_of(request(), reply)
    assert len(api._issued) <= 10
    assert "signature-49" in api._issued


def test_unknown_fields_are_allowed_with_a_beta_only(sdk, script):
    script(DONE)
    extra = {"extra_body": {"context_hint": {}}}
    with pytest.raises(anthropic.BadRequestError, match="context_hint: Extra inputs"):
        sdk.messages.create(**request(), **extra)
    query = {"extra_query": {"beta": "true"}}
    assert sdk.messages.create(**request(), **extra, **query).stop_reason
    assert sdk.beta.messages.create(**request(), **extra, betas=["b-1"]).stop_reason


def test_the_api_version_decides_on_sampling_parameters(sdk, script):
    script(DONE)
    hot = {"extra_body": {"temperature": 1.0}}
    with pytest.raises(anthropic.BadRequestError, match="temperature"):
        sdk.messages.create(**request(), **hot)
    older = {"extra_headers": {"anthropic-version": "2023-06-01"}}
    assert sdk.messages.create(**request(), **hot, **older).stop_reason == "end_turn"


def test_a_prompt_beyond_the_context_window_is_refused(sdk, script):
    script(DONE)
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long: 25"):
        sdk.messages.create(**request("x" * 1_000_100))


@pytest.mark.parametrize(
    "status, error",
    [
        (429, anthropic.RateLimitError),
        (500, anthropic.InternalServerError),
        (529, anthropic.InternalServerError),
    ],
)
def test_the_sdk_retries_a_scripted_failure_until_it_ends(sdk, script, status, error):
    script(DONE | {"fail": {"status": status, "times": 2, "retry_after": 0.01}})
    assert sdk.messages.create(**request(f"{status} a")).content[0].text == "Done."
    once = sdk.with_options(max_retries=1)
    with pytest.raises(error) as caught:
        once.messages.create(**request(f"{status} b"))
    assert caught.value.status_code == status
    assert caught.value.response.headers["retry-after"] == "0.01"


def test_a_stream_is_retried_over_a_scripted_failure_too(sdk, script):
    script(DONE | {"fail": {"status": 529, "times": 1, "retry_after": 0.01}})
    with sdk.messages.stream(**request("529 stream")) as stream:
        assert stream.get_final_text() == "Done."


def test_a_scripted_failure_ends_for_who_tries_again_by_hand(sdk, script):
    script(DONE | {"fail": {"status": 529, "times": 2, "retry_after": 0.01}})
    client = sdk.with_options(max_retries=0)
    for _ in range(2):
        with pytest.raises(anthropic.InternalServerError, match="Overloaded"):
            client.messages.create(**request("by hand"))
    assert client.messages.create(**request("by hand")).stop_reason == "end_turn"
    with pytest.raises(anthropic.InternalServerError):  # and the script starts again
        client.messages.create(**request("by hand"))


def test_a_stream_can_fail_in_its_middle(sdk, script):
    fail = {"status": 529, "times": 1, "after_events": 4}
    script(DONE | {"fail": fail})
    body = request("mid-stream")
    kinds = []
    with pytest.raises(anthropic.APIStatusError) as caught:
        for event in sdk.messages.create(**body, stream=True):
            kinds.append(event.type)
    assert kinds == ["message_start", "content_block_start", "content_block_delta"]
    assert caught.value.type == "overloaded_error"
    with sdk.messages.stream(**body) as stream:
        assert stream.get_final_text() == "Done."


def test_a_reply_that_cannot_be_made_is_a_500_that_says_so(sdk, monkeypatch):
    monkeypatch.setattr(practice, "reply_to", lambda body: 1 // 0)
    client = sdk.with_options(max_retries=0)
    with pytest.raises(anthropic.InternalServerError, match="ZeroDivisionError"):
        client.messages.create(**request())


def test_twenty_clients_are_served_at_the_same_time(running, monkeypatch):
    together = threading.Barrier(20, timeout=5)

    def reply_to(body):
        if len(body["messages"]) == 1:
            together.wait()  # passes only when all twenty are inside
        word = body["messages"][0]["content"]
        return {"content": [text_block(word)], "stop_reason": "end_turn"}

    monkeypatch.setattr(practice, "reply_to", reply_to)
    options = {"base_url": running.url, "api_key": "practice", "max_retries": 0}
    with anthropic.Anthropic(**options) as client, ThreadPoolExecutor(20) as pool:

        def talk(n):
            messages = [{"role": "user", "content": f"client {n}"}]
            for _ in range(5):
                reply = client.messages.create(**request(messages=messages))
                assert reply.content[0].text == f"client {n}"
                messages.append({"role": "assistant", "content": reply.content})
                messages.append({"role": "user", "content": "go on"})
            return reply.id

        assert len(set(pool.map(talk, range(20)))) == 20


def text_block(text):
    return {"type": "text", "text": text}


def test_a_reply_says_the_same_in_the_log_and_to_the_client(sdk, script, log_file):
    script(ASK)
    created = sdk.messages.create(**request("same"))
    assert lines_of(log_file)[-1]["response"] == created.to_dict()


def test_each_exchange_is_one_line_of_the_log(sdk, script, log_file):
    script(ASK)
    before = len(lines_of(log_file))
    sdk.messages.create(**request("你好\nline two", tools=[BASH]))
    with sdk.messages.stream(**request("streamed")) as stream:
        streamed = stream.get_final_message()
    with pytest.raises(anthropic.BadRequestError):
        sdk.messages.create(**request(""))
    created, stream_line, refused = lines_of(log_file)[before:]
    assert created["request"] == request("你好\nline two", tools=[BASH])
    assert created["response"]["content"] == ASK["content"]
    assert created["stream"] is False and created["ms"] >= 0
    assert (created["method"], created["path"]) == ("POST", "/v1/messages")
    assert stream_line["stream"] is True
    assert stream_line["response"]["id"] == streamed.id
    assert refused["status"] == 400
    assert refused["error"].startswith("invalid_request_error: messages.0")
    assert [line["n"] for line in (created, stream_line, refused)] == [
        created["n"],
        created["n"] + 1,
        created["n"] + 2,
    ]


def test_the_log_says_that_a_stream_ended_in_an_error(sdk, script, log_file):
    script(DONE | {"fail": {"status": 500, "times": 1, "after_events": 5}})
    with pytest.raises(anthropic.APIStatusError):
        list(sdk.messages.create(**request("log mid-stream"), stream=True))
    line = lines_of(log_file)[-1]
    assert line["error"] == "api_error: Internal server error"
    assert line["response"]["content"] == DONE["content"]


def test_a_key_is_in_no_line_of_the_log(running, log_file, script):
    script(DONE)
    key = "sk-ant-secret-0123456789"
    for options in ({"api_key": key}, {"api_key": None, "auth_token": key}):
        with anthropic.Anthropic(base_url=running.url, **options) as client:
            client.messages.create(**request(f"my key is {key}"))
            with pytest.raises(anthropic.NotFoundError):
                client.models.retrieve(key)
    log = log_file.read_text("utf-8")
    assert key not in log
    assert "my key is [key]" in log


def test_without_a_log_nothing_is_written(tmp_path, script, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script(DONE)
    with (
        server.start() as quiet,
        anthropic.Anthropic(base_url=quiet.url, api_key="practice") as client,
    ):
        client.messages.create(**request())
    assert os.listdir(tmp_path) == []


def test_a_log_goes_on_where_an_earlier_run_ended(tmp_path, script):
    script(DONE)
    path = tmp_path / "wire.jsonl"
    for _ in range(2):
        with (
            server.start(log=path) as started,
            anthropic.Anthropic(base_url=started.url, api_key="practice") as client,
        ):
            client.messages.create(**request())
    assert [line["n"] for line in lines_of(path)] == [1, 1]


def test_a_port_can_be_chosen_and_is_free_again_after_close(script):
    with server.start() as first:
        port = int(first.url.rpartition(":")[2])
        with pytest.raises(OSError):
            server.start(port=port)
    with server.start(port=port) as second:
        assert second.url == first.url


def test_close_ends_idle_connections_at_once(script):
    script(DONE)
    started = server.start()
    with anthropic.Anthropic(
        base_url=started.url, api_key="practice", max_retries=0
    ) as client:
        client.messages.create(**request())  # its connection is kept open
        before = time.monotonic()
        started.close()
        assert time.monotonic() - before < 0.5
        started.close()  # a second time does nothing
        with pytest.raises(anthropic.APIConnectionError):
            client.messages.create(**request())


def test_the_real_practice_model_plays_a_script_to_its_end(sdk):
    messages = [{"role": "user", "content": "create hello.py, run it"}]
    body = request(tools=[BASH], cache_control=CACHE)
    for _ in range(10):
        reply = sdk.messages.create(**body | {"messages": messages})
        messages.append({"role": "assistant", "content": reply.content})
        if reply.stop_reason != "tool_use":
            break
        messages.append(answer_calls(reply, "Hello Agent"))
    assert reply.stop_reason == "end_turn"
    assert "Hello Agent" in reply.content[-1].text
    assert any(block.type == "thinking" for block in messages[1]["content"])
