"""The agent loop, bash and the prompt, on every stage: rules L1-L9, cases A and C."""

import contextlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from anthropic import Anthropic
from anthropic.types import Message
from stagekit import (
    CTRL_C,
    PlainModel,
    Words,
    bash,
    blocks_of,
    check,
    contains,
    equal,
    fresh,
    is_error,
    lacks,
    lives_on,
    pids_in,
    play,
    refused_start,
    repl,
    roles,
    sdk_client,
    set_tool,
    stage_fixture,
    starts_with,
    use,
)

from kit.scripted import (
    ScriptedModel,
    api_error,
    connection_error,
    reply,
    text,
    thinking,
    timeout_error,
    tool_use,
)
from kit.stages import load_stage, stage_file

stage = stage_fixture("s01")

OTHER_STOPS = [
    "max_tokens",
    "stop_sequence",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
    "a_reason_made_up_tomorrow",
    "TOOL_USE",
    "",
    None,
]
TAKEN_BACK = ("refusal", "model_context_window_exceeded")


def talk():
    """A conversation of one finished turn."""
    return [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": [text("Hi.")]},
    ]


def echo(stage):
    """Makes bash give back its command: for what is about the loop, not the shell."""
    set_tool(stage, "bash", lambda command: command)


def seen_by_model(turn, n=-1):
    """The messages of the n-th request."""
    return turn.requests[n]["messages"]


# L1: when the loop goes on and when it stops


def test_a_plain_answer_ends_the_turn_after_one_call(stage):
    turn = play(stage, "All is well.")
    equal("L1", turn, len(turn.requests), 1)
    equal("L1", turn, turn.lines, ["All is well."])
    equal("L1", turn, roles(turn.messages), ["user", "assistant"])


def test_the_loop_goes_on_while_the_model_asks_for_tools(stage):
    turn = play(stage, [bash("echo one")], [bash("echo two")], "Done.")
    equal("L1", turn, turn.results, ["one", "two"])
    equal("L1", turn, len(turn.requests), 3)


def test_every_other_stop_reason_ends_the_turn_and_is_named(stage):
    for reason in OTHER_STOPS:
        turn = play(stage, {"content": [text("Half an")], "stop_reason": reason})
        equal("L1", turn, len(turn.requests), 1)
        contains("C5", turn, turn.said, str(reason), "stopped")


def test_a_call_never_runs_when_the_reply_stopped_for_another_reason(stage):
    ran = []
    set_tool(stage, "bash", ran.append)
    for reason in ("end_turn", *OTHER_STOPS):
        content = [text("Now"), bash("touch never"), bash("touch neither")]
        turn = play(stage, {"content": content, "stop_reason": reason})
        equal("L3", turn, ran, [])
        if reason not in TAKEN_BACK:
            starts = [result[:7] for result in turn.results]
            equal("L3", turn, starts, ["Not run"] * 2)


def test_a_tool_use_stop_without_a_call_ends_the_turn_and_is_named(stage):
    turn = play(stage, reply("I will look.", stop_reason="tool_use"))
    equal("L1", turn, len(turn.requests), 1)
    contains("L1", turn, turn.said, "tool_use", "stopped")


def test_text_beside_a_call_does_not_end_the_turn(stage):
    echo(stage)
    for words in ("Done.", "Task complete. Stop.", "end_turn", "q"):
        turn = play(stage, [text(words), bash("on")], "The end.")
        equal("L1", turn, turn.results, ["on"])


def test_text_that_promises_more_does_not_keep_the_turn_alive(stage):
    turn = play(stage, 'Next I call bash {"command": "ls"}. Continue.')
    equal("L1", turn, len(turn.requests), 1)


def test_an_empty_reply_costs_one_call_and_leaves_a_notice(stage):
    for reason in ("tool_use", "end_turn", *OTHER_STOPS):
        turn = play(stage, {"content": [], "stop_reason": reason}, history=talk())
        equal("C4", turn, len(turn.requests), 1)
        contains("C4", turn, turn.said, "stopped", str(reason))
        lacks("C4", turn, roles(turn.messages)[2:], "assistant")
        after = play(stage, "Good.", say="And now?", history=turn.messages)
        contains("C4", after, str(seen_by_model(after)[-1]), "And now?")


def test_an_empty_reply_after_a_round_ends_the_turn_with_a_notice(stage):
    turn = play(stage, [bash("echo kept")], reply())
    equal("C4", turn, turn.results, ["kept"])
    contains("C4", turn, turn.said, "stopped", "empty")
    after = play(stage, "Good.", say="And now?", history=turn.messages)
    kinds = [block["type"] for block in seen_by_model(after)[-1]["content"]]
    equal("C4", after, kinds, ["tool_result", "text"])


def test_a_reply_of_blank_text_is_an_empty_reply(stage):
    for blank in ("", "  \n\t"):
        turn = play(stage, [text(blank)], history=talk())
        equal("C4", turn, roles(turn.messages), ["user", "assistant", "user"])
        contains("C4", turn, turn.said, "stopped", "empty")


# L2: what goes back


def test_the_reply_goes_back_object_for_object(stage):
    content = [thinking(), text("Looking."), bash("true"), bash("echo x")]
    sent = Message.construct(
        id="msg_1",
        type="message",
        role="assistant",
        model="m",
        content=content,
        stop_reason="tool_use",
        usage=None,
    )
    turn = play(stage, sent, "Done.")
    back = turn.messages[1]["content"]
    same = [one is other for one, other in zip(back, sent.content)]
    equal("L2", turn, same, [True] * 4)
    equal("L2", turn, seen_by_model(turn)[1]["content"], content)


MIXES = [
    [thinking(), text("Looking."), bash("1")],
    [thinking("Hm.", "c2ln"), bash("1")],
    [thinking(), thinking("More."), bash("1")],
    [{"type": "redacted_thinking", "data": "eA=="}, bash("1")],
    [bash("1"), text("That was it.")],
    [bash("1"), text("and"), bash("2")],
    [text(""), bash("1")],
    [text("  \n"), bash("1"), text("")],
    [thinking(), text(""), bash("1")],
    [text("a"), text("b"), bash("1"), bash("2"), text("c"), bash("3")],
    [text("one"), thinking(), text("two"), bash("1")],
]


