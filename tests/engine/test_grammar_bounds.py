"""A grammar may be anything a client sends: one that nests without end costs its own request only."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.engine

DEEP = 100_000


@pytest.fixture(scope="module")
def server(start_server):
    with start_server("-c", "512", "-np", "1", "-t", "1", "--alias", "starter") as running:
        yield running


def status(server, grammar: str) -> int:
    return server.http.post("/completion", json={"prompt": "a", "n_predict": 1, "grammar": grammar}).status_code


def chain(length: int) -> str:
    rules = [f"r{n} ::= r{n + 1}" for n in range(length)]
    return "\n".join(["root ::= r0", *rules, f'r{length} ::= "a"'])


def test_groups_within_groups_are_refused_before_they_use_up_the_stack(server) -> None:
    assert status(server, "root ::= " + "(" * DEEP + '"a"' + ")" * DEEP) == 400
    assert status(server, "root ::= " + "(" * 100 + '"a"' + ")" * 100) == 200


def test_rules_that_begin_with_one_another_without_end_are_refused(server) -> None:
    assert status(server, chain(DEEP)) == 400
    assert status(server, chain(1000)) == 200
    assert server.process.poll() is None


def test_groups_side_by_side_are_not_nested(server) -> None:
    assert status(server, "root ::= " + '("a")' * 1000) == 200
