"""Values of SDK v1 in code: those of `edit/code/values`, and datasets, outputs and parameters.

    data = Dataset.get_by_name(ws, "mnist").as_named_input("images").as_mount()
    args = ["--data", data, "--size", PipelineParameter("size", 5), "--epochs", options.epochs]

    values.script_arguments(<args>, statement)
        ["--data", Data("images", "file", "azureml:mnist@latest", registered=True), "--size",
         PipelineParameter("size", 5), "--epochs", "SET_ME"]

`Ports` makes the command line and the inputs and outputs of a v2 job of them. Every argument of
these objects gets its entry in the ledger of the conversion.

Microsoft Learn, "Access data in a job": a registered dataset of v1 is an mltable in v2, a
FileDataset with the mode eval_mount, a TabularDataset with direct.
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
from arc_toolkit.migrate.ledger import Ledger, argument_rows, signature
from arc_toolkit.migrate.v2_jobs import DEFAULT_IMAGE, UNSET, binding, filled, legal_name

HYPERDRIVE = "azureml.train.hyperdrive"


@dataclass(frozen=True)
class PipelineParameter:
    """A PipelineParameter of v1: callers of the pipeline may change it."""

    name: str
    default: Any


@dataclass(frozen=True)
class Data:
    """A dataset or the output of another step, as an input; `path` is that of v2, if known."""

    name: str = ""
    kind: Literal["file", "table", ""] = ""
    path: str = ""
    # A dataset of SDK v1 that is registered: v2 sees it as an mltable.
    registered: bool = False
    download: bool = False

    @property
    def v2_type(self) -> str:
        if self.kind == "table" or self.registered:
            return "mltable"
        is_file = posixpath.splitext(self.path)[1] and "://" in self.path
        return "uri_file" if is_file else "uri_folder"

    @property
    def v2_mode(self) -> str:
        if self.kind == "table":
            return "direct"
        mode = "download" if self.download else "mount" if self.registered else ""
        return f"eval_{mode}" if self.registered else mode

    def step_input(self, name: str) -> Any:
        """A binding, with type and mode if the step does not read it in the default way."""
        if mode := self.v2_mode:
            return {"type": self.v2_type, "path": binding(name), "mode": mode}
        return binding(name)

    def job_input(self) -> dict[Any, Any]:
        """The v2 input of a job; a comment takes the place of a path that is not known."""
        hint = "an MLTable" if self.kind == "table" else "a folder or URL"
        tree: dict[Any, Any] = {"type": self.v2_type, "path": self.path}
        if not self.path:
            tree[Comment(f"path: azureml:NAME@latest, or {hint}")] = None
        return filled({**tree, "mode": self.v2_mode})


@dataclass(frozen=True)
class Output:
    """PipelineData, or with `is_dataset` OutputFileDatasetConfig and the like."""

    name: str
    is_dataset: bool = False
    kind: Literal["file", "table"] = "file"
    # As in v2; empty: v2's own default.
    path: str = ""
    mode: str = ""
    # The data asset that it is registered as.
    asset: str = ""

    def job_output(self, file_name: str = "") -> dict[str, Any]:
        """The v2 output: a folder, or the file `file_name` in it."""
        path = f"{self.path.rstrip('/')}/{file_name}" if self.path and file_name else self.path
        kind = "uri_file" if file_name else "uri_folder"
        return filled({"type": kind, "path": path, "mode": self.mode, "name": self.asset})


@dataclass(frozen=True)
class NamedObject:
    """A compute, datastore or environment; the default datastore has no name."""

    name: str
    # Of an environment: whether the code builds it, and its v2 form, if that is known.
    is_built: bool = False
    inline: dict[str, Any] = field(default_factory=dict)


class _NamedObjects(dict[str, NamedObject]):
    """`ws.compute_targets`, of which `ws.compute_targets["k8s"]` is read."""

    def __missing__(self, name: str) -> NamedObject:
        return NamedObject(name)


_OBJECTS = Data | Output | NamedObject
# Where v1 puts an output without a path of its own.
_V1_PATH = "azureml/{run-id}/{output-name}"
_OUTPUT_MODES = {"mount": "rw_mount", "upload": "upload"}
# Methods of an output that give it back, and methods that only a dataset or an output has.
_OUTPUT_METHODS = frozenset({"as_mount", "as_upload", "register_on_complete"})
_DATA_METHODS = frozenset(
    {"as_named_input", "as_input", "as_mount", "as_download", "as_direct", "register"}
)
# Methods of an environment that do not change it.
_ENVIRONMENT_METHODS = frozenset({"register", "build", "build_local", "save_to_directory", "clone"})


class V1Values(Evaluator):
    """Reads values, datasets and outputs in one module, for one conversion."""

    def __init__(self, resolver: SdkResolver) -> None:
        super().__init__(resolver.module, resolver.file, effort=resolver.effort)
        self._resolver = resolver
        self.ledger = Ledger()

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

        def text(key: str, *order: str) -> str:
            return self._text(call_arguments(node, order, statement).values.get(key))

        match name:
            case "PipelineParameter":
                order = signature(name)
                default = self.value(*call_arguments(node, order, statement).values[order[1]])
                is_data = isinstance(default, Data)
                return default if is_data else PipelineParameter(text("name", *order), default)
            case "get" | "getenv" if path in ("os.environ.get", "os.getenv"):
                variable, value = (self.value(item, statement) for item in node.args)
                reason = f"{value!r} is the default of the environment variable {variable}"
                self.ledger.added(str(variable), reason)
                return value
            case "PipelineData" | "DatasetConsumptionConfig":
                return self._port(node, statement, name)
            case _ if name.endswith("OutputDatasetConfig") or name == "OutputFileDatasetConfig":
                return self._port(node, statement, name)
            case "OutputTabularDatasetConfig":
                return Output(text("name", "name"), is_dataset=True, kind="table")
            case "get_by_name":
                order = ("workspace", "name", "version")
                return _registered(text("name", *order), text("version", *order))
            case "get_default_datastore":
                return NamedObject("")
        match node.func:
            case ast.Attribute(value=ast.Attribute(attr="File")):
                return Data(kind="file", path=self._path(node, statement))
            case ast.Attribute(value=ast.Attribute(attr="Tabular")):
                return Data(kind="table")
            case _ if ".Environment" in path:
                return _environment(name, text)
            case _ if path.startswith("azureml."):
                return self._named_object(node, statement)
            case ast.Attribute(value=holder):
                return self._method(node, name, holder, text, statement)
        return super().call(node, statement)

    def _method(
        self,
        call: ast.Call,
        name: str,
        holder: ast.expr,
        text: Callable[..., str],
        statement: Statement,
    ) -> Any:
        """The value of `holder.name(...)`."""
        value = self.value_or_none(holder, statement)
        if isinstance(value, _NamedObjects) and name == "get":
            return NamedObject(text("name", "name"))
        if name == "clone":
            return NamedObject(text("new_name", "new_name"), is_built=True)
        is_dataset = isinstance(value, Output) and value.is_dataset
        if name not in _DATA_METHODS and not isinstance(value, Data | Output):
            raise OpaqueValue(f"it is made by {name}()")
        if name in argument_rows():
            self.account(call, statement, name, getattr(value, "name", ""))
        if isinstance(value, Output) and is_dataset and name in _OUTPUT_METHODS:
            if name == "register_on_complete":
                return replace(value, asset=text("name", "name"))
            return replace(value, mode=_OUTPUT_MODES[name.removeprefix("as_")])
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

    def account(
        self, call: ast.Call, statement: Statement, source: str, name: str = ""
    ) -> dict[str, Bound]:
        """The arguments of a call, each with its entry in the ledger."""
        arguments = call_arguments(call, signature(source), statement)
        self.ledger.read(source, arguments.values, name)
        if arguments.rest:
            self.ledger.by_hand("**", arguments.rest, source)
        return arguments.values

    def _port(self, call: ast.Call, statement: Statement, source: str) -> Data | Output:
        """A dataset as an input, or an output, by the call that makes it."""
        order = signature(source)
        name = self._text(call_arguments(call, order, statement).values.get("name"))
        values = self.account(call, statement, source, name)
        label = f"{source}({name})" if name else source
        mode = self._text(values.get("mode") or values.get("output_mode"))
        if source == "DatasetConsumptionConfig":
            data = replace(self.data_of(*values["dataset"]), name=name)
            is_download = data.download or mode == "download"
            return replace(data, kind=data.kind or ("file" if mode else ""), download=is_download)
        if mode and mode not in _OUTPUT_MODES:
            self.ledger.by_hand("output_mode", f"v2 has no mode {mode}", label)
        path = ""
        for key in ("datastore", "destination"):
            try:
                path = self._output_path(*values[key]) if key in values else path
            except (OpaqueValue, ValueError, AttributeError):
                self.ledger.by_hand(key, short(values[key][0]), label)
        is_dataset = source != "PipelineData"
        return Output(name, is_dataset, path=path, mode=_OUTPUT_MODES.get(mode, ""))

    def _output_path(self, node: ast.expr, statement: Statement) -> str:
        """`datastore` or `(datastore, "path")` as the v2 path of an output."""
        made, where = self.follow(node, statement)
        if isinstance(made, ast.Constant) and made.value is None:
            return ""
        store, inside = made.elts if isinstance(made, ast.Tuple) else (made, None)
        text = _V1_PATH if inside is None else str(self.value(inside, where)).strip("/")
        value = self.value(store, where)
        name = value if isinstance(value, str) else value.name
        if not name and inside is None:  # what v2 does by itself
            return ""
        for old, new in (("run-id", "name"), ("output-name", "output_name")):
            text = text.replace(f"{{{old}}}", f"${{{{{new}}}}}")
        return f"azureml://datastores/{name or '${{default_datastore}}'}/paths/{text}"

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
            raise OpaqueValue(node)
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
            return Data(value.name or variable, value.kind)
        if isinstance(value, Data):
            return value if value.name else replace(value, name=variable)
        raise OpaqueValue(node)

    def output_of(self, node: ast.expr, statement: Statement) -> Output:
        """An output, by the name in the call that makes it, or by its variable."""
        value = self.value_or_none(node, statement)
        name = value.name if isinstance(value, Data | Output) else ""
        if not name and not isinstance(node, ast.Name):
            raise OpaqueValue(node)
        made = value if isinstance(value, Output) else Output("")
        return replace(made, name=name or getattr(node, "id", ""))

    def name_of(self, node: ast.expr, statement: Statement) -> str:
        """The name of a compute or datastore."""
        value = self.operand(self.value(node, statement))
        name = value.name if isinstance(value, NamedObject) else value
        if not isinstance(name, str) or not name.strip(":@"):
            raise OpaqueValue(node)
        return name

    def environment(
        self, node: ast.expr, statement: Statement
    ) -> tuple[str | dict[str, Any], dict[str, str]]:
        """An environment, and the environment variables that are set on it after it is made.

        It is `name:version` or `name@label`, or the v2 form of one that is built here.
        """
        name = self.name_of(node, statement)
        value = self.operand(self.value(node, statement))
        made = value if isinstance(value, NamedObject) else NamedObject(name)
        inline, is_built = dict(made.inline), made.is_built
        variables: dict[str, str] = {}
        for use in self.later_uses(node, statement):
            setting = use.path if use.how == "assign" else ()
            if setting == ("version",):
                base = name.partition("@")[0].partition(":")[0]
                name = f"{base}:{self.plain(use.value, use.statement)}"
            elif setting == ("docker", "base_image") and inline:
                inline["image"] = str(self.plain(use.value, use.statement))
            elif setting[:1] == ("environment_variables",):
                given = self.value_or_none(use.value, use.statement)
                given = {use.path[1][1:-1]: given} if len(use.path) > 1 else given
                if not isinstance(given, dict) or not _is_plain(given) or None in given.values():
                    self.ledger.by_hand("environment_variables", f"set on {short(node)}")
                    continue
                variables |= {str(key): str(item) for key, item in given.items()}
            elif use.how != "argument" and use.path[-1] not in _ENVIRONMENT_METHODS:
                is_built, inline = True, {}
        if is_built and not inline:
            base = name.partition("@")[0]
            reason = f"{base} is built in this code, and azureml:{name} is written, which v1 "
            reason += (
                "registers when it runs: check that it is there, or write image and conda_file"
            )
            self.ledger.by_hand("environment", reason)
        return inline or name, variables

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
            raise OpaqueValue(made)
        if any(is_change(use) for use in self.later_uses(node, statement)):
            raise OpaqueValue(f"{short(node)} is changed after it is made")
        return [(item, where) for item in made.elts]

    def script_arguments(self, name: str, node: ast.expr, statement: Statement) -> list[Any]:
        """Arguments of a script: values, and the data, outputs and parameters among them."""
        try:
            items = self.items(node, statement)
        except OpaqueValue:  # changed after it is made, or with other lists in it
            return list(self.value(node, statement))
        words = []
        for item, where in items:
            value = self.value_or_none(item, where)
            is_null = isinstance(item, ast.Constant) and item.value is None
            if isinstance(value, Output):
                value = self.output_of(item, where)
            elif isinstance(value, Data) and (value.kind or value.path):
                value = self.data_of(item, where)
            elif (value is None and not is_null) or isinstance(value, _OBJECTS):
                self.ledger.by_hand(name, short(item))
                value = UNSET
            words.append(value)
        return words


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


def _environment(method: str, text: Callable[..., str]) -> NamedObject:
    """`Environment.get(...)`, `Environment("name")`, `Environment.from_conda_specification(...)`."""
    if method == "get":
        keys = ("workspace", "name", "version", "label")
        version, label = text("version", *keys), text("label", *keys) or "latest"
        is_version = version and version.lower() != "latest"
        return NamedObject(text("name", *keys) + (f":{version}" if is_version else f"@{label}"))
    inline = {}
    if method == "from_conda_specification":
        inline = {"image": DEFAULT_IMAGE, "conda_file": text("file_path", "name", "file_path")}
    order = ("name", "image", "container_registry", "conda_specification", "pip_requirements")
    _, image, registry, conda, pip = order
    if method == "from_docker_image" and not text(registry, *order) and not text(pip, *order):
        inline = filled({"image": text(image, *order), "conda_file": text(conda, *order)})
    return NamedObject(f"{text('name', 'name')}@latest", is_built=True, inline=inline)


class V1Fields:
    """The fields of a v1 object; those that the code does not say are `by hand` in the ledger."""

    def __init__(self, reader: V1Values) -> None:
        self.reader = reader
        self.ledger = reader.ledger
        self.values: dict[str, Any] = {}

    def read(self, source: str, arguments: CallArguments) -> None:
        """The arguments of one call."""
        self.ledger.read(source, arguments.values)
        self.read_values(arguments.values)
        if arguments.rest:
            self.ledger.by_hand("**", arguments.rest, source)

    def read_values(self, arguments: dict[str, Bound]) -> None:
        for name, (node, statement) in arguments.items():
            try:
                value = self._value(name, node, statement)
            except OpaqueValue:
                self.ledger.by_hand(name, short(node))
                continue
            if isinstance(value, PipelineParameter):
                default = f"its default {value.default!r} is written"
                self.ledger.note(name, f"it is the PipelineParameter {value.name}: {default}")
                value = value.default
            self.values[name] = value

    def _value(self, name: str, node: ast.expr, statement: Statement) -> Any:
        reader = self.reader
        match name:
            case "environment":
                value, variables = reader.environment(node, statement)
                later = self.values.get("more_variables", {})
                self.values["more_variables"] = {**variables, **later}
                return value
            case "compute_target":
                return reader.name_of(node, statement)
            case "inputs" | "side_inputs":
                return [reader.data_of(*item) for item in reader.items(node, statement)]
            case "output":
                return reader.output_of(node, statement)
            case "arguments" | "script" | "command":
                return reader.script_arguments(name, node, statement)
        return reader.plain(node, statement)


@dataclass
class Ports:
    """The inputs and outputs of one v2 job by their names, in order."""

    data: dict[str, Data] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Output] = field(default_factory=dict)

    def add_data(self, item: Data) -> str:
        name = legal_name(item.name or "data")
        if name not in self.data or (item.path and not self.data[name].path):
            self.data[name] = item
        return name

    def add_output(self, item: Output) -> str:
        name = legal_name(item.name)
        self.outputs.setdefault(name, item)
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
        return shlex.quote(str(item))

    def job_inputs(self) -> dict[str, Any]:
        return {**{name: item.job_input() for name, item in self.data.items()}, **self.parameters}

    def report(self, ledger: Ledger) -> None:
        """What has to be done about the inputs before the job is submitted."""
        for name, item in self.data.items():
            words = []
            if not item.path:
                words.append("set a path before the job is submitted")
            if not item.path and item.kind == "table":
                words.append("v2 reads tables from an MLTable, which replaces Dataset.Tabular")
            if not item.kind:
                hint = "a tabular dataset is an mltable with the mode direct"
                words.append(f"the code does not say what it is, so it is taken for files; {hint}")
            if words:
                ledger.by_hand(f"inputs.{name}", "; ".join(words))