def test_any_mix_of_blocks_can_be_sent_back(stage):
    echo(stage)
    for content in MIXES:
        turn = play(stage, content, "Done.")
        calls = [block for block in content if block["type"] == "tool_use"]
        equal("L3", turn, turn.results, [call["input"]["command"] for call in calls])
        texts = [block["text"] for block in content if block["type"] == "text"]
        shown = [words for words in texts if words.strip()]
        contains("C6", turn, turn.said, *shown)
        back = seen_by_model(turn)[1]["content"]
        kept = [block["text"] for block in back if block["type"] == "text"]
        equal("C7", turn, kept, shown)
        for kind in ("thinking", "redacted_thinking", "tool_use"):
            came = [block for block in content if block["type"] == kind]
            went = [block for block in back if block["type"] == kind]
            equal("L2", turn, went, came)


def test_thinking_alone_goes_back_and_the_next_line_works(stage):
    for reason in ("end_turn", "max_tokens", "pause_turn"):
        turn = play(stage, reply(thinking(), stop_reason=reason))
        after = play(stage, "Yes.", say="Well?", history=turn.messages)
        equal("L2", after, seen_by_model(after)[1]["content"], [thinking()])


# L3, C1-C3: the results


def test_three_calls_give_one_message_with_three_results_in_order(stage):
    calls = [bash("echo a"), bash("sleep 0.02; echo b"), bash("echo c")]
    turn = play(stage, calls, "Done.")
    answers = turn.messages[2]["content"]
    ids = [answer["tool_use_id"] for answer in answers]
    equal("C1", turn, ids, [call["id"] for call in calls])
    equal("C1", turn, turn.results, ["a", "b", "c"])
    equal("C1", turn, {answer["type"] for answer in answers}, {"tool_result"})
    equal("C1", turn, len(turn.messages), 4)


def test_good_and_bad_calls_in_one_reply_are_all_answered(stage):
    calls = [
        bash("echo a"),
        tool_use("bsh", {}),
        tool_use("bash", {}),
        tool_use("bash", "ls"),
        bash("exit 3"),
    ]
    turn = play(stage, calls, "Done.")
    starts = [result.split()[0] for result in turn.results]
    equal("L3", turn, starts, ["a", "Unknown:", "Error:", "Error:", "(no"])


def test_results_never_move_to_a_later_message(stage):
    turn = play(stage, [bash("echo a")], [bash("echo b"), bash("echo c")], "Done.")
    equal("L3", turn, roles(turn.messages), ["user", "assistant"] * 3)
    kinds = [
        [block["type"] for block in message["content"]]
        for message in seen_by_model(turn)[2::2]
    ]
    equal("L3", turn, kinds, [["tool_result"], ["tool_result"] * 2])


def test_an_unknown_tool_is_named_with_the_tools_there_are(stage):
    tools = [tool["name"] for tool in stage.TOOLS]
    for name in ("bsh", "Bash", "", "run_bash", "__class__", "工具"):
        turn = play(stage, [tool_use(name, {"command": "ls"})], "Done.")
        starts_with("C2", turn, turn.result, f"Unknown: {name}")
        contains("C2", turn, turn.result, *tools)


BAD_ARGUMENTS = [
    # arguments of bash, what the error names
    ({}, "command"),
    ({"cmd": "ls"}, "cmd"),
    ({"command": "ls", "cwd": "/"}, "cwd"),
    ({"command": None}, "command"),
    ({"command": ["ls"]}, "command"),
    ({"command": 5}, "command"),
    ({"command": {"command": "ls"}}, "command"),
    ({"command": "ls", "a b": 1, "": 2}, ""),
]


def test_wrong_arguments_are_an_error_that_names_them(stage):
    for arguments, named in BAD_ARGUMENTS:
        is_error("C3", arguments, use(stage, "bash", arguments), named)


def test_arguments_that_are_no_object_are_an_error_and_the_turn_stays_valid(stage):
    echo(stage)
    for value in ("ls", ["ls"], None, 5, True, "", []):
        turn = play(stage, [tool_use("bash", value)], [bash("on")], "Done.")
        is_error("L6", turn, turn.results[0])
        equal("L6", turn, turn.results[1], "on")


HANDLER_RESULTS = [
    # what a handler returns, how the result starts
    (None, "Error"),
    (7, "7"),
    ("", "(no output)"),
    ([], "[]"),
    (False, "False"),
    (b"\xff", "b'"),
    ("a\ud800b", "a"),
]


def test_whatever_a_handler_returns_becomes_text(stage):
    for value, start in HANDLER_RESULTS:
        set_tool(stage, "bash", lambda command, value=value: value)
        result = use(stage, "bash", {"command": "true"})
        check(result.strip(), "C8", value, result, Words("text that is not blank"))
        starts_with("C8", value, result, start)


class Odd(Exception):
    """An exception that cannot say what it is about."""

    def __str__(self):
        return ""


def endless(command):
    return endless(command)


def raising(error):
    """A handler that raises."""

    def handler(**_):
        raise error

    return handler


