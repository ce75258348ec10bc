"""`arc-toolkit run`: real processes, real signals, and what the exit code means."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from arc_toolkit.notices.run_log import read_run
from tests.notices.metadata_service import azure_answers, azure_event, metadata_service
from tests.support import ROOT, Result, unavailable

TRAINING = """
    import sys, time
    from arc_toolkit.checkpoints import Store
    store = Store(sys.argv[1])
    checkpoint = store.latest()
    total = int((checkpoint / "total").read_text()) if checkpoint else 0
    for step in store.steps(int(sys.argv[2]), every=1000):
        total += step
        time.sleep(0.02)
        if store.due(step):
            with store.save(step) as folder:
                (folder / "total").write_text(str(total))
        elif step == 3:
            print("begun", flush=True)
    print("total", total)
"""


class Run:
    """A running `arc-toolkit run` whose log is in a file."""

    def __init__(self, folder: Path, *words: object, prefix: tuple[str, ...] = ()) -> None:
        self.log = folder / "log"
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "NODE_NAME": "aks-spot-1-vmss000004"}
        command = [
            *prefix,
            sys.executable,
            "-m",
            "arc_toolkit",
            "run",
            "--cloud",
            "none",
            *map(str, words),
        ]
        self.process = subprocess.Popen(
            command,
            stdout=self.log.open("w"),
            stderr=subprocess.STDOUT,
            env=environment,
            stdin=subprocess.DEVNULL,
        )

    def text(self) -> str:
        return self.log.read_text()

    def until(self, pattern: str) -> None:
        end = time.monotonic() + 60
        while not re.search(pattern, self.text()):
            assert time.monotonic() < end, self.text()
            assert self.process.poll() is None or re.search(pattern, self.text()), self.text()
            time.sleep(0.02)

    def code(self) -> int:
        return self.process.wait(60)

    def end(self) -> str:
        return next(line for line in reversed(self.text().splitlines()) if " end " in line)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def run(*words: object, prefix: tuple[str, ...] = ()) -> Run:
        folder = tmp_path / f"run{len(runs)}"
        folder.mkdir()
        runs.append(Run(folder, *words, prefix=prefix))
        return runs[-1]

    yield run
    for item in runs:
        if item.process.poll() is None:
            item.process.kill()
            item.process.wait()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def script(folder: Path, text: str) -> Path:
    path = folder / "script.py"
    path.write_text(textwrap.dedent(text))
    return path


@pytest.mark.parametrize(
    ("code", "shown"), [("sys.exit(0)", 0), ("sys.exit(7)", 7), ("os.kill(os.getpid(), 9)", 137)]
)
def test_the_exit_code_is_that_of_the_process(
    start: Callable[..., Run], code: str, shown: int
) -> None:
    run = start(
        "--",
        sys.executable,
        "-c",
        f"import os, sys; print('hello', sys.argv[1:], flush=True); {code}",
        "--help",
        "-5",
    )
    assert run.code() == shown
    assert "hello ['--help', '-5']" in run.text()
    assert "node=aks-spot-1-vmss000004" in run.text()


def test_a_crash_is_restarted_within_the_budget(start: Callable[..., Run]) -> None:
    code = "import os, sys; sys.exit(0 if os.environ['ARC_TOOLKIT_RESTARTS'] == '2' else 3)"
    assert start("--max-restarts", 1, "--", sys.executable, "-c", code).code() == 3
    run = start("--max-restarts", 2, "--", sys.executable, "-c", code)
    assert run.code() == 0
    assert re.findall(r" start .*restart=(\d)", run.text()) == ["0", "1", "2"]


def test_a_training_run_saves_on_a_notice_and_resumes_exactly(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    training, checkpoints = script(tmp_path, TRAINING), tmp_path / "checkpoints"
    with metadata_service() as service:
        azure_answers(service, [])
        words = ("--checkpoints", checkpoints, "--cloud", "azure", "--metadata", service.url, "--")
        run = start(*words, sys.executable, training, checkpoints, 400)
        run.until("begun")
        azure_answers(service, [azure_event(seconds=25)])
        assert run.code() == 143
        assert service.paths("POST") == []
    end = run.end()
    step, saved = (int(re.search(rf"{name}=(\d+)", end)[1]) for name in ("step", "saved"))  # type: ignore[index]
    assert "reason=evicted" in end
    assert step == saved < 399
    assert re.search(r"notice kind=preempt source=azure deadline=20", run.text())
    record = read_run(run.text())
    assert record is not None
    assert (record.notice, record.is_evicted, record.steps_lost) == ("preempt", True, 0)
    again = start("--checkpoints", checkpoints, "--", sys.executable, training, checkpoints, 400)
    assert again.code() == 0
    assert f"total {sum(range(400))}" in again.text()


def test_without_the_folder_the_library_tells_what_was_saved(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    stop = tmp_path / "stop"
    words = (
        "--notice-file",
        stop,
        "--",
        sys.executable,
        script(tmp_path, TRAINING),
        tmp_path / "saved",
        4000,
    )
    run = start(*words)
    run.until("begun")
    stop.write_text("30")
    assert run.code() == 143
    record = read_run(run.text())
    assert record is not None
    assert re.search(r" saved step=\d+ seconds=", run.text())
    assert record.saved == record.step
    # Resumed, and evicted before there was time for anything: what was saved before still counts.
    again = start(*words)
    assert again.code() == 143
    later = read_run(again.text())
    assert later is not None
    assert later.saved is None or later.saved >= (record.saved or 0)


def test_steps_lost_are_known_if_nothing_could_be_saved_after_the_notice(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    code = """
        import sys, time
        from arc_toolkit.checkpoints import Store
        store = Store(sys.argv[1])
        for step in store.steps(10**6, every=10**5):
            store.due(step)
            if step == 3:
                with store.save(step):
                    pass
            if step == 8:
                print("up", flush=True)
                time.sleep(1000)
    """
    stop, folder = tmp_path / "stop", tmp_path / "saved"
    words = ("--grace", "4s", "--checkpoints", folder, "--notice-file", stop)
    run = start(*words, "--", sys.executable, script(tmp_path, code), folder)
    run.until("up")
    stop.write_text("4")
    assert run.code() == 143
    record = read_run(run.text())
    assert record is not None
    assert (record.step, record.saved, record.steps_lost) == (8, 3, 5)


def test_a_withdrawn_notice_lets_the_process_go_on(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    stop = tmp_path / "stop"
    code = "import time, os; time.sleep(4); print('finished', os.path.exists(os.environ['ARC_TOOLKIT_NOTICE']))"
    run = start("--notice-file", stop, "--on-notice", "file", "--", sys.executable, "-c", code)
    run.until("start")
    stop.write_text("60")
    run.until("notice kind=stop source=file")
    stop.unlink()
    run.until("withdrawn")
    assert run.code() == 0
    assert "finished False" in run.text()


def test_a_process_that_does_not_take_part_gets_sigterm_at_once(start: Callable[..., Run]) -> None:
    run = start("--", "sleep", 100)
    run.until("start")
    run.process.terminate()
    assert run.code() == 143
    assert "signal name=SIGTERM" in run.text()


def test_exit_0_after_sigterm_is_not_success(start: Callable[..., Run]) -> None:
    run = start(
        "--",
        sys.executable,
        "-c",
        "import signal,sys,time; signal.signal(15, lambda *a: sys.exit(0)); print('up', flush=True); time.sleep(60)",
    )
    run.until("up")
    run.process.terminate()
    assert run.code() == 143


def test_what_ignores_sigterm_is_killed_at_the_end_of_the_grace(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    code = """
        import signal, subprocess, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen(["sleep", "1000"])
        print("child", child.pid, flush=True)
        time.sleep(1000)
    """
    run = start("--grace", "4s", "--", sys.executable, script(tmp_path, code))
    run.until(r"child \d+")
    run.process.terminate()
    assert run.code() == 143
    assert "signal name=SIGKILL" in run.text()
    pid = int(re.search(r"child (\d+)", run.text())[1])  # type: ignore[index]
    assert not is_running(pid)


def test_exit_0_after_sigterm_is_not_success_with_the_library_either(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    code = """
        import signal, sys, time
        from arc_toolkit.checkpoints import Store
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        store = Store(sys.argv[1])
        store.due(1)
        print("up", flush=True)
        time.sleep(1000)
    """
    run = start("--grace", "4s", "--", sys.executable, script(tmp_path, code), tmp_path / "saved")
    run.until("up")
    run.process.terminate()
    assert run.code() == 143
    assert "signal name=SIGTERM" in run.text()
    assert "reason=evicted" in run.end()


def test_what_a_process_leaves_running_ends_with_it(start: Callable[..., Run]) -> None:
    code = "import subprocess; print('child', subprocess.Popen(['sleep', '1000']).pid, flush=True)"
    run = start("--", sys.executable, "-c", code)
    assert run.code() == 0
    pid = int(re.search(r"child (\d+)", run.text())[1])  # type: ignore[index]
    end = time.monotonic() + 60
    while is_running(pid):
        assert time.monotonic() < end
        time.sleep(0.05)


# As torchrun does: every worker has a session of its own, and outlives a launcher that is killed.
LAUNCHER = """
    import os, subprocess, sys, time
    from pathlib import Path
    folder = Path(sys.argv[1])
    left = [pid for path in folder.glob("*.pid") for pid in path.read_text().split()]
    print("alive", sum(os.path.exists(f"/proc/{pid}") for pid in left), "of", len(left), flush=True)
    worker = f"import os, subprocess, sys, time; p = subprocess.Popen(['sleep', '1000'], start_new_session=True);"
    worker += "open(sys.argv[1], 'w').write(f'{os.getpid()} {p.pid}'); time.sleep(1000)"
    for number in range(2):
        path = folder / f"{os.environ['ARC_TOOLKIT_RESTARTS']}-{number}.pid"
        subprocess.Popen([sys.executable, "-c", worker, path], start_new_session=True)
        while not path.exists() or len(path.read_text().split()) < 2:
            time.sleep(0.01)
    os.kill(os.getpid(), int(sys.argv[2]))
    time.sleep(1000)
