"""The protocol rules one by one: text, index and status, and what is allowed."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace

import pytest

from kit import protocol
from kit.protocol import (
    check_headers,
    check_history,
    check_request,
    error_body,
    outline,
    parse_body,
    problem,
    prompt_fits,
    remember,
)

# Builders


def user(*content):
    return {"role": "user", "content": blocks(content)}


def assistant(*content):
    return {"role": "assistant", "content": blocks(content)}


def system(*content):
    return {"role": "system", "content": blocks(content)}


def blocks(content):
    """Strings become text blocks; one string alone stays the message's content."""
    if len(content) == 1 and isinstance(content[0], str):
        return content[0]
    return [text(block) if isinstance(block, str) else block for block in content]


def text(words, **more):
    return {"type": "text", "text": words, **more}


def call(id="toolu_A", **more):
    return {"type": "tool_use", "id": id, "name": "bash", "input": {}, **more}


def result(id="toolu_A", **more):
    return {"type": "tool_result", "tool_use_id": id, "content": "ok", **more}


def thought(words="", signature="sig"):
    return {"type": "thinking", "thinking": words, "signature": signature}


def server_call(id="srvtoolu_1"):
    query = {"query": "x"}
    return {"type": "server_tool_use", "id": id, "name": "web_search", "input": query}


def server_result(id="srvtoolu_1"):
    return {"type": "web_search_tool_result", "tool_use_id": id, "content": []}


def body(*messages, **fields):
    return {
        "model": "claude-haiku-5-5",
        "max_tokens": 100,
        "messages": list(messages) or [user("hi")],
        **fields,
    }


def tool(name="bash", **more):
    return {"name": name, "input_schema": {"type": "object"}, **more}


def without(mapping, key):
    return {name: value for name, value in mapping.items() if name != key}


# Assertions that say what was sent and which rule was meant


def refused(found, message, sent="", status=400, type="invalid_request_error"):
    want = {"status": status, "type": type, "message": message}
    assert found == want, f"sent:\n{sent}\nwant: {want}\ngot:  {found}"


def history_refused(messages, message):
    refused(check_history(messages), message, outline(messages))
    refused(check_request(body(*messages)), message, outline(messages))


def request_refused(request, message, **options):
    refused(check_request(request, **options), message, json.dumps(request))


def history_accepted(*messages):
    for found in (check_history(list(messages)), check_request(body(*messages))):
        assert found is None, f"refused: {found}\nsent:\n{outline(list(messages))}"


def request_accepted(request, **options):
    found = check_request(request, **options)
    assert found is None, f"refused: {found}\nsent: {json.dumps(request)}"


# Tool pairing


def unanswered(i, ids):
    return (
        f"messages.{i}: `tool_use` ids were found without `tool_result` blocks"
        f" immediately after: {ids}. Each `tool_use` block must have a corresponding"
        " `tool_result` block in the next message."
    )


def unexpected(i, j, id):
    return (
        f"messages.{i}.content.{j}: unexpected `tool_use_id` found in `tool_result`"
        f" blocks: {id}. Each `tool_result` block must have a corresponding"
        " `tool_use` block in the previous message."
    )


A, B, C = call("toolu_A"), call("toolu_B"), call("toolu_C")
RA, RB, RC = result("toolu_A"), result("toolu_B"), result("toolu_C")


@pytest.mark.parametrize(
    "messages, i, ids",
    [
        ([user("hi"), assistant(A)], 1, "toolu_A"),
        ([user("hi"), assistant(A), user("and?")], 1, "toolu_A"),
        ([user("hi"), assistant(A, B), user(RA)], 1, "toolu_B"),
        ([user("hi"), assistant(A, B, C), user(RB)], 1, "toolu_A, toolu_C"),
        ([user("hi"), assistant("ok", A), user("so", RA)], 1, "toolu_A"),
        ([user("hi"), assistant(A, B), user(RA, "so", RB)], 1, "toolu_B"),
        ([user("hi"), assistant(A), user("so"), user(RA)], 1, "toolu_A"),
        (
            [user("1"), assistant("2"), user("3"), assistant(A), user("4")],
            3,
            "toolu_A",
        ),
        ([user("hi"), assistant(A), user("so"), assistant("x")], 1, "toolu_A"),
    ],
    ids=[
        "at the end",
        "only text after it",
        "one of two answered",
        "ids in call order",
        "text before the result",
        "text between the results",
        "text message before the result",
        "index of the assistant message",
        "not answered later either",
    ],
)
def test_a_tool_use_without_its_result_at_the_start_of_the_next_turn_is_refused(
    messages, i, ids
):
    history_refused(messages, unanswered(i, ids))


