"""The file tools and the tool table, from s02 on: cases B, C1-C3 with many tools."""

import glob
import inspect
import json
import os
import resource
import stat
import subprocess
import sys
import time
import tracemalloc
from contextlib import contextmanager

import pytest
from stagekit import (
    Words,
    bash,
    blocks_of,
    check,
    contains,
    equal,
    is_error,
    lacks,
    play,
    stage_fixture,
    starts_with,
    use,
)

from kit.scripted import reply, text, thinking, tool_use
from kit.stages import ROOT

stage = stage_fixture("s02")

BOM = b"\xef\xbb\xbf"


def put(stage, name, content):
    """A file of the workspace with that content, text or bytes."""
    path = stage.WORKDIR / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def files_of(folder):
    """The names of all entries below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


# The table


def test_each_tool_has_a_schema_and_a_function_with_the_same_arguments(stage):
    names = [tool["name"] for tool in stage.TOOLS]
    equal("tools", "TOOLS and TOOL_HANDLERS", names, list(stage.TOOL_HANDLERS))
    for tool in stage.TOOLS:
        schema = tool["input_schema"]
        takes = inspect.signature(stage.TOOL_HANDLERS[tool["name"]]).parameters
        needed = [name for name in takes if takes[name].default is inspect._empty]
        equal("tools", tool["name"], list(schema["properties"]), list(takes))
        equal("tools", tool["name"], schema["required"], needed)


def test_the_five_tools_are_there(stage):
    names = list(stage.TOOL_HANDLERS)[:5]
    wanted = ["bash", "read_file", "write_file", "edit_file", "glob"]
    equal("tools", "TOOL_HANDLERS", names, wanted)


def test_a_new_tool_needs_an_entry_in_each_table_and_no_change_of_the_loop(stage):
    schema = {"type": "object", "properties": {"words": {"type": "string"}}}
    tool = {"name": "shout", "description": "Shout.", "input_schema": schema}
    stage.TOOLS.append(tool)
    stage.TOOL_HANDLERS["shout"] = lambda words: words.upper()
    turn = play(stage, [tool_use("shout", {"words": "hi"})], "Done.")
    equal("tools", turn, turn.result, "HI")
    equal("tools", turn, turn.requests[0]["tools"][-1], tool)


def test_calls_of_several_tools_in_one_reply_are_answered_in_order(stage):
    calls = [
        tool_use("write_file", {"path": "a.txt", "content": "one\ntwo\n"}),
        tool_use("edit_file", {"path": "a.txt", "old_text": "two", "new_text": "2"}),
        tool_use("read_file", {"path": "a.txt"}),
        tool_use("glob", {"pattern": "*.txt"}),
        bash("cat a.txt"),
    ]
    turn = play(stage, reply(thinking(), text("All at once."), *calls), "Done.")
    equal("C1", turn, turn.results[2:], ["one\n2", "a.txt", "one\n2"])
    ids = [block["tool_use_id"] for block in blocks_of(turn.messages, "tool_result")]
    equal("C1", turn, ids, [call["id"] for call in calls])


BAD_ARGUMENTS = [
    # tool, arguments, what the error names
    ("read_file", {"file_path": "a"}, "path"),
    ("read_file", {}, "path"),
    ("read_file", {"path": "a", "lines": 3}, "lines"),
    ("read_file", {"path": None}, ""),
    ("read_file", {"path": 5}, ""),
    ("read_file", {"path": ["a"]}, ""),
    ("read_file", {"path": "a\0b"}, ""),
    ("read_file", {"path": "x" * 5000}, ""),
    ("write_file", {"path": "a"}, "content"),
    ("write_file", {"content": "a"}, "path"),
    ("write_file", {"path": "a", "content": None}, ""),
    ("write_file", {"path": "a", "content": 5}, ""),
    ("write_file", {"path": "a", "content": ["x"]}, ""),
    ("write_file", {"path": "a", "text": "x"}, "text"),
    ("edit_file", {"path": "a", "old": "x", "new": "y"}, "old"),
    ("edit_file", {"path": "old.txt", "old_text": None, "new_text": "x"}, ""),
    ("edit_file", {"path": "old.txt", "old_text": "x", "new_text": None}, ""),
    ("glob", {"glob": "*"}, "glob"),
    ("glob", {"pattern": None}, ""),
    ("glob", {"pattern": ["*"]}, ""),
]


def test_wrong_arguments_are_an_error_that_names_them(stage):
    put(stage, "old.txt", "x None\n")
    for name, arguments, named in BAD_ARGUMENTS:
        result = use(stage, name, arguments)
        is_error("C3", f"{name} {arguments}"[:200], result, named)
    equal("C3", "all these calls", files_of(stage.WORKDIR), ["old.txt"])


def test_arguments_that_are_no_object_are_an_error(stage):
    for name in stage.TOOL_HANDLERS:
        for value in ("a.txt", ["a.txt"], None, 7):
            turn = play(stage, [tool_use(name, value)], "Done.")
            is_error("C3", turn, turn.result)


# Read


def test_a_file_is_read_as_it_is(stage):
    put(stage, "src/a.txt", "one\n  two\t\n\nthree\n")
    equal("B7", "read_file", stage.run_read("src/a.txt"), "one\n  two\t\n\nthree")


def test_an_empty_file_is_a_result_that_is_not_empty(stage):
    put(stage, "empty", "")
    result = stage.run_read("empty")
    check(result.strip(), "C8", "an empty file", result, Words("text"))


def test_limit_shows_the_first_lines_and_says_how_many_remain(stage):
    put(stage, "five", "1\n2\n3\n4\n5\n")
    result = stage.run_read("five", limit=2)
    starts_with("B7", "limit 2 of 5 lines", result, "1\n2\n")
    contains("B7", "limit 2 of 5 lines", result, "3 more")
    lacks("B7", "limit 2 of 5 lines", result, "4\n", "5\n")


def test_a_limit_that_covers_the_file_mentions_nothing_more(stage):
    put(stage, "ended", "1\n2\n3\n")
    put(stage, "open", "1\n2\n3")
    for name in ("ended", "open"):
        for limit in (3, 4, 1000, None):
            result = stage.run_read(name, limit=limit)
            equal("B7", f"limit {limit} of 3 lines", result, "1\n2\n3")


def test_a_limit_that_is_no_positive_integer_is_an_error(stage):
    put(stage, "a", "1\n2\n")
    for limit in (0, -1, "5", 1.5, True, [], ""):
        is_error("B7", f"limit {limit!r}", stage.run_read("a", limit=limit), "limit")


def test_a_huge_file_costs_no_more_than_what_is_shown(stage):
    path = put(stage, "huge", "line\n" * 100)
    os.truncate(path, 1 << 30)
    tracemalloc.start()
    began = time.monotonic()
    try:
        result = stage.run_read("huge", limit=20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    took = time.monotonic() - began
    starts_with("B7", "20 lines of 1 GB", result, "line\n" * 20)
    contains("B7", "20 lines of 1 GB", result, "more")
    check(peak < 10 << 20, "B7", "20 lines of 1 GB", Words(f"{peak:,} bytes"), "less")
    check(took < 0.5, "B7", "20 lines of 1 GB", Words(f"{took:.2f} s"), Words("ms"))


def test_a_huge_line_is_capped_with_a_mark(stage):
    put(stage, "wide", "x" * 5_000_000 + "\nnext\n")
    for limit in (1, None):
        result = stage.run_read("wide", limit=limit)
        starts_with("B8", f"5 MB in a line, limit {limit}", result, "x" * 100)
        contains("B8", f"5 MB in a line, limit {limit}", result, "cut")
        check(len(result) < 5000, "B8", "5 MB in a line", len(result), Words("capped"))


def test_a_long_line_does_not_hide_the_lines_after_it(stage):
    put(stage, "mixed", "x" * 20_000 + "\nthe end\n")
    contains("B8", "a long line, then one more", stage.run_read("mixed"), "\nthe end")


def test_a_long_file_ends_at_a_whole_line_and_says_how_many_remain(stage):
    lines = [f"line {n}" for n in range(10_000)]
    put(stage, "long", "\n".join(lines))
    *shown, note = stage.run_read("long").split("\n")
    given = Words("10,000 lines, 99 kB")
    check(len(shown) > 4000, "B7", given, len(shown), Words("about as much as fits"))
    check(len("\n".join(shown)) <= stage.OUTPUT_LIMIT, "B7", given, len(shown), "less")
    equal("B7", given, shown, lines[: len(shown)])
    contains("B7", given, note.replace(",", ""), f"{10_000 - len(shown)} more")


NO_TEXT = {
    "utf-16": "hello\n".encode("utf-16"),
    "latin-1": b"caf\xe9\n",
    "binary": bytes(range(256)),
    "late": b"x\n" * 1000 + b"\xff\n",
    "cut": "你好".encode()[:-1],
}


def test_a_file_that_is_no_text_is_refused_and_left_alone(stage):
    for name, data in NO_TEXT.items():
        path = put(stage, name, data)
        is_error("undecodable", name, stage.run_read(name))
        is_error("undecodable", name, stage.run_edit(name, "x", "y"))
        equal("undecodable", name, path.read_bytes(), data)


def test_a_byte_order_mark_is_hidden_and_stays(stage):
    path = put(stage, "bom.py", BOM + b"import os\nx = 1\n")
    equal("B2", "BOM, read", stage.run_read("bom.py"), "import os\nx = 1")
    stage.run_edit("bom.py", "import os", "import re")
    equal("B2", "BOM, edit", path.read_bytes(), BOM + b"import re\nx = 1\n")
    stage.run_edit("bom.py", "x = 1", "x = 2")
    equal("B2", "BOM, edit", path.read_bytes(), BOM + b"import re\nx = 2\n")


# Edit

EDITS = [
    # bytes before, old_text, new_text, bytes after
    (b"a = 1\r\nb = 2\r\n", "a = 1", "a = 9", b"a = 9\r\nb = 2\r\n"),
    (b"a = 1\r\nb = 2\r\n", "b = 2", "", b"a = 1\r\n\r\n"),
    (b"a\rb\rc", "b", "B", b"a\rB\rc"),
    (b"a\r\nb\nc\rd", "c", "C", b"a\r\nb\nC\rd"),
    (b"a\nb", "b", "c", b"a\nc"),
    (b"x \t\x0c\0y\n\n\n", "y", "z", b"x \t\x0c\0z\n\n\n"),
    (b"a\nb\nc\n", "a\nb", "A", b"A\nc\n"),
    (b"a\r\nb\r\nc\r\n", "a\r\nb", "A", b"A\r\nc\r\n"),
    (b"a\r\nb\r\nc\r\n", "a\nb", "A\nB", b"A\r\nB\r\nc\r\n"),
    (b"a\r\nb\r\n", "a", "a\nx\r\ny", b"a\r\nx\r\ny\r\nb\r\n"),
    (b"a\nb\r\nc\n", "a", "a\nx", b"a\nx\nb\r\nc\n"),
    ("naïve ✓\u2028 \x85\n".encode(), "✓", "你", "naïve 你\u2028 \x85\n".encode()),
    ("e\u0301 é\n".encode(), "é", "E", "e\u0301 E\n".encode()),
    (b"f(x)\\n.*\n", "(x)\\n.*", "[\\1]", b"f[\\1]\n"),
]


def test_an_edit_changes_the_bytes_it_names_and_no_other(stage):
    for before, old, new, after in EDITS:
        path = put(stage, "f.txt", before)
        given = f"{before!r}, {old!r} -> {new!r}"
        lacks("B1", given, stage.run_edit("f.txt", old, new), "Error")
        equal("B1", given, path.read_bytes(), after)


NO_EDITS = [
    # file, old_text, new_text, rule, what the error says
    ("abc", "", "x", "B3", ""),
    ("", "", "x", "B3", ""),
    ("abc", "z", "x", "B3", ""),
    ("abc", "ABC", "x", "B3", ""),
    ("a b", "a  b", "x", "B3", ""),
    ("abc", "b", "b", "B5", "nothing to change"),
    ("abc", "\ud800", "x", "B3", ""),
    ("abc", "b", "\ud800", "B3", ""),
]


def test_an_edit_that_cannot_be_is_an_error_and_leaves_the_file(stage):
    for before, old, new, rule, words in NO_EDITS:
        path = put(stage, "f.txt", before)
        given = f"{before!r}, {old!r} -> {new!r}"
        is_error(rule, given, stage.run_edit("f.txt", old, new), words)
        equal(rule, given, path.read_text(), before)


def test_of_several_places_the_first_is_edited_and_the_count_is_told(stage):
    for before, after, count in (("x\nx\n", "y\nx\n", 2), ("axbxcx", "aybxcx", 3)):
        path = put(stage, "f.txt", before)
        result = stage.run_edit("f.txt", "x", "y")
        equal("B4", repr(before), path.read_text(), after)
        contains("B4", repr(before), result, f"first of {count}")
    put(stage, "f.txt", "one x\n")
    lacks("B4", "one place", stage.run_edit("f.txt", "x", "y"), "first of")


# Write


def test_a_file_is_written_with_the_folders_it_needs_and_a_true_count(stage):
    result = stage.run_write("a/b/c.txt", "你好 ✓")
    contains("B13", "write_file 你好 ✓", result, "10 bytes")
    path = stage.WORKDIR / "a/b/c.txt"
    equal("B13", "write_file 你好 ✓", path.read_text("utf-8"), "你好 ✓")
    equal("B14", "write_file", files_of(stage.WORKDIR), ["a", "a/b", "a/b/c.txt"])


def test_content_is_written_byte_for_byte(stage):
    for content in ("", "a\r\nb\rc\n", "\ufeffx", "no newline", "\0"):
        stage.run_write("f", content)
        data = (stage.WORKDIR / "f").read_bytes()
        equal("B1", repr(content), data, content.encode())


def test_mode_and_link_survive_a_write_and_an_edit(stage):
    path = put(stage, "real.sh", "echo 1\n")
    path.chmod(0o751)
    (stage.WORKDIR / "link.sh").symlink_to("real.sh")
    stage.run_write("link.sh", "echo 2\n")
    stage.run_edit("link.sh", "2", "3")
    check((stage.WORKDIR / "link.sh").is_symlink(), "B14", "a link", "a file", "a link")
    equal("B14", "a link", path.read_text(), "echo 3\n")
    equal("B14", "mode 751", oct(stat.S_IMODE(path.stat().st_mode)), "0o751")


@contextmanager
def file_size_limit(size):
    """Makes writes beyond that size fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_fails_half_way_leaves_the_old_content_and_no_other_file(stage):
    path = put(stage, "old.txt", "old content")
    for write in (
        lambda: stage.run_write("old.txt", "x" * 5_000_000),
        lambda: stage.run_edit("old.txt", "old", "x" * 5_000_000),
        lambda: stage.run_write("new.txt", "x" * 5_000_000),
    ):
        with file_size_limit(1_000_000):
            result = write()
        is_error("B14", "a disk that is full after 1 MB", result)
        equal("B14", "a failed write", path.read_text(), "old content")
        equal("B14", "a failed write", files_of(stage.WORKDIR), ["old.txt"])