HANDLER_ERRORS = [
    PermissionError("not yours"),
    KeyError("x"),
    MemoryError(),
    StopIteration(),
    Odd(),
    AssertionError("no"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no text"),
    ValueError("\ud800"),
]


def test_whatever_a_handler_raises_becomes_an_error_result(stage):
    for handler in (endless, *map(raising, HANDLER_ERRORS)):
        set_tool(stage, "bash", handler)
        turn = play(stage, [bash("true"), tool_use("bsh", {})], "Done.")
        is_error("C8", turn, turn.results[0])
        starts_with("C8", turn, turn.results[1], "Unknown: bsh")


# L4, L7: what the history is like when the prompt comes back

API_ERRORS = {
    "401": api_error(401),
    "403": api_error(403, message="not allowed"),
    "404": api_error(404, message="model: nonsense"),
    "409": api_error(409),
    "429": api_error(429),
    "500": api_error(500),
    "503": api_error(503, message="two\nlines\r\nof   text"),
    "529": api_error(529),
    "no network": connection_error(),
    "no answer": timeout_error(),
    "no key": TypeError("Could not resolve authentication method."),
    "a bug": RuntimeError("x" * 5000),
    "no words": ValueError(),
    "a socket": OSError(104, "Connection reset by peer"),
}
REFUSED = [
    api_error(400, message="messages: nonsense"),
    api_error(400, message="prompt is too long: 9 tokens > 8 maximum"),
    api_error(413),
]


def test_a_failed_first_call_is_one_line_and_the_words_stay(stage):
    kept = [*talk(), {"role": "user", "content": "My wish."}]
    for error in API_ERRORS.values():
        turn = play(stage, error, say="My wish.", history=talk())
        equal("C9", turn, len(turn.lines), 1)
        check(len(turn.said) < 500, "L7", turn, turn.said, Words("one line to read"))
        lacks("L7", turn, turn.said, "Traceback")
        equal("L7", turn, turn.messages, kept)
        after = play(stage, "Here.", say="Again.", history=turn.messages)
        contains("L4", after, str(seen_by_model(after)[-1]), "My wish.", "Again.")
        equal("L4", after, roles(seen_by_model(after)), ["user", "assistant", "user"])


def test_the_line_of_a_failed_call_says_what_to_do(stage):
    wanted = {"401": "ANTHROPIC_API_KEY", "404": "MODEL_ID", "no network": "network"}
    for name in ("401", "404", "429", "529", "no network"):
        turn = play(stage, API_ERRORS[name])
        contains("L7", turn, turn.said, wanted.get(name, "wait"))


def test_a_call_that_fails_later_keeps_the_finished_results(stage):
    echo(stage)
    for error in API_ERRORS.values():
        turn = play(stage, [bash("kept")], error, history=talk())
        equal("L4", turn, turn.results, ["kept"])
        after = play(stage, "Here.", say="go on", history=turn.messages)
        kinds = [block["type"] for block in seen_by_model(after)[-1]["content"]]
        equal("L4", after, kinds, ["tool_result", "text"])


def test_a_turn_the_api_refuses_is_taken_back_out(stage):
    for error in REFUSED:
        turn = play(stage, error, say="My wish.", history=talk())
        equal("L4", turn, turn.messages, talk())
        equal("L4", turn, len(turn.lines), 1)
        contains("L4", turn, turn.said, "taken out")
        after = play(stage, "Here.", say="Again.", history=turn.messages)
        lacks("L4", after, str(seen_by_model(after)), "My wish.")


def test_a_refused_turn_is_taken_back_with_all_its_rounds(stage):
    echo(stage)
    for error in REFUSED:
        turn = play(stage, [bash("1")], [bash("2")], error, history=talk())
        equal("L4", turn, turn.messages, talk())


def test_a_refusal_takes_the_whole_turn_back(stage):
    echo(stage)
    for reason in TAKEN_BACK:
        for content in ([], [text("I can't.")], [text("I"), bash("ls")]):
            refusal = {"content": content, "stop_reason": reason}
            for rounds in ([], [[bash("1")]]):
                turn = play(stage, *rounds, refusal, history=talk())
                equal("L4", turn, turn.messages, talk())
                contains("L4", turn, turn.said, reason, "taken out")
        first = play(stage, {"content": [], "stop_reason": reason})
        equal("L4", first, first.messages, [])


def test_words_no_request_can_carry_are_taken_back_out(stage):
    turn = play(stage, say="half a pair: \ud83d", history=talk())
    equal("L4", turn, turn.messages, talk())
    equal("L7", turn, len(turn.lines), 1)


def test_half_a_character_in_a_call_goes_back_as_a_question_mark(stage):
    turn = play(stage, [bash("echo half a pair: \ud83d")], "Done.", history=talk())
    contains("L4", turn, str(seen_by_model(turn)[-2]), "half a pair: ?")


def test_half_a_character_in_a_text_goes_back_as_a_question_mark(stage):
    turn = play(stage, [text("half \ud83d"), bash("true")], "Done.", history=talk())
    contains("L4", turn, str(seen_by_model(turn)[-2]), "half ?")


def test_lines_typed_after_failures_arrive_together_as_one_message(stage):
    history = talk()
    for words in ("First.", "Second."):
        play(stage, connection_error(), say=words, history=history)
    turn = play(stage, "Here.", say="Third.", history=history)
    last = seen_by_model(turn)[-1]["content"]
    equal("L4", turn, [b["text"] for b in last], ["First.", "Second.", "Third."])


def test_ctrl_c_while_the_model_answers_keeps_the_words(stage):
    turn = play(stage, CTRL_C, say="My wish.", history=talk())
    equal("L4", turn, turn.messages[2:], [{"role": "user", "content": "My wish."}])
    contains("L9", turn, turn.said, "interrupted")
    after = play(stage, "Here.", say="Again.", history=turn.messages)
    contains("L4", after, str(seen_by_model(after)), "My wish.", "Again.")


def test_ctrl_c_in_a_later_model_call_keeps_the_finished_results(stage):
    turn = play(stage, [bash("echo kept")], CTRL_C)
    equal("L4", turn, turn.results, ["kept"])


def test_ctrl_c_in_a_tool_keeps_what_is_done_and_answers_the_rest(stage):
    def handler(command):
        if command == "stop":
            raise KeyboardInterrupt
        return command

    set_tool(stage, "bash", handler)
    turn = play(stage, [bash(word) for word in ("first", "stop", "third", "fourth")])
    equal("L4", turn, turn.results[0], "first")
    contains("L4", turn, turn.results[1], "partly run")
    equal("L4", turn, [result[:7] for result in turn.results[2:]], ["Not run"] * 2)
    lacks("L4", turn, str(turn.results), "Permission denied")


def test_the_line_after_an_interrupt_follows_the_results_in_one_message(stage):
    set_tool(stage, "bash", raising(KeyboardInterrupt()))
    turn = play(stage, [bash("true"), bash("true")])
    after = play(stage, "Well.", say="Leave it.", history=turn.messages)
    last = seen_by_model(after)[-1]["content"]
    kinds = [block["type"] for block in last]
    equal("L4", after, kinds, ["tool_result", "tool_result", "text"])
    equal("L4", after, last[-1]["text"], "Leave it.")


def is_starting_a_process():
    """Whether the main thread has not yet come back from starting a process."""
    frame = sys._current_frames()[threading.main_thread().ident]
    while frame and frame.f_code is not subprocess.Popen.__init__.__code__:
        frame = frame.f_back
    return frame is not None


def ctrl_c_when(path):
    """Sends this process a real Ctrl-C as soon as a command has made the file."""

    def wait():
        until = time.monotonic() + 5
        while not path.exists() or is_starting_a_process():
            if time.monotonic() > until:
                break
            time.sleep(0.002)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_ctrl_c_ends_a_running_command_and_keeps_the_first_result(stage):
    workdir = stage.WORKDIR
    slow = "echo $$ > pid; (sleep 3; touch late) & touch begun; sleep 3; touch late"
    thread = ctrl_c_when(workdir / "begun")
    began = time.monotonic()
    turn = play(stage, [bash("echo kept"), bash(slow), bash("touch never")])
    thread.join()
    took = time.monotonic() - began
    check(took < 2, "A12", slow, Words(f"{took:.1f} s"), Words("the prompt at once"))
    equal("L4", turn, turn.results[0], "kept")
    contains("A12", turn, turn.results[1], "partly run")
    starts_with("A12", turn, turn.results[2], "Not run")
    equal("A12", slow, lives_on(int((workdir / "pid").read_text())), False)
    left = sorted(path.name for path in workdir.iterdir())
    equal("A12", slow, left, ["begun", "pid"])
    play(stage, [bash("echo again")], "Good.", history=turn.messages)


LOOP = ("agent_loop", "call_model", "add_reply", "run_calls", "run_tool")


def lines_of_the_loop(stage):
    """The numbers of the lines of its functions."""
    codes = [getattr(stage, name).__code__ for name in LOOP]
    return sorted({line for code in codes for *_, line in code.co_lines() if line})


def interrupted_at(stage, line):
    """The history after a Ctrl-C right before that line runs the first time."""
    waiting, messages = [line], talk()
    codes = [getattr(stage, name).__code__ for name in LOOP]

    def tracer(frame, event, _):
        if frame.f_code not in codes:
            return None
        if event == "line" and [frame.f_lineno] == waiting:
            waiting.clear()
            raise KeyboardInterrupt
        return tracer

    messages.append({"role": "user", "content": "Please."})
    stage.client = ScriptedModel([[text("Two."), bash("a"), bash("b")], "End."])
    before = sys.gettrace()
    with contextlib.redirect_stdout(io.StringIO()):
        with contextlib.suppress(KeyboardInterrupt):  # as main() does
            sys.settrace(tracer)
            try:
                stage.agent_loop(messages)
            finally:
                sys.settrace(before)
    return messages


def test_ctrl_c_at_any_line_of_the_loop_leaves_a_history_the_api_accepts(stage):
    echo(stage)
    for line in lines_of_the_loop(stage):
        history = interrupted_at(stage, line)
        after = play(stage, "Good.", say="And now?", history=history)
        equal("L4", after, seen_by_model(after)[:2], talk())


# L5: the cap


def rounds(count):
    """Replies that each ask for a tool."""
    return [[bash("again")] for _ in range(count)]


@pytest.mark.parametrize("cap", [1, 3])
def test_the_turn_cap_stops_with_its_own_notice_and_every_call_answered(stage, cap):
    stage.MAX_TURNS = cap
    echo(stage)
    turn = play(stage, *rounds(cap))
    equal("C10", turn, len(turn.requests), cap)
    equal("C10", turn, turn.results, ["again"] * cap)
    contains("C10", turn, turn.lines[-1], "stopped", cap)
    lacks("C10", turn, turn.lines[-1].lower().replace("not done", ""), "done")
    after = play(stage, "Done.", say="go on", history=turn.messages)
    equal("C10", after, after.lines[-1], "Done.")


def test_a_turn_that_ends_at_the_cap_has_no_cap_notice(stage):
    stage.MAX_TURNS = 3
    echo(stage)
    turn = play(stage, *rounds(2), "Done.")
    equal("L5", turn, turn.lines[-1], "Done.")


# L8: what is shown


def test_text_beside_a_call_is_shown_before_the_call_runs(stage):
    seen = []
    set_tool(stage, "bash", lambda command: seen.append(sys.stdout.getvalue()) or "x")
    play(stage, [thinking(), text("I look around."), bash("true")], "Done.")
    contains("L8", Words("text, then a call"), seen[0], "I look around.")


def test_a_call_and_its_result_are_shown(stage):
    turn = play(stage, [bash("echo visible-$((1 + 1))")], "Done.")
    contains("L8", turn, turn.said, "bash", "echo visible-", "visible-2")


USAGE = {
    "input_tokens": 1200,
    "output_tokens": 34,
    "cache_creation_input_tokens": 100,
    "cache_read_input_tokens": 5000,
}


def test_on_a_terminal_each_model_call_leaves_one_line_with_turn_tokens_and_stop(stage):
    replies = (reply(bash("true"), usage=USAGE), reply("Done.", usage=USAGE))
    turn = play(stage, *replies, terminal=True)
    shown = [line.rpartition("\r")[2] for line in turn.said.split("\n")]
    lines = [line for line in shown if "tokens" in line]
    equal("L8", turn, len(lines), 2)
    for n, stop in enumerate(["tool_use", "end_turn"]):
        plain = lines[n].replace(",", "")
        contains("L8", turn, plain, f"turn {n + 1}", "6300", "5000", "34", stop)


def test_a_reply_without_usage_is_no_trouble(stage):
    echo(stage)
    for usage in (None, {}, {"input_tokens": None}, {"other": 1}):
        first = {**reply(bash("1")), "usage": usage}
        turn = play(stage, first, {**reply("Done."), "usage": usage}, terminal=True)
        contains("plain", turn, turn.said, "turn 1", "turn 2", "Done.")


def test_waiting_for_the_model_is_visible_on_a_terminal(stage):
    seen = []

    def answer(_):
        seen.append(sys.stdout.getvalue())
        return "Done."

    turn = play(stage, answer, terminal=True)
    contains("L8", turn, seen[0], "waiting")


def test_without_a_terminal_there_are_no_colours_and_no_status_lines(stage):
    turn = play(stage, [text("Looking."), bash("echo 1")], api_error(529))
    lacks("L8", turn, turn.said, "\033", "\r", "tokens")


def test_no_color_means_no_colours_on_a_terminal_either(stage, monkeypatch):
    coloured = play(stage, [bash("echo 1")], "Done.", terminal=True)
    contains("L8", coloured, coloured.said, "\033[")
    monkeypatch.setenv("NO_COLOR", "1")
    turn = play(stage, [bash("echo 1")], "Done.", terminal=True)
    lacks("L8", turn, turn.said, "\033")
    contains("L8", turn, turn.said, "turn 1", "tokens")


def test_what_comes_from_outside_cannot_steer_the_terminal(stage):
    evil = "clear \033[2J title \033]0;x\007 back\b\b\b\r over \x9b2J"
    turn = play(stage, [text(evil), bash("printf 'a\\033[2Jb'")], evil)
    lacks("L8", turn, turn.said, "\033", "\007", "\b", "\r", "\x9b")
    contains("L8", turn, turn.said, "clear", "over")


def test_a_long_result_is_shortened_on_the_screen_only(stage):
    turn = play(stage, [bash("seq 1 3000")], "Done.")
    contains("L8", turn, turn.result, "\n1500\n", "\n3000")
    check(len(turn.said) < 5000, "L8", turn, len(turn.said), Words("a short excerpt"))


# L9: the prompt


def test_q_and_exit_leave(stage):
    for word in ("q", "exit", "Q", " exit "):
        turn = repl(stage, word, "never read")
        equal("L9", word, (turn.asked, turn.requests), (1, []))


def test_an_empty_line_asks_again_and_end_of_input_leaves(stage):
    for typed in ((), ("", "", ""), ("  ", "\t")):
        turn = repl(stage, *typed)
        equal("L9", typed, (turn.asked, turn.requests), (len(typed) + 1, []))


def test_ctrl_c_at_an_empty_prompt_leaves(stage):
    turn = repl(stage, CTRL_C, "never read")
    equal("L9", "Ctrl-C", (turn.asked, turn.requests), (1, []))


def test_the_prompt_names_the_stage_and_the_line_read_is_echoed(stage):
    turn = repl(stage, "你好 agent", replies=["Hello."])
    contains("L9", turn, turn.said, f"{stage.__name__[:3]} >> ", "你好 agent", "Hello.")


def test_each_line_goes_on_with_the_same_conversation(stage):
    replies = [[bash("echo 1")], "Ah.", "Oh."]
    turn = repl(stage, "One.", "", "Two.", "q", replies=replies)
    equal("L9", turn, len(turn.requests), 3)
    equal("L9", turn, roles(turn.messages), ["user", "assistant"] * 2 + ["user"])
    for message, words in zip(turn.messages[::4], ["One.", "Two."]):
        starts_with("L9", turn, message["content"], words)


def test_ctrl_c_in_a_turn_comes_back_to_the_prompt(stage):
    turn = repl(stage, "One.", "Two.", "q", replies=[CTRL_C, "Here."])
    contains("L9", turn, turn.said, "interrupted", "Here.")
    contains("L4", turn, str(turn.messages), "One.", "Two.")


def test_an_error_in_a_turn_comes_back_to_the_prompt(stage):
    turn = repl(stage, "One.", "Two.", replies=[api_error(529), "Here."])
    contains("C9", turn, turn.said, "529", "Here.")
    contains("C9", turn, str(turn.messages), "One.", "Two.")


def test_output_never_fails_where_the_terminal_is_not_utf_8(stage, monkeypatch):
    stage.client = ScriptedModel([[text("✓ 你好"), bash("echo 🎉")], "\ud800 end"])
    screen = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stdin", io.StringIO("go 你\nq\n"))
    stage.main()
    screen.flush()
    said = screen.buffer.getvalue().decode("ascii")
    contains("L9", "✓ on an ASCII terminal", said, "end")


def test_a_start_without_settings_says_in_one_line_what_to_do(stage):
    key, model = "ANTHROPIC_API_KEY", "MODEL_ID"
    for missing in ([key], [model], [key, model]):
        client = stage.client = ScriptedModel()
        client.auth_token = client.custom_auth = None
        client.api_key = None if key in missing else "sk-1"
        stage.MODEL = "" if model in missing else "m"
        code, said = refused_start(stage)
        equal("setup", missing, (code, said.count("\n")), (2, 1))
        run = f"./workshop run {stage.__name__[:3]}"
        contains("setup", missing, said, ".env", run, *missing)


def test_the_sdk_without_a_key_does_not_start_and_answers_with_one_line(stage):
    stage.client = sdk_client()
    equal("setup", "no key", refused_start(stage)[0], 2)
    turn = play(stage, model=sdk_client())
    equal("C9", turn, len(turn.lines), 1)


@pytest.fixture(scope="module")
def nobody_there():
    """A client of the SDK for a server that does not run."""
    return Anthropic(api_key="x", base_url="http://127.0.0.1:9", max_retries=0)


def test_the_sdk_without_a_server_answers_with_one_line(stage, nobody_there):
    turn = play(stage, model=nobody_there)
    equal("C9", turn, len(turn.lines), 1)
    contains("C9", turn, turn.said, "network")


# Settings, import, replies of other services


def test_a_request_carries_what_the_stage_is_set_to(stage):
    stage.MODEL, stage.SYSTEM, stage.MAX_TOKENS = "m-1", "Be kind.", 321
    stage.TOOLS = stage.TOOLS[:1]
    sent = play(stage, "Yes.").requests[0]
    equal("settings", "MODEL", sent["model"], "m-1")
    equal("settings", "SYSTEM", sent["system"], "Be kind.")
    equal("settings", "MAX_TOKENS", sent["max_tokens"], 321)
    equal("settings", "TOOLS", sent["tools"], stage.TOOLS)
    equal("request", "each request", sent["cache_control"], {"type": "ephemeral"})
    names = {"model", "system", "messages", "tools", "max_tokens", "cache_control"}
    equal("request", "each request", set(sent), names)


def test_the_settings_are_those_of_the_course(stage):
    names = ("MAX_TOKENS", "MAX_TURNS", "BASH_TIMEOUT", "OUTPUT_LIMIT")
    values = [getattr(stage, name) for name in names]
    equal("texts", names, values, [8000, 50, 120, 50_000])


def test_every_tool_has_a_schema_with_its_required_arguments(stage):
    for tool in stage.TOOLS:
        schema = tool["input_schema"]
        check(tool["description"], "tools", tool["name"], "", Words("a description"))
        equal("tools", tool["name"], schema["type"], "object")
        unknown = set(schema["required"]) - set(schema["properties"])
        equal("tools", tool["name"], unknown, set())


def test_importing_a_stage_prints_nothing_and_does_no_work(stage, capfd, monkeypatch):
    monkeypatch.chdir(stage.WORKDIR)
    threads = threading.active_count()
    module = load_stage(stage.__name__)
    equal("import", "import", tuple(capfd.readouterr()), ("", ""))
    equal("import", "import", list(stage.WORKDIR.iterdir()), [])
    equal("import", "import", threading.active_count(), threads)
    equal("import", "import without a key", type(module.client), Anthropic)
    equal("import", "import", module.WORKDIR, Path.cwd())


def loaded_from(stage, folder, env_file):
    """The stage as if its file were in a copy of the repository with this .env."""
    home = folder / "copy"
    home.mkdir(exist_ok=True)
    (home / "README.md").touch()
    (home / ".env").write_bytes(env_file)
    return fresh(stage.__name__, home / stage.__name__ / "code.py")


def test_env_is_found_beside_the_readme_from_any_directory(
    stage, tmp_path, monkeypatch
):
    monkeypatch.chdir("/")
    module = loaded_from(stage, tmp_path, b"MODEL_ID=mine\nANTHROPIC_API_KEY=k\n")
    equal("environment", ".env", module.MODEL, "mine")
    equal("environment", ".env", os.environ["ANTHROPIC_API_KEY"], "k")


def test_the_environment_wins_and_an_empty_variable_is_unset(
    stage, tmp_path, monkeypatch
):
    for value, model in (("mine", "mine"), ("", "file"), (" ", "file")):
        monkeypatch.setenv("MODEL_ID", value)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "")
        module = loaded_from(stage, tmp_path, b"MODEL_ID=file\nANTHROPIC_BASE_URL=\n")
        equal("environment", f"MODEL_ID={value!r}", module.MODEL, model)
        left = [name for name in os.environ if name.startswith("ANTHROPIC_")]
        equal("environment", "empty ANTHROPIC_ variables", left, [])


