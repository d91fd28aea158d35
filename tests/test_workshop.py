"""The launcher and `run`, as a learner starts them: real processes in a copy."""

import json
import os
import re
import resource
import shutil
import signal
import sys

import pytest
from learner import read_until

from kit import server
from kit.stages import ROOT, find_stage, load_stage, stages

# The launcher


def test_a_prepared_workshop_starts_within_half_a_second(tree):
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        code, _, err = tree.start("help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert (code, err) == (0, ""), f"help ended with {code} and said {err}"
        # Of the processor: the clock on the wall also counts what else runs here.
        times.append(
            after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        )
    assert min(times) < 0.5, f"three starts took {times} s; 0.5 s is promised"


def test_it_starts_through_a_link_from_a_directory_full_of_misleading_modules(
    tree, tmp_path
):
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    for name in ("json", "random", "kit", "argparse", "socket", "dotenv"):
        (elsewhere / f"{name}.py").write_text("raise SystemExit('the wrong module')")
    (elsewhere / "ws").symlink_to(tree.root / "workshop")
    said, _ = tree.stage_says(
        "run", "s01", "--prompt", "x", cwd=elsewhere, program="./ws"
    )
    assert said["cwd"] == str(tree.root / "practice-workspace")


def test_it_ignores_a_pythonpath_meant_for_another_python(tree, tmp_path):
    (tmp_path / "argparse.py").write_text("raise SystemExit('the wrong module')")
    code, _, err = tree.start("help", env={"PYTHONPATH": str(tmp_path)})
    assert code == 0, err


def test_it_works_without_home_in_a_plain_locale(tree):
    code, out, err = tree.start(env={"LC_ALL": "C", "PYTHONIOENCODING": "ascii"})
    assert (code, err) == (0, "")
    assert "s01_small_one" in out and "Next: ./workshop run s01" in out


# Running a stage


def test_run_says_first_where_it_works_what_answers_and_what_is_logged(tree):
    _, out, _ = tree.start("run", "s01", "--prompt", "x")
    before = out.partition("{")[0]
    for needed in ("s01_small_one", "practice script", "No key, no cost",
                   "Workspace: practice-workspace", "work/logs/s01.jsonl"):
        assert needed in before, f"{needed!r} is not in the introduction:\n{before}"


def test_prompts_are_typed_in_order_one_line_each_and_then_the_input_ends(tree):
    _, read = tree.stage_says(
        "run", "1", "--prompt", "first\r\nline\n\nand é", "--prompt", "", "--prompt=-y"
    )
    assert read == [
        "read 'first line and \\xe9\\n'",
        "read '\\n'",
        "read '-y\\n'",
        "read ''",
    ]


def test_without_prompts_the_stage_reads_what_the_learner_types(tree):
    _, read = tree.stage_says("run", "s01", typed="typed\n")
    assert read == ["read 'typed\\n'", "read ''"]


@pytest.mark.parametrize("typed, code", [("exit 7", 7), ("exit 0", 0), ("die", 137)])
def test_the_exit_code_of_the_stage_is_kept(tree, typed, code):
    ended, _, _ = tree.start("run", "s01", "--prompt", typed)
    assert ended == code, f"the stage was told {typed!r}, run ended with {ended}"


def test_a_stage_may_leave_before_it_has_read_every_prompt(tree):
    many = ["--prompt", "exit 3", *(["--prompt", "x" * 60_000] * 3)]
    code, _, err = tree.start("run", "s01", *many)
    assert (code, err) == (3, "")


ACCOUNT = {
    "ANTHROPIC_API_KEY": "sk-real",
    "ANTHROPIC_AUTH_TOKEN": "token-real",
    "ANTHROPIC_BASE_URL": "http://192.0.2.1",
    "ANTHROPIC_CUSTOM_HEADERS": "x-secret: header-real",
    "MODEL_ID": "model-real",
}


@pytest.mark.parametrize("in_environment", ["all", "none", "empty"])
def test_practice_shows_nothing_of_the_account_to_the_stage(tree, in_environment):
    lines = [f"{name}={value}\n" for name, value in ACCOUNT.items()]
    (tree.root / ".env").write_text("".join(lines))
    empty = dict.fromkeys(ACCOUNT, "")
    given = {"all": ACCOUNT, "none": {}, "empty": empty}[in_environment]
    said, _ = tree.stage_says("run", "s01", "--prompt", "x", env=given)
    env = said["env"]
    assert "real" not in json.dumps(env), f"of the account the stage saw: {env}"
    assert env["ANTHROPIC_BASE_URL"].startswith("http://127.0.0.1:")
    assert env["ANTHROPIC_API_KEY"] == env["MODEL_ID"] == "practice"
    assert not env.get("ANTHROPIC_AUTH_TOKEN")


def test_loopback_is_added_to_what_no_proxy_excludes_already(tree):
    given = {"HTTP_PROXY": "http://192.0.2.1:3128", "NO_PROXY": "example.org"}
    said, _ = tree.stage_says("run", "s01", "--prompt", "x", env=given)
    for name in ("NO_PROXY", "no_proxy"):
        assert said["env"][name] == "example.org,127.0.0.1,localhost"


def test_a_proxy_the_sdk_cannot_use_is_kept_from_the_stage(tree):
    given = {"ALL_PROXY": "socks5h://192.0.2.1:1080", "https_proxy": "192.0.2.1:3128"}
    said, _ = tree.stage_says("run", "s01", "--prompt", "x", env=given)
    assert "ALL_PROXY" not in said["env"]
    assert said["env"]["https_proxy"] == "192.0.2.1:3128"


def test_ctrl_c_reaches_the_stage_and_the_run_goes_on(tree):
    child = tree.popen("run", "s01", start_new_session=True)
    read_until(child.stdout, "{")
    for _ in range(2):
        os.killpg(child.pid, signal.SIGINT)
        read_until(child.stdout, "interrupted")
    out, err = child.communicate("exit 5\n", timeout=60)
    assert (child.returncode, err) == (5, ""), f"after Ctrl-C twice: {out}{err}"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_ending_the_run_ends_the_stage(tree, number):
    child = tree.popen("run", "s01")
    read_until(child.stdout, "{")
    child.send_signal(number)
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 128 + number, f"ended with {child.returncode}: {out}"


def test_killing_the_run_does_not_leave_a_stage_with_prompts_behind(tree):
    child = tree.popen("run", "s01", "--prompt", "x")
    read_until(child.stdout, "{")
    child.kill()
    child.communicate(timeout=60)  # ends when the stage closes its end as well


def test_the_real_first_stage_runs_against_the_practice_model(tree):
    shutil.rmtree(tree.root / "s01_small_one")
    shutil.copytree(ROOT / "s01_agent_loop", tree.root / "s01_agent_loop")
    words = ["run", "s01", "--prompt", "create hello.py, run it"]
    code, out, err = tree.start(*words, env={"ALL_PROXY": "socks5://192.0.2.1:1"})
    assert code == 0, f"exit {code}\n{out}\n{err}"
    assert (tree.root / "practice-workspace" / "hello.py").is_file(), out
    assert "Hello Agent" in out


def test_a_stage_name_is_found_by_any_part_that_names_it():
    for name in stages():
        number, _, title = name.partition("_")
        for word in (name, number, number[1:], number[2:], title, f"{name}/",
                     f"{name}/code.py", number.upper(), title.replace("_", "-")):
            assert find_stage(word) == name, f"{word!r} should mean {name}"


def test_loading_a_stage_twice_sees_what_changed_in_between(tmp_path):
    path = tmp_path / "s01_mine" / "code.py"
    path.parent.mkdir()
    seen = []
    for value in (1, 2):
        path.write_text(f"value = {value}\n")
        module = load_stage(path)
        seen.append((module.__name__, module.value))
    assert seen == [("s01_mine", 1), ("s01_mine", 2)]
    assert not list(tmp_path.rglob("*.pyc")) and "s01_mine" not in sys.modules


# With a key


@pytest.mark.parametrize(
    "given, missing",
    [
        ({}, "ANTHROPIC_API_KEY"),
        ({"ANTHROPIC_API_KEY": " ", "MODEL_ID": "m"}, "ANTHROPIC_API_KEY"),
        ({"ANTHROPIC_AUTH_TOKEN": "sk-real"}, "MODEL_ID"),
    ],
)
def test_live_says_in_one_line_what_is_missing(tree, given, missing):
    for words in (["run", "s01", "--live", "--prompt", "x"], ["serve", "--live"]):
        code, out, err = tree.start(*words, env=given)
        assert (code, out) == (2, ""), f"{words} with {given}: {code}, {out}"
        assert missing in err and ".env" in err and err.count("\n") == 1, err


def test_live_passes_the_learners_settings_on_by_way_of_the_log(tree):
    (tree.root / ".env").write_text(
        "ANTHROPIC_API_KEY=sk-real\nMODEL_ID=m1\nANTHROPIC_BASE_URL=http://u:pw@192.0.2.1\n"
    )
    given = {"MODEL_ID": "", "ANTHROPIC_AUTH_TOKEN": ""}
    words = ["run", "s01", "--live", "--prompt", "x"]
    said, _ = tree.stage_says(*words, env=given)
    assert said["env"]["ANTHROPIC_API_KEY"] == "sk-real"
    assert said["env"]["ANTHROPIC_BASE_URL"].startswith("http://127.0.0.1:")
    _, out, _ = tree.start(*words, env=given)
    assert "m1 at http://192.0.2.1" in out and "billed" in out
    assert not {"sk-real", "pw"} & set(re.findall(r"[\w-]+", out.partition("{")[0]))


def test_live_talks_to_the_address_given_and_logs_no_key(tree):
    shutil.rmtree(tree.root / "s01_small_one")
    shutil.copytree(ROOT / "s01_agent_loop", tree.root / "s01_agent_loop")
    real = server.start()
    try:
        given = {"ANTHROPIC_BASE_URL": real.url, "MODEL_ID": "practice"}
        given["ANTHROPIC_API_KEY"] = "sk-real-key"
        code, out, err = tree.start(
            "run", "s01", "--live", "--prompt", "list the files", env=given
        )
    finally:
        real.close()
    assert code == 0 and "ls -la" in out, f"exit {code}\n{out}\n{err}"
    log = (tree.root / "work" / "logs" / "s01.jsonl").read_text()
    assert '"status":200' in log.replace(" ", ""), log[:300]
    assert "sk-real-key" not in log