def interrupt_at(event, name):
    """A profiler that raises Ctrl-C at the first call into C code of that name."""

    def profile(frame, seen, argument):
        if seen == event and argument.__name__ == name:
            sys.setprofile(None)
            raise KeyboardInterrupt

    return profile


def test_an_interrupted_write_leaves_old_or_new_content_and_no_other_file(stage):
    path = put(stage, "old.txt", "old content")
    moments = [("c_call", "write"), ("c_return", "write"), ("c_call", "replace")]
    moments += [("c_call", "open"), ("c_call", "chmod"), ("c_return", "chmod")]
    before = sys.getprofile()
    for moment in moments:
        path.write_text("old content")
        try:
            sys.setprofile(interrupt_at(*moment))
            stage.run_write("old.txt", "new" * 100_000)
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(before)
        whole = path.read_text() in ("old content", "new" * 100_000)
        given = f"Ctrl-C at {' '.join(moment)}"
        check(whole, "B14", given, Words("a part of it"), Words("old or new content"))
        equal("B14", given, files_of(stage.WORKDIR), ["old.txt"])


def test_what_is_no_regular_file_is_refused_at_once(stage):
    put(stage, "a.txt", "a")
    (stage.WORKDIR / "src").mkdir()
    os.mkfifo(stage.WORKDIR / "pipe")
    (stage.WORKDIR / "loop").symlink_to("loop")
    for path in ("src", "pipe", "a.txt/b", "loop", ".", "", "src/", "a.txt/b/c"):
        for result in (
            stage.run_read(path),
            stage.run_write(path, "x"),
            stage.run_edit(path, "a", "x"),
        ):
            is_error("B6", repr(path), result, path.split("/")[0])
    equal("B6", "all of it", (stage.WORKDIR / "a.txt").read_text(), "a")
    left = files_of(stage.WORKDIR)
    equal("B6", "all of it", left, ["a.txt", "loop", "pipe", "src"])


