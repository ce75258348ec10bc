"""The outputs of commands that size types and look at clusters."""

from __future__ import annotations

from typing import get_args

from arc_toolkit.azure.preflight import CheckState
from arc_toolkit.azure.preflight_facts import Side
from arc_toolkit.cluster.live_types import Action
from arc_toolkit.kube.instance_type_spec import API_VERSION, KIND
from arc_toolkit.sizing.fits import FitState
from scripts.schemas.words import (
    Documents,
    Schema,
    by_name,
    count,
    flag,
    integer,
    many,
    one_of,
    or_null,
    record,
    shared,
    text,
    texts,
)

_CPU = integer("CPU in milli-cores")
_MEMORY = integer("memory in bytes")
_DEVICES = by_name(
    {"type": "integer"},
    "GPUs and parts of GPUs by resource name, such as `nvidia.com/gpu`; empty if none",
)
_AMOUNT = {"cpu_m": _CPU, "memory_bytes": _MEMORY}
_LABELS = {"type": "string"}

SHARED: dict[str, Schema] = {
    "waterfall": record(
        {
            "name": text("the node, or the VM size if there was no node"),
            "lines": many(
                record(
                    {
                        "name": text("what the line is about, such as `capacity` or a pod"),
                        "kind": one_of(
                            ["level", "taken"],
                            "`level`: what is there; `taken`: what is taken, as negative amounts",
                        ),
                        "memory_bytes": _MEMORY,
                        "cpu_m": _CPU,
                        "rule": text("the rule behind the amount; may be empty"),
                        "source": text("where the rule comes from; may be empty"),
                    },
                    "one line",
                ),
                "the way from the nominal amounts to what jobs can use",
            ),
            "schedulable": record(
                {**_AMOUNT, "gpus": count("whole GPUs"), "devices": _DEVICES},
                "what jobs can use of the node",
            ),
            "max_pods": count("the most pods that the node takes"),
        },
        "the way from what a node has to what jobs can use of it",
    ),
    "fit": record(
        {
            "name": text("the InstanceType"),
            "state": one_of(FitState, "whether it fits on its nodes now"),
            "drifted": flag("it no longer fits as it was made to"),
            "reason": text("why; empty if it fits"),
            "nodes": count("nodes that could take it"),
            "meant": or_null(
                count("how many of it a node was made to take; null if the type is not valid")
            ),
            "fits": or_null(
                count("how many of it the tightest of its nodes takes; null without a node")
            ),
            "tightest": or_null(
                shared("waterfall", "the node that takes fewest of it; null without a node")
            ),
        },
        "whether one InstanceType of the cluster fits",
    ),
}

_MANIFEST = record(
    {
        "apiVersion": one_of([API_VERSION], "of InstanceTypes"),
        "kind": one_of([KIND], "of InstanceTypes"),
        "metadata": record(
            {
                "name": text("the name of the type"),
                "labels": by_name(_LABELS, "`app.kubernetes.io/managed-by`"),
                "annotations": by_name(_LABELS, "what the type was made from"),
            },
            "name, labels and annotations",
        ),
        "spec": record(
            {
                "nodeSelector": by_name(_LABELS, "the labels of the nodes that it runs on"),
                "resources": record(
                    {
                        "requests": by_name({"type": "string"}, "cpu and memory"),
                        "limits": by_name(
                            {"type": ["string", "integer"]}, "cpu, memory and devices"
                        ),
                    },
                    "what a pod gets",
                ),
            },
            "selector and resources",
            optional=["nodeSelector"],
        ),
    },
    "the object for `kubectl apply`",
)

_TYPE = record(
    {
        "name": text("the name of the type"),
        "wanted": text("the share or size that was asked for; empty for a merged type"),
        "what": text("what the type is, in words"),
        "nodes": text("the nodes that it is for, in words"),
        **_AMOUNT,
        "gpus": count("whole GPUs"),
        "devices": _DEVICES,
        "per_node": count("how many fit on a node"),
        "limit": text("the resource of which there is not enough for one more"),
        "left_over": record(
            {**_AMOUNT, "gpus": count("whole GPUs")}, "what stays unused on a full node"
        ),
        "memory_waterfall": shared("waterfall", "the node with the least memory"),
        "cpu_waterfall": shared("waterfall", "the node with the least CPU"),
        "manifest": _MANIFEST,
    },
    "one InstanceType",
)

