"""A run directory: its tables and analyses."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any, Iterator, Optional

from . import _belljar
from ._command import MissingFileError, PathLike, call, told


class Run:
    """A run directory or a trace file. Files are read on demand."""

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        if not self.path.exists():
            raise FileNotFoundError(f"there is no run directory and no trace at {self.path}")

    def __repr__(self) -> str:
        return f"<belljar.Run {self.path}>"

    # Tables, as Arrow.

    def table(self, name: str, *columns: str) -> _belljar.Table:
        """A table of the trace (docs/export.md lists the columns and their units). With ``columns``, only these are read, which is faster.

        The names are in :attr:`tables`. The trace is read each time that the table is consumed, in batches.
        """
        if self.path.is_dir():
            self._file("trace.bjt", "run the scenario with trace.enabled = true")
        table = _belljar.table(os.fspath(self.path), name)
        return table.select(list(columns)) if columns else table

    @property
    def tables(self) -> list[str]:
        """The names of all tables."""
        return _belljar.table_names()

    def calls(self, *columns: str) -> _belljar.Table:
        """Calls of MPI functions, a row each."""
        return self.table("calls", *columns)

    def messages(self, *columns: str) -> _belljar.Table:
        """Messages, a row for each side."""
        return self.table("messages", *columns)

    def collectives(self, *columns: str) -> _belljar.Table:
        """Collective operations, a row for each participating process."""
        return self.table("collectives", *columns)

    # Analyses, from the command.

    def _trace(self, analysis: str, *words: str) -> dict[str, Any]:
        said: dict[str, Any] = told(["trace", analysis, os.fspath(self.path), "--json", *words])
        return said

    def stat(self) -> dict[str, Any]:
        """Sums by function and rank (``belljar trace stat``)."""
        return self._trace("stat")

    def efficiency(self) -> dict[str, Any]:
        """Parallel efficiency and its factors, each from 0 to 1, with a replay on an ideal network (``belljar trace stat --efficiency``)."""
        efficiency: dict[str, Any] = self._trace("stat", "--efficiency")["efficiency"]
        return efficiency

    def loops(self) -> dict[str, Any]:
        """The program as a tree of loops (``belljar trace loops``)."""
        return self._trace("loops")

    def graph(self) -> dict[str, Any]:
        """The event flow graph (``belljar trace graph``)."""
        return self._trace("graph")

    def matrix(self, by: str = "call") -> dict[str, Any]:
        """Traffic between ranks: by ``"call"``, by ``"message"`` of the MPI library, by ``"wire"`` or as ``"seen"`` (``belljar trace matrix``)."""
        return self._trace("matrix", "--by", by)

    def sites(self) -> dict[str, Any]:
        """Statistics by call site (``belljar trace sites``)."""
        return self._trace("sites")

    def wait(self) -> dict[str, Any]:
        """Waiting times between ranks (``belljar trace wait``)."""
        return self._trace("wait")

    def delays(self) -> dict[str, Any]:
        """The root causes of waiting: direct and indirect costs by rank, code, function and loop (``belljar trace wait``)."""
        delays: dict[str, Any] = self._trace("wait")["delays"]
        return delays

    def critical_path(self) -> dict[str, Any]:
        """The critical path, and slack (``belljar trace path``)."""
        return self._trace("path")

    def check(self) -> dict[str, Any]:
        """Errors of MPI use, with the calls of all sides (``belljar trace check``)."""
        said: dict[str, Any] = json.loads(call(["trace", "check", os.fspath(self.path), "--json"], finds=True))
        return said

    # Other files of a run directory. Each raises BelljarError if the run has no such file.

    def _file(self, name: str, advice: str) -> Path:
        """A file of the run directory; :class:`BelljarError` with the advice if it is missing."""
        path = (self.path if self.path.is_dir() else self.path.parent) / name
        if not path.is_file():
            raise MissingFileError(path, advice)
        return path

    def summary(self) -> dict[str, Any]:
        """The run's summary (``summary.json``)."""
        path = self._file("summary.json", "belljar run writes it when a run ends; a replay and an imported trace have none")
        summary: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return summary

    def console(self, node: int) -> str:
        """The output of a node's serial console."""
        path = self._file(f"console/node{node}.log", "belljar run writes one for each node, numbered from 0; a replay has none")
        return path.read_text(encoding="utf-8", errors="replace")

    def links(self) -> list[dict[str, Any]]:
        """Link figures over time, if the scenario has ``network.statistics``: rows of ``links.csv``, with numbers converted."""
        advice = "run the scenario with the key network.statistics, such as network.statistics = \"1 ms\""
        return list(_rows(self._file("links.csv", advice)))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield {name: _number(value) for name, value in row.items()}


def _number(text: Optional[str]) -> Any:
    for kind in (int, float):
        try:
            return kind(text)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            pass
    return text


def open(path: PathLike) -> Run:
    """Opens a run directory or a trace file."""
    return Run(path)
