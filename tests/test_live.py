"""The logging proxy: bytes both ways as they come, and no key in any log.

A second local server stands in for the real API and sends canned bytes.
"""

import http.client
import json
import shutil
import socket
import ssl
import subprocess
import threading
import time

import anthropic
import pytest

from kit import server, sse

KEY = "sk-ant-api03-not-a-real-key"
JSON = "application/json"
STREAM = "text/event-stream; charset=utf-8"
MESSAGE = {
    "id": "msg_real",
    "type": "message",
    "role": "assistant",
    "model": "claude-haiku-5-5",
    "content": [{"type": "text", "text": "Hello from the real API, or nearly. 你好"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 9, "output_tokens": 12},
}
REQUEST = {
    "model": "claude-haiku-5-5",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "hello"}],
}
LIMIT = {
    "type": "error",
    "error": {"type": "rate_limit_error", "message": "Slow down"},
    "request_id": "req_real",
}


class Upstream:
    """Answers every request with the same bytes; keeps what was asked.

    Each item of .sends is sent in turn; an event waits until it is set, and a
    callable is called with the connection.
    """

    def __init__(self, tls=None):
        self.listener = socket.create_server(("127.0.0.1", 0))
        port = self.listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        self.tls = tls
        self.asked = []
        self.sends = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.answer, args=[connection], daemon=True).start()

    def answer(self, connection):
        if self.tls:
            try:
                connection = self.tls.wrap_socket(connection, server_side=True)
            except OSError:
                return
        with connection, connection.makefile("rb") as incoming:
            lines = iter(incoming.readline, b"\r\n")
            start, *fields = [line.decode("latin-1").rstrip() for line in lines]
            headers = [tuple(line.split(": ", 1)) for line in fields]
            named = {name.lower(): value for name, value in headers}
            body = incoming.read(int(named.get("content-length", 0)))
            self.asked.append((start, headers, body))
            try:
                for item in self.sends:
                    if isinstance(item, bytes):
                        connection.sendall(item)
                    elif isinstance(item, threading.Event):
                        item.wait(5)
                    else:
                        item(connection)
            except OSError:
                pass

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def answer(status, kind, body, *more):
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Type: {kind}", *more]
    lines += [f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


def stream_head(*more):
    lines = ["HTTP/1.1 200 OK", f"Content-Type: {STREAM}", *more]
    lines += ["Transfer-Encoding: chunked", "", ""]
    return "\r\n".join(lines).encode()


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


EVENTS = [sse.encode(event) for event in sse.events(MESSAGE)]
END = b"0\r\n\r\n"


@pytest.fixture(scope="module")
def upstream():
    found = Upstream()
    yield found
    found.close()


@pytest.fixture(scope="module")
def log_file(tmp_path_factory):
    return tmp_path_factory.mktemp("live") / "wire.jsonl"


@pytest.fixture(scope="module")
def running(upstream, log_file):
    with server.start(upstream=upstream.url, log=log_file) as started:
        yield started


@pytest.fixture(scope="module")
def sdk(running):
    options = {"base_url": running.url, "api_key": KEY, "max_retries": 0}
    with anthropic.Anthropic(**options) as client:
        yield client


@pytest.fixture(autouse=True)
def no_key_in_the_log_and_nothing_printed(log_file, capfd):
    yield
    assert KEY not in (log_file.read_text("utf-8") if log_file.exists() else "")
    printed = capfd.readouterr()
    assert printed.out + printed.err == ""


@pytest.fixture
def line(log_file):
    """The newest line of the log, once this test has added one."""

    def lines():
        return log_file.read_text("utf-8").splitlines() if log_file.exists() else []

    def newest():
        # A client that stops reading at an error is faster than the log.
        end = time.monotonic() + 3
        while len(lines()) == before and time.monotonic() < end:
            time.sleep(0.005)
        return json.loads(lines()[-1])

    before = len(lines())
    return newest


def ask(running, method="POST", target="/v1/messages", body=b"{}", headers=None):
    """(response, body) by way of the proxy, over plain HTTP."""
    host = running.url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=5)
    try:
        connection.request(method, target, body, headers or {"x-api-key": KEY})
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def test_a_request_goes_on_byte_for_byte_with_its_key(running, upstream):
    upstream.sends = [answer(200, JSON, b"{}")]
    body = b'{ "model":"x",\n\t"odd \xff bytes": 1.0e0 }'
    sent = {
        "x-api-key": KEY,
        "Authorization": f"Bearer {KEY}",
        "anthropic-beta": "a,b",
        "X-Custom": "kept as it is",
    }
    ask(running, "POST", "/v1/messages?beta=true&b=%20", body, sent)
    start, headers, arrived = upstream.asked[-1]
    assert start == "POST /v1/messages?beta=true&b=%20 HTTP/1.1"
    assert arrived == body
    assert set(sent.items()) <= set(headers), headers


