"""Token figures: an estimate that grows with the history, and a cache of prefixes."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from kit import usage

CACHED = {"cache_control": {"type": "ephemeral"}}
TOOL = {"name": "bash", "description": "Run it.", "input_schema": {"type": "object"}}
BODY = {
    "model": "practice",
    "system": "You are an agent.",
    "tools": [TOOL],
    "messages": [
        {"role": "user", "content": "list the files"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "bash", "input": {"a": "ls"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "a.py"}
            ],
        },
    ],
}


def with_messages(count, **fields):
    return BODY | {"messages": BODY["messages"][:count]} | fields


def figures(found):
    """(new, written to the cache, read from it)"""
    return (
        found["input_tokens"],
        found["cache_creation_input_tokens"],
        found["cache_read_input_tokens"],
    )


@pytest.fixture
def clock():
    return Clock()


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def cache(clock):
    return usage.PrefixCache(clock)


def test_the_estimate_is_about_one_token_per_four_bytes_of_text():
    text = "word " * 4000
    body = {"messages": [{"role": "user", "content": text}]}
    found = usage.estimate_tokens(body)
    assert 5000 <= found <= 5030, f"20,000 bytes give {found} tokens"


def test_tools_system_and_every_message_add_to_the_estimate():
    parts = [
        {"messages": []},
        {"tools": BODY["tools"]},
        BODY | {"messages": []},
        *(with_messages(count) for count in (1, 2, 3)),
    ]
    found = [usage.estimate_tokens(part) for part in parts]
    assert found == sorted(set(found)) and found[0] == 0, found


def test_an_estimate_is_the_same_each_time_and_with_cache_control():
    marked = with_messages(3, **CACHED, system=[text_block("You are an agent.", True)])
    found = {usage.estimate_tokens(body) for body in (BODY, BODY, marked)}
    assert len(found) == 1, f"cache_control costs no tokens of its own: {found}"


def text_block(text, marked=False):
    return {"type": "text", "text": text} | (CACHED if marked else {})


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a tool_result"])
def test_a_picture_counts_by_the_piece_and_not_by_its_bytes(inside):
    source = {"type": "base64", "media_type": "image/png", "data": "A" * 1_000_000}
    block = {"type": "image", "source": source}
    if inside:
        block = {"type": "tool_result", "tool_use_id": "t1", "content": [block]}
    found = usage.estimate_tokens({"messages": [{"role": "user", "content": [block]}]})
    assert 1600 < found < 1700


def test_an_empty_reply_costs_one_output_token():
    assert usage.output_tokens([]) == 1


def test_a_longer_reply_costs_more_output_tokens(cache):
    short = cache.usage_for(BODY, [text_block("yes")])["output_tokens"]
    long = cache.usage_for(BODY, [text_block("yes " * 100)])["output_tokens"]
    assert 1 < short < 30 < 100 <= long < 130


def test_without_cache_control_all_input_is_new_each_time(cache):
    total = usage.estimate_tokens(BODY)
    assert figures(cache.usage_for(BODY, [])) == (total, 0, 0)
    assert figures(cache.usage_for(BODY, [])) == (total, 0, 0)


def test_the_same_request_is_first_written_to_the_cache_and_then_read(cache):
    total = usage.estimate_tokens(BODY)
    assert figures(cache.usage_for(BODY | CACHED, [])) == (0, total, 0)
    assert figures(cache.usage_for(BODY | CACHED, [])) == (0, 0, total)


def test_a_growing_history_reads_what_was_sent_before_and_writes_the_rest(cache):
    read = 0
    for count in (1, 2, 3):
        body = with_messages(count, **CACHED)
        total = usage.estimate_tokens(body)
        found = figures(cache.usage_for(body, []))
        assert found == (0, total - read, read), f"with {count} messages"
        read = total


def test_a_breakpoint_on_a_block_may_move_on_from_turn_to_turn(cache):
    first = {"role": "user", "content": [text_block("list the files", marked=True)]}
    cache.usage_for(BODY | {"messages": [first]}, [])
    *earlier, result = BODY["messages"]
    marked = result | {"content": [result["content"][0] | CACHED]}
    found = cache.usage_for(BODY | {"messages": [*earlier, marked]}, [])
    before = usage.estimate_tokens(with_messages(1))
    assert figures(found) == (0, usage.estimate_tokens(BODY) - before, before)


def test_what_follows_the_last_breakpoint_is_new_input(cache):
    body = BODY | {"system": [text_block("You are an agent.", marked=True)]}
    prefix = usage.estimate_tokens(with_messages(0))
    new = usage.estimate_tokens(BODY) - prefix
    assert figures(cache.usage_for(body, [])) == (new, prefix, 0)
    assert figures(cache.usage_for(body, [])) == (new, 0, prefix)


def test_a_block_inside_a_message_can_be_the_breakpoint(cache):
    parts = [text_block("long file", marked=True), text_block("and a question")]
    message = {"role": "user", "content": parts}
    cache.usage_for({"messages": [message]}, [])
    other = {"role": "user", "content": [parts[0], text_block("another question")]}
    new, written, read = figures(cache.usage_for({"messages": [other]}, []))
    assert new > 0 and written == 0 and read > 0, (new, written, read)


@pytest.mark.parametrize(
    "change",
    [
        {"model": "claude-haiku-5-5"},
        {"tools": [TOOL | {"description": "Run it now."}]},
        {"tools": [TOOL, TOOL | {"name": "bash2"}]},
    ],
    ids=["model", "a tool's text", "one more tool"],
)
def test_a_change_in_front_makes_the_whole_prefix_new(cache, change):
    cache.usage_for(BODY | CACHED, [])
    changed = BODY | CACHED | change
    total = usage.estimate_tokens(changed)
    assert figures(cache.usage_for(changed, [])) == (0, total, 0)


def test_a_changed_early_message_keeps_only_what_stands_before_it(cache):
    marked_system = {"system": [text_block("You are an agent.", marked=True)]}
    cache.usage_for(BODY | CACHED | marked_system, [])
    messages = [{"role": "user", "content": "count the files"}, *BODY["messages"][1:]]
    changed = BODY | CACHED | marked_system | {"messages": messages}
    prefix = usage.estimate_tokens(with_messages(0))
    total = usage.estimate_tokens(changed)
    assert figures(cache.usage_for(changed, [])) == (0, total - prefix, prefix)


def test_a_string_and_one_text_block_are_the_same_prefix(cache):
    cache.usage_for(BODY | CACHED, [])
    first = {"role": "user", "content": [text_block("list the files")]}
    messages = [first, *BODY["messages"][1:]]
    found = cache.usage_for(BODY | CACHED | {"messages": messages}, [])
    assert figures(found) == (0, 0, usage.estimate_tokens(BODY))


def test_an_entry_lives_five_minutes_from_its_last_use(cache, clock):
    total = usage.estimate_tokens(BODY)
    cache.usage_for(BODY | CACHED, [])
    for _ in range(3):
        clock.now += 299
        assert figures(cache.usage_for(BODY | CACHED, [])) == (0, 0, total)
    clock.now += 301
    assert figures(cache.usage_for(BODY | CACHED, [])) == (0, total, 0)


def test_reading_a_prefix_keeps_it_alive_for_other_requests(cache, clock):
    cache.usage_for(with_messages(1, **CACHED), [])
    clock.now += 200
    cache.usage_for(with_messages(3, **CACHED), [])
    clock.now += 200
    read = figures(cache.usage_for(with_messages(1, **CACHED), []))[2]
    assert read == usage.estimate_tokens(with_messages(1))


def test_a_ttl_of_one_hour_is_kept_for_an_hour(cache, clock):
    body = BODY | {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    cache.usage_for(body, [])
    clock.now += 3599
    assert figures(cache.usage_for(body, []))[2] == usage.estimate_tokens(BODY)
    clock.now += 3601
    assert figures(cache.usage_for(body, []))[2] == 0


def test_the_cache_forgets_its_oldest_entries_instead_of_growing(cache, monkeypatch):
    monkeypatch.setattr(usage, "MAX_ENTRIES", 3)
    bodies = [with_messages(1, **CACHED, system=f"Agent {n}.") for n in range(5)]
    for body in bodies:
        cache.usage_for(body, [])
    newest_first = [figures(cache.usage_for(b, []))[2] > 0 for b in bodies[:1:-1]]
    assert newest_first == [True, True, True]
    assert figures(cache.usage_for(bodies[0], []))[2] == 0


def test_many_threads_get_figures_that_add_up(cache):
    bodies = [with_messages(n % 3 + 1, **CACHED) for n in range(200)]
    with ThreadPoolExecutor(20) as pool:
        found = pool.map(lambda body: sum(figures(cache.usage_for(body, []))), bodies)
        assert list(found) == [usage.estimate_tokens(body) for body in bodies]
