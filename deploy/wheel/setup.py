"""Metadata is in pyproject.toml. build_wheels.py has put the programs into packhouse_server/bin."""

import pathlib

from setuptools import Distribution, setup
from wheel.bdist_wheel import bdist_wheel


class ProgramsDistribution(Distribution):
    """Of one kind of machine, though nothing is compiled here."""

    def has_ext_modules(self):
        return True


class ProgramsWheel(bdist_wheel):
    """For each Python 3 of that kind of machine."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(
    version=pathlib.Path("VERSION").read_text(encoding="utf-8").strip(),
    distclass=ProgramsDistribution,
    cmdclass={"bdist_wheel": ProgramsWheel},
)
