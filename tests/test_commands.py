"""The other commands of `./workshop`: test, serve, doctor, status, and their errors."""

import json
import os
import shutil
import signal
import socket
import urllib.request

import pytest
from learner import read_until

from kit import cli, doctor
from kit.stages import ROOT

# Words that are not understood


@pytest.mark.parametrize(
    "words, expected",
    [
        (["rnu"], "Did you mean ./workshop run?"),
        (["docter"], "Did you mean ./workshop doctor?"),
        (["s02"], "Did you mean ./workshop run s02?"),
        (["zzz"], "Commands: run, test, serve, doctor"),
        (["run"], "Which stage? One of s01"),
        (["run", "s9"], "Stages: s01"),
        (["run", "agent_lop"], "Did you mean s01?"),
        (["run", "s01", "create hello.py"], "goes after --prompt: --prompt 'create"),
        (["run", "s01", "--promt", "x"], "Not understood: --promt x"),
        (["run", "s01", "--prompt"], "expected one argument"),
        (["serve", "--port", "many"], "A port is a number from 0 to 65535"),
        (["serve", "--port", "70000"], "A port is a number from 0 to 65535"),
        (["test", "s9"], "There is no stage 's9'"),
        (["doctor", "--jsn"], "Not understood: --jsn"),
    ],
)
def test_a_mistake_is_answered_with_how_to_write_it(words, expected, capsys):
    code = cli.main(words)
    out, err = capsys.readouterr()
    assert code == 2, f"{words} ended with {code}"
    assert expected in err, f"{words} was answered with {err!r}, not with {expected!r}"
    assert err.count("\n") <= 2 and "Traceback" not in err and not out