def test_text_after_a_tool_use_in_the_assistant_turn_is_refused():
    history_refused(
        [user("hi"), assistant(A, "more"), user(RA)], unanswered(1, "toolu_A")
    )
    history_refused(
        [user("hi"), assistant(A, "more", B), user(RA, RB)], unanswered(1, "toolu_A")
    )
    history_refused(
        [user("hi"), assistant(A), assistant("more"), user(RA)],
        unanswered(1, "toolu_A"),
    )


def test_a_result_without_its_call_in_the_previous_turn_is_refused():
    history_refused([user(RA)], unexpected(0, 0, "toolu_A"))
    history_refused(
        [user("hi"), assistant(A), user(RA, RB)], unexpected(2, 1, "toolu_B")
    )
    history_refused(
        [user("hi"), assistant(A), user(RA), assistant("ok"), user(RA)],
        unexpected(4, 0, "toolu_A"),
    )
    history_refused(
        [user("hi"), assistant("ok"), user("so", RA)], unexpected(2, 1, "toolu_A")
    )


def test_an_unanswered_call_is_named_before_the_stray_result_that_follows_it():
    history_refused([user("hi"), assistant(A), user(RB)], unanswered(1, "toolu_A"))


def test_tool_use_ids_are_unique_in_one_turn_and_across_turns():
    history_refused(
        [user("hi"), assistant("ok", A, A), user(RA)],
        "messages.1.content.2: `tool_use` ids must be unique",
    )
    history_refused(
        [user("hi"), assistant(A), user(RA), assistant(A), user(RA)],
        "messages.3.content.0: `tool_use` ids must be unique",
    )


def test_two_results_for_one_call_are_refused():
    wording = (
        "each tool_use must have a single result. Found multiple `tool_result` blocks"
        " with id: toolu_A"
    )
    history_refused(
        [user("hi"), assistant(A), user(RA, RA)], f"messages.2.content.1: {wording}"
    )
    history_refused(
        [user("hi"), assistant(A, B), user(RA, RB), user(RA)],
        f"messages.3.content.0: {wording}",
    )


@pytest.mark.parametrize("id", ["", "a b", "toolu:1", "ä", "toolu_1\n"])
def test_an_id_outside_the_pattern_is_refused(id):
    pattern = "String should match pattern '^[a-zA-Z0-9_-]+$'"
    history_refused(
        [user("hi"), assistant("ok", call(id)), user(result(id))],
        f"messages.1.content.1.tool_use.id: {pattern}",
    )
    history_refused(
        [user("hi"), assistant(A), user(RA, result(id))],
        f"messages.2.content.1.tool_result.tool_use_id: {pattern}",
    )


@pytest.mark.parametrize("value", ["ls", None, ["ls"], 7, True])
def test_a_tool_input_that_is_not_an_object_is_refused(value):
    history_refused(
        [user("hi"), assistant("ok", call(input=value)), user(RA)],
        "messages.1.content.1.tool_use.input: Input should be a valid dictionary",
    )


def test_a_tool_result_outside_a_user_message_is_refused():
    history_refused(
        [user("hi"), assistant(RA), user("so")],
        "`tool_result` blocks can only be in `user` messages",
    )


def test_a_tool_use_outside_an_assistant_message_is_refused():
    history_refused([user(A)], "`tool_use` blocks can only be in `assistant` messages")


def test_a_system_message_is_transparent_to_pairing():
    note = system("stay on course")
    history_accepted(user("hi"), note, assistant(A), note, user(RA), note)
    history_accepted(user("hi"), assistant(A, B), user(RA), note, user(RB))
    history_refused(
        [user("hi"), note, assistant(A), note, user("so")], unanswered(2, "toolu_A")
    )
    history_refused(
        [user("hi"), note, assistant(A), note, user(RA, RB)],
        unexpected(4, 1, "toolu_B"),
    )


