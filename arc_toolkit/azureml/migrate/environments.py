"""The `environment` of a v1.5 spec as that of v2, with its paths moved to where they are read from."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from arc_toolkit.azureml.migrate.legacy_source import Read, Source, parse, read_or_none
from arc_toolkit.azureml.migrate.space import Tell

# Where a v1.5 spec names no image: AMLARC needs Ubuntu 20.04 or later (migration note), and this one carries MPI.
DEFAULT_IMAGE = "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu20.04:latest"
# For `pip_requirements_file`, which names no Python.
DEFAULT_PYTHON = "python=3.10"

Move = Callable[[str], str]


@dataclass
class Environment:
    """The v2 value (a name, or a mapping), files to write for it, and text that tells which packages it has."""

    value: str | dict[str, Any]
    new_files: dict[str, str] = field(default_factory=dict)
    text: str = ""


def convert(
    source: Source, read: Read, move: Move, includes: list[str], dockerfile: str, tell: Tell
) -> Environment:
    """`move` takes a path relative to the spec's folder to one that holds where the v2 text will stand.

    `dockerfile` is the name for a Dockerfile that the spec holds inline.
    """
    given = source.data.get("environment")
    if isinstance(given, str):
        return Environment(given if given.startswith(("azureml:", "azureml://")) else f"azureml:{given}@latest")
    section = source.mapping("environment")
    folder = posixpath.dirname(source.path)
    if section.get("name"):
        version = section.get("version")
        _unknown(section, ("name", "version", "os"), "environment", tell)
        return Environment(f"azureml:{section['name']}{f':{version}' if version else '@latest'}")
    docker = _mapping(source, section, "docker")
    conda = _mapping(source, section, "conda")
    build = _mapping(source, docker, "build", "docker")
    _unknown(section, ("docker", "conda", "os", "version"), "environment", tell)
    _unknown(docker, ("image", "build"), "environment.docker", tell)
    if str(section.get("os", "linux")).lower() != "linux":
        tell(
            "warning",
            f"environment.os {section['os']}: AMLARC runs Linux only; linux is written",
            "environment",
            "os",
        )

    result = Environment({})
    value: dict[str, Any] = {}
    if build.get("dockerfile"):
        value["build"] = _build(str(build["dockerfile"]), folder, read, move, includes, dockerfile, result, tell)
    else:
        value["image"] = docker.get("image") or DEFAULT_IMAGE
        result.text = str(value["image"])
        if not docker.get("image"):
            tell("warning", f"the environment names no image; {DEFAULT_IMAGE} is written: check it", "environment")
    dependencies = _conda(source, conda, folder, read, move, result, tell)
    if dependencies is not None and "build" in value:
        tell(
            "warning",
            "environment.conda beside a Dockerfile has no place in v2: install its packages in the Dockerfile",
            "environment",
            "conda",
        )
    elif dependencies is not None:
        value["conda_file"] = dependencies
        if isinstance(dependencies, dict) and not conda.get("conda_dependencies"):
            path = str(conda["pip_requirements_file"]).removeprefix("file:")
            message = (
                f"v2 has no pip requirements file: the packages of {path} are written out, with {DEFAULT_PYTHON}"
            )
            tell("note", message, "environment", "conda", "pip_requirements_file")
    value["os_type"] = "linux"
    result.value = value
    return result


def _build(
    given: str,
    folder: str,
    read: Read,
    move: Move,
    includes: list[str],
    name: str,
    result: Environment,
    tell: Tell,
) -> dict[str, str]:
    at = ("environment", "docker", "build", "dockerfile")
    if "\n" in given.strip():
        result.new_files[posixpath.join(folder, name)] = given
        result.text = given
        return {"path": move("."), "dockerfile_path": name}
    path = given.removeprefix("file:")
    data = read_or_none(read, posixpath.join(folder, path))
    if data is None:
        # v1.5 looks after the additional includes are copied in; v2 looks beside the spec.
        for include in includes:
            if posixpath.basename(include) == posixpath.basename(path):
                path, data = include, read_or_none(read, posixpath.join(folder, include))
    if data is None:
        tell("warning", f"the Dockerfile {path} is not beside the spec: put it there or mend build.path", *at)
    else:
        result.text = data.decode("utf-8", "replace")
    return {"path": move(posixpath.dirname(path) or "."), "dockerfile_path": posixpath.basename(path)}


def _conda(
    source: Source, conda: dict[str, Any], folder: str, read: Read, move: Move, result: Environment, tell: Tell
) -> Any:
    """A path, or the dependencies themselves; None where there are none."""
    known = ("conda_dependencies", "conda_dependencies_file", "pip_requirements_file", "userManagedDependencies")
    _unknown(conda, (*known, "user_managed_dependencies"), "environment.conda", tell)
    if inline := conda.get("conda_dependencies"):
        result.text += f"\n{inline}"
        return inline
    for key in ("conda_dependencies_file", "pip_requirements_file"):
        if not conda.get(key):
            continue
        path = str(conda[key]).removeprefix("file:")
        data = read_or_none(read, posixpath.join(folder, path))
        if data is None:
            raise source.refuse(
                f"environment.conda.{key} {path} cannot be read: mend the path", "environment", "conda"
            )
        result.text += "\n" + data.decode("utf-8", "replace")
        if key == "conda_dependencies_file":
            parse(posixpath.join(folder, path), data)
            return move(path)
        lines = [line.split(" #")[0].strip() for line in data.decode("utf-8", "replace").splitlines()]
        packages = [line for line in lines if line and not line.startswith("#")]
        return {"name": "project", "dependencies": [DEFAULT_PYTHON, "pip", {"pip": packages}]}
    return None


def _mapping(source: Source, parent: dict[str, Any], key: str, *above: str) -> dict[str, Any]:
    value = parent.get(key)
    if value is not None and not isinstance(value, dict):
        where = ".".join(("environment", *above, key))
        raise source.refuse(f"{where} is not a mapping: write its settings below it", "environment", *above, key)
    return value or {}


def _unknown(given: dict[str, Any], known: tuple[str, ...], section: str, tell: Tell) -> None:
    for key in given:
        if key not in known:
            tell(
                "warning", f"{section}.{key} has no equivalent in v2 and is not written", *section.split("."), key
            )
