"""Restarts and what only looks like one, in metrics as real loggers write them.

Lightning's loggers add `epoch` (an integer) to every call and use the global step; Hugging Face's Trainer logs `epoch`
as a fraction at the global step; Keras with MLflow logs once per epoch with the epoch as step; AzureML's `Run.log` has
no step, so the step is the row number; MLflow's `system/` metrics have a counter of their own, which goes on after a
restart.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable

import pytest

from arc_toolkit.diagnosis.assemble.restarts import restarts_in
from arc_toolkit.diagnosis.model import Restart
from arc_toolkit.diagnosis.read.sources.metric_points import Point

START = 1_700_000_000.0


def falling(step: float) -> float:
    return 2.3 / (1 + step / 20)


def ramp(step: float) -> float:
    return min(step / 40, 1.0) * 1e-4


class Run:
    """A run that writes points; `now` is its clock."""

    def __init__(self) -> None:
        self.now = START
        self.points: list[Point] = []

    def log(self, step: int, **values: float) -> None:
        self.points += [
            Point(key.replace("__", "/"), step, self.now, value) for key, value in values.items()
        ]

    def train(self, steps: Iterable[int], every: float = 10.0, per_epoch: int = 0) -> Run:
        """Loss and learning rate at each step; with `per_epoch`, the epoch beside them, as Lightning does."""
        for step in steps:
            more = {"epoch": float(step // per_epoch)} if per_epoch else {}
            self.log(step, loss=falling(step), lr=ramp(step), **more)
            self.now += every
        return self

    def wait(self, seconds: float) -> Run:
        self.now += seconds
        return self

    def restarts(self) -> list[Restart]:
        return restarts_in("run", self.points)


# --- restarts without any silence -------------------------------------------------------------------------------


def test_two_keys_that_go_back_together_are_a_restart_without_a_pause() -> None:
    [restart] = Run().train(range(0, 2001, 100)).train(range(1500, 4000, 100)).restarts()
    assert (restart.kind, restart.last_step, restart.first_step) == ("resumed", 2000, 1500)
    assert restart.keys == ("loss", "lr")
    assert restart.confidence == "medium"  # no pause to confirm it


def test_one_key_that_goes_back_without_a_pause_is_a_guess_and_only_if_there_is_no_other() -> None:
    """TensorBoard exports one key per file."""
    points = Run().train(range(0, 2001, 100)).train(range(1500, 4000, 100)).points
    loss = [point for point in points if point.key == "loss"]
    [restart] = restarts_in("run", loss)
    assert (restart.kind, restart.last_step, restart.first_step) == ("resumed", 2000, 1500)
    assert restart.confidence == "low"
    goes_on = [Point("lr", row * 100, point.time, 0.1) for row, point in enumerate(loss)]
    assert not restarts_in("run", [*loss, *goes_on])


def test_restart_from_scratch_without_a_pause_is_not_an_epoch_if_the_values_start_over() -> None:
    [restart] = Run().train(range(60)).train(range(100)).restarts()
    assert (restart.kind, restart.last_step, restart.first_step) == ("from-scratch", 59, 0)


def test_step_that_starts_again_with_the_second_epoch_is_not_a_restart_if_the_loss_goes_on() -> (
    None
):
    run = Run()
    for total in range(150):
        run.log(total % 100, loss=falling(total), accuracy=1 - falling(total) / 3)
        run.now += 10
    assert not run.restarts()


def test_hugging_face_resumes_from_its_checkpoint_without_a_pause() -> None:
    run = Run()
    for step in [*range(10, 530, 10), *range(410, 1000, 10)]:
        run.log(
            step, loss=falling(step), grad_norm=1.0, learning_rate=1e-5, epoch=round(step / 300, 2)
        )
        run.now += 30
    [restart] = run.restarts()
    assert (restart.kind, restart.last_step, restart.first_step) == ("resumed", 520, 410)
    assert "epoch" in restart.keys


def test_epoch_that_falls_is_a_restart_although_every_step_is_zero() -> None:
    run = Run()
    for epoch in [*range(8), *range(10)]:
        run.log(0, epoch=epoch)
        run.wait(30)
    [restart] = run.restarts()
    assert restart.kind == "from-scratch"


def test_epoch_that_falls_is_a_restart_although_the_step_is_a_row_number_that_goes_on() -> None:
    run = Run()
    for row, epoch in enumerate([*range(8), *range(3, 12)]):
        run.log(row, epoch=epoch, accuracy=0.5)
        run.wait(300)
    [restart] = run.restarts()
    assert (restart.kind, restart.keys) == ("resumed", ("epoch",))
    assert (restart.last_step, restart.first_step, restart.lost_steps) == (None, None, None)


def test_epoch_that_goes_back_by_one_is_a_restart() -> None:
    run = Run()
    for epoch in (0, 1, 2, 3, 2, 3, 4, 5):
        run.log(0, epoch=epoch)
        run.wait(600)
    [restart] = run.restarts()
    assert restart.kind == "resumed"


def test_system_metrics_that_go_on_counting_do_not_deny_a_restart() -> None:
    run = Run().train(range(0, 1000, 10)).wait(300).train(range(500, 1500, 10))
    points = [point for point in run.points if point.key == "loss"]
    times = [at for at in range(0, int(run.now - START), 10) if not 1000 < at < 1300]
    points += [
        Point("system/gpu_0_memory", 9 * number, START + at, 50.0)
        for number, at in enumerate(times)
    ]
    [restart] = restarts_in("run", points)
    assert (restart.last_step, restart.first_step) == (990, 500)


def test_many_restarts_of_a_job_that_never_gets_far() -> None:
    run = Run().train(range(40))
    for end in (35, 52, 31, 60):
        run.wait(400).train(range(10, end))
    assert [restart.first_step for restart in run.restarts()] == [10, 10, 10, 10]


# --- the index goes on, the values start over -------------------------------------------------------------------


def rows(parts: list[int], pause: float, every: float = 10.0, keys: str = "loss lr") -> list[Point]:
    """AzureML's Run.log: the step is the row number, and the values start over with each part."""
    points, now, row = [], START, 0
    for length in parts:
        for step in range(length):
            values = {"loss": falling(step), "lr": ramp(step), "accuracy": 1 - falling(step) / 3}
            points += [Point(key, row, now, values[key]) for key in keys.split()]
            row, now = row + 1, now + every
        now += pause
    return points


