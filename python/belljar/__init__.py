"""Belljar from Python: run directories as tables, and runs, replays and sweeps.

Tables of a trace are Arrow streams (the Arrow PyCapsule interface), so pandas, polars, pyarrow and DuckDB take them without copies::

    import belljar, pyarrow
    run = belljar.open("belljar-runs/hpl-4")
    calls = pyarrow.table(run.calls("function", "rank", "inside_ps"))

Everything else is what the command ``belljar`` says with ``--json``; it is looked for in ``BELLJAR`` and then on the ``PATH``.
"""

from ._command import BelljarError, command, replay, run, simulate, sweep
from ._run import Run, open
from ._belljar import Table
from ._scenario import Scenario

__all__ = ["BelljarError", "Run", "Scenario", "Table", "command", "open", "replay", "run", "simulate", "sweep"]
