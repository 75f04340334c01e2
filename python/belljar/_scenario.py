"""Scenarios in memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Mapping, Optional

from ._command import PathLike, quoted


class Scenario:
    """A scenario, by its keys (docs/scenario.md): ``Scenario(name="ring", nodes={"count": 4}, workload={"command": "mpiexec.hydra -n 4 ring"})``.

    With ``base``, the given keys override those of that file. :func:`belljar.run` runs it.
    """

    def __init__(self, *, base: Optional[PathLike] = None, **keys: Any) -> None:
        self.base = None if base is None else Path(os.path.abspath(base))
        self.keys: dict[str, Any] = dict(keys)

    def __setitem__(self, key: str, value: Any) -> None:
        """Sets a key by its path, such as ``scenario["network.latency"] = "20 us"``."""
        *path, last = key.split(".")
        table = self.keys
        for name in path:
            table = table.setdefault(name, {})
        table[last] = value

    def __getitem__(self, key: str) -> Any:
        """The value that was set for a key."""
        value: Any = self.keys
        for name in key.split("."):
            value = value[name]
        return value

    def settings(self) -> dict[str, Any]:
        """All keys by their paths."""
        found: dict[str, Any] = {}

        def walk(path: str, value: Any) -> None:
            if isinstance(value, Mapping) and value:
                for name, inner in value.items():
                    walk(f"{path}.{name}" if path else str(name), inner)
            else:
                found[path] = value

        walk("", self.keys)
        return found

    def text(self) -> str:
        """The scenario as TOML."""
        if self.base is not None:
            raise ValueError(f"this scenario is {self.base} with some keys changed; it has no text of its own")
        alone = {key: value for key, value in self.keys.items() if not isinstance(value, Mapping)}
        lines = [f"{key} = {quoted(value)}" for key, value in alone.items()]
        for key, value in self.keys.items():
            if isinstance(value, Mapping):
                lines += ["", f"[{key}]", *(f"{name} = {quoted(inner)}" for name, inner in value.items())]
        return "\n".join(lines) + "\n"

    def write(self, path: PathLike) -> Path:
        """Writes the scenario as a file. Relative paths in it refer to the file's folder, so use absolute ones."""
        path = Path(path)
        path.write_text(self.text(), encoding="utf-8")
        return path
