"""Server-sent events: the order the API keeps, and deltas that add up again."""

import json

import pytest

from kit import sse

USAGE = {
    "input_tokens": 7,
    "cache_creation_input_tokens": 20,
    "cache_read_input_tokens": 300,
    "output_tokens": 42,
}


def message(*blocks, **fields):
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "practice",
        "content": list(blocks),
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": USAGE,
    } | fields


THINKING = {"type": "thinking", "thinking": "", "signature": "s" * 80}
TEXT = {"type": "text", "text": "I look at the files in this folder first.\n\nThen..."}
CALL = {
    "type": "tool_use",
    "id": "toolu_1",
    "name": "bash",
    "input": {"command": "printf '%s\\n' \"你好\" > a.txt; cat a.txt", "n": [1, {}]},
}
ODD_BLOCKS = [
    {"type": "text", "text": ""},
    {"type": "text", "text": "一二三四五" * 30 + "\u2028 \U0001f600 \x7f"},
    {"type": "text", "text": "half a pair: \ud83d"},
    {"type": "text", "text": "event: error\ndata: {}\n\n"},
    {"type": "tool_use", "id": "toolu_2", "name": "bash", "input": {}},
    {"type": "thinking", "thinking": "first this, then that", "signature": "sig"},
    {"type": "redacted_thinking", "data": "opaque"},
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web", "input": {"q": 1}},
]


def names(found):
    return [name for name, _ in found]


def deltas(found, kind):
    return [d["delta"] for _, d in found if d.get("delta", {}).get("type") == kind]


def over_the_wire(found):
    """The message that a client puts together from these events."""
    return sse.assemble(sse.parse(b"".join(sse.encode(event) for event in found)))


def test_events_come_in_the_order_of_the_api():
    found = names(sse.events(message(THINKING, TEXT, CALL)))
    once = [name for n, name in enumerate(found) if [name] != found[n - 1 : n]]
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    start, end = ["message_start", "ping"], ["message_delta", "message_stop"]
    assert once == start + block * 3 + end


def test_each_event_says_its_own_name_as_its_type():
    assert all(name == data["type"] for name, data in sse.events(message(TEXT, CALL)))


def test_both_usages_are_there_and_the_last_one_is_the_whole():
    found = dict(sse.events(message(TEXT)))
    first, last = found["message_start"]["message"], found["message_delta"]
    assert first["usage"] == USAGE | {"output_tokens": 1}
    assert last["usage"] == USAGE
    assert (first["content"], first["stop_reason"]) == ([], None)
    assert last["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}


def test_text_comes_in_several_pieces_that_add_up():
    pieces = [d["text"] for d in deltas(list(sse.events(message(TEXT))), "text_delta")]
    assert len(pieces) > 1 and "".join(pieces) == TEXT["text"], pieces


def test_tool_input_comes_in_pieces_of_json_that_add_up():
    found = deltas(list(sse.events(message(CALL))), "input_json_delta")
    pieces = [delta["partial_json"] for delta in found]
    assert len(pieces) > 2 and json.loads("".join(pieces)) == CALL["input"], pieces


def test_empty_thinking_has_one_signature_delta_and_no_other():
    found = list(sse.events(message(THINKING)))
    signature = {"type": "signature_delta", "signature": THINKING["signature"]}
    assert [d["delta"] for n, d in found if n == "content_block_delta"] == [signature]


def test_a_long_text_comes_in_longer_pieces_not_in_thousands():
    text = "x" * 100_000
    found = list(sse.events(message({"type": "text", "text": text})))
    assert len(found) <= sse.MAX_PIECES + 6
    assert over_the_wire(found)["content"][0]["text"] == text


@pytest.mark.parametrize("block", [THINKING, TEXT, CALL, *ODD_BLOCKS])
def test_a_message_arrives_as_it_was(block):
    sent = message(TEXT, block, stop_reason="refusal", stop_details={"type": "refusal"})
    assert over_the_wire(sse.events(sent)) == sent


def test_a_message_without_content_arrives_as_it_was():
    assert over_the_wire(sse.events(message())) == message()


def test_taking_a_message_apart_leaves_it_as_it_was():
    sent = message(THINKING, TEXT, CALL)
    before = json.dumps(sent)
    over_the_wire(sse.events(sent))
    assert json.dumps(sent) == before


def test_an_error_in_the_middle_is_kept_beside_what_had_come():
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "O"}}
    found = [*list(sse.events(message(TEXT)))[:4], sse.error_event(error)]
    assert names(found)[-1] == "error"
    assembled = over_the_wire(found)
    assert assembled["error"] == error["error"]
    assert TEXT["text"].startswith(assembled["content"][0]["text"]) is True


def test_a_stream_that_breaks_off_gives_what_had_come():
    whole = b"".join(map(sse.encode, sse.events(message(TEXT, CALL))))
    for end in range(0, len(whole), 7):
        found = sse.assemble(sse.parse(whole[:end]))
        kinds = [block["type"] for block in found.get("content", [])]
        assert kinds == ["text", "tool_use"][: len(kinds)], whole[:end]
