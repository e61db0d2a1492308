"""A stand-in for llama-server: takes its options, answers its endpoints, loads no model, misbehaves on demand.

Switches are environment variables, or the same as flags (`FAKE_EXIT=3` is `--fake-exit 3`):

  FAKE_STARTUP_DELAY_S=2   seconds of 503 before ready          FAKE_NEVER_READY=1   503 for ever
  FAKE_LOAD_LOG_S=0.2      one log line that often while loading FAKE_LOAD_BUSY=1     burn CPU silently while loading
  FAKE_LOADS_UNTIL=path    503 until that file exists           FAKE_SILENT=1        start, and then do nothing at all
  FAKE_EXIT=3              end in place of becoming ready: a code, or SEGV|ABRT|KILL|TERM
  FAKE_DIE_MID_ANSWER=1    abort at the third token              FAKE_GRANDCHILD=1   leave a stubborn child of its own
  FAKE_IGNORE_TERM=1       only SIGKILL helps
  FAKE_SAY=text            print that on stderr first            FAKE_OOM=1          an out-of-memory line, then exit 1
  FAKE_FLOOD_BYTES=N       print N bytes of log at once          FAKE_GARBAGE=1      no text, an endless line
  FAKE_METRICS=nan|reset|zero|missing|huge                       FAKE_TOKEN_S=0.02   seconds for each token
  FAKE_KV_TYPES=f16,q8_0   what --help lists                     FAKE_ALIAS=x        lie about the name in /v1/models
  FAKE_HELP_HANGS=1        --help never answers                  FAKE_TOKENS=8       length of an answer
  FAKE_TALKS_UNTIL=path    an answer goes on until that file exists
  FAKE_LIVE=1              offer /live and its stream; `cut` breaks it off after three events, `full` has no place free,
                           `odd` sends what cannot be read, `endless` one event without an end, `end` ends it in order
                           after three events; `drip` an event in single bytes, `pings` nothing but comments,
                           `shaky` answers 502 to the first two who ask, `smudged` sends two that cannot be read first
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from fake_live import live_object

BORN = time.monotonic()
KV_TYPES = "f32,f16,bf16,q8_0,q4_0,q4_1,iq4_nl,q5_0,q5_1"


def switches(argv: list[str]) -> tuple[dict[str, str], list[str]]:
    """Our own switches from the environment, overruled by `--fake-… VALUE`; the rest is the engine's."""
    found = {k[5:].lower(): v for k, v in os.environ.items() if k.startswith("FAKE_")}
    rest: list[str] = []
    words = iter(argv)
    for word in words:
        if word.startswith("--fake-"):
            found[word[7:].replace("-", "_")] = next(words)
        else:
            rest.append(word)
    return found, rest


FAKE, ARGV = switches(sys.argv[1:])


def options() -> argparse.ArgumentParser:
    """The options our command line may use, with llama-server's names."""
    p = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    p.add_argument("-h", "--help", action="store_true")
    p.add_argument("--version", action="store_true")
    p.add_argument("-m", "--model")
    p.add_argument("-mm", "--mmproj")
    p.add_argument("-a", "--alias", default="fake")
    p.add_argument("--host", default="127.0.0.1")
    p.add_argument("--port", type=int, default=8080)
    p.add_argument("-c", "--ctx-size", type=int, default=4096)
    p.add_argument("-np", "--parallel", type=int, default=1)
    p.add_argument("-ctk", "--cache-type-k", default="f16")
    p.add_argument("-ctv", "--cache-type-v", default="f16")
    p.add_argument("-ngl", "--n-gpu-layers", "--gpu-layers")
    p.add_argument("--spec-type", default="none")
    p.add_argument("--spec-adaptive", action="store_true")
    p.add_argument("--api-key-file")
    for name in ("--threads", "--threads-batch", "--batch-size", "--ubatch-size", "--flash-attn", "--fit", "--kv-pad"):
        p.add_argument(name)
    for name in ("--cors-origins", "--log-colors", "--verbosity"):
        p.add_argument(name)
    for name in ("--metrics", "--slots", "--no-slots", "--no-ui", "--no-webui", "--offline", "--swa-full"):
        p.add_argument(name, action="store_true")
    for name in ("--kv-unified", "--no-kv-unified", "--no-mmproj", "--jinja", "--no-warmup", "--log-prefix"):
        p.add_argument(name, action="store_true")
    p.add_argument("--log-timestamps", action="store_true")
    return p


