"""The command ``belljar``: its location, output and progress."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Optional, Sequence, Union

if TYPE_CHECKING:
    from ._run import Run

PathLike = Union[str, "os.PathLike[str]"]
Progress = Callable[[str], None]


class BelljarError(RuntimeError):
    """The command failed. ``args[0]`` has the command and its standard error, ``code`` its exit code."""

    def __init__(self, words: Sequence[str], code: int, error: str) -> None:
        super().__init__(f"belljar {' '.join(words)} ended with {code}: {error.strip()}")
        self.code = code
        self.error = error


class MissingFileError(BelljarError):
    """The run directory lacks a file. ``args[0]`` names the file and the scenario key that enables it; ``code`` is 0, as no command ran."""

    def __init__(self, path: Path, advice: str) -> None:
        error = f"{path} does not exist: {advice}"
        RuntimeError.__init__(self, error)
        self.code = 0
        self.error = error


def command() -> str:
    """The path of the command: ``BELLJAR``, or ``belljar`` on the ``PATH``."""
    found = os.environ.get("BELLJAR") or shutil.which("belljar")
    if not found:
        raise FileNotFoundError(
            "the command belljar is not on the PATH; install it (docs/install.md), or name it in the environment variable BELLJAR"
        )
    return found


def call(words: Sequence[str], progress: Optional[Progress] = None, finds: bool = False) -> str:
    """Runs the command and returns its standard output. ``progress`` is called with each line of standard error.

    With ``finds``, an exit code of 1 with output means that the command found something, which is no failure.
    """
    said: list[str] = []
    printed: list[str] = []
    with subprocess.Popen(
        [command(), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as process:
        stdout, stderr = process.stdout, process.stderr
        assert stdout is not None and stderr is not None
        # Standard output may exceed the pipe's buffer, so another thread reads it.
        reader = Thread(target=lambda: printed.append(stdout.read()), daemon=True)
        reader.start()
        try:
            for line in stderr:
                said.append(line)
                if progress is not None:
                    progress(line.rstrip("\n"))
            reader.join()
        except BaseException:
            process.terminate()
            raise
        code = process.wait()
    has_found = finds and code == 1 and any(printed)
    if code != 0 and not has_found:
        raise BelljarError(words, code, "".join(said))
    return "".join(printed)


def told(words: Sequence[str], progress: Optional[Progress] = None) -> Any:
    """Runs the command and parses its JSON output."""
    return json.loads(call(words, progress))


def quoted(value: Any) -> str:
    """A value in TOML syntax, for ``--set``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(quoted(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(str(key))} = {quoted(item)}" for key, item in value.items()) + " }"
    return json.dumps(str(value), ensure_ascii=False)


def settings(values: Optional[Mapping[str, Any]]) -> list[str]:
    """Arguments of the command for values by scenario key."""
    words: list[str] = []
    for key, value in (values or {}).items():
        words += ["--set", f"{key}={quoted(value)}"]
    return words


def _scenario(scenario: Any, folder: str) -> list[str]:
    """Arguments of the command for a scenario; a scenario in memory is written into ``folder``."""
    from ._scenario import Scenario

    if not isinstance(scenario, Scenario):
        return [os.fspath(scenario)]
    if scenario.base is not None:
        return [str(scenario.base), *settings(scenario.settings())]
    return [str(scenario.write(Path(folder) / "scenario.toml"))]


def run(
    scenario: Any,
    out: PathLike,
    *,
    set: Optional[Mapping[str, Any]] = None,
    threads: Optional[int] = None,
    progress: Optional[Progress] = None,
) -> "Run":
    """Runs a scenario (a file, or a :class:`Scenario`) into the new directory ``out``, and opens it.

    ``set`` overrides keys of the scenario, such as ``{"network.latency": "20 us"}``. ``progress`` is called with a line each second:
    virtual time, speed, nodes, calls. Raises :class:`BelljarError` if the workload fails.
    """
    from ._run import open

    with tempfile.TemporaryDirectory() as folder:
        words = ["run", *_scenario(scenario, folder), "--out", os.fspath(out), *settings(set)]
        if threads is not None:
            words += ["--threads", str(threads)]
        words.append("--quiet" if progress is None else "--progress")
        call(words, progress)
    return open(out)


def _options(options: Mapping[str, Any]) -> list[str]:
    """Arguments of ``belljar replay`` for options named with underscores."""
    words: list[str] = []
    for name, value in options.items():
        if value is not None:
            words += [f"--{name.replace('_', '-')}", os.fspath(value) if isinstance(value, os.PathLike) else str(value)]
    return words


def replay(
    directory: PathLike,
    *,
    set: Optional[Mapping[str, Any]] = None,
    out: Optional[PathLike] = None,
    bounds: bool = False,
    tolerance: bool = False,
    loops: bool = False,
    progress: Optional[Progress] = None,
    **options: Any,
) -> dict[str, Any]:
    """Replays a traced run on another network or placement, and returns the output of ``belljar replay --json``.

    Options are named like the command's, with underscores: ``topology``, ``hostfile``, ``mapping``, ``ranks_per_node``, ``compute_scale``, ``model``, ``collectives``, ``costs``. With ``out``
    the replay is a run directory, which :func:`open` opens.
    """
    words = ["replay", os.fspath(directory), "--json", *settings(set), *_options(options)]
    for name, wanted in (("--bounds", bounds), ("--tolerance", tolerance), ("--loops", loops)):
        if wanted:
            words.append(name)
    if out is not None:
        words += ["--out", os.fspath(out)]
    outcome: dict[str, Any] = told(words, progress)
    return outcome


def simulate(
    mix: PathLike, *, out: Optional[PathLike] = None, progress: Optional[Progress] = None
) -> list[dict[str, Any]]:
    """Simulates the jobs of a mix file (``belljar simulate``) for all combinations of its values. Returns one dictionary per combination, which includes the varied values by key.

    With ``out``, a new folder, results of jobs and links are stored there.
    """
    words = ["simulate", os.fspath(mix), "--json"]
    if out is not None:
        words += ["--out", os.fspath(out)]
    return _rows(told(words, progress))


def _rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of a table, with the varied values by key."""
    return [{**dict(row.pop("values")), **row} for row in rows]


def sweep(
    directory: PathLike,
    vary: Mapping[str, Iterable[Any]],
    *,
    set: Optional[Mapping[str, Any]] = None,
    progress: Optional[Progress] = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Replays a traced run for all combinations of values, on all processors. Returns one dictionary per combination.

    ``vary`` has lists of values by scenario key or by option of ``belljar replay``: ``{"network.latency": ["1 us", "20 us"], "model": ["packet", "flow"]}``. Rows have these
    keys, and ``total_ps``, ``traced_ps``, ``mpi_ps``, ``waited_ps``, ``dropped``, ``stuck``.
    """
    words = ["replay", os.fspath(directory), "--json", *settings(set), *_options(options)]
    for key, values in vary.items():
        words += ["--vary", f"{key}={quoted(list(values))}"]
    return _rows(told(words, progress))
