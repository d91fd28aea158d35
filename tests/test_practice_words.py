"""Which script the learner's words choose, and which direct command they are."""

import pytest
from practice_harness import BASH, STAGES, answer, calls_of, text_of, tool

from kit.practice import reply_to
from kit.scripting import choose, normalize, scripts


def chosen(words, stage="s05"):
    """The name of the script that the words play at a stage, or None."""
    names = {each["name"] for each in STAGES[stage]}
    script, playable = choose(words, names.__contains__)
    return script.name if script and playable else None


PHRASES = [
    ("create hello.py, run it", "create_and_run"),
    ("Create HELLO.PY; run it!", "create_and_run"),
    ("Run it after you create hello.py", "create_and_run"),
    ("please write a python script and execute it", "create_and_run"),
    ("make a file hello.py that prints hi, then run it", "create_and_run"),
    ("can you generate a small program and run it?", "create_and_run"),
    ("write hello world and run it", "create_and_run"),
    ("在当前目录创建 hello.py，输出 Hello Agent，运行它并解释结果。", "create_and_run"),
    ("创建hello.py并运行", "create_and_run"),
    ("create hello.py but do not run it", "create_file"),
    ("create notes.txt", "create_file"),
    ("write a file named todo.md with milk", "create_file"),
    ("新建文件 a.txt", "create_file"),
    ("run hello.py", "run_file"),
    ("Please execute the script", "run_file"),
    ("list the files", "list_files"),
    ("what is in this folder?", "list_files"),
    ("show me what's here", "list_files"),
    ("列出文件", "list_files"),
    ("fix a failing program", "fix_failure"),
    ("run a command that fails and recover", "fix_failure"),
    ("three calls at once", "three_calls"),
    ("show me parallel tool calls", "three_calls"),
    ("a slow command", "slow"),
    ("sleep for 20 seconds", "slow"),
    ("a big output", "big_output"),
    ("print a lot", "big_output"),
    ("never stop", "never_stop"),
    ("loop forever", "never_stop"),
    ("call an unknown tool", "unknown_tool"),
    ("Call a tool that does not exist", "unknown_tool"),
    ("call a tool that doesn’t exist", "unknown_tool"),
    ("wrong arguments", "wrong_arguments"),
    ("read notes.txt", "read_file"),
    ("read a file", "read_file"),
    ("执行一次读文件操作", "read_file"),
    ("read and edit draft.txt", "read_and_edit"),
    ('replace "a" with "b" in notes.txt', "read_and_edit"),
    ("读取并替换一个临时文件中的指定文本", "read_and_edit"),
    ("find all python files", "find_files"),
    ("where are the markdown files?", "find_files"),
    ("list all *.py files", "find_files"),
    ("delete notes.txt", "delete_file"),
    ("Remove the file notes.txt, please", "delete_file"),
    ("rm notes.txt", "delete_file"),
    ("对练习目录中的测试文件提出删除请求", "delete_file"),
    ("use sudo", "sudo"),
    ("try something on the hard deny list", "sudo"),
    ("write outside the workspace", "write_outside"),
    ("create a file outside of the workspace", "write_outside"),
    ("read outside the workspace", "read_outside"),
    ("show the hooks", "hooks"),
    ("read a file and show the hooks at work", "hooks"),
    ("plan three steps", "plan"),
    ("plan: create report.py, run it, verify it", "plan"),
    ("make a todo list", "plan"),
    ("创建文件、运行、验证三个步骤", "plan"),
    ("do a long job", "long_job"),
    ("a long task, forget the todos", "long_job"),
    ("write a long story", "long_story"),
    ("write a long file", "half_call"),
    ("refuse this", "refusal"),
    ("pause in the middle", "pause"),
    ("say nothing", "say_nothing"),
    ("fill the context window", "window"),
    ("a new stop reason", "new_stop"),
    ("overloaded", "overloaded"),
    ("Overloaded for long", "overloaded_long"),
    ("rate limit", "rate_limit"),
    ("server error", "server_error"),
    ("an overload midway", "error_midway"),
    ("go on", "go_on"),
    ("try again", "go_on"),
    ("hello", "about"),
    ("who are you?", "about"),
    ("你好", "about"),
    ("help", "help"),
    ("what can you do", "help"),
]


@pytest.mark.parametrize(("words", "script"), PHRASES)
def test_words_choose_the_script_they_ask_for(words, script):
    assert chosen(words) == script


NEAR_MISSES = [
    "do not delete notes.txt",
    "don't run hello.py",
    "how do I delete a file?",
    "Why was notes.txt deleted?",
    "what does sudo do?",
    "delete everything",
    "delete all files",
    "grep sudo docs",
    "I would like to create a company and run it",
    "my long walk",
    "tell me about creation",
    "the executable",
    "make me a sandwich",
    "不要删除 notes.txt",
    "...",
]


@pytest.mark.parametrize("words", NEAR_MISSES)
def test_a_near_miss_gets_the_introduction(words):
    assert chosen(words) is None
    assert "I am a script, not a model" in text_of(answer(words, BASH))


def test_each_listed_phrase_plays_its_own_script():
    for script in scripts():
        if script.type:
            assert chosen(script.type) == script.name, f"typed: {script.type}"


def test_without_the_tool_of_a_better_script_the_next_one_plays():
    words = "create hello.py, run it and check the output"
    assert chosen(words, "s05") == "plan"
    assert chosen(words, "s02") == "create_and_run"