def help_text(parser: argparse.ArgumentParser) -> str:
    """Like the engine's `--help`: one option a paragraph, allowed KV types in their own line."""
    lines = ["----- common params -----", ""]
    for action in parser._actions:
        lines.append(", ".join(action.option_strings).ljust(40) + "of the stand-in engine")
        if action.dest.startswith("cache_type"):
            lines.append(" " * 40 + "allowed values: " + ", ".join(FAKE.get("kv_types", KV_TYPES).split(",")))
        if action.dest == "spec_type":
            lines[-1] = "--spec-type none,draft-mtp,ngram-simple  types of speculative decoding"
    return "\n".join(lines) + "\n"


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def parse() -> argparse.Namespace:
    parser = options()
    args, unknown = parser.parse_known_args(ARGV)
    if args.help:
        time.sleep(3600 if "help_hangs" in FAKE else 0)
        print(help_text(parser))
        raise SystemExit(0)
    if args.version:
        say("version: 9999 (stand-in)\nbuilt with nothing for anywhere")
        raise SystemExit(0)
    if unknown:
        say(f"error: invalid argument: {unknown[0]}")
        raise SystemExit(1)
    for flag, value in (("-ctk", args.cache_type_k), ("-ctv", args.cache_type_v)):
        if value not in FAKE.get("kv_types", KV_TYPES).split(","):
            say(f'error while handling argument "{flag}": Unsupported cache type: {value}')
            raise SystemExit(1)
    return args


ARGS = parse()
OPEN_PATHS = ("/health", "/v1/health")
KEY = Path(ARGS.api_key_file).read_text().strip() if ARGS.api_key_file else None


class Slot:
    """One conversation: what /slots tells about it."""

    def __init__(self, number: int) -> None:
        self.number, self.busy, self.task, self.lock = number, False, -1, threading.Lock()
        self.prompt = self.decoded = self.remain = 0
        self.first_s = 0.0

    def decode_ms(self) -> float:
        return (time.monotonic() - self.first_s) * 1000 if self.decoded else 0.0

    def facts(self) -> dict:
        idle = {"id": self.number, "n_ctx": context_per_slot(), "speculative": False, "is_processing": self.busy}
        if self.task < 0:
            return idle
        token = {"has_next_token": self.busy, "has_new_line": False, "n_remain": self.remain, "n_decoded": self.decoded}
        return idle | {
            "id_task": self.task,
            "n_prompt_tokens": self.prompt,
            "n_prompt_tokens_processed": self.prompt,
            "n_prompt_tokens_cache": 0,
            "params": {"max_tokens": self.decoded + self.remain},
            "next_token": [token],
        }


def context_per_slot() -> int:
    return ARGS.ctx_size if ARGS.kv_unified else ARGS.ctx_size // max(ARGS.parallel, 1)


SLOTS = [Slot(n) for n in range(max(ARGS.parallel, 1))]
COUNT = {"prompt": 0, "prompt_s": 0.0, "predicted": 0, "predicted_s": 0.0, "tasks": 0, "scrapes": 0, "streams": 0}


def exists(switch: str) -> bool:
    """Whether the file a switch names is there; true without the switch."""
    return switch not in FAKE or Path(FAKE[switch]).exists()


def is_loaded() -> bool:
    return exists("loads_until") and time.monotonic() - BORN >= float(FAKE.get("startup_delay_s", 0))


def is_ready() -> bool:
    return not {"never_ready", "exit"} & FAKE.keys() and is_loaded()


def metrics_text() -> str:
    COUNT["scrapes"] += 1
    kind, n = FAKE.get("metrics", ""), COUNT["scrapes"]
    if kind == "missing":
        return ""
    predicted = {"reset": 100_000 + n * 50 if n < 4 else (n - 3) * 10, "huge": 10**18 * n, "zero": 0, "nan": "-nan"}
    values = {
        "tokens_predicted_total": ("counter", predicted.get(kind, COUNT["predicted"])),
        "tokens_predicted_seconds_total": ("counter", COUNT["predicted_s"]),
        "prompt_tokens_total": ("counter", COUNT["prompt"]),
        "prompt_seconds_total": ("counter", COUNT["prompt_s"]),
        "predicted_tokens_seconds": ("gauge", {"nan": "-nan", "huge": "1e+308"}.get(kind, 0)),
        "prompt_tokens_seconds": ("gauge", "nan" if kind == "nan" else 0),
        "requests_processing": ("gauge", sum(s.busy for s in SLOTS)),
        "requests_deferred": ("gauge", 0),
    }
    lines = []
    for name, (type_name, value) in values.items():
        lines += [f"# HELP llamacpp:{name} stand-in", f"# TYPE llamacpp:{name} {type_name}", f"llamacpp:{name} {value}"]
    return "\n".join(lines) + "\n"


