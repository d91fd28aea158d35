"""The practice model: answers a Messages API body from scripts, without a model.

``reply_to`` is a pure function of the body, so a client that retries gets the same
answer again. It plays a script chosen by the words the learner typed last and by
the tools in the request, calls a tool the learner names, or else says what it is.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from kit import direct
from kit.conversation import (
    Message,
    Round,
    count_turns,
    messages_of,
    prompts,
    rounds_after,
)
from kit.introduction import introduce, listing
from kit.scripting import (
    Scene,
    Step,
    block,
    choose,
    fill,
    play,
    values_of,
)

MODELS = ["practice", "claude-haiku-5-5"]

BYTES_PER_TOKEN = 4
Json = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """The part of a body that decides the reply; ``rounds`` follow the ``words``."""

    tools: list[Json]
    words: str
    context: str
    rounds: list[Round]
    resumed_at: int  # rounds before a "go on"; -1 when nothing is resumed
    tried_before: bool  # this very request was sent once and got no answer

    def has(self, name: str) -> bool:
        """Whether the request offers the tool."""
        return self.tool_name(name) is not None

    def tool_name(self, name: str) -> str | None:
        """The request's own spelling of a tool the scripts call ``name``."""
        tool = direct.find_tool(self.tools, name) or next(
            (t for t in self.tools if str(t.get("name")).lower() == name), None
        )
        return str(tool["name"]) if tool else None


def reply_to(body: Json) -> Json:
    """The reply to a request body (which ``kit.protocol`` has found valid).

    Returns:
        ``{"content": [blocks], "stop_reason": str}``, with ``"stop_details"`` for a
        refusal, ``"stop_sequence"`` when one ended it, and ``"fail": {"status",
        "times", "retry_after"?, "after_events"?}`` when the server should first
        answer that error so many times. The same body always gives the same reply.
    """
    messages = messages_of(body)
    request = _read(body, messages)
    step = _direct_step(request) or _script_step(request)
    reply = _assemble(step, request, messages)
    return _cut(reply, body.get("stop_sequences"), body.get("max_tokens"))


def _read(body: Json, messages: list[Message]) -> Request:
    """Find the last words typed, and the words before them that they resume."""
    tools = body.get("tools") if isinstance(body.get("tools"), list) else []
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "none":
        tools = []
    tools = [tool for tool in tools or [] if isinstance(tool, dict)]
    found = prompts(messages)
    at, words, context = last = next(found, (-1, "", ""))
    while words and _resumes(words, tools):
        at, words, context = next(found, (-1, "", ""))
    resumed = (at, words) != last[:2]
    if not words:  # there was nothing to go on with
        at, words, context = last
        resumed = False
    rounds = rounds_after(messages, at)
    resumed_at = count_turns(messages, at, last[0]) if resumed else -1
    before, same, _ = next(found, (-1, "", "")) if not rounds else (-1, "", "")
    repeated = same == words and not count_turns(messages, before, at)
    return Request(
        tools=tools,
        words=words,
        context=context,
        rounds=rounds,
        resumed_at=resumed_at,
        tried_before=resumed_at == len(rounds) or repeated,
    )


def _resumes(words: str, tools: list[Json]) -> bool:
    """Whether the words only ask to go on with what came before."""
    if len(words) > 40 or len(words.split()) > 4 or direct.parse(words, tools):
        return False
    script, _ = choose(words, lambda name: True)
    return script is not None and script.name == "go_on"


def _direct_step(request: Request) -> Step | None:
    """The step of a direct command: the call, then an answer that quotes it."""
    command = direct.parse(request.words, request.tools)
    if command is None:
        return None
    tool, rest = command
    name = str(tool["name"])
    if request.rounds:
        return _answer_to(name, request.rounds[-1])
    try:
        values = direct.arguments(tool, rest)
    except direct.Misfit as problem:
        return {"text": direct.explain_misfit(tool, str(problem))}
    return {"text": f"I call {name} as you typed it.", "calls": [[name, values]]}


def _answer_to(name: str, last: Round) -> Step:
    calls = last.calls
    if not calls:
        return {"text": "That command is done. Type the next one."}
    if calls[0].outcome == "denied":
        return {"text": f"{name} was not allowed to run. I do not try it again."}
    verb = "reported a problem" if calls[0].outcome == "error" else "answered"
    return {"text": f"{name} {verb}:\n\n{block(calls[0].result)}"}


