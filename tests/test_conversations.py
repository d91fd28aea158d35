"""Whatever a model, a tool, a hook or Ctrl-C does: the next request is valid.

tests/conversations.py plays many more of these, and shows one of them again.
"""

import io
import itertools
from contextlib import redirect_stdout

from conversations import MODES, play_all
from stage_bench import Interrupts, fresh

from kit.scripted import ScriptedModel, text, thinking, tool_use
from kit.stages import stage_file, stages

SEEDS = range(340)


def mode_of(seed):
    """How the conversation of a seed is interrupted."""
    return MODES[seed // len(stages()) % len(MODES)]


def play(seeds):
    """Plays these conversations; fails with those that went wrong."""
    count, wrong = play_all(seeds)
    told = "\n\n".join(story for _, story in wrong[:3])
    assert not wrong, f"{len(wrong)} of {len(seeds)} went wrong:\n\n{told}"
    return count


def test_random_conversations_send_valid_requests_only():
    seeds = [seed for seed in SEEDS if mode_of(seed) != "by the clock"]
    count = play(seeds)
    assert count["requests"] > 900 and count["interrupts at a bytecode"] > 100, count


def test_ctrl_c_at_any_moment_leaves_a_valid_history():
    seeds = [seed for seed in SEEDS if mode_of(seed) == "by the clock"]
    assert play(seeds)["interrupts by the clock"] > 10


def play_a_turn(stage, file, at):
    """A turn with two calls, interrupted before bytecode number `at`, then one more.

    Gives whether the interrupt came before the first turn was over.
    """
    name = "bash" if stage.STAGE == "s01" else "read_file"
    calls = [tool_use(name, {"path": "a"}), tool_use(name, {"path": "b"})]
    stage.run_bash = lambda **arguments: "hi"
    getattr(stage, "TOOL_HANDLERS", {})["read_file"] = stage.run_bash
    stage.client = model = ScriptedModel([[thinking(), text("I look."), *calls], "ok"])
    messages = [{"role": "user", "content": "first"}]
    ctrl_c = Interrupts("at a bytecode", file, at=at)
    with redirect_stdout(io.StringIO()):
        ctrl_c.during(lambda: stage.agent_loop(messages))
        messages.append({"role": "user", "content": "second"})
        stage.client = ScriptedModel(["ok"])
        stage.agent_loop(messages)
    refused = model.refused + stage.client.refused
    assert not refused, f"interrupted before bytecode {at}: {refused[0]['message']}"
    return ctrl_c.seen


def test_ctrl_c_before_any_bytecode_of_a_turn_leaves_a_valid_history(tmp_path):
    """Each stage is interrupted at every fifth bytecode; none has the same fifth."""
    for first, name in enumerate(stages(), start=1):
        for at in itertools.count(first, len(stages())):
            stage = fresh(name).again(MODEL="m", WORKDIR=tmp_path)
            if not play_a_turn(stage, stage_file(name), at):
                break
        assert at > 300, f"{name}: a turn of {at} bytecodes is no turn"
