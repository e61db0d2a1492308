"""The official client works against the endpoint, keyed and with two slots for eight callers."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from patience import eventually, promptly

pytestmark = pytest.mark.engine

KEY = "k-5f1d2c"
HELLO = [{"role": "user", "content": "Say hello."}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"enum": ["Oslo"]}}, "required": ["city"]},
    },
}


@pytest.fixture(scope="module")
def server(start_server):
    with start_server("-c", "2048", "-np", "2", "-t", "1", "--alias", "starter", env={"LLAMA_API_KEY": KEY}) as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=server.url + "/v1", api_key=KEY, max_retries=0, timeout=60) as made:
        yield made


def test_the_model_list_names_the_loaded_model(client):
    assert [model.id for model in client.models.list()] == ["starter"]


def test_a_chat_is_answered_whole_and_streamed_alike(client):
    options = {"model": "starter", "messages": HELLO, "max_tokens": 12, "temperature": 0}
    answer = client.chat.completions.create(**options).choices[0]
    stream = client.chat.completions.create(**options, stream=True, stream_options={"include_usage": True})
    chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == answer.message.content
    assert chunks[-1].usage.completion_tokens == 12 or answer.finish_reason == "stop"


def test_a_completion_is_answered(client):
    answer = client.completions.create(model="starter", prompt="1 2 3 4", max_tokens=6, temperature=0)
    assert answer.choices[0].text.startswith(" 5")


def test_a_json_schema_shapes_the_answer(client):
    schema = {
        "type": "object",
        "properties": {"mood": {"enum": ["fine"]}},
        "required": ["mood"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "mood", "strict": True, "schema": schema}}
    answer = client.chat.completions.create(
        model="starter", messages=HELLO, response_format=form, max_tokens=60, temperature=0
    )
    assert json.loads(answer.choices[0].message.content) == {"mood": "fine"}


def test_a_tool_call_makes_the_round_trip(client):
    asked = [{"role": "user", "content": "Weather in Oslo?"}]
    options = {"model": "starter", "tools": [WEATHER], "temperature": 0}
    forced = {"type": "function", "function": {"name": "get_weather"}}
    message = (
        client.chat.completions.create(**options, messages=asked, tool_choice=forced, max_tokens=80).choices[0].message
    )
    call = message.tool_calls[0]
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Oslo"})
    result = {"role": "tool", "tool_call_id": call.id, "content": "rain, 3 degrees"}
    told = client.chat.completions.create(
        **options, messages=[*asked, message, result], tool_choice="none", max_tokens=8
    )
    assert told.choices[0].message.content


def test_eight_streams_at_once_each_get_their_own_answer(client):
    def count(first: int) -> str:
        prompt = " ".join(str(n) for n in range(first, first + 4))
        stream = client.completions.create(model="starter", prompt=prompt, max_tokens=4, temperature=0, stream=True)
        return "".join(chunk.choices[0].text for chunk in stream)

    with ThreadPoolExecutor(8) as callers:
        answers = list(callers.map(count, range(1, 9)))
    assert [answer.split()[0] for answer in answers] == [str(first + 4) for first in range(1, 9)]


def test_a_stream_closed_in_the_middle_frees_its_slot(server, client):
    headers = {"Authorization": f"Bearer {KEY}"}

    def is_busy() -> bool:
        return any(slot["is_processing"] for slot in server.http.get("/slots", headers=headers).json())

    def freed_s() -> float:
        stream = client.completions.create(
            model="starter", prompt="Once", max_tokens=900, stream=True, extra_body={"ignore_eos": True}
        )
        next(iter(stream))
        stream.close()
        closed = time.monotonic()
        eventually(lambda: not is_busy())
        return time.monotonic() - closed

    promptly(freed_s, 3)


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_longer_than_a_slot_is_refused_with_both_counts(client, stream):
    too_long = [{"role": "user", "content": "word " * 3000}]
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="starter", messages=too_long, stream=stream)
    assert refused.value.body["n_ctx"] == 1024
    assert refused.value.body["n_prompt_tokens"] > 3000
    assert "1024" in refused.value.message


def test_a_wrong_key_is_an_authentication_error(server):
    with (
        openai.OpenAI(base_url=server.url + "/v1", api_key="wrong", max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError),
    ):
        stranger.models.list()
