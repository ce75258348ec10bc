"""`patch`, `check` and `rules` as commands: formats, exit codes, writing, and bad input."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from arc_toolkit.azureml.azureml_files import AzureMLFiles
from arc_toolkit.findings import FileResult
from tests.azureml.support import COMMAND_JOB, COMPONENT, LEGACY_SWEEP, PIPELINE
from tests.edit.test_diff import apply
from tests.support import ROOT, Result

Arc = Callable[..., Result]
TYPE = ("--instance-type", "32cpu128g")
WRONG = COMMAND_JOB.replace("lightgbm", "sklearn") + (
    "resources:\n  instance_type: 8cpu32g\nenvironment_variables:\n  AMLARC_RESTEP: x\n"
)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.yml"
    path.write_text(COMMAND_JOB)
    return path


# --- patch -----------------------------------------------------------------------------------------------------


def test_the_default_shows_a_diff_that_git_applies_and_writes_nothing(
    arc: Arc, tmp_path: Path
) -> None:
    top = tmp_path / "repo"
    (top / "sub").mkdir(parents=True)
    (top / "crlf.yml").write_bytes(COMMAND_JOB.replace("\n", "\r\n").encode())
    (top / "sub" / "bare.yml").write_text(COMMAND_JOB.rstrip("\n"))
    (top / "long.yml").write_text("# top\n" * 40 + COMMAND_JOB + "# end\n" * 40)
    before = {path: path.read_bytes() for path in top.rglob("*.yml")}
    command = [sys.executable, "-m", "arc_toolkit", "patch", ".", *TYPE, "--threads", "lightgbm"]
    shown = subprocess.run(
        command,
        cwd=top,
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    assert {path: path.read_bytes() for path in top.rglob("*.yml")} == before
    subprocess.run(["git", "init", "-q"], cwd=top, check=True)
    subprocess.run(
        ["git", "apply", "--whitespace=nowarn", "-"], cwd=top, input=shown.stdout, check=True
    )
    assert all(b"instance_type: 32cpu128g" in path.read_bytes() for path in before)
    assert arc("patch", top, *TYPE, "--threads", "lightgbm", "--check").code == 0


def test_write_then_check(arc: Arc, job: Path) -> None:
    assert arc("patch", job, *TYPE, "--check").code == 1
    assert arc("patch", job, *TYPE, "--check", "--exit-zero").code == 0
    result = arc("patch", job, *TYPE, "--write")
    assert (result.code, result.out) == (0, f"wrote {job}\n")
    assert "1 file changed." in result.err
    again = arc("patch", job, *TYPE, "--check")
    assert (again.code, again.out) == (0, "")


def test_the_mode_of_a_file_stays(arc: Arc, job: Path) -> None:
    job.chmod(0o640)
    arc("patch", job, *TYPE, "--write")
    assert job.stat().st_mode & 0o777 == 0o640


def test_json_names_files_findings_and_what_was_left_out(arc: Arc, tmp_path: Path) -> None:
    (tmp_path / "job.yml").write_text(WRONG)
    (tmp_path / "broken.yml").write_text("command: [\n")
    (tmp_path / "other.yml").write_text("a: 1\n")
    data = json.loads(arc("patch", tmp_path, *TYPE, "--format", "json").out)
    assert data["schema"] == "arc-toolkit/patch/v1"
    [file] = data["files"]
    assert (file["status"], file["new_files"]) == ("would change", [])
    assert "+  instance_type: 32cpu128g" in file["diff"]
    assert {entry["reason"].partition(":")[0] for entry in data["skipped"]} == {
        "broken YAML",
        "not AzureML",
    }
    [restep] = [entry for entry in data["findings"] if entry["rule"] == "amlarc-restep"]
    assert (restep["fixable"], restep["fixed"]) == ("safe", False)
    written = json.loads(arc("patch", tmp_path, *TYPE, "--format", "json", "--write").out)[
        "findings"
    ]
    assert ("amlarc-restep", "safe", True) in {
        (entry["rule"], entry["fixable"], entry["fixed"]) for entry in written
    }


def test_standard_input(arc: Arc, monkeypatch: pytest.MonkeyPatch) -> None:
    for mode, expected in (((), "+  instance_type"), (("--write",), "\n  instance_type")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(COMMAND_JOB.encode())))
        result = arc("patch", "-", *TYPE, *mode)
        assert result.code == 0
        assert expected in result.out


def test_new_files_are_written_and_never_over_others(arc: Arc, tmp_path: Path) -> None:
    sweep, new = tmp_path / "s.yaml", tmp_path / "s.v2.yaml"
    sweep.write_text(LEGACY_SWEEP)
    words = ("patch", sweep, *TYPE, "--compute", "aks", "--sweep-to-v2")
    assert "+++ b" in arc(*words).out
    assert not new.exists()
    new.write_text("mine\n")
    result = arc(*words, "--write")
    assert result.code == 2
    assert "already exists" in result.err
    assert (new.read_text(), sweep.read_text()) == ("mine\n", LEGACY_SWEEP)
    assert not (tmp_path / "s.trial.v2.yaml").exists()
    new.unlink()
    assert arc(*words, "--write").code == 0
    assert new.exists()
    assert arc(*words, "--write").code == 0


def test_a_setting_reaches_steps_through_the_folder(arc: Arc, tmp_path: Path) -> None:
    (tmp_path / "train.yml").write_text(COMPONENT)
    (tmp_path / "pipeline.yml").write_text(PIPELINE)
    assert arc("patch", tmp_path, "--threads", "auto", "--write").code == 0
    assert "AMLARC_PRESTEP" in (tmp_path / "pipeline.yml").read_text()
    assert (tmp_path / "train.yml").read_text() == COMPONENT


def test_something_that_cannot_be_set_is_exit_2_in_every_run(arc: Arc, tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yml"
    steps = "".join(
        f"  {kind}: {{type: {kind}, component: 'azureml:a:1'}}\n"
        for kind in ("command", "pipeline")
    )
    path.write_text(f"type: pipeline\njobs:\n{steps}")
    for mode in ((), ("--check",), ("--write",), ("--write",), ("--check",)):
        assert arc("patch", path, *TYPE, *mode).code == 2
    assert "32cpu128g" in path.read_text()


def test_a_named_file_that_is_not_changed_has_a_reason(arc: Arc, tmp_path: Path) -> None:
    path = tmp_path / "job.yml"
    for text, words, reason in (
        (
            COMMAND_JOB + "resources:\n  instance_type: 32cpu128g\n",
            TYPE,
            "already up to date",
        ),
        (COMPONENT, ("--compute", "aks"), "no job or step here supports these settings"),
        (COMMAND_JOB, (*TYPE, "--kind", "sweep"), "nothing in it is selected"),
        (
            COMMAND_JOB.replace("lightgbm", "other"),
            ("--threads", "auto"),
            "no evidence of LightGBM or FAISS",
        ),
    ):
        path.write_text(text)
        result = arc("patch", path, *words, "--skip", "lightgbm-threads,unused-component")
        assert (result.out, f"{path} is not changed: {reason}" in result.err) == ("", True), (
            result.err
        )


def test_the_same_note_for_many_steps_is_one_note(arc: Arc, tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yml"
    path.write_text(
        "type: pipeline\njobs:\n" + "".join(f"  s{n}: {{type: spark}}\n" for n in range(30))
    )
    result = arc("patch", path, *TYPE)
    assert result.err.count("Spark takes") == 1
    assert "the same at 29 more places" in result.err
    assert arc("--verbose", "patch", path, *TYPE).err.count("Spark takes") == 30


def test_the_printed_diff_applies_and_is_what_write_does(arc: Arc, tmp_path: Path) -> None:
    step = "  s{0}:\n    type: command\n    component: azureml:x:1\n    inputs:\n      a: 1\n"
    long = "type: pipeline\njobs:\n" + "".join(step.format(number) for number in range(300))
    files = {
        "job.yml": COMMAND_JOB,
        "long.yml": long,
        "windows.yml": long.replace("\n", "\r\n"),
        "s.yaml": LEGACY_SWEEP,
    }
    files |= {"last.yml": COMMAND_JOB.removesuffix("\n"), "a name.yml": COMMAND_JOB}
    for folder in ("diff", "write"):
        (tmp_path / folder).mkdir()
        for name, text in files.items():
            (tmp_path / folder / name).write_bytes(text.encode())
    count = ("--instance-count", "2", "--sweep-to-v2")
    words = (*TYPE, *count, "--expose-parameters", "--threads", "lightgbm")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path / "diff")
        apply(tmp_path / "diff", arc("patch", ".", *words).out)
    arc("patch", tmp_path / "write", *words, "--write")
    contents = [
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("diff", "write")
    ]
    assert contents[0] == contents[1]
    assert b"instance_type" in contents[0]["windows.yml"]
    assert "s.v2.yaml" in contents[0]


def test_a_file_that_is_nested_too_deeply_is_skipped_and_the_others_are_changed(
    arc: Arc, tmp_path: Path
) -> None:
    (tmp_path / "job.yml").write_text(COMMAND_JOB)
    for name, value in (
        ("block", "".join("\n" + "  " * depth + "a:" for depth in range(1, 600))),
        ("flow", " " + "{a: " * 600 + "1" + "}" * 600),
    ):
        (tmp_path / f"{name}.yml").write_text(f"{COMMAND_JOB}tags:{value}\n")
    result = arc("patch", tmp_path, *TYPE, "--write")
    assert result.code == 0
    assert result.err.count("nested too deeply") == 2
    assert "32cpu128g" in (tmp_path / "job.yml").read_text()
    assert arc("patch", tmp_path / "block.yml", *TYPE).code == 2


# --- check -----------------------------------------------------------------------------------------------------


def test_check_shows_the_line_and_exits_one(arc: Arc, tmp_path: Path) -> None:
    path = tmp_path / "job.yml"
    path.write_text(WRONG)
    result = arc("check", path)
    assert result.code == 1
    assert result.out == (
        f"{path}:8:3: error: AMLARC_RESTEP has no effect: the variable is called AMLARC_PRESTEP [amlarc-restep]\n"
        "  8 |   AMLARC_RESTEP: x\n"
        "    |   ^\n"
        "    `arc-toolkit patch --write` fixes it\n"
    )
    assert result.err == "checked 1 file: 1 error, 0 warnings, 0 notes, 0 skipped\n"
    assert path.read_text() == WRONG
    assert arc("check", path, "--exit-zero").code == 0
    assert arc("check", path, "--skip", "amlarc-restep").code == 0


def test_notes_alone_do_not_fail(arc: Arc, tmp_path: Path) -> None:
    (tmp_path / "train.yml").write_text(COMPONENT.replace("lightgbm", "x"))
    result = arc("check", tmp_path)
    assert "[unused-component]" in result.out
    assert result.code == 0


def test_a_component_that_a_pipeline_of_the_run_uses_is_not_unused(
    arc: Arc, tmp_path: Path
) -> None:
    (tmp_path / "a_train.yml").write_text(COMPONENT.replace("lightgbm", "x"))
    (tmp_path / "pipeline.yml").write_text(PIPELINE.replace("train.yml", "a_train.yml"))
    assert "[unused-component]" not in arc("check", tmp_path).out


def test_check_in_json_and_github_annotations(arc: Arc, tmp_path: Path) -> None:
    path = tmp_path / "a,b.yml"
    path.write_text(WRONG)
    data = json.loads(arc("check", path, "--format", "json").out)
    assert data["schema"] == "arc-toolkit/check/v1"
    assert data["findings"][0]["line"] == 8
    line = arc("check", path, "--format", "github").out
    assert line.startswith(
        f"::error file={str(path).replace(',', '%2C')},line=8,col=3,title=amlarc-restep::AMLARC_RESTEP"
    )


def test_rules_lists_and_explains(arc: Arc) -> None:
    listing = arc("rules")
    assert listing.code == 0
    assert "amlarc-restep" in listing.out
    assert "Before:" in arc("rules", "amlarc-restep").out
    assert json.loads(arc("rules", "--format", "json").out)["schema"] == "arc-toolkit/rules/v1"
    wrong = arc("rules", "amlarc-prestep")
    assert (wrong.code, "did you mean `amlarc-restep`?" in wrong.err) == (2, True)


def test_a_refused_file_is_named_with_the_reason(arc: Arc, tmp_path: Path) -> None:
    text = (
        "type: pipeline\njobs:\n  a: &a\n    type: command\n    component: azureml:x:1\n  b: *a\n"
    )
    (tmp_path / "p.yml").write_text(text)
    result = arc("patch", tmp_path / "p.yml", *TYPE, "--step", "a", "--write")
    assert result.code == 2
    assert (
        "p.yml is not changed: the edit would change something that was not asked for" in result.err
    )
    assert (tmp_path / "p.yml").read_text() == text


def test_a_refused_file_has_no_fix_and_is_not_fixed(arc: Arc, tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text("# coding: ascii\nfrom azure.ai.ml import command\n"
                    "job = command(command='x', environment='e', compute='a',"
                    " environment_variables={'AMLARC_RESTEP': 'x'})\n")  # fmt: skip
    result = arc("patch", path, "--compute", "é", "--write", "--format", "json")
    data = json.loads(result.out)
    assert (result.code, data["files"][0]["status"]) == (2, "refused")
    [finding] = [finding for finding in data["findings"] if finding["rule"] == "amlarc-restep"]
    assert (finding["fixable"], finding["fixed"]) == (False, False)


# --- bad input: one sentence, the right exit code, the other files still done ----------------------------------


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--cores", "0"), "--cores: must be at least 1, not 0"),
        (("--instance-count", "0"), "--instance-count: must be at least 1, not 0"),
        (("--instance-type", "Standard_NC6s_v3"), "standard-nc6s-v3 would be valid"),
        (("--compute", "a b"), "cannot be the name of a compute"),
        (("--export", "A B", "--threads", "auto"), "`A B` cannot be one"),
        (("--export", "A"), "use --threads"),
        (("--manual",), "use --threads"),
        (("--as", "job"), "use --sweep-to-v2"),
        (("--only", "treads"), "did you mean `threads`?"),
        (("--kind", "spark"), "invalid choice"),
        (("--write", "--check"), "not allowed with"),
        (("--instance-types", "/nowhere"), "no such file or directory"),
    ],
)
def test_options_that_cannot_be_meant(
    arc: Arc, job: Path, words: tuple[str, ...], sentence: str
) -> None:
    result = arc("patch", job, *words)
    assert result.code == 2
    assert sentence in result.err
    assert result.err.count("\n") == 1
    assert job.read_text() == COMMAND_JOB


def test_a_missing_path_is_reported_and_the_others_are_done(arc: Arc, job: Path) -> None:
    result = arc("patch", job.parent / "missing.yml", job, *TYPE, "--write")
    assert result.code == 2
    assert "no such file" in result.err
    assert "32cpu128g" in job.read_text()


def test_a_folder_without_azureml_files(arc: Arc, tmp_path: Path) -> None:
    (tmp_path / "other.yml").write_text("a: 1\n")
    result = arc("patch", tmp_path, *TYPE)
    assert result.code == 2
    assert f"no AzureML jobs, components or pipelines in {tmp_path}" in result.err


def test_a_file_that_cannot_be_written_is_reported_and_the_others_are_done(
    arc: Arc, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = job.parent / "a-locked.yml"
    locked.write_text(COMMAND_JOB)
    allowed = os.access
    monkeypatch.setattr(
        os,
        "access",
        lambda path, mode, **rest: "locked" not in str(path) and allowed(path, mode, **rest),
    )
    result = arc("patch", job.parent, *TYPE, "--write")
    assert result.code == 2
    assert "read-only" in result.err
    assert locked.read_text() == COMMAND_JOB
    assert "32cpu128g" in job.read_text()


def test_a_file_that_changes_meanwhile_is_left_alone(
    arc: Arc, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = AzureMLFiles.process

    def slow(engine: AzureMLFiles, path: str, data: bytes, **rest: bool) -> FileResult:
        result = plain(engine, path, data, in_folder=rest["in_folder"], named=rest["named"])
        job.write_text("# somebody was faster\n" + COMMAND_JOB)
        return result

    monkeypatch.setattr(AzureMLFiles, "process", slow)
    result = arc("patch", job, *TYPE, "--write")
    assert result.code == 2
    assert "changed during the run" in result.err
    assert job.read_text().startswith("# somebody was faster")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("command: [\n", ":2:1: broken YAML"),
        ("command: {{ c }}\n", "a template with placeholders"),
        ("type: command\n" + "a: &a [x, x]\n" + "".join(f"a{n}: &b{n} [*{'a' if n == 0 else f'b{n - 1}'}, "
         f"*{'a' if n == 0 else f'b{n - 1}'}]\n" for n in range(40)), "its anchors expand"),
    ],
)  # fmt: skip
def test_a_named_file_that_is_not_usable_is_an_error(
    arc: Arc, tmp_path: Path, text: str, reason: str
) -> None:
    path = tmp_path / "job.yml"
    path.write_text(text)
    result = arc("check", path)
    assert result.code == 2
    assert reason in result.err
    assert result.err.count("\n") <= 2


def test_a_hundred_megabytes_are_not_read(arc: Arc, job: Path) -> None:
    huge = job.parent / "huge.yml"
    with huge.open("wb") as stream:
        stream.truncate(100 * 1024 * 1024)
    named = arc("patch", huge, job, *TYPE)
    assert named.code == 2
    assert "larger than 16 MiB" in named.err
    assert "+  instance_type" in named.out
    below = arc("patch", job.parent, *TYPE)
    assert (below.code, "skipped" in below.err and "larger than 16 MiB" in below.err) == (0, True)
    assert "skipped: larger than 16 MiB" in arc("check", job.parent, "--format", "github").out


def test_instance_types_give_cores(arc: Arc, tmp_path: Path) -> None:
    (tmp_path / "types").mkdir()
    (tmp_path / "types" / "big.yaml").write_text(
        "apiVersion: amlarc.azureml.com/v1alpha1\nkind: InstanceTypeList\nitems:\n- metadata: {name: big}\n"
        "  spec: {resources: {requests: {cpu: 15500m, memory: 60Gi},\n"
        "    limits: {cpu: '16', memory: 60Gi, nvidia.com/gpu: 2}}}\n"
    )
    job = tmp_path / "job.yml"
    job.write_text(COMMAND_JOB)
    words = ("--instance-types", tmp_path / "types", "--threads", "lightgbm", "--manual")
    assert '+  OMP_NUM_THREADS: "15"' in arc("patch", job, "--instance-type", "big", *words).out
    (tmp_path / "types" / "big.yaml").write_text("kind: InstanceType\nmetadata: {}\n")
    assert "cannot be read" in arc("patch", job, *words).err


# --- what was given is what is named -----------------------------------------------------------------------------


def test_findings_name_the_path_that_was_given_also_where_a_pipeline_was_read_first(
    arc: Arc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a_pipeline.yml").write_text(
        PIPELINE.replace("train.yml", "z.yml").replace("    type: command\n", "")
    )
    Path("z.yml").write_text(COMPONENT + "environment_variables:\n  AMLARC_RESTEP: x\n")
    result = arc("check", ".", "--only", "amlarc-restep")
    assert "z.yml:14:3: error" in result.out
    assert "14 |   AMLARC_RESTEP: x" in result.out
    assert str(tmp_path) not in result.out
    assert (
        "::error file=z.yml,line=14"
        in arc("check", ".", "--only", "amlarc-restep", "--format", "github").out
    )


def stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize(
    ("data", "code", "why"),
    [
        (b"a: 1\n", 0, "not AzureML"),
        (b"command: [\n", 2, "broken YAML"),
        (b"import os\n", 0, "no AzureML code"),
    ],
)
def test_standard_input_with_write_comes_back_whatever_it_is(
    arc: Arc, monkeypatch: pytest.MonkeyPatch, data: bytes, code: int, why: str
) -> None:
    stdin(monkeypatch, data)
    result = arc("patch", "-", *TYPE, "--write")
    assert (result.code, result.out) == (code, data.decode())
    assert why in result.err


def test_a_named_file_that_is_none_of_ours_is_reported(arc: Arc, tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("a: 1\n")
    for command in ("patch", "check"):
        assert "a.yml: not AzureML" in arc(command, tmp_path / "a.yml").err


def test_python_on_standard_input_is_patched(arc: Arc, monkeypatch: pytest.MonkeyPatch) -> None:
    code = b"from azure.ai.ml import command\njob = command(command='x', environment='e', compute='aks')\n"
    stdin(monkeypatch, code)
    result = arc("patch", "-", *TYPE, "--write")
    assert result.code == 0
    assert "32cpu128g" in result.out


SPEC = "type: CommandComponent\nname: a\nversion: 1\ncommand: x\n"


def test_what_was_asked_and_could_not_be_placed_is_reported(arc: Arc, tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(SPEC)
    named = arc("patch", tmp_path / "a.yaml", tmp_path / "b.yaml", *TYPE)
    assert named.err.count("not set on command spec [instance-type]") == 2
    folder = arc("patch", tmp_path, *TYPE)
    assert folder.err.count("[instance-type]") == 0
    assert (
        folder.err.count("instance-type is not set everywhere in 2 files: a v1.5 spec has no place")
        == 1
    )


def test_a_step_or_kind_that_matches_nothing_is_an_error_with_the_names_there_are(
    arc: Arc, tmp_path: Path
) -> None:
    (tmp_path / "pipeline.yml").write_text(PIPELINE)
    (tmp_path / "train.yml").write_text(COMPONENT)
    result = arc("patch", tmp_path, *TYPE, "--step", "nosuch")
    assert result.code == 2
    assert "--step nosuch matches nothing; there are: train" in result.err
    assert arc("patch", tmp_path, *TYPE, "--step", "train").code == 0
    assert "there are: command, pipeline" in arc("patch", tmp_path, *TYPE, "--kind", "automl").err


def test_only_and_skip_of_the_same_rule_is_an_error(arc: Arc, job: Path) -> None:
    result = arc("check", job, "--only", "amlarc-restep", "--skip", "amlarc-restep")
    assert result.code == 2
    assert "leave nothing to do" in result.err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--threads", "auto", "--export", "PATH"), "--export PATH would put"),
        (
            ("--threads", "auto", "--export", "LD_LIBRARY_PATH"),
            "--export LD_LIBRARY_PATH would put",
        ),
        (("--instance-type", "a" * 254), "it has 254 characters, and 253 are allowed"),
    ],
)
def test_names_that_would_break_the_job_are_errors(
    arc: Arc, job: Path, words: tuple[str, ...], why: str
) -> None:
    result = arc("patch", job, *words)
    assert result.code == 2
    assert why in result.err
    assert result.out == ""


def test_patch_changes_nothing_in_this_repository(arc: Callable[..., Result]) -> None:
    result = arc("patch", ROOT, "--check")
    assert (result.code, result.out) == (0, ""), result.err
