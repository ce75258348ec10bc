"""Datasets and outputs that code of SDK v1 gives to its steps: their names, kinds and paths as v2 calls them."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import Any, Literal

from arc_toolkit.edit.code.expressions import last_name, short
from arc_toolkit.edit.code.names import Statement
from arc_toolkit.migrate.v1_values import DEEPEST, NotPlain, V1Values, arguments


@dataclass(frozen=True)
class Data:
    """A dataset, or the output of another step, that is an input. `path` is what v2 calls it, where that is known."""

    name: str = ""
    kind: Literal["file", "table", ""] = ""
    path: str = ""
    # A dataset of SDK v1 that is registered: v2 sees it as an mltable.
    registered: bool = False
    download: bool = False

    def with_name(self, name: str) -> Data:
        return self if self.name else replace(self, name=name)


@dataclass(frozen=True)
class Output:
    """PipelineData, OutputFileDatasetConfig and the like."""

    name: str


# What makes an output of a step.
_OUTPUTS = frozenset(
    {
        "PipelineData",
        "OutputFileDatasetConfig",
        "OutputTabularDatasetConfig",
        "HDFSOutputDatasetConfig",
    }
)
# Methods of an OutputFileDatasetConfig that give it back.
_STAYS_OUTPUT = frozenset({"register_on_complete", "as_upload", "as_mount"})


class V1Data(V1Values):
    """Reads values, datasets and outputs in one module."""

    def output(self, node: ast.expr, statement: Statement) -> Output:
        """An output, by the name in the call that makes it, or else by that of its variable."""
        made, where = self.follow(node, statement)
        variable = node.id if isinstance(node, ast.Name) else ""
        while (
            isinstance(made, ast.Call)
            and isinstance(made.func, ast.Attribute)
            and (last_name(made.func)[:3] == "as_" or last_name(made.func) in _STAYS_OUTPUT)
        ):
            made, where = self.follow(made.func.value, where)
        try:
            return Output(self.named(made, where))
        except NotPlain:
            if variable:
                return Output(variable)
            raise

    def is_output(self, node: ast.expr, statement: Statement) -> bool:
        made, where = self.follow(node, statement)
        outputs = _OUTPUTS
        while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute):
            if last_name(made.func) not in _STAYS_OUTPUT:
                break
            made, where = self.follow(made.func.value, where)
            outputs = _OUTPUTS - {"PipelineData"}  # of which as_mount makes an input
        return isinstance(made, ast.Call) and last_name(made.func) in outputs

    def data(self, node: ast.expr, statement: Statement, depth: int = 0) -> Data:
        """A dataset or an output of another step; its name is that of the input."""
        if depth > DEEPEST:
            raise NotPlain("it is defined in a circle")
        match node:
            case ast.Name():
                ways = [
                    self._bound_data(item.value, item.statement, depth + 1)
                    for item in self.bindings(node.id, statement)
                    if isinstance(item.value, ast.expr)
                ]
                return _merged(ways or [Data()]).with_name(node.id)
            case ast.Subscript(value=ast.Attribute(attr="datasets"), slice=key):
                return self._registered(self.plain(key, statement, depth + 1))
            case ast.Call():
                return self._made_data(node, statement, depth)
        raise NotPlain(f"it is {short(node)}")

    def _bound_data(self, node: ast.expr, statement: Statement, depth: int) -> Data:
        try:
            return self.data(node, statement, depth)
        except NotPlain:  # made elsewhere: of it only the name of its variable is known
            return Data()

    def is_data(self, node: ast.expr, statement: Statement) -> bool:
        """Whether an argument is a dataset for certain."""
        try:
            data = self.data(node, statement)
        except NotPlain:
            return False
        return bool(data.kind or data.path)

    def _made_data(self, call: ast.Call, statement: Statement, depth: int) -> Data:
        name = last_name(call.func)
        over = call.func.value if isinstance(call.func, ast.Attribute) else None

        def text(key: str, *order: str) -> str:
            return self.text(arguments(call, order, statement).values, key)

        def base() -> Data:
            if over is None:
                raise NotPlain(f"it is {short(call)}")
            return self.data(over, statement, depth + 1)

        match name:
            case "as_named_input" | "as_input":
                return replace(base(), name=text("name", "name"))
            case "as_mount" | "as_download":  # of files only
                data = base()
                return replace(data, kind=data.kind or "file", download=name == "as_download")
            case "as_direct" | "as_hdfs":
                return base()
            case "register":
                data = base()
                return replace(
                    self._registered(text("name", "workspace", "name")),
                    name=data.name,
                    kind=data.kind,
                )
            case "get_by_name":
                return self._registered(
                    text("name", "workspace", "name", "version"),
                    text("version", "workspace", "name", "version"),
                )
            case "get" if isinstance(over, ast.Attribute) and over.attr == "datasets":
                return self._registered(text("name", "name"))
            case "DatasetConsumptionConfig" | "PipelineParameter":
                order = (
                    ("name", "dataset") if name.startswith("Data") else ("name", "default_value")
                )
                given = arguments(call, order, statement).values
                data = self.data(*given[order[1]], depth + 1) if order[1] in given else Data()
                own = self.text(given, "name") if name.startswith("Data") else data.name
                return replace(data, name=own)
        if name in _OUTPUTS:
            return Data(self.output(call, statement).name, "file")
        if isinstance(over, ast.Attribute) and over.attr in ("File", "Tabular"):
            return (
                Data(kind="file", path=self._path(call, statement))
                if over.attr == "File"
                else Data(kind="table")
            )
        if name.startswith(("read_", "parse_")):  # of an output: a table of its files
            return replace(base(), kind="table", path="")
        data = base()  # dataset.partition_by(...) and the like: of the same kind, elsewhere
        return replace(data, path="", registered=False)

    def _registered(self, name: Any, version: str = "") -> Data:
        known = version and version.lower() != "latest"
        return Data(
            path=f"azureml:{name}:{version}" if known else f"azureml:{name}@latest", registered=True
        )

    def _path(self, call: ast.Call, statement: Statement) -> str:
        """The path of `Dataset.File.from_files`, if it is one URL or a path on a datastore whose name is known."""
        given = arguments(call, ("path",), statement).values
        if "path" not in given:
            return ""
        try:
            made, where = self.follow(*given["path"])
            if isinstance(made, ast.List) and len(made.elts) == 1:
                made, where = self.follow(made.elts[0], where)
            pair = made.elts if isinstance(made, ast.Tuple) and len(made.elts) == 2 else None
            if (
                isinstance(made, ast.Call)
                and isinstance(made.func, ast.Attribute)
                and last_name(made.func) == "path"
            ):
                pair = [made.func.value, *made.args[:1]]
            if pair is not None and len(pair) == 2:
                inside = str(self.plain(pair[1], where)).strip("/")
                path = f"azureml://datastores/{self._datastore(pair[0], where)}/paths/{inside}"
            else:
                plain = self.plain(made, where)
                path = plain if isinstance(plain, str) else ""
        except NotPlain:
            return ""
        return path if "://" in path and "*" not in path else ""

    def _datastore(self, node: ast.expr, statement: Statement) -> str:
        made, where = self.follow(node, statement)
        if isinstance(made, ast.Call):
            given = arguments(made, ("workspace", "datastore_name"), where).values
            for key in ("datastore_name", "name"):
                if key in given:
                    return str(self.plain(*given[key]))
        return self.named(made, where)


def _merged(ways: list[Data]) -> Data:
    """What all of several ways to make a dataset have in common; a path that only one of them has is taken."""
    first = ways[0]
    for other in ways[1:]:
        same_path = first.path == other.path or not (first.path and other.path)
        first = Data(
            first.name if first.name == other.name else "",
            first.kind if first.kind == other.kind else "",
            (first.path or other.path) if same_path else "",
            same_path and (first.registered or other.registered),
            first.download or other.download,
        )
    return first