def test_a_broken_env_file_does_not_break_the_import(stage, tmp_path):
    for env_file in (b"\xff\xfeM", b"MODEL_ID=\xe4", b"MODEL_ID=a\0b", b""):
        loaded_from(stage, tmp_path, env_file)
        os.environ.pop("MODEL_ID", None)
    (tmp_path / "copy" / ".env").unlink()
    (tmp_path / "copy" / ".env").mkdir()
    fresh(stage.__name__, tmp_path / "copy" / stage.__name__ / "code.py")


def test_replies_may_be_plain_objects_without_usage(stage):
    script = [
        [thinking(), text("Looking."), bash("echo 1"), bash("echo 2")],
        [bash("echo 3"), text("after")],
        "Done.",
    ]
    turn = play(stage, model=PlainModel(script), terminal=True)
    equal("plain", turn, turn.results, ["1", "2", "3"])
    contains("plain", turn, turn.said, "Looking.", "after", "Done.")


STAND_IN = """
import json, os
from types import SimpleNamespace

class Anthropic:
    def __init__(self, **options):
        self.messages = self

    def create(self, **request):
        with open(os.environ["SENT"], "a") as log:
            json.dump(request, log, default=vars)
            log.write("\\n")
        with open(os.environ["SENT"]) as log:
            content = json.loads(os.environ["SCRIPT"])[len(list(log)) - 1]
        blocks = [SimpleNamespace(**block) for block in content]
        calls = [block for block in blocks if block.type == "tool_use"]
        reason = "tool_use" if calls else "end_turn"
        return SimpleNamespace(content=blocks, stop_reason=reason)
"""