def test_a_file_that_is_not_there_is_an_error_that_names_it(stage):
    is_error("B6", "no such file", stage.run_read("nowhere.txt"), "nowhere.txt")
    is_error("B6", "no such file", stage.run_edit("no/where", "a", "b"), "no/where")


C_LOCALE = """
import sys
from pathlib import Path
from kit.stages import load_stage

stage = load_stage(sys.argv[1])
stage.WORKDIR = Path(sys.argv[2])
words = "\\u4f60\\u597d \\u2713"
print(ascii([stage.run_write("f", words), stage.run_read("f") == words,
             stage.run_edit("f", words, words + "!"), stage.run_bash("cat f")]))
"""


def test_text_is_utf_8_whatever_the_locale(stage, tmp_path):
    (tmp_path / "anthropic.py").write_text("class Anthropic: pass")
    (tmp_path / "dotenv.py").write_text("def load_dotenv(*_, **__): pass")
    done = subprocess.run(
        [sys.executable, "-B", "-c", C_LOCALE, stage.__name__, stage.WORKDIR],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{tmp_path}:{ROOT}",
            "LC_ALL": "C",
            "PYTHONUTF8": "0",
            "PYTHONCOERCECLOCALE": "0",
        },
        text=True,
        capture_output=True,
        timeout=10,
    )
    contains("B13", "LC_ALL=C", done.stdout + done.stderr, "10 bytes", "True", "Edited")
    contains("B13", "LC_ALL=C", done.stdout, ascii("你好 ✓!")[1:-1])


