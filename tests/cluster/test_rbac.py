"""docs/rbac.yaml on a real apiserver: each command works with the verbs of its roles, and with none of them less."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from arc_toolkit.cluster import failures
from arc_toolkit.diagnosis.read import history
from arc_toolkit.errors import ArcError
from tests.cluster.control_plane import ApiError, ControlPlane
from tests.cluster.small import big, ready, types
from tests.support import ROOT, Result

pytestmark = pytest.mark.cluster

Arc = Callable[..., Result]
Right = tuple[str, str]  # verb, resource
RBAC = "rbac.authorization.k8s.io"
GROUPS = {
    "instancetypes": "amlarc.azureml.com",
    "podgroups": "scheduling.volcano.sh",
    "jobs": "batch.volcano.sh",
}
# The users of the token file.
USERS = {
    "reader": ["arc-toolkit-read"],
    "applier": ["arc-toolkit-read", "arc-toolkit-apply", "arc-toolkit-prune"],
}
SPOT = {"key": "kubernetes.azure.com/scalesetpriority", "value": "spot", "effect": "NoSchedule"}
OF_JOBS = ("pods", "nodes", "events", "podgroups", "jobs")


def rights(verb: str, *resources: str) -> frozenset[Right]:
    return frozenset((verb, resource) for resource in resources)


@dataclass(frozen=True)
class Command:
    """A command, the roles of docs/rbac.yaml that are for it, and exactly what it asks of the server."""

    words: tuple[str, ...]
    roles: tuple[str, ...]
    needs: frozenset[Right]


GEN = ("gen-instance-types", "--from-cluster")
SEE = rights("list", "nodes", "pods")
READ = SEE | rights("list", "instancetypes")
APPLY = READ | rights("create", "instancetypes") | rights("patch", "instancetypes")
COMMANDS = {
    "gen": Command(GEN, ("arc-toolkit-read",), SEE),
    "check": Command((*GEN, "--check"), ("arc-toolkit-read",), READ),
    "nodes": Command(("cluster", "nodes"), ("arc-toolkit-read",), READ),
    "types": Command(("cluster", "instance-types"), ("arc-toolkit-read",), READ),
    "preflight": Command(
        ("cluster", "preflight", "--only", "cluster"),
        ("arc-toolkit-read",),
        READ | rights("list", "namespaces"),
    ),
    "apply": Command(
        (*GEN, "--share", "whole", "--apply"), ("arc-toolkit-read", "arc-toolkit-apply"), APPLY
    ),
    "prune": Command(
        (*GEN, "--share", "whole", "--apply", "--prune", "--yes"),
        ("arc-toolkit-read", "arc-toolkit-apply", "arc-toolkit-prune"),
        READ | rights("patch", "instancetypes") | rights("delete", "instancetypes"),
    ),
    "diagnose": Command(
        ("diagnose", "--cluster"), ("arc-toolkit-diagnose",), rights("list", *OF_JOBS)
    ),
}
FOLLOWING = {
    "watch": Command(
        (*GEN, "--check", "--watch"),
        ("arc-toolkit-read", "arc-toolkit-watch"),
        READ | rights("watch", "nodes"),
    ),
    "record": Command(
        ("diagnose", "--cluster", "--watch"),
        ("arc-toolkit-diagnose", "arc-toolkit-record"),
        rights("list", *OF_JOBS) | rights("watch", *OF_JOBS),
    ),
}


def documented() -> dict[str, frozenset[Right]]:
    """What each role of docs/rbac.yaml gives."""
    roles = {}
    for role in yaml.safe_load_all((ROOT / "docs" / "rbac.yaml").read_text()):
        given: frozenset[Right] = frozenset()
        for rule in role["rules"]:
            assert all(
                rule["apiGroups"] == [GROUPS.get(resource, "")] for resource in rule["resources"]
            )
            given = given.union(*(rights(verb, *rule["resources"]) for verb in rule["verbs"]))
        roles[role["metadata"]["name"]] = given
    return roles


def test_each_role_has_what_its_commands_need_and_nothing_else() -> None:
    roles = documented()
    everything = [*COMMANDS.values(), *FOLLOWING.values()]
    for command in everything:
        assert command.needs <= frozenset().union(*(roles[role] for role in command.roles)), (
            command.words
        )
    for role, given in roles.items():
        assert given <= frozenset().union(
            *(command.needs for command in everything if role in command.roles)
        ), role


def test_the_error_about_a_missing_right_knows_the_same_roles() -> None:
    known = {
        role: frozenset().union(*(rights(verb, *resources) for verb, resources in given.items()))
        for role, given in failures.ROLES.items()
    }
    assert known == documented()


def grant(cluster: ControlPlane, users: Mapping[str, Iterable[Right]]) -> None:
    """Users with these rights and no others, by `--as`; returns when the server knows."""
    for user, given in users.items():
        rules = [
            {"apiGroups": [GROUPS.get(resource, "")], "resources": [resource], "verbs": [verb]}
            for verb, resource in given
        ]
        role = {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": user},
            "rules": rules,
        }
        cluster.apply(role)
        bind(cluster, user, user)

    def known() -> bool:
        return all(
            allowed(cluster, user, right) for user, given in users.items() for right in given
        )

    cluster.wait("the roles", known)


def bind(cluster: ControlPlane, user: str, role: str) -> None:
    cluster.apply(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"{user}-{role}"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "name": user, "apiGroup": RBAC}],
        }
    )


def allowed(cluster: ControlPlane, user: str, right: Right) -> bool:
    attributes = {"verb": right[0], "resource": right[1], "group": GROUPS.get(right[1], "")}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    answer = cluster.request(
        "POST", path, {**review, "spec": {"user": user, "resourceAttributes": attributes}}
    )
    return bool(answer["status"]["allowed"])


def trials(name: str, command: Command) -> dict[str, frozenset[Right]]:
    """One user with all that the command needs, and one without each right."""
    users = {f"{name}-whole": command.needs}
    return users | {
        f"{name}-no-{verb}-{what}": command.needs - {(verb, what)} for verb, what in command.needs
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_works_with_exactly_its_verbs_and_breaks_without_any_of_them(
    cluster: ControlPlane, arc: Arc, name: str
) -> None:
    command = COMMANDS[name]
    cluster.install_volcano_crds()
    cluster.create(big("big-0"))
    cluster.create(
        big("spot-0", taints=[SPOT])
    )  # without one, preflight does not look at namespaces
    ready(cluster, "big-0")
    users = trials(name, command)
    grant(cluster, users)
    for user in users:
        cluster.request("DELETE", "/apis/amlarc.azureml.com/v1alpha1/instancetypes")
        if name != "apply":  # something to look at, to find unchanged and to prune
            shares = ["--share", "whole", "--share", "half"]
            assert arc(*GEN, *shares, "--apply", "--kubeconfig", cluster.kubeconfig).code == 0
        result = arc(*command.words, "--kubeconfig", cluster.kubeconfig, "--as", user)
        refused = f'user "{user}" may not' in result.out + result.err
        if user.endswith("-whole"):
            assert not refused, result.out + result.err
            assert result.code in (0, 1)
        else:
            assert refused, f"{user}: {result.out}{result.err}"
            *_, verb, resource = user.split("-")
            assert f"may not {verb} {resource}" in result.out + result.err


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLLOWING)
def test_a_command_that_watches_works_with_exactly_its_verbs_and_breaks_without_any_of_them(
    cluster: ControlPlane, name: str, tmp_path: Path
) -> None:
    command = FOLLOWING[name]
    cluster.install_volcano_crds()
    cluster.create(big("big-0"))
    ready(cluster, "big-0")
    users = trials(name, command)
    grant(cluster, users)
    for number, user in enumerate(users):
        log, record = tmp_path / f"{user}.log", tmp_path / f"{user}.db"
        words = [*command.words, "--kubeconfig", str(cluster.kubeconfig), "--as", user]
        words += ["--history", str(record)] if name == "record" else []
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [sys.executable, "-m", "arc_toolkit", *words],
                stdout=stream,
                stderr=stream,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        try:
            if user.endswith("-whole"):
                follow(cluster, name, log, record, number)
                assert "may not" not in log.read_text()
            else:
                *_, verb, resource = user.split("-")
                cluster.wait(user, partial(said, log, f'user "{user}" may not {verb} {resource}'))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)


def follow(cluster: ControlPlane, name: str, log: Path, record: Path, number: int) -> None:
    """Wait for the first look, change the cluster, and wait until that is seen."""
    late = big(f"late-{number}", managed=False)
    if name == "watch":
        cluster.wait("the first look", lambda: "no InstanceTypes" in log.read_text())
        cluster.create(late)
        cluster.wait("the second look", lambda: log.read_text().count("no InstanceTypes") == 2)
        return
    cluster.wait("the first look", lambda: "big-0" in recorded(record))
    cluster.create(late)
    cluster.wait("the change", lambda: late["metadata"]["name"] in recorded(record))


def said(log: Path, text: str) -> bool:
    return text in log.read_text()


def recorded(path: Path) -> set[str]:
    try:
        return {item["metadata"]["name"] for item in history.read(str(path)).nodes}
    except ArcError:
        return set()


@pytest.fixture
def run(cluster: ControlPlane, arc: Arc) -> Callable[..., Result]:
    """`run(user, *words)`: gen-instance-types --from-cluster with that user's token, one node in the cluster."""
    for role in yaml.safe_load_all((ROOT / "docs" / "rbac.yaml").read_text()):
        cluster.apply(role)
    for user, roles in USERS.items():
        for role in roles:
            bind(cluster, user, role)
    cluster.create(big("big-0"))
    ready(cluster, "big-0")

    def as_user(user: str, *words: Any) -> Result:
        config = cluster.write_kubeconfig(user)
        return arc("gen-instance-types", "--from-cluster", "--kubeconfig", config, *words)

    return as_user