def test_a_stage_runs_with_stand_ins_for_its_packages(stage, tmp_path):
    (tmp_path / "anthropic.py").write_text(STAND_IN)
    (tmp_path / "dotenv.py").write_text("def load_dotenv(*_, **__): pass")
    script = [[text("Hm."), bash("cat; echo all read")], [text("Done.")], [text("B.")]]
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(tmp_path),
        "MODEL_ID": "m",
        "SCRIPT": json.dumps(script),
        "SENT": str(tmp_path / "sent"),
    }
    done = subprocess.run(
        [sys.executable, "-B", stage_file(stage.__name__)],
        env=env,
        cwd=stage.WORKDIR,
        text=True,
        capture_output=True,
        input="go\nthe next line\nq\n",
        timeout=10,
    )
    equal("plain", "stand-ins", (done.returncode, done.stderr), (0, ""))
    sent = [json.loads(line) for line in (tmp_path / "sent").read_text().splitlines()]
    result = blocks_of(sent[1]["messages"], "tool_result")[0]["content"]
    equal("A3", "bash `cat`, then a line typed", result, "all read")
    contains("A3", done.stdout, str(sent[2]["messages"][-1]), "the next line")


# A: bash


def timed(stage, command):
    """The result of a command and the seconds it took."""
    began = time.monotonic()
    result = stage.run_bash(command)
    return result, time.monotonic() - began


