"""Subscription, resource group, cluster and workspace: by options, environment or `az`.

Reads the two files that `az` keeps (`config` and `azureProfile.json`); neither runs `az` nor signs
in.
"""

from __future__ import annotations

import configparser
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from arc_toolkit.errors import ArcError

# Kind of cluster (as in `az k8s-extension --cluster-type`) -> its resource provider.
PROVIDERS = {
    "managedClusters": "Microsoft.ContainerService",
    "connectedClusters": "Microsoft.Kubernetes",
}
DEFAULT_CLUSTER_TYPE = "managedClusters"


class OptionSource(NamedTuple):
    """How a value is set: by an option, environment variables in order, or az's `[defaults]`."""

    option: str
    help: str
    variables: tuple[str, ...]
    key: str | None = None
    of_workspace: bool = False  # only commands about a workspace have it


# `az` itself reads AZURE_DEFAULTS_*: https://learn.microsoft.com/cli/azure/azure-cli-configuration
SOURCES = {
    "subscription": OptionSource(
        "--subscription",
        "subscription id, or a name that `az account list` knows",
        ("AZURE_SUBSCRIPTION_ID",),
    ),
    "resource group": OptionSource(
        "--resource-group",
        "resource group of the cluster",
        ("AZURE_RESOURCE_GROUP", "AZURE_DEFAULTS_GROUP"),
        "group",
    ),
    "cluster": OptionSource("--cluster", "name of the cluster in Azure", ("AZURE_CLUSTER_NAME",)),
    "workspace": OptionSource(
        "--workspace",
        "AzureML workspace",
        ("AZURE_ML_WORKSPACE", "AZURE_DEFAULTS_WORKSPACE"),
        "workspace",
        True,
    ),
    "workspace's resource group": OptionSource(
        "--workspace-resource-group",
        "resource group of the workspace, if another than the cluster's",
        ("AZURE_ML_RESOURCE_GROUP",),
        of_workspace=True,
    ),
}

# Letters, digits, and - _ . ( ): allowed in names of resource groups, and more than in others.
_NAME = re.compile(r"[-\w.()]{1,90}")
_GUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@dataclass(frozen=True)
class AzureResource:
    """A resource by its names."""

    subscription: str
    resource_group: str
    name: str

    def _id(self, provider: str, kind: str) -> str:
        group = f"/subscriptions/{self.subscription}/resourceGroups/{self.resource_group}"
        return f"{group}/providers/{provider}/{kind}/{self.name}"


@dataclass(frozen=True)
class Cluster(AzureResource):
    """An AKS cluster (managedClusters) or one that Azure Arc connects (connectedClusters)."""

    kind: str = "managedClusters"

    @property
    def provider(self) -> str:
        return PROVIDERS[self.kind]

    @property
    def resource_id(self) -> str:
        return self._id(self.provider, self.kind)


class Workspace(AzureResource):
    """An AzureML workspace."""

    @property
    def resource_id(self) -> str:
        return self._id("Microsoft.MachineLearningServices", "workspaces")


@dataclass(frozen=True)
class AzDefaults:
    """The defaults of `az account set`, `az configure --defaults` and `az cloud set`."""

    values: Mapping[str, str]
    subscription: str | None = None
    cloud: str | None = None
    subscriptions_by_name: Mapping[str, str] | None = None


def read_az_defaults(environment: Mapping[str, str]) -> AzDefaults:
    """From `$AZURE_CONFIG_DIR` or `~/.azure`. Missing or damaged files are az's, and ignored."""
    folder = Path(environment.get("AZURE_CONFIG_DIR") or Path.home() / ".azure")
    parser = configparser.RawConfigParser()
    try:
        parser.read_string((folder / "config").read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, configparser.Error):
        parser = configparser.RawConfigParser()
    defaults = dict(parser.items("defaults")) if parser.has_section("defaults") else {}
    cloud = parser.get("cloud", "name", fallback=None)
    try:
        # az writes this file with a byte order mark.
        profile = json.loads((folder / "azureProfile.json").read_text(encoding="utf-8-sig"))
        rows = [row for row in profile["subscriptions"] if isinstance(row, dict)]
    except (OSError, ValueError, KeyError, TypeError):
        rows = []
    return AzDefaults(
        values={key: value for key, value in defaults.items() if value},
        subscription=next(
            (str(row["id"]) for row in rows if row.get("isDefault") and "id" in row), None
        ),
        cloud=cloud,
        subscriptions_by_name={
            str(row["name"]): str(row["id"]) for row in rows if "name" in row and "id" in row
        },
    )


class Resolver:
    """Finds each value once, and remembers from where, for `--verbose`."""

    def __init__(
        self, options: Mapping[str, str | None], environment: Mapping[str, str] = os.environ
    ) -> None:
        self._options = options
        self._environment = environment
        self.notes: list[str] = []

    @cached_property
    def az(self) -> AzDefaults:
        return read_az_defaults(self._environment)

    def find(self, kind: str) -> str | None:
        """The value, or None where nobody says it."""
        option, _, variables, key, _ = SOURCES[kind]
        candidates = [
            (self._options.get(kind), option),
            *((self._environment.get(name), name) for name in variables),
        ]
        value, source = next((pair for pair in candidates if pair[0]), (None, "the az defaults"))
        if value is None:
            value = (
                self.az.subscription if kind == "subscription" else self.az.values.get(key or "")
            )
        if value is None:
            return None
        self.notes.append(f"{kind}: {value} (from {source})")
        return self._check_value(kind, value, source)

    def need(self, kind: str) -> str:
        """The value, or one sentence about the ways to say it."""
        value = self.find(kind)
        if value is None:
            option, _, variables, key, _ = SOURCES[kind]
            ways = [f"pass {option}", f"set {variables[0]}"]
            if kind == "subscription":
                ways.append("run `az account set --subscription ...`")
            elif key:
                ways.append(f"run `az configure --defaults {key}=...`")
            raise ArcError(f"which {kind}? {', '.join(ways[:-1])} or {ways[-1]}")
        return value

    def cluster(self, kind: str = "managedClusters") -> Cluster:
        return Cluster(
            self.need("subscription"), self.need("resource group"), self.need("cluster"), kind
        )

    def workspace(self) -> Workspace:
        """The workspace; its resource group is the cluster's where no other is said."""
        name = self.need("workspace")
        group = self.find("workspace's resource group") or self.need("resource group")
        return Workspace(self.need("subscription"), group, name)

    def _check_value(self, kind: str, value: str, source: str) -> str:
        if kind == "subscription":
            if _GUID.fullmatch(value):
                return value
            by_name = (self.az.subscriptions_by_name or {}).get(value)
            if by_name is None:
                raise ArcError(
                    f"{source}: {value!r} is neither a subscription id "
                    "nor a name that `az account list` knows"
                )
            return by_name
        if not _NAME.fullmatch(value):
            raise ArcError(
                f"{source}: {value!r} cannot be the name of a "
                f"{kind.removesuffix(chr(39) + 's resource group')}"
            )
        return value
