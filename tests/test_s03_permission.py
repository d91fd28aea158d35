"""The three gates before a call, on s03 and later: D1-D8, ask, grant, repeat, E4."""

import time

import pytest
from permission_cases import ASK, DENY, MISSED, RUN
from stagekit import (
    CTRL_C,
    END,
    Words,
    bash,
    check,
    contains,
    equal,
    is_error,
    lacks,
    play,
    set_tool,
    stage_fixture,
    starts_with,
    use,
)

from kit.scripted import tool_use

stage = stage_fixture("s03")

DENIED = "Permission denied."
FILE_CALLS = {
    # how each file tool is called, but for the path
    "read_file": {},
    "write_file": {"content": "new"},
    "edit_file": {"old_text": "old", "new_text": "new"},
}


def on(path, tool="read_file"):
    """A call of a file tool."""
    return tool_use(tool, {"path": str(path), **FILE_CALLS[tool]})


def count_runs(stage):
    """Puts a function behind bash that only counts; the commands it was given."""
    ran = []
    set_tool(stage, "bash", lambda command: ran.append(command) or "ran")
    return ran


@pytest.fixture
def outside(stage):
    """A file beside the workspace."""
    path = stage.WORKDIR.parent / "outside.txt"
    path.write_text("old\n")
    return path


def refused(stage, path):
    """Whether safe_path refuses the path."""
    try:
        stage.safe_path(str(path))
    except ValueError:
        return True
    return False


# The tables


def verdict(stage, command):
    """What the first two gates make of a command line: deny, ask or run."""
    if stage.check_deny_list(command):
        return "deny"
    return "ask" if stage.check_rules("bash", {"command": command}) else "run"


def check_table(stage, table, rule, wanted):
    """Fails with all rows that get another verdict."""
    __tracebackhide__ = True
    verdicts = {row: verdict(stage, row) for row in table}
    wrong = [f"{seen}: {row!r}" for row, seen in verdicts.items() if seen != wanted]
    seen = Words("\n            ".join([f"{len(wrong)} rows differ", *wrong]))
    check(not wrong, rule, Words(f"{len(table)} rows"), seen, Words(wanted))


def test_no_row_stands_in_two_tables():
    tables = DENY + ASK + RUN + MISSED
    twice = sorted({row for row in tables if tables.count(row) > 1})
    equal("D3", Words("the tables"), twice, [])


def test_what_must_never_run_is_refused_in_any_spelling(stage):
    check_table(stage, DENY, "D1", "deny")


def test_what_may_destroy_something_asks(stage):
    check_table(stage, ASK, "D2", "ask")


def test_harmless_commands_run_without_a_question(stage):
    check_table(stage, RUN, "D3", "run")


def test_what_no_reader_of_a_command_can_recognise_runs_unasked(stage):
    """Honest, not a wish: the gates are no sandbox, and the table shows the holes."""
    check_table(stage, MISSED, "D3", "run")


def test_the_refusal_names_the_entry_of_the_deny_list(stage):
    for command, entry in (("ls; sudo ls", "sudo"), ("/sbin/mkfs.ext4 a", "mkfs*")):
        contains("D1", command, stage.check_deny_list(command), f"'{entry}'")


HOSTILE = {
    "a long word": "a" * 10_000,
    "many words": "echo " + "a " * 5000,
    "nested parentheses": "(" * 2000 + "rm a" + ")" * 2000,
    "open parentheses": "(" * 5000,
    "10,000 quotes": "'" * 10_000,
    "10,001 double quotes": '"' * 10_001,
    "env 300 times": "env " * 300 + "rm a",
    "nested substitutions": "$(" * 1000 + ")" * 1000,
    "nested arithmetic": "$((" * 1000,
    "backslashes": "\\" * 10_001,
    "backticks": "`" * 5001,
    "dollars": "$" * 5000,
    "operators": ";&|" * 2000,
    "redirects": "<>" * 2000,
    "lines": "\n" * 5000,
    "comments": "# " * 5000,
    "open quotes and escapes": "'\\\"" * 2000,
    "control characters": "".join(map(chr, range(32))) * 50,
    "odd characters": "\x00\u202e\ud800\U0001f600\ufeff" * 500,
    "an unfinished escape": "rm \\",
}