def at_once(stage, commands):
    """(command, result, seconds) of commands that run at the same time."""
    with ThreadPoolExecutor(len(commands)) as pool:
        ends = pool.map(lambda command: timed(stage, command), commands)
        return [(command, *end) for command, end in zip(commands, ends)]


def results_of(stage, table):
    """(command, result, second column) of a table's commands, run at the same time."""
    commands = [command for command, _ in table]
    seen = [result for _, result, _ in at_once(stage, commands)]
    return zip(commands, seen, [wanted for _, wanted in table])


BACKGROUND = [
    "sleep 60 & echo $!; echo started",
    "(sleep 60; echo late) & echo $!; echo started",
    "sleep 60 > /dev/null 2>&1 & echo $!; echo started",
    "nohup sleep 60 & echo $!; echo started",
    "sleep 60 & echo $!; disown; echo started",
    "(while :; do echo tick; sleep 0.01; done) & echo $!; echo started",
    "(trap '' TERM INT HUP; sleep 60) & echo $!; echo started",
    "echo started; { sleep 60 | cat; } & echo $!",
]


def test_a_background_child_neither_holds_the_call_nor_outlives_it(stage):
    for command, result, took in at_once(stage, BACKGROUND):
        contains("A1", command, result, "started")
        check(took < 2, "A1", command, Words(f"{took:.1f} s"), Words("under 2 s"))
        left = [pid for pid in pids_in(result) if lives_on(pid)]
        equal("A1", command, left, [])