def test_the_read_role_cannot_apply_and_reads_which_right_is_missing(
    cluster: ControlPlane, run: Callable[..., Result]
) -> None:
    result = run("reader", "--apply")
    assert result.code == 2
    assert 'user "reader" may not patch instancetypes.amlarc.azureml.com' in result.err
    assert "the ClusterRole arc-toolkit-apply of docs/rbac.yaml gives that right" in result.err
    assert types(cluster) == {}


def test_the_apply_role_applies_and_prunes(
    cluster: ControlPlane, run: Callable[..., Result]
) -> None:
    assert run("applier", "--share", "whole", "--share", "half", "--apply").code == 0
    pruned = run("applier", "--share", "whole", "--apply", "--prune", "--yes")
    assert pruned.out == "8cpu32g unchanged\n4cpu16g pruned\n"
    assert types(cluster).keys() == {"8cpu32g"}


def test_a_user_without_a_role_reads_the_verb_the_resource_and_the_role(
    run: Callable[..., Result],
) -> None:
    result = run("nobody")
    assert result.code == 2
    assert result.err.startswith(
        'arc-toolkit: user "nobody" may not list nodes on the cluster arc-tests'
    )
    assert (
        "the ClusterRole arc-toolkit-read or arc-toolkit-diagnose of docs/rbac.yaml gives that right"
        in result.err
    )


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
        ("applier", "GET", "/api/v1/nodes/big-0"),
        ("applier", "DELETE", "/apis/amlarc.azureml.com/v1alpha1/instancetypes"),
        ("applier", "POST", "/api/v1/namespaces/default/pods"),
    ],
)
@pytest.mark.usefixtures("run")
def test_the_roles_give_nothing_else(
    cluster: ControlPlane, user: str, verb: str, path: str
) -> None:
    with pytest.raises(ApiError, match="403"):
        cluster.request(verb, path, {} if verb == "POST" else None, user=user)
