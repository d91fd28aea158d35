"""`./workshop upkeep`: generated regions, and links, paths and commands on pages."""

import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from kit import cli, mdchecks, recorded, stages, upkeep
from kit.nest import Nest

REPO = stages.ROOT
S01, S02 = stages.stages()[:2]


@pytest.fixture(scope="module")
def nest():
    with Nest(recorded.SETTINGS) as nest:
        yield nest


class Tree:
    """A small repository: the first two stages, a README and the pages of a test."""

    def __init__(self, root, capsys):
        self.root = root
        self.capsys = capsys
        for name in (S01, S02):
            (root / name).mkdir()
            shutil.copy2(REPO / name / "code.py", root / name)
        (root / "kit").symlink_to(REPO / "kit")
        (root / "docs").mkdir()
        self.write("README.md", "# Course\n")

    def write(self, name, text):
        path = self.root / name
        path.write_text(text, encoding="utf-8")
        return path

    def copy_kit(self):
        """Makes the stages of this repository those that a snippet loads."""
        (self.root / "kit").unlink()
        shutil.copytree(REPO / "kit", self.root / "kit")

    def read(self, name):
        return (self.root / name).read_bytes().decode()

    def upkeep(self, *words):
        """(exit code, lines printed but for the last, which sums up)."""
        code = cli.main(["upkeep", *words])
        out, err = self.capsys.readouterr()
        assert not err, err
        return code, out.splitlines()[:-1]

    def check(self, text, name="docs/page.md"):
        """What --check says about a page with this text."""
        self.write(name, text)
        return self.upkeep("--check")[1]

    def filled(self, text, name="docs/page.md"):
        """The page after filling, which must go well."""
        self.write(name, text)
        code, lines = self.upkeep()
        assert code == 0, "\n".join(lines)
        return self.read(name)


@pytest.fixture
def tree(tmp_path, monkeypatch, capsys, nest):
    monkeypatch.setattr(stages, "ROOT", tmp_path)
    monkeypatch.setattr(upkeep, "Nest", lambda settings: nullcontext(nest))
    return Tree(tmp_path, capsys)


def region(directive, content=""):
    return f"<!-- gen: {directive} -->\n{content}<!-- /gen -->\n"


def between(text, directive):
    """What stands in the region of the directive, without the blank lines around."""
    return text.split(f"<!-- gen: {directive} -->")[1].split("<!-- /gen -->")[0].strip()


def lines_of(stage, first, last):
    text = (REPO / stage / "code.py").read_text(encoding="utf-8")
    return "\n".join(text.split("\n")[first - 1 : last])


def line_with(stage, start):
    lines = (REPO / stage / "code.py").read_text(encoding="utf-8").split("\n")
    return next(n for n, line in enumerate(lines, start=1) if line.startswith(start))


# What each directive shows


def test_code_shows_a_definition_with_its_place_and_since_when_it_is_so(tree):
    cases = [
        ("run_tool", "changed in s02"),
        ("safe_path", "new in s02"),
        ("clip", "as in s01"),
    ]
    page = tree.filled("".join(region(f"code s02 {name}") for name, _ in cases))
    for name, since in cases:
        caption, _, code = between(page, f"code s02 {name}").partition("\n\n")
        first = line_with(S02, f"def {name}(")
        last = first + code.count("\n") - 2
        place = f"{S02}/code.py:{first}-{last}"
        assert caption == f"[{place}](../{S02}/code.py#L{first}-L{last}), {since}"
        assert code == f"```python\n{lines_of(S02, first, last)}\n```"
    assert "in s01" not in tree.filled(region("code s01 clip")), "all is new there"


def test_code_takes_a_part_of_a_definition_and_the_comment_above_a_setting(tree):
    part = 'code s02 run_tool --from "handler =" --to "output ="'
    page = tree.filled(region(part) + region("code s01 DANGEROUS"))
    caption, _, code = between(page, part).partition("\n\n")
    first = line_with(S02, "def run_tool(") + 3
    assert f"code.py:{first}-{first + 3}]" in caption
    assert code == f"```python\n{lines_of(S02, first, first + 3)}\n```"
    assert "```python\n# A demonstration" in between(page, "code s01 DANGEROUS")