def test_values_that_start_over_after_a_pause_are_a_restart() -> None:
    [restart] = restarts_in("run", rows([60, 60], 900))
    assert (restart.kind, restart.last_step, restart.first_step) == ("from-scratch", 59, 60)
    assert restart.time == START + 600 + 900
    assert restart.confidence in ("low", "medium")
    assert restart.keys == ("loss", "lr")


@pytest.mark.parametrize("pause", [0, 900])
def test_values_that_start_over_after_few_points_are_one_restart(pause: float) -> None:
    """Also if they fall fast: the second value is a jump too."""
    run = Run()
    for row, step in enumerate([*range(15), *range(40)]):
        run.wait(pause if row == 15 else 0)
        run.log(row, loss=2 / (1 + step / 5), accuracy=1 - 1 / (1 + step / 5))
        run.wait(10)
    [restart] = run.restarts()
    assert restart.first_step == 15


def test_values_that_start_over_twice_are_two_restarts() -> None:
    assert len(restarts_in("run", rows([60, 35, 80], 900))) == 2


def test_the_picture_of_the_guide_a_warm_up_that_is_interrupted_after_six_epochs() -> None:
    learning_rates = [step / 10 * 1e-3 for step in (1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 7, 8, 9)]
    points = [
        Point("lr", row, START + 600 * row, value) for row, value in enumerate(learning_rates)
    ]
    [restart] = restarts_in("run", points)
    assert (restart.kind, restart.confidence, restart.keys) == ("from-scratch", "low", ("lr",))


