"""Belljar from Python: run directories as tables, and runs, replays and sweeps.

Tables of a trace are Arrow streams (the Arrow PyCapsule interface), so pandas, polars, pyarrow and DuckDB read them without copies::

    import belljar, pyarrow
    run = belljar.open("belljar-runs/hpl-4")
    calls = pyarrow.table(run.calls("function", "rank", "inside_ps"))

All other results are the ``--json`` output of the command ``belljar``, which is found through the variable ``BELLJAR`` or on the ``PATH``.
"""

from ._command import BelljarError, command, replay, run, simulate, sweep
from ._run import Run, open
from ._belljar import Table
from ._scenario import Scenario

__all__ = ["BelljarError", "Run", "Scenario", "Table", "command", "open", "replay", "run", "simulate", "sweep"]
