"""Names, labels and selectors."""

from __future__ import annotations

import pytest

from arc_toolkit.kube.labels import is_namespace, matches, name_problem, parse_label


@pytest.mark.parametrize("name", ["a", "32cpu128g", "a.b-c", "a" * 92, "a" * 253, "x" * 64 + ".y"])
def test_names_that_the_api_server_takes(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("default", True),
        ("team-a", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("a.b", False),
        ("-a", False),
        ("A", False),
    ],
)
def test_names_of_namespaces(name: str, valid: bool) -> None:
    assert is_namespace(name) is valid


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Standard_NC6s_v3", "standard-nc6s-v3 would be valid"),
        ("a..b", "lower-case letters, digits, - and . only"),
        ("-a", "a would be valid"),
        ("", "not valid in Kubernetes"),
        ("é", "not valid in Kubernetes"),
        ("a\n", "a would be valid"),
        ("a" * 254, "it has 254 characters, and 253 are allowed"),
    ],
)
def test_names_that_it_refuses_say_why(name: str, words: str) -> None:
    assert words in (name_problem(name) or "")


def test_a_selector_matches_every_pair_with_its_case() -> None:
    labels = {"agentpool": "gpu", "size": "D64"}
    assert matches({}, labels)
    assert matches({"agentpool": "gpu"}, labels)
    assert matches(labels, labels)
    assert not matches({"agentpool": "GPU"}, labels)
    assert not matches({"agentpool": "gpu", "zone": "1"}, labels)
    assert not matches({"zone": ""}, labels)


def test_labels_are_checked_when_they_are_parsed() -> None:
    assert parse_label("example.com/a=b") == ("example.com/a", "b")
    assert parse_label("node-role.kubernetes.io/worker=") == ("node-role.kubernetes.io/worker", "")
    assert [parse_label(text) for text in ("a", "=", "=b", "a b=c", "a=" + "b" * 64)] == [None] * 5