def seconds_for(stage, command):
    """The processor time of a verdict: the machine may have other work."""
    began = time.process_time()
    verdict(stage, command)
    return time.process_time() - began


def test_a_hostile_command_line_is_judged_at_once(stage):
    slow = {}
    for name, command in HOSTILE.items():
        for _ in range(3):  # a slow first time may be the machine's
            slow[name] = seconds_for(stage, command)
            if slow[name] < 0.2:
                del slow[name]
                break
    equal("D2", Words("hostile command lines, 0.2 s each"), slow, {})


def test_what_is_no_command_line_is_no_matter_of_the_gates(stage):
    for value in (None, 5, 1.5, True, ["rm", "a"], {"rm": "a"}, b"rm a", ""):
        equal("D3", value, verdict(stage, value), "run")


# D1: the deny list in the loop


def test_a_denied_command_never_runs_and_nobody_is_asked(stage):
    ran = count_runs(stage)
    for command in DENY[::9]:
        turn = play(stage, [bash(command)], "Done.")
        equal("D1", turn, turn.result, DENIED)
    equal("D1", Words("commands of the deny list"), ran, [])


def test_a_yes_at_hand_does_not_help_a_denied_command(stage):
    ran = count_runs(stage)
    turn = play(stage, [bash("sudo ls")], "Done.", typed=["y"], asks=0)
    equal("D1", turn, (turn.result, ran), (DENIED, []))


# D7: the answers

YES = ["y", "Y", " Y ", "yes", "YES", "Yes", "\tyes\t"]
NO = ["n", "N", "no", "", " ", "yes!", "y y", "yes yes", "yy", "ye", "yeah", "y."]
NO += ["yes, please", "1", "true", "ok", "allow", "j", "у", "ｙ", "y\x00", "'y'"]
NO += ["q", "exit", "rm a", END, CTRL_C]


def test_y_and_yes_allow(stage):
    ran = count_runs(stage)
    for answer in YES:
        turn = play(stage, [bash("rm a")], "Done.", typed=[answer])
        equal("D7", answer, turn.result, "ran")
    equal("D7", YES, len(ran), len(YES))


def test_every_other_answer_denies_and_the_turn_goes_on(stage):
    ran = count_runs(stage)
    for answer in NO:
        turn = play(stage, [bash("rm a")], "I see.", typed=[answer])
        equal("D7", answer, turn.result, DENIED)
        contains("D7", turn, turn.said, "I see.")
        lacks("D7", turn, turn.said, "Traceback", "interrupted")
    equal("D7", NO, ran, [])


def test_a_yes_really_runs_the_command_and_a_no_really_does_not(stage):
    file = stage.WORKDIR / "a"
    file.write_text("x")
    play(stage, [bash("rm a")], "Done.", typed=["n"])
    check(file.exists(), "D7", "rm a, then n", file, Words("the file is still there"))
    turn = play(stage, [bash("rm a")], "Done.", typed=["y"])
    equal("D7", turn, (file.exists(), turn.result), (False, "(no output)"))


def test_a_yes_is_for_one_call(stage):
    ran = count_runs(stage)
    play(stage, [bash("rm a")], [bash("rm a")], "Done.", typed=["y", "n"])
    equal("D7", Words("rm a with y, rm a with n"), ran, ["rm a"])


# D8: a denied call among others


def test_the_calls_beside_a_denied_one_run(stage):
    calls = [bash("echo a"), bash("rm b"), bash("echo c")]
    turn = play(stage, calls, "Done.", typed=["n"])
    equal("D8", turn, turn.results, ["a", DENIED, "c"])
    ids = [block["tool_use_id"] for block in turn.messages[2]["content"]]
    equal("D8", turn, ids, [call["id"] for call in calls])


