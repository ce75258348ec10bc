"""Values of SDK v1 in code: those of `edit/code/values`, and datasets, outputs and parameters.

    data = Dataset.get_by_name(ws, "mnist").as_named_input("images").as_mount()
    args = ["--data", data, "--size", PipelineParameter("size", 5), "--epochs", options.epochs]

    values.script_arguments(<args>, statement)
        ["--data", Data("images", "file", "azureml:mnist@latest", registered=True), "--size",
         PipelineParameter("size", 5), "--epochs", Unsaid("options.epochs")]

`Ports` makes the command line and the inputs and outputs of a v2 job of them.

Signatures: azureml-core 1.61, azureml-pipeline-core and azureml-train-core 1.62. Microsoft Learn,
"Access data in a job": a registered dataset of v1 is an mltable in v2, a FileDataset with the mode
eval_mount, a TabularDataset with direct.
"""

from __future__ import annotations

import ast
import posixpath
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from arc_toolkit.azureml.python.resolve import SdkResolver
from arc_toolkit.edit.code.names import Binding, Statement, Use, find_bindings, last_name, short
from arc_toolkit.edit.code.values import (
    Bound,
    CallArguments,
    Evaluator,
    OpaqueValue,
    call_arguments,
    is_change,
)
from arc_toolkit.edit.yaml.writer import Comment
from arc_toolkit.migrate.trial import legal_name
from arc_toolkit.migrate.v2_jobs import UNSET, filled

HYPERDRIVE = "azureml.train.hyperdrive"


@dataclass(frozen=True)
class PipelineParameter:
    """A PipelineParameter of v1: callers of the pipeline may change it."""

    name: str
    default: Any


@dataclass(frozen=True)
class Unsaid:
    """A value among others that the code does not say, with its text."""

    text: str


@dataclass(frozen=True)
class Data:
    """A dataset or the output of another step, as an input; `path` is that of v2, if known."""

    name: str = ""
    kind: Literal["file", "table", ""] = ""
    path: str = ""
    # A dataset of SDK v1 that is registered: v2 sees it as an mltable.
    registered: bool = False
    download: bool = False


@dataclass(frozen=True)
class Output:
    """PipelineData, or with `is_dataset` OutputFileDatasetConfig and the like."""

    name: str
    is_dataset: bool = False


@dataclass(frozen=True)
class NamedObject:
    """A compute, datastore or environment; of the last, with its version or label."""

    name: str


class _NamedObjects(dict[str, NamedObject]):
    """`ws.compute_targets`, of which `ws.compute_targets["k8s"]` is read."""

    def __missing__(self, name: str) -> NamedObject:
        return NamedObject(name)


_OBJECTS = Data | Output | NamedObject
_DATASET_OUTPUTS = frozenset(
    {"OutputFileDatasetConfig", "OutputTabularDatasetConfig", "HDFSOutputDatasetConfig"}
)

# Methods of an output that give it back, and methods that only a dataset or an output has.
_OUTPUT_METHODS = frozenset({"as_mount", "as_upload", "register_on_complete"})
_DATA_METHODS = frozenset(
    {"as_named_input", "as_input", "as_mount", "as_download", "as_direct", "register"}
)


