"""How programs in other languages, shells and launchers end, and tracebacks that do not look like Python's own.

The texts are those of the runtimes' sources and of public issues.
"""

from __future__ import annotations

import json

import pytest

from arc_toolkit.diagnosis.read.log_end import log_end
from arc_toolkit.diagnosis.read.log_endings import MARKS, MARKS_BYTES, LogEndingKind

OWN, KILLED, STOPPED, PEER = (
    LogEndingKind.OWN_ERROR,
    LogEndingKind.CHILD_KILLED,
    LogEndingKind.STOPPED,
    LogEndingKind.PEER_LOST,
)
MPIRUN = """\
--------------------------------------------------------------------------
mpirun noticed that process rank 2 with PID 0 on node worker-0 exited on signal SIGNAL.
--------------------------------------------------------------------------
"""
HYDRA = """\
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   RANK 1 PID 2116 RUNNING AT worker-1
=   KILLED BY SIGNAL: NUMBER
===================================================================================
"""
ENDS = {
    "R": ("Error: cannot allocate vector of size 37.3 Gb\nExecution halted\n", OWN),
    "Java": (
        'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space\n\tat a.B.c(B.java:7)\n'
        "Caused by: java.io.IOException\n\t... 12 more\n",
        OWN,
    ),
    "C++": (
        "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n",
        OWN,
    ),
    "C++ and shell": (
        "terminate called after throwing an instance of 'std::out_of_range'\n  what():  x\n"
        "run.sh: line 22:    37 Aborted                 (core dumped) ./build\n",
        OWN,
    ),
    "NCCL": (
        "[rank0]:[E1113 18:06:24.9 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective operation timeout\n"
        "terminate called after throwing an instance of 'c10::DistBackendError'\n",
        PEER,
    ),
    "faulthandler": (
        "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):\n"
        '  File "a.py", line 3 in main\n\nExtension modules: numpy (total: 1)\nSegmentation fault (core dumped)\n',
        OWN,
    ),
    "glog": (
        "2026-11-06 06:29:38.774120: F tensorflow/core/framework/tensor_shape.cc:45] Check failed: NDIMS == dims()\n"
        "Aborted (core dumped)\n",
        OWN,
    ),
    "mpirun, segfault": (MPIRUN.replace("SIGNAL", "11 (Segmentation fault)"), OWN),
    "mpirun, kill": (MPIRUN.replace("SIGNAL", "9 (Killed)"), KILLED),
    "mpirun, term": (MPIRUN.replace("SIGNAL", "15 (Terminated)"), STOPPED),
    "mpirun, code": (
        "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
        "the job to be terminated. The first process to do so was:\n\n  Process name: [[8541,1],2]\n----\n",
        OWN,
    ),
    "orte": (
        "ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[1,0],0] on node a\n\n"
        "We cannot recover from this failure, and\ntherefore will terminate the job.\n---\n",
        PEER,
    ),
    "hydra, kill": (HYDRA.replace("NUMBER", "9 (Killed)"), KILLED),
    "hydra, segfault": (HYDRA.replace("NUMBER", "11 (Segmentation fault)"), OWN),
    "argparse": (
        "usage: train.py [-h] [--lr LR]\ntrain.py: error: unrecognized arguments: --rate 3\n",
        OWN,
    ),
    "interpreter": (
        "python: can't open file '/mnt/wd/train.py': [Errno 2] No such file or directory\n",
        OWN,
    ),
    "syntax": (
        '  File "/mnt/wd/train.py", line 3\n    x = = 3\n        ^\nSyntaxError: invalid syntax\n',
        OWN,
    ),
    "shell, segfault": (
        "run.sh: line 9:    41 Segmentation fault      (core dumped) python pack.py\n",
        OWN,
    ),
    "torchrun, kill": (
        "E1113 18:06:24.9 7 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9)"
        " local_rank: 0 (pid: 77) of binary: python\n",
        KILLED,
    ),
    "torchrun, report": ("  traceback : Signal 9 (SIGKILL) received by PID 77\n=====\n", KILLED),
    "shell, kill": ("run.sh: line 9:    41 Killed                  python pack.py\n", KILLED),
    "shell, only": ("Killed\n", KILLED),
    "shell, term": ("run.sh: line 9:    41 Terminated              python pack.py\n", STOPPED),
    "shell, command": ("/bin/bash: line 1: azcopy: command not found\n", OWN),
    "pip": (
        "ERROR: No matching distribution found for torch==9\n[notice] A new release of pip is available\n",
        OWN,
    ),
    "curl": ("curl: (6) Could not resolve host: data.example.com\n", LogEndingKind.COMMAND_FAILED),
    "Lightning": ("[rank: 0] Received SIGTERM: 15\n[rank: 0] Received SIGTERM: 15\n", STOPPED),
}


