"""The environment of a v1.5 spec as that of v2."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from arc_toolkit.migrate.legacy_spec import LegacySpec, ReadFile, parse_spec, read_or_none

# For a spec without an image: AMLARC needs Ubuntu 20.04 or later, and this one carries MPI.
DEFAULT_IMAGE = "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu20.04:latest"
# For `pip_requirements_file`, which names no Python.
DEFAULT_PYTHON = "python=3.10"
_CONDA_KEYS = (
    *("conda_dependencies", "conda_dependencies_file", "pip_requirements_file"),
    *("userManagedDependencies", "user_managed_dependencies"),
)


@dataclass
class ConvertedEnvironment:
    """The v2 value (a name, or a mapping), its new files, and text that names its packages."""

    value: str | dict[str, Any]
    new_files: dict[str, str] = field(default_factory=dict)
    text: str = ""

    def moved(self, move: Callable[[str], str]) -> str | dict[str, Any]:
        """The value for a file elsewhere; `move` makes a path beside the spec one beside it."""
        if isinstance(self.value, str):
            return self.value
        value = dict(self.value)
        if "build" in value:
            value["build"] = {**value["build"], "path": move(value["build"]["path"])}
        if isinstance(value.get("conda_file"), str):
            value["conda_file"] = move(value["conda_file"])
        return value


def convert_environment(
    spec: LegacySpec, read_file: ReadFile, includes: list[str], dockerfile: str
) -> ConvertedEnvironment:
    """`includes` are its additional includes; `dockerfile` is the name for an inline Dockerfile."""
    reference = spec.data.get("environment")
    if isinstance(reference, str):
        is_asset = reference.startswith("azureml:")
        return ConvertedEnvironment(reference if is_asset else f"azureml:{reference}@latest")
    section = spec.mapping("environment")
    if section.get("name"):
        version = section.get("version")
        spec.warn_unknown(section, ("name", "version", "os"), "environment")
        label = f":{version}" if version else "@latest"
        return ConvertedEnvironment(f"azureml:{section['name']}{label}")
    docker = spec.mapping("environment", "docker")
    conda = spec.mapping("environment", "conda")
    build = spec.mapping("environment", "docker", "build")
    spec.warn_unknown(section, ("docker", "conda", "os", "version"), "environment")
    spec.warn_unknown(docker, ("image", "build"), "environment", "docker")
    spec.warn_unknown(conda, _CONDA_KEYS, "environment", "conda")
    if str(section.get("os", "linux")).lower() != "linux":
        message = f"environment.os {section['os']}: AMLARC runs Linux only; linux is written"
        spec.warn(message, "environment", "os")
    value: dict[str, Any] = {}
    result = ConvertedEnvironment(value)
    if build.get("dockerfile"):
        text = str(build["dockerfile"])
        value["build"] = _build(spec, text, read_file, includes, dockerfile, result)
    else:
        value["image"] = docker.get("image") or DEFAULT_IMAGE
        result.text = str(value["image"])
        if not docker.get("image"):
            message = f"the environment names no image; {DEFAULT_IMAGE} is written: check it"
            spec.warn(message, "environment")
    packages = _packages(spec, conda, read_file, result)
    if packages is not None and "build" in value:
        message = "environment.conda beside a Dockerfile has no place in v2"
        hint = "install its packages in the Dockerfile"
        spec.warn(f"{message}: {hint}", "environment", "conda")
    elif packages is not None:
        value["conda_file"] = packages
        if isinstance(packages, dict) and not conda.get("conda_dependencies"):
            path = str(conda["pip_requirements_file"]).removeprefix("file:")
            spec.note(
                f"v2 has no pip requirements file: the packages of {path} are written out, "
                f"with {DEFAULT_PYTHON}",
                *("environment", "conda", "pip_requirements_file"),
            )
    value["os_type"] = "linux"
    return result


def _build(
    spec: LegacySpec,
    dockerfile: str,
    read_file: ReadFile,
    includes: list[str],
    name: str,
    result: ConvertedEnvironment,
) -> dict[str, str]:
    folder = posixpath.dirname(spec.path)
    if "\n" in dockerfile.strip():
        result.new_files[posixpath.join(folder, name)] = result.text = dockerfile
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
    result.text = (data or b"").decode("utf-8", "replace")
    return {"path": posixpath.dirname(path) or ".", "dockerfile_path": posixpath.basename(path)}


def _packages(
    spec: LegacySpec, conda: dict[str, Any], read_file: ReadFile, result: ConvertedEnvironment
) -> Any:
    """A path, or the dependencies themselves; None without any."""
    if inline := conda.get("conda_dependencies"):
        result.text += f"\n{inline}"
        return inline
    for key in ("conda_dependencies_file", "pip_requirements_file"):
        if not conda.get(key):
            continue
        path = str(conda[key]).removeprefix("file:")
        full_path = posixpath.join(posixpath.dirname(spec.path), path)
        data = read_or_none(read_file, full_path)
        if data is None:
            reason = f"environment.conda.{key} {path} cannot be read: fix the path"
            raise spec.refuse(reason, "environment", "conda")
        text = data.decode("utf-8", "replace")
        result.text += "\n" + text
        if key == "conda_dependencies_file":
            parse_spec(full_path, data)
            return path
        lines = [line.split(" #")[0].strip() for line in text.splitlines()]
        packages = [line for line in lines if line and not line.startswith("#")]
        return {"name": "project", "dependencies": [DEFAULT_PYTHON, "pip", {"pip": packages}]}
    return None
