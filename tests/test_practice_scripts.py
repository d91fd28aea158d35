"""The script files: each one is well formed, and plays to its end in a real loop."""

import json
import re

import pytest
from practice_harness import STAGES, Harness, calls_of, text_of

from kit import scripting
from kit.scripting import FILTERS, FOLDER, GROUPS, SLOT, scripts

FILES = sorted(FOLDER.glob("*.json"))
FIELDS = {"title", "type", "group", "words", "unless", "priority", "needs", "vars"}
STEP_FIELDS = {"say", "calls", "after", "when", "repeat", "thinking", "stop"}
STEP_FIELDS |= {"details", "fail", "server_call", "list"}
CONDITION = re.compile(
    r"(not )?(reminded|(has|given|ok|failed|denied) \w+|saw \w+ \S+)"
)
TOOLS = {tool["name"] for tool in STAGES["s05"]}
LISTED = [script for script in scripts() if script.type]
ENDLESS = {"never_stop"}


def slots_of(value):
    """(name, filter) of every slot in a template."""
    return {match.groups() for match in SLOT.finditer(json.dumps(value))}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_script_file_has_the_documented_fields_only(path):
    data = json.loads(path.read_text(encoding="utf-8"))
    assert re.fullmatch(r"\d{3}_[a-z_]+", path.stem), "name: three digits, then words"
    assert {*data} <= FIELDS | {"steps"}, {*data} - FIELDS
    assert 10 <= len(data["title"]) <= 50 and not data["title"].endswith(".")
    assert data["words"] and all(rule and all(rule) for rule in data["words"])
    assert ("type" in data) == ("group" in data), "a listed script has both"
    assert data.get("group", "loop") in GROUPS and len(data.get("type", "")) <= 27
    assert {*data.get("needs", ())} <= TOOLS
    for choices in data.get("vars", {}).values():
        assert choices[-1][0] == "", "the last pattern must always fit"
    assert data["steps"]
    for step in data["steps"]:
        assert {*step} <= STEP_FIELDS, {*step} - STEP_FIELDS
        assert step.get("after", "ok") in ("ok", "error", "denied", "any")
        for condition in step.get("when", ()):
            assert CONDITION.fullmatch(condition), condition
        for _tool, values, *name in step.get("calls", ()):
            assert isinstance(values, dict) and len(name) <= 1


@pytest.mark.parametrize("script", scripts(), ids=lambda script: script.name)
def test_a_script_uses_only_values_results_and_filters_that_exist(script):
    known = {*script.variables, "n", "context"}
    for step in script.steps:
        for call in step.get("calls", ()):
            known.add(call[-1] if isinstance(call[-1], str) else call[0])
    for choices in script.variables.values():
        for pattern, value in choices:
            assert value != "=" or pattern.groups, f"{pattern.pattern} has no group"
    templates = [value for v in script.variables.values() for _, value in v]
    for name, how in slots_of([*script.steps, *templates]):
        assert name in known, f"{{{name}}} is neither a value nor a result"
        assert how is None or how in FILTERS, f"{{{name}|{how}}}"
    for condition in [c for step in script.steps for c in step.get("when", ())]:
        word, _, name = condition.removeprefix("not ").partition(" ")
        if word not in ("has", "reminded"):
            assert name.split()[0] in known, condition
        elif word == "has":
            assert name in TOOLS, condition


def test_the_file_format_is_documented_in_full():
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    for word in [*FIELDS, *STEP_FIELDS, *FILTERS, *GROUPS]:
        assert re.search(rf"\b{word}\b", readme), f"{word} is not in the README"


def test_scripts_have_names_and_phrases_of_their_own():
    names = [script.name for script in scripts()]
    phrases = [script.type for script in LISTED]
    assert len({*names}) == len(names) == len(FILES)
    assert len({*phrases}) == len(phrases)


PLAYS = [
    (script, stage, gate)
    for script in LISTED
    for stage, tools in STAGES.items()
    for gate in ("open", "yes", "no")
    if {*script.needs} <= {tool["name"] for tool in tools}
    and (gate == "open" or script.group == "permission" or "three" in script.name)
]


@pytest.mark.parametrize(
    ("script", "stage", "gate"), PLAYS, ids=lambda v: getattr(v, "name", v)
)
def test_a_script_plays_to_its_end_on_valid_histories(script, stage, gate, tmp_path):
    harness = Harness(tmp_path, stage, gate)
    harness.say(script.type, turns=12)
    last = harness.replies[-1]
    if script.name in ENDLESS:
        assert len(harness.replies) == 12 and last["stop_reason"] == "tool_use"
        return
    assert last["stop_reason"] != "tool_use", "the script does not end"
    for reply in harness.replies:
        assert text_of(reply) or not reply["content"], "a call without a word about it"
        assert "(not run)" not in text_of(reply)
        assert not SLOT.search(text_of(reply)), text_of(reply)
    ids = [b["id"] for r in harness.replies for b in r["content"] if "id" in b]
    assert len({*ids}) == len(ids)
    assert all(re.fullmatch(r"(srv)?toolu_[A-Za-z0-9]+", each) for each in ids), ids
    harness.say("go on", turns=12)
    harness.say("list the files")
    assert "ls -la" in str(harness.calls()[-1])


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    ("words", "file", "output"),
    [
        ("create hello.py, run it", "hello.py", "Hello Agent"),
        (
            "make greet.py that prints good morning and run it",
            "greet.py",
            "good morning",
        ),
        (
            "在当前目录创建 hello.py，输出 Hello Agent，运行它并解释结果。",
            "hello.py",
            "Hello Agent",
        ),
        ('create q.py, print "it\'s $HOME", run it', "q.py", "it's $HOME"),
        ("create a script that prints the date and run it", "hello.py", "Hello Agent"),
    ],
)
def test_create_and_run_takes_name_and_text_from_the_words(
    stage, words, file, output, tmp_path
):
    said = Harness(tmp_path, stage).say(words)
    assert f"`python3 {file}` printed:\n\n    {output}\n" in said
    assert (tmp_path / file).exists()


