"""Every numeric field has a documented range: outside it is 400, inside it is obeyed."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def server(start_server):
    with start_server(
        "-c", "2048", "-np", "2", "-t", "1", "--cors-origins", "localhost", "--alias", "starter"
    ) as running:
        yield running


CHAT = "/v1/chat/completions"
HI = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}

REFUSED = [
    {"max_tokens": -2},
    {"max_tokens": "8"},
    {"max_tokens": 8.5},
    {"max_tokens": True},
    {"max_tokens": 2**31},
    {"max_tokens": 2**63},
    {"max_tokens": 2**64 + 8},
    {"max_completion_tokens": -2},
    {"n_predict": 1e300},
    {"n": 0},
    {"n": -1},
    {"n": 3},
    {"temperature": -1},
    {"temperature": "warm"},
    {"temperature": 1e39},
    {"top_p": 7},
    {"top_p": -0.1},
    {"min_p": 1.5},
    {"top_k": -5},
    {"top_k": 2**40},
    {"repeat_penalty": 0},
    {"seed": 2**40},
    {"seed": -2},
    {"mirostat": 3},
    {"logprobs": True, "top_logprobs": -1},
    {"logit_bias": {"99999999": 5}},
    {"logit_bias": {"5": "much"}},
    {"logit_bias": [[2**32 + 5, 1]]},
    {"logit_bias": [5]},
    {"logit_bias": 5},
    {"stop": ""},
    {"stop": ["x", ""]},
    {"stop": [1, None]},
    {"stop": 5},
    {"stream": "yes"},
]


@pytest.mark.parametrize("fields", REFUSED, ids=str)
def test_a_field_out_of_range_is_refused_by_name(server, fields):
    answer = server.http.post(CHAT, json=HI | fields)
    assert answer.status_code == 400, answer.text
    message = answer.json()["error"]["message"]
    names = fields.keys() | ({"n_probs"} if "top_logprobs" in fields else set())
    assert any(f"'{name}'" in message for name in names), message


ACCEPTED = [
    {"max_tokens": None},
    {"max_tokens": 1.0},
    {"top_k": -1},
    {"top_p": 1, "min_p": 0, "temperature": 0},
    {"seed": -1},
    {"seed": 2**32 - 1},
    {"logit_bias": {"5": -100, "6": False}},
    {"logit_bias": {}},
    {"stop": None},
    {"stop": []},
    {"logprobs": False},
    {"logprobs": True, "top_logprobs": 2},
    {"model": "a name nobody loaded"},
]


@pytest.mark.parametrize("fields", ACCEPTED, ids=str)
def test_values_at_the_edge_of_their_range_are_accepted(server, fields):
    answer = server.http.post(CHAT, json=HI | {"stop": ["\n"]} | fields | {"n_predict": 1})
    assert answer.status_code == 200, answer.text
    assert answer.json()["model"] == "starter"  # whoever asks for another name is told who answered


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/completion", "/v1/completions", CHAT])
def test_a_limit_of_zero_reads_the_prompt_and_generates_nothing(server, path, stream):
    body = HI | {"prompt": "Once upon a time", "max_tokens": 0, "stream": stream}
    answer = server.http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    text = answer.text
    assert '"predicted_n":0' in text
    assert '"prompt_n":' in text
    assert '"limit"' in text or '"finish_reason":"length"' in text


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens", "n_predict"])
def test_each_name_of_the_token_limit_is_obeyed(server, field):
    body = {"messages": [{"role": "user", "content": "Tell me a long story."}], field: 3}
    assert server.http.post(CHAT, json=body).json()["usage"]["completion_tokens"] == 3


def test_n_gives_that_many_choices(server):
    choices = server.http.post(CHAT, json=HI | {"n": 2}).json()["choices"]
    assert [choice["index"] for choice in choices] == [0, 1]