def test_merged_messages_keep_their_original_indices():
    history_refused(
        [user("a"), user("b"), assistant("c"), assistant(A), user("d")],
        unanswered(3, "toolu_A"),
    )
    history_refused(
        [user("a"), assistant(A, B), user(RA), user(RB), user(RC)],
        unexpected(4, 0, "toolu_C"),
    )


PICTURE = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
RICH = [
    text("see"),
    {"type": "image", "source": PICTURE},
    {"type": "document", "source": PICTURE, "title": None},
    {"type": "search_result", "source": "u", "title": "t", "content": [text("x")]},
]


@pytest.mark.parametrize(
    "messages",
    [
        [user("hi")],
        [user("hi"), assistant("yes"), user("so")],
        [user("a"), user("b"), assistant("c"), assistant("d"), user("e")],
        [user("hi"), assistant(A), user(RA, "and now?")],
        [user("hi"), assistant("ok", A, B), user(RA, RB)],
        [user("hi"), assistant(A, B), user(RB, RA)],
        [user("hi"), assistant(A, B), user(RA), user(RB)],
        [user("hi"), assistant(A), assistant(B), user(RA, RB)],
        [user("hi"), assistant(call("call_1-x")), user(result("call_1-x"))],
        [user("hi"), assistant(A), user(without(RA, "content"))],
        [user("hi"), assistant(A), user(result(content=""))],
        [user("hi"), assistant(A), user(result(content=[]))],
        [user("hi"), assistant(A), user(result(content=RICH, is_error=True))],
        [user("hi"), assistant(thought(), "ok", A), user(RA)],
        [user("hi"), assistant(thought(), A), user(RA), assistant("b"), user("c")],
        [user(text("hi", cache_control={"type": "ephemeral", "ttl": "1h"}))],
        [user(text("hi", cache_control=None, citations=None))],
        [user("hi"), assistant(call(caller={"type": "direct"})), user(RA)],
        [user("hi"), assistant(server_call(), server_result(), "ok"), user("so")],
        [user("hi"), assistant({"type": "redacted_thinking", "data": "x"}), user("o")],
    ],
    ids=[
        "one question",
        "a conversation",
        "neighbours of one role",
        "text after the results",
        "text before the calls",
        "results in another order",
        "results over two messages",
        "calls over two messages",
        "ids of another kind",
        "result without content",
        "empty string as content",
        "empty list as content",
        "text, image, document and search_result as content",
        "empty thinking with a signature",
        "thinking in an earlier turn",
        "cache breakpoint with a lifetime",
        "nulls that the API takes",
        "fields the API gives in a reply",
        "server tool blocks",
        "redacted thinking",
    ],
)
def test_an_allowed_history_is_accepted(messages):
    history_accepted(*messages)


# Messages and content


def test_a_request_has_at_least_one_message():
    refused(check_history([]), "messages: at least one message is required")
    request_refused(body(messages=[]), "messages: at least one message is required")


@pytest.mark.parametrize("first", [assistant("hi"), system("be brief")])
def test_the_first_message_is_the_users(first):
    history_refused(
        [first, user("hi")], 'messages: first message must use the "user" role'
    )


@pytest.mark.parametrize("role", ["tool", "", None, 3, ["user"], "User"])
def test_a_role_other_than_user_assistant_system_is_refused(role):
    history_refused(
        [user("hi"), {"role": role, "content": "x"}],
        "messages.1.role: Input should be 'user' or 'assistant'",
    )


def test_a_message_without_a_role_is_refused():
    history_refused([{"content": "x"}], "messages.0.role: Field required")


@pytest.mark.parametrize("content", ["", []])
def test_empty_user_content_is_refused(content):
    history_refused(
        [user("a"), assistant("b"), {"role": "user", "content": content}],
        "messages.2: user messages must have non-empty content",
    )


@pytest.mark.parametrize("role", ["assistant", "system"])
@pytest.mark.parametrize("content", ["", []])
def test_other_empty_content_is_refused_before_the_end(role, content):
    history_refused(
        [user("a"), {"role": role, "content": content}, user("b")],
        "messages.1: all messages must have non-empty content except for the optional"
        " final assistant message",
    )


PREFILL = (
    "This model does not support assistant message prefill. The conversation must end"
    " with a user message."
)


