"""Defaults from a file: where it is found, what wins, and how mistakes in it are reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import Result

Arc = Callable[..., Result]
JOB = "command: python t.py\nenvironment: e\ncompute: azureml:aks\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    for name in ("job.yml", "gpu/job.yml", "gpu/deep/job.yml"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(JOB)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def configure(project: Path, text: str, name: str = "arc-toolkit.toml") -> None:
    (project / name).write_text(text)


def test_a_file_sets_defaults_and_the_command_line_wins(project: Path, arc: Arc) -> None:
    configure(project, '[patch]\ninstance-type = "8cpu32g"\ninstance-count = 2\n')
    assert "+  instance_type: 8cpu32g\n+  instance_count: 2\n" in arc("patch", "job.yml").out
    assert (
        "+  instance_type: 4cpu16g\n+  instance_count: 2\n"
        in arc("patch", "job.yml", "--instance-type=4cpu16g").out
    )


def test_pyproject_is_a_configuration_file_if_it_has_the_table(
    project: Path, arc: Arc, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(project, '[tool.arc-toolkit.patch]\ninstance-type = "8cpu32g"\n', "pyproject.toml")
    monkeypatch.chdir(project / "gpu")
    assert "+  instance_type: 8cpu32g" in arc("patch", "job.yml").out
    configure(project / "gpu", '[project]\nname = "arc-toolkit-user"\n', "pyproject.toml")
    assert "+  instance_type: 8cpu32g" in arc("patch", "job.yml").out


def test_above_the_repository_nothing_is_looked_for(
    project: Path, arc: Arc, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(project, '[patch]\ninstance-type = "8cpu32g"\n')
    (project / "gpu" / ".git").mkdir()
    monkeypatch.chdir(project / "gpu")
    assert "8cpu32g" not in arc("patch", "job.yml").out


def test_the_closest_folder_wins_and_takes_the_rest_from_those_above(
    project: Path, arc: Arc
) -> None:
    configure(
        project,
        '[patch]\ninstance-type = "cpu"\n[patch.folders.gpu]\ninstance-type = "gpu"\ninstance-count = 2\n'
        '[patch.folders."gpu/deep"]\ninstance-type = "large"\n',
    )
    diff = arc("patch", ".").out
    at = {
        name: diff.split(f"+++ b/{name}\n")[1].split("--- a/")[0]
        for name in ("job.yml", "gpu/job.yml", "gpu/deep/job.yml")
    }
    assert "instance_type: cpu" in at["job.yml"]
    assert "instance_count" not in at["job.yml"]
    assert "instance_type: gpu\n+  instance_count: 2" in at["gpu/job.yml"]
    assert "instance_type: large\n+  instance_count: 2" in at["gpu/deep/job.yml"]
    assert arc("patch", ".", "--instance-type", "same").out.count("instance_type: same") == 3


def test_rules_are_skipped_by_folder(project: Path, arc: Arc) -> None:
    configure(project, '[check.folders.gpu]\nskip = ["missing-instance-type"]\n')
    result = arc("check", ".")
    assert "job.yml:1:1" in result.out
    assert "gpu/" not in result.out


def test_an_option_that_excludes_another_replaces_it(project: Path, arc: Arc) -> None:
    configure(project, '[patch]\nwrite = true\ninstance-type = "8cpu32g"\n')
    assert arc("patch", "job.yml", "--check").code == 1
    assert (project / "job.yml").read_text() == JOB
    assert arc("patch", "job.yml").code == 0
    assert "8cpu32g" in (project / "job.yml").read_text()


def test_lists_are_replaced_by_the_command_line(project: Path, arc: Arc) -> None:
    configure(project, '[gen-instance-types]\nshare = ["whole", "half"]\nformat = "table"\n')
    assert arc("gen-instance-types", "--sku", "D64s_v5").out.count("Standard_D64s_v5") == 2
    assert (
        arc("gen-instance-types", "--sku", "D64s_v5", "--share", "quarter").out.count(
            "Standard_D64s_v5"
        )
        == 1
    )


def test_config_names_another_file_or_none(project: Path, arc: Arc) -> None:
    configure(project, '[patch]\ninstance-type = "8cpu32g"\n')
    configure(project, '[patch]\ninstance-type = "other"\n', "ci.toml")
    assert "instance_type: other" in arc("patch", "job.yml", "--config", "ci.toml").out
    assert "instance_type" not in arc("patch", "job.yml", "--config=none").out
    missing = arc("patch", "job.yml", "--config", "nowhere.toml")
    assert (missing.code, missing.err) == (
        2,
        "arc-toolkit: cannot read nowhere.toml: no such file or directory\n",
    )


def test_show_config_tells_where_each_value_comes_from(project: Path, arc: Arc) -> None:
    configure(
        project, '[patch]\ninstance-type = "8cpu32g"\n[patch.folders.gpu]\nexport = ["X_THREADS"]\n'
    )
    result = arc("patch", "--show-config", "--instance-count", "3")
    rows = {line.split("  ")[0]: line.split() for line in result.out.splitlines()}
    assert result.code == 0
    assert rows["instance-type"][1:] == ["8cpu32g", "arc-toolkit.toml", "[patch]"]
    assert rows["instance-count"][1:] == ["3", "command", "line"]
    assert rows["compute"][1:] == ["default"]
    assert rows["export (in gpu)"][3:] == ["X_THREADS", "arc-toolkit.toml"]


def test_subcommands_have_sections_of_their_own(project: Path, arc: Arc) -> None:
    configure(project, '[cluster]\nresource-group = "rg"\n[cluster.preflight]\nworkspace = "ws"\n')
    rows = {
        line.split()[0]: line.split()
        for line in arc("cluster", "preflight", "--show-config").out.splitlines()
    }
    assert rows["resource-group"][1:] == ["rg", "arc-toolkit.toml", "[cluster]"]
    assert rows["workspace"][1:] == ["ws", "arc-toolkit.toml", "[cluster.preflight]"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[patch]\ninstance-typ = "x"\n',
            "[patch] has no option `instance-typ`: did you mean `instance-type`?",
        ),
        ("[pacth]\n", "no command `pacth`: did you mean `patch`?"),
        ("[patch]\nwrite = 1\n", "[patch] write: use true or false, not 1"),
        (
            '[patch]\nthreads = "many"\n',
            "[patch] threads: 'many' is not one of auto, lightgbm, faiss, off",
        ),
        (
            '[patch]\ninstance-count = "two"\n',
            "[patch] instance-count: 'two' is not a whole number",
        ),
        ("[patch]\ninstance-type = [1]\n", "[patch] instance-type: use one value, not [1]"),
        ("patch = 1\n", "`patch` must be a table, not int"),
        ("[patch\n", "is not valid TOML"),
        ("[patch]\nhelp = true\n", "[patch] `help` is only for the command line"),
        ("[diagnose.folders.x]\n", "[diagnose.folders]: only patch and check have folders"),
    ],
)
def test_a_mistake_in_the_file_is_one_sentence(
    project: Path, arc: Arc, text: str, message: str
) -> None:
    configure(project, text)
    command = "diagnose" if "diagnose" in text else "patch"
    result = arc(command, "job.yml")
    assert result.code == 2
    assert message in result.err
    assert result.err.startswith("arc-toolkit: arc-toolkit.toml")
    assert len(result.err.splitlines()) == 1


def test_a_file_cannot_say_yes(project: Path, arc: Arc) -> None:
    configure(project, "[cluster.attach]\nyes = true\n")
    assert "`yes` is only for the command line" in arc("cluster", "attach", "x").err


def test_an_option_with_several_values_at_once_takes_a_list(project: Path, arc: Arc) -> None:
    configure(project, '[gen-instance-types]\nsku = ["D64s_v5", "D32s_v5"]\nformat = "table"\n')
    result = arc("gen-instance-types")
    assert (result.code, "Standard_D64s_v5" in result.out) == (0, True), result.err
    assert "Standard_D32s_v5" in result.out