class V1Values(Evaluator):
    """Reads values, datasets and outputs in one module."""

    def __init__(self, resolver: SdkResolver) -> None:
        super().__init__(resolver.module, resolver.file, effort=resolver.effort)
        self._resolver = resolver
        # What the reader of the result has to know about values.
        self.remarks: list[str] = []

    # --- what SDK v1 adds to the evaluator ---

    def bindings(self, name: str, statement: Statement) -> list[Binding]:
        return self._resolver.bindings(name, statement) or find_bindings(
            name, statement, lambda path: path.startswith(f"{HYPERDRIVE}.")
        )

    def imported(self, path: str) -> Any:
        return self._resolver.imported(path)

    def operand(self, value: Any) -> Any:
        return value.default if isinstance(value, PipelineParameter) else value

    def attribute(self, node: ast.Attribute, statement: Statement) -> Any:
        if node.attr in ("compute_targets", "datastores", "environments"):
            return _NamedObjects()
        return super().attribute(node, statement)

    def call(self, node: ast.Call, statement: Statement) -> Any:
        """An object of SDK v1, by the last name of the function."""
        name = last_name(node.func)
        path = self.import_path(node.func, statement) or ""
        order: tuple[str, ...]

        def text(key: str, *order: str) -> str:
            return self._text(call_arguments(node, order, statement).values.get(key))

        match name:
            case "PipelineParameter":
                order = ("name", "default_value")
                default = self.value(*call_arguments(node, order, statement).values[order[1]])
                is_data = isinstance(default, Data)
                return default if is_data else PipelineParameter(text("name", *order), default)
            case "get" | "getenv" if path in ("os.environ.get", "os.getenv"):
                variable, value = (self.value(item, statement) for item in node.args)
                remark = f"{value!r} is the default of the environment variable {variable}"
                self.remarks.append(remark)
                return value
            case "PipelineData":
                return Output(text("name", "name"))
            case _ if name in _DATASET_OUTPUTS:
                return Output(text("name", "name"), is_dataset=True)
            case "DatasetConsumptionConfig":
                bound = call_arguments(node, ("name", "dataset"), statement).values["dataset"]
                return replace(self.data_of(*bound), name=text("name", "name"))
            case "get_by_name":
                order = ("workspace", "name", "version")
                return _registered(text("name", *order), text("version", *order))
        match node.func:
            case ast.Attribute(value=ast.Attribute(attr="File")):
                return Data(kind="file", path=self._path(node, statement))
            case ast.Attribute(value=ast.Attribute(attr="Tabular")):
                return Data(kind="table")
            case _ if ".Environment" in path:
                keys = ("workspace", "name", "version", "label")
                order = keys if name == "get" else ("name",)
                version, label = text("version", *order), text("label", *order) or "latest"
                is_version = version and version.lower() != "latest"
                label = f":{version}" if is_version else f"@{label}"
                return NamedObject(text("name", *order) + label)
            case _ if path.startswith("azureml."):
                return self._named_object(node, statement)
            case ast.Attribute(value=holder):
                return self._method(name, holder, text, statement)
        return super().call(node, statement)

    def _method(
        self, name: str, holder: ast.expr, text: Callable[..., str], statement: Statement
    ) -> Any:
        """The value of `holder.name(...)`."""
        value = self.value_or_none(holder, statement)
        if isinstance(value, _NamedObjects) and name == "get":
            return NamedObject(text("name", "name"))
        if name == "clone":
            return NamedObject(text("new_name", "new_name"))
        if isinstance(value, Output) and value.is_dataset and name in _OUTPUT_METHODS:
            return value
        if name not in _DATA_METHODS and not isinstance(value, Data | Output):
            raise OpaqueValue(f"it is made by {name}()")
        data = self.data_of(holder, statement)
        match name:
            case "as_named_input" | "as_input":
                return replace(data, name=text("name", "name"))
            case "register":
                registered = _registered(text("name", "workspace", "name"))
                return replace(registered, name=data.name, kind=data.kind)
            case "as_mount" | "as_download":
                return replace(data, kind=data.kind or "file", download=name == "as_download")
            case "as_direct":
                return data
        # dataset.partition_by(...), output.read_delimited_files() and the like: data elsewhere
        is_table = name.startswith(("read_", "parse_"))
        kind = "table" if is_table else data.kind
        return replace(data, kind=kind, path="", registered=False)

    def _named_object(self, call: ast.Call, statement: Statement) -> NamedObject:
        """`ComputeTarget(ws, "k8s")`, `ComputeTarget.create(workspace=ws, name="k8s")`."""
        keys = ("name", "datastore_name")
        parts = [keyword.value for keyword in call.keywords if keyword.arg in keys]
        values = (self.value_or_none(item, statement) for item in (*parts, *call.args[1::-1]))
        names = [value for value in map(self.operand, values) if isinstance(value, str)]
        return NamedObject(names[0])

    def _path(self, call: ast.Call, statement: Statement) -> str:
        """The path of `Dataset.File.from_files`: one URL, or a path on a datastore."""
        try:
            made, where = self.follow(*call_arguments(call, ("path",), statement).values["path"])
            match made:
                case (
                    ast.Tuple(elts=[store, inside])
                    | ast.Call(func=ast.Attribute(attr="path", value=store), args=[inside, *_])
                ):
                    name, text = self.name_of(store, where), str(self.value(inside, where))
                    path = f"azureml://datastores/{name}/paths/{text.strip('/')}"
                case _:
                    path = self.value(made, where)
        except (OpaqueValue, KeyError):
            return ""
        is_url = isinstance(path, str) and "://" in path and "*" not in path
        return path if is_url else ""

    # --- what a place takes ---

    def value_or_none(self, node: ast.expr, statement: Statement) -> Any:
        try:
            return self.value(node, statement)
        except OpaqueValue:
            return None

    def plain(self, node: ast.expr, statement: Statement) -> Any:
        """A value without objects of the SDK in it; a PipelineParameter is one."""
        value = self.value(node, statement)
        if not _is_plain(value):
            raise OpaqueValue(f"it is {short(node)}")
        return value

    def _text(self, bound: Bound | None) -> str:
        value = self.operand(self.value(*bound)) if bound is not None else None
        return "" if value is None else str(value)

    def data_of(self, node: ast.expr, statement: Statement) -> Data:
        """A dataset or an output of another step, by its name or its variable."""
        value = self.value_or_none(node, statement)
        variable = node.id if isinstance(node, ast.Name) else ""
        if variable and not isinstance(value, Data | Output):
            values = [
                self.value_or_none(item.value, item.statement)
                for item in self.bindings(variable, statement)
                if isinstance(item.value, ast.expr)
            ]
            value = _agreed_data([item if isinstance(item, Data) else Data() for item in values])
        if isinstance(value, Output):
            return Data(value.name or variable, "file")
        if isinstance(value, Data):
            return value if value.name else replace(value, name=variable)
        raise OpaqueValue(f"it is {short(node)}")

    def output_of(self, node: ast.expr, statement: Statement) -> Output:
        """An output, by the name in the call that makes it, or by its variable."""
        value = self.value_or_none(node, statement)
        name = value.name if isinstance(value, Data | Output) else ""
        if not name and not isinstance(node, ast.Name):
            raise OpaqueValue(f"it is {short(node)}")
        return Output(name or getattr(node, "id", ""))

    def name_of(self, node: ast.expr, statement: Statement) -> str:
        """The name of a compute, datastore or environment."""
        value = self.operand(self.value(node, statement))
        name = value.name if isinstance(value, NamedObject) else value
        if not isinstance(name, str) or not name.strip(":@"):
            raise OpaqueValue(f"it is {short(node)}")
        return name

    def environment(self, node: ast.expr, statement: Statement) -> str:
        """`name:version` or `name@label`, with the version that is set after it is made."""
        name = self.name_of(node, statement)
        for use in self.later_uses(node, statement):
            if use.how == "assign" and use.path == ("version",):
                base = name.partition("@")[0].partition(":")[0]
                name = f"{base}:{self.plain(use.value, use.statement)}"
        return name

    def variables(self, node: ast.expr, statement: Statement) -> dict[str, str]:
        """The environment variables that are set on an environment after it is made."""
        variables: dict[str, str] = {}
        for use in self.later_uses(node, statement):
            if use.how == "assign" and use.path[:1] == ("environment_variables",):
                value = self.plain(use.value, use.statement)
                value = {use.path[1][1:-1]: value} if len(use.path) > 1 else value
                if not isinstance(value, dict):
                    raise OpaqueValue(f"it is {short(use.value)}")
                variables |= value
        return {str(name): str(value) for name, value in variables.items()}

    def later_uses(self, node: ast.expr, statement: Statement) -> Iterator[Use]:
        """What is said about the object of a name between its binding and a statement."""
        binding = self.certain(node.id, statement) if isinstance(node, ast.Name) else None
        return self.uses(binding, statement) if binding is not None else iter(())

    def items(self, node: ast.expr, statement: Statement) -> list[Bound]:
        """The expressions in a list, or the one that is given without a list."""
        made, where = self.follow(node, statement)
        if not isinstance(made, ast.List | ast.Tuple):
            return [(node, statement)]
        if any(isinstance(item, ast.Starred) for item in made.elts):
            raise OpaqueValue(f"it is {short(made)}")
        if any(is_change(use) for use in self.later_uses(node, statement)):
            raise OpaqueValue(f"{short(node)} is changed after it is made")
        return [(item, where) for item in made.elts]

    def script_arguments(self, node: ast.expr, statement: Statement) -> list[Any]:
        """Arguments of a script: values, and the data, outputs and parameters among them."""
        try:
            items = self.items(node, statement)
        except OpaqueValue:  # changed after it is made, or with other lists in it
            return list(self.value(node, statement))
        return [self._script_argument(*item) for item in items]

    def _script_argument(self, node: ast.expr, statement: Statement) -> Any:
        value = self.value_or_none(node, statement)
        if isinstance(value, Output):
            return self.output_of(node, statement)
        if isinstance(value, Data) and (value.kind or value.path):
            return self.data_of(node, statement)
        is_null = isinstance(node, ast.Constant) and node.value is None
        is_unknown = value is None and not is_null
        return Unsaid(short(node)) if is_unknown or isinstance(value, _OBJECTS) else value


