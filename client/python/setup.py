"""Generates packhouse.v1 from the protos while building; metadata is in pyproject.toml."""

import pathlib
import shutil
import subprocess

from setuptools import setup
from setuptools.command.build_py import build_py

_PROTO_ROOT = pathlib.Path(__file__).resolve().parent.parent.parent / "proto"


class BuildWithProtos(build_py):
    """Copies the sources, then writes the generated modules beside the copies."""

    def run(self) -> None:
        super().run()
        self.generate()

    def generate(self) -> None:
        protos = sorted((_PROTO_ROOT / "packhouse" / "v1").glob("*.proto"))
        if not protos:
            raise SystemExit(f"setup.py: no protos in {_PROTO_ROOT}: build inside the repository")
        programs = {}
        for program in ("protoc", "grpc_python_plugin"):
            programs[program] = shutil.which(program)
            if programs[program] is None:
                raise SystemExit(f"setup.py: no {program} on PATH")
        subprocess.run(
            [
                programs["protoc"],
                f"-I{_PROTO_ROOT}",
                f"--plugin=protoc-gen-grpc={programs['grpc_python_plugin']}",
                f"--python_out={self.build_lib}",
                f"--grpc_out={self.build_lib}",
                *map(str, protos),
            ],
            check=True,
        )
        (pathlib.Path(self.build_lib) / "packhouse" / "v1" / "__init__.py").write_text(
            '"""Generated messages and stubs of packhouse.v1."""\n'
        )


setup(
    packages=["packhouse", "packhouse.datasets", "packhouse.demo", "packhouse.dialects"],
    package_data={"packhouse": ["py.typed"]},
    # Otherwise a build writes packhouse.egg-info beside the sources.
    include_package_data=False,
    cmdclass={"build_py": BuildWithProtos},
)
