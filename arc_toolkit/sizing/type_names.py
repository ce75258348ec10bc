"""Names of types: by a template, unique in a run, and stable in the cluster.

Jobs name their type, so one that is in the cluster keeps its name when another pool makes one of
the same name, and when that pool is at zero nodes later.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.instance_type_spec import PREFIX, selector_of
from arc_toolkit.kube.labels import name_problem
from arc_toolkit.kube.nodes import POOL_LABELS
from arc_toolkit.kube.quantities import GI, device_name
from arc_toolkit.sizing.shares import Portion, Share, Size

if TYPE_CHECKING:
    from arc_toolkit.sizing.instance_types import InstanceType
    from arc_toolkit.sizing.shares import NodeGroup

DEFAULT_TEMPLATE = "{cpu}cpu{memory}g{gpu}"
_FIELDS = ("cpu", "memory", "gpu", "gpus", "size", "pool", "share", "n")
# The annotations that say what a type was made for.
_MADE_FOR = ("size", "share", "asked-size", "architecture", "priority", "pool", "node-selector")

# What types without these annotations are.
_DEFAULTS = {PREFIX + "architecture": "amd64"}


def check_template(template: str) -> None:
    try:
        fields = [part for part in string.Formatter().parse(template) if part[1] is not None]
    except ValueError as error:
        raise ArcError(f"--name-template {template!r}: {error}") from None
    for _, name, spec, conversion in fields:
        if name not in _FIELDS or spec or conversion:
            raise ArcError(
                f"--name-template: no field {{{name}}}; there are {', '.join(_FIELDS)}, as they are"
            )


def make_name(template: str, group: NodeGroup, request: Share | Size, portion: Portion) -> str:
    """By nominal numbers (`32cpu128g` for half of 64 cores and 256 GiB), as people say them."""
    if isinstance(request, Share):
        cpu, memory = (
            Fraction(group.nominal_cpu_m, 1000 * request.n),
            Fraction(group.nominal_memory, GI * request.n),
        )
    else:
        cpu, memory = Fraction(request.cpu_m, 1000), Fraction(request.memory, GI)
    if isinstance(request, Size) and template == DEFAULT_TEMPLATE:
        raw = str(request)
    else:
        raw = template.format(
            cpu=_number(cpu),
            memory=_number(memory),
            gpu="".join(
                f"-{count}{device_name(resource)}" for resource, count in portion.devices.items()
            ),
            gpus=portion.gpus,
            size=group.size or "node",
            pool=group.pools[0] if group.pools else "pool",
            share=request.slug if isinstance(request, Share) else str(request),
            n=portion.per_node,
        )
    return _valid_name(raw)


def _number(amount: Fraction) -> str:
    """Whole numbers as people speak of them; below one, in hundredths: `13`, `0.5`."""
    return str(int(amount)) if amount >= 1 else f"{max(int(amount * 100), 1) / 100:g}"


def _valid_name(text: str) -> str:
    name = text.lower().replace("_", "-")
    if problem := name_problem(name):
        raise ArcError(f"--name-template: {problem}")
    return name


def unique_names(
    types: Sequence[InstanceType],
    present: Mapping[str, Mapping[str, Any]],
    repoint: Collection[str] = (),
) -> tuple[list[InstanceType], list[str]]:
    """Types of one name get the size as a suffix, or what else tells them apart; a note says so.

    `present` are the types that this tool made in the cluster: they keep their names, and a type
    for other nodes never gets the name of one of them, unless `repoint` has it. So with the pool of
    H200s at zero, `96cpu1850g-8gpu` stays theirs, and the type for MI300X gets a suffix.
    """
    by_name = group_by(types, lambda entry: entry.name)
    for name in repoint:
        if len(by_name.get(name, ())) != 1:
            count = f"{len(by_name[name])} types" if name in by_name else "no type"
            raise ArcError(
                f"--repoint {name}: this run makes {count} of that name; "
                f"it makes {', '.join(by_name)}"
            )
    names = _names_in_cluster([row for row in types if row.name not in repoint], present)
    in_cluster = set(names.values())
    reserved_names = in_cluster | (present.keys() - set(repoint))
    notes = []
    for name, namesakes in by_name.items():
        unnamed = [entry for entry in namesakes if id(entry) not in names]
        if len(unnamed) == 1 and unnamed[0].name not in reserved_names:
            names[id(unnamed[0])] = name
            if name in present:
                old, new = present[name], unnamed[0].manifest()
                notes.append(f"{name} {_repoint_text(old, new)}")
        elif unnamed:
            suffixed = _suffix_names(unnamed, reserved=by_name.keys() | reserved_names)
            if suffixed is None:
                others = [
                    _describe(entry)
                    for entry in types
                    if entry is not unnamed[0] and name in (entry.name, names.get(id(entry)))
                ]
                raise ArcError(
                    f"two types would be called {name}: {_describe(unnamed[0])} and "
                    f"{(others or ['one in the cluster'])[0]}; choose "
                    "fewer nodes or shares, or add {size}, {share} or {pool} to --name-template"
                )
            names.update({id(entry): new for entry, new in zip(unnamed, suffixed, strict=True)})
        chosen = [names[id(entry)] for entry in namesakes]
        if chosen != [name]:
            listing = ", ".join(
                f"{new} (as in the cluster)" if new in in_cluster else new for new in chosen
            )
            are = (
                f"{len(namesakes)} types would be called {name}; they are"
                if len(namesakes) > 1
                else f"{name} is in the cluster for {_made_for(present[name])}; "
                f"that of {namesakes[0].group.title} is called"
                if name in present and not in_cluster & {name, *chosen}
                else f"{name} is called"
            )
            notes.append(f"{are} {listing}")
    return [replace(entry, name=names[id(entry)]) for entry in types], notes


def _names_in_cluster(
    types: Sequence[InstanceType], present: Mapping[str, Mapping[str, Any]]
) -> dict[int, str]:
    """By id of the type: the name that it has in the cluster, with a suffix or without."""
    names: dict[int, str] = {}
    # A pool that is new or at zero may have changed the selector and nothing else.
    for identity in (target_of_type, hardware_of_type):
        names_by_target: dict[Any, list[str]] = {}
        for name in present.keys() - names.values():
            names_by_target.setdefault(identity(present[name]), []).append(name)
        claims = {}
        for entry in types:
            called = [
                name
                for name in names_by_target.get(identity(entry.manifest()), ())
                if name == entry.name or name.startswith(f"{entry.name}-")
            ]
            if called and id(entry) not in names:
                claims[id(entry)] = min(called, key=lambda name: (len(name), name))
        # If two types of this run are made for the same, neither can claim the name.
        claimed = list(claims.values())
        names |= {key: name for key, name in claims.items() if claimed.count(name) == 1}
    return names


def _made_for(item: Mapping[str, Any]) -> str:
    """`Standard_ND96isr_H200_v5, amd64`: the hardware, as its annotations say."""
    annotations = item["metadata"].get("annotations") or {}
    keys = ("size", "architecture", "priority", "node-selector", "share", "asked-size")
    texts = [str(annotations[PREFIX + key]) for key in keys if annotations.get(PREFIX + key)]
    return ", ".join(texts) or "other nodes"


def _repoint_text(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    return (
        f"changes from {_made_for(old)} to {_made_for(new)}: jobs that run go on, "
        "and those that start from now on get the new nodes"
    )


def target_of_type(item: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a job sees of a type: its nodes, its part of them, and its kinds of devices."""
    selector = selector_of(item)
    made_for, devices = hardware_of_type(item)
    return made_for, *(selector.get(key) for key in POOL_LABELS), *(kind for kind, _ in devices)