@pytest.mark.parametrize("content", ["", []])
def test_an_empty_assistant_message_at_the_end_breaks_only_the_prefill_rule(content):
    history_refused([user("a"), {"role": "assistant", "content": content}], PREFILL)


@pytest.mark.parametrize(
    "messages",
    [
        [user(text(""))],
        [user("a"), assistant(text(""), A), user(RA)],
        [user("a"), assistant(A), user(RA, text(""))],
        [user("a"), assistant(A), user(result(content=[text("")]))],
        [user("a"), system(text("")), user("b")],
    ],
    ids=["user", "assistant", "after a result", "inside a result", "system"],
)
def test_an_empty_text_block_is_refused(messages):
    history_refused(messages, "messages: text content blocks must be non-empty")


@pytest.mark.parametrize(
    "messages",
    [
        [user(" ")],
        [user(text("\n\t"))],
        [user("a"), assistant(text(" \n"), A), user(RA)],
        [user("a"), assistant("  "), user("b")],
    ],
    ids=["string", "block", "beside a call", "assistant string"],
)
def test_a_text_of_white_space_only_is_refused(messages):
    history_refused(
        messages, "messages: text content blocks must contain non-whitespace text"
    )


@pytest.mark.parametrize("content", [None, 7, True, {"type": "text", "text": "x"}])
def test_content_that_is_neither_text_nor_a_list_is_refused(content):
    history_refused(
        [user("a"), {"role": "assistant", "content": content}],
        "messages.1.content: Input should be a valid list",
    )


def test_a_message_without_content_is_refused():
    history_refused([{"role": "user"}], "messages.0.content: Field required")


@pytest.mark.parametrize(
    "messages",
    [
        [user("a"), assistant("The answer is (")],
        [user("a"), assistant("b"), system("c")],
        [user("a"), assistant(server_call(), server_result(), "All done.")],
    ],
    ids=["plain", "before a system message", "finished server tool work"],
)
def test_a_conversation_that_ends_with_the_assistant_is_refused(messages):
    history_refused(messages, PREFILL)


@pytest.mark.parametrize(
    "blocks",
    [
        [server_call()],
        ["Searching.", server_call(), server_result()],
        [server_call(), server_result(), server_call("srvtoolu_2"), "Still at it."],
    ],
    ids=["call", "call and result", "a call without its result"],
)
def test_a_paused_reply_may_be_sent_back_to_go_on(blocks):
    history_accepted(user("a"), assistant(*blocks))


WHOLE_MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [text("hi")],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


@pytest.mark.parametrize(
    "messages, path",
    [
        ([user("a"), WHOLE_MESSAGE, user("b")], "messages.1.id"),
        ([{**user("a"), "name": "bob"}], "messages.0.name"),
        ([{**user("a"), "cache_control": None}], "messages.0.cache_control"),
        ([user("a", text("b", index=0))], "messages.0.content.1.text.index"),
        (
            [user("a"), assistant(call(text="x")), user(RA)],
            "messages.1.content.0.tool_use.text",
        ),
        (
            [user("a"), assistant(A), user(result(name="bash"))],
            "messages.2.content.0.tool_result.name",
        ),
        (
            [user("a"), assistant(A), user(result(content=[text("x", id=1)]))],
            "messages.2.content.0.tool_result.content.0.text.id",
        ),
        (
            [user("a"), assistant({**thought(), "cache_control": None}), user("b")],
            "messages.1.content.0.thinking.cache_control",
        ),
    ],
)
def test_a_field_the_api_does_not_know_is_refused_with_its_path(messages, path):
    history_refused(messages, f"{path}: Extra inputs are not permitted")


@pytest.mark.parametrize(
    "block, flaw",
    [
        (without(A, "id"), ".tool_use.id: Field required"),
        (without(A, "name"), ".tool_use.name: Field required"),
        (without(A, "input"), ".tool_use.input: Field required"),
        (call(caller=None), ".tool_use.caller: Input should be a valid dictionary"),
        (without(text(""), "text"), ".text.text: Field required"),
        (text(None), ".text.text: Input should be a valid string"),
        (without(thought(), "signature"), ".thinking.signature: Field required"),
        ({"text": "no type"}, ".type: Field required"),
        ({"type": 1}, ".type: Input should be a valid string"),
        ("a bare string", ": Input should be a valid dictionary"),
        (
            text("x", cache_control={"type": "forever"}),
            ".text.cache_control.type: Input should be 'ephemeral'",
        ),
    ],
)
def test_a_malformed_block_is_refused_with_its_path(block, flaw):
    messages = [user("a"), {"role": "assistant", "content": [text("b"), block]}]
    history_refused(messages, f"messages.1.content.1{flaw}")


