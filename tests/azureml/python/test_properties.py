"""Property tests: generated pipelines in odd layouts. Only what was asked for changes, and once."""

from __future__ import annotations

import ast
import difflib

from hypothesis import given, settings
from hypothesis import strategies as st

from arc_toolkit.azureml.settings import Settings
from tests.azureml.python.support import V2, V15, notebook, patch_bytes, patch_cells, sources

ASKED = st.builds(
    Settings,
    instance_type=st.sampled_from([None, "32cpu128g", 'odd "name"\\', "größe"]),
    instance_count=st.sampled_from([None, 1, 2]),
    compute=st.sampled_from([None, "k8s"]),
    expose_parameters=st.booleans(),
    threads=st.sampled_from([None, "off", "lightgbm", "auto"]),
    steps=st.sampled_from([(), ("node",), ("s0", "job")]),
)

INDENTS = st.sampled_from(["    ", "\t", "  "])
COMMENTS = st.sampled_from(["", "  # é", " \t", "  # arc-toolkit: ignore[instance-type] why"])
ARGUMENTS = st.sampled_from(
    ["x=x", "x='日本'", "\n{i}{i}x=x,  # c\n{i}", "\n{i}{i}x=x,\n{i}{i}y=(1)\n{i}", "**x", ""]
)
SETTINGS = st.sampled_from(
    [
        "",
        "{n}.resources = JobResourceConfiguration(instance_type='old')",
        "{n}.resources = JobResourceConfiguration(\n{i}{i}instance_type='old',\n{i}{i}shm_size='1g',  # é\n{i})",
        "{n}.resources = {{'instance_count': 4,}}",
        "{n}.resources = elsewhere",
        "{n}.set_resources(instance_type='old', instance_count=x)",
        "{n}.resources.instance_count = 4",
        "{n}.compute = 'cpu'",
        "{n}.environment_variables = {{'A': 'é', 'AMLARC_RESTEP': 'export A=1'}}",
        "{n}.environment_variables['A'] = '1'",
        "{n}.runsettings.resource_layout.configure(node_count=1)",
        "{n}.runsettings.configure(target='cpu', node_count=(1))",
        "{n}.runsettings.environment_variables = dict(A='1')",
        "helper({n})",
        "t_{n} = {n}.sweep(primary_metric='m', goal='g', instance_type='old')",
    ]
)
MAKERS = st.sampled_from(
    [
        "train({a})",
        "train({a}) if x else None",
        "unknown({a})",
        "command(command='é', name='c')",
        "command(**x)",
    ]
)
DECORATORS = st.sampled_from(["", 'default_compute="cpu"', "compute=where"])
PARAMETERS = st.sampled_from(["x", "x, y=1", "x, *, k=2", "x, **more", "x, instance_type=None"])


@st.composite
def pipelines(draw: st.DrawFn) -> str:
    indent = draw(INDENTS)
    lines = [draw(st.sampled_from([V2, V15])) + "from azure.ai.ml import command", ""]
    lines.append("job = command(command='x')" + draw(COMMENTS))
    lines.append(f"@dsl.pipeline({draw(DECORATORS)})")
    lines.append(f"def p({draw(PARAMETERS)}):")
    for index in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(["node", f"s{index}", "größe"]))
        call = draw(MAKERS).replace("{a}", draw(ARGUMENTS).replace("{i}", indent))
        opening = draw(st.sampled_from(["", "", "if x:", "for i in x:", "with x:"]))
        pad = indent * 2 if opening else indent
        if opening:
            lines.append(indent + opening)
        lines.append(f"{pad}{name} = {call}{draw(COMMENTS)}")
        for said in draw(st.lists(SETTINGS, max_size=2)):
            if said:
                lines.append(pad + said.format(n=name, i=indent))
    text = "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n"]))
    return draw(st.sampled_from([text, text.replace("\n", "\r\n")]))


@given(pipelines(), ASKED)
@settings(max_examples=100, deadline=None)
def test_what_is_written_parses_is_stable_and_keeps_all_other_lines(
    text: str, asked: Settings
) -> None:
    ast.parse(text)
    result = patch_bytes("p.py", text.encode(), asked)
    assert result.refused is None
    if result.after is None:
        return
    after = result.after.decode()
    ast.parse(after)
    assert patch_bytes("p.py", result.after, asked).after is None
    # Every old line is there, in order, as it was, or is one that a setting may change.
    old, new = (lines.replace("\r\n", "\n").split("\n") for lines in (text, after))
    for line in difflib.ndiff(old, new):
        if line.startswith("- "):
            assert any(word in line for word in _MAY_CHANGE), line


_MAY_CHANGE = (
    *(
        "import",
        "command(",
        "def p(",
        "@dsl",
        "resources",
        "instance_",
        "configure",
        "compute",
        "target",
        "AMLARC",
    ),
    *("environment_variables", "sweep(", "shm_size", "node_count"),
)


@given(pipelines(), ASKED)
@settings(max_examples=50, deadline=None)
def test_a_notebook_says_what_the_file_says(text: str, asked: Settings) -> None:
    as_file = patch_bytes("p.py", text.encode(), asked)
    as_notebook = patch_cells(notebook(text.splitlines(keepends=True)), asked)
    assert (as_file.after is None) == (as_notebook.after is None)
    if as_file.after is not None and as_notebook.after is not None:
        assert sources(as_notebook.after) == [as_file.after.decode()]


@given(st.binary(max_size=200), st.booleans())
@settings(max_examples=100, deadline=None)
def test_no_bytes_make_it_fail(data: bytes, keyed: bool) -> None:
    data = (b"from azure.ai.ml import command\n" if keyed else b"") + data
    result = patch_bytes("p.py", data, Settings(instance_type="t"))
    assert result.before == data
    assert patch_cells(data).after is None