def test_values_that_start_over_without_a_pause_need_two_keys_or_the_same_values_again() -> None:
    [restart] = restarts_in("run", rows([60, 80], 0, keys="loss accuracy"))
    assert restart.confidence == "low"
    only = rows([60, 80], 0, keys="loss")
    [restart] = restarts_in("run", only)
    assert (restart.kind, restart.first_step, restart.confidence) == ("from-scratch", 60, "low")
    similar = [
        point._replace(value=point.value * 1.2) if point.step >= 60 else point for point in only
    ]
    assert not restarts_in("run", similar)  # another data set, or a phase of its own
    steady = [Point("accuracy", point.step, point.time, 0.5) for point in only]
    assert not restarts_in("run", [*only, *steady])


def test_noisy_values_that_start_over_after_a_pause_are_a_restart() -> None:
    noise = random.Random(7)
    points = [
        point._replace(value=point.value * (1 + noise.gauss(0, 0.05)))
        for point in rows([120, 160], 900, keys="loss accuracy")
    ]
    [restart] = restarts_in("run", points)
    assert restart.first_step == 120


# --- what only looks like a restart -----------------------------------------------------------------------------


def cosine(step: int) -> float:
    return 1e-4 * (1 + math.cos(math.pi * (step % 25) / 25)) / 2


def triangle(step: int) -> float:
    return 1e-4 * (1 - abs(step % 50 - 25) / 25)


def warm_restarts(step: int) -> float:
    """A short warm-up from the lowest rate in each cycle, then cosine."""
    at = step % 50
    return 1e-4 * (at / 5 if at < 5 else (1 + math.cos(math.pi * (at - 5) / 45)) / 2)


@pytest.mark.parametrize("schedule", [cosine, triangle, warm_restarts])
@pytest.mark.parametrize("pause", [0, 900])
@pytest.mark.parametrize("with_loss", [True, False])
def test_learning_rate_schedules_with_cycles(
    schedule: Callable[[int], float], pause: float, with_loss: bool
) -> None:
    run = Run()
    for step in range(400):
        run.log(step, lr=schedule(step), momentum=0.95 - 1000 * schedule(step))
        if with_loss:
            run.log(step, loss=falling(step))
        run.wait(10 + (pause if step == 174 else 0))  # a long validation in the middle
    assert not run.restarts()


def test_cycle_that_ends_exactly_at_a_pause_is_not_a_restart_while_the_loss_goes_on() -> None:
    run = Run()
    for step in range(400):
        run.log(step, lr=cosine(step), loss=falling(step))
        run.wait(10 + (900 if step == 199 else 0))
    assert not run.restarts()


def test_loss_that_diverges_to_its_first_value_and_stays_there() -> None:
    run = Run()
    for step in range(300):
        lost = step >= 200
        run.log(
            step,
            loss=2.3 if lost else falling(step),
            accuracy=0.1 if lost else 1 - falling(step) / 2.55,
        )
        run.wait(10)
    assert not run.restarts()


def test_loss_that_has_just_diverged_does_not_take_the_same_way_again() -> None:
    run = Run()
    for step in range(315):
        lost = step >= 300
        run.log(
            step, loss=2.3 if lost else 2.3 - step / 200, accuracy=0.1 if lost else 0.1 + step / 400
        )
        run.wait(10)
    assert not run.restarts()


def test_metric_that_starts_over_while_another_goes_on() -> None:
    """A harder level begins after a pause: the reward starts over, the loss does not."""
    run = Run()
    for step in range(200):
        run.log(step, reward=float(min(step % 100, 60)), loss=falling(step))
        run.wait(10 + (900 if step == 99 else 0))
    assert not run.restarts()
    assert restarts_in("run", [point for point in run.points if point.key == "reward"])


