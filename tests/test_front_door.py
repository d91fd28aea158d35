"""README, CONTRIBUTING and .env.example name only what exists, and agree."""

import re
import shlex
import subprocess

import pytest

from kit import cli, doctor
from kit.stages import ROOT, stages

PAGES = ["README.md", "CONTRIBUTING.md"]
# Made by the first start, or by the learner: named, but in no fresh copy.
MADE_LATER = {".venv", ".env", ".venv.lock", "work", "practice-workspace"}


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


def code_in(text):
    """The lines of fenced blocks, and the inline code spans."""
    prose, *fenced = re.split(r"^```\w*\n", text, flags=re.M)
    blocks = fenced[::2]
    spans = re.findall(r"`([^`\n]+)`", "".join([prose, *fenced[1::2]]))
    return [line for block in blocks for line in block.splitlines()] + spans


@pytest.mark.parametrize("name", PAGES)
def test_every_workshop_command_on_a_page_is_understood(name, capsys):
    commands = [code for code in code_in(page(name)) if code.startswith("./workshop")]
    assert commands, f"{name} names no command"
    for command in commands:
        words = shlex.split(command, comments=True)[1:]
        try:
            parsed = cli.parse(words)
            if parsed.command == "test" and parsed.words:
                cli.a_stage(parsed.words[0])
        except cli.Usage as problem:
            raise AssertionError(f"{name} says `{command}`: {problem}") from problem


@pytest.mark.parametrize("name", PAGES)
def test_every_path_on_a_page_exists(name):
    text = page(name)
    linked = re.findall(r"\]\(([^)\s]+)\)", text)
    words = " ".join(code_in(text)).split()
    path = r"[\w.][\w./-]*(/|\.(py|md|txt|toml|example|json|lock))|\.[a-z]+(/[\w.]+)*"
    named = [word for word in words if re.fullmatch(path, word)]
    placeholders = {"sNN_name/", "code.py", "hello.py"}
    assert len(named) > 5, named
    for path in {*linked, *named} - placeholders:
        if path.partition("/")[0] not in MADE_LATER:
            assert (ROOT / path).exists(), f"{name} names {path}, which is not there"


@pytest.mark.parametrize("name", PAGES)
def test_links_stay_inside_the_repository(name):
    outside = re.findall(r"\]\((?:\w+:|/|#)[^)]*\)", page(name))
    assert not outside, f"{name} links to {outside}"


def test_the_readme_has_each_stage_once_in_its_table():
    rows = re.findall(r"^\| \[(s\d\d_\w+)\]", page("README.md"), re.M)
    assert rows == stages(), f"the README's table has {rows}, the folders {stages()}"


def test_the_readme_and_the_example_settings_list_the_same_servers():
    rows = re.findall(
        r"^\| ([\w.]+)[^|]*\| `(http[^`]+)` \| `?(\w+)`?", page("README.md"), re.M
    )
    example = page(".env.example")
    listed = re.findall(r"^#   ([\w. ]+?) {2,}(http\S+) +(\w+)", example, re.M)
    short = [(name.split()[0], url, key) for name, url, key in listed]
    assert [(name.split()[0], url, key) for name, url, key in rows] == short
    assert len(short) > 5


def test_the_example_settings_set_nothing():
    for line in page(".env.example").splitlines():
        assert not line or line.startswith("#") or re.fullmatch(r"[A-Z_]+=", line), line


@pytest.mark.parametrize(
    "sentence",
    ["The model decides, Python executes.", "On Windows, work inside WSL.",
     "not a sandbox", "A script is not a model.", "an approximation"],
)
def test_the_readme_says_what_it_is_and_what_it_is_not(sentence):
    assert sentence in " ".join(page("README.md").split())


def test_requirements_have_a_lower_and_an_upper_bound():
    found = dict(doctor.requirements())
    assert set(found) == {"anthropic", "python-dotenv", "pytest"}
    for name, bounds in found.items():
        assert re.fullmatch(r">=[\d.]+,<\d+", bounds), f"{name}{bounds}"


def test_the_check_command_is_a_program_that_bash_can_read():
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    assert (ROOT / "workshop").stat().st_mode & 0o111
    done = subprocess.run(["bash", "-n", ROOT / ".ci" / "run"], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
