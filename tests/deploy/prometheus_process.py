"""A real Prometheus, for tests."""

from __future__ import annotations

import json
import pathlib
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any


class PrometheusProcess:
    """A Prometheus with the configuration `prometheus.yml` of a folder, for a `with` block."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder

    def __enter__(self) -> PrometheusProcess:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._address = f"127.0.0.1:{free.getsockname()[1]}"
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={self._folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={self._folder / 'tsdb'}",
                    f"--web.listen-address={self._address}",
                    "--enable-feature=exemplar-storage",
                ],
                stdout=log,
                stderr=log,
            )
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._process.kill()
        self._process.wait()

    def log(self) -> str:
        """What it has written."""
        return (self._folder / "log").read_text(encoding="utf-8")

    def _get(self, path: str, **words: object) -> list[dict[str, Any]] | None:
        """None as long as it does not listen. Raises AssertionError for a query that it refuses."""
        query = urllib.parse.urlencode({name: str(word) for name, word in words.items()})
        assert self._process.poll() is None, self.log()
        try:
            with urllib.request.urlopen(f"http://{self._address}{path}?{query}") as response:
                found: list[dict[str, Any]] = json.load(response)["data"]["result"]
                return found
        except urllib.error.HTTPError as error:
            # 503 while it starts.
            assert error.code == 503, f"{words}: {error.read().decode()}"
            return None
        except OSError:
            return None

    def query(self, query: str) -> list[dict[str, Any]]:
        """What an instant query gives now; nothing as long as Prometheus does not listen."""
        return self._get("/api/v1/query", query=query) or []

    def query_range(self, query: str, begin: float, end: float, step: float) -> list[Any]:
        """The series of a query from one time to another, as Grafana asks for them."""
        return self._get("/api/v1/query_range", query=query, start=begin, end=end, step=step) or []

    def exemplars(self, query: str, begin: float, end: float) -> list[dict[str, Any]]:
        """What the series of a query have as exemplars."""
        words = urllib.parse.urlencode({"query": query, "start": begin, "end": end})
        with urllib.request.urlopen(f"http://{self._address}/api/v1/query_exemplars?{words}") as got:
            series: list[dict[str, Any]] = json.load(got)["data"]
        return [each for one in series for each in one["exemplars"]]

    def await_samples(self, query: str, within: float = 30.0) -> list[dict[str, Any]]:
        """What an instant query gives, once it gives anything."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            if samples := self.query(query):
                return samples
        raise AssertionError(f"no samples of {query}: {self.log()}")
