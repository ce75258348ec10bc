"""What a source offers: by name, wherever it lies; what is not used is said."""

from __future__ import annotations

import gzip
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.diagnosis.model import CauseKind, SkippedFile, Stats
from arc_toolkit.diagnosis.read import collect, unpack
from arc_toolkit.diagnosis.read.scan import LogScan
from arc_toolkit.diagnosis.read.sources.inventory import UNRELATED, Inventory, add
from arc_toolkit.errors import ArcError
from tests.diagnosis.made import NODE_A, NODE_B, node_line, save, write_log

LOG = "amlarc_cr_bootstrap.log"


def read(*sources: object, jobs: int = 1) -> tuple[list[LogScan], Inventory]:
    inventory = Inventory(keep_unrelated=True)
    for source in sources:
        add(str(source), inventory)
    return collect.read_logs(inventory, jobs, lambda text: None), inventory


def reasons(inventory: Inventory) -> dict[str, str]:
    return {Path(item.path).name: item.reason for item in inventory.skipped}


def make_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def test_logs_are_found_by_name_at_any_depth_and_all_else_has_a_reason(tmp_path: Path) -> None:
    write_log(tmp_path, f"j/artifacts/system_logs/{LOG}", NODE_A)
    write_log(tmp_path, f"a/b/c/d/e/j2/retry-001/{LOG}", NODE_B)
    (tmp_path / "j/artifacts/model.bin").write_bytes(b"\0")
    scans, inventory = read(tmp_path)
    assert sorted(scan.nodes[0] for scan in scans) == [NODE_A, NODE_B]
    assert reasons(inventory) == {"model.bin": UNRELATED}
    assert inventory.file_count == 3


def test_a_zip_is_read_without_unpacking(tmp_path: Path) -> None:
    path = make_zip(
        tmp_path / "Studio.zip",
        {
            f"system_logs/{LOG}": node_line(NODE_A),
            f"system_logs/retry-001/{LOG}.gz": gzip.compress(node_line(NODE_B)),
            "x.txt": b"",
        },
    )
    scans, inventory = read(path)
    assert [scan.nodes for scan in scans] == [[NODE_A], [NODE_B]]
    assert scans[0].path == f"{path}/system_logs/{LOG}"
    assert reasons(inventory) == {"x.txt": UNRELATED}
    assert os.listdir(tmp_path) == ["Studio.zip"]


def test_members_that_lead_outside_or_are_archives_are_reported_and_the_rest_is_read(
    tmp_path: Path,
) -> None:
    make_zip(
        tmp_path / "z.zip",
        {
            f"../../etc/{LOG}": node_line("evil"),
            f"/abs/{LOG}": node_line("evil"),
            "in.zip": b"PK",
            f"j/{LOG}": node_line(NODE_A),
        },
    )
    scans, inventory = read(tmp_path)
    assert [scan.nodes for scan in scans] == [[NODE_A]]
    assert sorted(inventory.counts) == [
        "archive inside a zip: unpack it first",
        "zip member with a path outside the zip",
    ]


def test_a_zip_bomb_is_not_unpacked_and_the_rest_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpack, "BOMB_FLOOR_BYTES", 1 << 20)
    make_zip(tmp_path / "z.zip", {f"bomb/{LOG}": b" " * (30 << 20), f"j/{LOG}": node_line(NODE_A)})
    scans, inventory = read(tmp_path)
    assert [scan.nodes for scan in scans] == [[NODE_A]]
    assert reasons(inventory) == {LOG: unpack.BOMB}


def test_a_gz_bomb_is_stopped_while_it_unpacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpack, "BOMB_FLOOR_BYTES", 1 << 20)
    (tmp_path / f"{LOG}.gz").write_bytes(gzip.compress(b" " * (60 << 20)))
    scans, inventory = read(tmp_path)
    assert reasons(inventory) == {f"{LOG}.gz": f"cannot be read: {unpack.BOMB}"}
    assert scans[0].size < 40 << 20


