"""Processes that wait to become a rank: they import like the script, and then run it.

The import of a framework takes seconds and would decide how long a run stalls. So an agent starts
one process,

    python -m arc_toolkit.elastic.standby SOCKET_FD

which imports it once, and forks a standby for each request that it reads from the socket. If
threads or devices that would not survive a fork came with an import, each standby is a new process
instead and imports by itself. A standby reads one JSON line (what to run) and ends at once when the
agent is gone.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
from typing import Any

# What the first step with a framework imports although no script names it.
_ALSO = {
    "torch": ("torch.distributed", "torch._dynamo"),
    "jax": ("jax.numpy",),
    "keras": ("keras.src",),
}
# A driver that is open in the parent cannot be used in its children.
_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri", "/dev/accel", "/dev/neuron")
_GONE = 137


def import_modules(names: list[str]) -> None:
    for name in names:
        for module in (name, *_ALSO.get(name.partition(".")[0], ())):
            # A script may import what is not there, under conditions that only it knows.
            with contextlib.suppress(Exception, SystemExit):
                importlib.import_module(module)


def can_fork() -> bool:
    """Whether children of this process would work: tried once, because libraries that are made for
    it, such as OpenBLAS, end their threads at a fork."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    handles = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    links = [os.readlink(handle) for handle in handles if os.path.lexists(handle)]
    has_device = any(link.startswith(_DEVICES) for link in links)
    return len(os.listdir("/proc/self/task")) == 1 and not has_device


class StandbyMaker:
    """Starts a standby per request, and reports its process ID and its end by its own pipe."""

    def __init__(self, control: socket.socket, modules: list[str]) -> None:
        self._control, self._modules = control, modules
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ)
        # by a handle of the process: its ID, and the pipe
        self._children: dict[int, tuple[int, int]] = {}
        self.can_fork = can_fork()
        gc.collect()
        gc.freeze()  # so that memory stays shared with the children

    def serve(self) -> int:
        """Until the agent is gone. In a standby it ends with the exit code of the script."""
        while True:
            for key, _ in self._selector.select():
                if key.fd != self._control.fileno():
                    self._report_end(key.fd)
                    continue
                data, handles, _, _ = socket.recv_fds(self._control, 16, 4, socket.MSG_CMSG_CLOEXEC)
                if not data:
                    for pid, _ in self._children.values():
                        with contextlib.suppress(ProcessLookupError, PermissionError):
                            os.killpg(pid, signal.SIGKILL)
                    os._exit(0)  # frameworks have much to say about an orderly end
                if self._start(*handles):
                    return wait_for_job(handles[0], handles[1])

    def _start(self, commands: int, answers: int, output: int, life: int) -> bool:
        """Whether this is the new process."""
        if self.can_fork:
            pid = os.fork()
            # A group of its own, for signals to all that it starts; set by whichever is first.
            os.setpgid(pid, pid)
            if pid == 0:
                self._become_standby(output, life)
                return True
        else:
            words = [json.dumps(self._modules), str(commands), str(answers)]
            pid = subprocess.Popen(
                [sys.executable, "-u", "-m", "arc_toolkit.elastic.standby", *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(commands, answers),
                start_new_session=True,
            ).pid
        for handle in (commands, answers, output):
            os.close(handle)
        os.write(life, b"%d\n" % pid)
        process = os.pidfd_open(pid)
        self._children[process] = pid, life
        self._selector.register(process, selectors.EVENT_READ)
        return False

    def _become_standby(self, output: int, life: int) -> None:
        os.dup2(output, 1)
        os.dup2(output, 2)
        self._selector.close()
        self._control.close()
        for handle in (
            output,
            life,
            *self._children,
            *(pipe for _, pipe in self._children.values()),
        ):
            os.close(handle)
        # Python's generator gets a new seed after a fork; NumPy's would be equal in all ranks.
        if "numpy.random" in sys.modules:
            sys.modules["numpy.random"].seed()

    def _report_end(self, process: int) -> None:
        pid, life = self._children.pop(process)
        self._selector.unregister(process)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with contextlib.suppress(OSError):
            os.write(life, b"%d\n" % (code if code >= 0 else 128 - code))
        os.close(life)
        os.close(process)


def wait_for_job(read: int, write: int) -> int:
    """Become a rank when the agent says so. What the script leaves to the end of Python is done:
    its threads and `atexit`, such as the upload of a checkpoint. But never returns to frameworks
    that take a second to tear themselves down, in which the next generation could already run.
    Output is not buffered (-u), so that nothing is lost."""
    _tell(write, {"type": "ready"})
    source = os.fdopen(read, "r", encoding="utf-8")
    line = source.readline()
    if not line:
        os._exit(0)
    threading.Thread(target=_end_with_agent, args=(source,), daemon=True).start()
    code = _run(json.loads(line))
    with contextlib.suppress(Exception):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    _tell(write, {"type": "exit", "code": code})
    os._exit(code)


def _run(job: dict[str, Any]) -> int:
    os.environ.update(job["environment"])
    script, arguments = job["script"], job["arguments"]
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    try:
        runpy.run_path(os.path.abspath(script), run_name="__main__")
    except SystemExit as end:
        if end.code is None:
            return 0
        if isinstance(end.code, int):
            return end.code & 0xFF
        sys.stderr.write(f"{end.code}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    except BaseException:
        import traceback

        traceback.print_exc()
        return 1
    return 0


def _end_with_agent(source: Any) -> None:
    """A rank without its agent would go on unseen and write checkpoints that nobody waits for."""
    with contextlib.suppress(Exception):
        source.read()
    os._exit(_GONE)


def _tell(write: int, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        os.write(write, json.dumps(message).encode() + b"\n")


def main(words: list[str]) -> int:
    if len(words) == 1:
        control = socket.socket(fileno=int(words[0]))
        modules = json.loads(control.recv(1 << 16) or b"[]")
        import_modules(modules)
        maker = StandbyMaker(control, modules)
        with contextlib.suppress(OSError):
            control.send(b"forks" if maker.can_fork else b"starts")
        return maker.serve()
    import_modules(json.loads(words[0]))
    return wait_for_job(int(words[1]), int(words[2]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
