"""docs/rbac.yaml on a real apiserver: each role lets its commands work, and no more than that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.cluster.control_plane import ApiError, ControlPlane
from tests.cluster.small import big, ready, types
from tests.support import ROOT, Result

pytestmark = pytest.mark.cluster

Arc = Callable[..., Result]
ROLES = {"reader": ["arc-toolkit-read"], "applier": ["arc-toolkit-read", "arc-toolkit-apply"]}


@pytest.fixture
def run(cluster: ControlPlane, arc: Arc) -> Callable[..., Result]:
    """`run(user, *words)`: gen-instance-types --from-cluster with that user's token, one node in the cluster."""
    rbac = "rbac.authorization.k8s.io"
    for role in yaml.safe_load_all((ROOT / "docs" / "rbac.yaml").read_text()):
        cluster.apply(role)
    for user, roles in ROLES.items():
        for role in roles:
            cluster.apply(
                {
                    "apiVersion": f"{rbac}/v1",
                    "kind": "ClusterRoleBinding",
                    "metadata": {"name": f"{user}-{role}"},
                    "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
                    "subjects": [{"kind": "User", "name": user, "apiGroup": rbac}],
                }
            )
    cluster.create(big("big-0"))
    ready(cluster, "big-0")

    def as_user(user: str, *words: Any) -> Result:
        config = cluster.write_kubeconfig(user)
        return arc("gen-instance-types", "--from-cluster", "--kubeconfig", config, *words)

    return as_user


def test_the_read_role_generates_and_checks(run: Callable[..., Result]) -> None:
    assert run("reader", "--share", "half").code == 0
    assert run("reader", "--check").code == 0


def test_the_read_role_cannot_apply_and_reads_which_right_is_missing(
    cluster: ControlPlane, run: Callable[..., Result]
) -> None:
    result = run("reader", "--apply")
    assert result.code == 2
    assert 'user "reader" may not patch instancetypes.amlarc.azureml.com' in result.err
    assert "the ClusterRole arc-toolkit-apply of docs/rbac.yaml gives that right" in result.err
    assert types(cluster) == {}


def test_the_apply_role_applies_and_prunes(cluster: ControlPlane, run: Callable[..., Result]) -> None:
    assert run("applier", "--share", "whole", "--share", "half", "--apply").code == 0
    pruned = run("applier", "--share", "whole", "--apply", "--prune", "--yes")
    assert pruned.out == "8cpu32g unchanged\n4cpu16g pruned\n"
    assert types(cluster).keys() == {"8cpu32g"}


def test_a_user_without_a_role_reads_the_verb_the_resource_and_the_role(run: Callable[..., Result]) -> None:
    result = run("nobody")
    assert result.code == 2
    assert result.err.startswith('arc-toolkit: user "nobody" may not list nodes on the cluster arc-tests')
    assert "the ClusterRole arc-toolkit-read of docs/rbac.yaml gives that right" in result.err


def test_the_option_as_acts_with_the_rights_of_another_user(run: Callable[..., Result]) -> None:
    assert run("admin", "--as", "reader").code == 0
    denied = run("admin", "--as", "nobody")
    assert (denied.code, 'user "nobody" may not list nodes' in denied.err) == (2, True)
    refused = run("reader", "--as", "applier")
    assert refused.code == 2
    assert 'user "reader" may not impersonate users' in refused.err


@pytest.mark.parametrize(
    ("user", "verb", "path"),
    [
        ("reader", "POST", "/api/v1/nodes"),
        ("reader", "DELETE", "/apis/amlarc.azureml.com/v1alpha1/instancetypes/x"),
        ("applier", "DELETE", "/api/v1/nodes/big-0"),
        ("applier", "GET", "/api/v1/secrets"),
        ("applier", "DELETE", "/apis/amlarc.azureml.com/v1alpha1/instancetypes"),
        ("applier", "POST", "/api/v1/namespaces/default/pods"),
    ],
)
@pytest.mark.usefixtures("run")
def test_the_roles_give_nothing_else(cluster: ControlPlane, user: str, verb: str, path: str) -> None:
    with pytest.raises(ApiError, match="403"):
        cluster.request(verb, path, {} if verb == "POST" else None, user=user)
