"""The hooks, on s04 and every later stage: one contract, four events, cases E1-E4."""

import functools
import re
import shutil
from types import SimpleNamespace

import pytest
from stagekit import (
    CTRL_C,
    END,
    Words,
    as_sent,
    bash,
    check,
    contains,
    equal,
    is_error,
    lacks,
    play,
    repl,
    roles,
    set_tool,
    stage_fixture,
    starts_with,
    use,
)

from kit.scripted import (
    api_error,
    connection_error,
    reply,
    text,
    thinking,
    timeout_error,
    tool_use,
)

stage = stage_fixture("s04")

ARGUMENTS = {
    "UserPromptSubmit": ("Please.",),
    "PreToolUse": (SimpleNamespace(name="bash", input={"command": "true"}, id="a"),),
    "PostToolUse": (SimpleNamespace(name="bash", input={}, id="b"), "out"),
    "Stop": ([{"role": "user", "content": "Please."}],),
}
NO_OPINION = [None, "", False, 0, [], {}, 0.0, b"", ()]
NO_TEXT = [True, 1, ["text"], {"block": True}, b"no", 0.5, ("no",)]
WORDS = ["No.", "0", "None", "Error: not on a Friday", "two\nlines", " é ", "[]"]


class Unsure:
    """A value that cannot say whether it is true, as arrays of numbers do."""

    def __bool__(self):
        raise ValueError("which of them?")


FAILURES = [
    ValueError("broken pipe dream"),
    KeyError("x"),
    AssertionError(),
    StopIteration(),
    MemoryError(),
    RecursionError("too deep"),
    PermissionError(13, "not yours"),
]


class Hook:
    """A hook that gives these answers in turn, then None, and keeps its arguments.

    An answer that is an exception is raised, one that is a function is called.
    """

    def __init__(self, *answers, name="my_hook"):
        self.answers = list(answers)
        self.calls = []
        self.__name__ = name

    def __call__(self, *arguments):
        self.calls.append(arguments)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, BaseException):
            raise answer
        return answer(*arguments) if callable(answer) else answer


class Always(Hook):
    """A hook that gives the same answer each time."""

    def __call__(self, *arguments):
        self.answers = self.answers[:1] * 2
        return super().__call__(*arguments)


def hook(stage, event, *hooks):
    """Makes these the only hooks of an event; gives the first back."""
    stage.HOOKS[event].clear()
    for one in hooks:
        stage.register_hook(event, one)
    return hooks[0]


def echo(stage):
    """Makes bash give back its command, and keeps what ran."""
    ran = []
    set_tool(stage, "bash", lambda command: ran.append(command) or command)
    return ran


def session(stage, *replies, typed=("Please.",)):
    """What `main()` leaves behind: a call of bash, an answer, then these replies."""
    return repl(stage, *typed, replies=[[bash("on")], "Done.", *replies])


def words_of(message):
    """The texts of a message, whatever shape it has."""
    content = message["content"]
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content if block["type"] == "text"]


def hook_lines(turn):
    """The lines that hooks printed."""
    return [line for line in turn.said.splitlines() if line.startswith("[hook]")]


# The contract: what an answer means


@pytest.mark.parametrize("event", ARGUMENTS)
def test_an_answer_that_is_false_is_no_opinion_and_the_next_hook_runs(stage, event):
    for value in NO_OPINION:
        nexts = Hook(), Hook("Enough."), Hook()
        hook(stage, event, Hook(value), *nexts)
        answer = stage.trigger_hooks(event, *ARGUMENTS[event])
        given = Words(f"a {event} hook that returns {value!r}, then 'Enough.'")
        equal("hooks", given, answer, "Enough.")
        equal("hooks", given, [len(one.calls) for one in nexts], [1, 1, 0])


def test_hooks_without_an_opinion_change_nothing(stage):
    ran = echo(stage)
    for value in NO_OPINION:
        hooks = [hook(stage, event, Always(value)) for event in ARGUMENTS]
        turn = session(stage)
        equal("hooks", turn, [len(one.calls) for one in hooks], [1] * 4)
        equal("hooks", turn, turn.results, ["on"])
        equal("hooks", turn, words_of(turn.messages[0]), ["Please."])
        lacks("hooks", turn, turn.said, "Error", "failed")
    equal("hooks", Words("bash"), ran, ["on"] * len(NO_OPINION))