def test_a_batch_asks_for_each_call_in_its_order(stage):
    count_runs(stage)
    calls = [bash("rm a"), bash("sudo b"), bash("rm c"), bash("ls"), on("/etc/x")]
    turn = play(stage, calls, "Done.", typed=["n", "y", CTRL_C])
    equal("D8", turn, turn.results, [DENIED, DENIED, "ran", "ran", DENIED])


def test_nothing_of_a_batch_runs_before_its_own_question(stage):
    ran = count_runs(stage)
    calls = [bash("ls"), bash("rm b"), bash("echo c")]
    play(stage, calls, "Done.", typed=[END])
    equal("D8", Words("ls, rm b denied, echo c"), ran, ["ls", "echo c"])


def test_a_denied_call_leaves_a_line(stage):
    calls = [bash("rm a"), bash("sudo a"), on("/etc/x"), on("/etc/x", "write_file")]
    for call in calls:
        typed = [] if call["input"].get("command") == "sudo a" else ["n"]
        turn = play(stage, [call], "Done.", typed=typed)
        lines = [line for line in turn.lines if line.startswith("[denied: ")]
        equal("E4", turn, len(lines), 1)
        equal("D8", turn, turn.result, DENIED)


# ask: what the question shows

CONTROLS = {
    "an escape": ("\x1b[2J", r"\x1b[2J"),
    "a C1 escape": ("\x9b2J", r"\x9b2J"),
    "a backspace": ("\x08", r"\x08"),
    "a carriage return": ("\rls", r"\rls"),
    "a line": ("\nls", r"\nls"),
    "a bell": ("\x07", r"\x07"),
    "a delete": ("\x7f", r"\x7f"),
    "a right-to-left override": ("\u202e", r"\u202e"),
    "an isolate": ("\u2066", r"\u2066"),
    "a zero-width space": ("\u200b", r"\u200b"),
    "a line separator": ("\u2028", r"\u2028"),
}


def question(stage, call, **options):
    """What stands on the screen when the call is denied."""
    return play(stage, [call], "Done.", typed=["n"], **options).said


def test_the_question_makes_control_characters_visible(stage):
    for name, (raw, shown) in CONTROLS.items():
        for call in (bash(f"rm a{raw}b"), on(f"../a{raw}b", "write_file")):
            for terminal in (False, True):
                said = question(stage, call, terminal=terminal)
                contains("ask", Words(name), said, f"a{shown}b")
                lacks("ask", Words(name), said, f"a{raw}b")


def test_the_question_shows_a_long_command_in_full(stage):
    command = "rm " + " ".join(f"file-{number:04}" for number in range(500))
    check(len(command) >= 5000, "ask", len(command), command, Words("5,000 or more"))
    contains("ask", command, question(stage, bash(command)), command)


def test_the_question_shows_the_whole_call(stage):
    call = on("../a", "edit_file")
    call["input"]["new_text"] = "x" * 3000
    contains("ask", call, question(stage, call), "edit_file", "../a", "x" * 3000)
    contains("ask", Words("rm  'a b'"), question(stage, bash("rm  'a b'")), "rm  'a b'")


def test_the_question_comes_before_the_run_and_says_how_to_answer(stage):
    set_tool(stage, "bash", lambda command: "it ran")
    turn = play(stage, [bash("rm a")], "Done.", typed=["y"])
    contains("ask", turn, turn.said, "[y/N]", "it ran")
    where = turn.said.index("[y/N]"), turn.said.index("it ran")
    equal("ask", turn, where, tuple(sorted(where)))


# Odd arguments


def test_odd_commands_ask_nothing_and_fail_as_plain_results(stage):
    for value in (None, 5, True, ["rm", "a"], {"rm": "a"}, 1.5):
        is_error("A11", value, use(stage, "bash", {"command": value}))
    for arguments in ({}, {"cmd": "rm a"}, "rm a", ["rm a"], None, 7):
        is_error("C3", arguments, use(stage, "bash", arguments))
    is_error("A11", "a NUL", use(stage, "bash", {"command": "ls \0"}))