def props() -> dict:
    return {
        "default_generation_settings": {"n_ctx": context_per_slot(), "params": {"speculative.types": ARGS.spec_type}},
        "total_slots": len(SLOTS),
        "model_alias": FAKE.get("alias", ARGS.alias),
        "model_path": ARGS.model,
        "modalities": {"vision": bool(ARGS.mmproj), "audio": False},
        "endpoint_slots": True,
        "endpoint_metrics": ARGS.metrics,
        "chat_template": "",
        "build_info": "stand-in",
    }


class Handler(BaseHTTPRequestHandler):
    """llama-server's endpoints; everything but /health wants the key."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def reply(self, code: int, body: object, kind: str = "application/json") -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, code: int, message: str, kind: str) -> None:
        self.reply(code, {"error": {"code": code, "message": message, "type": kind}})

    def admitted(self) -> bool:
        """Loading answers 503, a wrong key 401, as the engine does."""
        if not is_ready():
            self.refuse(503, "Loading model", "unavailable_error")
        elif KEY and self.path not in OPEN_PATHS and self.headers.get("Authorization") != f"Bearer {KEY}":
            self.refuse(401, "Invalid API Key", "authentication_error")
        else:
            return True
        return False

    def do_GET(self) -> None:
        if not self.admitted():
            return
        path = self.path.split("?")[0]
        if path == "/health":
            self.reply(200, {"status": "ok"})
        elif path == "/props":
            self.reply(200, props())
        elif path == "/live" and "live" in FAKE:
            self.reply(200, live_object(SLOTS, COUNT))
        elif path == "/live/stream" and "live" in FAKE:
            self.stream_live(FAKE["live"])
        elif path == "/slots":
            self.reply(200, [slot.facts() for slot in SLOTS])
        elif path in ("/v1/models", "/models"):
            data = [{"id": FAKE.get("alias", ARGS.alias), "object": "model", "meta": {"n_ctx": context_per_slot()}}]
            self.reply(200, {"object": "list", "data": data})
        elif path == "/metrics" and ARGS.metrics and (text := metrics_text()):
            self.reply(200, text, "text/plain; version=0.0.4")
        elif path == "/metrics":
            self.refuse(501, "This server does not support metrics endpoint.", "not_supported_error")
        else:
            self.refuse(404, "File Not Found", "not_found_error")

    def stream_live(self, how: str) -> None:
        if how == "full":
            self.refuse(503, "all 8 live streams are in use", "unavailable_error")
            return
        COUNT["streams"] += 1
        if how == "shaky" and COUNT["streams"] <= 2:
            self.refuse(502, "no", "server_error")
            return
        period = 1 / int(parse_qs(urlsplit(self.path).query).get("hz", ["4"])[0])
        self.begin_stream()
        number = 0
        if how == "endless":
            self.endless_event("data: " + "x" * 60_000)
            return
        if how in ("drip", "pings"):
            self.endless_event("x" if how == "drip" else ": ping\n\n", 0.02)
            return
        while how not in ("cut", "end") or number < 3:
            text = (
                "{"
                if how == "odd" or (how == "smudged" and COUNT["streams"] <= 2)
                else json.dumps(live_object(SLOTS, COUNT))
            )
            try:
                self.chunk(f"data: {text}\n\n")
            except OSError:
                return
            number += 1
            time.sleep(period)
        if how == "end":
            self.chunk("event: end\ndata: {}\n\n")
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def endless_event(self, piece: str, every_s: float = 0.0) -> None:
        try:
            while True:
                self.chunk(piece)
                time.sleep(every_s)
        except OSError:
            self.close_connection = True

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if not self.admitted():
            return
        if self.path not in ("/v1/chat/completions", "/v1/completions", "/completion"):
            self.refuse(404, "File Not Found", "not_found_error")
            return
        slot = next((s for s in SLOTS if s.lock.acquire(blocking=False)), None)
        if slot is None:
            slot = SLOTS[0]
            slot.lock.acquire()
        try:
            self.answer(slot, body)
        except OSError:
            pass  # the client left
        finally:
            slot.busy = False
            slot.lock.release()

    def answer(self, slot: Slot, body: dict) -> None:
        pause = float(FAKE.get("token_s", 0.005))
        total = int(body.get("max_tokens") or FAKE.get("tokens", 8))
        slot.prompt, slot.decoded, slot.remain = len(json.dumps(body.get("messages", ""))) // 4, 0, total
        slot.task, slot.busy = COUNT["tasks"], True
        COUNT["tasks"] += 1
        time.sleep(pause)
        COUNT["prompt"] += slot.prompt
        COUNT["prompt_s"] += pause
        if body.get("stream"):
            self.begin_stream()
        words, first = [], time.monotonic()
        slot.first_s = first
        for number in itertools.count():
            if number >= total and exists("talks_until"):
                break
            if "die_mid_answer" in FAKE and number == 3:
                os.abort()
            words.append(f" {number + 1}")
            slot.decoded, slot.remain = number + 1, max(0, total - number - 1)
            if body.get("stream"):
                self.piece({"content": words[-1]}, None)
            time.sleep(pause)
        seconds, total = time.monotonic() - first, len(words)
        COUNT["predicted"] += total
        COUNT["predicted_s"] += seconds
        timings = {"prompt_n": slot.prompt, "prompt_ms": pause * 1000, "predicted_n": total, "cache_n": 0}
        timings |= {"predicted_ms": seconds * 1000, "predicted_per_second": total / seconds if seconds else 0.0}
        if body.get("stream"):
            self.piece({}, "stop", timings)
            self.chunk("data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")
            return
        usage = {"prompt_tokens": slot.prompt, "completion_tokens": total, "total_tokens": slot.prompt + total}
        message = {"role": "assistant", "content": "".join(words)}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        self.reply(200, {"object": "chat.completion", "choices": [choice], "usage": usage, "timings": timings})

    def begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def piece(self, delta: dict, finish: str | None, timings: dict | None = None) -> None:
        event: dict = {
            "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }
        self.chunk("data: " + json.dumps(event | ({"timings": timings} if timings else {})) + "\n\n")

    def chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


def flood(total_bytes: int) -> None:
    line = b"slot update_slots: id  0 | task 0 | n_past = 1234, a line like the real ones " + b"." * 50 + b"\n"
    for number in range(total_bytes // len(line)):
        (sys.stderr if number % 2 else sys.stdout).buffer.write(line)
    sys.stdout.flush()
    sys.stderr.flush()


def leave(how: str) -> None:
    if how.lstrip("-").isdigit():
        os._exit(int(how))
    os.kill(os.getpid(), getattr(signal, "SIG" + how))


def misfortunes() -> None:
    """What happens besides serving: floods, exits, deaths."""
    if "garbage" in FAKE:
        sys.stderr.buffer.write(b"\xff\xfe\x00 no text \x1b[31m\n" + b"x" * 3_000_000 + b"\n")
        sys.stderr.flush()
    if "flood_bytes" in FAKE:
        flood(int(FAKE["flood_bytes"]))
    while not is_ready() and ("load_log_s" in FAKE or "load_busy" in FAKE):
        if "load_log_s" in FAKE:
            say("load_tensors: still at it")
            time.sleep(float(FAKE["load_log_s"]))
    if "exit" in FAKE:
        while not is_loaded():
            time.sleep(0.01)
        leave(FAKE["exit"])


def main() -> None:
    if "ignore_term" in FAKE:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if "grandchild" in FAKE:
        code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(120)"
        subprocess.Popen([sys.executable, "-c", code])
    if "say" in FAKE:
        say(FAKE["say"])
    if "silent" in FAKE:
        time.sleep(3600)
    if "oom" in FAKE:
        say("E ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 274877906944")
        say("E llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache")
        raise SystemExit(1)
    try:
        server = ThreadingHTTPServer((ARGS.host, ARGS.port), Handler)
    except OSError:
        say(f"E srv         start: couldn't bind HTTP server socket, hostname: {ARGS.host}, port: {ARGS.port}")
        raise SystemExit(1) from None
    server.daemon_threads = True
    say(f"I srv    load_model: loading model '{ARGS.model}'")
    threading.Thread(target=misfortunes, daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
