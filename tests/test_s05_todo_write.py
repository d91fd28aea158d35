"""The task list and its reminder, on s05 and every later stage: cases F1-F4."""

import json

import pytest
from stagekit import (
    CTRL_C,
    Words,
    bash,
    check,
    contains,
    equal,
    is_error,
    lacks,
    play,
    repl,
    set_tool,
    stage_fixture,
    use,
)

from kit.scripted import ScriptedModel, api_error, connection_error, text, tool_use

stage = stage_fixture("s05")

REMINDER = "<reminder>Update your todos.</reminder>"


def todo(content="Look.", status="pending"):
    """One item of the list."""
    return {"content": content, "status": status}


PLAN = [
    todo("Read the test.", "completed"),
    todo("Find the fault.", "in_progress"),
    todo("Repair it."),
]
FINISHED = [todo("Read the test.", "completed"), todo("Find it.", "completed")]
OTHER = [todo("Something else.")]


def write(todos):
    """A call of todo_write."""
    return tool_use("todo_write", {"todos": todos})


@pytest.fixture
def planned(stage):
    """The stage, with a list that is not finished."""
    equal("F2", PLAN, stage.run_todo_write(PLAN), "Updated 3 tasks")
    return stage


@pytest.fixture
def quick(stage):
    """The stage, with a bash that gives its command back."""
    set_tool(stage, "bash", lambda command: command)
    return stage


# F1: what may be a list


TEXTS = {
    "JSON": json.dumps(PLAN),
    "JSON on lines": json.dumps(PLAN, indent=2),
    "JSON with space around": f"\n  {json.dumps(PLAN)}\n",
    "JSON, escaped": json.dumps(PLAN).replace("R", "\\u0052"),
    "a Python literal": repr(PLAN),
    "a Python literal on lines": repr(PLAN).replace("{", "\n    {"),
    "a Python literal with a last comma": f"{repr(PLAN)[:-1]},]",
    "a Python literal and spaces": f"  {PLAN!r}  ",
    "a list": PLAN,
}


@pytest.mark.parametrize("kind", TEXTS)
def test_a_list_may_come_as_a_list_or_as_text(stage, kind):
    turn = play(stage, [write(TEXTS[kind])], "Done.")
    equal("F1", turn, turn.result, "Updated 3 tasks")
    equal("F1", turn, stage.CURRENT_TODOS, PLAN)


def test_any_words_may_be_in_a_list_that_comes_as_text(stage):
    for words in ("täst 漢 €", "it's", 'say "x"', "true, null", "a\nb", "[ ] {}", "\\"):
        for as_text in (json.dumps, repr):
            result = stage.run_todo_write(as_text([todo(words)]))
            equal("F1", words, result, "Updated 1 tasks")
            equal("F1", words, stage.CURRENT_TODOS, [todo(words)])


def test_text_that_names_an_empty_list_clears(planned):
    equal("F3", "[]", planned.run_todo_write("[]"), "Updated 0 tasks")
    equal("F3", "[]", planned.CURRENT_TODOS, [])


EVALUATED = [
    "__import__('os').system('touch {0}')",
    "[__import__('os').system('touch {0}')]",
    "[{{'content': open('{0}', 'w').name, 'status': 'pending'}}]",
    "[{{'content': f'{{open(\"{0}\", \"w\")}}', 'status': 'pending'}}]",
    "exec(\"open('{0}', 'w')\")",
    "(lambda: open('{0}', 'w'))()",
    "[todo for todo in [open('{0}', 'w')]]",
    "().__class__.__base__.__subclasses__()",
    "[{{'content': 'a' + 'b', 'status': 'pending'}}]",
    "[{{'content': 'a' * 3, 'status': 'pending'}}]",
    "[dict(content='a', status='pending')]",
    "CURRENT_TODOS",
    "PLAN",
    "[] or open('{0}', 'w')",
    "$(touch {0})",
    "import os",
]


@pytest.mark.parametrize("code", EVALUATED)
def test_nothing_of_a_text_is_evaluated(planned, code):
    trace = planned.WORKDIR / "trace"
    code = code.format(trace)
    turn = play(planned, [write(code)], "Done.")
    is_error("F1", turn, turn.result)
    check(not trace.exists(), "F1", code, Words("a file it made"), Words("no trace"))
    equal("F1", code, planned.CURRENT_TODOS, PLAN)