def test_headers_of_one_connection_stay_on_it(running, upstream):
    upstream.sends = [
        answer(
            200, JSON, b"{}", "Keep-Alive: timeout=5", "Connection: X-Hop", "X-Hop: 1"
        )
    ]
    sent = {
        "Connection": "keep-alive, X-Mine",
        "X-Mine": "1",
        "TE": "trailers",
        "Proxy-Authorization": "Basic abc",
        "Accept-Encoding": "gzip, br",
        "Expect": "",
    }
    response, _ = ask(running, headers=sent)
    names = [name.lower() for name, _ in upstream.asked[-1][1]]
    left_out = {"connection", "x-mine", "te", "proxy-authorization", "expect"}
    assert not left_out & set(names), names
    assert dict(upstream.asked[-1][1])["accept-encoding"] == "identity"
    assert dict(upstream.asked[-1][1])["Host"] == upstream.url.removeprefix("http://")
    assert len(names) == len(set(names)), f"sent twice: {names}"
    assert response.headers["x-hop"] is None
    assert response.headers["keep-alive"] is None


def test_an_answer_comes_back_byte_for_byte_with_its_headers(running, upstream, line):
    body = b'{ "type" : "message",\n"x": "\xe4\xbd\xa0" }'
    more = ["request-id: req_real", "Set-Cookie: a=1", "Set-Cookie: b=2"]
    upstream.sends = [answer(200, JSON, body, *more)]
    response, arrived = ask(running)
    assert (response.status, arrived) == (200, body)
    assert response.headers["request-id"] == "req_real"
    assert response.headers.get_all("set-cookie") == ["a=1", "b=2"]
    assert line()["response"] == {"type": "message", "x": "你"}


def test_the_sdk_gets_a_message_through_the_proxy(sdk, upstream, line):
    upstream.sends = [answer(200, JSON, json.dumps(MESSAGE).encode())]
    found = sdk.messages.create(**REQUEST)
    assert found.to_dict() == MESSAGE
    logged = line()
    assert (logged["request"], logged["response"]) == (REQUEST, MESSAGE)
    assert (logged["status"], logged["stream"]) == (200, False)


def test_the_sdk_gets_a_stream_and_the_log_the_message(sdk, upstream, line):
    upstream.sends = [stream_head(), *map(chunk, EVENTS), END]
    with sdk.messages.stream(**REQUEST) as stream:
        assert stream.get_final_text() == MESSAGE["content"][0]["text"]
    logged = line()
    assert logged["response"] == MESSAGE
    assert logged["stream"] is True and "error" not in logged