@pytest.mark.parametrize(("text", "words"), ENDS.values(), ids=ENDS)
def test_a_process_that_is_not_python_says_how_it_ended(text: str, words: LogEndingKind) -> None:
    found = log_end(f"step 900 loss 2.71\n{text}".encode()).ending
    assert found is not None
    assert found[0] is words
    assert log_end(f"{text}2026-11-13 12:26:40 INFO step 1801 loss 0.88\n".encode()).ending is None
    # The scanner asks only if one of these is near the end.
    assert any(mark in text.encode()[-MARKS_BYTES:] for mark in MARKS)


FRAMES = 'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    main()\n'
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "train.py", line 9, in <module>
  |     asyncio.run(main())
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "train.py", line 4, in work
    |     return batch["x"]
    | KeyError: 'x'
    +------------------------------------
"""
PY4J = """\
py4j.protocol.Py4JJavaError: An error occurred while calling o45.count.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2844)
Caused by: java.lang.ArithmeticException: divide by 0
\t... 1 more
"""
SHUTDOWN = "26/11/07 08:44:51 INFO ShutdownHookManager: Shutdown hook called\n"
LIBRARY = (
    FRAMES + '  File "/opt/conda/lib/python3.10/site-packages/x/y.py", line 3, in z\n    raise\n'
)
BAR = "Epoch 0:   4%|▍         | 31/742 [00:19<07:35,  1.56it/s, v_num=0]"
EXITED = "ProcessExitedException"
RAY = "(train pid=7, ip=10.0.0.4) "
BOX = """\
\x1b[31m╭─\x1b[0m──── \x1b[1;31mTraceback \x1b[0m\x1b[1;2;31m(most recent call last)\x1b[0m ──╮
│ /mnt/wd/finetune.py:166 in <module>   │
╰───────────────────────────────────────╯
\x1b[1;91mValueError: \x1b[0mbad label
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # a progress bar in the same line; colours; rich
        (
            " 17%|█▋  | 2000/11871 [1:17:51<6:57:03,  2.54s/it]" + FRAMES + "KeyError: 'x'\n",
            (OWN, "KeyError"),
        ),
        (BOX, (OWN, "ValueError")),
        (BOX + "epoch 4 loss 0.2\n", None),
        (
            "[1,2]<stderr>:" + FRAMES.replace("\n", "\n[1,2]<stderr>:") + "KeyError: 'x'\n",
            (OWN, "KeyError"),
        ),
        (RAY + FRAMES.replace("\n", f"\n{RAY}") + "KeyError\n", (OWN, "KeyError")),
        # messages of several lines are those of libraries
        (
            FRAMES + "azure.core.exceptions.HttpResponseError: x\nCode: x\nVault: kv\n",
            (OWN, "HttpResponseError"),
        ),
        (
            LIBRARY + "OSError: We couldn't connect to the hub\nCheck your internet connection\n",
            (OWN, "OSError"),
        ),
        (LIBRARY + "OSError: no\nretrying without the cache\n", None),
        (FRAMES + "KeyError: 'x'\nusing the default\n", None),
        (
            LIBRARY + "ray.exceptions.RayTaskError(ValueError): ray::f() (pid=7)\nValueError: x\n",
            (OWN, "RayTaskError"),
        ),
        (LIBRARY + "requests.exceptions.ConnectionError: x\nAll good. Model stored.\n", None),
        # loggers: of the program, and others
        ("ERROR:root:upload failed\n" + FRAMES + "KeyError: 'x'\n", (OWN, "KeyError")),
        ("ERROR upload failed: " + FRAMES + "KeyError: 'x'\n", (OWN, "KeyError")),
        ("ERROR:root:upload failed\n" + FRAMES + "KeyError: 'x'\nINFO:root:step 3\n", None),
        ("WARNING:root:upload failed\n" + FRAMES + "KeyError: 'x'\n", None),
        # several exceptions at once
        (GROUP, (OWN, "KeyError")),
        # Spark: what the JVM says is part of the message
        (LIBRARY + PY4J, (OWN, "Py4JJavaError")),
        (LIBRARY + PY4J + SHUTDOWN, (OWN, "Py4JJavaError")),
        (LIBRARY + PY4J + "26/11/07 08:44:51 INFO DAGScheduler: Job 4 finished\n", None),
        ("WARNING:tensorflow:no gradient\n" + FRAMES + "KeyError: 'x'\n", (OWN, "KeyError")),
        (
            "26/11/07 08:44:51 ERROR TaskSetManager: Task 7 failed\n" + FRAMES + "KeyError: 'x'\n",
            (OWN, "KeyError"),
        ),
        # what Python ignores does not end the program
        ("Exception ignored in: <function A.__del__>\n" + FRAMES + "AssertionError: x\n", None),
        ("Exception in thread Thread-3:\n" + FRAMES + "KeyError: 'x'\n", None),
        (
            FRAMES + "KeyError: 'x'\nException ignored in: <a>\n" + FRAMES + "ValueError\n",
            (OWN, "KeyError"),
        ),
        # a progress bar that is only drawn again
        (f"{BAR}\n" + FRAMES + f"KeyError: 'x'\n{BAR}\n", (OWN, "KeyError")),
        (f"{BAR}\n" + FRAMES + f"KeyError: 'x'\n{BAR.replace('31/', '32/')}\n", None),
        (
            "".join(
                f"{json.dumps({'log': line})}\n" for line in f"{FRAMES}KeyError: 'x'".splitlines()
            ),
            (OWN, "KeyError"),
        ),
        # not by itself
        (
            FRAMES + "subprocess.CalledProcessError: x died with <Signals.SIGKILL: 9>.\n",
            (KILLED, "CalledProcessError"),
        ),
        (
            FRAMES + "spawn.ProcessExitedException: process 0 terminated with signal SIGKILL\n",
            (KILLED, EXITED),
        ),
        (
            FRAMES + "multiprocessing.api.SignalException: Process 30 got signal: 15\n",
            (STOPPED, "SignalException"),
        ),
        (
            FRAMES + "ray.exceptions.ActorDiedError: The actor died unexpectedly\n",
            (PEER, "ActorDiedError"),
        ),
        (
            LIBRARY + 'x.SafetensorError: IoError(Os "No space left on device")\n',
            (LogEndingKind.STORAGE, "SafetensorError"),
        ),
    ],
)
def test_a_traceback_in_any_dress(text: str, expected: tuple[LogEndingKind, str] | None) -> None:
    assert log_end(text.encode()).ending == expected


def test_what_the_processes_of_a_launcher_say_counts_more_than_its_report() -> None:
    report = "torch.x.ChildFailedError: \n====\ntrain.py FAILED\n  exitcode  : 1 (pid: 7)\n"
    lost = FRAMES + "torch.distributed.DistBackendError: NCCL error\n"
    own = FRAMES + "KeyError: 'x'\n"
    for texts, words in (((lost, lost), PEER), ((lost, own), OWN), ((own,), OWN), ((), OWN)):
        found = log_end(("".join(texts) + FRAMES + report).encode()).ending
        assert found == (words, "ChildFailedError")
    aborted = (
        f"Watchdog caught collective operation timeout\n{FRAMES}{report.replace(': 1', ': -6')}"
    )
    assert log_end(aborted.encode()).ending == (PEER, "ChildFailedError")
    started = "subprocess.CalledProcessError: Command 'x' returned non-zero exit status 1.\n"
    assert log_end(f"{lost}{FRAMES}{started}".encode()).ending == (PEER, "CalledProcessError")
    assert log_end(f"{own}{FRAMES}{started}".encode()).ending == (OWN, "CalledProcessError")