ODD_PATHS = [None, 5, True, 1.5, [], ["/etc/hosts"], {}, {"path": "/etc/hosts"}]
ODD_PATHS += ["a\0b", "a" * 5000, "a/" * 2500]


def test_odd_paths_ask_nothing_and_fail_as_plain_results(stage):
    for path in ODD_PATHS:
        for tool, more in FILE_CALLS.items():
            given = {"path": path, **more}
            is_error("B6", given, use(stage, tool, given))


def test_a_link_that_leads_to_itself_asks_nothing_and_fails(stage):
    (stage.WORKDIR / "loop").symlink_to("loop")
    is_error("B6", Words("a link to itself"), use(stage, "read_file", {"path": "loop"}))


def test_missing_and_extra_arguments_of_file_tools_ask_nothing(stage):
    for tool in FILE_CALLS:
        for given in ({}, {"file": "/etc/hosts"}, "/etc/hosts", ["/etc/hosts"]):
            is_error("C3", given, use(stage, tool, given))


def test_an_unknown_tool_asks_nothing(stage):
    for name in ("rm", "Bash", "delete_file"):
        given = {"command": "rm a", "path": "/etc/hosts"}
        starts_with("C2", given, use(stage, name, given), f"Unknown: {name}")


# Paths


def outside_paths(stage):
    """Paths that lead out of the workspace, in several spellings."""
    work = stage.WORKDIR
    (work / "sub").mkdir(exist_ok=True)
    (work.parent / f"{work.name}-2").mkdir(exist_ok=True)
    return [
        "../outside.txt",
        "./../outside.txt",
        "sub/../../outside.txt",
        "missing/../../outside.txt",
        str(work.parent / "outside.txt"),
        f"{work}/../outside.txt",
        f"{work}-2/a",
        f"../{work.name}-2/a",
        "/etc/hosts",
        "//etc/hosts",
        "~/x-that-is-not-there",
        "..",
        "/",
        "~",
    ]


def test_a_path_outside_asks_and_a_no_leaves_the_file_alone(stage, outside):
    for path in outside_paths(stage):
        for tool in FILE_CALLS:
            turn = play(stage, [on(path, tool)], "Done.", typed=["n"])
            equal("D2", turn, turn.result, DENIED)
    equal("D2", Words("every call denied"), outside.read_text(), "old\n")
    equal("grant", Words("every call denied"), set(stage.GRANTED), set())


def test_a_path_inside_does_not_ask(stage):
    work = stage.WORKDIR
    (work / "sub").mkdir()
    inside = ["a", "./a", "sub/a", "sub/../a", f"../{work.name}/a", "..a", "a..b"]
    for path in [*inside, str(work / "a"), f"{work}//a", "...", "~~", "-rf", "rm a"]:
        for tool in ("write_file", "read_file", "edit_file"):
            given = {"path": path, **FILE_CALLS[tool]}
            given.update({"content": "old"} if tool == "write_file" else {})
            result = use(stage, tool, given)
            lacks("D3", given, result, "Error", DENIED)


def test_a_link_inside_that_points_outside_asks(stage, outside):
    work = stage.WORKDIR
    (work / "link").symlink_to(outside)
    (work / "hop").symlink_to("link")
    (work / "folder").symlink_to(work.parent)
    (work / "nowhere").symlink_to(work.parent / "not-there")
    for path in ("link", "hop", "folder/outside.txt", "folder/new", "nowhere"):
        for tool in FILE_CALLS:
            turn = play(stage, [on(path, tool)], "Done.", typed=["n"])
            equal("D2", turn, turn.result, DENIED)
    equal("D2", Words("every call denied"), outside.read_text(), "old\n")
    left = sorted(path.name for path in work.parent.iterdir())
    equal("D2", Words("every call denied"), left, ["outside.txt", "workspace"])


def test_a_link_that_stays_inside_does_not_ask(stage):
    (stage.WORKDIR / "a").write_text("text")
    (stage.WORKDIR / "link").symlink_to("a")
    equal("D3", Words("a link"), use(stage, "read_file", {"path": "link"}), "text")