def test_with_only_bash_the_file_is_written_by_the_shell(tmp_path):
    harness = Harness(tmp_path, "s01")
    harness.say("create hello.py, run it")
    assert [name for name, _ in harness.calls()] == ["bash", "bash"]
    harness = Harness(tmp_path, "s02")
    harness.say("create hello.py, run it")
    assert [name for name, _ in harness.calls()] == ["write_file", "bash"]


@pytest.mark.parametrize(
    "words", ["delete ../x.txt", "delete ~/x.txt", "delete /etc/x.txt", "rm -rf.txt"]
)
def test_a_script_touches_no_file_outside_the_workspace(words, tmp_path):
    harness = Harness(tmp_path, "s01")
    harness.say(words)
    assert harness.calls()[1:2] == [("bash", {"command": "rm notes.txt"})]


def test_a_denied_deletion_is_not_tried_again(tmp_path):
    harness = Harness(tmp_path, "s02", gate="no")
    said = harness.say("delete notes.txt")
    deletions = [values for _, values in harness.calls() if "rm " in str(values)]
    assert len(deletions) == 1 and (tmp_path / "notes.txt").exists()
    assert "Permission denied." in text_of(harness.replies[2])
    assert said.startswith("You did not allow it, and notes.txt is still there")


def test_an_allowed_deletion_is_reported_as_done(tmp_path):
    said = Harness(tmp_path, "s02", gate="yes").say("delete notes.txt")
    assert said.startswith("notes.txt is deleted.")
    assert not (tmp_path / "notes.txt").exists()


def test_of_three_calls_in_one_reply_the_second_is_denied(tmp_path):
    harness = Harness(tmp_path, "s02", gate="no")
    said = harness.say("three calls at once")
    assert [len(calls_of(reply)) for reply in harness.replies] == [1, 3, 0]
    assert "2. was denied: Permission denied." in said


def test_read_and_edit_leaves_everything_but_the_named_words(tmp_path):
    (tmp_path / "a.txt").write_text("red\ngreen\nred\n")
    harness = Harness(tmp_path, "s02")
    said = harness.say('replace "green" with "blue" in a.txt')
    assert (tmp_path / "a.txt").read_text() == "red\nblue\nred\n"
    assert "Before:\n    red\n    green\n\nAfter:\n    red\n    blue\n" in said
    assert max(len(calls_of(reply)) for reply in harness.replies) == 2
    said = harness.say("replace purple with blue in a.txt")
    assert said.startswith("The edit did not fit, and the file is as it was")


def test_a_failing_program_is_read_and_corrected(tmp_path):
    for stage in ("s01", "s02"):
        harness = Harness(tmp_path, stage)
        said = harness.say("fix a failing program")
        assert "    NameError: name 'pritn'" in said and "    55" in said


def test_the_plan_moves_with_the_work(tmp_path):
    harness = Harness(tmp_path, "s05")
    said = harness.say("plan: create report.py that prints 42, run it, verify it")
    plans = [values["todos"] for name, values in harness.calls() if "todo" in name]
    marks = {"pending": " ", "in_progress": ">", "completed": "x"}
    moves = ["".join(marks[item["status"]] for item in plan) for plan in plans]
    assert moves == [">  ", "x> ", "xx>", "xxx"]
    assert "2. `python3 report.py` printed: 42" in said


def test_a_plan_whose_run_fails_is_not_called_done(tmp_path):
    harness = Harness(tmp_path, "s05")
    harness._bash = lambda command: "boom\n[exit code 1]"
    said = harness.say("plan three steps")
    assert said.startswith("Step 2 failed, so it stays in progress.")
    assert "completed" not in str(harness.calls()[-2][1]["todos"][1])


def test_a_long_job_earns_a_reminder_and_heeds_it(tmp_path):
    harness = Harness(tmp_path, "s05")
    said = harness.say("do a long job")
    names = [calls_of(reply)[0][0] for reply in harness.replies[:-1]]
    assert names == ["todo_write", *["bash"] * 3, "todo_write", "bash", "todo_write"]
    assert "came a reminder" in text_of(harness.replies[4])
    assert said.startswith("The job is done: 3 parts, the last one is part 3.")


def test_a_long_job_without_a_reminder_ends_too(tmp_path):
    harness = Harness(tmp_path, "s05")
    harness._reminder = lambda calls: []
    assert "No reminder came in eight rounds" in harness.say("do a long job")


def test_the_hooks_script_quotes_the_context_a_hook_added(tmp_path):
    context = "\n\n<context>Working in /x</context>"
    said = Harness(tmp_path, "s02", context=context).say("show the hooks")
    assert "    Working in /x" in said and "23,892 characters reached me" in said
    said = Harness(tmp_path, "s02").say("show the hooks")
    assert "No context came with your words" in said


def test_a_file_without_the_needed_fields_is_named_by_the_loader(tmp_path):
    path = tmp_path / "100_bad.json"
    path.write_text('{"title": "no words"}')
    with pytest.raises(KeyError, match="words"):
        scripting.load(path)


def test_a_big_output_is_reported_with_what_became_of_its_end(tmp_path):
    harness = Harness(tmp_path, "s01")
    assert harness.say("a big output").endswith("is among them: the end was kept.")
    harness._bash = lambda command: "1\n2\n3"
    assert "is not among them" in harness.say("a big output")
