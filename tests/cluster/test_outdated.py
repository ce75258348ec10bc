"""Which types --prune deletes: the cluster of one run, then the same cluster on another day."""

from __future__ import annotations

from typing import Any

import pytest

from arc_toolkit.cluster.outdated_types import outdated_types
from arc_toolkit.kube.taints import Toleration
from arc_toolkit.sizing.instance_types import GenerateOptions, generate
from arc_toolkit.sizing.node_selection import DaemonSets, Selection, select_nodes, select_sizes
from arc_toolkit.sizing.schedulable import Assumptions
from arc_toolkit.sizing.shares import Share
from tests.sizing.builders import node

Object = dict[str, Any]
GPU = {"size": "Standard_ND96asr_v4", "pool": "gpu", "gpus": 8}
SPOT = {"key": "kubernetes.azure.com/scalesetpriority", "value": "spot", "effect": "NoSchedule"}
MAINTENANCE = {"key": "team", "value": "maintenance", "effect": "NoSchedule"}


def live(*nodes: Object, by_pool: bool = False, tolerate: str = "") -> Selection:
    return select_nodes(
        nodes,
        [],
        Assumptions(),
        DaemonSets(()),
        source="cluster",
        place="test",
        by_pool=by_pool,
        tolerations=[Toleration(tolerate)] if tolerate else [],
    )


def manifests(selection: Selection, *shares: str, **options: Any) -> list[Object]:
    options = {"template": "{size}-{pool}-{gpus}-{share}", **options}
    requests = [Share.parse(share) for share in shares or ("whole",)]
    return [
        entry.manifest()
        for entry in generate(
            selection.groups, requests, selection.assumptions, GenerateOptions(**options)
        )[0]
    ]


def stored(items: list[Object], manager: str = "arc-toolkit") -> dict[str, Object]:
    """As the server has them after an apply."""
    rows = [{"manager": manager, "operation": "Apply"}]
    return {
        item["metadata"]["name"]: {**item, "metadata": {**item["metadata"], "managedFields": rows}}
        for item in items
    }


def decide(
    now: list[Object], present: dict[str, Object], selection: Selection
) -> tuple[list[str], dict[str, str]]:
    prune, keep = outdated_types(now, present, selection.candidates)
    return [item["metadata"]["name"] for item in prune], {
        item["metadata"]["name"]: why for item, why in keep
    }


def test_types_of_shares_that_are_no_longer_asked_for_are_pruned() -> None:
    cluster = live(node("a"), node("b", **GPU))
    present = stored(manifests(cluster, "whole", "half"))
    prune, keep = decide(manifests(cluster, "half"), present, cluster)
    assert prune == ["standard-d64s-v5-d64-0-whole", "standard-nd96asr-v4-gpu-8-whole"]
    assert keep == {}


@pytest.mark.parametrize(
    ("another_day", "why"),
    [
        ([], "there is no node of Standard_ND96asr_v4 now"),
        ([node("b", **GPU, ready="False")], "all of its nodes are left out now (NotReady)"),
        ([node("b", **GPU, unschedulable=True)], "all of its nodes are left out now (cordoned)"),
        (
            [node("b", **GPU, taints=[MAINTENANCE])],
            "left out now (taint team=maintenance:NoSchedule)",
        ),
        ([node("b", **{**GPU, "gpus": 0})], "left out now (only 0 of 8 GPUs)"),
        ([node("b", **{**GPU, "gpus": 7})], "left out now (only 7 of 8 GPUs)"),
    ],
    ids=["zero-nodes", "not-ready", "cordoned", "tainted", "no-device-plugin", "broken-gpu"],
)
def test_types_of_a_pool_that_is_not_itself_today_are_kept(
    another_day: list[Object], why: str
) -> None:
    first = live(node("a"), node("b", **GPU))
    present = stored(manifests(first, "whole", "half"))
    today = live(node("a"), *another_day)
    prune, keep = decide(manifests(today, "whole", "half"), present, today)
    assert prune == []
    assert keep.keys() == {"standard-nd96asr-v4-gpu-8-whole", "standard-nd96asr-v4-gpu-4-half"}
    assert all(why in reason for reason in keep.values()), keep


def test_gpus_that_a_size_outside_the_table_no_longer_shows_keep_the_type() -> None:
    unknown = {**GPU, "size": "Standard_Unheard_v9"}
    today = live(node("b", **{**unknown, "gpus": 0}))
    prune, keep = decide(manifests(today), stored(manifests(live(node("b", **unknown)))), today)
    assert prune == []
    assert "its nodes show 0 of 8 nvidia.com/gpu now" in next(iter(keep.values()))


def test_one_node_with_all_its_gpus_is_enough_because_the_broken_one_is_left_out() -> None:
    first = live(node("a", **GPU), node("b", **GPU))
    today = live(node("a", **GPU), node("b", **{**GPU, "gpus": 7}))
    prune, keep = decide(manifests(today, "half"), stored(manifests(first, "whole", "half")), today)
    assert (prune, keep) == (["standard-nd96asr-v4-gpu-8-whole"], {})


