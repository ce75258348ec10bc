"""Names, selectors, collisions and manifests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from arc_toolkit.kube.labels import name_problem
from arc_toolkit.kube.quantities import bytes_requested, cpu_requested
from tests.sizing.builders import as_list, node, pod
from tests.support import ROOT, Result

Arc = Callable[..., Result]
GOLDEN = Path(__file__).parent / "golden"


def gen(arc: Arc, *words: object) -> Result:
    return arc("gen-instance-types", "-q", *words)


def types(result: Result) -> list[dict[str, object]]:
    assert result.code == 0, result.err
    return list(yaml.safe_load_all(result.out))


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (
            ("--sku", "Standard_D64s_v5", "--max-pods", "110", "--share", "half", "--explain"),
            "d64s-half-explain.txt",
        ),
        (("--sku", "NC24ads_A100_v4", "--share", "whole"), "nc24ads-whole.yaml"),
        (
            ("--sku", "D32s_v5", "--share", "half", "--share", "quarter", "--format", "list"),
            "d32s-list.yaml",
        ),
        (("--sku", "D64s_v5", "--size", "10cpu40g", "--explain"), "d64s-size-explain.txt"),
    ],
)
def test_output_is_as_it_was_when_a_person_last_looked(
    arc: Arc, words: tuple[str, ...], file: str
) -> None:
    assert gen(arc, *words).out == (GOLDEN / file).read_text(encoding="utf-8")


def test_the_same_input_gives_the_same_bytes_in_every_process() -> None:
    words = [
        "-m",
        "arc_toolkit",
        "gen-instance-types",
        "-q",
        "--sku",
        "D*s_v5",
        "--name-template",
        "{size}-{share}",
    ]
    outputs = {
        subprocess.run(
            [sys.executable, *words],
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert outputs.pop().startswith(b"#")


def test_names_are_nominal_and_valid(arc: Arc) -> None:
    result = gen(arc, "--sku", "D64s_v5", "--share", "whole", "--share", "half", "--share", "1/3")
    names = [entry["metadata"]["name"] for entry in types(result)]  # type: ignore[index]
    assert names == ["64cpu256g", "32cpu128g", "21cpu85g"]
    assert not any(name_problem(name) for name in names)


def test_all_four_fields_are_equal_strings_and_gpus_stand_under_limits_only(arc: Arc) -> None:
    (entry,) = types(gen(arc, "--sku", "ND96asr_v4", "--share", "quarter"))
    resources = entry["spec"]["resources"]  # type: ignore[index]
    assert resources["limits"].pop("nvidia.com/gpu") == 2
    assert resources["requests"] == resources["limits"]
    assert all(isinstance(value, str) for value in resources["requests"].values())


def test_gpus_that_do_not_divide_refuse_the_share(arc: Arc) -> None:
    result = gen(arc, "--sku", "ND96asr_v4", "--share", "1/3")
    assert result.code == 2
    assert "8 GPUs, which cannot be divided into 3 equal shares" in result.err


def test_a_size_says_how_many_fit_what_limits_and_what_is_left(arc: Arc) -> None:
    result = gen(arc, "--sku", "D64s_v5", "--size", "20c60g", "--format", "json")
    (entry,) = json.loads(result.out)["instance_types"]
    assert (entry["name"], entry["per_node"], entry["limit"]) == ("20cpu60g", 3, "cpu")
    assert entry["left_over"]["cpu_m"] == 62900 - 60000


def test_a_size_that_does_not_fit_says_by_how_much(arc: Arc) -> None:
    result = gen(arc, "--sku", "D64s_v5", "--size", "64cpu128g")
    assert result.code == 2
    assert "too large by 1100m cpu" in result.err


def names(result: Result) -> list[str]:
    return [entry["metadata"]["name"] for entry in types(result)]  # type: ignore[index]


def test_types_of_one_name_get_the_size_as_a_suffix_and_a_note(arc: Arc) -> None:
    words = ("--sku", "D64s_v5", "--sku", "D64as_v5", "--share", "whole", "--share", "quarter")
    result = arc("gen-instance-types", *words)
    suffixes = ("standard-d64s-v5", "standard-d64as-v5")
    assert names(result) == [
        f"{name}-{suffix}" for suffix in suffixes for name in ("64cpu256g", "16cpu64g")
    ]
    assert (
        "2 types would be called 64cpu256g; they are 64cpu256g-standard-d64s-v5, 64cpu"
        in result.err
    )


def test_a_pattern_and_a_size_that_fits_on_some_groups_make_types_with_unique_names(
    arc: Arc,
) -> None:
    words = ("--share", "whole", "--share", "half", "--share", "quarter", "--size", "40cpu100g")
    found = names(gen(arc, "--sku", "Standard_D*s_v5", *words))
    assert len(set(found)) == len(found) > 60
    assert "40cpu100g-standard-d64s-v5" in found
    assert all(len(name) <= 253 for name in found)


def test_shares_of_one_group_with_one_name_get_the_share_as_a_suffix(arc: Arc) -> None:
    result = gen(
        arc, "--sku", "D64s_v5", "--share", "whole", "--share", "1/3", "--name-template", "job"
    )
    assert names(result) == ["job-whole", "job-third"]


def test_a_size_that_has_the_name_of_a_share_of_the_same_nodes_works(arc: Arc) -> None:
    found = names(
        gen(
            arc,
            "--sku",
            "D4ls_v5",
            "--share",
            "half",
            "--size",
            "2cpu4g",
            "--daemonsets",
            "none",
            "--reserve",
            "0",
        )
    )
    assert found == ["2cpu4g-half", "2cpu4g-exact"]


def test_equal_names_without_a_difference_to_add_are_refused_with_the_ways_out(arc: Arc) -> None:
    words = ("--size", "1cpu1g", "--size", "2cpu2g", "--name-template", "job")
    result = gen(arc, "--sku", "D64s_v5", *words)
    assert result.code == 2
    for word in ("called job", "Standard_D64s_v5", "--name-template"):
        assert word in result.err


@pytest.mark.parametrize(
    ("size", "share", "name"),
    [
        ("B2s", "quarter", "0.5cpu1g"),
        ("D2s_v5", "1/5", "0.4cpu1g"),
        ("B2ats_v2", "half", "1cpu0.5g"),
    ],
)
def test_less_than_a_core_or_a_gib_is_in_hundredths(
    arc: Arc, size: str, share: str, name: str
) -> None:
    assert names(
        gen(arc, "--sku", size, "--share", share, "--daemonsets", "none", "--reserve", "0")
    ) == [name]


def test_a_node_where_nothing_is_left_is_described_without_negative_amounts(arc: Arc) -> None:
    result = gen(arc, "--sku", "B2ats_v2")
    assert result.code == 2
    assert "nothing is left for jobs: what the node keeps and its DaemonSets ask for" in result.err
    assert "189Mi memory more than it has" in result.err


def test_merge_makes_one_type_that_fits_on_every_group(arc: Arc, tmp_path: Path) -> None:
    file = tmp_path / "nodes.json"
    small = node(
        "b",
        size="Standard_D64as_v5",
        pool="b",
        allocatable_memory="250000000Ki",
        allocatable_cpu="63",
    )
    file.write_text(json.dumps(as_list([node("a"), small])))
    (entry,) = types(gen(arc, "--nodes", file, "--merge", "--daemonsets", "none"))
    assert "nodeSelector" not in entry["spec"]  # type: ignore[operator]
    request = entry["spec"]["resources"]["requests"]  # type: ignore[index]
    assert cpu_requested(request["cpu"]) == 63000
    assert bytes_requested(request["memory"]) == (250000000 - 263900000 // 20) // 1024 * 2**20


def test_merged_types_count_what_every_group_takes_and_name_each(arc: Arc) -> None:
    sizes = ("--sku", "D64s_v5", "D32s_v5", "--merge")
    (entry,) = json.loads(gen(arc, *sizes, "--size", "10cpu20g", "--format", "json").out)[
        "instance_types"
    ]
    assert entry["per_node"] == 3  # a D32s_v5 takes three, whatever a D64s_v5 takes
    result = gen(arc, *sizes, "--share", "whole", "--share", "half", "--explain")
    assert "32cpu128g: half of Standard_D64s_v5; whole of Standard_D32s_v5" in result.out
    assert "the smallest of 2 types of this name" in result.out


def test_pods_that_run_there_and_the_reservation_count_against_max_pods(arc: Arc) -> None:
    # Six DaemonSets of AKS, fluent-bit and the reservation leave two of ten.
    assert gen(arc, "--sku", "D64s_v5", "--max-pods", "10", "--share", "half").code == 0
    assert (
        "takes 2 more pods"
        in gen(arc, "--sku", "D64s_v5", "--max-pods", "10", "--share", "1/3").err
    )


def test_the_json_file_is_the_json_of_standard_output(arc: Arc, tmp_path: Path) -> None:
    words = ("--sku", "D64s_v5", "--format", "json")
    assert gen(arc, *words, "-o", tmp_path / "t.json").code == 0
    assert (tmp_path / "t.json").read_text() == gen(arc, *words).out


def test_asked_sizes_keep_their_name(arc: Arc) -> None:
    (entry,) = types(gen(arc, "--sku", "D64s_v5", "--size", "4c10.3g"))
    assert entry["metadata"]["name"] == "4cpu10.3g"  # type: ignore[index]


def test_the_selector_keeps_the_case_of_the_real_label(arc: Arc, tmp_path: Path) -> None:
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps(as_list([node(size="standard_d64s_v5")])))
    (entry,) = types(gen(arc, "--nodes", file))
    assert entry["spec"]["nodeSelector"] == {"node.kubernetes.io/instance-type": "standard_d64s_v5"}  # type: ignore[index]


def test_pods_of_the_cluster_replace_the_assumed_daemonsets(arc: Arc, tmp_path: Path) -> None:
    nodes, pods = tmp_path / "nodes.json", tmp_path / "pods.json"
    nodes.write_text(json.dumps(as_list([node("n")])))
    deployed = pod("gateway", "n", "50m", "256Mi", owner="ReplicaSet", namespace="azureml")
    pods.write_text(json.dumps(as_list([pod("kube-proxy", "n", "260m", "1Gi"), deployed])))
    result = arc("gen-instance-types", "--nodes", nodes, "--pods", pods)
    (entry,) = types(result)
    assert entry["spec"]["resources"]["requests"]["cpu"] == "63"  # type: ignore[index]
    assert "azureml/gateway-x1" in result.err
    assert "defeat a whole-node type" in result.err


def test_grouping_by_pool_selects_the_pool(arc: Arc, tmp_path: Path) -> None:
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps(as_list([node("a", pool="one"), node("b", pool="two")])))
    result = gen(arc, "--nodes", file, "--group-by", "pool", "--name-template", "{pool}-{share}")
    assert [entry["metadata"]["name"] for entry in types(result)] == ["one-whole", "two-whole"]  # type: ignore[index]
    assert all(len(entry["spec"]["nodeSelector"]) == 2 for entry in types(result))  # type: ignore[index]


def test_a_node_whose_gpus_are_missing_does_not_take_them_from_the_others(
    arc: Arc, tmp_path: Path
) -> None:
    file = tmp_path / "nodes.json"
    size = "Standard_NC24ads_A100_v4"
    shape = {"size": size, "cpu": "24", "memory": "226783616Ki", "pool": "gpu"}
    shape |= {"allocatable_cpu": "23660m", "allocatable_memory": "214314368Ki"}
    file.write_text(json.dumps(as_list([node("a", gpus=1, **shape), node("b", gpus=0, **shape)])))
    result = arc("gen-instance-types", "--nodes", file)
    (entry,) = types(result)
    assert entry["spec"]["resources"]["limits"]["nvidia.com/gpu"] == 1  # type: ignore[index]
    assert "left out 1 node (b): only 0 of 1 GPUs" in result.err
    file.write_text(json.dumps(as_list([node("b", gpus=0, **shape)])))
    result = arc("gen-instance-types", "--nodes", file)
    assert (result.code, "is the device plugin running?" in result.err) == (2, True)


def test_nodes_without_a_size_label_get_a_type_without_selector_and_a_note(
    arc: Arc, tmp_path: Path
) -> None:
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps(as_list([node(size="")])))
    result = arc("gen-instance-types", "--nodes", file)
    (entry,) = types(result)
    assert entry["metadata"]["name"] == "64cpu256g"  # type: ignore[index]
    assert "nodeSelector" not in entry["spec"]  # type: ignore[operator]
    assert "it may run on any node" in result.err


def test_whole_cores_round_down_to_a_core(arc: Arc) -> None:
    (entry,) = types(gen(arc, "--sku", "D64s_v5", "--share", "half", "--whole-cores"))
    assert entry["spec"]["resources"]["limits"]["cpu"] == "31"  # type: ignore[index]


def test_every_figure_can_be_given(arc: Arc) -> None:
    words = [
        "--capacity-memory",
        "200Gi",
        "--kube-reserved-cpu",
        "1",
        "--kube-reserved-memory",
        "3Gi",
    ]
    words += ["--eviction-memory", "1Gi", "--reserve", "6Gi", "--daemonsets", "none"]
    (entry,) = types(gen(arc, "--sku", "D64s_v5", *words))
    assert entry["spec"]["resources"]["limits"] == {"cpu": "63", "memory": "190Gi"}  # type: ignore[index]


def test_a_daemonset_file_of_ones_own(arc: Arc, tmp_path: Path) -> None:
    file = tmp_path / "sets.yaml"
    file.write_text("- {name: agent, cpu: 260m, memory: 1Gi}\n")
    (entry,) = types(gen(arc, "--sku", "D64s_v5", "--daemonsets", file))
    assert entry["spec"]["resources"]["limits"]["cpu"] == "63"  # type: ignore[index]


def test_a_folder_is_written_checked_and_found_to_differ(arc: Arc, tmp_path: Path) -> None:
    folder = tmp_path / "types"
    words = ("--sku", "D64s_v5", "--share", "half", "--share", "whole")
    assert gen(arc, *words, "-o", folder).code == 0
    assert sorted(path.name for path in folder.iterdir()) == ["32cpu128g.yaml", "64cpu256g.yaml"]
    assert gen(arc, *words, "--check", folder).code == 0
    (folder / "mine.yaml").write_text("kind: Other\n")  # not ours, and left alone
    assert gen(arc, *words, "--check", folder).code == 0
    differing = gen(arc, *words, "--max-pods", "30", "--check", folder)
    assert differing.code == 1
    assert "+      memory:" in differing.out
    gone = gen(arc, "--sku", "D64s_v5", "--share", "half", "--check", folder)
    assert (gone.code, "64cpu256g.yaml" in gone.out) == (1, True)


def test_the_list_form_holds_the_same_types(arc: Arc) -> None:
    words = ("--sku", "NC24ads_A100_v4", "--sku", "D64s_v5")
    listed = yaml.safe_load(gen(arc, *words, "--format", "list").out)
    assert listed["kind"] == "InstanceTypeList"
    single = [
        {k: v for k, v in entry.items() if k in ("metadata", "spec")}
        for entry in types(gen(arc, *words))
    ]
    assert listed["items"] == single


def test_the_catalogue_is_what_would_be_generated_now() -> None:
    from scripts.catalogue import SIZES, catalogue

    files = catalogue()
    assert len(SIZES) >= 60
    present = {
        path.name: path.read_text(encoding="utf-8") for path in (ROOT / "instance_types").iterdir()
    }
    assert present == files


def test_the_catalogue_passes_our_own_validation(arc: Arc) -> None:
    from scripts.catalogue import SIZES

    for size in SIZES:
        file = ROOT / "instance_types" / f"standard-{size.lower().replace('_', '-')}.yaml"
        result = arc("validate", file, "--sku", size)
        assert (result.code, result.out) == (0, ""), size