def test_a_null_or_other_odd_result_content_is_refused():
    for content in (None, 7, {"type": "text"}):
        history_refused(
            [user("a"), assistant(A), user(result(content=content))],
            "messages.2.content.0.tool_result.content: Input should be a valid list",
        )
    history_refused(
        [user("a"), assistant(A), user(result(is_error=None))],
        "messages.2.content.0.tool_result.is_error: Input should be a valid boolean",
    )


def test_an_unknown_block_type_is_refused_and_the_known_ones_are_named():
    messages = [user({"type": "image_url", "image_url": {}})]
    found = check_history(messages)["message"]
    start = "messages.0.content.0: Input tag 'image_url' found using 'type' does not"
    assert found.startswith(start), found
    assert "'image'" in found and "'tool_result'" in found, found
    inside = [user("a"), assistant(A), user(result(content=[A]))]
    found = check_history(inside)["message"]
    start = "messages.2.content.0.tool_result.content.0: Input tag 'tool_use'"
    assert found.startswith(start), found


def test_beta_block_types_need_a_beta():
    request = body(user("a"), assistant({"type": "compaction"}), user("b"))
    request_accepted(request, extra_fields=True)
    assert check_request(request)["message"].startswith("messages.1.content.0: Input")


@pytest.mark.parametrize(
    "raw, reason",
    [
        (b"", "Expecting value: line 1 column 1 (char 0)"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": "\\ud83d"}', "no low surrogate in string"),
        (b"[" * 200_000, "nested too deeply"),
    ],
)
def test_a_body_that_is_not_json_is_refused(raw, reason):
    value, found = parse_body(raw)
    assert value is None
    refused(found, f"The request body is not valid JSON: {reason}", raw[:40])


def test_a_body_that_is_not_utf_8_is_refused():
    _, found = parse_body(b'"\xff"')
    assert found["message"].startswith("The request body is not valid JSON: "), found


def test_a_json_body_is_read():
    assert parse_body('{"a": "ä\\ud83d\\ude00"}'.encode()) == (
        {"a": "ä\U0001f600"},
        None,
    )


MODIFIED = (
    ": `thinking` or `redacted_thinking` blocks in the latest assistant message cannot"
    " be modified. These blocks must remain as they were in the original response."
)


@pytest.mark.parametrize(
    "sent, i, j",
    [
        ([thought("better"), text("ok"), A], 1, 0),
        ([thought("plan", "other"), text("ok"), A], 1, 0),
        ([text("ok"), A], 1, 0),
    ],
    ids=["changed text", "changed signature", "dropped"],
)
def test_thinking_the_server_issued_may_not_be_changed_or_dropped(sent, i, j):
    issued = {}
    remember(issued, [thought("plan"), text("ok"), A])
    request = body(user("hi"), assistant(*sent), user(RA))
    request_refused(request, f"messages.{i}.content.{j}{MODIFIED}", issued=issued)


def test_changed_thinking_is_found_by_its_signature_when_there_is_no_call():
    issued = {}
    remember(issued, [thought("one", "s1"), thought("two", "s2"), text("ok")])
    sent = assistant(thought("one", "s1"), thought("2", "s2"), "ok")
    request = body(user("hi"), sent, user("so"))
    request_refused(request, f"messages.1.content.1{MODIFIED}", issued=issued)


def test_thinking_that_comes_back_unchanged_is_accepted():
    issued = {}
    reply = [thought("plan"), {"type": "redacted_thinking", "data": "d"}, A]
    remember(issued, reply)
    request_accepted(body(user("hi"), assistant(*reply), user(RA)), issued=issued)


def test_thinking_is_checked_in_the_latest_assistant_turn_only():
    issued = {}
    remember(issued, [thought("plan"), A])
    request = body(user("hi"), assistant(A), user(RA), assistant("ok"), user("so"))
    request_accepted(request, issued=issued)


def test_thinking_the_server_did_not_issue_is_left_alone():
    request_accepted(body(user("hi"), assistant(thought("?"), A), user(RA)), issued={})


def test_two_replies_that_share_an_id_are_both_accepted():
    issued = {}
    remember(issued, [thought("plan"), A])
    remember(issued, [text("no thought"), A])
    for reply in ([thought("plan"), A], [text("no thought"), A]):
        request_accepted(body(user("hi"), assistant(*reply), user(RA)), issued=issued)


def test_a_prompt_beyond_the_models_length_is_refused():
    refused(prompt_fits(201, 200), "prompt is too long: 201 tokens > 200 maximum")
    assert prompt_fits(200, 200) is None


# Tools and parameters


@pytest.mark.parametrize("field", ["max_tokens", "model", "messages"])
def test_a_required_field_is_named_when_it_is_missing(field):
    request_refused(without(body(), field), f"{field}: Field required")


def test_counting_tokens_needs_no_max_tokens():
    request_accepted(without(body(), "max_tokens"), counting=True)


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"max_tokens": None}, "max_tokens: Input should be a valid integer"),
        ({"max_tokens": True}, "max_tokens: Input should be a valid integer"),
        ({"max_tokens": 1.5}, "max_tokens: Input should be a valid integer"),
        (
            {"max_tokens": -1},
            "max_tokens: Input should be greater than or equal to 0",
        ),
        ({"model": None}, "model: Input should be a valid string"),
        ({"model": ""}, "model: String should have at least 1 character"),
        ({"messages": {}}, "messages: Input should be a valid list"),
        ({"messages": ["hi"]}, "messages.0: Input should be a valid dictionary"),
        ({"stream": "yes"}, "stream: Input should be a valid boolean"),
        ({"system": None}, "system: Input should be a valid list"),
        ({"system": [{"type": "text"}]}, "system.0.text: Field required"),
        ({"system": [text("")]}, "system: text content blocks must be non-empty"),
        ({"tools": {}}, "tools: Input should be a valid list"),
        ({"tools": ["bash"]}, "tools.0: Input should be a valid dictionary"),
        (
            {"cache_control": {"type": "forever"}},
            "cache_control.type: Input should be 'ephemeral'",
        ),
    ],
)
def test_a_parameter_of_the_wrong_type_is_refused(fields, message):
    request_refused(body(**fields), message)


