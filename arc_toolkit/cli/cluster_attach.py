"""`cluster attach`: make a cluster a compute of an AzureML workspace."""

from __future__ import annotations

import argparse

from arc_toolkit.azure import operations
from arc_toolkit.azure.workspace_computes import (
    Attachment,
    attach,
    attached_computes,
    list_computes,
)
from arc_toolkit.cli import cluster_azure
from arc_toolkit.cli.console import Console
from arc_toolkit.cli.option_table import add_options
from arc_toolkit.errors import OK, ArcError

EXAMPLE = """\
example:
  arc-toolkit cluster attach gpu-pool --cluster my-aks --resource-group my-rg --workspace my-ws \\
    --namespace team-a --identity system --dry-run
"""
OPTIONS = """
  name NAME             name of the compute in the workspace
  --namespace NAME [default]    Kubernetes namespace of its jobs; must exist
  --identity system|RESOURCE_ID ...
                        managed identity of its jobs: system assigned, or user assigned by resource
                        id; repeat for more (default: none)
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, OPTIONS)
    cluster_azure.add_scope_options(parser, workspace=True)
    add_options(parser, cluster_azure.CHANGE_OPTIONS)
    parser.epilog = cluster_azure.where_text(workspace=True) + EXAMPLE


def run(args: argparse.Namespace, console: Console) -> int:
    resolver = cluster_azure.resolver(args)
    cluster, workspace = resolver.cluster(args.cluster_type), resolver.workspace()
    attachment = Attachment(
        args.name,
        cluster,
        args.namespace,
        system_identity="system" in args.identity,
        user_identities=tuple(text for text in args.identity if text != "system"),
    )
    session = cluster_azure.session(resolver, console)
    console.progress("reading the workspace from Azure")
    computes = list_computes(session, workspace)
    same_name = [row for row in computes if str(row.get("name", "")).lower() == args.name.lower()]
    if same_name and not attached_computes(same_name, cluster):
        raise ArcError(
            f"the workspace {workspace.name} has another compute {args.name!r}: choose another name"
        )
    operations.cluster_resource(session, cluster)
    if operations.find(session, cluster) is None:
        console.warn(f"{cluster.name} has no AzureML extension: Azure will probably refuse this")
    verb = "change the compute" if same_name else "attach"
    who = "no identity"
    if attachment.system_identity:
        who = "a system assigned identity"
    elif attachment.user_identities:
        names = (text.rsplit("/", 1)[1] for text in attachment.user_identities)
        who = f"the identity {', '.join(names)}"
    console.note(
        f"{verb} {args.name}: cluster {cluster.name} in the workspace {workspace.name}, "
        f"namespace {args.namespace}, {who}"
    )
    done = cluster_azure.send(
        args,
        lambda: attach(session, workspace, attachment, console.progress, dry_run=args.dry_run),
        "arc-toolkit cluster preflight",
        console,
    )
    if done is None:
        return OK
    console.out(
        f"attached {done['name']} ({done['provisioningState']}), namespace {done['namespace']}"
    )
    console.note(f"jobs go there with `compute: azureml:{done['name']}`")
    return OK