@pytest.mark.parametrize("event", ARGUMENTS)
def test_text_acts_and_stops_the_chain(stage, event):
    for words in WORDS:
        later = Hook("Another.")
        first = hook(stage, event, Hook(words), later)
        answer = stage.trigger_hooks(event, *ARGUMENTS[event])
        equal("hooks", words, answer, words)
        equal("hooks", words, first.calls, [ARGUMENTS[event]])
        equal("hooks", words, later.calls, [])


@pytest.mark.parametrize("event", ARGUMENTS)
def test_no_hooks_have_no_opinion(stage, event):
    stage.HOOKS[event].clear()
    answer = stage.trigger_hooks(event, *ARGUMENTS[event])
    equal("hooks", Words(f"no {event} hook"), answer, None)


def test_an_answer_that_is_true_but_no_text_is_a_failure_of_the_hook(stage):
    ran = echo(stage)
    for event in ("UserPromptSubmit", "PostToolUse", "Stop"):
        for value in (*NO_TEXT, Unsure()):
            wrong = Always(lambda *_, value=value: value, name="odd_one")
            hook(stage, event, wrong)
            turn = session(stage)
            equal("hooks", turn, len(wrong.calls), 1)
            contains("E1", turn, turn.said, event, "odd_one")
            equal("E1", turn, turn.results, ["on"])
            equal("E1", turn, turn.messages[0]["content"][:7], "Please.")
            stage.HOOKS[event].clear()
    check(ran, "E1", Words("bash"), ran, Words("calls that ran"))


def test_an_answer_that_is_true_but_no_text_blocks_a_call(stage):
    ran = echo(stage)
    for value in (*NO_TEXT, Unsure()):
        wrong = Always(lambda *_, value=value: value, name="odd_one")
        hook(stage, "PreToolUse", wrong)
        turn = play(stage, [bash("on")], "Done.")
        is_error("E1", turn, turn.result, "PreToolUse", "odd_one")
        contains("E1", turn, turn.said, "odd_one")
    equal("E1", Words("bash"), ran, [])


# PreToolUse


def test_the_text_of_a_pretooluse_hook_is_the_result_and_the_call_never_runs(stage):
    ran, after = echo(stage), hook(stage, "PostToolUse", Hook())
    for words in WORDS:
        hook(stage, "PreToolUse", Hook(words))
        turn = play(stage, [bash("blocked"), bash("free")], "Done.")
        equal("hooks", turn, turn.results, [words, "free"])
        equal("hooks", turn, ran.pop(), "free")
        equal("hooks", turn, ran, [])
        blocks = [call.input["command"] for call, _ in after.calls]
        lacks("hooks", turn, blocks, "blocked")


def test_a_blocked_call_may_be_asked_for_again(stage):
    ran = echo(stage)
    hook(stage, "PreToolUse", Hook("Not yet.", "Not yet."))
    turn = play(stage, [bash("on")], [bash("on")], [bash("on")], "Done.")
    equal("hooks", turn, turn.results, ["Not yet.", "Not yet.", "on"])
    equal("hooks", turn, ran, ["on"])


def test_a_pretooluse_hook_gets_each_call_before_it_runs(stage):
    ran = echo(stage)
    spy = Hook(*[lambda block: ran.append(block.id)] * 3)
    hook(stage, "PreToolUse", spy)
    calls = [bash("one"), bash("two")]
    turn = play(stage, calls, [tool_use("glob", {"pattern": "*"})], "Done.")
    first, second = (call["id"] for call in calls)
    equal("hooks", turn, ran[:4], [first, "one", second, "two"])
    seen = [(block.name, block.input) for (block,) in spy.calls]
    wanted = [("bash", {"command": "one"}), ("bash", {"command": "two"})]
    equal("hooks", turn, seen, [*wanted, ("glob", {"pattern": "*"})])