NO_LISTS = [
    "",
    "  ",
    "Buy milk.",
    "- [ ] Buy milk.",
    "[",
    "{}",
    "null",
    "None",
    "7",
    '"text"',
    "[" * 20_000,
    "\0",
    json.dumps({"todos": PLAN}),
    json.dumps(todo()),
    repr(todo()),
    todo(),
    {"todos": PLAN},
    {},
    None,
    7,
    True,
]


def test_what_holds_no_list_is_an_error_and_the_old_list_stays(planned):
    for value in NO_LISTS:
        turn = play(planned, [write(value)], "Done.")
        is_error("F2", value, turn.result, "todos", "list")
        equal("F2", value, planned.CURRENT_TODOS, PLAN)
        lacks("F2", turn, turn.said, "done\n")


def test_wrong_arguments_are_an_error_and_the_old_list_stays(planned):
    for wrong in ({}, {"todo": PLAN}, {"todos": OTHER, "x": 1}, "todos", [OTHER]):
        result = use(planned, "todo_write", wrong)
        is_error("C3", wrong, result)
        equal("F2", wrong, planned.CURRENT_TODOS, PLAN)


# F2: items


GOOD = todo()
BAD_ITEMS = [
    # the list, the index and the word that the error names
    (["Look."], 0, ""),
    ([GOOD, "Look."], 1, ""),
    ([GOOD, GOOD, None], 2, ""),
    ([GOOD, ["Look.", "pending"]], 1, ""),
    ([[GOOD]], 0, ""),
    ([7], 0, ""),
    ([{}], 0, "content"),
    ([GOOD, {"status": "pending"}], 1, "content"),
    ([GOOD, {"text": "Look.", "status": "pending"}], 1, "content"),
    ([todo("")], 0, "content"),
    ([GOOD, todo(" \n\t")], 1, "content"),
    ([GOOD, todo(7)], 1, "content"),
    ([todo(None)], 0, "content"),
    ([todo(True)], 0, "content"),
    ([todo(["Look."])], 0, "content"),
    ([{"content": "Look."}], 0, "status"),
    ([GOOD, todo(status="done")], 1, "status"),
    ([todo(status="")], 0, "status"),
    ([todo(status=None)], 0, "status"),
    ([todo(status=0)], 0, "status"),
    ([todo(status="PENDING")], 0, "status"),
    ([todo(status=["pending"])], 0, "status"),
    ([todo(status={})], 0, "status"),
    ([GOOD, GOOD, todo(status="in progress")], 2, "status"),
    ([todo(status="in_progress")] * 2, 1, "in_progress"),
    ([PLAN[1], GOOD, GOOD, PLAN[1]], 3, "in_progress"),
    ([GOOD] * 21, 20, "20"),
    ([GOOD] * 200, 20, "20"),
]


@pytest.mark.parametrize("as_text", [list, json.dumps, repr])
def test_a_bad_item_is_an_error_with_index_and_reason(planned, as_text):
    for todos, index, reason in BAD_ITEMS:
        result = use(planned, "todo_write", {"todos": as_text(todos)})
        is_error("F2", todos, result, f"[{index}]", reason)
        equal("F2", todos, planned.CURRENT_TODOS, PLAN)


def test_an_error_about_the_status_names_the_three_there_are(stage):
    result = stage.run_todo_write([todo(status="done")])
    contains("F2", "done", result, "pending", "in_progress", "completed")


def test_a_list_with_an_error_is_not_shown(planned):
    turn = play(planned, [write([GOOD, todo(status="done")])], "Done.")
    lacks("F2", turn, turn.said, "[ ]", "[x]", "0/")


def test_normalizing_gives_the_list_or_the_error(stage):
    todos, error = stage._normalize_todos(json.dumps(PLAN))
    equal("F1", PLAN, (todos, not error), (PLAN, True))
    todos, error = stage._normalize_todos([todo(7)])
    equal("F2", todo(7), todos, None)
    is_error("F2", todo(7), error, "[0]")
    equal("F2", "CURRENT_TODOS", stage.CURRENT_TODOS, [])


def test_contents_are_stripped(stage):
    for space in (" ", "\n", "\t ", "\u00a0"):
        stage.run_todo_write([todo(f"{space}Look  twice.{space}")])
        equal("F2", space, stage.CURRENT_TODOS, [todo("Look  twice.")])


def test_twenty_items_are_a_list(stage):
    for count in (1, 2, 19, 20):
        todos = [todo(f"Step {n}.") for n in range(count)]
        result = use(stage, "todo_write", {"todos": todos})
        equal("F2", todos, result, f"Updated {count} tasks")
        equal("F2", todos, stage.CURRENT_TODOS, todos)