def test_gzip_under_a_plain_name_is_unpacked_in_folders_and_zips(tmp_path: Path) -> None:
    (tmp_path / "j").mkdir()
    (tmp_path / f"j/{LOG}").write_bytes(gzip.compress(node_line(NODE_A)))
    nodes = {"kind": "List", "items": [{"kind": "Node", "metadata": {"name": NODE_A}}]}
    (tmp_path / "nodes.json").write_bytes(gzip.compress(json.dumps(nodes).encode()))
    make_zip(tmp_path / "z.zip", {f"k/{LOG}": gzip.compress(node_line(NODE_B))})
    scans, inventory = read(tmp_path)
    assert [scan.nodes for scan in scans] == [[NODE_A], [NODE_B]]
    (facts,) = collect.read_kubernetes(inventory)
    assert len(facts.nodes) == 1
    assert inventory.skipped == []


def test_a_gz_in_a_zip_expands_to_no_more_than_the_zip_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpack, "BOMB_FLOOR_BYTES", 1 << 20)
    twice = gzip.compress(gzip.compress(b" " * (60 << 20)), compresslevel=0)
    bomb = gzip.compress(b" " * (60 << 20))
    make_zip(
        tmp_path / "z.zip",
        {f"bomb/{LOG}": bomb, f"twice/{LOG}": twice, f"j/{LOG}": node_line(NODE_A)},
    )
    scans, inventory = read(tmp_path)
    assert inventory.counts[f"cannot be read: {unpack.BOMB}"] == 1
    assert sum(scan.size for scan in scans) < 8 << 20


def test_an_archive_passed_by_name_is_not_read_as_a_log(tmp_path: Path) -> None:
    path = tmp_path / "logs.tar.gz"
    path.write_bytes(gzip.compress(node_line(NODE_A)))
    assert read(path)[0] == []
    assert reasons(read(path)[1]) == {"logs.tar.gz": "archive: unpack it first"}