# grant: what a yes gives


def test_a_yes_reaches_the_file_outside(stage, outside):
    calls = {tool: on("../outside.txt", tool) for tool in FILE_CALLS}
    turn = play(stage, [calls["read_file"]], "Done.", typed=["y"])
    equal("grant", turn, turn.result, "old")
    turn = play(stage, [calls["edit_file"]], "Done.", typed=["y"])
    equal("grant", turn, outside.read_text(), "new\n")
    turn = play(stage, [calls["write_file"]], "Done.", typed=["yes"])
    equal("grant", turn, outside.read_text(), "new")


def test_a_yes_grants_exactly_that_path(stage, outside):
    play(stage, [on("../outside.txt")], "Done.", typed=["y"])
    equal("grant", outside, set(stage.GRANTED), {outside.resolve()})
    equal("grant", outside, stage.safe_path("../outside.txt"), outside.resolve())
    near = [outside.parent, f"{outside}2", outside.with_name("other"), outside / "a"]
    for path in [*near, "..", "/", "/etc/hosts", "~", f"{stage.WORKDIR}-2"]:
        check(refused(stage, path), "grant", outside, path, Words("still refused"))


def test_a_yes_for_a_folder_grants_nothing_in_it(stage, outside):
    turn = play(stage, [on("..")], "Done.", typed=["y"])
    is_error("grant", turn, turn.result)
    check(refused(stage, outside), "grant", Words(".."), outside, Words("refused"))
    turn = play(stage, [on(outside)], "Done.", typed=["n"])
    equal("grant", turn, turn.result, DENIED)


def test_a_yes_for_a_link_grants_where_it_led_not_where_it_leads_later(stage, outside):
    link, other = stage.WORKDIR / "link", outside.with_name("other")
    other.write_text("other")
    link.symlink_to(outside)
    play(stage, [on("link")], "Done.", typed=["y"])
    equal("grant", Words("link"), set(stage.GRANTED), {outside.resolve()})
    link.unlink()
    link.symlink_to(other)
    check(refused(stage, "link"), "grant", Words("link"), other, Words("refused"))


def test_a_grant_to_read_does_not_silence_the_question_to_write(stage, outside):
    play(stage, [on(outside)], "Done.", typed=["y"])
    for tool in ("write_file", "edit_file"):
        turn = play(stage, [on(outside, tool)], "Done.", typed=["n"])
        equal("grant", turn, turn.result, DENIED)
        replies = [on(outside)], [on(outside, tool)], "Done."
        turn = play(stage, *replies, typed=["y", CTRL_C])
        equal("grant", turn, turn.results, ["old", DENIED])
    equal("grant", outside, outside.read_text(), "old\n")


def test_no_answer_but_yes_grants(stage, outside):
    for answer in NO:
        play(stage, [on(outside)], "Done.", typed=[answer])
        equal("grant", answer, set(stage.GRANTED), set())
        check(refused(stage, outside), "grant", answer, outside, Words("refused"))


def test_a_yes_for_bash_grants_no_path(stage, outside):
    calls = [bash("rm a"), bash("touch ../outside.txt")]
    calls += [tool_use("bash", {"command": "rm a", "path": str(outside)})]
    for call in calls:
        play(stage, [call], "Done.", typed=["y"])
        equal("grant", call, set(stage.GRANTED), set())
        check(refused(stage, outside), "grant", call, outside, Words("refused"))


def test_a_tool_called_directly_stays_in_the_workspace(stage, outside):
    for tool, more in FILE_CALLS.items():
        result = stage.TOOL_HANDLERS[tool](path=str(outside), **more)
        is_error("grant", tool, result)
    equal("grant", outside, outside.read_text(), "old\n")


# repeat: the model insists


def stopped(turn):
    """Whether a line says that the turn was stopped."""
    return any(line.startswith("[stopped") for line in turn.lines)


