"""Who may use the endpoint: this machine's own programs and pages, and whoever holds the key."""

from __future__ import annotations

import subprocess

import pytest

pytestmark = pytest.mark.engine

KEY = "k-5f1d2c"
HERE = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture(scope="module")
def key_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("key") / "key"
    path.write_bytes(b"# console\r\n" + KEY.encode() + b" \r\n")
    return path


@pytest.fixture(scope="module")
def server(start_server, key_file):
    flags = ("-c", "2048", "-np", "2", "-t", "1", "--cors-origins", "localhost", "--api-key-file", str(key_file))
    with start_server(*flags, env={"KVARN_ALLOWED_HOSTS": "box.lan, other.lan"}) as running:
        yield running


def status(server, path="/v1/models", method="GET", **headers: str) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return server.http.request(method, path, headers=named).status_code


@pytest.mark.parametrize(
    "host",
    [
        "attacker.example",
        "attacker.example:5827",
        "127.0.0.1.evil.example",
        "localhost.evil",
        "192.168.1.20",
        "[2001:db8::1]:80",
        "evil-localhost",
        "internal.example",
        "127.evil.example",
    ],
)
@pytest.mark.parametrize("path", ["/v1/models", "/health"])
def test_a_foreign_host_is_refused_on_every_path(server, host, path):
    assert status(server, path, Host=host, **HERE) == 403


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LocalHost:5827",
        "127.0.0.1",
        "127.8.9.1:80",
        "[::1]:9",
        "app.localhost:1",
        "host.docker.internal:5827",
        "box.lan",
        "other.lan:443",
    ],
)
def test_names_of_this_machine_and_those_the_owner_allows_pass(server, host):
    assert status(server, Host=host, **HERE) == 200


def test_a_foreign_web_page_is_refused_even_with_the_key(server):
    for method in ("GET", "OPTIONS"):
        answer = server.http.request(method, "/v1/models", headers=HERE | {"Origin": "https://evil.example"})
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers
    assert answer.json()["error"]["type"] == "permission_error"


@pytest.mark.parametrize("origin", ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:8080"])
def test_a_local_web_page_passes_its_pre_check_without_the_key(server, origin):
    pre_check = server.http.options(
        "/v1/chat/completions", headers={"Origin": origin, "Access-Control-Request-Method": "POST"}
    )
    assert pre_check.status_code == 200
    assert pre_check.headers["access-control-allow-origin"] == origin
    assert "POST" in pre_check.headers["access-control-allow-methods"]
    assert server.http.get("/v1/models", headers={"Origin": origin}).status_code == 401
    assert server.http.get("/v1/models", headers=HERE | {"Origin": origin}).status_code == 200


@pytest.mark.parametrize("origin", ["vscode-webview://abc", "app://obsidian.md", "null"])
def test_an_editor_with_its_own_scheme_is_not_taken_for_a_web_page(server, origin):
    assert status(server, Origin=origin, **HERE) == 200


@pytest.mark.parametrize(("kind", "status"), [("application/json", 200), ("text/plain", 403), (None, 403)])
def test_a_page_without_an_origin_may_not_post_what_needs_no_pre_check(server, kind, status):
    headers = HERE | {"Origin": "null"} | ({"Content-Type": kind} if kind else {})
    answer = server.http.post("/tokenize", content='{"content": "hi"}', headers=headers)
    assert answer.status_code == status, answer.text


@pytest.mark.parametrize("header", [f"Bearer {KEY}", f"bearer {KEY}", f"BEARER   {KEY}", f"Bearer\t{KEY}", KEY])
def test_every_lawful_way_to_send_the_key_is_read(server, header):
    assert status(server, Authorization=header) == 200


def test_the_other_header_is_read_too(server):
    assert status(server, X_Api_Key=KEY) == 200


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer wrong", f"Basic {KEY}", f"Bearer{KEY}", f"Bearer {KEY}x"])
def test_anything_else_is_a_wrong_key(server, header):
    assert status(server, **({"Authorization": header} if header else {})) == 401


@pytest.mark.parametrize("path", ["/props", "/metrics", "/slots", "/v1/models", "/models"])
def test_only_health_is_open(server, path):
    assert status(server, path) == 401
    assert status(server, "/health") == 200


def test_the_key_is_in_no_argument_and_no_log(server):
    assert KEY not in " ".join(server.process.args)
    assert KEY not in server.log.read_text(errors="replace")


def test_the_key_may_come_by_environment(start_server):
    with start_server("-c", "512", env={"LLAMA_API_KEY": KEY}) as other:
        assert status(other) == 401
        assert status(other, **HERE) == 200


@pytest.mark.parametrize("port", ["65536", "99999", "-1"])
def test_a_port_that_does_not_exist_is_refused(engine_dir, starter_model, port):
    assert "--port must be between 1 and 65535" in refusal(engine_dir, "-m", starter_model, "--port", port)


@pytest.mark.parametrize("content", ["", "\n\n", "# only a comment\n"])
def test_a_key_file_without_a_key_does_not_open_the_server(engine_dir, starter_model, tmp_path, content):
    path = tmp_path / "key"
    path.write_text(content)
    assert "holds no API key" in refusal(engine_dir, "-m", starter_model, "--api-key-file", path)


def refusal(engine_dir, *words) -> str:
    done = subprocess.run(
        [engine_dir / "llama-server", *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    return done.stderr + done.stdout
