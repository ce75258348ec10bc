"""The `environment` of a v1.5 spec as that of v2."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from arc_toolkit.azureml.migrate.legacy_spec import LegacySpec, ReadFile, parse_spec, read_or_none

# Where a v1.5 spec names no image: AMLARC needs Ubuntu 20.04 or later (migration note), and this one carries MPI.
DEFAULT_IMAGE = "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu20.04:latest"
# For `pip_requirements_file`, which names no Python.
DEFAULT_PYTHON = "python=3.10"


@dataclass
class ConvertedEnvironment:
    """The v2 value (a name, or a mapping), files to write for it, and text that tells which packages it has."""

    value: str | dict[str, Any]
    new_files: dict[str, str] = field(default_factory=dict)
    text: str = ""

    def moved(self, move: Callable[[str], str]) -> str | dict[str, Any]:
        """The value for a file in another folder: `move` takes a path beside the spec to one beside that file."""
        if isinstance(self.value, str):
            return self.value
        out = dict(self.value)
        if "build" in out:
            out["build"] = {**out["build"], "path": move(out["build"]["path"])}
        if isinstance(out.get("conda_file"), str):
            out["conda_file"] = move(out["conda_file"])
        return out


def convert_environment(
    spec: LegacySpec, read_file: ReadFile, includes: list[str], dockerfile: str
) -> ConvertedEnvironment:
    """`includes` are the paths of its additional includes; `dockerfile` is the name for an inline Dockerfile."""
    reference = spec.data.get("environment")
    if isinstance(reference, str):
        name = reference if reference.startswith("azureml:") else f"azureml:{reference}@latest"
        return ConvertedEnvironment(name)
    section = spec.mapping("environment")
    if section.get("name"):
        version = section.get("version")
        spec.warn_unknown(section, ("name", "version", "os"), "environment")
        return ConvertedEnvironment(f"azureml:{section['name']}{f':{version}' if version else '@latest'}")
    docker = spec.mapping("environment", "docker")
    conda = spec.mapping("environment", "conda")
    build = spec.mapping("environment", "docker", "build")
    spec.warn_unknown(section, ("docker", "conda", "os", "version"), "environment")
    spec.warn_unknown(docker, ("image", "build"), "environment", "docker")
    if str(section.get("os", "linux")).lower() != "linux":
        message = f"environment.os {section['os']}: AMLARC runs Linux only; linux is written"
        spec.warn(message, "environment", "os")

    value: dict[str, Any] = {}
    result = ConvertedEnvironment(value)
    folder = posixpath.dirname(spec.path)
    if build.get("dockerfile"):
        value["build"] = _build(spec, str(build["dockerfile"]), folder, read_file, includes, dockerfile, result)
    else:
        value["image"] = docker.get("image") or DEFAULT_IMAGE
        result.text = str(value["image"])
        if not docker.get("image"):
            spec.warn(f"the environment names no image; {DEFAULT_IMAGE} is written: check it", "environment")
    dependencies = _conda(spec, conda, folder, read_file, result)
    if dependencies is not None and "build" in value:
        spec.warn(
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
            spec.note(message, "environment", "conda", "pip_requirements_file")
    value["os_type"] = "linux"
    return result


def _build(
    spec: LegacySpec,
    dockerfile: str,
    folder: str,
    read_file: ReadFile,
    includes: list[str],
    name: str,
    result: ConvertedEnvironment,
) -> dict[str, str]:
    if "\n" in dockerfile.strip():
        result.new_files[posixpath.join(folder, name)] = dockerfile
        result.text = dockerfile
        return {"path": ".", "dockerfile_path": name}
    path = dockerfile.removeprefix("file:")
    data = read_or_none(read_file, posixpath.join(folder, path))
    if data is None:
        # v1.5 looks after the additional includes are copied in; v2 looks beside the spec.
        for include in includes:
            if posixpath.basename(include) == posixpath.basename(path):
                path, data = include, read_or_none(read_file, posixpath.join(folder, include))
    if data is None:
        message = f"the Dockerfile {path} is not beside the spec: put it there or fix build.path"
        spec.warn(message, "environment", "docker", "build", "dockerfile")
    else:
        result.text = data.decode("utf-8", "replace")
    return {"path": posixpath.dirname(path) or ".", "dockerfile_path": posixpath.basename(path)}


def _conda(
    spec: LegacySpec, conda: dict[str, Any], folder: str, read_file: ReadFile, result: ConvertedEnvironment
) -> Any:
    """A path, or the dependencies themselves; None where there are none."""
    known = ("conda_dependencies", "conda_dependencies_file", "pip_requirements_file", "userManagedDependencies")
    spec.warn_unknown(conda, (*known, "user_managed_dependencies"), "environment", "conda")
    if inline := conda.get("conda_dependencies"):
        result.text += f"\n{inline}"
        return inline
    for key in ("conda_dependencies_file", "pip_requirements_file"):
        if not conda.get(key):
            continue
        path = str(conda[key]).removeprefix("file:")
        data = read_or_none(read_file, posixpath.join(folder, path))
        if data is None:
            raise spec.refuse(
                f"environment.conda.{key} {path} cannot be read: fix the path", "environment", "conda"
            )
        result.text += "\n" + data.decode("utf-8", "replace")
        if key == "conda_dependencies_file":
            parse_spec(posixpath.join(folder, path), data)
            return path
        lines = [line.split(" #")[0].strip() for line in data.decode("utf-8", "replace").splitlines()]
        packages = [line for line in lines if line and not line.startswith("#")]
        return {"name": "project", "dependencies": [DEFAULT_PYTHON, "pip", {"pip": packages}]}
    return None