def test_links_start_from_the_page(tree):
    page = tree.filled(f"# Course\n\n{region('code s01 clip')}", "README.md")
    assert f"]({S01}/code.py#L" in page


def test_a_diff_has_true_line_numbers_and_little_context(tree):
    page = tree.filled(region("diff s01 s02 run_tool") + region("diff s01 s02"))
    whole, part = between(page, "diff s01 s02"), between(page, "diff s01 s02 run_tool")
    old, new = (line_with(stage, "def run_tool(") for stage in (S01, S02))
    hunk = f"@@ -{old + 1},7 +{new + 1},8 @@"
    assert hunk in part and hunk in whole
    assert '-        if call.name != "bash":' in part
    for text, stage, sign in ((whole, S01, "-"), (whole, S02, "+")):
        there = (REPO / stage / "code.py").read_text(encoding="utf-8").split("\n")
        body = text.split("```")[1].split("\n")[1:-1]
        number = 0
        for line in body:
            if line.startswith("@@"):
                number = int(line.split(sign)[1].split(",")[0].split(" ")[0])
            elif line[0] in (" ", sign):
                assert there[number - 1] == line[1:], f"{stage} line {number}"
                number += 1
    assert "the same in s01 and s02" in tree.check(region("diff s01 s02 clip"))[0]


def test_a_summary_links_what_is_new_and_changed(tree):
    text = between(
        tree.filled(region("diff s01 s02 --summary")), "diff s01 s02 --summary"
    )
    new, changed = text.splitlines()
    at = line_with(S02, "def safe_path(")
    assert new.startswith("- new: ") and changed.startswith("- changed: ")
    assert f"[`safe_path`](../{S02}/code.py#L{at}-L{at + 5})" in new
    assert "[`run_tool`]" in changed and "`clip`" not in text


def test_the_index_has_every_definition_and_says_what_it_is(tree):
    page = tree.filled(region("index s02") + region("index"))
    one, all_of_them = between(page, "index s02"), between(page, "index")
    at = line_with(S02, "BASH_TIMEOUT")
    place = f"[{S02}/code.py:{at}](../{S02}/code.py#L{at})"
    assert f"| `BASH_TIMEOUT` | `120`: seconds | {place} | as in s01 |" in one
    assert "| `TOOL_HANDLERS` | dict of 5 |" in one and "| new in s02 |" in one
    assert "\\*\\* matches any folders" in one, "stars must not turn into emphasis"
    row = next(line for line in all_of_them.splitlines() if "`run_tool`" in line)
    assert row.count("#L") == 2 and row.endswith("changed |")
    assert all(line.count(" | ") == 3 for line in one.splitlines())


def test_figures_and_places_stand_inside_a_line(tree):
    wanted = [
        "lines s01",
        "added s01 s02",
        "removed s01 s02",
        "tools s02",
        "stages",
        "value s01 MAX_TURNS",
        "value s01 OUTPUT_LIMIT",
        "items s01 DANGEROUS",
        "lines s02 safe_path",
        "functions s01",
        "changed s01 s02",
    ]
    regions = " and ".join(f"<!-- gen: count {one} --><!-- /gen -->" for one in wanted)
    place = "<!-- gen: place s02 clip -->?<!-- /gen -->"
    page = tree.filled(f"There: {regions}; {place}.\n")
    code = [tree.read(f"{stage}/code.py") for stage in (S01, S02)]
    figures = {one: between(page, f"count {one}") for one in wanted}
    assert int(figures["lines s01"]) == code[0].count("\n")
    grown = int(figures["added s01 s02"]) - int(figures["removed s01 s02"])
    assert grown == code[1].count("\n") - code[0].count("\n")
    assert figures["tools s02"] == "5" and figures["stages"] == "2"
    assert figures["value s01 MAX_TURNS"] == "50"
    assert figures["value s01 OUTPUT_LIMIT"] == "50,000"
    assert figures["items s01 DANGEROUS"] == "3"
    assert figures["lines s02 safe_path"] == "6"
    assert between(page, "place s02 clip").startswith(f"[{S02}/code.py:")
    assert page.count("\n") == 1