def test_a_body_that_is_not_an_object_is_refused():
    for value in (None, [], "x", 3):
        refused(check_request(value), "Input should be a valid dictionary", value)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "x" * 129, "bash\n"])
def test_a_tool_name_outside_the_pattern_is_refused(name):
    request_refused(
        body(tools=[tool(), tool(name)]),
        "tools.1.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
    )


def test_tool_names_are_unique():
    message = "tools: Tool names must be unique."
    request_refused(body(tools=[tool("a"), tool("b"), tool("a")]), message)
    server_tool = {"type": "bash_20250124", "name": "bash"}
    request_refused(body(tools=[tool("bash"), server_tool]), message)


@pytest.mark.parametrize(
    "definition, flaw",
    [
        (tool(input_schema={}), "input_schema.type: Field required"),
        (
            tool(input_schema={"type": "string"}),
            "input_schema.type: Input should be 'object'",
        ),
        (without(tool(), "input_schema"), "input_schema: Field required"),
        (without(tool(), "name"), "name: Field required"),
        (tool(name=None), "name: Input should be a valid string"),
        (tool(description=None), "description: Input should be a valid string"),
        (tool(parameters={}), "parameters: Extra inputs are not permitted"),
        (tool(type="custom", strict=1), "strict: Input should be a valid boolean"),
    ],
)
def test_a_malformed_tool_is_refused_with_its_path(definition, flaw):
    request_refused(body(tools=[definition]), f"tools.0.custom.{flaw}")


def test_another_vendors_tool_spelling_is_refused():
    found = check_request(body(tools=[{"type": "function", "function": {}}]))
    start = "tools.0: Input tag 'function' found using 'type' does not match"
    assert found["message"].startswith(start), found


def test_an_unknown_model_is_not_found():
    request_refused_404 = check_request(body(model="claude-0"), models=["practice"])
    refused(request_refused_404, "model: claude-0", status=404, type="not_found_error")
    request_accepted(body(model="practice"), models={"practice"})