def test_any_number_may_be_pending_or_completed(stage):
    for status in ("pending", "completed"):
        result = stage.run_todo_write([todo(status=status)] * 5)
        equal("F2", status, result, "Updated 5 tasks")


def test_each_list_replaces_the_one_before(planned):
    turn = play(planned, [write(OTHER)], [write(FINISHED), write(PLAN)], "Done.")
    wanted = ["Updated 1 tasks", "Updated 2 tasks", "Updated 3 tasks"]
    equal("F2", turn, turn.results, wanted)
    equal("F2", turn, planned.CURRENT_TODOS, PLAN)


def test_the_list_is_its_own_copy(stage):
    todos = [todo("First."), todo("Second.")]
    stage.run_todo_write(todos)
    todos[0]["content"] = "Changed."
    todos.clear()
    equal("F2", todos, stage.CURRENT_TODOS, [todo("First."), todo("Second.")])


def test_the_list_outlives_the_turn(stage):
    turn = play(stage, [write(PLAN)], "Done.")
    play(stage, "Yes.", say="And now?", history=turn.messages)
    equal("F2", turn, stage.CURRENT_TODOS, PLAN)


# F3: clearing


def test_an_empty_list_clears(planned):
    turn = play(planned, [write([])], "Done.")
    equal("F3", turn, turn.result, "Updated 0 tasks")
    equal("F3", turn, planned.CURRENT_TODOS, [])
    contains("shown", turn, turn.said, "0/0 done")


def test_a_cleared_list_can_be_filled_again(planned):
    turn = play(planned, [write([])], [write(OTHER)], "Done.")
    equal("F3", turn, planned.CURRENT_TODOS, OTHER)


# What is shown


def test_the_list_is_shown_with_a_mark_for_each_status_and_a_done_count(stage):
    turn = play(stage, [write(PLAN)], "Done.")
    lines = turn.said.splitlines()
    first = lines.index("[x] Read the test.")
    wanted = ["[>] Find the fault.", "[ ] Repair it.", "1/3 done"]
    equal("shown", turn, lines[first + 1 : first + 4], wanted)


def test_the_done_count_counts_what_is_completed(stage):
    for todos, count in ((FINISHED, "2/2"), (OTHER, "0/1"), (PLAN + FINISHED, "3/5")):
        turn = play(stage, [write(todos)], "Done.")
        contains("shown", turn, turn.said.splitlines(), f"'{count} done'")


def test_control_characters_of_a_task_are_made_visible(stage):
    turn = play(stage, [write([todo("red \x1b[31m\r\a")])], "Done.")
    lacks("shown", turn, turn.said, "\x1b", "\r", "\a")
    contains("shown", turn, turn.said, "[ ] red \\x1b[31m")


# F4: the reminder


def silent(count):
    """Rounds without a todo_write: replies that each hold one other call."""
    return [[bash("on")] for _ in range(count)]


def rounds_of(messages):
    """The contents of the user messages that hold results, in order."""
    contents = [m["content"] for m in messages if m["role"] == "user"]
    lists = [content for content in contents if isinstance(content, list)]
    kinds = [[block["type"] for block in content] for content in lists]
    return [content for content, kind in zip(lists, kinds) if "tool_result" in kind]


def reminded(turn):
    """After which rounds of the history a reminder stands, counted from 1."""
    texts = [
        [block.get("text") for block in content] for content in rounds_of(turn.messages)
    ]
    return [n for n, words in enumerate(texts, 1) for word in words if word == REMINDER]


@pytest.mark.parametrize("plan", [[], PLAN, OTHER])
def test_a_reminder_comes_after_three_silent_rounds(quick, plan):
    quick.CURRENT_TODOS = plan
    for count, wanted in enumerate(([], [], [], [3], [3], [3], [3, 6])):
        turn = play(quick, *silent(count), "Done.")
        equal("F4", turn, reminded(turn), wanted)


def test_twelve_silent_rounds_bring_one_reminder_for_every_three(quick):
    turn = play(quick, *silent(12), "Done.")
    equal("F4", turn, reminded(turn), [3, 6, 9, 12])


