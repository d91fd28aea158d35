"""The practice server on the wire: framing, limits, and clients that misbehave."""

import http.client
import io
import json
import random
import socket
import statistics
import time
import tracemalloc
from contextlib import contextmanager

import pytest

from kit import httpd, practice, server

BODY = {
    "model": "practice",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "hello"}],
}
RAW = json.dumps(BODY).encode()
HEADERS = {
    "Host": "127.0.0.1",
    "anthropic-version": "2026-10-21",
    "x-api-key": "practice",
}
DONE = {"content": [{"type": "text", "text": "Done."}], "stop_reason": "end_turn"}


@pytest.fixture(scope="module")
def running():
    with server.start() as started:
        yield started


@pytest.fixture(autouse=True)
def short_reply(monkeypatch):
    monkeypatch.setattr(practice, "reply_to", lambda body: DONE)


@pytest.fixture(autouse=True)
def still_fine_and_silent(running, capfd):
    """After whatever a test did, the server answers and has printed nothing."""
    yield
    with Wire(running) as wire:
        assert wire.ask()[0] == 200, "the server no longer answers"
    printed = capfd.readouterr()
    assert printed.out + printed.err == ""


class Incoming(io.BufferedReader):
    """Outlives each answer: what is read too far belongs to the next one."""

    def makefile(self, mode):
        return self

    def close(self):
        pass


class Wire:
    """One connection: bytes out, parsed answers in."""

    def __init__(self, running):
        address = ("127.0.0.1", int(running.url.rpartition(":")[2]))
        self.socket = socket.create_connection(address, timeout=5)
        self.incoming = Incoming(self.socket.makefile("rb", buffering=0))

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.incoming.raw.close()
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def read(self, method="POST"):
        """(status, headers, body) of the next answer."""
        response = http.client.HTTPResponse(self.incoming, method=method)
        response.begin()
        return response.status, response.headers, response.read()

    def ask(self, target="/v1/messages", method="POST", body=RAW, **headers):
        self.send(head(target, method, body, **headers) + body)
        return self.read(method)

    def is_closed(self):
        """Whether the server has ended this connection (after all it sent)."""
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True


def head(target="/v1/messages", method="POST", body=RAW, version="1.1", **headers):
    """Request line and headers; a header set to None is left out."""
    fields = HEADERS | {"Content-Length": len(body)}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    fields = {name.lower(): value for name, value in fields.items()}
    lines = [f"{name}: {value}" for name, value in fields.items() if value is not None]
    start = f"{method} {target} HTTP/{version}"
    return "\r\n".join([start, *lines, "", ""]).encode("latin-1")


def chunked(*pieces, end=b"0\r\n\r\n"):
    return b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in pieces) + end


CHUNKED = {"content_length": None, "transfer_encoding": "chunked"}


@pytest.fixture
def wire(running):
    with Wire(running) as connection:
        yield connection


def error_of(answer):
    """(status, type, message) of an answer, which must have the API's error shape."""
    status, headers, raw = answer
    body = json.loads(raw)
    assert headers["content-type"] == "application/json"
    assert headers["request-id"] == body["request_id"]
    assert headers["x-should-retry"] == ("false" if status == 400 else None)
    assert body.get("type") == (None if status == 413 else "error"), body
    return status, body["error"]["type"], body["error"]["message"]


# Routes


@pytest.mark.parametrize("version", ["2026-10-21", "2023-06-01"])
@pytest.mark.parametrize(
    "credential",
    [{"x_api_key": "k"}, {"x_api_key": None, "authorization": "Bearer k"}],
    ids=["key", "bearer"],
)
def test_both_versions_and_both_credentials_are_accepted(wire, version, credential):
    status, headers, raw = wire.ask(anthropic_version=version, **credential)
    assert (status, json.loads(raw)["content"]) == (200, DONE["content"])
    assert headers["request-id"].startswith("req_")