@pytest.mark.parametrize("field", ["temperature", "top_p", "top_k"])
def test_sampling_parameters_belong_to_the_older_version(field):
    message = f"{field}: Extra inputs are not permitted"
    request_refused(body(**{field: 1}), message)
    request_refused(body(**{field: 1}), message, extra_fields=True)
    request_accepted(body(**{field: 1}), version="2023-06-01")
    request_refused(
        body(**{field: "hot"}),
        f"{field}: Input should be a valid number",
        version="2023-06-01",
    )


def test_an_unknown_top_level_field_needs_a_beta():
    request = body(context_management={})
    request_refused(request, "context_management: Extra inputs are not permitted")
    request_accepted(request, extra_fields=True)


@pytest.mark.parametrize("beta", [True, False])
def test_a_thread_is_refused_with_the_code_that_makes_clients_resend_everything(beta):
    request = body(user(RA), thread={"type": "continue"})
    found = check_request(request, extra_fields=beta)
    assert found["status"] == 400, found
    assert found["details"] == {"error_code": "thread_unsupported_request"}, found
    answer = error_body(found, "req_1")
    assert answer["error"]["details"] == found["details"], answer


MARK = {"type": "ephemeral"}


def test_five_cache_breakpoints_are_one_too_many():
    message = "A maximum of 4 blocks with cache_control may be provided. Found {found}."
    mark = {"cache_control": MARK}
    four = body(
        user("a", text("b", **mark)),
        assistant(A),
        user(result(content=[text("x", **mark)])),
        tools=[tool(**mark)],
        system=[text("s", **mark)],
    )
    request_accepted(four)
    request_refused({**four, "cache_control": MARK}, message.format(found=5))
    five = [*four["messages"], user(text("last", **mark))]
    request_refused({**four, "messages": five}, message.format(found=5))
    request_refused(
        {**four, "messages": [*five, system(text("s", **mark))]},
        message.format(found=6),
    )


def test_the_top_level_breakpoint_adds_nothing_to_one_on_the_last_block():
    marked = [text(str(n), cache_control=MARK) for n in range(4)]
    request_accepted(body(user(*marked), cache_control=MARK))


@pytest.mark.parametrize(
    "fields",
    [
        {"max_tokens": 0},
        {"max_tokens": 8000.0},
        {"cache_control": {"type": "ephemeral"}},
        {"cache_control": None},
        {"system": ""},
        {"system": [text("be brief", cache_control=MARK)]},
        {"tools": []},
        {"tools": [tool(description="d", cache_control=MARK, type="custom")]},
        {"tools": [{"type": "web_search_20260318", "name": "web_search", "x": 1}]},
        {"stream": True, "metadata": {"user_id": "u"}, "stop_sequences": ["x"]},
        {"thinking": {"type": "adaptive"}, "tool_choice": {"type": "auto"}},
    ],
)
def test_an_allowed_parameter_is_accepted(fields):
    request_accepted(body(**fields))


# Transport

GOOD = {"anthropic-version": "2026-10-21", "authorization": "Bearer practice"}


@pytest.mark.parametrize(
    "headers",
    [
        GOOD,
        {"anthropic-version": "2023-06-01", "x-api-key": "practice"},
        {**GOOD, "anthropic-beta": "anything-2030-01-01"},
        {**GOOD, "x-api-key": ""},
    ],
    ids=["SDK 2.x", "older clients", "unknown beta", "empty key beside a token"],
)
def test_headers_of_current_and_older_clients_are_accepted(headers):
    assert check_headers(headers) is None


@pytest.mark.parametrize(
    "headers, message",
    [
        ({}, "anthropic-version: header is required"),
        ({"x-api-key": "k"}, "anthropic-version: header is required"),
        (
            {**GOOD, "anthropic-version": "1999-01-01"},
            "anthropic-version: 1999-01-01 is not a valid version",
        ),
    ],
)
def test_the_version_header_is_required_before_anything_else(headers, message):
    refused(check_headers(headers), message, headers)


@pytest.mark.parametrize(
    "headers, message",
    [
        ({}, "x-api-key header is required"),
        ({"x-api-key": " "}, "invalid x-api-key"),
        ({"authorization": "Bearer "}, "Invalid bearer token"),
        ({"authorization": "Basic abc"}, "Invalid bearer token"),
    ],
)
def test_a_missing_or_blank_credential_is_a_401(headers, message):
    found = check_headers({"anthropic-version": "2026-10-21", **headers})
    refused(found, message, headers, status=401, type="authentication_error")