def test_the_reminder_is_a_text_block_right_after_the_results_of_its_round(quick):
    calls = [bash("a"), bash("b")]
    turn = play(quick, *silent(2), calls, "Done.")
    content = turn.messages[6]["content"]
    ids = [block.get("tool_use_id") for block in content]
    equal("F4", turn, ids, [call["id"] for call in calls] + [None])
    equal("F4", turn, content[-1], {"type": "text", "text": REMINDER})
    equal("F4", turn, turn.results, ["on", "on", "a", "b"])


def test_the_reminder_reaches_the_model_with_the_results_of_its_round(quick):
    turn = play(quick, *silent(4), "Done.")
    sent = [len(rounds_of(r["messages"])) for r in turn.requests]
    equal("F4", turn, sent, [0, 1, 2, 3, 4])
    carries = [REMINDER in json.dumps(request["messages"]) for request in turn.requests]
    equal("F4", turn, carries, [False, False, False, True, True])
    last = turn.requests[3]["messages"][-1]
    equal("F4", turn, [b["type"] for b in last["content"]], ["tool_result", "text"])
    equal("F4", turn, turn.model.refused, [])


def test_the_reminder_is_no_result_and_is_not_printed(quick):
    turn = play(quick, *silent(3), "Done.")
    equal("F4", turn, turn.results, ["on"] * 3)
    lacks("F4", turn, turn.said, "<reminder>")


def test_rounds_are_counted_and_not_calls(quick):
    for count, wanted in ((1, []), (2, []), (3, [3]), (5, [3]), (6, [3, 6])):
        three = [[bash("a"), bash("b"), bash("c")] for _ in range(count)]
        turn = play(quick, *three, "Done.")
        equal("F4", turn, reminded(turn), wanted)


IN_BETWEEN = [
    # rounds, t is one with a todo_write that works; rounds with a reminder
    ("t", []),
    ("..t..", []),
    ("t..", []),
    ("t...", [4]),
    ("..t...", [6]),
    (".t..t..t..", []),
    ("...t..", [3]),
    ("...t...", [3, 7]),
    ("....t..", [3]),
    (".....t...", [3, 9]),
    ("tt...", [5]),
]


@pytest.mark.parametrize("rounds, wanted", IN_BETWEEN)
def test_a_todo_write_in_between_starts_the_count_again(quick, rounds, wanted):
    replies = [[write(PLAN)] if kind == "t" else [bash("on")] for kind in rounds]
    turn = play(quick, *replies, "Done.")
    equal("F4", turn, reminded(turn), wanted)


def test_a_todo_write_counts_wherever_it_stands_in_its_round(quick):
    for place in range(3):
        calls = [bash("a"), bash("b")]
        calls.insert(place, write(PLAN))
        turn = play(quick, *silent(2), calls, *silent(2), "Done.")
        equal("F4", turn, reminded(turn), [])


def test_a_todo_write_that_works_beside_one_that_fails_counts(quick):
    for calls in ([write(PLAN), write("x")], [write("x"), write(PLAN)]):
        turn = play(quick, *silent(2), calls, "Done.")
        equal("F4", turn, reminded(turn), [])


def test_a_list_that_comes_as_text_starts_the_count_again(quick):
    turn = play(quick, *silent(2), [write(json.dumps(PLAN))], *silent(2), "Done.")
    equal("F4", turn, reminded(turn), [])


FAILED = [
    write("Buy milk."),
    write(["Buy milk."]),
    write([todo(status="done")]),
    write([GOOD] * 21),
    tool_use("todo_write", {}),
    tool_use("todo_write", "[]"),
    tool_use("todo_write", {"todos": PLAN, "more": 1}),
    tool_use("todowrite", {"todos": PLAN}),
]


def again(call):
    """The same call with an id of its own."""
    return tool_use(call["name"], call["input"])


def test_a_todo_write_that_fails_is_a_silent_round(quick):
    for call in FAILED:
        turn = play(quick, *silent(2), [again(call)], *silent(2), "Done.")
        equal("F4", turn, reminded(turn), [3])
        turn = play(quick, *[[again(call)] for _ in range(3)], "Done.")
        equal("F4", turn, reminded(turn), [3])


def test_a_todo_write_that_is_denied_is_a_silent_round(quick):
    for words in ("Permission denied.", "Not now."):
        gate = quick.HOOKS["PreToolUse"]
        gate.insert(0, lambda call, words=words: words if "todo" in call.name else None)
        turn = play(quick, *silent(2), [write(PLAN)], *silent(2), "Done.")
        equal("F4", turn, turn.results[2], words)
        equal("F4", turn, reminded(turn), [3])
        equal("F4", turn, quick.CURRENT_TODOS, [])
        del gate[0]