def test_a_path_is_matched_without_its_query(wire):
    assert wire.ask("/v1/messages?beta=true&x=%20")[0] == 200
    assert wire.ask("/v1/models?limit=1000", "GET", b"")[0] == 200


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_root_is_tolerated_without_any_header(wire, method):
    wire.send(f"{method} / HTTP/1.1\r\n\r\n".encode())
    status, headers, raw = wire.read(method)
    assert status == 200 and bool(raw) is (method == "GET")
    assert int(headers["content-length"]) > 0
    assert wire.ask()[0] == 200, "HEAD must leave the connection usable"


def test_head_of_the_models_has_no_body_and_the_length_of_get(wire):
    get, head_ = wire.ask("/v1/models", "GET", b""), wire.ask("/v1/models", "HEAD", b"")
    assert head_[0] == 200 and head_[2] == b""
    assert head_[1]["content-length"] == get[1]["content-length"]


@pytest.mark.parametrize(
    "target, hint",
    [
        ("/v1/complete", ""),
        ("/v1/messages/", ""),
        ("/V1/messages", ""),
        ("/v1/v1/messages", " (the base URL ends without /v1)"),
    ],
)
def test_an_unknown_path_is_a_404_that_names_it(wire, target, hint):
    found = error_of(wire.ask(target))
    assert found == (404, "not_found_error", f"Not Found: {target}{hint}")
    assert wire.ask()[0] == 200


@pytest.mark.parametrize(
    "method, target, allowed",
    [
        ("GET", "/v1/messages", "POST"),
        ("HEAD", "/v1/messages", "POST"),
        ("PUT", "/v1/messages", "POST"),
        ("DELETE", "/v1/models/practice", "GET"),
        ("OPTIONS", "/v1/messages/count_tokens", "POST"),
        ("POST", "/v1/models", "GET"),
    ],
)
def test_a_wrong_method_is_a_405_that_names_the_right_one(
    wire, method, target, allowed
):
    answer = wire.ask(target, method)
    assert answer[:1] == (405,) and answer[1]["allow"] == allowed
    if method != "HEAD":
        assert error_of(answer)[1] == "invalid_request_error"
    assert wire.ask()[0] == 200


def test_a_method_nobody_knows_is_a_405_too(wire):
    assert error_of(wire.ask(method="BREW"))[:2] == (405, "invalid_request_error")


@pytest.mark.parametrize("target", ["/v1/messages", "/v1/messages/count_tokens"])
@pytest.mark.parametrize(
    "headers, expected",
    [
        (
            {"anthropic_version": None, "x_api_key": None},
            (400, "invalid_request_error", "anthropic-version: header is required"),
        ),
        (
            {"x_api_key": None},
            (401, "authentication_error", "x-api-key header is required"),
        ),
    ],
    ids=["no version", "no key"],
)
def test_headers_are_checked_before_the_body(wire, target, headers, expected):
    assert error_of(wire.ask(target, body=b"{", **headers)) == expected
    assert error_of(wire.ask("/v1/models", "GET", b"", **headers)) == expected


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 200_000,
        b'{"a": NaN}',
        b'{"model": "\\ud800"}',
        b'{"max_tokens": ' + b"9" * 5000 + b"}",
        "你好".encode("utf-16"),
    ],
)
def test_a_body_that_is_no_json_is_refused_and_the_connection_goes_on(wire, body):
    status, kind, message = error_of(wire.ask(body=body))
    assert (status, kind) == (400, "invalid_request_error")
    assert message.startswith("The request body is not valid JSON: "), message
    assert wire.ask()[0] == 200


@pytest.mark.parametrize("body", [b"[]", b"null", b'"text"', b"7", b"{}"])
def test_json_that_is_no_request_is_refused(wire, body):
    assert error_of(wire.ask(body=body))[:2] == (400, "invalid_request_error")


