"""Attaching a cluster to an AzureML workspace, through azure-ai-ml's KubernetesCompute."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from arc_toolkit.azure.operations import wait
from arc_toolkit.azure.scope import Cluster, Workspace
from arc_toolkit.azure.session import CLOUDS, Session, explain_errors, quiet_logs
from arc_toolkit.errors import ArcError, missing_extra
from arc_toolkit.kube.labels import is_namespace
from arc_toolkit.stderr import Progress

COMPUTES_API = "2024-10-01"
_IDENTITY = re.compile(
    r"/subscriptions/[^/]+/resourcegroups/[^/]+"
    r"/providers/microsoft\.managedidentity/userassignedidentities/[^/]+",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Attachment:
    """What to attach, and the identities of jobs on it: none, if not system and none listed."""

    name: str
    cluster: Cluster
    namespace: str = "default"
    system_identity: bool = False
    user_identities: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not is_namespace(self.namespace):
            raise ArcError(
                f"--namespace {self.namespace!r}: "
                "a namespace has lower-case letters, digits and - (RFC 1123)"
            )
        for identity in self.user_identities:
            if not _IDENTITY.fullmatch(identity):
                raise ArcError(
                    f"--identity {identity!r}: give `system` or a whole resource id, "
                    "/subscriptions/.../providers/Microsoft.ManagedIdentity/"
                    "userAssignedIdentities/NAME"
                )
        if self.system_identity and self.user_identities:
            raise ArcError(
                "a compute has a system assigned identity or user assigned ones, not both"
            )


def list_computes(session: Session, workspace: Workspace) -> list[dict[str, Any]]:
    """Every compute of the workspace, raw."""
    return session.list(f"{workspace.resource_id}/computes", COMPUTES_API)


def attached_computes(computes: list[dict[str, Any]], cluster: Cluster) -> list[dict[str, Any]]:
    """Those that are this cluster."""
    resource_id = cluster.resource_id.lower()
    return [
        row
        for row in computes
        if str((row.get("properties") or {}).get("resourceId", "")).lower() == resource_id
    ]


def attach(
    session: Session,
    workspace: Workspace,
    attachment: Attachment,
    progress: Progress,
    *,
    dry_run: bool,
) -> Mapping[str, Any]:
    """PUT the compute and wait; a dry run raises WouldSend with azure-ai-ml's request."""
    doing = (
        f"attaching {attachment.cluster.name} to the workspace {workspace.name} "
        f"as {attachment.name!r}"
    )
    progress("loading azure-ai-ml")
    try:
        from azure.ai.ml.entities import (
            IdentityConfiguration,
            KubernetesCompute,
            ManagedIdentityConfiguration,
        )
    except ImportError:
        raise missing_extra("azure", "attaching a cluster") from None
    quiet_logs()
    identity = None
    if attachment.system_identity:
        identity = IdentityConfiguration(type="system_assigned")
    elif attachment.user_identities:
        users = [
            ManagedIdentityConfiguration(resource_id=text) for text in attachment.user_identities
        ]
        identity = IdentityConfiguration(type="user_assigned", user_assigned_identities=users)
    compute = KubernetesCompute(
        name=attachment.name,
        resource_id=attachment.cluster.resource_id,
        namespace=attachment.namespace,
        identity=identity,
    )
    with explain_errors(doing):
        client = ml_client(session, workspace, session.client_options(read_only=dry_run))
        created = wait(client.compute.begin_create_or_update(compute), doing, progress)
        state = created.provisioning_state
        return {
            "name": created.name,
            "namespace": created.namespace,
            "resourceId": created.resource_id,
            "provisioningState": getattr(state, "value", state),  # an enum in newer versions
        }


def ml_client(session: Session, workspace: Workspace, options: Mapping[str, Any]) -> Any:
    """azure-ai-ml's client of a workspace; the caller has seen that the package is there."""
    from azure.ai.ml import MLClient

    return MLClient(
        session.credential,
        workspace.subscription,
        workspace.resource_group,
        workspace.name,
        show_progress=False,
        enable_telemetry=False,
        **_cloud_options(session),
        **options,
    )


def _cloud_options(session: Session) -> dict[str, Any]:
    """azure-ai-ml takes a cloud by name, and an unknown one with its addresses."""
    cloud = session.cloud
    if cloud.name in CLOUDS:
        return {"cloud": cloud.name}
    names = (
        "resource_manager",
        "azure_portal",
        "aml_resource_id",
        "storage_endpoint",
        "registry_discovery_endpoint",
    )
    metadata = dict.fromkeys(names, cloud.management_url) | {"active_directory": cloud.authority}
    return {"cloud": cloud.name, "cloud_metadata": metadata}
