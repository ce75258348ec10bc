"""The table "What happens when" of docs/checkpoints.md is what these runs show.

python -m tests.checkpoints.test_what_happens        writes the table
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.checkpoints import Checkpoint, Store
from arc_toolkit.checkpoints.remote import RemoteFolder
from tests.checkpoints.stores import quiet, save
from tests.support import ROOT

PAGE = ROOT / "docs" / "checkpoints.md"
BEGIN, END = "<!-- what happens when -->\n", "<!-- end -->\n"
EVENT, LAST = 5, 6  # the step of the event, and the one after which the process is killed


class Killed(BaseException):
    """As `kill -9`: nothing of the process is done any more."""


class Scenario:
    """A run that saves after every second step: 1, 3, 5. Each method returns what the process does."""

    def __init__(self, folder: Path) -> None:
        self.root, self.url = folder / "store", f"file://{folder}/blobs"
        self._patch = pytest.MonkeyPatch()

    def train(self, event: Callable[[Store], None] = lambda store: None, **options: Any) -> str:
        store = quiet(self.root, patience=0, **options)
        try:
            for step in store.steps(10, every=2):
                if step == EVENT:
                    event(store)
                if store.due(step):
                    save(store, step)
                if step == LAST:
                    raise Killed
        except SystemExit as end:
            return f"ends with {end.code}"
        except Killed:
            store.wait(60)
            return "goes on" + ("; reported" if store.problems else "")
        finally:
            store.wait(60)
            self._patch.undo()
        return "finishes"

    def fail(self, owner: Any, name: str, error: OSError) -> None:
        def call(*words: Any, **options: Any) -> None:
            raise error

        self._patch.setattr(owner, name, call)

    def next_process(self, **options: Any) -> str:
        store = quiet(self.root, patience=0, **options)
        try:
            return f"begins at step {store.begin()}"
        except SystemExit as end:
            return f"ends with {end.code}"
        finally:
            store.wait(60)

    def damage(self, count: int) -> None:
        entries = [entry for entry in quiet(self.root).listing() if isinstance(entry, Checkpoint)]
        for entry in entries[:count]:
            (entry.folder / "model.bin").write_bytes(b"x")


def kill(scenario: Scenario) -> tuple[str, str]:
    def event(store: Store) -> None:
        raise Killed

    scenario.train(event)
    return "is gone", scenario.next_process()


def kill_in_a_save(scenario: Scenario) -> tuple[str, str]:
    def event(store: Store) -> None:
        with store.save(EVENT) as folder:
            (folder / "model.bin").write_bytes(b"half")
            raise Killed

    scenario.train(event)
    return "is gone", scenario.next_process()


def notice(scenario: Scenario) -> tuple[str, str]:
    return scenario.train(lambda store: store.announce(30)), scenario.next_process()


def full_disk(scenario: Scenario) -> tuple[str, str]:
    error = OSError(errno.ENOSPC, "No space left on device")
    return scenario.train(lambda store: scenario.fail(os, "fsync", error)), scenario.next_process()


def second_writer(scenario: Scenario) -> tuple[str, str]:
    def event(store: Store) -> None:
        save(quiet(scenario.root), 100)

    return scenario.train(event), scenario.next_process()


def damaged_newest(scenario: Scenario) -> tuple[str, str]:
    done = scenario.train()
    scenario.damage(1)
    return done, scenario.next_process()


def damaged_all(scenario: Scenario) -> tuple[str, str]:
    done = scenario.train()
    scenario.damage(3)
    return done, scenario.next_process()


def unreadable_folder(scenario: Scenario) -> tuple[str, str]:
    scenario.train()
    scenario.fail(os, "listdir", PermissionError(13, "permission denied"))
    return scenario.train(), scenario.next_process()


def url_down_at_the_start(scenario: Scenario) -> tuple[str, str]:
    scenario.train(remote=scenario.url)
    scenario.fail(RemoteFolder, "_sizes", ConnectionRefusedError(111, "Connection refused"))
    return scenario.train(remote=scenario.url), scenario.next_process(remote=scenario.url)


def url_down_in_the_run(scenario: Scenario) -> tuple[str, str]:
    error = ConnectionRefusedError(111, "Connection refused")
    scenario._patch.setattr("arc_toolkit.checkpoints.remote._PAUSES", (0.01,))

    def event(store: Store) -> None:
        store.wait(60)
        scenario.fail(RemoteFolder, "_put", error)

    return scenario.train(event, remote=scenario.url), scenario.next_process(remote=scenario.url)


def rank_with_its_own_folder(scenario: Scenario) -> tuple[str, str]:
    return scenario.train(rank=1, world_size=2), scenario.next_process(rank=1, world_size=2)


SCENARIOS: dict[str, Callable[[Scenario], tuple[str, str]]] = {
    "killed in step 5": kill,
    "killed while step 5 is saved": kill_in_a_save,
    "an eviction notice in step 5": notice,
    "the disk is full at the save of step 5": full_disk,
    "another process saves step 100 in the same folder": second_writer,
    "the newest checkpoint, step 5, is damaged": damaged_newest,
    "all checkpoints are damaged": damaged_all,
    "the folder cannot be read at the start": unreadable_folder,
    "the URL does not answer at the start": url_down_at_the_start,
    "the URL does not answer at the save of step 5": url_down_in_the_run,
    "a rank has a folder of its own": rank_with_its_own_folder,
}


def table() -> str:
    rows = ["| when | the process | the next process |", "|---|---|---|"]
    for when, run in SCENARIOS.items():
        with tempfile.TemporaryDirectory() as folder:
            process, next_process = run(Scenario(Path(folder)))
        rows.append(f"| {when} | {process} | {next_process} |")
    return "\n".join(rows) + "\n"


def test_the_table_is_that_of_the_page() -> None:
    assert PAGE.read_text().partition(BEGIN)[2].partition(END)[0] == table()


if __name__ == "__main__":
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2])
    sys.exit(0)