@pytest.mark.parametrize("depth", [900, 3000, 9000])
def test_a_deeply_nested_body_is_answered_or_refused(wire, depth):
    nested = b"[" * depth + b"]" * depth
    call = b'{"type":"tool_use","id":"t","name":"n","input":{"a":%b}}' % nested
    result = b'{"type":"tool_result","tool_use_id":"t"}'
    turns = b'{"role":"assistant","content":[%b]},{"role":"user","content":[%b]}'
    raw = RAW.replace(b"}]}", b"}," + turns % (call, result) + b"]}")
    assert wire.ask(body=raw)[0] in (200, 400)


# Which host is asked


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "LocalHost", None])
def test_a_request_for_this_machine_is_served(wire, host):
    assert wire.ask(host=host)[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "example.com",
        "127.0.0.1.example.com:80",
        "localhost.example.com",
        "",
        "10.0.0.1",
    ],
)
def test_a_request_for_another_host_is_forbidden(wire, host):
    assert error_of(wire.ask(host=host))[:2] == (403, "permission_error")
    assert wire.is_closed()


@pytest.mark.parametrize(
    "target", ["http://example.com/v1/messages", "*", "v1/messages"]
)
def test_a_target_that_is_no_path_is_refused(wire, target):
    assert error_of(wire.ask(target))[0] == 400


def test_two_host_headers_are_refused(wire):
    wire.send(head().replace(b"\r\n", b"\r\nHost: localhost\r\n", 1) + RAW)
    assert error_of(wire.read())[0] == 400


# Framing


def test_a_chunked_body_is_read_with_its_extensions_and_trailers(wire):
    pieces = chunked(RAW[:1], RAW[1:50], RAW[50:], end=b"")
    pieces = pieces.replace(b"1\r\n", b"001;name=value\r\n", 1)
    wire.send(head(**CHUNKED) + pieces + b"0\r\nX-Trailer: a\r\n\r\n")
    assert wire.read()[0] == 200
    assert wire.ask()[0] == 200


@pytest.mark.parametrize(
    "rest",
    [
        b"zz\r\n",
        b"-1\r\n",
        b"+5\r\n",
        b"0x5\r\nhello\r\n",
        b"1_0\r\n",
        b"\r\n",
        b"5\r\nhelloXX",
        b"f" * 2000,
        b"0\r\n" + b"a: b\r\n" * 200,
    ],
)
def test_a_broken_chunk_is_refused_and_the_connection_closed(wire, rest):
    wire.send(head(**CHUNKED) + rest)
    assert error_of(wire.read())[:2] == (400, "invalid_request_error")
    assert wire.is_closed()


@pytest.mark.parametrize(
    "length", ["abc", "-5", "+5", "1_0", "5, 5", "", "0x10", "9" * 5000, "\u00b2"]
)
def test_a_content_length_that_is_no_number_is_refused(wire, length):
    wire.send(head(content_length=length) + RAW)
    assert error_of(wire.read())[2] == "Bad Content-Length header"
    assert wire.is_closed()


@pytest.mark.parametrize(
    "extra",
    [
        b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
    ],
)
def test_a_body_whose_end_is_not_clear_is_refused(wire, extra):
    wire.send(head().replace(b"\r\n", b"\r\n" + extra, 1) + RAW)
    assert error_of(wire.read())[0] == 400
    assert wire.is_closed()


def test_two_requests_in_one_packet_get_two_answers_in_order(wire):
    wire.send(head("/v1/models", "GET", b"") + head() + RAW)
    first, second = wire.read("GET"), wire.read()
    assert json.loads(first[2])["data"][0]["id"] == "practice"
    assert json.loads(second[2])["content"] == DONE["content"]


def test_a_connection_stays_open_over_every_kind_of_refusal(wire):
    port = wire.socket.getsockname()
    for target, body, headers in [
        ("/v1/messages", b"{}", {}),
        ("/nowhere", RAW * 1000, {}),
        ("/v1/messages", RAW, {"x_api_key": None}),
        ("/v1/messages", RAW.replace(b"practice", b"nobody"), {}),
    ]:
        status, answered, _ = wire.ask(target, body=body, **headers)
        assert status >= 400 and answered["connection"] is None
        assert wire.ask()[0] == 200
    assert wire.socket.getsockname() == port