def _script_step(request: Request) -> Step:
    """The next step of the script for the words, its texts filled in."""
    script, playable = choose(request.words, request.has)
    if script is None or not playable:
        return {"text": introduce(request.words, request.has, request.tools, script)}
    if script.name == "go_on":
        return {"text": f"There is nothing to go on with.\n\n{_list(request)}"}
    values = values_of(script, request.words) | {"context": request.context}
    scene = Scene(request.has, values, request.rounds, request.resumed_at)
    step = play(script, scene)
    if step is None:
        return {"text": _without_a_step(request)}
    filled: Step = fill(step, scene.values, scene.results)
    say = filled.get("say", "")
    filled["text"] = "\n".join(say) if isinstance(say, list) else say
    if "list" in filled:
        filled["text"] += f"\n\n{_list(request, filled['list'] == 'long')}"
    if request.tried_before:
        filled.pop("fail", None)
    return filled


def _list(request: Request, titles: bool = False) -> str:
    return listing(request.has, request.tools, titles)


def _without_a_step(request: Request) -> str:
    """What a script says when a round ended as it does not expect."""
    calls = request.rounds[-1].calls if request.rounds else []
    for call in calls:
        if call.outcome == "denied":
            return (
                f"{call.name} was not allowed to run, so I stop here. I do not look "
                "for a way\nround it. Type something else, or ask for it again."
            )
    for call in calls:
        if call.outcome == "error":
            return (
                f"{call.name} reported a problem, and my script has no answer to it:"
                f"\n\n{block(call.result)}\n\nI stop here. A model would read this and "
                "try something else."
            )
    return "That script is at its end. Type something else, or: help"


def _assemble(step: Step, request: Request, messages: list[Message]) -> Json:
    """The reply of a step, its ids and signature made from the place it has."""
    place = len(messages)
    content = _blocks(step, request, place, _ids(messages))
    if step.get("thinking"):
        seed = json.dumps([place, content]).encode()
        signature = f"practice{hashlib.sha256(seed).hexdigest()}"
        content.insert(0, {"type": "thinking", "thinking": "", "signature": signature})
    stop = "tool_use" if step.get("calls") else "end_turn"
    reply: Json = {"content": content, "stop_reason": step.get("stop", stop)}
    if "details" in step:
        reply["stop_details"] = step["details"]
    if "fail" in step:
        reply["fail"] = step["fail"]
    return reply


def _blocks(step: Step, request: Request, place: int, taken: set[str]) -> list[Json]:
    """The text of a step, then its calls."""
    content: list[Json] = []
    if step.get("text"):
        content.append({"type": "text", "text": step["text"]})
    for number, (name, values, *_) in enumerate(step.get("calls", ()), start=1):
        use_id = f"toolu_p{place}c{number}"
        while use_id in taken:  # only after a client has shortened its history
            use_id += "x"
        own = request.tool_name(name) or name
        content.append({"type": "tool_use", "id": use_id, "name": own, "input": values})
    if "server_call" in step:
        name, values = step["server_call"]
        call = {"type": "server_tool_use", "id": f"srvtoolu_p{place}"}
        content.append({**call, "name": name, "input": values})
    return content


def _ids(messages: list[Message]) -> set[str]:
    replies = [message.blocks for message in messages if message.role == "assistant"]
    return {str(block.get("id")) for blocks in replies for block in blocks}


def _cut(reply: Json, sequences: Any, max_tokens: Any) -> Json:
    """End a reply at a stop sequence, or where ``max_tokens`` ends, as the API does."""
    marks = sequences if isinstance(sequences, list) else []
    left = max_tokens * BYTES_PER_TOKEN if isinstance(max_tokens, int) else None
    kept: list[Json] = []
    for part in reply["content"]:
        text = part.get("text", "")
        ends = {text.find(mark): mark for mark in marks if mark and mark in text}
        end = min(ends, default=len(text))
        size = end if text else len(json.dumps(part.get("input", "")))
        if left is not None and size > left:
            _keep(kept, text[:left])
            return reply | {"content": kept, "stop_reason": "max_tokens"}
        if ends:
            _keep(kept, text[:end])
            stop = {"stop_reason": "stop_sequence", "stop_sequence": ends[end]}
            return reply | {"content": kept} | stop
        left = None if left is None else left - size
        kept.append(part)
    return reply


def _keep(kept: list[Json], text: str) -> None:
    if text.strip():
        kept.append({"type": "text", "text": text.rstrip()})
