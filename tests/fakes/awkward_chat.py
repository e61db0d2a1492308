"""A chat server whose streams are legal but awkward, or end badly; its `manner` says how. Sockets are real."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORDS = ("Korn", " blir", " mjöl", " 🌾 i", " kvarnen.")
TEXT = "".join(WORDS)
USAGE = {"prompt_tokens": 40, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 10}}
TIMINGS = {"cache_n": 10, "prompt_n": 30, "prompt_ms": 60.0, "predicted_n": 5, "predicted_ms": 80.0}
KEY = "kv-right"
DONE = "data: [DONE]\n\n"


def frame(delta: dict, finish: str | None = None, **more: object) -> dict:
    return {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    } | more


def frames() -> list[dict]:
    """What a well-behaved engine sends."""
    last = {"object": "chat.completion.chunk", "choices": [], "usage": USAGE, "timings": TIMINGS}
    return [
        frame({"role": "assistant", "content": None}),
        *(frame({"content": w}) for w in WORDS),
        frame({}, "stop"),
        last,
    ]


def event(data: dict, *, lead: str = "data: ", end: str = "\n") -> str:
    return f"{lead}{json.dumps(data, ensure_ascii=False)}{end}{end}"


def good() -> Iterator[str]:
    yield from map(event, frames())
    yield DONE


def pings() -> Iterator[str]:
    for data in frames():
        yield ":\n\n: still here\n\ndata:\n\nevent: ping\nid: 3\nretry: 10\n\n"
        yield event(data)
    yield DONE


def crlf() -> Iterator[str]:
    for data in frames():
        # The pair is torn apart between two packets.
        yield event(data, end="\r\n")[:-1]
        yield "\n"
    yield DONE.replace("\n", "\r\n")


def byte_by_byte() -> Iterator[bytes]:
    for byte in "".join(good()).encode():
        yield bytes([byte])


def glued() -> Iterator[str]:
    yield "".join(good())


def multi_line_data() -> Iterator[str]:
    for data in frames():
        yield "".join(f"data: {line}\n" for line in json.dumps(data, indent=1).splitlines()) + "\n"
    yield DONE


def no_space() -> Iterator[str]:
    yield from (event(data, lead="data:") for data in frames())
    yield DONE.replace(" ", "")


def empty_choices() -> Iterator[str]:
    for data in frames():
        yield event({"choices": []})
        yield event({"choices": None})
        yield event(data)
    yield DONE


def nulls() -> Iterator[str]:
    for data in frames():
        yield event(frame({"content": None, "reasoning_content": None}, usage=None, timings=None, error=None))
        yield event(data)
    yield DONE


def split_escapes() -> Iterator[str]:
    """Escaped surrogates, the two halves of 🌾 in two events."""
    for data in frames():
        text = json.dumps(data)
        head, found, tail = text.partition("\\ud83c")
        if found:
            start, _, rest = head.partition('"content": "')
            yield f"data: {start}" + f'"content": "{rest}\\ud83c"' + tail[tail.index('"') + 1 :] + "\n\n"
            yield f'data: {start}"content": "{tail}\n\n'
        else:
            yield f"data: {text}\n\n"
    yield DONE


def no_end_mark() -> Iterator[str]:
    yield from map(event, frames())


def thinking() -> Iterator[str]:
    yield event(frame({"reasoning_content": "They ask "}))
    yield event(frame({"reasoning_content": "about corn."}))
    yield from good()


def one_token() -> Iterator[str]:
    yield event(frame({"content": "Ja"}))
    yield event(frame({}, "stop"))
    yield event({"choices": [], "usage": USAGE | {"completion_tokens": 1}, "timings": TIMINGS | {"predicted_n": 1}})
    yield DONE


def cut() -> Iterator[str]:
    yield from map(event, frames()[:4])
    yield event(frames()[4])[:30]


def error_inside() -> Iterator[str]:
    yield from map(event, frames()[:4])
    yield event({"error": {"code": 500, "message": "context <b>shift</b> is off", "type": "server_error"}})


def stall() -> Iterator[str]:
    yield from map(event, frames()[:3])
    while True:
        yield ":\n\n"
        time.sleep(0.02)


def flood() -> Iterator[str]:
    for number in range(3000):
        yield event(frame({"content": f" {number}"}))
    yield from map(event, frames()[-2:])
    yield DONE


def nonsense() -> Iterator[str]:
    yield event(frames()[1])
    yield "data: {not json\n\n"


ALIKE = (
    good,
    pings,
    crlf,
    byte_by_byte,
    glued,
    multi_line_data,
    no_space,
    empty_choices,
    nulls,
    split_escapes,
    no_end_mark,
    thinking,
)
"""All of these say TEXT and the same counts."""
MANNERS: dict[str, Callable[[], Iterator[str | bytes]]] = {
    manner.__name__: manner for manner in (*ALIKE, one_token, cut, error_inside, stall, flood, nonsense)
}
TOO_LONG = {
    "error": {
        "code": 400,
        "message": "request (6031 tokens) exceeds the available context size (1024 tokens), try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 6031,
        "n_ctx": 1024,
    }
}


class AwkwardChat:
    """`with AwkwardChat() as server:`; keeps the bodies it was sent and tells when a client left early."""

    def __init__(self) -> None:
        self.manner = "good"
        """A key of MANNERS, or one of the refusals below."""
        self.bodies: list[dict] = []
        self.left = threading.Event()
        """Set when a client hung up before its answer had ended."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_POST(self) -> None:
                outer.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                try:
                    self.answer(outer.manner)
                except OSError:
                    outer.left.set()

            def answer(self, manner: str) -> None:
                if manner == "too_long":
                    self.reply(400, "application/json", json.dumps(TOO_LONG).encode())
                elif manner == "keyed" and self.headers.get("Authorization") != f"Bearer {KEY}":
                    self.reply(401, "application/json", b'{"error":{"code":401,"message":"Invalid API Key"}}')
                elif manner == "web_page":
                    self.reply(200, "text/html", b"<h1>It works</h1>")
                elif manner == "bad_gateway":
                    self.reply(502, "text/html", b"<h1>no</h1>")
                elif manner == "silent":
                    self.connection.recv(1)
                    raise OSError("the client left")
                else:
                    self.reply(200, "text/event-stream", b"")
                    for piece in MANNERS["good" if manner == "keyed" else manner]():
                        self.wfile.write(piece if isinstance(piece, bytes) else piece.encode())

            def reply(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> AwkwardChat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