# Paths


@pytest.fixture
def outside(stage, monkeypatch):
    """Things around the workspace that no file tool may reach; its root folder."""
    root = stage.WORKDIR.parent
    for name in ("secret.txt", "workspace-evil/secret.txt", "home/secret.txt"):
        put(stage, root / name, "secret")
    monkeypatch.setenv("HOME", str(root / "home"))
    (stage.WORKDIR / "sub").mkdir()
    (stage.WORKDIR / "out.txt").symlink_to(root / "secret.txt")
    (stage.WORKDIR / "out").symlink_to(root / "home")
    (stage.WORKDIR / "up").symlink_to("..")
    (stage.WORKDIR / "sub/hop").symlink_to("../out")
    return root


ESCAPES = [
    "../secret.txt",
    "/etc/hosts",
    "out.txt",
    "out/secret.txt",
    "up/secret.txt",
    "sub/hop/secret.txt",
    "../workspace-evil/secret.txt",
    "~/secret.txt",
    "sub/../../secret.txt",
    "sub/hop/../secret.txt",
    "./.././secret.txt",
    "../new.txt",
    "up/new/new.txt",
    "/",
    "..",
    "~",
]


def test_paths_that_leave_the_workspace_are_refused_even_when_called_directly(
    stage, outside
):
    for path in ESCAPES:
        words = f"Path escapes workspace: {path}"
        try:
            seen = Words(f"the path {stage.safe_path(path)}")
        except ValueError as error:
            seen = str(error)
        equal("B9", path, seen, words)
        is_error("B9", path, stage.run_read(path), words)
        is_error("B9", path, stage.run_write(path, "x"), words)
        is_error("B9", path, stage.run_edit(path, "secret", "x"), words)
    equal("B9", "all of these", (outside / "secret.txt").read_text(), "secret")
    lacks("B9", "all of these", files_of(outside), "new.txt", "new")