def test_a_run_is_recorded_under_its_command_and_is_the_same_everywhere(tree):
    run = 'run s01 "create hello.py, run it" --to "Hello Agent" --from "Now I"'
    page = tree.filled(region(run) + region("run s01 'bash pwd; date; ls -la' q"))
    assert between(page, run) == (
        "```text\n"
        '$ ./workshop run s01 --prompt "create hello.py, run it"\n'
        "...\n"
        "Now I run it.\n"
        "> bash {'command': 'python3 hello.py'}\n"
        "Hello Agent\n"
        "...\n"
        "```"
    )
    text = between(page, "run s01 'bash pwd; date; ls -la' q")
    head, *rest = text.splitlines()[1:]
    assert head == '$ ./workshop run s01 --prompt "bash pwd; date; ls -la" --prompt q'
    assert (
        rest[0] == "s01: practice works in practice-workspace. "
        "Type a request, or q to leave."
    )
    at = rest.index("practice-workspace")
    assert rest[at + 1 : at + 4] == [
        "Thu Jan  1 12:00:00 UTC 2026",
        "total 8",
        "drwxr-xr-x 1 you you 4096 Jan 1 12:00 .",
    ]


def test_output_is_what_the_block_above_prints_in_a_process_of_its_own(tree):
    block = (
        "```python\nimport builtins, os\nfrom kit.stages import load_stage\n"
        "from kit.scripted import ScriptedModel\n"
        's02 = load_stage("s02")\n'
        'print(s02.run_read("nothing.txt"), hasattr(builtins, "left"), os.listdir())\n'
        'builtins.left = open("left.txt", "w")\n'
        's02.client = ScriptedModel(["Done. ```"])\n'
        's02.agent_loop([{"role": "user", "content": "hi"}])\n```\n\n'
    )
    page = tree.filled(
        f"{block}Predict!\n\n{region('code s01 clip')}\n{region('output')}\n"
        f"1. Again:\n\n   {block.replace(chr(10), chr(10) + '   ')}\n"
        "   <!-- gen: output --to Error -->\n   <!-- /gen -->\n"
    )
    printed = "Error: No such file: nothing.txt False []"
    assert between(page, "output") == f"````text\n{printed}\nDone. ```\n````"
    assert f"\n   ```text\n   {printed}\n   ...\n   ```\n" in page, (
        "indented as its list"
    )


def test_a_snippet_may_be_a_file_and_may_fail_when_that_is_expected(tree):
    tree.write("docs/fails.py", "print(1)\nraise ValueError('no')\n")
    text = between(
        tree.filled(region("python docs/fails.py --exit 1")),
        "python docs/fails.py --exit 1",
    )
    assert text == (
        "```python\nprint(1)\nraise ValueError('no')\n```\n\n"
        "```text\n1\nTraceback (most recent call last):\n"
        '  File "snippet.py", line 2, in <module>\n'
        "    raise ValueError('no')\nValueError: no\n```"
    )


def test_a_snippet_ends_as_any_program_does(tree):
    snippet = (
        "```python\nimport atexit, sys, threading, time\n"
        "atexit.register(print, 'last')\n"
        "threading.Thread(target=lambda: (time.sleep(0.05), print('thread'))).start()\n"
        "sys.exit('left')\n```\n"
    )
    page = tree.filled(snippet + region("output --exit 1"))
    assert between(page, "output --exit 1") == "```text\nleft\nthread\nlast\n```"


def test_what_is_asked_for_twice_is_run_once(tree, monkeypatch):
    ran = []
    run = recorded.Recorder._run
    monkeypatch.setattr(
        recorded.Recorder, "_run", lambda self, job: ran.append(job) or run(self, job)
    )
    same = "".join(region(f"run s01 q --lines {lines}") for lines in ("1-1", "1-2"))
    tree.write("README.md", same)
    tree.filled(same)
    assert [job.typed for job in ran] == [("q",)]