@pytest.mark.parametrize(
    "version, connection, stays_open",
    [
        ("1.1", None, True),
        ("1.1", "close", False),
        ("1.0", None, False),
        ("1.0", "keep-alive", True),
    ],
)
def test_a_connection_is_kept_as_the_client_asks(wire, version, connection, stays_open):
    status, headers, _ = wire.ask(version=version, connection=connection)
    assert status == 200
    assert (headers["connection"] == "close") is not stays_open
    if stays_open:
        assert wire.ask()[0] == 200
    else:
        assert wire.is_closed()


def test_a_stream_is_chunked_and_leaves_the_connection_open(wire):
    body = json.dumps(BODY | {"stream": True}).encode()
    status, headers, raw = wire.ask(body=body)
    assert headers["content-type"].startswith("text/event-stream")
    assert headers["transfer-encoding"] == "chunked"
    assert raw.startswith(b"event: message_start\n")
    assert raw.endswith(b'data: {"type":"message_stop"}\n\n')
    assert wire.ask()[0] == 200


def test_an_old_client_gets_its_stream_to_the_end_of_the_connection(wire):
    body = json.dumps(BODY | {"stream": True}).encode()
    status, headers, raw = wire.ask(body=body, version="1.0")
    assert (status, headers["transfer-encoding"]) == (200, None)
    assert raw.endswith(b'data: {"type":"message_stop"}\n\n')


def test_a_client_that_waits_for_100_continue_gets_it(wire):
    wire.send(head(expect="100-continue"))
    assert wire.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    wire.send(RAW)
    assert wire.read()[0] == 200


# Limits


def test_a_body_over_32_mb_gets_a_413_and_is_not_kept_in_memory(wire):
    size = httpd.MAX_BODY + 1
    tracemalloc.start()
    try:
        wire.send(head(content_length=size))
        sent, piece = 0, b" " * 65536
        while sent < size:
            wire.send(piece[: size - sent])
            sent += len(piece)
        answer = wire.read()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    found = (413, "request_too_large", "Request exceeds the maximum size")
    assert error_of(answer) == found
    assert peak < 8e6, f"{peak} bytes in memory"
    assert wire.is_closed()


def test_a_chunked_body_over_the_limit_gets_a_413(wire, monkeypatch):
    monkeypatch.setattr(httpd, "MAX_BODY", 200_000)
    wire.send(head(**CHUNKED) + chunked(*[b" " * 50_000] * 5))
    assert error_of(wire.read())[:2] == (413, "request_too_large")
    assert wire.is_closed()


def test_a_body_of_exactly_the_limit_is_read(wire, monkeypatch):
    monkeypatch.setattr(httpd, "MAX_BODY", len(RAW))
    assert wire.ask()[0] == 200
    wire.send(head(**CHUNKED) + chunked(RAW[:9], RAW[9:]))
    assert wire.read()[0] == 200


def test_a_wrong_path_counts_before_the_size(wire):
    wire.send(head("/nowhere", content_length=httpd.MAX_BODY + 1))
    assert error_of(wire.read())[0] == 404


@pytest.mark.parametrize(
    "data, status",
    [
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 1000 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\na: " + b"b" * 70_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nno colon here\r\nContent-Length: 5\r\n\r\nhello", 400),
        (b"GET / HTTP/1.1\r\nContent-Length : 5\r\n\r\nhello", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"one two three four\r\n\r\n", 400),
        (b"GET / HTTP/x.y\r\n\r\n", 400),
        (b"\x00" * 100 + b"\n", 400),
    ],
)
def test_what_is_no_request_gets_an_answer_in_the_shape_of_the_api(wire, data, status):
    wire.send(data)
    assert error_of(wire.read())[0] == status
    assert wire.is_closed()


