"""Every stage as its learner has it: a process on a terminal, a server to ask."""

import os
import re
import signal
import time

from desks import (  # three of them are fixtures  # noqa: F401
    ASKING,
    command_that_waits,
    copies,
    desks,
    expect_from,
    fleet,
    play_at,
)
from terminal import BACKSPACE, COLOUR, CTRL_C, CTRL_D, CTRL_U

from kit import server

STATUS = re.compile(
    r"turn (\d): waiting for the model *turn \1: [\d,]+ tokens in "
    r"\([\d,]+ cached\), [\d,]+ out, (\w+)"
)


@play_at("desks")
def test_a_request_runs_a_tool_and_the_answer_comes(desk):
    shown = desk.say("bash echo tool-$((40+2))")
    assert "> bash {'command': 'echo tool-$((40+2))'}" in shown
    assert re.search(r"bash answered:\s+tool-42", shown), shown


@play_at("desks")
def test_each_model_call_leaves_a_dim_line_with_its_figures(desk):
    began = len(desk.terminal.raw)
    shown = desk.say("bash true")
    assert STATUS.findall(shown) == [("1", "tool_use"), ("2", "end_turn")], shown
    dim = re.findall(r"\x1b\[2mturn \d: [^\x1b]*\x1b\[0m", desk.terminal.raw[began:])
    assert len(dim) == 4, "waiting and done, for two calls, each dim and then reset"


@play_at("desks")
def test_a_line_longer_than_the_terminal_is_edited_where_the_cursor_is(desk):
    """A prompt whose length readline gets wrong shows up once the line wraps."""
    start = desk.terminal.raw.rindex("\n") + 1
    width = len(desk.prompt)

    def expect(line):
        place = divmod(width + len(line), 80)
        whole = desk.prompt + line
        rows = [whole[at : at + 80].rstrip() for at in range(0, len(whole), 80)]

        def is_shown():
            drawn, cursor = desk.terminal.screen(start)
            return drawn[:6] == (rows + [""] * 6)[:6] and cursor == place

        desk.terminal.wait_until(is_shown, f"{rows} with the cursor at {place}", 3)

    line = "".join(f"{number:4}" for number in range(50))
    desk.type(line)
    expect(line)
    desk.type(BACKSPACE * 60)
    expect(line[:-60])
    desk.type(BACKSPACE * 120 + "the end")
    expect(line[:20] + "the end")
    desk.type(CTRL_U)
    expect("")


@play_at("desks")
def test_an_empty_line_asks_again_and_sends_nothing(desk):
    desk.say("bash true")
    before = len(desk.exchanges())
    for line in ("", "   ", ""):
        desk.say(line)
    assert len(desk.exchanges()) == before


@play_at("desks")
def test_what_is_typed_in_another_script_reaches_the_model(desk):
    desk.say("你好")
    assert "你好" in str(desk.last_sent())


@play_at("desks")
def test_ctrl_c_clears_a_half_typed_line(desk):
    desk.type("bash touch half-typed")
    desk.wait_for("half-typed")
    desk.terminal.interrupt_input()
    desk.wait_for(desk.prompt)
    assert "after" in desk.say("bash echo after")
    assert not (desk.folder / "half-typed").exists()


@play_at("desks")
def test_ctrl_c_in_a_model_call_gives_the_prompt_and_keeps_the_words(desk):
    desk.asked.clear(), desk.go_on.clear()
    typed = time.monotonic()
    desk.type(f"hold {desk.name}\r")
    desk.wait_for("waiting for the model")
    waited = time.monotonic() - typed
    assert waited < 1, f"something should show within a second; it took {waited:.1f} s"
    assert desk.asked.wait(5)
    desk.type(CTRL_C)
    assert "[interrupted: " in desk.wait_for(desk.prompt, within=2)
    assert re.search(r"answered:\s+next", desk.say("bash echo next"))
    desk.go_on.set()
    sent = str([exchange["request"]["messages"] for exchange in desk.exchanges()])
    assert f"hold {desk.name}" in sent and desk.last_sent()


@play_at("desks")
def test_ctrl_c_in_a_tool_ends_the_command_and_gives_the_prompt(desk):
    with command_that_waits(desk) as alive:
        desk.type(CTRL_C)
        assert "[interrupted: " in desk.wait_for(desk.prompt, within=2)
        expect_from(alive, b"", "nobody holds the pipe: the command is dead")
        assert not (desk.folder / "late").exists()
    assert re.search(r"answered:\s+next", desk.say("bash echo next"))
    sent = desk.exchanges()[-2]["request"]["messages"][-1]["content"]
    assert sent[0]["content"].startswith("Interrupted"), sent
    assert sent[1]["text"].startswith("bash echo next"), sent