def test_a_child_that_leaves_the_group_or_floods_the_pipe_does_not_hold_the_call(stage):
    free = "setsid" if shutil.which("setsid") else ""
    commands = [f"{free} sleep 60 & echo $!; echo started", "yes & sleep 0.01"]
    for command, result, took in at_once(stage, commands):
        for pid in pids_in(result):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        lacks("A1", command, result, "Error", "exit code")
        check(took < 2, "A1", command, Words(f"{took:.1f} s"), Words("under 2 s"))


SLOW = [
    "echo $$; echo before; sleep 60 | cat",
    "echo $$; echo before; sleep 60 & echo $!; wait",
    "trap '' TERM INT HUP; echo $$; echo before; sleep 60",
    "echo $$; echo before; while :; do sleep 0.01; done",
    "echo $$; echo before; exec >&- 2>&-; sleep 60",
]


def test_a_timeout_ends_the_whole_group_and_keeps_what_was_printed(stage):
    stage.BASH_TIMEOUT = 0.2
    for command, result, took in at_once(stage, SLOW):
        is_error("A2", command, result, "Error: Timeout (0.2s)", "before")
        check(0.2 <= took < 1.5, "A2", command, Words(f"{took:.1f} s"), "about 0.2 s")
        left = [pid for pid in pids_in(result) if lives_on(pid)]
        equal("A2", command, left, [])


EMPTY_INPUT = [
    ("cat", "(no output)"),
    ('read x; echo "[$x]"', "[]"),
    ("head -1; wc -c", "0"),
    ("[ -t 0 ] || echo none", "none"),
    ("(: < /dev/tty) 2> /dev/null || echo none", "none"),
]


def test_a_command_has_empty_input_and_no_terminal(stage):
    for command, result, output in results_of(stage, EMPTY_INPUT):
        equal("A3", command, result.strip(), output)


def left_out(result):
    """The number in the line that says how much is missing."""
    found = re.search(r"^\D*([\d,]+) characters left out.*$", result, re.M)
    return int(found[1].replace(",", "")) if found else 0


LONG = [
    # command, characters it prints, what they begin with
    ("seq 1 20000; echo FINAL_ERROR", 108_906, "1\n2\n3\n"),
    ("head -c 90000 /dev/zero | tr '\\0' x; echo FINAL_ERROR", 90_012, "xxx"),
    ("yes '你好' | head -c 210000; echo FINAL_ERROR", 90_012, "你好\n你好\n"),
]


def test_of_a_long_output_head_and_tail_stay_and_the_gap_is_counted(stage):
    limit = stage.OUTPUT_LIMIT
    for command, size, head in LONG:
        result = stage.run_bash(command)
        starts_with("A4", command, result, head)
        check(result.endswith("FINAL_ERROR"), "A4", command, result[-40:], "the end")
        check(len(result) < limit + 100, "A4", command, len(result), limit)
        off = left_out(result) - (size - limit)
        check(abs(off) <= 2, "A4", command, left_out(result), size - limit)


def test_the_output_limit_is_read_when_the_command_runs(stage):
    stage.OUTPUT_LIMIT = 100
    result = stage.run_bash("seq 1 200")
    check(len(result) < 200, "settings", "OUTPUT_LIMIT = 100", len(result), "100")
    equal("A4", "seq 1 20", stage.run_bash("seq 1 20").count("\n"), 19)


def test_memory_stays_bounded_whatever_is_printed(stage):
    stage.OUTPUT_LIMIT = 1000
    tracemalloc.start()
    try:
        stage.run_bash("head -c 4000000 /dev/zero | tr '\\0' x")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    check(peak < 1_000_000, "A4", "4 MB printed", Words(f"{peak:,} bytes"), "bounded")


