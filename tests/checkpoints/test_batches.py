"""The examples of a step depend on the step alone."""

from __future__ import annotations

import pytest

from arc_toolkit.checkpoints import Batches

EXPECTED = [8, 9, 0, 3, 7, 4, 1, 5, 2, 6]


def test_an_epoch_has_every_example_once() -> None:
    batches = Batches(103, 10, seed=4)
    assert len(batches) == 11
    for epoch in range(3):
        seen = [index for place in range(11) for index in batches[epoch * 11 + place]]
        assert sorted(seen) == list(range(103))


def test_a_step_is_the_same_in_every_process_and_order() -> None:
    forwards = [Batches(50, 7, seed=1)[step] for step in range(20)]
    batches = Batches(50, 7, seed=1)
    assert [batches[step] for step in reversed(range(20))][::-1] == forwards


def test_epochs_and_seeds_differ() -> None:
    batches = Batches(50, 50, seed=1)
    assert batches[0] != batches[1]
    assert batches[0] != Batches(50, 50, seed=2)[0]
    assert batches[0] != list(range(50))


def test_the_order_stays_the_same_in_later_versions() -> None:
    """Written down on 2026-11-17: an interrupted run may be resumed with a newer Python and a newer arc-toolkit."""
    assert Batches(10, 5, seed=0)[0] == EXPECTED[:5]
    assert Batches(10, 5, seed=0)[1] == EXPECTED[5:]


def test_without_shuffling() -> None:
    batches = Batches(5, 2, shuffle=False)
    assert [batches[step] for step in range(4)] == [[0, 1], [2, 3], [4], [0, 1]]
    assert len(Batches(5, 2, drop_last=True)) == 2


def test_ranks_share_a_batch() -> None:
    whole = Batches(40, 8, seed=3)[7]
    parts = [Batches(40, 8, seed=3, rank=rank, world_size=3)[7] for rank in range(3)]
    assert sorted(index for part in parts for index in part) == sorted(whole)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_an_iteration_is_one_epoch_and_the_first_begins_in_the_middle() -> None:
    batches = Batches(12, 4, seed=1)
    batches.start = 4
    assert list(batches) == [batches[4], batches[5]]
    assert list(batches) == [batches[6], batches[7], batches[8]]


def test_a_loop_that_does_not_ask_for_the_end_still_goes_on() -> None:
    batches = Batches(12, 4, seed=1)
    first = iter(batches)
    assert [next(first) for _ in range(3)] == [batches[0], batches[1], batches[2]]
    assert next(iter(batches)) == batches[3]


@pytest.mark.parametrize("words", [(0, 1), (5, 0), (-1, 2)])
def test_what_makes_no_sense_is_refused(words: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="examples"):
        Batches(*words)
    with pytest.raises(ValueError, match="rank"):
        Batches(5, 2, rank=2, world_size=2)
    with pytest.raises(ValueError, match="no batch is left"):
        Batches(5, 6, drop_last=True)
    with pytest.raises(IndexError):
        Batches(5, 2)[-1]


def test_what_is_left_of_an_epoch() -> None:
    batches = Batches(10, 3)
    assert batches.steps_in_epoch == 4
    batches.start = 7
    assert batches.steps_in_epoch == 1
    batches.start = 8
    assert batches.steps_in_epoch == 4