def test_a_pretooluse_hook_judges_calls_of_every_tool(stage):
    hook(stage, "PreToolUse", Always("Closed."))
    calls = [tool_use(tool["name"], {}) for tool in stage.TOOLS]
    turn = play(stage, calls, "Done.")
    equal("hooks", turn, turn.results, ["Closed."] * len(calls))


# PostToolUse


def test_the_text_of_a_posttooluse_hook_replaces_the_output(stage):
    echo(stage)
    for words in WORDS:
        hook(stage, "PostToolUse", Hook(words))
        turn = play(stage, [bash("one"), bash("two")], "Done.")
        equal("hooks", turn, turn.results, [words, "two"])


def test_a_posttooluse_hook_gets_the_call_and_its_output_as_text(stage):
    for value, output in (("out", "out"), (7, "7"), ("", "(no output)"), ([], "[]")):
        set_tool(stage, "bash", lambda command, value=value: value)
        spy = hook(stage, "PostToolUse", Hook(lambda block, output: f"<{output}>"))
        turn = play(stage, [bash("true")], "Done.")
        [(block, seen)] = spy.calls
        equal("hooks", turn, (block.name, block.input), ("bash", {"command": "true"}))
        equal("hooks", turn, seen, output)
        equal("hooks", turn, turn.result, f"<{output}>")


def test_the_output_is_replaced_for_the_model_and_not_in_the_file(stage):
    (stage.WORKDIR / "a.txt").write_text("secret 42")
    hook(stage, "PostToolUse", Always(lambda _, output: output.replace("42", "**")))
    equal("hooks", "a.txt", use(stage, "read_file", {"path": "a.txt"}), "secret **")
    equal("hooks", "a.txt", (stage.WORKDIR / "a.txt").read_text(), "secret 42")


# UserPromptSubmit


def test_the_text_of_a_userpromptsubmit_hook_is_added_to_the_message(stage):
    echo(stage)
    for words in WORDS:
        hook(stage, "UserPromptSubmit", Hook(words))
        turn = session(stage, "Yes.", typed=("Please.", "And now?"))
        equal("context", turn, words_of(turn.messages[0]), [f"Please.\n\n{words}"])
        equal("context", turn, words_of(turn.messages[-1]), ["And now?"])
        equal("context", turn, len(turn.requests[0]["messages"]), 1)


def test_a_userpromptsubmit_hook_gets_each_line_that_is_a_request(stage):
    echo(stage)
    spy = hook(stage, "UserPromptSubmit", Hook())
    typed = ("", "  Please. ", "   ", "Queue two; exit?", "q")
    turn = session(stage, "Yes.", typed=typed)
    lines = [line for (line,) in spy.calls]
    equal("context", turn, lines, ["Please.", "Queue two; exit?"])


def test_the_context_names_the_files_of_the_workspace(stage):
    for name in ("notes.txt", "täst file.md", "a'b"):
        (stage.WORKDIR / name).write_text("inside")
    (stage.WORKDIR / "folder").mkdir()
    turn = repl(stage, "Please.", replies=["Hi."])
    [words] = words_of(turn.messages[0])
    starts_with("context", turn, words, "Please.\n\n<context>")
    contains("context", turn, words, "notes.txt", "täst file.md", "a'b", "folder")
    check(words.endswith("</context>"), "context", turn, words, Words("</context>"))
    lacks("context", turn, words, "inside")


def test_the_context_is_as_new_as_the_line_typed(stage):
    def write(_):
        (stage.WORKDIR / "new.txt").write_text("x")
        return reply("Written.")

    turn = repl(stage, "Write.", "And now?", replies=[write, "Yes."])
    lacks("context", turn, words_of(turn.messages[0])[0], "new.txt")
    contains("context", turn, words_of(turn.messages[-1])[0], "new.txt")


def test_the_context_of_an_empty_workspace_is_still_text(stage):
    for query in ("Please.", ""):
        words = stage.context_inject_hook(query)
        starts_with("context", query, words, "<context>")


