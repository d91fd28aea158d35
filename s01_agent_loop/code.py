"""s01: a loop and one tool make an agent.

The model decides, Python executes: the loop sends the history to the model, runs the
commands it asks for, sends the results back, and ends when it asks for no more.

Adds: the agent loop, the bash tool, a prompt to type at.
Leaves out: file tools, permission, hooks, a plan. bash reaches the whole machine.
Run: ./workshop run s01 (no key), or python s01_agent_loop/code.py (key in .env)
"""

import codecs
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

HERE = Path(__file__).resolve().parent
STAGE = HERE.name[:3]
# This file hides the standard module `code`, which the debugger imports.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != HERE]
try:
    import readline
except ImportError:  # not every Python is built with it
    readline = None
try:
    from anthropic import Anthropic
    from dotenv import load_dotenv
except ImportError as error:
    print(f"{error}: ./workshop run {STAGE} installs what is missing", file=sys.stderr)
    sys.exit(2)

ROOT = next((d for d in HERE.parents if (d / "README.md").exists()), HERE.parent)
ENV_FILE = ROOT / ".env"


def drop_empty_settings():
    """Makes an empty variable count as unset."""
    for name, value in list(os.environ.items()):
        if name.startswith(("ANTHROPIC_", "MODEL_ID")) and not value.strip():
            del os.environ[name]


drop_empty_settings()
with suppress(OSError, ValueError):  # what a bad .env leaves unset, main() names
    load_dotenv(ENV_FILE)
drop_empty_settings()
try:
    WORKDIR, client, setup_error = Path.cwd(), Anthropic(), None
except Exception as error:  # a folder that is gone, a proxy that the SDK cannot use
    WORKDIR, client, setup_error = Path("."), None, error

MODEL = os.getenv("MODEL_ID", "")
SYSTEM = f"You are a coding agent at {WORKDIR}. Act with your tools, then report."
MAX_TOKENS = 8000
MAX_TURNS = 50
BASH_TIMEOUT = 120  # seconds
OUTPUT_LIMIT = 50_000  # characters
# A demonstration, not a boundary: the same command in another spelling passes.
DANGEROUS = [r"rm -rf /(\s|$)", r"(sudo|shutdown|reboot)(\s|$)", r"[^'\"]*> ?/dev/sd"]
SECRETS = ("API_KEY", "AUTH_TOKEN", "CUSTOM_HEADERS")
NOT_RUN = "Not run: the turn ended before this call."
INTERRUPTED = "Interrupted: this call may have partly run."
UNSENDABLE = (400, 413, "UnicodeEncodeError")
TAKEN_BACK = ("refusal", "model_context_window_exceeded", *UNSENDABLE)
STOP_NOTES = {
    "end_turn": "the reply was empty, or held calls that were not run",
    "tool_use": "the reply held no tool call",
    "max_tokens": "the reply was cut off; type 'go on' for the rest",
    401: f"check ANTHROPIC_API_KEY in {ENV_FILE}",
    403: "this key may not do that; check its account",
    404: f"check MODEL_ID and ANTHROPIC_BASE_URL in {ENV_FILE}",
    429: "too many requests; wait a minute, then type 'go on'",
    529: "the API is overloaded; wait a minute, then type 'go on'",
    "APIConnectionError": "check the network and ANTHROPIC_BASE_URL, then type 'go on'",
}


def clip(text, limit, missing=0):
    """The text, or its head and tail around a line that says how much is missing."""
    half = limit // 2
    missing += max(0, len(text) - 2 * half)
    if not missing:
        return text
    tail = text[len(text) - half :]
    return f"{text[:half]}\n[... {missing:,} characters left out ...]\n{tail}"


def kill_group(process):
    """Ends the shell and everything it started."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def read_output(process):
    """What is printed until the shell ends or time is up, clipped as it comes in."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    text, missing, half = "", 0, OUTPUT_LIMIT // 2
    deadline = time.monotonic() + BASH_TIMEOUT
    while (left := deadline - time.monotonic()) > 0:
        ended = process.poll() is not None
        if ended:  # a background child may hold the pipe open, or go on printing
            kill_group(process)
            deadline = min(deadline, time.monotonic() + 0.2)
        wait = 0 if ended else min(left, 0.05)
        ready = select.select([process.stdout], [], [], wait)[0]
        chunk = os.read(process.stdout.fileno(), 65536) if ready else b""
        text += decode(chunk)
        if len(text) > 2 * OUTPUT_LIMIT:
            missing += len(text) - 2 * half
            text = text[:half] + text[len(text) - half :]
        if ended and not chunk:
            break
        if ready and not chunk:  # output is closed, the shell not yet gone
            time.sleep(0.0001)
    return clip(text, OUTPUT_LIMIT, missing).rstrip()