def _is_plain(value: Any) -> bool:
    items = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict | list | tuple):
        return all(map(_is_plain, items))
    return not isinstance(value, _OBJECTS)


def _agreed_data(ways: list[Data]) -> Data:
    """What all ways to make a dataset agree on; a path that only some of them have counts."""
    names, kinds = {way.name for way in ways}, {way.kind for way in ways}
    paths = {way.path for way in ways} - {""}
    return Data(
        names.pop() if len(names) == 1 else "",
        kinds.pop() if len(kinds) == 1 else "",
        paths.pop() if (is_certain := len(paths) == 1) else "",
        is_certain and any(way.registered for way in ways),
        any(way.download for way in ways),
    )


def _registered(name: str, version: str = "") -> Data:
    is_version = version and version.lower() != "latest"
    label = f":{version}" if is_version else "@latest"
    return Data(path=f"azureml:{name}{label}", registered=True)


@dataclass
class V1Fields:
    """The fields of a v1 object: values, the text of those that are not known, and notes."""

    reader: V1Values
    values: dict[str, Any] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def read(self, arguments: CallArguments) -> None:
        """The arguments of one call; they win over those of an earlier one."""
        for name, (node, statement) in arguments.values.items():
            self.values.pop(name, None)
            self.unknown.pop(name, None)
            try:
                value = self._value(name, node, statement)
            except OpaqueValue:
                self.unknown[name] = short(node)
                continue
            if isinstance(value, PipelineParameter):
                default = f"its default {value.default!r} is written"
                self.notes.append(f"{name} is the PipelineParameter {value.name}: {default}")
                value = value.default
            self.values[name] = value
            if name == "environment":
                self._read_variables(node, statement)
        if arguments.rest:
            self.unknown["**"] = arguments.rest

    def _value(self, name: str, node: ast.expr, statement: Statement) -> Any:
        reader = self.reader
        match name:
            case "environment":
                return reader.environment(node, statement)
            case "compute_target":
                return reader.name_of(node, statement)
            case "inputs" | "side_inputs":
                return [reader.data_of(*item) for item in reader.items(node, statement)]
            case "output":
                return reader.output_of(node, statement)
            case "arguments" | "script" | "command":
                words = reader.script_arguments(node, statement)
                if unsaid := [word.text for word in words if isinstance(word, Unsaid)]:
                    self.unknown[name] = ", ".join(unsaid)
                return words
        return reader.plain(node, statement)

    def _read_variables(self, node: ast.expr, statement: Statement) -> None:
        try:
            variables = self.reader.variables(node, statement)
        except OpaqueValue:
            self.unknown["environment_variables"] = f"set on {short(node)}"
        else:
            later = self.values.get("more_variables", {})
            self.values["more_variables"] = {**variables, **later}