def test_an_absolute_path_that_leaves_is_refused(stage, outside):
    path = str(outside / "workspace-evil" / "secret.txt")
    is_error("B9", path, stage.run_read(path), f"Path escapes workspace: {path}")


def test_paths_that_only_look_odd_are_allowed(stage, outside):
    paths = ["foo..bar", "./a", "sub/../a", "..a", "...", "a b", "sub/..b/c", "-rf"]
    paths += [str(stage.WORKDIR / "absolute"), "up/workspace/a", "ünï/✓"]
    for path in paths:
        result = stage.run_write(path, "x")
        starts_with("B9", path, result, "Wrote")
        equal("B9", path, stage.run_read(path), "x")
    check(not (stage.WORKDIR / "-rf").is_dir(), "B9", "-rf", "a folder", "a file")


def test_a_workspace_reached_through_a_link_works(stage, tmp_path):
    real, stage.WORKDIR = stage.WORKDIR, tmp_path / "link"
    stage.WORKDIR.symlink_to(real)
    starts_with("B9", "a linked workspace", stage.run_write("a.txt", "x"), "Wrote")
    for path in ("a.txt", str(stage.WORKDIR / "a.txt"), str(real / "a.txt")):
        equal("B9", path, stage.run_read(path), "x")
    equal("B10", "a linked workspace", stage.run_glob("*.txt"), "a.txt")
    is_error("B9", "../x", stage.run_read("../x"), "Path escapes workspace: ../x")


