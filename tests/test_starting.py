"""How a stage starts: its settings, or one line that says what is missing.

Every stage is started once for each case, in a directory that is not its own.
"""

import os
from typing import NamedTuple

import pytest
from terminal import copy_stages, run_many

from kit import server
from kit.stages import stages

KEY, MODEL = {"ANTHROPIC_API_KEY": "key"}, {"MODEL_ID": "from-environment"}
BLANK = {"ANTHROPIC_API_KEY": "", "MODEL_ID": "  ", "ANTHROPIC_BASE_URL": ""}
FULL_FILE = b"ANTHROPIC_API_KEY=key\nMODEL_ID=from-file\n"
UNDECODABLE = b"MODEL_ID=\xff\xfe\nANTHROPIC_API_KEY=key\n"


class Case(NamedTuple):
    """What is in the environment and in .env, and words of the answer (or not)."""

    env: dict
    env_file: bytes | None
    words: str
    absent: str = "Traceback"


REFUSED = {
    "nothing is set": Case({}, None, "ANTHROPIC_API_KEY and MODEL_ID not set"),
    "all is empty": Case(BLANK, None, "ANTHROPIC_API_KEY and MODEL_ID not set"),
    "no model": Case(KEY, None, "MODEL_ID not set", "ANTHROPIC_API_KEY"),
    "no key": Case(MODEL, None, "ANTHROPIC_API_KEY not set", "MODEL_ID"),
    "no model in .env": Case(
        {}, b"ANTHROPIC_API_KEY=key\nMODEL_ID=\n", "MODEL_ID not set", "ANTHROPIC_API"
    ),
    "an undecodable .env": Case({}, UNDECODABLE, "ANTHROPIC_API_KEY and MODEL_ID"),
    "a proxy that cannot be used": Case(
        {**KEY, **MODEL, "ALL_PROXY": "socks5://x:1"}, None, "SOCKS"
    ),
}
ACCEPTED = {
    ".env fills in what is empty": Case(BLANK, FULL_FILE, "from-file"),
    ".env fills in what is unset": Case({}, FULL_FILE, "from-file"),
    "the environment wins": Case(MODEL, FULL_FILE, "from-environment"),
    "an undecodable .env is not needed": Case(
        {**KEY, **MODEL}, UNDECODABLE, "from-environment"
    ),
    "a token instead of a key": Case(
        {**MODEL, "ANTHROPIC_AUTH_TOKEN": "token"}, None, "from-environment"
    ),
}
LINES = b"bash echo piped-$((40+2))\nbash rm kept"
PIPED = {
    "lines from a pipe": b"\n  \n" + LINES + b"\nn\nq\nnot read\n",
    "no last line end": LINES + b"\nn\nEXIT",
    "end of input": LINES,
    "bytes that are no text": b"\xff\xfe\n" + LINES,
}
every_stage = pytest.mark.parametrize("stage", stages())


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """{(case, stage): (exit code, stdout, stderr, path of .env)} of all cases."""
    folder = tmp_path_factory.mktemp("starting")
    jobs, names, env_files = [], [], []

    def add(name, env, env_file, typed=b"", keep=()):
        root = copy_stages(folder / f"tree {name}", env_file)
        for stage in stages():
            cwd = folder / f"{stage} {name}"
            cwd.mkdir()
            for kept in keep:
                (cwd / kept).touch()
            script = root / stage / "code.py"
            env = {"PATH": os.environ["PATH"], "HOME": str(cwd), **env}
            jobs.append({"script": script, "env": env, "cwd": cwd, "typed": typed})
            names.append((name, stage))
            env_files.append(root / ".env")

    for name, case in {**REFUSED, **ACCEPTED}.items():
        add(name, case.env, case.env_file)
    with server.start() as practice:
        asks = {**KEY, "MODEL_ID": "practice", "ANTHROPIC_BASE_URL": practice.url}
        for name, typed in PIPED.items():
            add(name, {**asks, "NO_PROXY": "127.0.0.1"}, None, typed, keep=["kept"])
        ended = run_many(jobs, folder / "jobs")
    return {
        name: (code, out.decode(), err.decode(), env_file)
        for name, (code, out, err), env_file in zip(names, ended, env_files)
    }


@every_stage
@pytest.mark.parametrize("name", REFUSED)
def test_without_its_settings_a_stage_says_in_one_line_what_to_do(runs, name, stage):
    code, out, err, env_file = runs[name, stage]
    case = REFUSED[name]
    assert (code, out) == (2, ""), err
    assert err.count("\n") == 1 and err.endswith("\n"), err
    assert case.words in err and case.absent not in err.partition(":")[0], err
    if "proxy" not in name:
        assert str(env_file) in err, "it says which file to fill in"
    assert f"./workshop run {stage[:3]}" in err, "and how to run it without a key"


@every_stage
@pytest.mark.parametrize("name", ACCEPTED)
def test_settings_come_from_the_environment_then_from_env_file(runs, name, stage):
    code, out, err, _ = runs[name, stage]
    assert (code, err) == (0, ""), out
    assert f"{stage[:3]}: {ACCEPTED[name].words} works in " in out


@every_stage
@pytest.mark.parametrize("name", PIPED)
def test_a_stage_works_without_a_terminal(runs, name, stage):
    code, out, err, _ = runs[name, stage]
    prompt = f"{stage[:3]} >> "
    assert (code, err) == (0, ""), out
    assert f"{prompt}bash echo piped-$((40+2))\n" in out, "the line read is echoed"
    assert "bash answered:\n\n    piped-42\n" in out
    assert "\x1b" not in out and "tokens in" not in out, "nothing for terminals only"
    assert "not read" not in out, "nothing is read after q"
    asks = stage[:3] >= "s03"
    assert out.count("Allow? [y/N]") == asks and ("not allowed" in out) == asks, out
