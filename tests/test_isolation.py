"""The guard around every test: tests/conftest.py, run on small tests of its own."""

import shutil
import subprocess
import sys

import pytest

from kit.stages import ROOT

REACHES_OUT = """
import socket, pytest

@pytest.mark.parametrize("call", ["connect", "connect_ex", "lookup"])
def test_swallows_the_error(call):
    with socket.socket() as sock:
        try:
            if call == "lookup":
                socket.getaddrinfo("example.org", 80)
            else:
                getattr(sock, call)(("192.0.2.1", 9))
        except OSError:
            pass
"""

STAYS_AT_HOME = """
import os, socket

def test_loopback():
    for host in ("127.0.0.1", "localhost"):
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection((host, server.getsockname()[1]), 5).close()

def test_leaves_a_setting_behind():
    assert not {"ANTHROPIC_API_KEY", "MODEL_ID", "https_proxy"} & set(os.environ)
    os.environ["ANTHROPIC_API_KEY"] = "sk-left-behind"

def test_does_not_find_it():
    assert "ANTHROPIC_API_KEY" not in os.environ
"""


@pytest.mark.parametrize(
    "source, expected",
    [(REACHES_OUT, "3 passed, 3 errors"), (STAYS_AT_HOME, "3 passed")],
)
def test_other_machines_and_settings_are_kept_out(tmp_path, source, expected):
    for name in ("conftest.py", "learner.py"):
        shutil.copy2(ROOT / "tests" / name, tmp_path)
    (tmp_path / "test_it.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", ROOT / "pyproject.toml", "."],
        cwd=tmp_path,
        env={
            "PATH": "/usr/bin:/bin",
            "ANTHROPIC_API_KEY": "sk-real",
            "MODEL_ID": "m",
            "https_proxy": "http://192.0.2.1:1",
        },
        capture_output=True,
        text=True,
    )
    assert expected in done.stdout, f"{done.stdout}{done.stderr}"
