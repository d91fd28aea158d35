"""Replies and histories: as they must come back, and as a person reads them."""

import json

from kit.protocol import outline


def echo(reply):
    """A reply's content as it must come back: what the API would refuse is repaired."""
    content = reply["content"] if isinstance(reply, dict) else None
    kept = [b for b in content or [] if b["type"] != "text" or b["text"].strip()]
    kept.sort(key=lambda block: block["type"] == "tool_use")
    odd = [b for b in kept if not isinstance(b.get("input", {}), dict)]
    kept = [b | {"input": {}} if b in odd else b for b in kept]
    return [whole(b) if b["type"] in ("text", "tool_use") else b for b in kept]


def whole(block):
    """The block with question marks for half characters: no request holds those."""
    text = json.dumps(block, ensure_ascii=False)
    return json.loads(text.encode("utf-8", "replace"))


def blocks(message, kind):
    """The blocks of one type in a message of a request."""
    content = message["content"]
    return [] if isinstance(content, str) else [b for b in content if b["type"] == kind]


def plain(message):
    """A message with blocks that are dicts, also when JSON cannot hold it."""
    content = message["content"]
    if isinstance(content, list):
        content = [plain_block(block) for block in content]
    return {"role": message["role"], "content": content}


def plain_block(block):
    """A block as a dict."""
    return block if isinstance(block, dict) else block.to_dict(mode="python")


def short(reply):
    """A reply in one line."""
    if not isinstance(reply, dict):
        return repr(reply)
    lines = outline([{"role": reply["stop_reason"], "content": reply["content"]}])
    return f"{lines.strip()}, usage {reply.get('usage', 'as usual')}"[:400]
