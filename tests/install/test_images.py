"""The container and the conda package: linted, and held against the project they are made of.

An image is built where there is a Docker (slow). Everywhere else its instructions are checked here
and by hadolint; that commands run as another user on a read-only file system is `tests/cli/
test_container.py`'s.
"""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sfumato.model.extras import EXTRAS

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
tools = SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "hashes.py")))
RECIPE: dict[str, Any] = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text())
CONDA = {
    "duckdb": "python-duckdb",
    "geopandas": "geopandas-base",
    "tzdata": "python-tzdata",
    "h3": "h3-py",
    "matplotlib": "matplotlib-base",
    "confluent-kafka": "python-confluent-kafka",
}
"""Packages whose name at conda-forge is another."""


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's, with continued lines joined."""
    text = (ROOT / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(a, b.strip()) for a, _, b in (line.partition(" ") for line in joined.split("\n")) if a]


def said(word: str) -> list[str]:
    return [rest for name, rest in instructions() if name == word]


def test_a_linter_finds_no_fault() -> None:
    linter = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin")
    if linter is None:
        pytest.skip("hadolint is not installed here; make test brings it on Linux")
    done = subprocess.run([linter, ROOT / "Dockerfile"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_image_runs_as_nobody_in_particular() -> None:
    words = [name for name, _ in instructions()]
    assert said("USER") == ["10001:10001"]
    assert words.index("USER") > max(k for k, name in enumerate(words) if name in ("RUN", "COPY"))
    assert said("ENTRYPOINT") == ['["sfumato"]'], "a command, not a shell"
    assert "ADD" not in words


def test_what_is_written_has_a_volume_and_compiled_code_is_there_before() -> None:
    held = re.findall(r'"(/[^"]+)"', " ".join(said("VOLUME")))
    run = " ".join(said("RUN"))
    assert "sfumato doctor --warm" in run
    for folder in held:
        assert re.search(rf"chown 10001:10001[^&]* {folder}\b", run), folder
        assert re.search(rf"mkdir --mode 0700[^&]* {folder}\b", run), folder
    settings = dict(re.findall(r"(\w+)=(\S+)", " ".join(said("ENV"))))
    assert {settings["HOME"], settings["XDG_DATA_HOME"]} <= set(held)
    assert settings["PYTHONDONTWRITEBYTECODE"] == "1"
    assert said("WORKDIR")[-1] in held


def test_it_is_built_from_a_named_python_and_from_files_that_are_let_in() -> None:
    least = PROJECT["project"]["requires-python"].removeprefix(">=")
    for base in said("FROM"):
        image, _, tag = base.split(" ")[0].partition(":")
        version = re.match(r"(\d+)\.(\d+)-slim", tag)
        assert image == "python"
        assert version, "a tag that names its version"
        assert re.search(r"@sha256:[0-9a-f]{64}$", base.split(" ")[0]), "and the image by digest"
        assert tuple(map(int, version.groups())) >= tuple(map(int, least.split(".")))
    ignored = (ROOT / ".dockerignore").read_text().split("\n")
    let_in = {line[1:] for line in ignored if line.startswith("!")}
    assert "*" in ignored, "nothing but what is named: no data, no ledger"
    copied = {
        name
        for line in said("COPY")
        if "--from" not in line
        for name in shlex.split(line)[:-1]
    }  # fmt: skip
    assert copied == let_in
    assert all((ROOT / name).exists() for name in copied)
    backend = {PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]}
    assert backend <= copied, "what the wheel is built from"
    assert len({base.split(" ")[0] for base in said("FROM")}) == 1
    installed = [line for line in said("RUN") if "pip install" in line]
    assert all("--no-cache-dir" in line for line in installed)
    packages, project = installed
    assert {"--require-hashes", "--only-binary"} <= set(packages.split())
    assert {"--no-index", "--no-deps", "--no-build-isolation"} <= set(project.split())


def pinned(name: str) -> dict[str, tuple[str, int]]:
    """Version and number of digests of every package in one of the image's lists."""
    text = (ROOT / "requirements" / name).read_text().replace("\\\n", " ")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", h) for line in lines for h in line[1:])
    pairs = ((line[0].partition("=="), len(line) - 1) for line in lines)
    return {package: (version, digests) for (package, _, version), digests in pairs}


@pytest.mark.parametrize("name", tools.FILES)
def test_packages_of_the_image_are_those_of_the_constraints_and_all_that_they_need(
    name: str,
) -> None:
    lines = (ROOT / "constraints.txt").read_text().split()
    versions = {canonicalize_name(a): b for a, _, b in (line.partition("==") for line in lines)}
    held = pinned(name)
    assert all(digests >= 1 for _, digests in held.values())
    assert {package: version for package, (version, _) in held.items()}.items() <= versions.items()
    there = {"python_version": "3.13", "python_full_version": "3.13.0", "sys_platform": "linux"}
    todo, known = [Requirement(line) for line in tools.asked_for(tools.FILES[name])], set()
    while todo:
        one = todo.pop()
        package = canonicalize_name(one.name)
        assert package in held, f"{package} is needed and not named: run tools/hashes.py"
        if (package, frozenset(one.extras)) in known:
            continue
        known.add((package, frozenset(one.extras)))
        for text in distribution(package).requires or ():
            needed = Requirement(text)
            extras = [there | {"extra": extra} for extra in ("", *one.extras)]
            if needed.marker is None or any(map(needed.marker.evaluate, extras)):
                todo.append(needed)
    assert {package for package, _ in known} == set(held), "nothing is there that nobody needs"


@pytest.mark.slow
def test_the_image_is_built_and_runs_read_only() -> None:
    if (
        not shutil.which("docker")
        or subprocess.run(["docker", "info"], capture_output=True).returncode
    ):
        pytest.skip("there is no Docker here")
    subprocess.run(["docker", "build", "--quiet", "--tag", "sfumato-test", ROOT], check=True)
    hard = ["--read-only", "--tmpfs", "/tmp", "--network", "none", "--cap-drop", "ALL"]
    for words in (["--version"], ["doctor"], ["city", "--users", "1200", "--out", "town"]):
        done = subprocess.run(
            ["docker", "run", "--rm", *hard, "--security-opt", "no-new-privileges", "sfumato-test",
             *words],
            capture_output=True,
            text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


def requirement(line: str) -> tuple[str, str]:
    """Name at conda-forge, and the least version."""
    found = re.match(r"([\w.-]+)(?:\[[^]]*\])?(?:>=([\w.]+))?", line)
    assert found, line
    name = found[1].lower().replace("_", "-")
    return CONDA.get(name, name), found[2] or ""


def conda(lines: list[str]) -> dict[str, str]:
    parted = (line.partition(" ") for line in lines)
    return {name: version.removeprefix(">=") for name, _, version in parted}


def test_the_recipe_asks_for_what_the_project_asks_for() -> None:
    project, needs = PROJECT["project"], RECIPE["requirements"]
    assert RECIPE["context"]["version"] == project["version"]
    assert f">={RECIPE['context']['python_min']}" == project["requires-python"]
    assert RECIPE["about"]["summary"] == project["description"]
    assert RECIPE["about"]["license"] == project["license"]
    run = conda(needs["run"])
    assert run.pop("python") == "${{ python_min }}"
    assert run == dict(map(requirement, project["dependencies"]))
    (backend,) = map(requirement, PROJECT["build-system"]["requires"])
    assert conda(needs["host"])[backend[0]] == backend[1]
    held = project["optional-dependencies"]
    extras = [line for extra in EXTRAS if extra != "rnn" for line in held[extra]]
    assert conda(needs["run_constraints"]) == dict(map(requirement, extras))
    (entry,) = RECIPE["build"]["python"]["entry_points"]
    assert dict([entry.split(" = ")]) == project["scripts"]
    assert (ROOT / "recipe" / RECIPE["source"]["path"]).resolve() == ROOT