def test_words_that_need_a_missing_tool_name_it_and_its_stage():
    said = text_of(answer("plan three steps", BASH))
    assert '"plan three steps" needs the tool todo_write (it comes with s05).' in said


def test_words_are_compared_without_case_punctuation_and_width():
    assert normalize("  Create “hello.py”,  RUN it!! ") == "create hello.py run it"
    assert normalize("ｒｕｎ创建a.py。") == "run 创建 a.py"


DIRECT = [
    ("bash ls -la", ("bash", {"command": "ls -la"})),
    ("bash echo 'a  b' | wc -c", ("bash", {"command": "echo 'a  b' | wc -c"})),
    ('bash echo "{}"', ("bash", {"command": 'echo "{}"'})),
    ("bash { echo a; }", ("bash", {"command": "{ echo a; }"})),
    ("bash cat <<X\na\nX", ("bash", {"command": "cat <<X\na\nX"})),
    ("read_file README.md 20", ("read_file", {"path": "README.md", "limit": 20})),
    ("read_file README.md", ("read_file", {"path": "README.md"})),
    ('read_file "a b.txt" 2', ("read_file", {"path": "a b.txt", "limit": 2})),
    ("glob **/*.py", ("glob", {"pattern": "**/*.py"})),
    (
        "write_file a.txt hello world",
        ("write_file", {"path": "a.txt", "content": "hello world"}),
    ),
    (
        'write_file a.py print("hi")',
        ("write_file", {"path": "a.py", "content": 'print("hi")'}),
    ),
    (
        r'write_file a.txt "one\ntwo"',
        ("write_file", {"path": "a.txt", "content": "one\ntwo"}),
    ),
    (
        'edit_file a.txt "old text" "new text"',
        (
            "edit_file",
            {"path": "a.txt", "old_text": "old text", "new_text": "new text"},
        ),
    ),
    (
        "edit_file a.txt 'old' \"\"",
        ("edit_file", {"path": "a.txt", "old_text": "old", "new_text": ""}),
    ),
    (
        'todo_write [{"content": "x", "status": "pending"}]',
        ("todo_write", {"todos": [{"content": "x", "status": "pending"}]}),
    ),
    ("todo_write [{'content': 'x'}]", ("todo_write", {"todos": "[{'content': 'x'}]"})),
    ('read_file {"file_path": "a"}', ("read_file", {"file_path": "a"})),
    ("bash {}", ("bash", {})),
]


@pytest.mark.parametrize(("words", "call"), DIRECT)
def test_a_direct_command_becomes_the_call_it_says(words, call):
    assert calls_of(answer(words, STAGES["s05"])) == [call]


MISFITS = [
    ("bash", "Command is missing."),
    ("read_file", "Path is missing."),
    ("read_file a.txt many", "Limit should be of type integer, not 'many'."),
    ("read_file a.txt 2 3", "Nothing takes the words '3'."),
    ("read_file a.txt 2.5", "Limit should be of type integer, not '2.5'."),
    ("read_file a.txt true", "Limit should be of type integer, not 'true'."),
    ("write_file a.txt", "Content is missing."),
    ("edit_file a.txt old", "New_text is missing."),
    ("todo_write buy milk", "Todos should be of type array, not 'buy milk'."),
]


@pytest.mark.parametrize(("words", "problem"), MISFITS)
def test_a_direct_command_that_does_not_fit_gets_a_usage_line(words, problem):
    reply = answer(words, STAGES["s05"])
    said = text_of(reply)
    assert (reply["stop_reason"], calls_of(reply)) == ("end_turn", [])
    assert said.startswith(problem), said
    assert f"Usage: {words.split()[0]} " in said


def test_a_tool_the_learner_added_is_called_by_its_schema():
    add = tool("add", {"a": "integer", "b": "number"}, exact="boolean", note="string")
    assert calls_of(answer("add 2 0.5 true why not", [add])) == [
        ("add", {"a": 2, "b": 0.5, "exact": True, "note": "why not"})
    ]
    assert "Usage: add A B [EXACT] [NOTE]" in text_of(answer("add 2", [add]))
    assert "add A B [EXACT] [NOTE]" in text_of(answer("what?", [add]))
    clock = {"name": "clock", "input_schema": {"type": "object"}}
    assert calls_of(answer("clock", [clock])) == [("clock", {})]
    assert "Nothing takes the words" in text_of(answer("clock now", [clock]))


def test_the_required_values_come_first_and_null_types_do_not_count():
    schema = {
        "type": "object",
        "properties": {
            "unit": {"type": ["null", "string"]},
            "city": {"type": "string"},
            "days": {"anyOf": [{"type": "null"}, {"type": "integer"}]},
        },
        "required": ["city"],
    }
    weather = {"name": "weather", "input_schema": schema}
    request = {"messages": [{"role": "user", "content": "weather Rome c 3"}]}
    assert calls_of(reply_to(request | {"tools": [weather]})) == [
        ("weather", {"city": "Rome", "unit": "c", "days": 3})
    ]
    assert schema["properties"]["unit"]["type"] == ["null", "string"]


def test_a_sentence_that_only_starts_like_a_tool_is_no_command():
    assert calls_of(answer("bashful people", BASH)) == []
    assert calls_of(answer("Bash is a shell", BASH)) == []


def test_a_shell_command_without_bash_before_it_is_pointed_to():
    said = text_of(answer("ls -la", BASH))
    assert "To run it as a command, type: bash ls -la" in said