@play_at("desks")
def test_a_tool_that_reads_its_input_leaves_the_next_line_alone(desk):
    desk.type("bash cat\rbash echo next-$((40+2))\r")
    assert "(no output)" in desk.wait_for(desk.prompt)
    assert re.search(r"answered:\s+next-42", desk.wait_for(desk.prompt))


@play_at("desks")
def test_without_a_server_one_line_says_so_and_the_next_line_works(desk):
    port = int(desk.server.url.rpartition(":")[2])
    desk.server.close()
    shown = desk.say("hello")
    said = [line for line in shown.splitlines() if "ANTHROPIC_BASE_URL" in line]
    assert len(said) == 1 and "Connection error" in said[0], shown
    desk.server = server.start(port=port, log=desk.log)
    assert re.search(r"answered:\s+back", desk.say("bash echo back"))


@play_at("desks", on=ASKING)
def test_a_yes_lets_the_call_run(desk):
    (desk.folder / "old").touch()
    desk.type("bash rm old\r")
    desk.wait_for("Allow? [y/N] ")
    assert "(no output)" in desk.say("y")
    assert not (desk.folder / "old").exists()


@play_at("desks", on=ASKING)
def test_any_other_answer_denies_and_the_session_goes_on(desk):
    (desk.folder / "kept").touch()
    for answer in ("n\r", "\r", "yes!\r", CTRL_D, CTRL_C, f"y{CTRL_C}"):
        desk.type("bash rm kept\r")
        desk.wait_for("Allow? [y/N] ")
        if answer.endswith(CTRL_C):
            desk.type(answer[:-1])
            desk.wait_for(answer[:-1])
            desk.terminal.interrupt_input()
        else:
            desk.type(answer)
        shown = desk.wait_for(desk.prompt)
        assert "Permission denied." in shown and "not allowed" in shown, shown
        assert (desk.folder / "kept").exists(), f"{answer!r} is not a yes"
    assert re.search(r"answered:\s+next", desk.say("bash echo next"))


@play_at("copies")
def test_a_breakpoint_in_a_tool_opens_the_debugger(desk):
    """The debugger imports the standard module that a stage's file name hides."""
    desk.type("bash echo tool-$((40+2))\r")
    desk.wait_for("(Pdb) ")
    desk.type("p command\r")
    assert "'echo tool-$((40+2))'" in desk.wait_for("(Pdb) ")
    desk.type("interact\r")
    desk.wait_for(">>> ")
    desk.type("command.upper()\r")
    assert "'ECHO TOOL-$((40+2))'" in desk.wait_for(">>> ")
    desk.type(CTRL_D)
    desk.wait_for("(Pdb) ")
    desk.type("c\r")
    assert re.search(r"answered:\s+tool-42", desk.wait_for(desk.prompt))


@play_at("copies")
def test_an_ascii_terminal_shows_what_it_can(desk):
    assert "?" in desk.say("你好")
    desk.type("bash printf 'caf\\303\\251'\r")
    desk.wait_for("(Pdb) ")
    desk.type("c\r")
    assert re.search(r"answered:\s+caf\?", desk.wait_for(desk.prompt))


@play_at("copies")
def test_without_colour_the_same_lines_are_plain(desk):
    desk.type("bash true\r")
    shown = desk.wait_for("(Pdb) ")
    desk.type("c\r")
    desk.wait_for(desk.prompt)
    assert STATUS.search(shown)
    assert not COLOUR.search(desk.terminal.raw), ascii(desk.terminal.raw)


@play_at("copies")
def test_ctrl_d_leaves(desk):
    desk.type(CTRL_D)
    assert desk.terminal.exit_code() == 0


@play_at("desks")
def test_a_second_ctrl_c_while_the_first_is_handled_gives_the_prompt(desk):
    """With the output stopped, the stage is still saying that it was interrupted."""
    with command_that_waits(desk) as alive, desk.terminal.output_stopped():
        os.kill(desk.terminal.process.pid, signal.SIGINT)
        expect_from(alive, b"", "nobody holds the pipe: the command is dead")
        os.kill(desk.terminal.process.pid, signal.SIGINT)
    desk.wait_for(desk.prompt)
    assert re.search(r"answered:\s+next", desk.say("bash echo next"))


@play_at("desks")
def test_ctrl_c_at_an_empty_prompt_leaves(desk):
    desk.terminal.interrupt_input()
    assert desk.terminal.exit_code() == 0
