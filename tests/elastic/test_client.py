"""The client waits for a controller that does not answer, says so, and gives up at some time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from arc_toolkit.elastic import ray_cluster
from arc_toolkit.errors import ArcError


class GetTimeoutError(Exception):
    pass


class RayActorError(Exception):
    pass


class FakeRay:
    """Answers are given one by one; a call that times out takes as long as the client allows."""

    exceptions = SimpleNamespace(GetTimeoutError=GetTimeoutError, RayActorError=RayActorError)

    def __init__(self, *answers: Any) -> None:
        self.answers, self.now = list(answers), 0.0

    def get(self, request: Any, timeout: float) -> Any:
        answer = self.answers.pop(0) if self.answers else GetTimeoutError()
        if isinstance(answer, Exception):
            self.now += timeout if isinstance(answer, GetTimeoutError) else 0.0
            raise answer
        return answer


def status(
    address: str = "a", code: int | None = None, events: int = 0, lines: int = 0
) -> dict[str, Any]:
    return {"events": [{}] * events, "lines": lines, "address": address, "code": code}


@pytest.fixture
def follow(monkeypatch: pytest.MonkeyPatch) -> Any:
    def follow(ray: FakeRay) -> tuple[Any, list[tuple[Any, ...]]]:
        asked: list[tuple[Any, ...]] = []
        controller = SimpleNamespace(
            status=SimpleNamespace(remote=lambda *counts: asked.append(counts))
        )
        clock = SimpleNamespace(monotonic=lambda: ray.now, sleep=lambda _: None)
        monkeypatch.setattr(ray_cluster, "time", clock)
        return ray_cluster.follow(ray, controller, 5.0, "client"), asked

    return follow


def test_a_controller_that_never_answers_is_waited_for_180_seconds(follow: Any) -> None:
    ray = FakeRay(status())
    statuses, _ = follow(ray)
    assert next(statuses)["code"] is None
    assert [next(statuses)["silent"] for _ in range(18)] == [
        10.0 * number for number in range(1, 19)
    ], "a line every 10 s"
    with pytest.raises(ArcError, match="has not answered for 190 s"):
        next(statuses)


def test_an_answer_ends_the_wait(follow: Any) -> None:
    silence = [GetTimeoutError()] * 17
    ray = FakeRay(status(), *silence, status(), *silence, status(code=0))
    statuses, _ = follow(ray)
    assert len(list(statuses)) == 3 + 34


def test_a_controller_that_came_back_is_asked_for_all_of_its_output(follow: Any) -> None:
    ray = FakeRay(
        status(events=2, lines=7), status("b", lines=1), status("b", events=1, lines=2, code=0)
    )
    statuses, asked = follow(ray)
    assert [item["address"] for item in statuses] == ["a", "b"]
    assert asked == [("client", 0, 0, 5.0), ("client", 2, 7, 5.0), ("client", 2, 0, 5.0)]


def test_what_was_seen_is_not_given_again(follow: Any) -> None:
    statuses, _ = follow(FakeRay(status(events=2, lines=7), status(events=1, lines=9, code=0)))
    assert [item["seen"] for item in statuses] == [(2, 7), (3, 9)]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (GetTimeoutError(), "the controller of the run has not answered for 180 s"),
        (
            RayActorError("the actor died\nbecause of this"),
            "the controller of the run is gone: the actor died$",
        ),
    ],
)
def test_a_run_that_cannot_be_asked_to_stop_is_one_sentence(answer: Exception, reason: str) -> None:
    controller = SimpleNamespace(stop=SimpleNamespace(remote=lambda: None))
    assert ray_cluster.stop(FakeRay((3, 5)), controller) == (3, 5)
    with pytest.raises(ArcError, match=reason):
        ray_cluster.stop(FakeRay(answer), controller)


def test_a_controller_that_is_gone_is_one_sentence(follow: Any) -> None:
    statuses, _ = follow(FakeRay(RayActorError("the actor died\nbecause of this")))
    with pytest.raises(ArcError, match=r"the controller of the run is gone: the actor died$"):
        list(statuses)


def test_why_an_agent_failed_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class RayTaskError(Exception):
        pass

    def get(error: Exception) -> None:
        raise error

    exceptions = SimpleNamespace(RayTaskError=RayTaskError)
    ray = SimpleNamespace(wait=lambda refs, timeout: (refs, []), get=get, exceptions=exceptions)
    monkeypatch.setattr(ray_cluster, "import_ray", lambda: ray)
    notes: list[tuple[str, str]] = []
    nodes = ray_cluster.RayNodes("fig", 1, 0, 2, lambda *note: notes.append(note))
    for pid in (1, 2):
        nodes._agents["a"] = RayTaskError(
            f"ray::RayAgent.run() (pid={pid})\n  File x\nOSError: no space left"
        )
        nodes._report_failures()
    nodes._agents["b"] = RayActorError("it could not be created.\nno Python")
    nodes._report_failures()
    nodes._welcomed.add("c")
    nodes._agents["c"] = RayActorError("its node has died")
    nodes._report_failures()
    assert notes == [
        ("a", "its agent failed: OSError: no space left"),
        ("b", "its agent failed: it could not be created. no Python"),
    ], "the loss of a node is known without that"
    assert not nodes._agents
