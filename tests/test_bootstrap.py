"""The first start: .venv built, kept current, repaired, and each failure in words.

Python, venv and pip are played by a shell script here, so that every failure can be
had at once; .ci/run builds a real one.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

from kit import bootstrap
from kit.stages import ROOT

# Plays `python -m venv` (it makes a .venv that holds itself), `python -m pip` (it says
# and ends as the files pip-says and pip-ends tell) and the check whether pip is there.
PLAYER = """#!/bin/sh
here='{here}'
echo "$*" >> "$here/calls"
case "$*" in
  "-m venv"*)
    if [ -f "$here/venv-says" ]; then cat "$here/venv-says"; exit 1; fi
    rm -rf "$4"; mkdir -p "$4/bin"; touch "$4/pyvenv.cfg"
    cp "$here/python" "$4/bin/python";;
  "-m pip"*)
    cat "$here/pip-says" 2>/dev/null
    if [ -f "$here/pip-hangs" ]; then exec sleep 20; fi
    exit "$(cat "$here/pip-ends" 2>/dev/null || echo 0)";;
esac
"""


class Machine:
    """A folder to bootstrap in, and what the played Python was asked to do."""

    def __init__(self, path):
        self.path = path
        self.root = path / "workshop root"
        self.venv = self.root / ".venv"

    def write(self, name, text):
        (self.path / name).write_text(text)

    def calls(self):
        """What was asked since the last look: "venv", "pip" and "check"."""
        log = self.path / "calls"
        asked = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        kinds = {"-m venv": "venv", "-m pip": "pip"}
        return [kinds.get(call[:7].strip(), "check") for call in asked]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    machine = Machine(tmp_path)
    machine.root.mkdir()
    machine.write("python", PLAYER.format(here=tmp_path))
    (tmp_path / "python").chmod(0o755)
    (machine.root / "requirements.txt").write_text("anthropic>=2\n")
    monkeypatch.setattr(sys, "_base_executable", str(tmp_path / "python"))
    places = {"VENV": ".venv", "PYTHON": ".venv/bin/python", "LOCK": ".venv.lock"}
    places |= {"STAMP": ".venv/stamp", "PIP_LOG": ".venv/log"}
    places |= {"REQUIREMENTS": "requirements.txt", "ROOT": "."}
    for name, place in places.items():
        monkeypatch.setattr(bootstrap, name, str(machine.root / place))
    return machine


def test_the_first_start_builds_and_installs_and_the_second_does_neither(
    machine, capsys
):
    machine.write("pip-says", "Collecting anthropic>=2\nCollecting jiter==1\nInstalling"
                  " collected packages: all\n")
    bootstrap.prepare()
    assert machine.calls() == ["venv", "pip"]
    assert bootstrap.ready()
    said = capsys.readouterr()
    assert said.out == "", "stdout belongs to the command"
    for part in ("Preparing", "anthropic jiter", "installing them", "Ready after"):
        assert part in said.err, said.err
    bootstrap.prepare()
    assert machine.calls() == []


def test_changed_requirements_are_installed_into_the_venv_that_is_there(machine):
    bootstrap.prepare()
    machine.calls()
    (machine.root / "requirements.txt").write_text("anthropic>=3\n")
    assert not bootstrap.ready()
    bootstrap.prepare()
    assert machine.calls() == ["check", "pip"]
    assert bootstrap.ready()


def test_a_venv_whose_python_is_gone_is_built_again(machine):
    bootstrap.prepare()
    (machine.venv / "bin" / "python").unlink()
    (machine.venv / "bin" / "python").symlink_to("/no/longer/there")
    machine.calls()
    assert not bootstrap.ready()
    bootstrap.prepare()
    assert machine.calls() == ["venv", "pip"]


def test_a_venv_whose_python_became_another_one_is_built_again(machine):
    bootstrap.prepare()
    other = machine.path / "python3.99"
    (machine.venv / "bin" / "python").rename(other)
    (machine.venv / "bin" / "python").symlink_to(other)
    machine.calls()
    assert not bootstrap.ready()
    bootstrap.prepare()
    assert machine.calls() == ["venv", "pip"]


def test_a_venv_made_by_hand_is_kept_and_installed_into(machine):
    bootstrap.prepare()
    (machine.venv / "stamp").unlink()
    machine.calls()
    bootstrap.prepare()
    assert machine.calls() == ["check", "pip"]


def test_an_install_that_was_killed_is_started_afresh(machine):
    bootstrap.prepare()
    (machine.venv / "stamp").unlink()
    (machine.root / ".venv.lock").write_text("unfinished")
    machine.calls()
    bootstrap.prepare()
    assert machine.calls() == ["venv", "pip"]
    assert (machine.root / ".venv.lock").read_text() == ""


def test_a_folder_called_venv_that_is_none_is_left_alone(machine):
    machine.venv.mkdir()
    (machine.venv / "thesis.txt").write_text("years of work")
    with pytest.raises(bootstrap.Problem, match="not a virtual environment. Move it"):
        bootstrap.prepare()
    assert (machine.venv / "thesis.txt").exists() and "venv" not in machine.calls()


OFFLINE = """WARNING: Retrying (Retry(total=1)) after connection broken by
'NewConnectionError("host='index.example.org'")': /simple/anthropic/
ERROR: Could not find a version that satisfies anthropic (from versions: none)
"""
CONFLICT = """Looking in indexes: https://index.example.org/simple
ERROR: Cannot install x because of https://index.example.org/x.whl
ERROR: ResolutionImpossible
"""


@pytest.mark.parametrize(
    "says, expected",
    [
        (OFFLINE, "Connect to the network (behind a proxy, set HTTPS_PROXY)"),
        ("SSL: CERTIFICATE_VERIFY_FAILED", "set PIP_CERT to its certificate file"),
        ("OSError: [Errno 28] No space left on device", "the disk is full. Free"),
        (CONFLICT, "ERROR: Cannot install x because of (address)"),
    ],
)
def test_a_failed_install_says_why_and_what_to_do_without_addresses(
    machine, says, expected, capsys
):
    machine.write("pip-says", says)
    machine.write("pip-ends", "1")
    with pytest.raises(bootstrap.Problem) as problem:
        bootstrap.prepare()
    text = str(problem.value)
    assert expected in text, f"pip said {says!r}, the learner was told {text!r}"
    assert "example.org" not in text + capsys.readouterr().err
    assert not bootstrap.ready()
    machine.write("pip-ends", "0")
    machine.calls()
    bootstrap.prepare()
    assert machine.calls() == ["check", "pip"], "what was built should be used again"


def test_a_python_without_venv_is_told_what_brings_it(machine):
    machine.write("venv-says", "... because ensurepip is not available.  On Debian ...")
    with pytest.raises(bootstrap.Problem, match=r"apt install python3\.\d+-venv"):
        bootstrap.prepare()


def test_a_folder_where_nothing_may_be_written_is_named(machine, capsys):
    (machine.root / ".venv.lock").mkdir()  # as good as read-only, also for root
    with pytest.raises(SystemExit) as ended:
        bootstrap.start(["help"])
    assert re.search(r"cannot write .*\.venv\.lock .*copy the whole folder",
                     str(ended.value.code))
    assert "\n" not in str(ended.value.code)


def test_a_second_start_waits_for_the_first_and_then_has_nothing_to_do(
    machine, capfd
):
    import fcntl

    with open(bootstrap.LOCK, "a+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        second = threading.Thread(target=bootstrap.prepare)
        second.start()
        said = ""
        while "waiting for that one" not in said:
            second.join(0.01)
            said += capfd.readouterr().err
            assert second.is_alive(), f"the second start did not wait: {said}"
        bootstrap.build(held)
        bootstrap.install(held)
        machine.calls()
    second.join(60)
    assert not second.is_alive() and machine.calls() == []


def test_a_child_of_a_killed_start_still_holds_the_lock(machine):
    import fcntl

    with open(bootstrap.LOCK, "a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        held = f"test -e /dev/fd/{lock.fileno()} && echo held"
        code, output = bootstrap._run(["sh", "-c", held], lock)
    assert (code, output) == (0, "held\n")


def test_ctrl_c_while_installing_is_one_line_and_the_next_start_goes_on(tree, tmp_path):
    real = tree.root / ".venv" / "bin" / "python"
    real.unlink()
    (tmp_path / "python").write_text(PLAYER.format(here=tmp_path))
    (tmp_path / "python").chmod(0o755)
    real.symlink_to(tmp_path / "python")
    (tree.root / ".venv" / "workshop-installed").unlink()
    (tmp_path / "pip-says").write_text("Collecting anthropic\n")
    (tmp_path / "pip-hangs").touch()
    child = tree.popen("help", start_new_session=True, stderr=subprocess.STDOUT)
    seen = ""
    while "anthropic" not in seen:
        seen += child.stdout.read(1)
    os.killpg(child.pid, signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 130
    assert out == "\nworkshop: stopped; start again to go on from here.\n", out
    assert (tree.root / ".venv.lock").read_text() == ""


# The launcher on an old Python


@pytest.fixture
def launcher(monkeypatch):
    """The launcher as a module on a Python that calls itself 3.8."""
    loader = SourceFileLoader("launcher", str(ROOT / "workshop"))
    spec = spec_from_loader("launcher", loader)
    module = module_from_spec(spec)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader.exec_module(module)
    monkeypatch.setattr(module.sys, "version_info", (3, 8, 1))
    return module


def test_an_old_python_says_in_one_line_that_a_newer_one_is_needed(
    launcher, monkeypatch, tmp_path
):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(launcher, "ROOT", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        launcher.main([])
    said = str(ended.value.code)
    assert "needs Python 3.10 or newer. This is Python 3.8.1" in said
    assert "\n" not in said


def test_an_old_python_hands_over_to_the_newest_that_really_starts(
    launcher, monkeypatch, tmp_path
):
    for name, code in (("python3.13", 127), ("python3.12", 1), ("python3.11", 0)):
        (tmp_path / name).write_text(f"#!/bin/sh\nexit {code}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(launcher, "ROOT", str(tmp_path))
    became = []
    monkeypatch.setattr(os, "execvp", lambda *call: became.append(call))
    launcher.restart_with_newer_python(["run", "s01"])
    script = str(tmp_path / "workshop")
    assert became[0] == ("python3.11", ["python3.11", script, "run", "s01"])


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.7", "3.8", "3.9"])
def test_really_old_pythons_can_read_the_launcher(version, tmp_path):
    managed = Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}")
    python = next(map(str, managed), shutil.which(f"python{version}"))
    if not python:
        pytest.skip(f"no Python {version} here")
    copy = tmp_path / "workshop"
    copy.write_bytes((ROOT / "workshop").read_bytes())
    done = subprocess.run(
        [python, copy], capture_output=True, text=True, env={"PATH": "/nowhere"}
    )
    if done.returncode > 1:
        pytest.skip(f"{python} does not start here")
    assert "needs Python 3.10 or newer" in done.stderr and done.stderr.count("\n") == 1