def run_bash(command):
    """What the command printed, in order, and its exit code when that is not 0."""
    if not isinstance(command, str):
        return "Error: command must be a string"
    if any(re.match(pattern, command) for pattern in DANGEROUS):
        return "Error: Dangerous command blocked"
    env = {k: v for k, v in os.environ.items() if not k.endswith(SECRETS)}
    try:
        with subprocess.Popen(
            ["bash", "-c", command], cwd=WORKDIR, env=env, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:
            try:
                output = read_output(process)
                timed_out = process.poll() is None
            finally:
                kill_group(process)
    except (OSError, ValueError) as error:
        return f"Error: {error}"
    if timed_out:
        return f"Error: Timeout ({BASH_TIMEOUT}s)\n{output}".rstrip()
    code = process.returncode
    exit_line = f"\n[exit code {code if code > 0 else 128 - code}]" if code else ""
    return (output or "(no output)") + exit_line


TOOLS = [
    {"name": "bash",
     "description": "Run a command in bash, in the workspace, with empty input. "
     "What it prints comes back in order; what it leaves in the background is ended.",
     "input_schema": {"type": "object", "required": ["command"], "properties": {
         "command": {"type": "string"}}}},
]


def clean(value):
    """Text or JSON data with question marks for what UTF-8 cannot hold."""
    text = json.dumps(value, ensure_ascii=False)
    return json.loads(text.encode("utf-8", "replace"))


def show(text, style="", end="\n"):
    """Prints with control characters made visible, styled where the terminal can."""
    shown = (c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)
    text = "".join(shown)
    if style and sys.stdout.isatty() and not os.getenv("NO_COLOR"):
        text = f"\033[{style}m{text}\033[0m"
    print(text, end=end, flush=True)


def show_status(turn, text, end="\n"):
    """Leaves a dim line on a terminal, nothing elsewhere."""
    if sys.stdout.isatty():
        show(f"turn {turn}: {text}".ljust(40), "2", end)


def as_blocks(content):
    """A message's content as a list of blocks."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def join_users(messages):
    """Makes one message of user messages at the end, so that the roles alternate."""
    while [message["role"] for message in messages[-2:]] == ["user", "user"]:
        first, second = (as_blocks(message["content"]) for message in messages[-2:])
        messages[-2:] = [{"role": "user", "content": first + second}]


def call_model(messages, turn):
    """The model's reply; a failed call is an empty reply whose stop_reason says why."""
    join_users(messages)
    show_status(turn, "waiting for the model", end="\r")
    try:
        reply = client.messages.create(
            model=MODEL, system=SYSTEM, messages=messages, tools=TOOLS,
            max_tokens=MAX_TOKENS, cache_control={"type": "ephemeral"})
    except Exception as error:
        reason = getattr(error, "status_code", type(error).__name__)
        detail = getattr(error, "api_message", None) or error
        return SimpleNamespace(content=[], stop_reason=reason, detail=detail)
    new, stored, cached, out = (
        getattr(getattr(reply, "usage", None), f"{kind}_tokens", None) or 0
        for kind in ("input", "cache_creation_input", "cache_read_input", "output"))
    show_status(turn, f"{new + stored + cached:,} tokens in ({cached:,} cached), "
                f"{out:,} out, {reply.stop_reason}")
    reply.content = reply.content or []  # some services send null for an empty reply
    return reply


def mend(block):
    """The block, or a plain copy where half a character or its input cannot be sent."""
    if block.type == "text" and clean(block.text) != block.text:
        return {"type": "text", "text": clean(block.text)}
    data = clean(block.input) if block.type == "tool_use" else None
    if block.type != "tool_use" or isinstance(data, dict) and data == block.input:
        return block
    data = data if isinstance(data, dict) else {}
    return {"type": "tool_use", "id": block.id, "name": block.name, "input": data}


def sendable(content):
    """The blocks to send back: as they came, but for those the API would refuse."""
    blocks = [b for b in content if b.type != "text" or (b.text or "").strip()]
    blocks.sort(key=lambda block: block.type == "tool_use")  # nothing may follow a call
    return [mend(block) for block in blocks]


def add_reply(messages, content):
    """The calls of a reply and their results, in the history and still to be filled."""
    # Answered before they run: the history is valid whenever the turn ends.
    calls = [block for block in content if block.type == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": NOT_RUN}
               for call in calls]
    sides = (("assistant", sendable(content)), ("user", results))
    messages += [{"role": role, "content": blocks} for role, blocks in sides if blocks]
    return calls, results


def run_tool(call):
    """The call's output as text that is never empty; a failure starts with Error."""
    try:
        if call.name != "bash":
            return f"Unknown: {call.name}. The tools are: bash"
        output = run_bash(**call.input)
    except Exception as error:
        output = f"Error: {type(error).__name__}: {error}"
    if output is None:
        output = "Error: the tool gave no result"
    return clean(str(output)) or "(no output)"


def preview(output):
    """A few lines of a result for the eye; the model gets all of it."""
    lines = clip(output, 1000).splitlines()
    if len(lines) > 9:
        lines[5:-3] = [f"[... {len(lines) - 8} lines not shown ...]"]
    return "\n".join(lines)


def run_calls(calls, results):
    """Runs the calls in order and puts each output into its result."""
    for call, result in zip(calls, results):
        show(clip(f"> {call.name} {call.input}", 400), "33")
        result["content"] = INTERRUPTED
        result["content"] = run_tool(call)
        show(preview(result["content"]), "2")


def say_stop(reply):
    """Names every stop but a plain end_turn, and what to do next."""
    reason, detail = reply.stop_reason, str(getattr(reply, "detail", ""))[:200]
    called = any(block.type == "tool_use" for block in reply.content)
    if reason == "end_turn" and sendable(reply.content) and not called:
        return
    note = STOP_NOTES.get(reason, "type 'go on' to continue")
    if reason in TAKEN_BACK:
        note = "that request was taken out of the history; type another"
    show(f"[stopped: {' '.join(f'{reason} {detail}'.split())}; {note}]", "33")


def agent_loop(messages):
    """Lets the model act on the last user message until it asks for no more tools."""
    before = messages[:-1]
    try:
        for turn in range(1, MAX_TURNS + 1):
            reply = call_model(messages, turn)
            for block in reply.content:
                if block.type == "text" and (block.text or "").strip():
                    show(block.text)
            calls, results = add_reply(messages, reply.content)
            if reply.stop_reason != "tool_use" or not calls:
                say_stop(reply)
                if reply.stop_reason in TAKEN_BACK:
                    messages[:] = before
                return
            run_calls(calls, results)
        show(f"[stopped: {MAX_TURNS} turns and not done; type 'go on' for more]", "33")
    except KeyboardInterrupt:
        show("\n[interrupted: finished results are kept; type what to do next]", "33")
    finally:
        join_users(messages)


def read_line():
    """The next line typed, q at the end of input; Ctrl-C clears a half-typed line."""
    while True:
        try:
            line = input(f"{STAGE} >> ").strip()
            if not sys.stdin.isatty():
                show(line)
            return line
        except (EOFError, RuntimeError):  # no more input, or none from the start
            print()
            return "q"
        except KeyboardInterrupt:
            print()
            if not (readline and readline.get_line_buffer()):
                return "q"


def check_setup():
    """Leaves with one line that says what to do when the model cannot be called."""
    keys = ("api_key", "auth_token", "custom_auth")
    no_key = all(getattr(client, name, "") is None for name in keys)
    missing = ["ANTHROPIC_API_KEY"] * no_key + ["MODEL_ID"] * (not MODEL)
    problem = f"{' and '.join(missing)} not set: fill in {ENV_FILE} (from .env.example)"
    if setup_error:
        problem = f"{setup_error}: check the folder, the proxy and ANTHROPIC_BASE_URL"
    if setup_error or missing:
        without = f"run without a key: ./workshop run {STAGE}"
        print(f"{problem}, or {without}", file=sys.stderr, flush=True)
        # A client that is half built complains at a normal exit.
        os._exit(2) if setup_error else sys.exit(2)


def main():
    """Reads requests and hands each to the loop, until q, exit or the end of input."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        with suppress(AttributeError):  # a stand-in stream may have no encoding
            stream.reconfigure(errors="replace")
    check_setup()
    show(f"{STAGE}: {MODEL} works in {WORKDIR}. Type a request, or q to leave.")
    messages = []
    while (line := read_line()).lower() not in ("q", "exit"):
        with suppress(KeyboardInterrupt):  # a second one while handling it
            if line:
                messages.append({"role": "user", "content": line})
                agent_loop(messages)


if __name__ == "__main__":
    try:
        main()
    except (KeyboardInterrupt, BrokenPipeError):  # nobody is left to print to
        os._exit(130)