@pytest.mark.parametrize(
    "words", ["help", "--help", "-h", "help run", "run --help", "test -h", "help bench"]
)
def test_help_is_there_in_every_spelling(words, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(words.split())
    assert ended.value.code == 0
    assert "usage: ./workshop" in capsys.readouterr().out


# test


SMALL_TESTS = """
import pytest
from kit.stages import stages

@pytest.mark.parametrize("stage", [name for name in stages() if name >= "s0{number}"])
def test_each(stage): pass

def test_other(): assert {number} == 1
"""


@pytest.fixture
def tested(tree):
    """The copy with a small test file for each of its stages."""
    (tree.root / "tests").mkdir()
    for name in ("conftest.py", "learner.py"):
        shutil.copy2(ROOT / "tests" / name, tree.root / "tests")
    for number in (1, 2):
        path = tree.root / "tests" / f"test_s0{number}_small.py"
        path.write_text(SMALL_TESTS.format(number=number))
    return tree


@pytest.mark.parametrize(
    "words, code, expected",
    [
        ([], 1, "not all tests passed"),  # the whole suite, in two processes
        (["s01"], 0, "2 passed, 1 deselected"),  # on s01 alone
        (["s02", "-k", "each"], 0, "2 passed, 3 deselected"),  # s01's tests on s02, too
        (["test_s01_small.py::test_other"], 0, "1 passed"),
        (["tests/test_s02_small.py", "-k", "each"], 0, "1 passed, 1 deselected"),
    ],
)
def test_test_runs_pytest_on_what_was_named_and_keeps_its_exit_code(
    tested, words, code, expected
):
    ended, out, err = tested.start("test", *words, cwd=tested.root / "tests")
    assert ended == code, f"test {words} ended with {ended}:\n{out}{err}"
    assert expected in out, f"test {words} printed:\n{out}"


# serve


def test_serve_prints_its_address_and_the_lines_to_paste_and_ends_on_ctrl_c(tree):
    child = tree.popen("serve", start_new_session=True)
    said = read_until(child.stdout, "Ctrl-C")
    url = said.split()[1]
    for line in (f"Serving {url}", f"export ANTHROPIC_BASE_URL={url}",
                 "export ANTHROPIC_API_KEY=practice", "export MODEL_ID=practice"):
        assert line in said.splitlines(), f"{line!r} is not a line of:\n{said}"
    assert "NO_PROXY" not in said
    models = urllib.request.Request(f"{url}/v1/models")
    models.add_header("anthropic-version", "2023-06-01")
    models.add_header("x-api-key", "practice")
    with urllib.request.urlopen(models, timeout=60) as answer:
        assert "practice" in {model["id"] for model in json.load(answer)["data"]}
    os.killpg(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (0, ""), f"Ctrl-C: {out}{err}"
    assert "has ended" in out


def test_serve_names_no_proxy_when_a_proxy_would_catch_loopback(tree):
    child = tree.popen("serve", env={"https_proxy": "http://192.0.2.1:3128"})
    said = read_until(child.stdout, "Ctrl-C")
    child.terminate()
    child.communicate(timeout=60)
    assert child.returncode == 0, "a request to end is no failure"
    assert "export NO_PROXY=127.0.0.1,localhost" in said.splitlines()


def test_a_port_in_use_is_one_line(tree):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, out, err = tree.start("serve", "--port", port)
    assert (code, out) == (2, "")
    assert f"port {port}" in err and "Leave out --port" in err and err.count("\n") == 1


# doctor


def checks(tree, **env):
    """What doctor --json found, by name: (exit code, {name: check})."""
    code, out, err = tree.start("doctor", "--json", env=env)
    found = json.loads(out)
    assert err == "" and found["ok"] == (code == 0), f"{code}: {out}{err}"
    return code, {check["name"]: check for check in found["checks"]}


def test_doctor_finds_nothing_wrong_with_a_good_machine(tree):
    code, found = checks(tree)
    problems = [check for check in found.values() if not check["ok"]]
    assert (code, problems) == (0, [])
    assert "anthropic" in found["packages"]["found"]
    assert found["venv"]["found"] == ".venv"


def test_doctor_names_each_problem_and_what_to_do_and_shows_no_key(tree):
    (tree.root / ".env").write_text("ANTHROPIC_API_KEY=sk-real\nnot a setting!\n")
    (tree.root / "requirements.txt").write_text("pytest>=99\nnever-heard-of>=1,<2\n")
    (tree.root / "practice-workspace").write_text("a file in its place")
    stamp = tree.root / ".venv" / "workshop-installed"
    stamp.write_bytes(
        stamp.read_bytes().partition(b"\n")[0]
        + b"\npytest>=99\nnever-heard-of>=1,<2\n"
    )
    code, found = checks(
        tree,
        PATH=f"{tree.env['PATH'].partition(':')[0]}",
        HTTP_PROXY="http://192.0.2.1:3128",
        PYTHONIOENCODING="latin-1",
    )
    wrong = {name for name, check in found.items() if not check["ok"]}
    expected = {"packages", "bash", ".env", "live", "folders", "terminal", "proxy"}
    assert (code, wrong) == (1, expected)
    assert "never-heard-of" in found["packages"]["advice"]
    assert "line 2" in found[".env"]["found"]
    assert "MODEL_ID" in found["live"]["advice"]
    assert "sk-real" not in json.dumps(found)


@pytest.mark.parametrize(
    "content, found",
    [
        (b"# nothing\nMODEL_ID=\n", "sets nothing yet"),
        (b"MODEL_ID=m1\nexport OTHER='x'\n", "sets MODEL_ID, OTHER"),
        (b"\xef\xbb\xbfMODEL_ID=m1\n", "starts with a byte order mark"),
        (b"MODEL_ID=caf\xe9\n", "cannot be read"),
        (b"MODEL_ID=m1\n\nMODEL ID: m1\n", "line 3 is not NAME=value"),
        (None, "is a directory"),
    ],
)
def test_doctor_reads_env_as_a_stage_would(content, found, tmp_path, monkeypatch):
    path = tmp_path / ".env"
    path.mkdir() if content is None else path.write_bytes(content)
    monkeypatch.setattr(doctor.run, "ENV_FILE", path)
    check = doctor.check_env_file()
    assert found in check.found, f"{content!r}: {check}"
    assert check.ok == found.startswith("sets"), f"{content!r}: {check}"


@pytest.mark.parametrize(
    "proxies, expected",
    [
        ({}, ""),
        ({"HTTP_PROXY": "http://192.0.2.1:1", "no_proxy": "a, 127.0.0.1"}, ""),
        ({"https_proxy": "http://192.0.2.1:1", "no_proxy": "a"}, "NO_PROXY=a,127"),
        ({"ALL_PROXY": "socks5://192.0.2.1:1", "no_proxy": "*"}, "unset ALL_PROXY"),
    ],
)
def test_doctor_advises_on_the_proxies_that_are_set(proxies, expected, monkeypatch):
    for name, value in proxies.items():
        monkeypatch.setenv(name, value)
    advice = doctor.check_proxy().advice
    assert expected in advice and bool(advice) == bool(expected), advice


def test_doctor_puts_the_advice_below_the_problem(monkeypatch, capsys):
    monkeypatch.setenv("HTTP_PROXY", "http://192.0.2.1:3128")
    monkeypatch.setattr(doctor, "CHECKS", [doctor.check_python, doctor.check_proxy])
    assert doctor.report() == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("ok       python"), lines
    assert lines[1].startswith("problem  proxy"), lines
    assert "-> export NO_PROXY=127.0.0.1,localhost" in lines[2]


@pytest.mark.parametrize(
    "version, bounds, inside",
    [
        ("2.0.0", ">=2,<3", True),
        ("1.17.0", ">=2,<3", False),
        ("3.0.0", ">=2,<3", False),
        ("3.0.0rc1", ">=2,<3", False),
        ("2.14.0", "", True),
    ],
)
def test_doctor_compares_versions_as_numbers(version, bounds, inside):
    assert doctor.within(version, bounds) is inside, f"{version} in {bounds!r}"


# Without a command


def test_alone_it_says_what_was_run_and_what_comes_next(tree):
    assert "Next: ./workshop run s01" in tree.start()[1]
    logs = tree.root / "work" / "logs"
    logs.mkdir(parents=True)
    (logs / "s01.jsonl").write_text("{}\n")
    _, out, _ = tree.start(env={"ANTHROPIC_API_KEY": "sk-real", "MODEL_ID": "m1"})
    first, second = (line for line in out.splitlines() if line.startswith("  s0"))
    assert "last run 20" in first and "not run yet" in second
    assert "Next: ./workshop run s02" in out
    assert "ANTHROPIC_API_KEY is set (m1)" in out and "sk-real" not in out
    (logs / "s02.jsonl").write_text("{}\n")
    assert "Next: ./workshop test" in tree.start()[1]


def test_a_reader_that_leaves_early_is_no_traceback(tree):
    for words in ([], ["help"]):
        reader, writer = os.pipe()
        os.close(reader)
        code, _, err = tree.start(*words, stdout=writer)
        os.close(writer)
        assert (code, err) == (1, ""), f"{words}: {code}, {err}"