def test_a_vanished_workspace_costs_the_context_and_not_the_session(stage):
    shutil.rmtree(stage.WORKDIR)
    turn = repl(stage, "Please.", "Again.", replies=["Hi.", "Yes."])
    equal("E1", turn, [*map(words_of, turn.messages[::2])], [["Please."], ["Again."]])
    contains("E1", turn, turn.said, "context_inject_hook")
    lacks("E1", turn, turn.said, "Traceback")


# Stop


def test_the_text_of_a_stop_hook_is_sent_on_as_a_user_message(stage):
    for words in WORDS:
        hook(stage, "Stop", Hook(words))
        turn = play(stage, "One.", "Two.")
        equal("hooks", turn, roles(turn.messages), ["user", "assistant"] * 2)
        equal("hooks", turn, words_of(turn.messages[2]), [words])
        sent = turn.requests[1]["messages"]
        equal("hooks", turn, words_of(sent[-1]), [words])


def test_a_stop_hook_sends_the_model_on_three_times_and_then_never(stage):
    spy = hook(stage, "Stop", Always("More."))
    turn = play(stage, "1", "2", "3", "4")
    equal("E3", turn, len(turn.requests), 4)
    more = [*map(words_of, turn.messages[2::2])]
    equal("E3", turn, more, [["More."]] * 3)
    contains("E3", turn, turn.lines[-1], "stopped", "hook")
    check(len(spy.calls) <= 4, "E3", turn, len(spy.calls), Words("4 calls at most"))


def test_the_next_user_turn_may_be_sent_on_three_times_again(stage):
    hook(stage, "Stop", Always("More."))
    turn = play(stage, "1", "2", "3", "4")
    for _ in range(2):
        after = play(stage, *"5678", say="Next.", history=turn.messages)
        equal("E3", after, len(after.requests), 4)
        contains("E3", after, after.lines[-1], "stopped", "hook")


def test_a_stop_hook_that_is_content_after_three_times_leaves_no_notice(stage):
    for times in range(4):
        hook(stage, "Stop", Hook(*["More."] * times))
        turn = play(stage, *"abcd"[: times + 1])
        equal("E3", turn, len(turn.requests), times + 1)
        lacks("E3", turn, turn.said, "stopped")


def test_rounds_in_between_do_not_give_a_stop_hook_more_tries(stage):
    echo(stage)
    hook(stage, "Stop", Always("More."))
    replies = ["1", [bash("a")], "2", [bash("b")], [bash("c")], "3", "4"]
    turn = play(stage, *replies)
    equal("E3", turn, len(turn.requests), 7)
    equal("E3", turn, turn.results, ["a", "b", "c"])
    contains("E3", turn, turn.lines[-1], "stopped", "hook")


def test_a_stop_hook_gets_the_history_with_the_answer_at_its_end(stage):
    echo(stage)
    seen = []
    hook(stage, "Stop", Hook(*[lambda messages: seen.append(as_sent(messages))] * 2))
    turn = play(stage, [bash("on")], [thinking(), text("Done.")])
    equal("hooks", turn, seen[0], as_sent(turn.messages))
    equal("hooks", turn, words_of(seen[0][-1]), ["Done."])
    play(stage, "Yes.", say="And now?", history=turn.messages)
    equal("hooks", turn, words_of(seen[1][-1]), ["Yes."])
    equal("hooks", turn, words_of(seen[1][-2]), ["And now?"])


NO_ANSWER = {
    "no network": connection_error(),
    "no answer": timeout_error(),
    "a bad key": api_error(401),
    "a bad request": api_error(400),
    "too large": api_error(413),
    "too many": api_error(429),
    "overloaded": api_error(529),
    "a bug": RuntimeError("x"),
    "Ctrl-C": CTRL_C,
    "refused": {"content": [], "stop_reason": "refusal"},
    "refused in words": {"content": [text("I can't.")], "stop_reason": "refusal"},
    "too long": {
        "content": [text("I")],
        "stop_reason": "model_context_window_exceeded",
    },
}


def test_no_stop_hook_runs_after_a_failed_call_or_a_refusal(stage):
    echo(stage)
    for reason, answer in NO_ANSWER.items():
        for rounds in ([], [[bash("on")]]):
            spy = hook(stage, "Stop", Always("More."))
            play(stage, *rounds, answer)
            equal("hooks", Words(f"{reason}, {len(rounds)} rounds"), spy.calls, [])