@pytest.mark.parametrize(
    "printed, shown",
    [
        ("[hook] 09:41:07 runs bash", "[hook] 12:00:00 runs bash"),
        ("at 2026-03-04T05:06:07.890Z", "at 2026-01-01T12:00:00Z"),
        ("request req_011CabcDEF123", "request req_practice"),
        ("http://127.0.0.1:40123/v1", "http://127.0.0.1:8000/v1"),
        ("<object at 0x7f3a12345678>", "<object at 0x7f0000000000>"),
        ("passed in 0.12s", "passed in 0.1 s"),
        (
            "-rw-r--r-- 1 root wheel  21 Mar  4 10:47 a.py",
            "-rw-r--r-- 1 you you 21 Jan 1 12:00 a.py",
        ),
        (
            "drwx------@ 5 me staff 160 Mar 14  2025 d",
            "drwx------ 1 you you 4096 Jan 1 12:00 d",
        ),
        ("/base/practice-workspace/a /base/.env /base", "practice-workspace/a .env ."),
        ("kept 0.5 and 10:47 and toolu_p1c1", "kept 0.5 and 10:47 and toolu_p1c1"),
        ("end  \n\ns01 >> \n", "end"),
    ],
)
def test_what_a_machine_or_a_moment_decides_is_not_shown(printed, shown):
    lines = recorded.same_everywhere(printed, [Path("/base")])
    assert "\n".join(lines).rstrip() == shown


# Staleness


EVERYTHING = (
    "# Reading\n\nIt has <!-- gen: count lines s02 --><!-- /gen --> lines.\n\n"
    + region("code s02 run_read")
    + region("code s02 run_tool")
    + region("index s02")
    + region("diff s01 s02")
    + region("run s02 q")
    + "```python\nfrom kit.stages import load_stage\n"
    'print(load_stage("s02").run_read.__doc__)\n```\n' + region("output")
)


def test_a_changed_docstring_makes_its_regions_stale_and_filling_mends_them(tree):
    tree.copy_kit()
    before = tree.filled(EVERYTHING)
    assert tree.filled(before) == before, "filling twice changes nothing"
    assert tree.upkeep("--check") == (0, [])
    code = tree.read(f"{S02}/code.py")
    doc = '"""The text of a file, or its first lines and how many more there are."""'
    assert doc in code
    tree.write(f"{S02}/code.py", code.replace(doc, '"""The text of a file."""'))
    expected = []
    for name in ("code s02 run_read", "index s02", "diff s01 s02", "output"):
        line = before[: before.index(f"gen: {name} -->")].count("\n") + 1
        expected.append(
            f"docs/page.md:{line}: stale: {name}; run: ./workshop upkeep docs/page.md"
        )
    assert tree.upkeep("--check") == (1, expected)
    assert tree.read("docs/page.md") == before, "a check changes nothing"
    assert tree.upkeep("docs/page.md")[0] == 0
    after = tree.read("docs/page.md")
    assert after.count("The text of a file.") == 4 and "how many more" not in after
    assert tree.upkeep("--check") == (0, [])
    tree.write(f"{S02}/code.py", code)
    assert tree.upkeep() == (0, ["docs/page.md: 4 regions filled"])
    assert tree.read("docs/page.md") == before, "reverting restores the same bytes"


def test_a_line_more_moves_the_places_below_it(tree):
    page = region("code s01 run_bash") + region("code s01 MAX_TURNS")
    tree.filled(page + "At <!-- gen: place s01 main --><!-- /gen -->.\n")
    code = tree.read(f"{S01}/code.py")
    tree.write(
        f"{S01}/code.py", code.replace("\ndef clip(", "\nMORE = 1\n\n\ndef clip(")
    )
    _, found = tree.upkeep("--check")
    assert [line.split("stale: ")[1].split(";")[0] for line in found] == [
        "code s01 run_bash",
        "place s01 main",
    ]