# Glob

TREE = [
    "a.py",
    "b.py",
    "c.txt",
    "[x].py",
    "README.md",
    ".env",
    ".github/ci.yml",
    ".github/.hidden/deep.yml",
    "src/a.py",
    "src/.cache/x.py",
    "src/pkg/a.py",
    "src/pkg/b.test.py",
    "src/pkg/data.json",
    "docs/a b.md",
    "docs/ü.md",
]
PATTERNS = """
* *.py ?.py ??.py a* [ab].py [!a]*.py [[]x].py *.{py} **/*.py **/a.py ** **/* src/**
src/* src/*/*.py src/**/*.py **/pkg/*.py */* *.* docs/* docs/*\u0020* .* .env .github/*
.github/*.yml .github/** .github/**/*.yml .github/.hidden/* **/.env **/.* ./*.py
src//pkg//*.py src/pkg/../*.py **/**/a.py s*c/p*g/? [a-c]* **/[!.]*.md nothing/* a.py/*
""".split()


def test_glob_gives_what_the_standard_library_gives_sorted(stage):
    for name in TREE:
        put(stage, name, "x")
    for pattern in PATTERNS:
        matches = glob.glob(pattern, root_dir=stage.WORKDIR, recursive=True)
        normal = {os.path.normpath(match) for match in matches}
        wanted = sorted(name for name in normal if (stage.WORKDIR / name).is_file())
        lines = stage.run_glob(pattern).split("\n")
        seen = [] if lines[0].startswith("No file") else lines
        equal("B11", pattern, seen, wanted)


