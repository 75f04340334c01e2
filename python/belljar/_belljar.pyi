from typing import Any, List, Optional

class Table:
    """A table of a trace: a kind of record. An Arrow stream, by the Arrow PyCapsule interface."""

    @property
    def name(self) -> str:
        """Its name."""
    @property
    def columns(self) -> List[str]:
        """The names of its columns."""
    def select(self, columns: List[str]) -> "Table":
        """The table with only these columns, in this order."""
    def __arrow_c_stream__(self, requested_schema: Optional[Any] = None) -> Any:
        """The Arrow PyCapsule interface. The trace is read again each time."""

def table_names() -> List[str]:
    """The names of all tables."""

def table(path: str, name: str) -> Table:
    """A table of the trace of a run directory, or of a trace file."""
