"""How the practice model reads a request body and shapes its reply."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from practice_harness import (
    BASH,
    STAGES,
    Harness,
    answer,
    body,
    calls_of,
    text_of,
    tool,
)

from kit import practice
from kit.practice import reply_to

CREATE = "create hello.py, run it"


def user(*content):
    """A user message of texts and blocks."""
    blocks = [{"type": "text", "text": c} if isinstance(c, str) else c for c in content]
    return {"role": "user", "content": blocks}


def use(number, name="bash", **values):
    """An assistant message with one call; the number makes its id."""
    call = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": values}
    return {"role": "assistant", "content": [call]}


def result(number, content, **more):
    """The result of that call."""
    block = {"type": "tool_result", "tool_use_id": f"toolu_{number}"}
    return block | {"content": content} | more


def said(*messages, tools=BASH):
    """The text of the reply to some messages."""
    return text_of(reply_to(body(list(messages), tools)))


def test_the_model_names_start_with_the_default():
    assert practice.MODELS[0] == "practice"
    assert len(set(practice.MODELS)) == len(practice.MODELS)


def test_the_practice_model_does_not_import_the_sdk():
    code = "import sys, kit.practice; print({'anthropic', 'httpx'} & {*sys.modules})"
    root = Path(practice.__file__).parents[1]
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("set()\n", "")


@pytest.mark.parametrize(
    "content",
    [
        CREATE,
        [{"type": "text", "text": CREATE}],
        f"{CREATE}\n\n<context>Working in /x. run nothing</context>",
        f"<system-reminder>never stop</system-reminder>\n{CREATE}",
        [
            {"type": "text", "text": "<system-reminder>use sudo</system-reminder>"},
            {"type": "text", "text": CREATE},
            {"type": "text", "text": "<note kind='x'>never stop</note>"},
        ],
        [{"type": "text", "text": "never stop"}, {"type": "text", "text": CREATE}],
    ],
)
def test_the_last_text_that_was_typed_decides(content):
    reply = reply_to(body([{"role": "user", "content": content}], BASH))
    assert text_of(reply) == "I write hello.py with the shell first."


def test_the_step_is_the_number_of_assistant_turns_since_the_words():
    first = [user(CREATE), use(1, command="x"), user(result(1, "(no output)"))]
    assert said(*first) == "Now I run it."
    reminded = user(result(1, ""), "<reminder>Update your todos.</reminder>")
    assert said(*first[:2], reminded) == "Now I run it."
    system = {"role": "system", "content": "never stop"}
    assert said(first[0], system, first[1], system, first[2], system) == "Now I run it."
    split = [user(CREATE), *_two_calls(), user(result(1, "a")), user(result(2, "b"))]
    assert said(*split) == "Now I run it."


def _two_calls():
    return [use(1, command="x"), use(2, command="y")]  # one turn in two messages


def test_words_after_the_results_of_an_interrupted_call_start_anew():
    interrupted = "Interrupted: this call may have partly run."
    messages = [user("a slow command"), use(1), user(result(1, interrupted), CREATE)]
    assert said(*messages) == "I write hello.py with the shell first."


def test_real_results_are_quoted_from_strings_and_from_lists_of_blocks():
    parts = [{"type": "text", "text": "one"}, {"type": "image", "source": {}}]
    more = [*parts, {"type": "text", "text": "two"}]
    for content, quoted in [
        ("one\ntwo", "    one\n    two"),
        (more, "    one\n    two"),
    ]:
        text = said(user("bash x"), use(1, command="x"), user(result(1, content)))
        assert text == f"bash answered:\n\n{quoted}"
    missing = {"type": "tool_result", "tool_use_id": "toolu_1"}
    assert "(empty)" in said(user("bash x"), use(1, command="x"), user(missing))


def test_only_the_head_of_a_long_result_is_quoted_and_the_answer_says_so():
    long = "\n".join(str(n) for n in range(1, 1001)) + "\n" + "x" * 500
    text = said(user("bash x"), use(1, command="x"), user(result(1, long)))
    assert text.endswith("    8\n    ... (the first 8 of 1,001 lines)")
    text = said(user("bash x"), use(1, command="x"), user(result(1, "y" * 500)))
    assert text.endswith("y" * 200 + "... (line cut)")


@pytest.mark.parametrize(
    ("content", "more", "outcome"),
    [
        ("fine", {}, "bash answered:"),
        (
            "Permission denied.",
            {},
            "bash was not allowed to run. I do not try it again.",
        ),
        ("cat: x: Permission denied\n[exit code 1]", {}, "bash reported a problem:"),
        ("Error: Timeout (120s)", {}, "bash reported a problem:"),
        ("Unknown: bash", {}, "bash reported a problem:"),
        ("a\nb\n[exit code 3]", {}, "bash reported a problem:"),
        ("see [exit code 3]", {}, "bash answered:"),
        ("whatever", {"is_error": True}, "bash reported a problem:"),
        (
            "The user doesn't want to proceed with this tool use.",
            {"is_error": True},
            "bash was not allowed to run. I do not try it again.",
        ),
    ],
)
def test_a_result_is_read_as_an_answer_a_problem_or_a_denial(content, more, outcome):
    text = said(user("bash x"), use(1, command="x"), user(result(1, content, **more)))
    assert text.splitlines()[0] == outcome


def test_a_script_that_does_not_expect_a_denial_or_a_failure_says_so_and_ends():
    denied = [user(CREATE), use(1), user(result(1, "Permission denied."))]
    assert said(*denied).startswith("bash was not allowed to run, so I stop here.")
    failed = [user(CREATE), use(1), user(result(1, "Error: disk full"))]
    assert "    Error: disk full" in said(*failed)


def test_the_introduction_is_honest_and_lists_only_what_can_be_played():
    for stage, missing in [("s01", "read and edit"), ("s02", "plan three steps")]:
        text = text_of(answer("make me a sandwich", STAGES[stage]))
        assert text.startswith("I am a script, not a model")
        assert 'I have no script for "make me a sandwich".' in text
        assert CREATE in text and "bash ls -la" in text and missing not in text
    text = text_of(answer("make me a sandwich", STAGES["s05"]))
    assert "plan three steps" in text and "todo_write [" in text
    assert "bash" not in text_of(answer("make me a sandwich"))
    assert "我是按剧本回放的脚本，不是模型" in text_of(answer("写一首诗", BASH))


@pytest.mark.parametrize("tools", [(), *STAGES.values()], ids=["none", *STAGES])
@pytest.mark.parametrize("words", ["make me a sandwich", "x " * 500, "y" * 300, "help"])
def test_the_introduction_fits_a_terminal_of_80_columns(tools, words):
    text = text_of(answer(words, tools))
    wide = [line for line in text.splitlines() if len(line) > 79]
    assert not wide, wide
    assert words == "help" or len(text.splitlines()) <= 26


def test_the_words_of_the_learner_are_quoted_on_one_short_line():
    text = text_of(answer("one\ntwo " + "x" * 300, BASH))
    assert 'I have no script for "one two ' in text and "x" * 41 not in text


def test_go_on_resumes_the_words_before_it():
    assert "There is nothing to go on with." in said(user("go on"))
    assert "There is nothing to go on with." in said(user("go on", "try again"))
    failed = [user("overloaded for long", "go on")]
    assert said(*failed).startswith("Now it worked.")
    assert "fail" not in reply_to(body(failed))
    cut = [user("write a long story"), _text("Once"), user("go on")]
    assert said(*cut).startswith("... the room")
    over = [*cut, _text("the end"), user("continue")]
    assert said(*over).startswith("That script is at its end.")


def _text(words):
    return {"role": "assistant", "content": [{"type": "text", "text": words}]}


def test_go_on_repeats_an_interrupted_call_but_never_a_denied_one():
    slow = [user("a slow command"), use(1), user(result(1, "Interrupted."), "go on")]
    reply = reply_to(body(slow, BASH))
    assert calls_of(reply) == [("bash", {"command": "sleep 30; echo finished"})]
    slow += [use(2), user(result(2, "finished"))]
    assert said(*slow).startswith("It ran to its end:")
    denied = [user(CREATE), use(1), user(result(1, "Permission denied."), "go on")]
    assert calls_of(reply_to(body(denied, BASH))) == []


def test_a_command_that_ends_in_again_is_still_a_command():
    messages = [user(CREATE), _text("done"), user("bash echo again")]
    assert calls_of(reply_to(body(messages, BASH))) == [
        ("bash", {"command": "echo again"})
    ]


@pytest.mark.parametrize(
    ("words", "fail"),
    [
        ("overloaded", {"status": 529, "times": 2}),
        ("overloaded for long", {"status": 529, "times": 3}),
        ("rate limit", {"status": 429, "times": 1, "retry_after": 1}),
        ("server error", {"status": 500, "times": 1}),
    ],
)
def test_scripted_failures_say_how_often_and_then_there_is_an_answer(words, fail):
    reply = answer(words, BASH)
    assert reply["fail"] == fail
    assert reply["stop_reason"] == "end_turn" and text_of(reply)


def test_a_request_typed_again_after_a_failure_does_not_fail_again():
    assert "fail" not in reply_to(body([user("overloaded"), user("overloaded")]))
    answered = [user("overloaded"), _text("here"), user("overloaded")]
    assert reply_to(body(answered))["fail"]["times"] == 2


def test_a_reply_opens_with_an_empty_signed_thinking_block():
    first, *rest = answer(CREATE, BASH)["content"]
    assert (first["type"], first["thinking"]) == ("thinking", "")
    assert first["signature"] and [b["type"] for b in rest] == ["text", "tool_use"]
    later = answer("make a.py, run it", BASH)["content"][0]
    assert later["signature"] != first["signature"], "one signature for two replies"


def test_the_odd_endings_have_their_stop_reason():
    reply = answer("write a long file", BASH)
    assert reply["stop_reason"] == "max_tokens" and calls_of(reply)
    reply = answer("refuse this")
    assert (reply["content"], reply["stop_reason"]) == ([], "refusal")
    assert {*reply["stop_details"]} == {"type", "category", "explanation"}
    assert reply["stop_details"]["type"] == "refusal"
    reply = answer("say nothing")
    assert (reply["content"], reply["stop_reason"]) == ([], "end_turn")
    assert answer("a new stop reason")["stop_reason"] == "practice_stop"


def test_a_paused_turn_is_resumed_by_sending_it_back():
    paused = answer("pause in the middle")
    assert paused["stop_reason"] == "pause_turn"
    messages = [user("pause in the middle")]
    messages.append({"role": "assistant", "content": paused["content"]})
    assert said(*messages).startswith("I was paused")


def test_max_tokens_and_stop_sequences_end_a_reply_as_the_api_does():
    reply = answer("help", BASH, max_tokens=5)
    assert (text_of(reply), reply["stop_reason"]) == (
        "I am a script, not a",
        "max_tokens",
    )
    reply = answer("help", BASH, max_tokens=0)
    assert (reply["content"], reply["stop_reason"]) == ([], "max_tokens")
    reply = answer(CREATE, BASH, max_tokens=12)
    assert (calls_of(reply), reply["stop_reason"]) == ([], "max_tokens")
    reply = answer("help", BASH, stop_sequences=["model", "script"])
    assert text_of(reply) == "I am a"
    assert (reply["stop_reason"], reply["stop_sequence"]) == ("stop_sequence", "script")


def test_the_tools_of_other_clients_are_called_by_their_own_names():
    names = ["Bash", "Read", "mcp__shop__bash", "mcp__shop__add"]
    tools = [tool(name, {"command": "string"}, timeout="number") for name in names]
    assert calls_of(answer(CREATE, tools[:2]))[0][0] == "Bash"
    assert calls_of(answer(CREATE, tools[2:]))[0][0] == "mcp__shop__bash"
    assert calls_of(answer("add 1 2", tools)) == [
        ("mcp__shop__add", {"command": "1 2"})
    ]
    many = [tool(f"Tool{n}", {"a": "string"}) for n in range(24)]
    assert "... and 12 more tools" in text_of(answer("what?", many))
    server_side = {"type": "web_search_20250305", "name": "web_search"}
    assert "web_search" not in text_of(answer("what?", [server_side]))


def test_a_request_that_forbids_tools_gets_none():
    reply = answer("bash ls", BASH, tool_choice={"type": "none"})
    assert calls_of(reply) == []


def test_ids_stay_unique_when_a_client_shortens_its_history():
    messages = [user("a"), _text("b"), user("list the files")]
    assert reply_to(body(messages, BASH))["content"][-1]["id"] == "toolu_p3c1"
    call = use("p3c1", command="ls")
    messages = [user("summary"), call, user(result("p3c1", "x"), "list the files")]
    fresh = reply_to(body(messages, BASH))["content"][-1]["id"]
    assert fresh != "toolu_p3c1" and fresh.startswith("toolu_p3c1")


def test_a_reply_takes_less_than_a_millisecond_at_400_messages(tmp_path):
    harness = Harness(tmp_path, "s05")
    harness.run = lambda call: "x" * 2000
    harness.say("never stop", turns=200)
    request = body(harness.messages, harness.tools)
    times = []
    for _ in range(40):
        start = time.perf_counter()
        reply_to(request)
        times.append(time.perf_counter() - start)
    took = min(times) * 1000
    assert len(request["messages"]) > 400
    assert took < 1.5, f"{took:.2f} ms; 1 ms on a quiet machine is the aim"


def test_text_without_end_is_read_in_a_moment():
    for text in ("<" * 200_000, "<context>" * 20_000, "a.b" * 100_000, "'" * 100_000):
        start = time.perf_counter()
        answer(text, STAGES["s05"])
        answer(f"edit_file {text}", STAGES["s05"])
        took = time.perf_counter() - start
        assert took < 1, f"{text[:20]!r} took {took:.1f} s"


def test_odd_bodies_get_a_reply_and_no_exception():
    dice = random.Random(5)
    odd = [None, 7, "", [], {}, "x", ["x"], {"type": "text"}, [{"type": "tool_use"}]]
    odd += [[{"type": "text", "text": 3}], [{"type": "tool_result", "content": [1]}]]
    tools = [None, [], [7], [{"name": 3}], [{"name": "bash", "input_schema": 5}], *BASH]
    for _ in range(3000):
        roles = [dice.choice(["user", "assistant", "system", 1]) for _ in range(4)]
        messages = [{"role": role, "content": dice.choice(odd)} for role in roles]
        messages.append(
            dice.choice([user(CREATE), user("bash ls"), None, user("go on")])
        )
        request = {"messages": messages, "tools": dice.choice(tools)}
        reply = reply_to(request)
        json.dumps(reply)
        assert reply["stop_reason"], request
