"""The node line in every shape, at every place of a file, in bounded memory."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arc_toolkit.diagnosis.model import LogFile, SkippedFile
from arc_toolkit.diagnosis.read import scan as scanner
from arc_toolkit.diagnosis.read.cluster_index import parse_list
from arc_toolkit.diagnosis.read.gpu_messages import GpuProof
from arc_toolkit.diagnosis.read.scan import CHUNK, DATE_HEAD, HEAD, LONGEST_LINE, TAIL, scan
from tests.diagnosis.made import NODE_A, NODE_B, node_line, scanned

X = NODE_A.encode()
FIRST = TAIL + CHUNK  # bytes of a file in the first chunk
# Where a line can be cut: around the end of a chunk, and around the place up to which a chunk is searched.
BORDERS = [FIRST + away for away in range(-40, 40)] + [
    FIRST - LONGEST_LINE + away for away in range(-40, 40)
]


@pytest.mark.parametrize(
    "line",
    [
        b"+ echo 'Run on node: X'\n",
        b"++ echo 'Run on node: X'\n",
        b"++ echo 'Run on node: X\"\n",  # the public sample: opens with ', closes with \"
        b'+ echo "Run on node: X"\n',
        b"+ echo Run on node: X\n",
        b"Run on node: X\n",
        b"Run on node: X\r\n",
        b"Run on node:X\n",
        b"Run on node: \t X\n",
        b"\xef\xbb\xbfRun on node: X\n",
        b"\x1b[32mRun on node: \x1b[1mX\x1b[0m\n",
        b"Run on node: \x1b[32m'X'\x1b[0m\n",
        b"2026-03-03 10:00:00 ++ echo 'Run on node: X'\n",
        b"2026-03-03T10:00:00.123456789Z stderr F ++ echo 'Run on node: X'\n",
        b"++ 2026-03-03T10:00:00Z boot.sh:16: echo 'Run on node: X'\n",
        b"(Reading database ... 5%\r(Reading database ... 10%\rRun on node: X\n",
        b"+ x='Run on node: X'\n",
        b"Run on node: X.\n",
    ],
)
def test_a_name_is_found_in_every_shape_of_the_line(line: bytes) -> None:
    found = scanned(b"+ set -x\n" + line.replace(b"X", X) + b"+ true\n")
    assert (found.nodes, found.truncated) == ([NODE_A], False)


@pytest.mark.parametrize(
    "name",
    [
        "aks-gpu-12345678-vmss00002d",
        "aksjob000000",
        "k8s-lin1-38709119-vmss000000",
        "moc-l0abc123",
        "virtual-node-aci-linux",
        "worker.example.internal",
        "a",
        "n" * 253,
    ],
)
def test_every_kind_of_node_name_is_taken_whole(name: str) -> None:
    assert scanned(node_line(name)).nodes == [name]


@pytest.mark.parametrize(
    "line",
    [
        b"Run on node: $NODE_NAME\n",
        b"Run on node: aks-$POOL\n",
        b"+ printf 'Run on node: %s\\n' X\n",
        b"+ echo 'Run on node: '\n",
        b"Run on node:\n",
        b"Run on node: NODE_A\n",
        b"Run on node: None\n",
        b"Run on node: N/A\n",
        b"Run on node: " + b"n" * 254 + b"\n",
        b"run on node: aks-1\n",
    ],
)
def test_what_is_not_a_name_is_refused(line: bytes) -> None:
    found = scanned(line)
    assert found.nodes == []
    assert found.note == scanner.NO_NODE


def test_the_digest_is_that_of_the_beginning_and_the_end() -> None:
    middle = b"." * 3 * CHUNK
    digests = {
        scanned(a + node_line(NODE_A) + middle + b).digest
        for a in (b"1", b"2")
        for b in (b"1", b"2")
    }
    assert len(digests) == 4
    assert scanned(node_line(NODE_A) + middle).digest == scanned(node_line(NODE_A) + middle).digest


def test_repeats_of_a_name_are_one() -> None:
    assert scanned(node_line(NODE_A) * 4).nodes == [NODE_A]


def test_two_names_keep_their_order() -> None:
    assert scanned(node_line(NODE_B) + node_line(NODE_A) + node_line(NODE_B)).nodes == [
        NODE_B,
        NODE_A,
    ]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        # The only public line, in both of its spellings: an open quote, letters swapped, four characters.
        (
            b"++ echo 'Run on node: ask-agentpool-17631869-vmss0000\n",
            "ask-agentpool-17631869-vmss0000",
        ),
        (
            b"++ echo 'Run on node: ask-agentpool-17631869-vmss0000\"\n",
            "ask-agentpool-17631869-vmss0000",
        ),
        (b"Run on node: aks-gpu-12345678-vmss00000\n", "aks-gpu-12345678-vmss00000"),
        (b"++ echo 'Run on node: trainer-rack2-1\n", "trainer-rack2-1"),
        (b'++ echo "Run on node: trainer-rack2-1\r\n', "trainer-rack2-1"),
        (b"++ echo 'Run on node: trainer-rack2-1\x1b[0m\n", "trainer-rack2-1"),
        (b"Run on node: trainer-rack2-\n", "trainer-rack2"),
    ],
)
def test_a_name_that_is_cut_is_marked_and_one_that_is_whole_replaces_it(
    line: bytes, name: str
) -> None:
    found = scanned(line + b"+ true\n")
    assert (found.nodes, found.truncated) == ([name], True)
    whole = (
        f"{name}-1" if "vmss" not in name else name.ljust(len(name.partition("vmss")[0]) + 10, "0")
    )
    for data in (line + node_line(whole), node_line(whole) + line):
        found = scanned(data)
        assert (found.nodes, found.truncated) == ([whole], False)
    found = scanned(line + node_line("moc-1"))
    assert (found.nodes, found.truncated) == (["moc-1", name], True)


def test_of_two_cut_names_the_longer_one_counts() -> None:
    found = scanned(
        b"+ echo 'Run on node: gpu-box\n+ echo 'Run on node: gpu-box-1\n+ echo 'Run on node: gpu\n"
    )
    assert (found.nodes, found.truncated) == (["gpu-box-1"], True)


def test_the_spelling_of_scale_sets_is_that_of_kubernetes() -> None:
    found = scanned(
        node_line("aks-gpu-12345678-vmss00002D") + node_line("aks-gpu-12345678-vmss00002d")
    )
    assert (found.nodes, found.truncated) == (["aks-gpu-12345678-vmss00002d"], False)


@pytest.mark.parametrize("tail", [b"aks-gpu-1234", b"aks-gpu-", b"aks-gpu-12345678-vmss00000a"])
def test_a_name_at_the_end_without_a_newline_is_marked_truncated(tail: bytes) -> None:
    found = scanned(b"+ true\nRun on node: " + tail)
    assert found.truncated
    assert found.nodes == [tail.decode().rstrip("-")]


def test_a_truncated_repeat_of_a_known_name_is_not_another_node() -> None:
    found = scanned(node_line(NODE_A) + b"Run on node: aks-gpu-12")
    assert (found.nodes, found.truncated) == ([NODE_A], False)


@pytest.mark.parametrize(
    "place",
    [
        0,
        1,
        CHUNK - 300,
        CHUNK,
        FIRST - LONGEST_LINE - 5,
        FIRST - LONGEST_LINE,
        FIRST - 5,
        FIRST + CHUNK - 7,
    ],
)
def test_a_line_across_the_border_of_two_chunks_is_found_once(place: int) -> None:
    data = b"x" * place + b"\n" + node_line(NODE_A) + b"y" * (3 * CHUNK - place)
    found = scanned(data)
    assert (found.nodes, found.size, found.truncated) == ([NODE_A], len(data), False)


@settings(max_examples=60, deadline=None)
@given(
    before=st.integers(0, 2 * CHUNK + 50),
    between=st.integers(0, CHUNK + TAIL),
    step=st.sampled_from([1 << 30, CHUNK, 5000, 700]),
)
def test_two_names_are_found_anywhere_and_however_the_stream_returns_its_bytes(
    before: int, between: int, step: int
) -> None:
    data = b"-" * before + b"\n" + node_line(NODE_A) + b"." * between + b"\n" + node_line(NODE_B)

    class Slow(io.BytesIO):
        def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]
            return super().readinto(memoryview(buffer)[:step])

    found = scan(LogFile("j/amlarc_cr_bootstrap.log", lambda: Slow(data)))
    assert not isinstance(found, SkippedFile)
    assert (found.nodes, found.size) == ([NODE_A, NODE_B], len(data))


def test_a_date_inside_the_log_is_the_start_and_a_line_prefix_only_a_substitute() -> None:
    dated = (
        b"2026-03-03 16:03:07 bootstrap starts at Tue Mar  3 16:02:22 UTC 2026\n2026-03-03 16:03:07 "
        + node_line(NODE_A)
    )
    assert scanned(dated).start == 1772553742
    assert scanned(dated).start_exact
    prefixed = b"2026-03-03T16:03:07Z " + node_line(NODE_A)
    assert scanned(prefixed).start == 1772553787
    assert not scanned(prefixed).start_exact


def test_run_id_and_pod_uid_are_taken_from_the_head() -> None:
    found = scanned(b"+ export AZUREML_RUN_ID=brave_fig\n+ POD_UID='0a-1b'\n" + node_line(NODE_A))
    assert (found.run_id, found.pod_uid) == ("brave_fig", "0a-1b")


@pytest.mark.parametrize(
    "words",
    [
        "Azure Machine Learning Kubernetes job failed.",
        "AML Kubernetes Compute job failed.",
        "AzureML Kubernetes job failed.",
    ],
)
def test_azuremls_own_message_about_the_failure_is_found(words: str) -> None:
    found = scanned(node_line(NODE_A) + f"{words} -220: stopped\n".encode())
    assert found.failure is not None
    assert found.failure[0] == "-220"


@pytest.mark.parametrize("place", [0, 4000, 4090, 4095, 4096, HEAD - 200])
def test_ids_are_found_anywhere_in_the_head(place: int) -> None:
    fields = b"+ export POD_UID=1-2-3 AZUREML_RUN_ID='brave_1'\n"
    found = scanned(
        b"+ export SETTING=1\n".ljust(place, b"x") + fields + b"x" * HEAD + node_line(NODE_A)
    )
    assert (found.pod_uid, found.run_id) == ("1-2-3", "brave_1")


def test_a_date_is_the_start_only_near_the_start() -> None:
    date = b"\nbootstrap starts at Tue Mar  3 09:00:00 UTC 2026\n"
    found = scanned(b"x" * (DATE_HEAD - len(date)) + date + node_line(NODE_A))
    assert (found.start, found.start_exact) == (1772528400.0, True)
    assert scanned(b"x" * DATE_HEAD + date + node_line(NODE_A)).start is None


def test_fields_are_found_after_text_with_letters_of_all_kinds() -> None:
    lines = b"UUU 2026-07-01 INFO USER UTC 2 RUN_ID= POD_UID=! just a job failed. jjj\n" * 200
    date = b"bootstrap starts at Tue Mar  3 09:00:00 UTC 2026\n"
    fields = b"+ export POD_UID=1-2-3 MLFLOW_RUN_ID=brave_1\n"
    failure = b"AML Kubernetes job failed. 137: x\n"
    found = scanned(
        lines + date + lines * 3 + fields + lines * 9 + node_line(NODE_A) + failure + lines * 9
    )
    assert (found.pod_uid, found.run_id, found.start) == ("1-2-3", "brave_1", 1772528400.0)
    assert (found.nodes, found.failure) == ([NODE_A], ("137", "x"))


def test_the_first_date_and_ids_count() -> None:
    first = b"AZUREML_RUN_ID=a POD_UID=b\nTue Mar  3 09:00:00 UTC 2026\n"
    again = b"AZUREML_RUN_ID=c POD_UID=d\nTue Mar  3 10:00:00 UTC 2026\n"
    found = scanned(b"Tue Mar 33 09:00:00 UTC 2026\n" + first + again + node_line(NODE_A))
    assert (found.run_id, found.pod_uid, found.start) == ("a", "b", 1772528400.0)


@pytest.mark.parametrize(
    "place", [0, 5, CHUNK - 30, CHUNK - 5, CHUNK + TAIL - 9, 2 * CHUNK, 3 * CHUNK - 40]
)
def test_the_last_failure_is_found_anywhere_in_a_long_log(place: int) -> None:
    first = b"AML Kubernetes job failed. -220: first\n"
    last = b"AzureML Kubernetes job failed. 9: last\n"
    found = scanned(first + b"x" * place + b"\n" + last + b"y" * (4 * CHUNK - place))
    assert found.failure == ("9", "last")


def test_a_field_at_the_very_end_is_not_completed_with_bytes_of_another_log() -> None:
    scanned(b"x" * 30 + b"POD_UID=other\n" + node_line(NODE_A))
    cut = scanned(node_line(NODE_A) + b"POD_UID")
    assert cut.pod_uid is None
    scanned(b"AML Kubernetes job failed. 1: x\n" + node_line(NODE_A))
    assert scanned(b"AML Kubernetes job fail").failure is None


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("AML Kubernetes Compute job failed.137:x", "137"),
        ("AzureML Kubernetes job failed. Dispatch Job Fail: no such type", "Dispatch Job Fail"),
        (
            "AzureMLCompute job failed. PreemptionError: Nodes of this job got pre-empted. Check",
            "PreemptionError",
        ),
    ],
)
@pytest.mark.parametrize("after", [0, 100, 4000])
def test_the_failure_is_found_before_a_long_tail_too(words: str, code: str, after: int) -> None:
    tail = b"cleaning up after the job failed\n" + b"+ rm -rf /tmp/x\n" * after
    found = scanned(node_line(NODE_A) + words.encode() + b"\n" + tail)
    assert found.failure is not None
    assert found.failure[0] == code


def test_node_and_failure_are_found_across_every_border_of_chunks() -> None:
    for place in BORDERS:
        lines = b"\nRun on node: aks-1\nAML Kubernetes job failed. 9: x\n"
        found = scanned(b"x" * place + lines + b"y" * (3 * CHUNK - place))
        assert (found.nodes, found.failure) == (["aks-1"], ("9", "x")), place


def test_node_and_failure_are_found_in_the_middle_of_a_long_log() -> None:
    class Long(io.RawIOBase):
        """200 MB of text, made as it is read."""

        middle, left = node_line(NODE_A) + b"AML Kubernetes job failed. 9: x\n", 200 * 10**6

        def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]
            size = min(len(buffer), self.left, 10**6)
            filler = b"2026-07-01 INFO a job failed USER on node AZUREML_RUN\n" * (size // 50 + 1)
            half = self.left > 10**8 >= self.left - size
            buffer[:size] = (b"\n" + self.middle + filler if half else filler)[:size]
            self.left -= size
            return size

    found = scan(LogFile("p", Long))  # type: ignore[arg-type]
    assert not isinstance(found, SkippedFile)
    assert (found.nodes, found.failure, found.size) == ([NODE_A], ("9", "x"), 200 * 10**6)


@pytest.mark.parametrize("after", [0, 100, TAIL - 400])
@pytest.mark.parametrize("before", [0, CHUNK - 100, CHUNK + TAIL - 100, 2 * CHUNK])
def test_gpu_errors_are_found_in_the_tail(before: int, after: int) -> None:
    errors = (
        b"[  812.1] NVRM: Xid (PCI:0000:0b:00): 79, pid=1234, GPU has fallen off the bus.\n"
        b"NVRM: Xid (PCI:0000:0b:00): 79, pid='<unknown>', name=<unknown>\n"
        b"NVRM: Xid (0001:00:00): 48, DBE\n"
        b"RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
    )
    found = scanned(b"x" * before + errors + b"y" * after)
    assert found.xids == (79, 48)
    assert found.gpu_messages == ((GpuProof.HARDWARE, "uncorrectable ECC error encountered"),)


@pytest.mark.parametrize(
    ("line", "proof"),
    [
        (
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",
            "DRIVER",
        ),
        ("Couldn't init CUDA: Error (gpu_burn-drv.cpp:304): system not yet initialized", "DRIVER"),
        ("Failed to initialize NVML: Driver/library version mismatch", "DRIVER"),
        ("Failed to initialize NVML: Unknown Error", "DRIVER"),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest"
            " NVIDIA driver is installed and running.",
            "DRIVER",
        ),
        ("Unable to determine the device handle for GPU0000:65:00.0: Unknown Error", "HARDWARE"),
        ("pynvml.NVMLError_GpuIsLost: GPU is lost", "HARDWARE"),
        ("pynvml.NVMLError_ResetRequired: GPU requires reset", "HARDWARE"),
        (
            "RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution",
            "HARDWARE",
        ),
        ("RuntimeError: CUDA error: no CUDA-capable device is detected", "MISSING"),
        ("RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable", "MISSING"),
        ("RuntimeError: No CUDA GPUs are available", "MISSING"),
        ("RuntimeError: Found no NVIDIA driver on your system. Please check", "MISSING"),
        ("ncclRemoteError: A call failed possibly due to a network error", "PEER"),
    ],
)
def test_what_cuda_nvml_and_nccl_print(line: str, proof: str) -> None:
    found = scanned(b"step 1\n" + line.encode() + b"\n")
    assert [found_proof.name for found_proof, _ in found.gpu_messages] == [proof]


def test_words_like_gpu_errors_are_not_gpu_errors() -> None:
    found = scanned(
        b"Xid (see the manual): 79\nECC: 0 uncorrectable errors\nXid 79\nCUDA error: out of memory\n"
        b"cuda ok\nmail: system not yet initialized\nThe NVIDIA driver on your system is too old. Make it new\n"
        + node_line(NODE_A)
    )
    assert (found.xids, found.gpu_messages) == ((), ())


@pytest.mark.parametrize(
    "prefix", ["2021-07-13 16:03:07 ", "2021-07-13T16:03:07.123456789Z stderr F "]
)
def test_the_predecessors_hostname_is_found_behind_a_prefix_on_every_line(prefix: str) -> None:
    lines = ["+ set -x", "+ hostname", "aks-old-12345678-vmss000001", "+ date"]
    assert scanned("".join(f"{prefix}{line}\r\n" for line in lines).encode()).nodes == [
        "aks-old-12345678-vmss000001"
    ]


def test_a_sentence_is_not_a_node() -> None:
    assert scanned(b"Run on node: failed to resolve host\n").nodes == []
    assert scanned(b"Run on node: gpu-1 of the pool\n").nodes == ["gpu-1"]
    assert scanned(b"Run on node: gpu\n").nodes == ["gpu"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("repeat", [100, 20_000])
def test_utf_16_is_read(encoding: str, repeat: int) -> None:
    text = (
        "+ set -x\nRun on node: gpu-1 \u00e9\n" * repeat + "AzureML Kubernetes job failed. 137:x\n"
    )
    found = scanned(text.encode(encoding))
    assert (found.nodes, found.failure, found.size) == (["gpu-1"], ("137", "x"), len(text.encode()))
    assert parse_list('{"kind":"List","items":[{"kind":"Pod"}]}'.encode("utf-16")).pods == [
        {"kind": "Pod"}
    ]


def test_utf_16_in_utf_16_is_not_a_log() -> None:
    data = ("x" * 4000).encode("utf-16-le").decode("latin-1").encode("utf-16-le")
    assert scan(LogFile("p", lambda: io.BytesIO(data))) == SkippedFile("p", scanner.BINARY)


def test_the_predecessors_hostname_line_is_a_fallback_only() -> None:
    assert scanned(b"+ hostname\naks-old-12345678-vmss000001\n+ date\n").nodes == [
        "aks-old-12345678-vmss000001"
    ]
    assert scanned(b"+ hostname\nother\n" + node_line(NODE_A)).nodes == [NODE_A]


def test_binary_and_empty_files_are_named_as_such() -> None:
    binary = scan(LogFile("p", lambda: io.BytesIO(b"\x00\x01\x00 nothing\n")))
    assert binary == SkippedFile("p", scanner.BINARY)
    assert scanned(b"").note == scanner.EMPTY


@pytest.mark.parametrize("nul", [b"\0", b"\0" * 5000, b"\0" * CHUNK * 2])
def test_a_log_that_was_truncated_in_place_starts_with_nul_bytes_and_is_read(nul: bytes) -> None:
    assert scanned(nul + b"AML Kubernetes job failed. 9: x\n").failure == ("9", "x")
    assert scanned(b"+ true" + nul + b"\n" + node_line(NODE_A)).nodes == [NODE_A]


def test_a_tar_is_not_one_log() -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("amlarc_cr_bootstrap.log")
        member.size = len(node_line(NODE_A))
        archive.addfile(member, io.BytesIO(node_line(NODE_A)))
    assert scan(LogFile("p", lambda: io.BytesIO(file.getvalue()))) == SkippedFile(
        "p", scanner.ARCHIVE
    )


def test_gzip_is_recognized_by_its_first_bytes() -> None:
    data = b"AZUREML_RUN_ID=brave\n" + b"x" * (2 * CHUNK) + b"\n" + node_line(NODE_A)
    found = scanned(gzip.compress(data))
    assert (found.nodes, found.run_id, found.size) == ([NODE_A], "brave", len(data))
    twice = scan(LogFile("p", lambda: io.BytesIO(gzip.compress(gzip.compress(data)))))
    assert twice == SkippedFile(
        "p", scanner.BINARY
    )  # unpacked once only: there is gzip data that contains itself


def test_a_log_that_is_being_written_is_read_as_far_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "amlarc_cr_bootstrap.log"
    path.write_bytes(node_line(NODE_A) + b"x" * (2 * CHUNK))
    size = path.stat().st_size

    class Growing(io.FileIO):
        """Each read finds the file longer than before: without a limit this never ends."""

        def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]
            with path.open("ab") as more:
                more.write(b"y" * CHUNK)
            return super().readinto(buffer) or 0

    found = scan(LogFile(str(path), lambda: Growing(str(path))))
    assert not isinstance(found, SkippedFile)
    assert found.nodes == [NODE_A]
    assert size <= found.size < size + 4 * CHUNK


def test_a_file_of_many_names_costs_no_more_than_its_length() -> None:
    data = b"".join(b"Run on node: n%d\n" % number for number in range(20000))
    assert len(scanned(data).nodes) == scanner.MAX_NODES


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.sampled_from([b"Run on node:", b" ", X, b"'", b"\n", b"\x1b[0m", b"ID="]),
        )
    )
)
def test_any_bytes_are_scanned_without_a_fault(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    found = scan(LogFile("p", lambda: io.BytesIO(data)))
    if not isinstance(found, SkippedFile):
        assert all(name.isascii() and 0 < len(name) <= 253 for name in found.nodes)