_STATES: tuple[str, ...] = get_args(CheckState)

DOCUMENTS: Documents = {
    "gen-instance-types": (
        "`arc-toolkit gen-instance-types --format json`",
        {
            "instance_types": many(_TYPE, "the types"),
            "left_out": many(
                record({"node": text("the node"), "reason": text("why")}, "one node"),
                "nodes that jobs cannot use",
            ),
            "notes": texts("what else to know"),
        },
    ),
    "apply-instance-types": (
        "`arc-toolkit gen-instance-types --from-cluster --apply --format json`",
        {
            "dry_run": flag("the server said what it would do, and did nothing"),
            "results": many(
                record(
                    {
                        "name": text("the InstanceType"),
                        "action": one_of(Action, "what became of it"),
                        "detail": text("the changed fields, or the reason; may be empty"),
                    },
                    "one InstanceType",
                ),
                "in the order in which it happened",
            ),
        },
    ),
    "check-instance-types": (
        "`arc-toolkit gen-instance-types --from-cluster --check --format json`",
        {
            "instance_types": many(
                shared("fit", "one InstanceType"), "the InstanceTypes of the cluster"
            )
        },
    ),
    "cluster-instance-types": (
        "`arc-toolkit cluster instance-types --format json`",
        {
            "instance_types": many(
                shared("fit", "one InstanceType"), "the InstanceTypes of the cluster"
            )
        },
    ),
    "cluster-nodes": (
        "`arc-toolkit cluster nodes --format json`",
        {
            "rows": many(
                record(
                    {
                        "name": or_null(text("the node; null for a group of nodes")),
                        "size": text("the VM size; may be empty"),
                        "pool": text("the pool; may be empty"),
                        "nodes": count("how many nodes the row is about"),
                        "capacity": record(_AMOUNT, "what the node has"),
                        "allocatable": record(_AMOUNT, "what the kubelet gives to pods"),
                        "daemonsets": record(
                            _AMOUNT, "what DaemonSets and other pods outside jobs take"
                        ),
                        "reserved": record(_AMOUNT, "what the extension reserves"),
                        "schedulable": record(_AMOUNT, "what jobs can use"),
                        "gpus": count("whole GPUs"),
                        "left_out": or_null(text("why jobs cannot use it; null if they can")),
                        "instance_types": many(
                            record(
                                {
                                    "name": text("the InstanceType"),
                                    "per_node": count("how many fit on each node"),
                                },
                                "one InstanceType",
                            ),
                            "the InstanceTypes that fit",
                        ),
                        "labels": by_name(_LABELS, "the labels that --label asked for"),
                    },
                    "a node, or the nodes of one size, pool and state; amounts are those of the node with least",
                ),
                "in the order of --sort",
            )
        },
    ),
    "cluster-preflight": (
        "`arc-toolkit cluster preflight --format json`",
        {
            "summary": record(
                {state: count("checks") for state in _STATES}, "checks with each state"
            ),
            "checks": many(
                record(
                    {
                        "name": text("the check"),
                        "side": one_of(Side, "what it asks"),
                        "state": one_of(CheckState, "the result"),
                        "reason": text("why"),
                        "fix": or_null(text("the command that fixes it; null if there is none")),
                    },
                    "one check",
                ),
                "in the order in which things are set up",
            ),
        },
    ),
    "cluster-extension": (
        "`arc-toolkit cluster extension show --format json`",
        {
            "cluster": text("the resource id of the cluster"),
            "healthy": flag("the extension is installed and healthy"),
            "extension": or_null(
                {
                    "type": "object",
                    "description": "the resource as Azure returns it; null if it is not installed",
                }
            ),
        },
    ),
}