def test_members_that_share_their_data_are_not_read_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpack, "BOMB_FLOOR_BYTES", 1 << 20)
    with zipfile.ZipFile(tmp_path / "z.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"j/{LOG}", node_line(NODE_A) + os.urandom(500).hex().encode() * 300)
        archive.filelist += archive.filelist * 5000
    scans, inventory = read(tmp_path)
    assert len(scans) < 1500
    assert inventory.counts["zip member that overlaps others"] == 5001 - len(scans)


def test_a_truncated_gz_is_read_as_far_as_possible_and_reported(tmp_path: Path) -> None:
    data = gzip.compress(node_line(NODE_A) + os.urandom(50000).hex().encode())
    (tmp_path / "j").mkdir()
    (tmp_path / f"j/{LOG}.gz").write_bytes(data[: len(data) // 2])
    scans, inventory = read(tmp_path)
    assert scans[0].nodes == [NODE_A]
    assert list(inventory.counts) == ["truncated or damaged compressed data"]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_truncated_zip_is_reported_and_its_members_are_read_as_far_as_possible(
    tmp_path: Path, method: int, streamed: bool
) -> None:
    class Pipe(io.BytesIO):
        """Not seekable, so that sizes stand behind the data, as where a zip is made while it is sent."""

        def seekable(self) -> bool:
            return not streamed

        def seek(self, *args: int) -> int:
            if streamed:
                raise OSError
            return super().seek(*args)

    out = Pipe()
    noise = os.urandom(30000).hex().encode()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr(f"j/system_logs/{LOG}", node_line(NODE_A) + noise)
        archive.writestr(f"j/system_logs/retry-001/{LOG}", node_line(NODE_B) + noise)
        archive.writestr(f"k/{LOG}", node_line("never-reached"))
    data = out.getvalue()
    cut = data.index(b"k/" + LOG.encode()) - 20000
    (tmp_path / "z.zip").write_bytes(data[:cut])
    scans, inventory = read(tmp_path)
    assert [scan.nodes for scan in scans] == [[NODE_A], [NODE_B]]
    assert [scan.path.removeprefix(f"{tmp_path}/") for scan in scans] == [
        f"z.zip/j/system_logs/{LOG}",
        f"z.zip/j/system_logs/retry-001/{LOG}",
    ]
    assert "zip truncated or damaged: its members are read as far as possible" in inventory.counts
    if method == zipfile.ZIP_DEFLATED:
        assert scans[1].note == "truncated or damaged compressed data"


def test_a_zip_without_any_data_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    (tmp_path / "z.zip").write_bytes(b"PK\x03\x04 and then nothing")
    (tmp_path / "empty.zip").write_bytes(b"")
    write_log(tmp_path, f"k/{LOG}", NODE_B)
    scans, inventory = read(tmp_path)
    assert [scan.nodes for scan in scans] == [[NODE_B]]
    assert sorted(reasons(inventory)) == ["empty.zip", "z.zip"]


def test_a_zip_member_with_damaged_data_is_reported(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "z.zip", {f"j/{LOG}": os.urandom(4000).hex().encode()})
    data = bytearray(path.read_bytes())
    data[200:260] = bytes(60)
    path.write_bytes(data)
    _, inventory = read(path)
    assert list(inventory.counts) == ["truncated or damaged compressed data"]


def test_symbolic_links_are_followed_once_and_loops_end(tmp_path: Path) -> None:
    write_log(tmp_path / "elsewhere", f"j/{LOG}", NODE_A)
    root = tmp_path / "root"
    write_log(root, f"k/{LOG}", NODE_B)
    (root / "loop").symlink_to(root)
    (root / "k/up").symlink_to("..")
    (root / "out").symlink_to(tmp_path / "elsewhere")
    (root / "self").symlink_to("self")
    (root / "gone").symlink_to("nothing")
    scans, inventory = read(root)
    assert sorted(scan.nodes[0] for scan in scans) == [NODE_A, NODE_B]
    assert {
        name: "link" in reason or "levels" in reason for name, reason in reasons(inventory).items()
    } == {
        "loop": True,
        "up": True,
        "self": True,
        "gone": True,
    }


def test_an_unreadable_folder_is_reported_and_the_rest_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path, f"j/{LOG}", NODE_A)
    (tmp_path / "secret").mkdir()
    real = os.scandir

    def scandir(path: str) -> Any:
        if path.endswith("secret"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    scans, inventory = read(tmp_path)
    assert [scan.nodes for scan in scans] == [[NODE_A]]
    assert reasons(inventory) == {"secret": "folder cannot be read: permission denied"}


def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / LOG)
    _, inventory = read(tmp_path)
    assert reasons(inventory) == {LOG: "not a regular file"}


def test_a_file_passed_by_path_is_read_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "renamed.txt"
    path.write_bytes(node_line(NODE_A))
    assert read(path)[0][0].nodes == [NODE_A]


def test_saved_kubernetes_json_is_recognized_by_name_in_folders_and_by_content_if_passed_by_path(
    tmp_path: Path,
) -> None:
    save(tmp_path / "prod-pods.json", [])
    named = save(tmp_path / "whatever", [])
    (tmp_path / "other.json").write_text("{}")
    assert len(read(tmp_path)[1].kubernetes) == 1
    assert len(read(named)[1].kubernetes) == 1


def test_globs_read_no_file_twice(tmp_path: Path) -> None:
    write_log(tmp_path, f"j1/system_logs/{LOG}", NODE_A)
    write_log(tmp_path, f"j2/system_logs/{LOG}", NODE_B)
    assert len(read(tmp_path / "**")[0]) == 2
    assert len(read(tmp_path / "j[12]/system_logs/*.log")[0]) == 2


def test_a_source_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ArcError, match="no such file or folder"):
        read(tmp_path / "nothing")
    with pytest.raises(ArcError, match="nothing matches"):
        read(tmp_path / "*.zip")


def test_a_name_that_is_not_utf8_can_be_shown(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/j\xff"
    os.mkdir(folder)
    with open(folder + b"/" + LOG.encode(), "wb") as stream:
        stream.write(node_line(NODE_A))
    scans, _ = read(tmp_path)
    assert scans[0].nodes == [NODE_A]
    assert scans[0].path.encode("utf-8")


def test_processes_give_the_same_as_one(tmp_path: Path) -> None:
    for number in range(250):
        write_log(tmp_path, f"j{number}/system_logs/{LOG}", f"n{number}")
    padding = os.urandom(4000).hex().encode()
    make_zip(
        tmp_path / "z.zip",
        {f"k{number}/{LOG}": padding + b"\n" + node_line(f"z{number}") for number in range(450)},
    )
    (tmp_path / f"j7/system_logs/{LOG}").write_bytes(b"\0")
    (one, one_inventory), (two, two_inventory) = read(tmp_path, jobs=1), read(tmp_path, jobs=2)
    assert len(one) == 699
    assert one == two
    assert (
        one_inventory.skipped
        == two_inventory.skipped
        == [SkippedFile(f"{tmp_path}/j7/system_logs/{LOG}", "binary, not a log")]
    )


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input_is_a_log_packed_or_not(
    packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = gzip.compress(node_line(NODE_A)) if packed else node_line(NODE_A)
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(data)))
    monkeypatch.setattr("sys.stdin", stdin)
    assert read("-")[0][0].nodes == [NODE_A]


def test_saved_kubernetes_json_may_come_on_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    data = json.dumps(
        {"kind": "List", "items": [{"kind": "Node", "metadata": {"name": NODE_A}}]}
    ).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
    _, inventory = read("-")
    (facts,) = collect.read_kubernetes(inventory)
    assert [item["metadata"]["name"] for item in facts.nodes] == [NODE_A]
    assert facts.nodes_complete


def test_azuremls_message_in_a_log_beside_the_bootstrap_log_belongs_to_its_attempt(
    tmp_path: Path,
) -> None:
    message = b"AzureML Kubernetes job failed. -210:User has requested to stop the Framework\n"
    for name in ("one", "none", "two"):
        (tmp_path / name / "system_logs/lifecycler").mkdir(parents=True)
        (tmp_path / name / "system_logs/lifecycler/lifecycler.log").write_bytes(message)
    write_log(tmp_path, "one/system_logs/amlarc_cr_bootstrap.log", NODE_A)
    write_log(tmp_path, "one/retry-001/system_logs/amlarc_cr_bootstrap.log", NODE_B)
    write_log(tmp_path, "two/system_logs/worker-0/amlarc_cr_bootstrap.log", NODE_A)
    write_log(tmp_path, "two/system_logs/worker-1/amlarc_cr_bootstrap.log", NODE_B)
    inventory = Inventory()
    add(str(tmp_path), inventory)
    scans = collect.read_logs(inventory, 1, lambda _: None)
    collect.read_side_logs(inventory, 1, scans, Stats())
    found = {
        scan.path.removeprefix(f"{tmp_path}/").split("/system_logs/")[0]: scan.failure[0]
        if scan.failure
        else None
        for scan in scans
    }
    assert found == {"one": "-210", "one/retry-001": None, "none": "-210", "two": None}
    assert not inventory.skipped


@pytest.mark.parametrize(
    "name",
    [
        "std_log.txt",
        "std_log_process_0.txt",
        "worker_0_std_log.txt",
        "70_driver_log.txt",
        "70_driver_log_0.txt",
    ],
)
def test_errors_of_a_gpu_are_found_in_what_the_job_printed(tmp_path: Path, name: str) -> None:
    (tmp_path / "job/user_logs").mkdir(parents=True)
    (tmp_path / "job/user_logs" / name).write_bytes(b"NVRM: Xid (PCI:0002:00:00): 79, pid=1\n")
    inventory = Inventory()
    add(str(tmp_path), inventory)
    stats = Stats()
    found = collect.read_side_logs(inventory, 1, [], stats)
    assert (stats.files_read, stats.bytes_read) == (1, 38)
    assert [(item.evidence.reason, item.kind) for item in found] == [
        ("Xid 79", CauseKind.NODE_FAULT)
    ]
    remote = Inventory()
    assert not remote.offer(name, inventory.side_logs[0], remote=True)
