"""The exception with which a log ends, if nothing caught it, and what it proves without an exit code."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from arc_toolkit.diagnosis.assemble.log_evidence import evidence_in
from arc_toolkit.diagnosis.model import Attempt, CauseKind, LogFile, RunOutcome
from arc_toolkit.diagnosis.read.log_end import log_end
from arc_toolkit.diagnosis.read.log_endings import LogEndingKind
from arc_toolkit.diagnosis.read.scan import LogScan, scan
from arc_toolkit.diagnosis.report import build
from tests.diagnosis.made import NODE_A, NODE_B, container, event, facts, log, node, pod

FRAMES = 'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    main()\n'
OWN = (LogEndingKind.OWN_ERROR, "KeyError")
KEY_ERROR = FRAMES + "KeyError: 'labels'\n"
TORCHRUN = """\
Traceback (most recent call last):
  File "/opt/conda/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  exitcode  : CODE (pid: 33054)
============================================================
"""
# What launchers log themselves: torch/distributed/elastic/{multiprocessing,agent/server}/api.py, deepspeed's launch.py.
SIGTERM = "W1022 10:41:11.102000 69 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 1 SIGTERM\n"
RESTARTED = (
    "I1022 10:41:12.990000 21 torch/distributed/elastic/agent/server/api.py:694] "
    "[default] Starting worker group\n"
)
DEEPSPEED = """\
[2026-10-21 03:14:33,204] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 411
[2026-10-21 03:14:33,382] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python'] exits with return code = CODE
"""
BY_DEEPSPEED = "an error that DeepSpeed's launcher reports"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (KEY_ERROR, OWN),
        ("2026-10-18T11:00:01.000+02:00 INFO start\n" + KEY_ERROR, OWN),
        ("".join(f"[rank2]: {line}\n" for line in KEY_ERROR.splitlines()), OWN),
        ("".join(f"2026-10-18T11:00:01.0Z {line}\n" for line in KEY_ERROR.splitlines()), OWN),
        (
            FRAMES
            + "ValueError: a\n\nDuring handling of the above exception, another exception occurred:\n\n"
            + KEY_ERROR,
            OWN,
        ),
        (
            FRAMES
            + "RuntimeError: CUDA error: device-side assert triggered\nCUDA kernel errors might be reported\n"
            "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable\n\n",
            (LogEndingKind.OWN_ERROR, "RuntimeError"),
        ),
        (
            FRAMES + "torch.cuda.OutOfMemoryError: CUDA out of memory.\n",
            (LogEndingKind.OWN_ERROR, "OutOfMemoryError"),
        ),
        (
            FRAMES + "RuntimeError: DataLoader worker (pid 48211) is killed by signal: Killed. \n",
            (LogEndingKind.CHILD_KILLED, "RuntimeError"),
        ),
        (
            FRAMES
            + "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed. \n\nThe above exception was "
            "the direct cause of the following exception:\n\n"
            + FRAMES
            + "RuntimeError: DataLoader worker (pid(s) 7) "
            "exited unexpectedly\n",
            (LogEndingKind.CHILD_KILLED, "RuntimeError"),
        ),
        (
            KEY_ERROR + SIGTERM + TORCHRUN.replace("CODE", "1"),
            (LogEndingKind.OWN_ERROR, "ChildFailedError"),
        ),
        (
            KEY_ERROR + SIGTERM + TORCHRUN.replace("CODE", "1").partition("main())\n")[2],
            (OWN[0], "ChildFailedError"),
        ),
        (KEY_ERROR + SIGTERM, OWN),
        (KEY_ERROR + SIGTERM + RESTARTED, None),
        (DEEPSPEED.replace("CODE", "-9"), (LogEndingKind.CHILD_KILLED, BY_DEEPSPEED)),
        (DEEPSPEED.replace("CODE", "2"), (LogEndingKind.OWN_ERROR, BY_DEEPSPEED)),
        (DEEPSPEED.replace("CODE", "-15"), (LogEndingKind.STOPPED, BY_DEEPSPEED)),
        (DEEPSPEED.replace("CODE", "-9") + "epoch 3 loss 2.1\n", None),
        (KEY_ERROR + DEEPSPEED.replace("CODE", "1"), OWN),
        (TORCHRUN.replace("CODE", "1"), (LogEndingKind.OWN_ERROR, "ChildFailedError")),
        (TORCHRUN.replace("CODE", "-9"), (LogEndingKind.CHILD_KILLED, "ChildFailedError")),
        (TORCHRUN.replace("CODE", "-15"), (LogEndingKind.STOPPED, "ChildFailedError")),
        (KEY_ERROR + "epoch 3 loss 2.1\n", None),  # it was handled
        (
            "2026-10-18 11:00:01 ERROR cannot upload, trying again\n" + KEY_ERROR,
            None,
        ),  # its logger reported it
        (FRAMES, None),  # cut
        ("epoch 3 loss 2.1\n", None),
        (FRAMES + "KeyboardInterrupt\n", (LogEndingKind.STOPPED, "KeyboardInterrupt")),
        (
            FRAMES
            + "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2251\n",
            (LogEndingKind.PEER_LOST, "DistBackendError"),
        ),
        (
            FRAMES
            + "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer\n",
            (LogEndingKind.PEER_LOST, "RuntimeError"),
        ),
        (
            FRAMES + "OSError: [Errno 107] Transport endpoint is not connected: '/mnt/data'\n",
            (LogEndingKind.MOUNT_LOST, "OSError"),
        ),
        (
            FRAMES + "OSError: [Errno 28] No space left on device\n",
            (LogEndingKind.STORAGE, "OSError"),
        ),
        (
            FRAMES + "OSError: [Errno 5] Input/output error: '/mnt/x'\n",
            (LogEndingKind.DISK_ERROR, "OSError"),
        ),
    ],
)
def test_only_an_error_of_the_program_that_nothing_caught_counts(
    text: str, expected: tuple[LogEndingKind, str] | None
) -> None:
    assert log_end(text.encode()).ending == expected


def printed(path: str, text: str) -> LogScan:
    found = scan(LogFile(path, lambda: io.BytesIO(text.encode())))
    assert isinstance(found, LogScan)
    return found


BOOT, RETRY = (
    "job/system_logs/amlarc_cr_bootstrap.log",
    "job/system_logs/retry-001/amlarc_cr_bootstrap.log",
)


def answers(
    logs: list[LogScan], *texts: tuple[str, str]
) -> list[tuple[RunOutcome, CauseKind | None]]:
    evidence = evidence_in(printed(path, text) for path, text in texts)
    attempts = build(logs, file_evidence=evidence).attempts
    return [
        (attempt.outcome, attempt.cause.kind if attempt.cause else None) for attempt in attempts
    ]


def test_without_a_pod_the_last_words_are_a_hint() -> None:
    both = [log(BOOT, NODE_A), log(RETRY, NODE_B)]
    failed, unknown = (RunOutcome.FAILED, CauseKind.USER), (RunOutcome.UNKNOWN, None)
    assert answers(both, ("job/user_logs/std_log.txt", KEY_ERROR)) == [failed, unknown]
    last = ("job/user_logs/retry-001/std_log.txt", KEY_ERROR)
    assert answers(both, last) == [(RunOutcome.FAILED, CauseKind.UNKNOWN), failed]
    report = build(both, file_evidence=evidence_in([printed(*last)]))
    assert report.attempts[1].cause is not None
    assert report.attempts[1].cause.confidence == "low"
    assert "KeyError" in report.attempts[1].cause.evidence[0].message
    assert "labels" not in str(report)


def test_a_job_whose_child_was_killed_has_failed_but_not_by_itself() -> None:
    text = DEEPSPEED.replace("CODE", "-9")
    assert answers([log(BOOT, NODE_A)], ("job/user_logs/std_log.txt", text)) == [
        (RunOutcome.FAILED, CauseKind.OWN_MEMORY)
    ]


def test_in_a_gang_the_rank_with_an_error_of_its_own_was_the_first() -> None:
    ranks = [
        log(f"job/system_logs/worker-{index}/amlarc_cr_bootstrap.log", NODE_A) for index in range(3)
    ]
    waiting = (
        "[rank0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)\n"
        + FRAMES
        + "ValueError: x\n"
    )
    texts = [
        (f"job/user_logs/worker-{index}/std_log.txt", KEY_ERROR if index == 1 else waiting)
        for index in range(3)
    ]
    kinds = [kind for _, kind in answers(ranks, *texts)]
    assert kinds == [CauseKind.GANG, CauseKind.USER, CauseKind.GANG]


def first(
    *pods: dict[str, object], events: list[dict[str, object]] | None = None, text: str = KEY_ERROR
) -> Attempt:
    evidence = evidence_in([printed("job/user_logs/std_log.txt", text)])
    return build([], [facts(list(pods), [node()], events)], evidence).attempts[0]


def test_an_exit_code_is_worth_more_than_last_words() -> None:
    attempt = first(pod(containers=[container(code=137)]))
    assert attempt.cause is not None
    assert attempt.cause.kind is CauseKind.UNKNOWN


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            FRAMES + "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed. \n",
            CauseKind.OWN_MEMORY,
        ),
        (KEY_ERROR, CauseKind.USER),
    ],
)
def test_a_child_that_was_killed_in_a_cgroup_is_the_jobs_own_if_it_says_so(
    text: str, kind: CauseKind
) -> None:
    made = pod(containers=[container(code=1)])
    made["spec"]["containers"] = [
        {"name": "1-execution-wrapper", "resources": {"limits": {"memory": "64Gi"}}}
    ]
    kill = "Memory cgroup out of memory: Killed process 7 (pt_data_worker) total-vm:30kB, anon-rss:21103340kB, x"
    attempt = first(made, events=[event("OOMKilling", 29.9, message=kill)], text=text)
    assert attempt.cause is not None
    assert attempt.cause.kind is kind


def test_a_job_of_which_only_the_output_is_left_is_reported(tmp_path: Path) -> None:
    from arc_toolkit.diagnosis.model import Stats
    from arc_toolkit.diagnosis.read import collect
    from arc_toolkit.diagnosis.read.sources.inventory import Inventory, add

    (tmp_path / "job/user_logs").mkdir(parents=True)
    (tmp_path / "job/user_logs/std_log.txt").write_text(KEY_ERROR)
    inventory, stats = Inventory(), Stats()
    add(str(tmp_path), inventory)
    scans: list[LogScan] = []
    evidence = collect.read_side_logs(inventory, 1, scans, stats)
    attempts = build(scans, file_evidence=evidence, stats=stats).attempts
    assert [attempt.cause.kind for attempt in attempts if attempt.cause] == [CauseKind.USER]
    assert (stats.files_read, stats.bytes_read) == (1, len(KEY_ERROR))


def test_a_job_whose_output_says_nothing_is_listed_if_there_are_no_pods(tmp_path: Path) -> None:
    import json

    from arc_toolkit.cli.main import main

    for folder in ("", "retry-001/"):
        path = tmp_path / f"logs/job/user_logs/{folder}std_log.txt"
        path.parent.mkdir(parents=True)
        path.write_text("step 3 loss 1.2\n")
    out = tmp_path / "report.json"
    assert (
        main(["diagnose", str(tmp_path / "logs"), "--format", "json", "-o", str(out), "--quiet"])
        == 0
    )
    attempts = json.loads(out.read_text())["jobs"][0]["attempts"]
    assert [attempt["outcome"] for attempt in attempts] == ["failed", "unknown"]
    # What a job printed adds no attempt to those of its bootstrap logs.
    boot = tmp_path / "logs/job/system_logs/retry-001/amlarc_cr_bootstrap.log"
    boot.parent.mkdir(parents=True)
    boot.write_text(f"Run on node: {NODE_A}\n")
    assert (
        main(["diagnose", str(tmp_path / "logs"), "--format", "json", "-o", str(out), "--quiet"])
        == 0
    )
    assert [
        attempt["number"] for attempt in json.loads(out.read_text())["jobs"][0]["attempts"]
    ] == [1]


def test_a_log_without_a_rank_does_not_say_which_rank_lost_its_peer() -> None:
    ranks = [
        pod(
            name=f"azureml-aa-worker-{index}",
            uid=f"u{index}",
            containers=[container(code=1, minute=30 + index)],
        )
        for index in range(2)
    ]
    text = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)\n"
    evidence = evidence_in([printed("job/user_logs/std_log.txt", text)])
    kinds = [
        item.cause.kind
        for item in build([], [facts(ranks, [node()])], evidence).attempts
        if item.cause
    ]
    assert kinds == [CauseKind.USER, CauseKind.GANG]


def test_ranks_that_end_together_because_a_peer_went_away_have_no_error_of_their_own() -> None:
    ranks = [
        pod(name=f"azureml-aa-worker-{index}", uid=f"u{index}", containers=[container(code=1)])
        for index in range(3)
    ]
    peer = "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
    for text, kind in (
        (peer, CauseKind.UNKNOWN),
        (KEY_ERROR, CauseKind.USER),
        ("", CauseKind.USER),
    ):
        logs = [
            printed("job/user_logs/std_log_process_8.txt", text),
            printed("job/user_logs/std_log_process_16.txt", peer),
        ]
        evidence = evidence_in(logs if text else [])
        kinds = {
            item.cause.kind
            for item in build([], [facts(ranks, [node()])], evidence).attempts
            if item.cause
        }
        assert kinds == {kind}


LOST = FRAMES + "torch.distributed.DistBackendError: NCCL error: remote process exited\n"


@pytest.mark.parametrize(
    ("codes", "minutes", "texts", "kinds"),
    [
        # the first rank says that it lost a peer: it was not the first to fail, although it ended first
        ((1, 137), (30, 31), {0: LOST}, [CauseKind.GANG, CauseKind.UNKNOWN]),
        # a rank that failed like that one, and not before it, has no error of its own
        ((1, 1), (30, 31), {0: LOST}, [CauseKind.UNKNOWN, CauseKind.UNKNOWN]),
        ((1, 1), (31, 30), {0: LOST}, [CauseKind.GANG, CauseKind.USER]),
        # an error of its own, although it ended last; who wrote the other log is not known
        ((1, 1), (31, 30), {0: KEY_ERROR, 8: LOST}, [CauseKind.USER, CauseKind.GANG]),
    ],
)
def test_the_log_of_the_first_process_is_that_of_the_first_rank(
    codes: tuple[int, int], minutes: tuple[int, int], texts: dict[int, str], kinds: list[CauseKind]
) -> None:
    ranks = [
        pod(
            name=f"azureml-aa-worker-{index}",
            uid=f"u{index}",
            containers=[container(code=code, minute=minute)],
        )
        for index, (code, minute) in enumerate(zip(codes, minutes, strict=True))
    ]
    logs = [
        printed(f"job/user_logs/std_log_process_{number}.txt", text)
        for number, text in texts.items()
    ]
    found = build([], [facts(ranks, [node()])], evidence_in(logs)).attempts
    assert [item.cause.kind for item in found if item.cause] == kinds


@pytest.mark.parametrize(
    ("text", "minute", "kind"),
    [
        (FRAMES + "OSError: [Errno 5] Input/output error\n", 29.9, CauseKind.NODE_FAULT),
        (
            FRAMES + "OSError: [Errno 5] Input/output error\n",
            25,
            CauseKind.USER,
        ),  # long before: another file
        (KEY_ERROR, 29.9, CauseKind.USER),  # a disk that the job does not use
    ],
)
def test_a_disk_error_counts_if_the_program_ended_with_it(
    text: str, minute: float, kind: CauseKind
) -> None:
    failed = pod(containers=[container(code=1)])
    attempt = first(
        failed,
        events=[event("IOError", minute, message="Buffer I/O error on dev nvme0n1")],
        text=text,
    )
    assert attempt.cause is not None
    assert attempt.cause.kind is kind