def test_a_stop_hook_waits_for_the_end_of_the_rounds(stage):
    echo(stage)
    spy = hook(stage, "Stop", Hook())
    turn = play(stage, [text("Done."), bash("a")], [bash("b")], "The end.")
    equal("hooks", turn, len(spy.calls), 1)


# E1: hooks that raise


@pytest.mark.parametrize("event", ["UserPromptSubmit", "PostToolUse", "Stop"])
def test_a_hook_that_raises_is_reported_and_the_session_goes_on(stage, event):
    echo(stage)
    for failure in FAILURES:
        broken, later = Always(failure, name="broken_one"), Hook()
        hook(stage, event, broken, later)
        turn = session(stage, "Yes.", typed=("Please.", "And now?"))
        contains("E1", turn, turn.said, event, "broken_one", "Error", "Yes.")
        lacks("E1", turn, turn.said, "Traceback")
        equal("E1", turn, turn.results, ["on"])
        equal("E1", turn, len(turn.requests), 3)
        equal("E1", turn, len(later.calls), len(broken.calls))


def reports(stage, event, one):
    """What is printed when this is the only hook, in a session of all events."""
    for other in ARGUMENTS:
        stage.HOOKS[other].clear()
    stage.register_hook(event, one)
    turn = session(stage)
    equal("E1", turn, turn.result == "on", event != "PreToolUse")
    equal("E1", turn, words_of(turn.messages[0]), ["Please."])
    return [line for line in turn.said.splitlines() if line.startswith("[Error")]


def test_the_report_of_a_hook_that_raises_is_a_line_that_says_why(stage):
    echo(stage)
    for event in ARGUMENTS:
        lines = reports(stage, event, Hook(ValueError("no such colour: bleen")))
        equal("E1", event, len(lines), 1)
        contains("E1", event, lines[0], event, "my_hook", "no such colour: bleen")


def test_a_pretooluse_hook_that_raises_blocks_the_call(stage):
    ran = echo(stage)
    for failure in FAILURES:
        hook(stage, "PreToolUse", Hook(failure, name="broken_one"))
        turn = play(stage, [bash("blocked"), bash("free")], "Done.")
        is_error("E1", turn, turn.results[0], "PreToolUse", "broken_one")
        equal("E1", turn, turn.results[1], "free")
        contains("E1", turn, turn.said, "broken_one")
        equal("E1", turn, ran, ["free"])
        ran.clear()


def test_a_gate_that_raises_blocks_wherever_it_stands(stage):
    ran = echo(stage)
    places = (0, 1, len(stage.HOOKS["PreToolUse"]))
    for place in places:
        hooks = stage.HOOKS["PreToolUse"]
        hooks.insert(place, Always(ValueError("broken")))
        turn = play(stage, [bash("on")], "Done.")
        is_error("E1", turn, turn.result, "broken")
        del hooks[place]
    equal("E1", Words("bash"), ran, [])


def test_a_yes_does_not_open_a_gate_that_raises(stage):
    (stage.WORKDIR / "kept").write_text("x")
    stage.register_hook("PreToolUse", Always(ValueError("broken")))
    turn = play(stage, [bash("rm kept")], "Done.", typed=["y"])
    is_error("E1", turn, turn.result, "broken")
    equal("E1", turn, (stage.WORKDIR / "kept").exists(), True)


def test_a_hook_without_a_name_can_fail_and_be_reported(stage):
    echo(stage)
    for event in ARGUMENTS:
        nameless = functools.partial(Hook(ValueError("bleen")))
        [line] = reports(stage, event, nameless)
        contains("E1", event, line, event, "bleen")


def test_a_hook_of_another_shape_fails_like_one_that_raises(stage):
    echo(stage)
    for wrong in (lambda: None, lambda a, b, c: None, "no function", None):
        for event in ARGUMENTS:
            [line] = reports(stage, event, wrong)
            contains("E1", event, line, event)