def test_glob_lists_nothing_outside_the_workspace(stage, outside):
    put(stage, "inside.txt", "x")
    patterns = ["../*", "/etc/host*", "sub/../../*", "*/../../*", "~/*", "up/*"]
    patterns += ["out/*", "sub/hop/*", "*/*.txt", "**/*", "**/secret*", "/*", "*/../*"]
    patterns += [f"{outside}/*", "../workspace-evil/*", "up/**", ".."]
    for pattern in patterns:
        result = stage.run_glob(pattern)
        if not result.startswith(("Error: Path escapes workspace: ", "No file")):
            lacks("B10", pattern, result, "secret", "hosts", "out.txt", "evil")


def test_glob_reaches_the_workspace_by_an_absolute_path_too(stage):
    put(stage, "src/a.py", "x")
    pattern = f"{stage.WORKDIR}/src/*.py"
    equal("B10", pattern, stage.run_glob(pattern), "src/a.py")


def test_glob_lists_each_file_once_and_link_cycles_are_harmless(stage):
    put(stage, "a/b/f.txt", "x")
    (stage.WORKDIR / "a/b/up").symlink_to("../..")
    (stage.WORKDIR / "a/self").symlink_to(".")
    (stage.WORKDIR / "g.txt").symlink_to("a/b/f.txt")
    (stage.WORKDIR / "gone.txt").symlink_to("nowhere")
    (stage.WORKDIR / "loop.txt").symlink_to("loop.txt")
    result = stage.run_glob("**/*.txt")
    equal("B11", "**/*.txt with cycles", result.split("\n"), ["a/b/f.txt", "g.txt"])


def test_a_pattern_without_match_says_so(stage):
    for pattern in ("*.nothing", "", "nowhere/*", "**/x/**", ".", "/"):
        result = stage.run_glob(pattern)
        check(result.strip(), "B11", pattern, result, Words("text"))
    contains("B11", "*.nothing", stage.run_glob("*.nothing"), "no", "*.nothing")


def test_odd_patterns_are_a_result(stage):
    put(stage, "a.py", "x")
    for pattern in (
        "[",
        "[]",
        "[!",
        "[z-a]",
        "***",
        "a**",
        "\\",
        "(",
        "+",
        "{a,b}",
        "\0",
    ):
        result = stage.run_glob(pattern)
        check(result.strip(), "B11", pattern, result, Words("text"))


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """A workspace of 2,000 files."""
    root = tmp_path_factory.mktemp("crowd")
    for n in range(2):
        (root / f"d{n:02}").mkdir()
        for m in range(1000):
            os.close(os.open(root / f"d{n:02}" / f"{m:04}.txt", os.O_CREAT))
    yield root
    subprocess.run(["rm", "-r", root], check=True)


def test_a_crowd_of_matches_is_sorted_bounded_and_counted(stage, crowd):
    stage.WORKDIR = crowd
    result = stage.run_glob("**/*")
    *paths, last = result.split("\n")
    starts_with("B11", "2,000 matches", result, "d00/0000.txt\nd00/0001.txt\n")
    equal("B11", "2,000 matches", paths, sorted(paths))
    check(len(result) < stage.OUTPUT_LIMIT, "B11", "matches", len(result), "bounded")
    contains("B11", "2,000 matches", last.replace(",", ""), "2000")


def test_the_number_of_paths_shown_is_a_setting(stage):
    for n in range(5):
        put(stage, f"{n}.txt", "x")
    stage.GLOB_LIMIT = 2
    *paths, last = stage.run_glob("*").split("\n")
    equal("settings", "GLOB_LIMIT = 2", paths, ["0.txt", "1.txt"])
    contains("B11", "GLOB_LIMIT = 2", last, "5")


def test_file_names_that_are_no_text_can_be_listed(stage):
    folder = os.fsencode(stage.WORKDIR)
    try:
        os.close(os.open(folder + b"/bad\xff.txt", os.O_CREAT))
    except OSError:
        pytest.skip("this file system has no such names")
    result = use(stage, "glob", {"pattern": "*"})
    contains("B11", "a name that is no UTF-8", result, "bad", ".txt")
    json.dumps(result).encode()