def test_rounds_of_failed_calls_are_rounds(quick):
    failed = [[bash("sudo ls")], [tool_use("bsh", {})], [tool_use("bash", {})]]
    turn = play(quick, *failed, "Done.")
    equal("F4", turn, reminded(turn), [3])


def test_no_reminder_when_all_is_completed(quick):
    for before in (0, 1, 2):
        turn = play(quick, *silent(before), [write(FINISHED)], *silent(7), "Done.")
        equal("F4", turn, reminded(turn), [])
    turn = play(quick, *silent(6), "Done.", say="More.", history=turn.messages)
    equal("F4", turn, reminded(turn), [])


def test_reminders_come_again_with_a_new_list_that_is_not_finished(quick):
    rounds = [[write(FINISHED)], *silent(4), [write(OTHER)], *silent(4)]
    turn = play(quick, *rounds, "Done.")
    equal("F4", turn, reminded(turn), [9])
    after = play(quick, *silent(3), "Done.", say="More.", history=turn.messages)
    equal("F4", after, reminded(after), [9, 13])


def test_one_item_that_is_not_completed_is_enough_for_a_reminder(quick):
    for status in ("pending", "in_progress"):
        todos = [*FINISHED, todo(status=status)]
        turn = play(quick, [write(todos)], *silent(3), "Done.")
        equal("F4", turn, reminded(turn), [4])


def test_two_and_two_rounds_in_two_user_turns_bring_no_reminder(quick):
    turn = play(quick, *silent(2), "Done.")
    for _ in range(3):
        turn = play(quick, *silent(2), "Done.", say="More.", history=turn.messages)
    equal("F4", turn, reminded(turn), [])


def test_a_new_user_turn_counts_from_the_start(quick):
    turn = play(quick, *silent(4), "Done.")
    after = play(quick, *silent(3), "Done.", say="More.", history=turn.messages)
    equal("F4", after, reminded(after), [3, 7])


ENDS = [connection_error(), api_error(529), CTRL_C, {"content": [], "stop_reason": "x"}]


def test_a_turn_that_broke_off_does_not_count_for_the_next(quick):
    for end in ENDS:
        turn = play(quick, *silent(2), end)
        after = play(quick, *silent(2), "Done.", say="Go on.", history=turn.messages)
        equal("F4", after, reminded(after), [])


def test_a_turn_that_broke_off_after_a_reminder_can_go_on(quick):
    for end in ENDS:
        turn = play(quick, *silent(3), end)
        after = play(quick, "Done.", say="Go on.", history=turn.messages)
        kinds = [block["type"] for block in after.messages[-2]["content"]]
        equal("F4", after, kinds[0], "tool_result")
        equal("L4", after, after.results, ["on"] * 3)
        contains("L4", after, str(after.messages[-2]), "Go on.")


def test_a_turn_cap_after_three_rounds_can_go_on(quick):
    quick.MAX_TURNS = 3
    turn = play(quick, *silent(3))
    contains("C10", turn, turn.lines[-1], "stopped")
    after = play(quick, *silent(2), "Done.", say="go on", history=turn.messages)
    equal("L4", after, after.results, ["on"] * 5)


def test_an_interrupted_round_brings_no_reminder(quick):
    def handler(command):
        if command == "stop":
            raise KeyboardInterrupt
        return command

    set_tool(quick, "bash", handler)
    for calls in (["stop"], ["on", "stop"], ["stop", "on"]):
        turn = play(quick, *silent(2), [*map(bash, calls)])
        equal("F4", turn, reminded(turn), [])
        after = play(quick, *silent(2), "Done.", say="Go on.", history=turn.messages)
        equal("F4", after, reminded(after), [])


def test_a_stop_hook_does_not_begin_a_new_user_turn(quick):
    answers = ["Check again.", None]
    quick.HOOKS["Stop"].insert(0, lambda messages: answers.pop(0))
    turn = play(quick, *silent(2), "Done.", *silent(1), "Done.")
    equal("F4", turn, reminded(turn), [3])


def test_the_prompt_goes_on_after_a_turn_with_reminders(quick):
    model = ScriptedModel([*silent(6), "Done.", *silent(3), [text("All good.")]])
    turn = repl(quick, "Please.", "And now?", model=model)
    model.check_done()
    equal("F4", turn, model.refused, [])
    turn.messages = model.requests[-1]["messages"]
    equal("F4", turn, reminded(turn), [3, 6, 9])