def test_a_stream_is_passed_on_piece_by_piece_as_it_comes(running, upstream):
    go_on = threading.Event()
    upstream.sends = [stream_head(), chunk(EVENTS[0]), go_on, chunk(EVENTS[1]), END]
    with socket.create_connection(address_of(running), timeout=5) as client:
        client.sendall(b"POST /v1/messages HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
        seen = b""
        while EVENTS[0] not in seen:
            seen += client.recv(65536)
        go_on.set()
        while not seen.endswith(END):
            seen += client.recv(65536)
    assert seen.partition(b"\r\n\r\n")[2] == chunk(EVENTS[0]) + chunk(EVENTS[1]) + END


def address_of(running):
    return "127.0.0.1", int(running.url.rpartition(":")[2])


def test_a_stream_with_a_length_arrives_whole(running, upstream):
    upstream.sends = [answer(200, STREAM, b"".join(EVENTS))]
    response, arrived = ask(running)
    assert response.headers["content-length"] is None
    assert arrived == b"".join(EVENTS)


@pytest.mark.parametrize("path", ["", "/anthropic", "/api/"])
def test_the_address_of_the_api_may_have_a_path(upstream, path):
    upstream.sends = [answer(200, JSON, b"{}")]
    with server.start(upstream=upstream.url + path) as started:
        ask(started)
    assert upstream.asked[-1][0].split()[1] == f"{path.rstrip('/')}/v1/messages"


def test_every_method_and_path_is_the_real_apis_to_answer(running, upstream):
    upstream.sends = [answer(404, JSON, b'{"type":"error"}')]
    for method, target in [("GET", "/v1/models/x"), ("DELETE", "/v1/files/y")]:
        response, body = ask(running, method, target, None)
        assert (response.status, body) == (404, b'{"type":"error"}')
        assert upstream.asked[-1][0] == f"{method} {target} HTTP/1.1"


def test_head_keeps_the_length_and_has_no_body(running, upstream):
    upstream.sends = [b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"]
    response, body = ask(running, "HEAD", "/", None)
    assert (response.headers["content-length"], body) == ("500", b"")


def test_a_429_comes_back_with_its_retry_after(sdk, upstream, line):
    body = json.dumps(LIMIT).encode()
    upstream.sends = [answer(429, JSON, body, "retry-after: 7", "request-id: req_real")]
    with pytest.raises(anthropic.RateLimitError) as caught:
        sdk.messages.create(**REQUEST)
    assert caught.value.response.headers["retry-after"] == "7"
    assert caught.value.body == LIMIT
    assert caught.value.request_id == "req_real"
    assert (line()["status"], line()["response"]) == (429, LIMIT)
    assert line()["error"] == "rate_limit_error: Slow down"


def test_the_sdk_retries_through_the_proxy(sdk, upstream):
    upstream.sends = [answer(529, JSON, b"{}", "retry-after: 0.01")]
    before = len(upstream.asked)
    with pytest.raises(anthropic.InternalServerError):
        sdk.with_options(max_retries=2).messages.create(**REQUEST)
    assert len(upstream.asked) - before == 3


def test_an_answer_that_is_no_json_is_passed_on_and_logged_as_text(
    running, upstream, line
):
    upstream.sends = [answer(503, "text/html", b"<h1>Down \xff</h1>")]
    response, body = ask(running)
    assert (response.status, body) == (503, b"<h1>Down \xff</h1>")
    assert line()["response"] == "<h1>Down \ufffd</h1>"


def test_a_key_that_comes_back_in_an_answer_is_not_logged(running, upstream, line):
    body = json.dumps({"error": f"Incorrect key: {KEY}"}).encode()
    upstream.sends = [answer(401, JSON, body)]
    assert ask(running)[1] == body
    assert line()["response"] == {"error": "Incorrect key: [key]"}


def test_an_error_event_in_mid_stream_reaches_the_sdk_and_the_log(sdk, upstream, line):
    error = sse.encode(sse.error_event(LIMIT))
    upstream.sends = [stream_head(), *map(chunk, [*EVENTS[:5], error]), END]
    with pytest.raises(anthropic.APIStatusError) as caught:
        list(sdk.messages.create(**REQUEST, stream=True))
    assert caught.value.type == "rate_limit_error"
    assert line()["response"]["error"] == LIMIT["error"]
    assert line()["error"] == "rate_limit_error: Slow down"


@pytest.mark.parametrize(
    "end", [chunk(EVENTS[3])[:-20], b"", b"5"], ids=["in a chunk", "between", "size"]
)
def test_a_drop_in_mid_stream_is_passed_on_as_a_drop(sdk, upstream, line, end):
    upstream.sends = [stream_head(), *map(chunk, EVENTS[:4]), end]
    kinds = []
    with pytest.raises(Exception) as caught:
        for event in sdk.messages.create(**REQUEST, stream=True):
            kinds.append(event.type)
    assert "incomplete" in str(caught.value).lower(), repr(caught.value)
    assert kinds == ["message_start", "content_block_start", "content_block_delta"]
    logged = line()
    assert "broke off" in logged["error"]
    text = logged["response"]["content"][0]["text"]
    assert text and MESSAGE["content"][0]["text"].startswith(text)


def test_a_drop_before_the_end_of_a_json_answer_is_a_502(sdk, upstream, line):
    upstream.sends = [answer(200, JSON, json.dumps(MESSAGE).encode())[:-30]]
    with pytest.raises(anthropic.InternalServerError, match="broke off") as caught:
        sdk.messages.create(**REQUEST)
    assert (caught.value.status_code, caught.value.type) == (502, "api_error")
    assert line()["status"] == 502


@pytest.mark.parametrize("sent", [b"", b"garbage\r\n\r\n"], ids=["silent", "garbage"])
def test_an_upstream_that_does_not_speak_http_is_a_502(sdk, upstream, sent):
    upstream.sends = [sent]
    with pytest.raises(anthropic.InternalServerError, match="api_error"):
        sdk.messages.create(**REQUEST)


def test_an_upstream_that_is_down_is_a_502_in_a_plain_sentence(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    log = tmp_path / "wire.jsonl"
    with server.start(upstream=f"http://127.0.0.1:{port}", log=log) as started:
        response, body = ask(started)
    error = json.loads(body)
    assert response.status == 502
    assert response.headers["request-id"] == error["request_id"]
    assert error["error"]["type"] == "api_error"
    message = error["error"]["message"]
    assert message.startswith("The API at 127.0.0.1 could not be reached: "), message
    assert json.loads(log.read_text("utf-8"))["error"] == f"api_error: {message}"


def make_certificate(folder):
    """A new certificate for 127.0.0.1, with its key, that nobody vouches for."""
    path = folder / "certificate.pem"
    parts = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    names = ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(path), "-out", str(folder / "public.pem")]
    made = ["openssl", *parts.split(), *names, *files]
    subprocess.run(made, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    with path.open("a") as file:
        file.write((folder / "public.pem").read_text())
    return path


@pytest.fixture
def tls_upstream(tmp_path):
    if not shutil.which("openssl"):
        pytest.skip("openssl is needed to make a certificate for this test")
    path = make_certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(path)
    found = Upstream(tls)
    found.certificate = path
    found.sends = [answer(200, JSON, b'{"secure": true}')]
    yield found
    found.close()


def test_a_certificate_that_does_not_verify_is_refused(tls_upstream):
    with server.start(upstream=tls_upstream.url) as started:
        response, body = ask(started)
    error = json.loads(body)["error"]
    assert (response.status, error["type"]) == (502, "api_error")
    assert "certificate of 127.0.0.1 could not be verified" in error["message"]
    assert tls_upstream.asked == [], "the key went to a server nobody vouches for"


def test_a_trusted_certificate_is_accepted(tls_upstream, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(tls_upstream.certificate))
    with server.start(upstream=tls_upstream.url) as started:
        response, body = ask(started)
    assert (response.status, body) == (200, b'{"secure": true}')


@pytest.mark.parametrize(
    "address",
    [
        "api.anthropic.com",
        "ftp://a",
        "http://",
        "http://a:port",
        "localhost:1",
        "http://[",
    ],
)
def test_an_address_that_is_no_url_is_refused_at_the_start(address):
    with pytest.raises(OSError, match="no http or https address"):
        server.start(upstream=address)


def test_a_client_that_leaves_ends_the_upstream_stream_too(running, upstream, line):
    ended = threading.Event()

    def until_closed(connection):
        connection.settimeout(5)
        try:
            while True:
                connection.sendall(chunk(b": more\n\n"))
                time.sleep(0.005)
        except OSError:
            ended.set()

    upstream.sends = [stream_head(), chunk(EVENTS[0]), until_closed]
    with socket.create_connection(address_of(running), timeout=5) as client:
        client.sendall(b"POST /v1/messages HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
        client.recv(100)
    assert ended.wait(3), "the upstream connection is still open"
    assert "client went away" in line()["error"]


def test_foreign_hosts_and_broken_requests_are_not_forwarded(running, upstream):
    before = len(upstream.asked)
    for headers in ({"Host": "example.com"}, {"Content-Length": "x"}):
        with socket.create_connection(address_of(running), timeout=5) as client:
            head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            client.sendall(f"POST /v1/messages HTTP/1.1\r\n{head}\r\n".encode())
            assert client.recv(12) in (b"HTTP/1.1 403", b"HTTP/1.1 400")
    assert len(upstream.asked) == before


def test_a_path_that_http_cannot_carry_is_refused(running, upstream):
    upstream.sends = [answer(200, JSON, b"{}")]
    with socket.create_connection(address_of(running), timeout=5) as client:
        client.sendall(b"GET /v1/\xff\x01 HTTP/1.1\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 400"