@pytest.mark.parametrize(
    "type, status",
    [
        ("invalid_request_error", 400),
        ("authentication_error", 401),
        ("permission_error", 403),
        ("not_found_error", 404),
        ("request_too_large", 413),
        ("rate_limit_error", 429),
        ("api_error", 500),
        ("overloaded_error", 529),
    ],
)
def test_each_error_type_has_its_status(type, status):
    assert problem(type, "m") == {"status": status, "type": type, "message": "m"}


def test_an_error_body_has_the_apis_shape():
    found = problem("overloaded_error", "Overloaded")
    error = {"type": "overloaded_error", "message": "Overloaded"}
    want = {"type": "error", "error": error, "request_id": "req_1"}
    assert error_body(found, "req_1") == want


def test_a_body_over_32_mb_is_too_large_and_its_error_has_no_top_level_type():
    assert protocol.MAX_BODY == 32 * 1024 * 1024
    value, found = parse_body(b" " * (protocol.MAX_BODY + 1))
    assert value is None
    assert (found["status"], found["type"]) == (413, "request_too_large"), found
    assert "type" not in error_body(found, "req_1")
    assert protocol.body_size(protocol.MAX_BODY) is None


# The order of the rules


@pytest.mark.parametrize(
    "earlier, later",
    [
        ({"max_tokens": None}, {"tools": [{}]}),
        ({"tools": [{}]}, {"messages": []}),
        ({"messages": [assistant("a"), user(RA)]}, {"model": "unknown"}),
        ({"messages": [user(RA), assistant("a")]}, {"model": "unknown"}),
    ],
    ids=["fields, tools", "tools, messages", "roles, pairing", "pairing, prefill"],
)
def test_the_earlier_rule_speaks_first(earlier, later):
    options = {"models": ["practice"]}
    alone = check_request(body(**earlier), **options)
    both = check_request(body(**{**later, **earlier}), **options)
    assert both == alone, f"alone: {alone}\nboth: {both}"
    assert both["type"] == "invalid_request_error", both


# Robustness


def test_a_history_of_plain_objects_is_read_by_its_attributes():
    block = SimpleNamespace(type="tool_use", id="toolu_A", name="bash", input={})
    messages = [user("hi"), {"role": "assistant", "content": [block]}]
    refused(check_history(messages), unanswered(1, "toolu_A"), messages)
    assert check_history([*messages, user(RA)]) is None


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def random_json(rng, depth=0):
    """Any JSON value, made of the words the rules look for."""
    words = "role content type text id name input tool_use_id user assistant system"
    names = [*words.split(), "messages", "tools", "thread", "cache_control", ""]
    odd = [None, True, 0, -1, 1.5, 10**400, float("nan"), "\ud800", "tool_use", " "]
    kind = rng.random()
    if depth > 4 or kind < 0.4:
        return rng.choice([*odd, *names])
    if kind < 0.7:
        return [random_json(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind < 0.71:
        return nested(5000)
    return {rng.choice(names): random_json(rng, depth + 1) for _ in range(4)}


def test_no_json_value_makes_the_rules_raise():
    rng, issued = random.Random(20261021), {}
    remember(issued, [thought("plan", "text"), A])
    for _ in range(1000):
        value = random_json(rng)
        messages = [user("a"), assistant(A), user(RA)]
        place = rng.choice(messages)
        change = rng.choice(["role", "content", "block"])
        if change == "block" and isinstance(place["content"], list):
            place["content"] = [{**place["content"][0], "input": value}, value]
        else:
            place[change if change != "block" else "content"] = value
        for request in (value, body(*messages), body(messages=value, tools=value)):
            for beta in (True, False):
                found = check_request(request, extra_fields=beta, issued=issued)
                json.dumps(found)
        json.dumps(check_history(value))
        outline(messages)


def test_the_rules_leave_the_request_as_it_was():
    request = body(user("a"), assistant(A), user(RA), tools=[tool()])
    before = json.dumps(request)
    check_request(request)
    check_history(request["messages"])
    assert json.dumps(request) == before