"""


@pytest.mark.parametrize("is_first_process", [False, True], ids=["", "pid 1"])
def test_workers_in_other_sessions_end_before_a_restart(
    start: Callable[..., Run], tmp_path: Path, is_first_process: bool
) -> None:
    prefix: tuple[str, ...] = ()
    if is_first_process:
        prefix = (shutil.which("unshare") or "false", "--pid", "--fork", "--mount-proc")
        if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
            unavailable("a PID namespace cannot be made here")
    words = ("--max-restarts", 1, "--", sys.executable, script(tmp_path, LAUNCHER), tmp_path, 9)
    run = start(*words, prefix=prefix)
    assert run.code() == 137
    assert re.findall(r"alive (.*)", run.text()) == ["0 of 0", "0 of 4"]
    if not is_first_process:
        numbers = [int(pid) for path in tmp_path.glob("*.pid") for pid in path.read_text().split()]
        assert len(numbers) == 8
        assert not any(is_running(pid) for pid in numbers)


def test_workers_in_other_sessions_end_with_an_eviction(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    run = start("--grace", "4s", "--", sys.executable, script(tmp_path, LAUNCHER), tmp_path, 0)
    run.until("alive")
    while len(list(tmp_path.glob("*.pid"))) < 2:
        time.sleep(0.02)
    time.sleep(0.5)
    run.process.terminate()
    assert run.code() == 143
    numbers = [int(pid) for path in tmp_path.glob("*.pid") for pid in path.read_text().split()]
    assert len(numbers) == 4
    assert not any(is_running(pid) for pid in numbers)


def test_what_a_script_started_before_run_is_left_alone(tmp_path: Path) -> None:
    words = f"sleep 30 & echo $!; exec {sys.executable} -m arc_toolkit run --cloud none -- sh -c 'sleep 31 & exit 3'"
    done = subprocess.run(
        ["sh", "-c", words],
        stdout=(tmp_path / "out").open("w"),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
        timeout=60,
    )
    pid = int((tmp_path / "out").read_text().split()[0])
    assert done.returncode == 3
    assert is_running(pid)
    os.kill(pid, signal.SIGKILL)


def test_the_notice_that_leaves_the_least_time_counts(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    stop = tmp_path / "stop"
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(1000)"
    run = start(
        "--grace",
        "4s",
        "--notice-file",
        stop,
        "--on-notice",
        "file",
        "--",
        sys.executable,
        "-c",
        code,
    )
    run.until("up")
    stop.write_text("3600")  # a move to another host, an hour before
    run.until("notice kind=stop source=file")
    run.process.terminate()  # and now somebody deletes the pod
    run.until("notice kind=stop source=sigterm")
    assert run.code() == 143
    assert "signal name=SIGKILL" in run.text()


def test_a_notice_that_comes_late_leaves_the_grace_and_not_nothing(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    shell = "trap 'echo saved; exit 0' USR1; echo up; while :; do sleep 0.1; done"
    run = start(
        "--on-notice", "USR1", "--notice-file", tmp_path / "stop", "--", "bash", "-c", shell
    )
    run.until("up")
    (tmp_path / "stop").write_text("-60")
    assert run.code() == 143
    assert "saved" in run.text()
    assert "SIGKILL" not in run.text()


def test_a_process_in_any_language_is_notified_with_a_signal(start: Callable[..., Run]) -> None:
    shell = "trap 'echo saved; exit 0' USR1; echo up; while :; do sleep 0.1; done"
    run = start("--on-notice", "USR1", "--", "bash", "-c", shell)
    run.until("up")
    run.process.terminate()
    assert run.code() == 143, "with 0 Kubernetes would take it for finished"
    assert "saved" in run.text()
    assert "signal name" not in run.text()


@pytest.mark.parametrize("word", ["file", "env"])
def test_a_process_in_any_language_finds_the_notice_in_the_file_of_the_variable(
    start: Callable[..., Run], tmp_path: Path, word: str
) -> None:
    loop = 'while [ ! -e "$ARC_TOOLKIT_NOTICE" ]; do sleep 0.1; done; cat "$ARC_TOOLKIT_NOTICE"'
    shell = f'trap "echo signalled" TERM; echo up; {loop}'
    run = start("--on-notice", word, "--notice-file", tmp_path / "stop", "--", "bash", "-c", shell)
    run.until("up")
    (tmp_path / "stop").write_text("60")
    assert run.code() == 143
    assert '"kind": "stop"' in run.text()
    assert "signalled" not in run.text()


@pytest.mark.parametrize("number", [signal.SIGUSR2, signal.SIGHUP, signal.SIGALRM, signal.SIGRTMIN])
def test_other_signals_go_on_to_the_process(
    start: Callable[..., Run], number: signal.Signals
) -> None:
    name = number.name.removeprefix("SIG")
    run = start("--", "bash", "-c", f"trap 'exit 33' {name}; echo up; while :; do sleep 0.1; done")
    run.until("up")
    run.process.send_signal(number)
    assert run.code() == 33


def test_ctrl_c_ends_without_a_restart(start: Callable[..., Run]) -> None:
    run = start(
        "--max-restarts",
        5,
        "--",
        sys.executable,
        "-c",
        "import time; print('up', flush=True); time.sleep(60)",
    )
    run.until("up")
    run.process.send_signal(signal.SIGINT)
    assert run.code() == 130
    assert "reason=interrupted" in run.text()


def test_ctrl_c_in_the_pause_before_a_restart_is_not_an_eviction(start: Callable[..., Run]) -> None:
    run = start("--max-restarts", 9, "--", "false")
    run.until("restarts_left=6")
    run.process.send_signal(signal.SIGINT)
    assert run.code() == 130
    assert "reason=interrupted" in run.end()


def test_it_goes_on_after_it_was_stopped_and_continued(start: Callable[..., Run]) -> None:
    """Ctrl-Z and `fg`, for longer than it waits for a signal."""
    run = start("--", "sh", "-c", "echo up; sleep 2; exit 33")
    run.until("up")
    run.process.send_signal(signal.SIGSTOP)
    time.sleep(0.5)
    run.process.send_signal(signal.SIGCONT)
    assert run.code() == 33


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_it_works_with_closed_standard_streams(tmp_path: Path, closed: str) -> None:
    command = f"{sys.executable} -m arc_toolkit run --cloud none --notice-file {tmp_path}/stop -- sh -c 'exit 33'"
    done = subprocess.run(
        ["sh", "-c", f"{command} {closed}"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 33


def test_checkpoints_that_cannot_be_listed_are_said_once(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "stop").write_text("5")
    words = [
        "--checkpoints",
        tmp_path / "file",
        "--on-notice",
        "file",
        "--notice-file",
        tmp_path / "stop",
    ]
    run = start(*words, "--", "sleep", "60")
    assert run.code() == 143
    assert run.text().count("cannot be read") == 1


def test_a_notice_during_the_pause_before_a_restart_ends_it(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    run = start("--max-restarts", 9, "--notice-file", tmp_path / "stop", "--", "false")
    run.until("restart=2")
    (tmp_path / "stop").write_text("9")
    assert run.code() == 143


def test_as_pid_1_it_collects_orphans(start: Callable[..., Run], tmp_path: Path) -> None:
    unshare = shutil.which("unshare")
    probe = [unshare or "false", "--pid", "--fork", "--kill-child", "--mount-proc", "true"]
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        unavailable("a PID namespace cannot be made here")
    code = """
        import os, subprocess, time
        subprocess.run(["sh", "-c", "sleep 0.2 & sleep 0.3 &"])  # orphans of PID 1
        time.sleep(1.5)
        states = [open(f"/proc/{pid}/stat").read().split()[2] for pid in os.listdir("/proc") if pid.isdigit()]
        print("pid", os.getppid(), "zombies", states.count("Z"), flush=True)
    """
    run = start("--", sys.executable, script(tmp_path, code), prefix=tuple(probe[:-1]))
    assert run.code() == 0
    assert "pid 1 zombies 0" in run.text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--grace", "soon", "--", "true"], "--grace: 'soon' is not a time"),
        (["--on-notice", "SIGWHAT", "--", "true"], "use the name of a signal"),
        (["--max-restarts", "-1", "--", "true"], "--max-restarts: must be at least 0, not -1"),
        (
            ["--metadata", "nonsense", "--", "true"],
            "--metadata: nonsense: use http://HOST or http://HOST:PORT",
        ),
        (
            ["--", "no-such-program-here"],
            "cannot run no-such-program-here: no such file or directory",
        ),
        ([], "COMMAND"),
    ],
)
def test_bad_input_is_one_sentence(
    arc: Callable[..., Result], words: list[str], message: str
) -> None:
    result = arc("run", "--cloud", "none", *words)
    assert result.code == 2
    assert message in result.err
    assert result.err.count("\n") == 1


JUMP = """
    import os, sys, time
    from arc_toolkit.notices.supervisor import Supervisor
    from arc_toolkit.notices.notice import Notice, NoticeKind
    from arc_toolkit.notices.watcher import Watcher

    true_time, shift = time.time, 0.0
    time.time = lambda: true_time() + shift
    ready, deadline = os.path.join(sys.argv[1], "ready"), None

    class Source:
        name, period = "script", 0.05

        def poll(self):
            global deadline
            if not os.path.exists(ready):
                return []
            deadline = deadline or true_time() + 12
            return [Notice(NoticeKind.PREEMPT, "script", "a", deadline=deadline)]

    def log(line):
        global shift
        if " notice " in line:
            shift = 3600.0  # the clock is set right after the notice
        print(line, flush=True)

    saving = "import signal, sys, time; signal.signal(10, lambda *_: (time.sleep(5), sys.exit(0)))"
    command = [sys.executable, "-c", f"{saving}; open({ready!r}, 'w').close(); time.sleep(60)"]
    supervisor = Supervisor(command, watcher=Watcher([Source()]), folder=sys.argv[1], notify_signal=10, log=log)
    sys.exit(supervisor.run())
"""


def test_a_clock_that_is_set_after_the_notice_takes_no_time_from_the_save(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, script(tmp_path, JUMP), tmp_path],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
        timeout=60,
    )
    assert done.returncode == 143, done.stderr
    assert "signal name=" not in done.stdout  # it ended by itself, after its save of five seconds
    assert "end reason=evicted code=0" in done.stdout
