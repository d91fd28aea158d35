"""The Messages API's rules as pure functions, with the API's own texts and indices.

`check_request` reads a whole body, `check_history` the messages alone; both give
the first Problem or None. Each rule is one function of `history`, `request`,
`shapes`, `thinking` or `wire`; `rules` holds their order. Texts seen in public
reports are exact; where a docstring says so, the wording approximates.
"""

from kit.protocol.errors import STATUS, Problem, error_body, problem
from kit.protocol.outline import outline, shorten
from kit.protocol.request import prompt_fits
from kit.protocol.rules import check_history, check_request
from kit.protocol.thinking import remember
from kit.protocol.wire import (
    MAX_BODY,
    VERSIONS,
    as_sent,
    body_size,
    check_headers,
    parse_body,
    wire_bytes,
)

__all__ = [
    "MAX_BODY",
    "STATUS",
    "VERSIONS",
    "Problem",
    "as_sent",
    "body_size",
    "check_headers",
    "check_history",
    "check_request",
    "error_body",
    "outline",
    "parse_body",
    "problem",
    "prompt_fits",
    "remember",
    "shorten",
    "wire_bytes",
]