def test_a_pool_at_zero_keeps_its_types_though_another_pool_has_nodes_of_the_same_size() -> None:
    first = live(node("a", pool="one"), node("b", pool="two"), by_pool=True)
    today = live(node("a", pool="one"), by_pool=True)
    prune, keep = decide(manifests(today), stored(manifests(first)), today)
    assert prune == []
    assert list(keep) == ["standard-d64s-v5-two-0-whole"]


def test_spot_types_are_kept_by_a_run_that_forgets_to_tolerate_spot() -> None:
    first = live(node("a"), node("b", **GPU, taints=[SPOT]), tolerate=SPOT["key"])
    today = live(node("a"), node("b", **GPU, taints=[SPOT]))
    prune, keep = decide(manifests(today), stored(manifests(first)), today)
    assert prune == []
    assert "a spot pool" in keep["standard-nd96asr-v4-gpu-8-whole-spot"]


def test_spot_nodes_do_not_speak_for_the_on_demand_pool_of_their_size() -> None:
    """The on-demand pool is at zero, and its type selects the size, as the spot nodes have it."""
    spot = node("s", pool="spot", labels={SPOT["key"]: "spot"}, taints=[SPOT])
    today = live(spot, tolerate=SPOT["key"])
    present = stored(manifests(live(node("a"))))
    prune, keep = decide(manifests(today), present, today)
    assert prune == []
    assert "no node of Standard_D64s_v5 now" in keep["standard-d64s-v5-d64-0-whole"]


def test_a_type_without_a_selector_is_judged_by_the_size_it_was_made_for() -> None:
    first = live(node("a"), node("b", **GPU))
    today = live(node("a"))
    prune, keep = decide(
        manifests(today, selector="none"), stored(manifests(first, selector="none")), today
    )
    assert prune == []
    assert list(keep) == ["standard-nd96asr-v4-gpu-8-whole"]


def test_a_merged_type_is_kept_while_one_of_its_sizes_has_no_node() -> None:
    small = {"size": "Standard_D32s_v5", "pool": "d32", "cpu": "32", "memory": "131000000Ki"}
    small |= {"allocatable_cpu": "31580m", "allocatable_memory": "128593600Ki"}
    first = live(node("a"), node("b", **small))
    merged = stored(manifests(first, template="t", merge=True))
    assert list(merged) == ["t"]
    assert decide(manifests(first), merged, first) == (["t"], {})
    prune, keep = decide(manifests(live(node("a"))), merged, live(node("a")))
    assert prune == []
    assert "no node of Standard_D32s_v5" in keep["t"]


def test_a_pool_for_which_this_run_can_make_no_type_keeps_those_it_has() -> None:
    tiny = {"size": "Standard_D2s_v5", "pool": "tiny", "cpu": "2", "memory": "8130044Ki"}
    first = live(
        node("a"), node("b", **tiny, allocatable_cpu="1900m", allocatable_memory="5930492Ki")
    )
    today = live(node("a"), node("b", **tiny, allocatable_cpu="1900m", allocatable_memory="10Ki"))
    prune, keep = decide(manifests(today), stored(manifests(first)), today)
    assert (prune, keep) == (
        [],
        {
            "standard-d2s-v5-tiny-0-whole": "all of its nodes are left out now (nothing left for jobs)"
        },
    )


def test_of_vm_sizes_only_those_of_this_run_are_pruned() -> None:
    sizes = Assumptions()
    both = select_sizes(["D4s_v5", "D64s_v5"], sizes, DaemonSets(()))
    one = select_sizes(["D64s_v5"], sizes, DaemonSets(()))
    prune, keep = decide(manifests(one, "half"), stored(manifests(both, "whole", "half")), one)
    assert prune == ["standard-d64s-v5-pool-0-whole"]
    assert keep.keys() == {"standard-d4s-v5-pool-0-whole", "standard-d4s-v5-pool-0-half"}


def test_a_type_that_is_not_ours_is_neither_pruned_nor_mentioned() -> None:
    cluster = live(node("a"))
    copied = stored(manifests(cluster, "whole"), manager="kubectl")
    [unlabelled] = manifests(cluster, "quarter")
    del unlabelled["metadata"]["labels"]
    assert decide(manifests(cluster, "half"), {**copied, **stored([unlabelled])}, cluster) == (
        [],
        {},
    )


def test_a_type_from_another_source_is_kept() -> None:
    cluster = live(node("a"))
    sizes = manifests(select_sizes(["D64s_v5"], Assumptions(), DaemonSets(())))
    prune, keep = decide(manifests(cluster, "half"), stored(sizes), cluster)
    assert (prune, list(keep.values())) == ([], ["made from sku, not cluster"])
