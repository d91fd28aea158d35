"""What holds for every test: no other machine, none of the learner's settings."""

import ipaddress
import os
import signal
import socket
from pathlib import Path

import dotenv
import pytest
from dotenv import load_dotenv
from learner import learner_copy

from kit.stages import ROOT, find_stage, stages

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
UNWANTED = {"MODEL_ID", "NO_COLOR", "PYTHON_DOTENV_DISABLED"}
UNWANTED |= {*PROXIES, *map(str.lower, PROXIES)}


def drop_learner_settings(environ):
    """Removes the settings that would change what a stage or the SDK does."""
    for name in list(environ):
        if name in UNWANTED or name.startswith("ANTHROPIC_"):
            del environ[name]


def load_other_dotenv(path=None, *rest, **options):
    """dotenv.load_dotenv for every file but the learner's own .env."""
    if path is not None and Path(path) == ROOT / ".env":
        return False
    return load_dotenv(path, *rest, **options)


# What is started in the background ignores these, and so would all that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# At once: a module may load a stage while it is collected.
drop_learner_settings(os.environ)
dotenv.load_dotenv = load_other_dotenv


@pytest.fixture(autouse=True)
def own_environment():
    """Gives each test the machine's environment less the learner's settings."""
    before = dict(os.environ)
    drop_learner_settings(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def is_loopback(host):
    """Is this host name or address on the machine itself?"""
    if isinstance(host, bytes):
        host = host.decode()
    if host in (None, "", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


@pytest.fixture(autouse=True)
def only_loopback(monkeypatch):
    """Fails the test that connects, or asks for the address of, another machine."""
    refused = []

    def check(host):
        if not is_loopback(host):
            refused.append(host)
            raise OSError(f"a test may not reach {host!r}, only 127.0.0.1")

    def guarded(connect):
        def connect_to_loopback(sock, address):
            if sock.family in (socket.AF_INET, socket.AF_INET6):
                check(address[0])
            return connect(sock, address)

        return connect_to_loopback

    def look_up(host, *rest, **options):
        check(host)
        return getaddrinfo(host, *rest, **options)

    getaddrinfo = socket.getaddrinfo
    monkeypatch.setattr(socket.socket, "connect", guarded(socket.socket.connect))
    monkeypatch.setattr(socket.socket, "connect_ex", guarded(socket.socket.connect_ex))
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield
    assert not refused, f"the test tried to reach {refused}; only 127.0.0.1 is allowed"


@pytest.fixture
def tree(tmp_path):
    """A learner's copy of the workshop (learner.Tree), its processes ended with it."""
    copy = learner_copy(tmp_path)
    yield copy
    copy.end_processes()


def pytest_addoption(parser):
    parser.addoption("--stage", help="run the stage tests on this stage alone")


def pytest_collection_modifyitems(config, items):
    """With --stage, keeps of the tests made for each stage those of the one named."""
    if not config.getoption("--stage"):
        return
    wanted, known = find_stage(config.getoption("--stage")), set(stages())
    kept, other = [], []
    for item in items:
        params = getattr(item, "callspec", None) and item.callspec.params.values()
        named = {value for value in params or () if isinstance(value, str)} & known
        (kept if named <= {wanted} else other).append(item)
    config.hook.pytest_deselected(items=other)
    items[:] = kept