def test_metric_that_starts_over_with_each_epoch_is_not_a_restart_although_one_epoch_ends_with_a_pause() -> (
    None
):
    run = Run()
    for step in range(500):
        run.log(step, progress=step % 100 / 100)
        run.wait(10 + (900 if step == 99 else 0))
    assert not run.restarts()


def test_spike_of_the_loss_that_recovers() -> None:
    run = Run()
    for step in range(300):
        spike = 2.0 * math.exp(-(step - 200) / 4) if step >= 200 else 0.0
        run.log(step, loss=falling(step) + spike, grad_norm=1 + 10 * spike)
        run.wait(10 + (120 if step == 199 else 0))
    assert not run.restarts()


def test_losses_of_a_gan_and_rewards_go_up_and_down() -> None:
    noise = random.Random(3)
    for seed_pause in (0, 600):
        run = Run()
        for step in range(500):
            run.log(
                step,
                d_loss=0.7 + 0.3 * math.sin(step / 17) + noise.gauss(0, 0.1),
                g_loss=1.4 - 0.6 * math.sin(step / 17) + noise.gauss(0, 0.2),
                reward=100 * abs(math.sin(step / 60)) + noise.gauss(0, 20),
            )
            run.wait(10 + (seed_pause if step % 125 == 124 else 0))
        assert not run.restarts()


def test_noisy_first_values_are_not_a_restart() -> None:
    noise = random.Random(11)
    run = Run()
    for step in range(300):
        run.log(
            step,
            loss=falling(step) * (1 + noise.gauss(0, 0.5 if step < 15 else 0.2)),
            accuracy=noise.random(),
        )
        run.wait(10 + (300 if step in (30, 150) else 0))
    assert not run.restarts()


def test_epochs_of_different_lengths_are_not_restarts_if_the_loss_goes_on() -> None:
    """Batches by length: the second epoch has more of them."""
    run = Run()
    for total, step in enumerate([*range(100), *range(130)]):
        run.log(step, loss=falling(total), accuracy=1 - falling(total) / 3)
        run.wait(10)
    assert not run.restarts()


def test_step_that_starts_again_with_each_epoch_while_the_epoch_rises() -> None:
    for pause in (0, 120):
        run = Run()
        for epoch in range(2):
            for step in range(100):
                run.log(step, loss=falling(100 * epoch + step), accuracy=0.5)
                run.wait(10)
            run.log(
                epoch, epoch=epoch, val_loss=falling(100 * epoch)
            )  # once, at the end of the epoch
            run.wait(pause)
        assert not run.restarts()


@pytest.mark.parametrize("batches", [(50, 50), (50, 80)])
def test_validation_with_a_counter_of_its_own_that_starts_again_each_time(
    batches: tuple[int, int],
) -> None:
    """Two validations so far, an hour of training between them."""
    run = Run()
    for part, count in enumerate(batches):
        run.train(range(360 * part, 360 * (part + 1)))
        for batch in range(count):
            run.log(batch, eval__loss=1.0 + batch % 7, eval__accuracy=0.5 + batch % 5 / 10)
            run.wait(2)
    run.train(range(720, 800))
    assert not run.restarts()
    assert not restarts_in(
        "run", [point._replace(value=1.0) for point in run.points]
    )  # by the steps alone


def test_validation_that_is_logged_once_per_epoch_with_the_epoch_as_step() -> None:
    run = Run()
    for epoch in range(5):
        run.train(range(100 * epoch, 100 * (epoch + 1))).wait(90)
        run.log(epoch, val_loss=falling(100 * epoch), val_accuracy=0.5)
    assert not run.restarts()
    points = run.wait(300).train(range(200, 300)).points
    [restart] = restarts_in("run", points)
    assert (restart.kind, restart.last_step, restart.first_step) == ("resumed", 499, 200)