def test_filling_keeps_the_mode_and_makes_line_ends_line_feeds(tree):
    path = tree.root / "docs" / "page.md"
    text = "# Page\r\n\r\nHas <!-- gen: count stages -->9<!-- /gen --> stages.\r\n"
    path.write_bytes(text.encode())
    path.chmod(0o640)
    code, found = tree.upkeep("--check")
    assert code == 1 and "docs/page.md:1: line ends are not line feeds" in found[0]
    assert tree.upkeep()[0] == 0
    assert path.read_bytes() == text.replace("\r", "").replace("9", "2").encode()
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in path.parent.iterdir()] == ["page.md"]


# What cannot be filled


@pytest.mark.parametrize(
    "line, expected",
    [
        (
            "<!-- gen: code s02 run_raed -->",
            "s02 defines no 'run_raed' at top level. Did you mean run_read?",
        ),
        ("<!-- gen: code s07 run_read -->", "There is no stage 's07'."),
        (
            '<!-- gen: code s02 run_read --from "nowhere" -->',
            "no line contains 'nowhere'",
        ),
        (
            '<!-- gen: code s02 run_read --from "limit" --to "nowhere" -->',
            "no line after that contains 'nowhere'",
        ),
        (
            "<!-- gen: code s02 -->",
            "the following arguments are required: SYMBOL; usage",
        ),
        ("<!-- gen: code s02 run_read --fro x -->", "unrecognized arguments: --fro"),
        ('<!-- gen: run s01 "q -->', "No closing quotation"),
        ("<!-- gen: run s01 q --lines 5-9 -->", "--lines 5-9: there are lines 1-"),
        ("<!-- gen: output -->", "no fenced python block stands above"),
        ("<!-- gen: python docs/none.py -->", "docs/none.py cannot be read"),
    ],
)
def test_a_region_that_cannot_be_filled_is_named_and_the_others_are(
    tree, line, expected
):
    other = "# Page\n\nTwo: <!-- gen: count stages -->9<!-- /gen -->.\n"
    tree.write("docs/page.md", f"{other}\n{line}\nas it was\n<!-- /gen -->\n")
    for words in ([], ["--check"]):
        code, lines = tree.upkeep(*words)
        assert code == 1
        assert lines[-1].startswith("docs/page.md:5: "), lines
        assert expected in lines[-1]
    page = tree.read("docs/page.md")
    assert "-->2<!-- /gen" in page and "\nas it was\n" in page


@pytest.mark.parametrize(
    "count, expected",
    [
        ("line s01", "count takes stages, lines"),
        ("lines", "write it as: count lines STAGE [SYMBOL]"),
        ("items s01 MAX_TURNS", "MAX_TURNS is not a written-out list"),
        ("value s01 TOOLS", "TOOLS is not set to a plain value"),
    ],
)
def test_a_count_that_is_none_says_how_to_write_it(tree, count, expected):
    found = tree.check(f"It has <!-- gen: count {count} -->1<!-- /gen -->.\n")
    assert len(found) == 1 and found[0].startswith("docs/page.md:1: ")
    assert expected in found[0]


@pytest.mark.parametrize(
    "text, line, expected",
    [
        (f"a\n{region('coed s01 clip')}", 2, "no directive 'coed'; did you mean code?"),
        ("a\n<!-- gen: code s01 clip -->\n\nb\n", 2, "'code s01 clip' is not closed"),
        (
            "<!-- gen: output -->\n" + region("code s01 clip"),
            1,
            "'output' is not closed",
        ),
        ("a\n\n<!-- /gen -->\n", 3, "<!-- /gen --> closes no region"),
        ("a <!-- gen: count stages -->2\n", 1, "is not a whole region"),
        ("a\n<!-- gen code s01 clip -->\nb\n", 2, "is not a whole region"),
        (
            f"a\n{region('count stages')}",
            2,
            "'count stages' has to stand inside a line",
        ),
        (
            "a <!-- gen: code s01 clip -->b<!-- /gen -->\n",
            1,
            "has to stand alone on its",
        ),
        ("<!-- gen: count stages -->2<!-- /gen --> are\n", 1, "put a word before it"),
        ("- <!-- gen: count stages -->2<!-- /gen -->\n", 1, "put a word before it"),
        ("a <!-- gen: count --x -->2<!-- /gen -->\n", 1, "no comment may hold --"),
        ("a\n\n```text\nb\n", 3, "the fenced block is not closed"),
    ],
)
def test_a_page_with_a_broken_region_is_left_alone(tree, text, line, expected):
    text = f"{text}\nGood: <!-- gen: count lines s01 -->0<!-- /gen -->\n"
    tree.write("docs/page.md", text)
    for words in ([], ["--check"]):
        code, found = tree.upkeep(*words)
        assert code == 1
        assert found[0].startswith(f"docs/page.md:{line}: "), found
        assert expected in found[0]
    assert tree.read("docs/page.md") == text