# Clients that misbehave. still_fine_and_silent asks afterwards.


def test_random_bytes_do_no_harm(running):
    noise = random.Random(1)
    for size in [1, 10, 100, 5000] * 5:
        with Wire(running) as wire:
            wire.send(noise.randbytes(size))


@pytest.mark.parametrize("end", [0, 1, 10, 60, -len(RAW), -1])
def test_a_client_may_leave_in_the_middle_of_its_request(running, end):
    with Wire(running) as wire:
        wire.send((head() + RAW)[:end])


def test_a_client_may_leave_before_its_answer(running):
    for _ in range(10):
        with Wire(running) as wire:
            wire.send(head() + RAW)


def test_half_a_body_is_refused_when_the_client_ends_it(wire):
    wire.send(head() + RAW[:-5])
    wire.socket.shutdown(socket.SHUT_WR)
    status, _, message = error_of(wire.read())
    assert status == 400
    assert message == "The request body ended before its announced length"


def test_a_client_that_sends_its_head_byte_by_byte_has_a_deadline(wire, monkeypatch):
    monkeypatch.setattr(httpd, "HEAD_SECONDS", 0.15)
    assert dripped(wire, head()) < 1


def test_a_client_that_sends_its_body_byte_by_byte_has_a_deadline(wire, monkeypatch):
    monkeypatch.setattr(httpd, "BODY_SECONDS", 0.15)
    wire.send(head())
    assert dripped(wire, RAW) < 1


def test_a_body_that_never_comes_is_a_408(wire, monkeypatch):
    monkeypatch.setattr(httpd, "BODY_SECONDS", 0.1)
    wire.send(head())
    assert error_of(wire.read())[:2] == (408, "invalid_request_error")


def dripped(wire, data):
    """Seconds until the server ends the connection of a client this slow."""
    begun = time.monotonic()
    wire.socket.settimeout(0.02)
    for at in range(len(data)):
        try:
            wire.send(data[at : at + 1])
            if not wire.socket.recv(1000):
                break
        except TimeoutError:
            continue
        except OSError:
            break
    return time.monotonic() - begun


def test_an_idle_connection_is_ended_after_its_time(running, monkeypatch):
    monkeypatch.setattr(httpd, "IDLE_SECONDS", 0.1)
    with Wire(running) as wire:
        assert wire.ask()[0] == 200
        assert wire.is_closed()


def test_a_client_that_never_reads_is_given_up(running, monkeypatch):
    monkeypatch.setattr(httpd, "SEND_SECONDS", 0.1)
    text = {"type": "text", "text": "x" * 20_000_000}
    reply = {"content": [text], "stop_reason": "end_turn"}
    monkeypatch.setattr(practice, "reply_to", lambda body: reply)
    with Wire(running) as wire:
        wire.send(head() + RAW)
        wait_until(lambda: running._listener._open)
        wait_until(lambda: not running._listener._open)
    monkeypatch.setattr(practice, "reply_to", lambda body: DONE)


def wait_until(condition, seconds=3.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.01)


def test_a_hundred_silent_connections_keep_nobody_waiting(running):
    with many(running, 100), Wire(running) as wire:
        begun = time.monotonic()
        assert wire.ask()[0] == 200
        assert time.monotonic() - begun < 1


@contextmanager
def many(running, count):
    wires = [Wire(running) for _ in range(count)]
    try:
        for wire in wires[::2]:
            wire.send(b"POST /v1/messages HTTP/1.1\r\n")
        yield wires
    finally:
        for wire in wires:
            wire.__exit__()


def test_a_turn_costs_milliseconds_and_waits_for_no_acknowledgement(wire):
    spent = []
    for _ in range(50):
        begun = time.perf_counter()
        wire.ask()
        spent.append(time.perf_counter() - begun)
    median = statistics.median(spent) * 1000
    # Two writes with Nagle's algorithm on would take 40 ms.
    assert median < 15, f"{median:.1f} ms"
