"""Random conversations with every stage: whatever comes, each request is valid.

    python tests/conversations.py 10000 [--seed N]

plays the conversations of the seeds N, N+1, ... and names each one that breaks a rule;
`1 --seed N` shows that one again. A seed fixes the stage, the replies, the tools, the
hooks, the answers and the interrupts, but for those of a clock (one seed in ten).
"""

import argparse
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from histories import blocks, echo, plain, plain_block, short
from odd_replies import ANSWERS, LINES, Dice
from stage_bench import Interrupts, Screen, fill, fresh

from kit import scripted
from kit.protocol import as_sent, check_history, check_request, outline, remember
from kit.stages import stage_file, stages

SETTINGS = {
    "MAX_TURNS": [1, 2, 4, 8, 8],
    "OUTPUT_LIMIT": [50_000, 200],
    "LARGE_OUTPUT": [20_000, 50],
}
TAKEN_BACK = ("refusal", "model_context_window_exceeded")
MODES = ["as scripted"] * 7 + ["at a bytecode"] * 2 + ["by the clock"]


class Conversation:
    """One conversation with a stage, from its prompt to `q`."""

    def __init__(self, seed, folder):
        self.seed, self.name = seed, stages()[seed % len(stages())]
        self.rng = rng = random.Random(seed)
        mode = MODES[seed // len(stages()) % len(MODES)]
        self.count, self.faults = Counter(), []
        self.settings = {name: rng.choice(values) for name, values in SETTINGS.items()}
        self.stage = stage = fresh(self.name).again(
            MODEL="scripted", WORKDIR=fill(folder), BASH_TIMEOUT=10, **self.settings
        )
        self.interrupts = Interrupts(mode, stage_file(self.name), rng)
        end = rng.choice(["q", "exit", EOFError, KeyboardInterrupt])
        self.lines = [*rng.choices(LINES, k=rng.randint(1, 5)), end]
        self.left = list(self.lines)
        self.dice = Dice(rng, [tool["name"] for tool in stage.TOOLS])
        self.model = scripted.ScriptedModel([self.next_reply] * 100)
        self.issued, self.given, self.entered = {}, [], set()
        self.messages, self.may_run = [], False
        self.set_up(stage)

    def set_up(self, stage):
        """Puts the dice in the place of the model, the person and the tools."""
        messages = SimpleNamespace(create=self.ask_model)
        stage.client = SimpleNamespace(messages=messages)
        stage.input = self.answer_prompt
        real = {"as scripted": 0.1, "at a bytecode": 0, "by the clock": 0.5}
        stage.run_bash = self.dice.bash(stage.run_bash, real[self.interrupts.mode])
        handlers = getattr(stage, "TOOL_HANDLERS", None)
        if handlers:
            handlers["bash"] = stage.run_bash
            for name in handlers:
                if self.dice.chance(0.15):
                    handlers[name] = self.dice.failing_tool()
        elif self.dice.chance(0.15):
            stage.run_bash = self.dice.failing_tool()
        for event, hooks in getattr(stage, "HOOKS", {}).items():
            if self.dice.chance(0.4):
                stage.register_hook(event, self.dice.hook())
            if self.dice.chance(0.1):
                hooks.insert(0, self.dice.hook())
        self.loop, self.run_tool = stage.agent_loop, stage.run_tool
        stage.agent_loop, stage.run_tool = self.user_turn, self.note_tool

    def play(self):
        """Plays it; `faults` then says what went wrong."""
        is_terminal = self.dice.chance(0.5)
        screen, stdin = Screen(is_terminal), sys.stdin
        sys.stdin = SimpleNamespace(isatty=lambda: is_terminal)
        try:
            with redirect_stdout(screen), redirect_stderr(screen):
                self.stage.main()
        except BaseException as error:
            if not self.faults:
                self.fault(f"{type(error).__name__} ended the stage: {error}")
        finally:
            sys.stdin = stdin
        self.count["conversations"] += 1
        self.count["requests"] += len(self.model.requests)
        self.count[f"interrupts {self.interrupts.mode}"] += self.interrupts.seen
        self.count["interrupts past the loop"] += self.interrupts.escaped
        return self

    def fault(self, what):
        """Notes what went wrong, as the history was at that moment."""
        self.faults.append((what, list(self.messages)))

    def answer_prompt(self, prompt):
        """What the person types: the next line, or an answer to a question."""
        if prompt.startswith(self.stage.STAGE):
            answer = self.left.pop(0)
        else:
            answer = self.rng.choice(ANSWERS)
            self.count["questions"] += 1
        if isinstance(answer, str):
            return answer
        raise answer

    def ask_model(self, **request):
        """One call of the API; a request that JSON cannot hold is never sent."""
        try:
            return self.model.messages.create(**request)
        except UnicodeEncodeError:
            self.count["requests that JSON cannot hold"] += 1
            self.given.append(scripted.api_error(400))
            raise
        finally:
            while self.model.refused:
                problem = self.model.refused.pop()
                self.given.append(scripted.api_error(400))
                self.fault(f"a request was refused: {problem['message']}")

    def note_tool(self, call):
        """run_tool, and a note that this call was started."""
        self.entered.add(call.id)
        self.count["calls"] += 1
        if not self.may_run:
            self.fault(f"{call.id} was run, but the reply did not stop for tools")
        result = self.run_tool(call)
        if not isinstance(result, str) or not result:
            self.fault(f"the result of {call.id} is {result!r}")
        return result

    def user_turn(self, messages):
        """agent_loop, and what must be true after it."""
        self.messages, self.requests, self.continues = messages, 0, 0
        self.may_run, before = False, messages[:-1]
        self.count["user turns"] += 1
        try:
            result = self.interrupts.during(lambda: self.loop(messages))
        except BaseException as error:
            self.fault(f"{type(error).__name__} got out of agent_loop: {error}")
            raise
        if result is not None:
            self.fault(f"agent_loop returned {result!r}")
        if self.interrupts.mode == "as scripted":
            self.check_kept(messages, before)
        self.check_end(messages)

    def check_kept(self, messages, before):
        """The roles alternate; the last reply was kept, or taken back with its turn."""
        if "user, user" in ", ".join(message["role"] for message in messages):
            self.fault("the roles do not alternate at the prompt")
        last = self.given[-1]
        stop = last["stop_reason"] if isinstance(last, dict) else None
        if stop in TAKEN_BACK or getattr(last, "status_code", None) in (400, 413):
            if messages != before:
                self.fault("a refused turn was not taken back out of the history")
        elif stop and echo(last):
            kept = [m["content"] for m in messages if m["role"] == "assistant"]
            if not kept or [plain_block(block) for block in kept[-1]] != echo(last):
                self.fault("the last reply is not the last one in the history")

    def check_end(self, messages):
        """One more line makes a valid request, and no started call reads Not run."""
        more = {"role": "user", "content": "one more line"}
        try:
            sent = as_sent([*messages, more])
        except ValueError as error:
            return self.fault(f"the history cannot be sent: {type(error).__name__}")
        found = check_history(sent)
        if found:
            self.fault(f"the history is not valid at the prompt: {found['message']}")
        for block in [b for message in sent for b in blocks(message, "tool_result")]:
            started = block["tool_use_id"] in self.entered
            if started and block["content"].startswith("Not run"):
                self.fault("a call was started, but its result says it was not")

    def next_reply(self, sent):
        """Looks at a request that the API would accept, then draws a reply."""
        self.requests += 1
        if self.requests > self.settings["MAX_TURNS"]:
            self.fault(f"call {self.requests} of one turn: it has a cap")
        if self.requests > 1 and not self.may_run:
            self.continues += 1
            if self.continues > getattr(self.stage, "MAX_CONTINUES", 0):
                self.fault("it went on after a stop that is not tool_use")
        self.check_sent(sent)
        self.may_run = False
        if self.dice.chance(0.08):
            self.given.append(self.dice.error())
            self.count["API errors"] += 1
            return self.given[-1]
        if self.dice.chance(0.03):
            self.count["interrupts as scripted"] += 1
            self.given.append(KeyboardInterrupt())
            return self.given[-1]
        reply = self.dice.reply()
        self.count["replies"] += 1
        self.count[f"stop {reply['stop_reason']}"] += 1
        self.given.append(reply)
        content = reply["content"] or []
        remember(self.issued, content)
        calls = any(block["type"] == "tool_use" for block in content)
        self.may_run = reply["stop_reason"] == "tool_use" and calls
        return reply

    def check_sent(self, sent):
        """Roles alternate, and each reply is there as it came."""
        messages = sent["messages"]
        wanted = ["user", "assistant"] * len(messages)
        if [m["role"] for m in messages] != wanted[: len(messages)]:
            self.fault("the roles of a request do not alternate")
        problem = check_request(sent, issued=self.issued)
        if problem:
            self.fault(problem["message"])
        came = [echo(reply) for reply in self.given]
        for message, after in zip(messages, messages[1:]):
            if message["role"] == "assistant":
                if message["content"] not in came:
                    self.fault(f"no reply was {message['content']}"[:300])
                calls = [block.get("id") for block in message["content"]]
                results = [b["tool_use_id"] for b in blocks(after, "tool_result")]
                if [call for call in calls if call in results] != results:
                    self.fault(f"results out of order: {results}")
        if self.requests > 1 and came[-1] and messages[-2]["content"] != came[-1]:
            self.fault("the last reply was not sent back")

    def describe(self):
        """What happened, for a person."""
        replies = "\n".join(f"  {short(reply)}" for reply in self.given)
        what, messages = self.faults[0]
        return (
            f"{self.name}, seed {self.seed}, interrupts {self.interrupts.mode}:"
            f" {what}\nTyped: {self.lines}\nSettings: {self.settings}\nReplies:\n"
            f"{replies}\nHistory:\n{outline([plain(m) for m in messages])}\n"
            f"Again: python tests/conversations.py 1 --seed {self.seed}\n"
        )


def play_all(seeds):
    """(counts, descriptions of the conversations that went wrong)."""
    count, wrong = Counter(), []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # an interrupt leaves a pipe
        hook, sys.unraisablehook = sys.unraisablehook, lambda unraisable: None
        before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            for seed in seeds:
                talk = Conversation(seed, Path(folder) / "place").play()
                count += talk.count
                wrong += [(talk.faults[0][0], talk.describe())] if talk.faults else []
        finally:
            signal.signal(signal.SIGINT, before[0])
            signal.signal(signal.SIGALRM, before[1])
            sys.unraisablehook = hook
    return count, wrong


def play_in_parallel(seeds, show):
    """play_all on all cores; `show(count, wrong)` is called about once a second."""
    count, wrong = Counter(), []
    size = max(1, min(25, len(seeds) // 8))
    chunks = [seeds[at : at + size] for at in range(0, len(seeds), size)]
    context = multiprocessing.get_context("spawn")
    with context.Pool(min(os.cpu_count() or 1, len(chunks))) as pool:
        results, shown = pool.imap_unordered(play_all, chunks), time.monotonic()
        while True:
            try:
                some, faults = results.next(timeout=1)
                count, wrong = count + some, wrong + faults
            except multiprocessing.TimeoutError:
                pass
            except StopIteration:
                return count, wrong
            if time.monotonic() - shown >= 1:
                show(count, wrong)
                shown = time.monotonic()


def main():
    """Plays as many conversations as the command line says; 1 when one went wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("conversations", type=int)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    wanted = parser.parse_args()
    for name in [n for n in os.environ if n.startswith("ANTHROPIC_")]:
        del os.environ[name]
    began = time.monotonic()

    def show(count, wrong):
        print(
            f"{count['conversations']:,} of {wanted.conversations:,} conversations,"
            f" {count['requests']:,} requests, {len(wrong)} went wrong,"
            f" {time.monotonic() - began:.0f} s",
            flush=True,
        )

    seeds = range(wanted.seed, wanted.seed + wanted.conversations)
    count, wrong = play_in_parallel(seeds, show)
    kinds = Counter(what[:60] for what, _ in wrong)
    for kind, times in kinds.most_common():
        example = next(text for what, text in wrong if what.startswith(kind))
        print(f"\n== {times} times: {kind}\n{example}")
    for name in sorted(count):
        print(f"{count[name]:>9,} {name}")
    show(count, wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
