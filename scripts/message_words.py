"""Refresh arc_toolkit/data/message_words.txt: the words that the recorder may keep of a message.

They are the words of string literals in the sources of Kubernetes, Volcano and containerd, as far as several files
use them, and a few of Azure and NVIDIA below. `scripts/control-plane` downloads these modules when it builds.

    python -m scripts.message_words
"""

from __future__ import annotations

import datetime
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from scripts.control_plane import MODULES, pinned

OUTPUT = Path(__file__).resolve().parent.parent / "arc_toolkit" / "data" / "message_words.txt"
FEWEST_FILES = 2
SHORTEST = 3  # of a word from the sources; shorter ones are listed here
PLACEHOLDERS = {"abc", "acme", "bar", "baz", "foo", "qux", "xyz"}
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
FOLDERS = {
    "k8s.io/kubernetes": (
        "pkg/kubelet",
        "pkg/scheduler",
        "pkg/controller",
        "pkg/volume",
        "pkg/quota",
        "plugin/pkg",
    ),
    "k8s.io/api": ("",),
    "k8s.io/apimachinery": ("",),
    "k8s.io/apiserver": ("",),
    "k8s.io/cloud-provider": ("",),
    "k8s.io/cri-client": ("",),
    "k8s.io/kubelet": ("",),
    "volcano.sh/volcano": ("pkg",),
    "volcano.sh/apis": ("",),
    "github.com/containerd/containerd/api": ("",),
    "github.com/opencontainers/cgroups": ("",),
}
# From the documentation of AKS (node problem detector, scheduled events, node auto-repair), of its CSI drivers, of
# AzureML, of Karpenter, and of NVIDIA (container toolkit, Xid errors), which are not in those modules.
MORE = """
abandoned abnormal abort aborted aborting absent acr additional adjusted affinity agent agentpool agentpools
aggregated ago ai aka aks allocation am amlarc an anon apr april arc as at aug august authenticate authorized
automatically autoscaler az azstorage azure azurecr azuredisk azurefile azureml backoff bad base bash batch be being
blob blobfuse blobmounterror block blocked blocking bootstrap broken bus by canceled cancelled capacity cc cd chief
classic clock cluster cni com completed computes consolidation consumption contained containerd controller cordon
cordoned corrected corrupted corruption count counter crash crashed cublas cuda cudnn daemon database datastore dcgm
deadlock deallocate deallocated dec december defaulted degraded delete deleted deleting demand desc detected
detector device devices didn disabled discard discarded disrupted disrupting dmesg do docker doesn drain drained
draining dram drift drifted driver dshm duration ecc egress empty endpoint environment escalated events evict
evicted evicting eviction execution expected exporter extension fabric fallback fallen fatal fault faults feb
february filesystem flap flapping flask flush fragmented frameworkcontroller freeze frequent frequently fri friday
functioning future gang gangpreempt garbage gb gc gi give given gmt going good gpu gpubad gpumissing gpus graceful
graphics guest hang hangs hardware he healthy hook host hour hours hung husky ib id identity if im image imagefs
imds imminent in inactive infiniband initialization initialize initiated initiating inodes insufficient internal
interval io ip is issue it jan january jul july jun june kb kernel ki killed killing killprocess km kubelet kubepods
lazy legacy library link links live locked locking longer lost machine machines maintenance managed mar march master
matching mb mcr me meets mellanox memory memorypressure mi microsoft migration mismatch missing ml mon monday mount
mounted mounting ms msi my nccl ndr network nfs nhc no node nodeclaim nodefs nodes nov november npd ns nv nvidia
nvlink nvlinks nvml nvrm nvswitch observed oci oct october of offline oh on ondemand operation or os outage
overcommit overused packages parallel parameter pause paused pci pending persistence persisting pipeline pipelined
platform plugin pool pools predicted preempt preempted preempting preemption preemptscheduled present preserving
pressure problem processes properly proxy pulling pv python pytorch query quota rank ray rdma read reboot rebooted
rebooting rebuild reclaim reclaimed reclaiming recovered redeploy redeployed redeployment reimage reimaged reimaging
released releasing remediator remount remounted remounting removed removing repair repaired request requested
requests reset restart restarted restarting restarts retired retirement retry rm row rss running sa sandbox sas sat
saturday scaleset scalesetpriority scheduled scheduledevents scheduler scheduling sep september serving session
severity sharedaccess shim shmem shuffle shutdown shutting si sidecar sku slow slowdown so socket spot stable
starting storage sun sunday surge suspended sweep switch synchronization syslog systemd taint tainted tainting taken
tb temporary tensorflow terminate terminated terminating thermal threshing threshold throttled throttling thu
thursday ti timed timeout to tolerated toleration topology torch train trainer training transient transition
triggered tue tuesday unavailable uncordon uncorrectable uncorrected undeployed underutilized unexpected unhealthy
uninitialized unknown unmount unpack unreachable unregister unresponsive unschedulable unschedule untolerated up
update updating upgrade upgraded upgrading us usage utc validate vf victim virtual vm vmeventscheduled vmss vnet
volcano warning was watchdog we wed wednesday wheel worker workers workspace workspaceblobstore wrapper xfs xid xs
zone zones
"""


def main() -> None:
    counts: Counter[str] = Counter()
    for folder in _folders():
        for path in folder.rglob("*.go"):
            if not path.name.endswith("_test.go") and "generated" not in path.name:
                counts.update(_words(path.read_text(encoding="utf-8", errors="replace")))
    often = {
        word for word, count in counts.items() if count >= FEWEST_FILES and len(word) >= SHORTEST
    }
    words = sorted(
        {word for word in often - PLACEHOLDERS if len(set(word)) > 1} | set(MORE.split())
    )
    versions = ", ".join(f"{module} {pinned(module)[1]}" for module in ("kubernetes", "volcano"))
    head = f"# Written by scripts/message_words.py on {datetime.datetime.now(datetime.UTC):%Y-%m-%d} from {versions}.\n"
    OUTPUT.write_text(head + "".join(f"{word}\n" for word in words))
    print(f"{len(words)} words")


def _folders() -> Iterator[Path]:
    for module in ("kubernetes", "volcano"):
        listed = subprocess.run(
            ["go", "list", "-m", "-json", "all"],
            cwd=MODULES / module,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for entry in _documents(listed):
            if (path := str(entry.get("Path"))) in FOLDERS and entry.get("Dir"):
                yield from (Path(str(entry["Dir"])) / part for part in FOLDERS[path])


def _documents(text: str) -> Iterator[dict[str, object]]:
    decoder = json.JSONDecoder()
    while text := text.strip():
        entry, end = decoder.raw_decode(text)
        yield entry
        text = text[end:]


def _words(source: str) -> set[str]:
    """The words of its sentences and of its CamelCase reasons."""
    literals = [
        literal
        for literal in LITERAL.findall(source)
        if " " in literal or re.fullmatch(r"[A-Z]\w+", literal)
    ]
    return {
        word.lower() for literal in literals for word in WORD.findall(re.sub(r"\\.", " ", literal))
    }


if __name__ == "__main__":
    main()