def test_markers_that_are_shown_as_code_are_no_regions(tree):
    text = (
        "Write `<!-- gen: code s01 clip -->` or ``<!-- /gen -->``:\n\n"
        "```markdown\n<!-- gen: coed -->\n```\n"
    )
    assert tree.filled(text) == text and tree.check(text) == []


def test_a_run_that_fails_is_reported_with_what_it_printed_and_never_written(tree):
    text = "```python\nprint('before')\nraise SystemExit(3)\n```\n" + region("output")
    tree.write("docs/page.md", text)
    code, lines = tree.upkeep()
    assert code == 1
    assert lines == [
        "docs/page.md:5: output: ended with 3, not with 0; it printed:",
        "before",
    ]
    assert tree.read("docs/page.md") == text


def test_a_run_that_does_not_end_is_ended(tree, monkeypatch):
    monkeypatch.setattr(recorded, "SECONDS", 1)
    found = tree.check(
        "```python\nimport time; time.sleep(60)\n```\n" + region("output")
    )
    assert "ended with -9" in found[0]


# What else goes wrong on a page


@pytest.mark.parametrize(
    "line, expected",
    [
        (
            "See [the code](../s01_agent_lop/code.py).",
            "the link to ../s01_agent_lop/code.py",
        ),
        (
            "See [it](othr.md).",
            "the link to othr.md: there is no such file; did you mean other.md?",
        ),
        ("![flow](flow.svg)", "the link to flow.svg: there is no such file"),
        ('<img src="flow.svg">', "the link to flow.svg: there is no such file"),
        ("[it]: other.md#none", "the link to other.md#none: there is no heading #none"),
        ("See [up](../../outside.md).", "it leads out of the repository"),
        (
            "See [x](#stop-raesons).",
            "there is no heading #stop-raesons; did you mean #stop-reasons?",
        ),
        (
            "A **[too](glossary.md#tooll)** is",
            "there is no heading #tooll; did you mean #tool?",
        ),
        ("See [x](../s01_agent_loop/code.py#L9).", "line numbers go stale"),
        ("See `s01_agent_loop/code.py:9-12`.", "line numbers go stale"),
        ("See `kit/rnu.py`.", "`kit/rnu.py`: there is no such file"),
        ("See `kti/run.py`.", "`kti/run.py`: there is no such file"),
        (
            "See `s02_tool_user`.",
            "`s02_tool_user`: there is no such file; did you mean s02_tool_use?",
        ),
        ("Run `python s01_agent_loop/cod.py`.", "`s01_agent_loop/cod.py`: there is no"),
        (
            "Type `./workshop rnu s01`.",
            "the command ./workshop rnu s01: There is no "
            "command 'rnu'. Did you mean ./workshop run?",
        ),
        (
            "Type `./workshop run\ns09`.",
            "the command ./workshop run s09: There is no stage 's09'",
        ),
        ("Type `./workshop test s9`.", "There is no stage 's9'"),
        (
            "```bash\n./workshop run s01 --promt x  # so\n```",
            "Not understood: --promt x",
        ),
        ("```text\n$ ./workshop doctr\n```", "Did you mean ./workshop doctor?"),
    ],
)
def test_what_leads_nowhere_is_named_with_its_place(tree, line, expected):
    tree.write("docs/other.md", "# Other\n")
    tree.write("docs/glossary.md", "# Glossary\n\n## Tool\n")
    found = tree.check(f"# Page\n\n## Stop reasons\n\n{line}\n")
    number = 6 if line.startswith("```") else 5
    assert len(found) == 1, found
    assert found[0].startswith(f"docs/page.md:{number}: ") and expected in found[0]