def test_ctrl_c_in_a_hook_leaves_a_history_that_goes_on(stage):
    echo(stage)
    calls = ("first", "second", "third")
    for event in ("PreToolUse", "PostToolUse"):
        hook(stage, event, Hook(None, KeyboardInterrupt()))
        turn = play(stage, [*map(bash, calls)])
        equal("L4", turn, turn.results[0], "first")
        contains("L4", turn, turn.results[1], "interrupted")
        starts_with("L4", turn, turn.results[2], "Not run")
        contains("L4", turn, turn.said, "interrupted")
        stage.HOOKS[event].clear()
        after = play(stage, [bash("on")], "Good.", say="Go on.", history=turn.messages)
        equal("L4", after, after.results[3:], ["on"])


def test_ctrl_c_in_a_stop_hook_keeps_the_answer(stage):
    for tries in range(2):
        hook(stage, "Stop", Hook(*["More."] * tries, KeyboardInterrupt()))
        turn = play(stage, *["Done."] * (tries + 1))
        equal("L4", turn, roles(turn.messages)[-1], "assistant")
        after = play(stage, "Good.", say="And now?", history=turn.messages)
        equal("L4", after, words_of(after.messages[-2]), ["And now?"])


def test_ctrl_c_in_a_hook_brings_the_prompt_back(stage):
    echo(stage)
    for event in ("PreToolUse", "PostToolUse", "Stop"):
        hook(stage, event, Hook(KeyboardInterrupt()))
        replies = [[bash("on")], *["Done."] * (event == "Stop"), "Yes."]
        turn = repl(stage, "Please.", "And now?", replies=replies)
        contains("L9", turn, turn.said, "interrupted", "Yes.")
        stage.HOOKS[event].clear()


# E2: registration


WRONG_EVENTS = ["PreToolUSe", "pretooluse", "Stop ", "", "SessionStart", None, 7]


@pytest.mark.parametrize("event", WRONG_EVENTS)
def test_an_unknown_event_is_an_error_at_registration(stage, event):
    before = {name: [*hooks] for name, hooks in stage.HOOKS.items()}
    with pytest.raises(ValueError) as raised:
        stage.register_hook(event, Hook())
    contains("E2", event, raised.value, event, *ARGUMENTS)
    equal("E2", event, stage.HOOKS, before)


def test_the_events_are_these_four(stage):
    equal("E2", Words("HOOKS"), set(stage.HOOKS), set(ARGUMENTS))


def test_registering_a_hook_does_not_run_it(stage):
    for event in ARGUMENTS:
        spy = Hook(ValueError("ran"))
        stage.register_hook(event, spy)
        equal("hooks", event, spy.calls, [])
        equal("hooks", event, stage.HOOKS[event][-1], spy)


def test_hooks_run_in_the_order_they_were_registered(stage):
    order = []
    for event in ARGUMENTS:
        order.clear()
        spies = [Hook(lambda *_, n=n: order.append(n)) for n in range(4)]
        hook(stage, event, *spies)
        stage.trigger_hooks(event, *ARGUMENTS[event])
        equal("hooks", event, order, [0, 1, 2, 3])


def test_permission_is_asked_before_the_log_line(stage):
    names = [one.__name__ for one in stage.HOOKS["PreToolUse"]]
    equal("hooks", Words("HOOKS"), names[:2], ["permission_hook", "log_hook"])
    (stage.WORKDIR / "old").write_text("x")
    turn = play(stage, [bash("rm old")], "Done.", typed=["y"])
    question, log = turn.said.index("Allow?"), turn.said.index("[hook]")
    check(question < log, "hooks", turn, turn.said, Words("the question, then the log"))


def test_the_permission_hook_asks_the_gates_of_s03(stage):
    block = SimpleNamespace(name="bash", input={"command": "true"}, id="a")
    for allowed, answer in ((True, None), (False, "Permission denied.")):
        stage.check_permission = Always(allowed)
        equal("hooks", allowed, stage.permission_hook(block), answer)
        equal("hooks", allowed, stage.check_permission.calls, [(block,)])


# E4: lines for the eye


def test_a_call_that_runs_leaves_a_log_line(stage):
    echo(stage)
    calls = [bash("a"), tool_use("glob", {"pattern": "*"})]
    for line, name in zip(hook_lines(play(stage, calls, "Done.")), ("bash", "glob")):
        contains("E4", Words(f"a call of {name}"), line, name)


