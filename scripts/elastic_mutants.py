"""The mutants of elastic runs, as rows of `REPLACEMENTS` in mutants.py."""

from __future__ import annotations

_TESTS = tuple(f"tests/elastic/test_{name}.py" for name in ("worlds", "generation", "copies", "contract"))
_PROCESSES = ("tests/elastic/test_standby.py",)
_CLIENT = ("tests/elastic/test_client.py",)

# (what is broken, file, old text, new text)
_ELASTIC = (
    (
        "a proposal is final before all ranks know it",
        "generation.py",
        "self.is_final = all(record.proposal == self.step for record in records)",
        "self.is_final = True",
    ),
    (
        "ranks without a step are not waited for",
        "generation.py",
        "if records and len(records) == len(running):",
        "if records:",
    ),
    (
        "ranks that passed a proposal are not seen",
        "generation.py",
        "if record.step >= self.step and not is_waiting:",
        "if False:",
    ),
    ("ranks that have ended are waited for", "generation.py", "if rank in running]", "]"),
    (
        "a node may go before its ranks have stopped",
        "generation.py",
        "set(self.placement.ranks_of(node)) <= set(self.exits)",
        "True",
    ),
    (
        "ranks with errors are done",
        "generation.py",
        "return not self.running and not any(self.exits.values())",
        "return not self.running",
    ),
    (
        "a lost node does not excuse its peer",
        "failure_budget.py",
        "        if self._is_counted:\n",
        "        if False:\n",
    ),
    ("nodes of other generations excuse", "failure_budget.py", "node not in self._nodes or ", ""),
    ("a loss excuses forever", "failure_budget.py", " or now - self._since >= _EXCUSE_SECONDS", ""),
    (
        "the last error ends the run at once",
        "failure_budget.py",
        "(_EXCUSE_SECONDS if is_last else _PEER_SECONDS)",
        "_PEER_SECONDS",
    ),
    (
        "the budget is one larger",
        "failure_budget.py",
        "self._timeline.failures > self._most",
        "self._timeline.failures > self._most + 1",
    ),
    (
        "a notice and its loss are two evictions",
        "timeline.py",
        "        if node not in self._doomed:\n",
        "        if True:\n",
    ),
    ("a withdrawn notice is remembered", "timeline.py", "        self._doomed.discard(node)\n", ""),
    ("what was a failure stays one", "timeline.py", 'stalled_for in ("", "failure")', 'stalled_for in ("",)'),
    (
        "without steps a failure stays one",
        "timeline.py",
        'waits_for in ("", "failure")',
        'waits_for in ("",)',
    ),
    ("ranks that run now are not counted", "timeline.py", "if totals.is_running and totals.since else 0.0", "* 0"),
    ("one step in no time is a speed", "throughput.py", "if seconds < _SPEED_SECONDS:", "if seconds <= 0:"),
    ("steps done again are not counted", "timeline.py", "            totals.steps_redone += redone\n", ""),
    (
        "a stall is time trained",
        "timeline.py",
        "        elif totals.last_step_time is not None:",
        "        if totals.last_step_time is not None:",
    ),
    ("the history is not written", "timeline.py", "            os.replace(temporary, self._path)\n", ""),
    (
        "evictions are forgotten by a controller that comes back",
        "timeline.py",
        "        self._doomed = set(self.totals.evicted)\n",
        "",
    ),
    ("ranks go to nodes with a notice", "worlds.py", "if not item.doomed)", "if True)"),
    (
        "cold standbys count as warm",
        "worlds.py",
        "min(item.warm, item.slots) if warm_only else item.slots",
        "item.slots",
    ),
    (
        "samples of one rank only",
        "throughput.py",
        "sum(record.samples for record in progress.values())",
        "progress[0].samples",
    ),
    (
        "steps and samples are mixed",
        "throughput.py",
        'self.unit, self.rates = "samples", {}',
        'self.unit = "samples"',
    ),
    (
        "measured before all ranks train",
        "throughput.py",
        "if len(progress) < self.size or 0 not in progress:",
        "if 0 not in progress:",
    ),
    ("measured in the middle of a step", "throughput.py", "if (step, samples) == self._last[1:]:", "if False:"),
    ("workers that do not pay stay", "throughput.py", "return now if pays else smaller", "return now"),
    ("growth without a threshold", "throughput.py", " and efficiency >= threshold", ""),
    ("small gains count", "throughput.py", "expected > (1 + least_gain) * _expected(known, now) and ", ""),
    ("lines are given twice", "output_log.py", "max(0, len(lines) - max(0, self.count - count))", "0"),
    ("a damaged copy counts", "copies.py", " or verify(checkpoint) is not None", ""),
    (
        "copies may be written anywhere",
        "copies.py",
        "if not path.resolve().is_relative_to(staging.resolve()):",
        "if False:",
    ),
    (
        "the other node gets no copy",
        "copies.py",
        "[self._head, *([self.peer] if self.peer else [])]",
        "[self._head]",
    ),
    (
        "a copy that failed is not tried again",
        "copies.py",
        "        if self._reported != (name, place):\n",
        "        self._copied[place] = name\n        if self._reported != (name, place):\n",
    ),
    ("old copies are kept", "copies.py", "        _keep_newest(root)\n", ""),
)
_ENDING = (
    (
        "a rank stops at a proposal that is not final",
        "if notice.agreed or (left is not None",
        "if True or (left is not None",
    ),
    (
        "a save before the agreement is the last one",
        "return notice if notice.agreed and step >= notice.step else None",
        "return notice if step >= notice.step else None",
    ),
)
_STANDBYS = (
    (
        "a process with threads is forked",
        "standby.py",
        'return len(os.listdir("/proc/self/task")) == 1 and not has_device',
        "return True",
    ),
    (
        "NumPy has the same random numbers in all ranks",
        "standby.py",
        '["numpy.random"].seed()',
        '["numpy.random"]',
    ),
    (
        "a signal before the birth is lost",
        "ranks.py",
        "        for number in self.signals:\n            self.signal(number)\n",
        "",
    ),
    (
        "standbys outlive their template",
        "standby.py",
        "                            os.killpg(pid, signal.SIGKILL)\n",
        "                            pass\n",
    ),
    (
        "the folder of a living agent is removed",
        "agent_folder.py",
        "                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
        "",
    ),
    ("abandoned folders stay", "agent_folder.py", "                shutil.rmtree(path, ignore_errors=True)\n", ""),
)
_FOLLOW = (
    ("the client waits forever", "if silent > _PATIENCE_SECONDS:", "if False:"),
    ("an answer does not end the wait", "        since = time.monotonic()\n", ""),
    (
        "the output of a new controller is not asked for",
        'lines, address = 0, status["address"]',
        'address = status["address"]',
    ),
)
ELASTIC_MUTANTS = (
    *(("elastic", name, f"arc_toolkit/elastic/{file}", old, new, _TESTS) for name, file, old, new in _ELASTIC),
    *(("elastic", name, "arc_toolkit/checkpoints/ending.py", old, new, _TESTS) for name, old, new in _ENDING),
    *(
        ("elastic", name, f"arc_toolkit/elastic/{file}", old, new, _PROCESSES)
        for name, file, old, new in _STANDBYS
    ),
    *(("elastic", name, "arc_toolkit/elastic/ray_cluster.py", old, new, _CLIENT) for name, old, new in _FOLLOW),
)