def test_test_after_training_with_a_new_trainer_logs_step_and_epoch_zero() -> None:
    for pause in (5, 900):
        run = Run().train(range(0, 1000, 10), per_epoch=100).wait(pause)
        run.log(0, test_loss=0.4, test_accuracy=0.9, epoch=0.0)
        assert not run.restarts()


@pytest.mark.parametrize(
    "lags", [(0, 1), (0, 3), (0, 3, 2, 1), (0, 6, 4, 2), (0, 2, 4, 6), (0, 1, 1, 1, 5, 5, 3, 2)]
)
def test_ranks_that_lag_behind_each_other_write_the_same_keys(lags: tuple[int, ...]) -> None:
    points = [
        Point(key, step, START + 10 * (step + lag) + rank / 100, falling(step))
        for step in range(200)
        for rank, lag in enumerate(lags)
        for key in ("loss", "accuracy")
    ]
    assert not restarts_in("run", points)


@pytest.mark.parametrize("lag", [0.5, 12, 25])
@pytest.mark.parametrize("steps", [50, 200])
def test_ranks_that_reach_the_next_epoch_at_different_times(lag: float, steps: int) -> None:
    points = [
        Point(key, step, START + 10 * step + rank * lag, step // 20 if key == "epoch" else 1.0)
        for step in range(steps)
        for rank in range(2)
        for key in ("loss", "epoch")
    ]
    assert not restarts_in("run", points)


def test_batches_that_are_delivered_in_the_wrong_order() -> None:
    order = [*range(40), *range(60, 80), *range(40, 60), *range(80, 200)]
    points = [
        Point(key, step, START + 10 * at, falling(step))
        for at, step in enumerate(order)
        for key in ("loss", "accuracy")
    ]
    assert not restarts_in("run", points)


@pytest.mark.parametrize("spread", [2, 30])
def test_timestamps_in_disorder(spread: float) -> None:
    noise = random.Random(5)
    points = []
    for step in range(300):
        time = START + 5 * step + noise.uniform(-spread, spread)
        points += [Point(key, step, time, falling(step)) for key in ("loss", "accuracy")]
        points.append(Point("epoch", step, time, step / 50))
    assert not restarts_in("run", points)


def test_two_loggers_that_log_every_metric_twice() -> None:
    points = [
        Point(key, epoch, START + 600 * epoch + copy * 3, falling(epoch))
        for epoch in range(30)
        for copy in range(2)
        for key in ("loss", "val_loss")
    ]
    assert not restarts_in("run", points)


def test_points_that_the_store_has_twice_change_nothing() -> None:
    run = Run().train(range(0, 2001, 100)).train(range(1500, 4000, 100))
    assert restarts_in("run", [*run.points, *run.points]) == run.restarts()


def test_restart_is_found_in_points_that_were_thinned_out() -> None:
    run = Run().train(range(3000), every=1).wait(600).train(range(2000, 5000), every=1)
    [restart] = restarts_in("run", run.points[::40])
    assert restart.kind == "resumed"
    assert abs(restart.first_step - 2000) < 50  # type: ignore[operator]


def test_cross_validation_in_one_program_is_not_a_restart() -> None:
    run = Run()
    for _ in range(5):
        for epoch in range(10):
            run.log(epoch, epoch=epoch, loss=falling(epoch), accuracy=1 - falling(epoch) / 3)
            run.wait(30)
    assert not run.restarts()


def test_cross_validation_with_row_numbers_is_not_a_restart() -> None:
    assert not restarts_in("run", rows([40, 40, 40, 40], 0, keys="loss accuracy"))


def test_final_metrics_at_the_last_step_are_not_a_restart() -> None:
    """Hugging Face logs train_loss and train_runtime at the end, then the last evaluation at the same step."""
    run = Run().train(range(10, 1000, 10), per_epoch=300).wait(200)
    run.log(990, train_runtime=1000.0, train_loss=0.3, epoch=3.0)
    run.wait(300).log(990, eval_loss=0.3, epoch=3.0)
    assert not run.restarts()