def test_what_is_right_or_elsewhere_is_not_named(tree):
    tree.write("docs/glossary.md", '# Glossary\n\n## `tool_use`\n\n<a id="gate"></a>\n')
    tree.write("docs/s01_agent_loop.md", "# One\n")
    text = (
        "# Page\n\n[a](glossary.md#tool_use) [b](glossary.md#gate) [c](#page)\n"
        "[d](../kit) [e](https://example.org/x#y) `[f](nowhere.md)`\n"
        "[g](glossary.md 'title')\n\n"
        "`s01_agent_loop/` `kit/run.py` `code.py` `hello.py` `work/logs/s01.jsonl`\n"
        "`/etc/hosts` `../x.txt` `**/*.py` `sNN_name/code.py` `docs/glossary.md`\n"
        "`a/b` `glossary.md` `s01_agent_loop.md` `tests/test_x.py::test_name`\n"
        "`src/app.py`\n\n"
        "<!-- elsewhere: src/app.py tests/test_x.py -->\n\n"
        "`./workshop` `./workshop run STAGE --live` `./workshop test sNN -k x`\n\n"
        '```bash\n./workshop run s01 --prompt "a b" | tail -3\n'
        "ls nowhere/x.py # kit/no\n"
        "```\n\n```python\nx = 'kit/none.py ./workshop none'\n```\n"
    )
    assert tree.check(text) == []


@pytest.mark.parametrize(
    "heading, anchor",
    [
        ("Stop reasons", "stop-reasons"),
        ("What `stop_reason` says: *all* of it", "what-stop_reason-says-all-of-it"),
        ("`_normalize_todos(todos)`", "_normalize_todostodos"),
        ("tool & hook", "tool--hook"),
        ("A [link](x.md) and _emphasis_", "a-link-and-emphasis"),
        ("1. Über-Größe, 工具?", "1-über-größe-工具"),
    ],
)
def test_anchors_are_those_of_github(heading, anchor):
    assert mdchecks.slug(heading) == anchor


def test_a_heading_that_comes_twice_has_a_numbered_anchor(tree):
    page = (
        "# Page\n\n## Run\n\n## Run\n\n```text\n# Not\n```\n\n[a](#run-1) [b](#not)\n"
    )
    found = tree.check(page)
    assert found == ["docs/page.md:11: the link to #not: there is no heading #not"]


def test_a_lesson_names_every_definition_that_is_new_or_changed(tree):
    new = "LINE_LIMIT GLOB_LIMIT safe_path file_path run_read save run_write run_edit"
    new += " glob_regex is_inside find_files TOOL_HANDLERS TOOLS run_tool"
    spans = " ".join(f"`{name}`" for name in new.split() if name != "run_write")
    name = "docs/s02_tool_use.md"
    listed = region("diff s01 s02 --summary") + region("index") + region("diff s01 s02")
    tree.filled(f"{spans} run_write\n{listed}{region('code s02 run_glob')}", name)
    at = line_with(S02, "def run_write(")
    assert tree.upkeep("--check")[1] == [
        f"{name}:1: the lesson does not name run_write, new in {S02}/code.py:{at}"
    ]
    tree.filled(f"{spans} `run_write(path)`\n{region('code s02 run_glob')}", name)
    assert tree.upkeep("--check") == (0, [])


def test_a_file_that_is_not_there_is_a_usage_error(tree, capsys):
    assert cli.main(["upkeep", "docs/none.md"]) == 2
    assert "There is no file 'docs/none.md'." in capsys.readouterr().err


def test_a_page_that_is_not_text_is_named(tree):
    (tree.root / "docs" / "page.md").write_bytes(b"\xff\xfe")
    code, found = tree.upkeep("--check")
    assert code == 1 and found[0].startswith("docs/page.md:1: cannot be read")