@dataclass
class Ports:
    """The inputs and outputs of one v2 job by their names, in order."""

    data: dict[str, Data] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)

    def add_data(self, item: Data) -> str:
        name = legal_name(item.name or "data")
        if name not in self.data or (item.path and not self.data[name].path):
            self.data[name] = item
        return name

    def add_output(self, item: Output) -> str:
        name = legal_name(item.name)
        if name not in self.outputs:
            self.outputs.append(name)
        return name

    def command_line(self, items: Iterable[Any]) -> str:
        """Script arguments as shell text; data, outputs and parameters become ports."""
        return " ".join(map(self._word, items))

    def _word(self, item: Any) -> str:
        match item:
            case Data():
                return f"${{{{inputs.{self.add_data(item)}}}}}"
            case Output():
                return f"${{{{outputs.{self.add_output(item)}}}}}"
            case PipelineParameter():
                name = legal_name(item.name)
                self.parameters[name] = item.default
                return f"${{{{inputs.{name}}}}}"
            case Unsaid():
                return UNSET
        return shlex.quote(str(item))

    def job_inputs(self) -> dict[str, Any]:
        return {**{name: _job_input(item) for name, item in self.data.items()}, **self.parameters}

    def notes(self) -> Iterator[str]:
        """What has to be done about the inputs before the job is submitted."""
        missing = [name for name, item in self.data.items() if not item.path]
        if missing:
            yield f"set a path for {', '.join(missing)} before the job is submitted"
        if tables := [name for name in missing if self.data[name].kind == "table"]:
            words = "v2 reads tables from an MLTable, which takes the place of Dataset.Tabular"
            yield f"{', '.join(tables)}: {words}"
        if unsure := [name for name, item in self.data.items() if not item.kind]:
            words = "taken for files; a tabular dataset is an mltable with the mode direct"
            yield f"{', '.join(unsure)}: {words}"


def input_type(item: Data) -> str:
    if item.kind == "table" or item.registered:
        return "mltable"
    return "uri_file" if posixpath.splitext(item.path)[1] and "://" in item.path else "uri_folder"


def input_mode(item: Data) -> str:
    if item.kind == "table":
        return "direct"
    mode = "download" if item.download else "mount" if item.registered else ""
    return f"eval_{mode}" if item.registered else mode


def _job_input(item: Data) -> dict[Any, Any]:
    """The v2 input of a job; a comment takes the place of a path that is not known."""
    hint = "an MLTable" if item.kind == "table" else "a folder or URL"
    comment = {} if item.path else {Comment(f"path: azureml:NAME@latest, or {hint}"): None}
    return filled(
        {"type": input_type(item), "path": item.path, **comment, "mode": input_mode(item)}
    )