def hardware_of_type(item: Mapping[str, Any]) -> tuple[Any, ...]:
    """The same in any pool: the hardware, the part of a node, and the devices.

    By its annotations, which are ours: the limits of a type may have been changed by others.
    """
    annotations = {**_DEFAULTS, **(item["metadata"].get("annotations") or {})}
    devices = str(annotations.get(PREFIX + "devices", ""))
    return (
        tuple(str(annotations.get(PREFIX + key, "")).lower() for key in _MADE_FOR),
        tuple(tuple(device.split("=")) for device in devices.split(",") if device),
    )


def _suffix_names(namesakes: Sequence[InstanceType], reserved: Collection[str]) -> list[str] | None:
    """A name for each: with the fewest parts that tell them apart."""
    parts: dict[str, list[str]] = {
        "size": [entry.group.size for entry in namesakes],
        "pool": ["-".join(entry.group.pools) for entry in namesakes],
        "share": [
            entry.request.slug if isinstance(entry.request, Share) else "exact"
            for entry in namesakes
        ],
    }
    for keys in (
        ("size",),
        ("pool",),
        ("size", "pool"),
        ("share",),
        ("size", "share"),
        ("size", "pool", "share"),
    ):
        suffixes = list(zip(*(parts[key] for key in keys), strict=True))
        if not all(all(row) for row in suffixes):
            continue
        names = [
            _valid_name("-".join([entry.name, *row]))
            for entry, row in zip(namesakes, suffixes, strict=True)
        ]
        if len(set(names)) == len(names) and not set(names) & set(reserved):
            return names
    return None


def _describe(entry: InstanceType) -> str:
    return f"{entry.description} ({entry.cpu}, {entry.memory})"


def group_by(
    types: Sequence[InstanceType], key: Callable[[InstanceType], Any]
) -> dict[Any, list[InstanceType]]:
    groups: dict[Any, list[InstanceType]] = {}
    for entry in types:
        groups.setdefault(key(entry), []).append(entry)
    return groups