def check_stopped(turn, results):
    """Fails unless the turn ended without another request, with these results."""
    __tracebackhide__ = True
    equal("repeat", turn, turn.results, results)
    check(stopped(turn), "repeat", turn, turn.lines, Words("a line with [stopped"))


def test_a_denied_call_that_comes_again_ends_the_turn_without_a_question(stage):
    for answer in ("n", "", END, CTRL_C):
        turn = play(stage, [bash("rm a")], [bash("rm a")], typed=[answer])
        check_stopped(turn, [DENIED, DENIED])


def test_a_denied_path_that_comes_again_ends_the_turn_too(stage, outside):
    turn = play(stage, [on(outside)], [on(outside)], typed=["n"])
    check_stopped(turn, [DENIED, DENIED])


def test_a_command_of_the_deny_list_that_comes_again_ends_the_turn_too(stage):
    turn = play(stage, [bash("sudo ls")], [bash("sudo ls")])
    check_stopped(turn, [DENIED, DENIED])


def test_a_denied_call_that_comes_again_later_in_the_turn_ends_it(stage):
    ran = count_runs(stage)
    between = [[bash("ls")], [bash("pwd"), bash("date")], [bash("rm b")]]
    last = [bash("id"), bash("rm a"), bash("ls")]
    turn = play(stage, [bash("rm a")], *between, last, typed=["n", "y"])
    starts = [result[:7] for result in turn.results]
    expected = [DENIED, *["ran"] * 5, DENIED, "Not run"]
    equal("repeat", turn, starts, [text[:7] for text in expected])
    equal("repeat", turn, ran, ["ls", "pwd", "date", "rm b", "id"])
    check(stopped(turn), "repeat", turn, turn.lines, Words("a line with [stopped"))


def test_a_denied_call_twice_in_one_reply_is_asked_once(stage):
    ran = count_runs(stage)
    turn = play(stage, [bash("rm a"), bash("rm a"), bash("ls")], typed=["n"])
    equal("repeat", turn, turn.results[:2], [DENIED, DENIED])
    starts_with("repeat", turn, turn.results[2], "Not run")
    equal("repeat", turn, ran, [])


def test_the_next_line_typed_asks_again(stage):
    ran = count_runs(stage)
    turn = play(stage, [bash("rm a")], [bash("rm a")], typed=["n"])
    after = play(stage, [bash("rm a")], "Done.", typed=["y"], history=turn.messages)
    equal("repeat", after, after.results, [DENIED, DENIED, "ran"])
    equal("repeat", after, ran, ["rm a"])


def test_another_call_than_the_denied_one_asks_on_its_own(stage, outside):
    pairs = [
        (bash("rm a"), bash("rm b")),
        (bash("rm a"), bash("rm  a")),
        (on(outside), on(outside, "write_file")),
        (on(outside), on("/etc/hosts")),
        (tool_use("read_file", {"path": "..", "limit": 1}), on("..")),
    ]
    for first, second in pairs:
        turn = play(stage, [first], [second], "Done.", typed=["n", "n"])
        equal("repeat", turn, turn.results, [DENIED, DENIED])
        check(not stopped(turn), "repeat", turn, turn.lines, Words("no stop"))


def test_a_call_that_ran_may_come_again(stage):
    ran = count_runs(stage)
    turn = play(stage, [bash("ls")], [bash("ls")], [bash("ls")], "Done.")
    check(not stopped(turn), "repeat", turn, turn.lines, Words("no stop"))
    equal("repeat", turn, len(ran), 3)


def test_the_history_goes_on_after_every_kind_of_denial(stage, outside):
    history = []
    play(stage, [bash("sudo a")], [bash("sudo a")], history=history)
    play(stage, [bash("rm a")], [bash("rm a")], history=history, typed=["n"])
    play(stage, [on(outside)], [on(outside)], history=history, typed=[CTRL_C])
    play(stage, [on(outside), bash("ls")], "No?", history=history, typed=[END])
    turn = play(stage, "Good.", say="And now?", history=history)
    contains("repeat", turn, turn.said, "Good.")