EXIT_CODES = [
    # command, how the result ends
    ("exit 3", "(no output)\n[exit code 3]"),
    ("true", "(no output)"),
    ("grep zzz f", "[exit code 1]"),
    ("echo a; exit 7", "a\n[exit code 7]"),
    ("no-such-command-here", "[exit code 127]"),
    ("kill -9 $$", "[exit code 137]"),
    ("printf '\\n\\n'", "(no output)"),
    ("false || true", "(no output)"),
]


def test_an_exit_code_is_shown_when_it_is_not_0(stage):
    (stage.WORKDIR / "f").write_text("abc\n")
    for command, result, wanted in results_of(stage, EXIT_CODES):
        check(result.endswith(wanted), "A5", command, result, wanted)
        equal("A5", command, "exit code" in result, "exit code" in wanted)


IN_ORDER = [
    ("echo a; echo b >&2; echo c", "a b c"),
    ("for i in 1 2; do echo o$i; echo e$i >&2; done", "o1 e1 o2 e2"),
    ("(echo a >&2); bash -c 'echo b'; ls nowhere 2>&1 | wc -l", "a b 1"),
]


def test_both_streams_come_back_in_order(stage):
    for command, result, lines in results_of(stage, IN_ORDER):
        equal("A6", command, result.split(), lines.split())


NO_TEXT = [
    ("printf 'head\\377tail'", ["head", "tail"]),
    ("printf 'a\\344\\275'; printf '\\240b'", ["a你b"]),
    ("printf 'cut\\344\\275'", ["cut"]),
    ("head -c 3000 /dev/urandom; echo end", ["end"]),
    ("printf 'a\\0b'", ["a", "b"]),
]


def test_bytes_that_are_no_text_are_replaced(stage):
    for command, result, parts in results_of(stage, NO_TEXT):
        contains("A7", command, result, *parts)
        result.encode()


def test_characters_survive_the_borders_between_reads(stage):
    result = stage.run_bash("printf x; printf '你%.0s' {1..30000}")
    equal("A7", "30,000 times 你", result.count("你"), 30_000)


IN_BASH = [
    ("mkdir -p p/{a,b}; ls p", "a\nb"),
    ("cat <(echo hi)", "hi"),
    ("[[ abc == a* ]] && echo yes", "yes"),
    ("a=(x y z); echo ${a[1]} ${#a[@]}", "y 3"),
    ("echo $'tab\\tone'; echo ${0##*/}", "tab\tone\nbash"),
    ("set -o pipefail; false | true || echo failed", "failed"),
]


def test_commands_run_in_bash(stage):
    for command, result, output in results_of(stage, IN_BASH):
        equal("A8", command, result, output)


def test_a_command_does_not_see_the_keys(stage, monkeypatch):
    names = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY")
    for name in names:
        monkeypatch.setenv(name, "sk-secret")
    for name in names:
        command = f"echo ${{{name}:-unset}}"
        equal("A9", command, stage.run_bash(command), "unset")
    lacks("A9", "env", stage.run_bash("env; cat /proc/self/environ 2>&1"), "sk-secret")


def test_a_command_sees_the_rest_of_the_environment(stage, monkeypatch):
    monkeypatch.setenv("LESSON", "one")
    equal("A9", "echo $LESSON", stage.run_bash("echo $LESSON"), "one")


INDENTED = [
    ("printf '    x = 1\\n'", "    x = 1"),
    ("printf '\\n\\n  a\\n b\\n'", "\n\n  a\n b"),
    ("printf '\\tx\\n    y'", "\tx\n    y"),
]


def test_leading_spaces_survive(stage):
    for command, result, output in results_of(stage, INDENTED):
        equal("A10", command, result, output)


TOO_LONG = "echo " + "x" * 3_000_000
ODD = ["echo a\0b", "\0", None, ["ls"], 5, {}, b"ls", TOO_LONG, "echo \ud800"]


def test_an_odd_command_is_an_error_result(stage):
    for command in ODD:
        is_error("A11", command, stage.run_bash(command))


def test_an_empty_or_broken_command_is_a_result(stage):
    for command in ("", "   ", "# a comment", "echo 'open", "done"):
        result = stage.run_bash(command)
        check(result.strip(), "A11", command, result, Words("text that is not blank"))


def test_a_vanished_working_directory_is_an_error_result(stage):
    stage.WORKDIR.rmdir()
    is_error("A11", "no working directory", stage.run_bash("echo x"), "workspace")


def test_a_command_runs_in_the_workspace_whatever_the_last_one_did(stage):
    (stage.WORKDIR / "here.txt").touch()
    stage.run_bash("cd /")
    equal("settings", "WORKDIR", stage.run_bash("ls"), "here.txt")


# The demonstration list of s01

DANGEROUS = ["rm -rf /", "sudo ls", "shutdown now", "reboot", "echo x > /dev/sd-no/x"]
MENTIONS = [
    "ls > /dev/null",
    "python sudoku.py",
    "grep shutdown x",
    'git commit -m "drop sudo"',
    "rm -rf /tmp/build",
    "make > /dev/null 2>&1 ; echo ran",
    "echo rebooted; echo 'how to shutdown'",
    "cat /dev/null; echo '> /dev/sda'",
    "sudoku=1; reboots=2; echo $sudoku",
]


@pytest.fixture
def harmless_programs(tmp_path, monkeypatch):
    """What a broken list would let run is replaced by a program that prints."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("rm", "sudo", "shutdown", "reboot", "git", "python", "make", "grep"):
        (folder / name).write_text("#!/bin/sh\necho ran")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_the_danger_list_blocks_the_plain_spellings(stage, harmless_programs):
    for command in DANGEROUS:
        result = stage.run_bash(command)
        equal("danger", command, result, "Error: Dangerous command blocked")


def test_the_danger_list_lets_a_harmless_mention_pass(stage, harmless_programs):
    for command, result, _ in at_once(stage, MENTIONS):
        lacks("danger", command, result, "blocked", "exit code")