def test_a_denied_call_leaves_a_line_and_no_log_line(stage):
    (stage.WORKDIR / "old").write_text("x")
    for answer in ("n", "", "maybe", END, CTRL_C):
        turn = play(stage, [bash("rm old")], "Done.", typed=[answer])
        equal("D8", turn, turn.result, "Permission denied.")
        contains("E4", turn, turn.said, "[denied: ")
        lacks("E4", turn, str(hook_lines(turn)), "bash")


def test_a_call_denied_without_a_question_leaves_a_line_too(stage):
    for command in ("sudo ls", "true; reboot", "env mkfs /dev/sda"):
        turn = play(stage, [bash(command)], "Done.")
        equal("D1", turn, turn.result, "Permission denied.")
        contains("E4", turn, turn.said, "[denied: ")
        lacks("E4", turn, str(hook_lines(turn)), "bash")


def test_a_call_that_a_hook_blocks_leaves_its_reason(stage):
    stage.register_hook("PreToolUse", Hook("Not during the lesson."))
    turn = play(stage, [bash("true")], "Done.")
    contains("E4", turn, turn.said, "Not during the lesson.")


LARGE = {
    "lines": "\n".join(f"line {n}" for n in range(20_000)),
    "one line": "x" * 100_000,
    "no ASCII": "ä€ 漢" * 20_000,
    "blank lines": "a" + "\n" * 60_000 + "b",
    "a million": "0123456789" * 100_000,
}


@pytest.mark.parametrize("kind", LARGE)
def test_a_large_output_keeps_head_and_tail_and_says_how_much_is_missing(stage, kind):
    output = LARGE[kind]
    set_tool(stage, "bash", lambda command: output)
    result = use(stage, "bash", {"command": "true"})
    found = re.search(r"(?m)\n(?=.*left out|.*missing)(.*?([\d,]+) char.*)\n", result)
    check(found, "large", kind, result, Words("a line with the characters left out"))
    head, tail = result[: found.start()], result[found.end() :]
    missing = int(found[2].replace(",", ""))
    equal("large", kind, len(head) + missing + len(tail), len(output))
    check(output.startswith(head), "large", kind, head, Words("the head as it was"))
    check(output.endswith(tail), "large", kind, tail, Words("the tail as it was"))
    for part in (head, tail):
        check(len(part) > 1000, "large", kind, len(part), Words("a part to work with"))
    check(len(result) < 30_000, "large", kind, len(result), Words("less than 30,000"))


def test_an_output_that_is_not_large_stays_as_it_is(stage):
    block = SimpleNamespace(name="bash", input={}, id="a")
    for output in ("x", "x" * 5000, "line\n" * 1000, " \n "):
        equal("large", output, stage.large_output_hook(block, output), None)
        set_tool(stage, "bash", lambda command, output=output: output)
        equal("large", output, use(stage, "bash", {"command": "true"}), output)


def test_the_summary_counts_the_calls_of_the_conversation(stage):
    echo(stage)
    history, total = [], 0
    for rounds in ([], [1], [3], [1, 2], [0]):
        total += sum(rounds)
        calls = [[bash("on") for _ in range(n)] or [text("No.")] for n in rounds]
        ends = [] if rounds == [0] else ["Done."]
        turn = play(stage, *calls, *ends, history=history)
        numbers = re.findall(r"\d+", hook_lines(turn)[-1])
        equal("hooks", turn, numbers, [str(total)])


def test_the_summary_counts_failed_and_denied_calls_too(stage):
    calls = [bash("sudo ls"), tool_use("bsh", {}), tool_use("bash", {}), bash("true")]
    turn = play(stage, calls, "Done.")
    contains("hooks", turn, hook_lines(turn)[-1], "4")


def test_the_summary_has_no_opinion(stage):
    echo(stage)
    turn = play(stage, [bash("on")], "Done.")
    equal("hooks", turn, stage.summary_hook(turn.messages), None)
    equal("hooks", turn, stage.summary_hook([]), None)
