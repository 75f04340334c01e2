"""The notebook of the two figures, executed, and its numbers against those of the command.

BELLJAR names the command, and with BELLJAR_GROMACS GROMACS is run, too. Run by `cargo xtask test python`.
"""

import os
import re
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory

import belljar
import nbformat
from nbclient import NotebookClient

TOP = Path(__file__).parents[2]


class Figures(unittest.TestCase):
    def test_figures_are_those_of_the_trace(self):
        notebook = nbformat.read(TOP / "python" / "notebooks" / "figures.ipynb", as_version=4)
        with TemporaryDirectory() as folder:
            os.environ["BELLJAR_RUNS"] = folder
            os.environ["BELLJAR_SCENARIOS"] = str(TOP / "scenarios")
            NotebookClient(notebook, timeout=900, kernel_name="python3").execute(cwd=folder)
            hpl = belljar.open(Path(folder) / "hpl-4").stat()
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
        figures = [output for output in outputs if "image/png" in output.get("data", {})]
        self.assertGreaterEqual(len(figures), 2)
        texts = [output["data"]["text/plain"] for output in outputs if "data" in output]
        means = next(text for text in texts if "harmonic_mean_ns" in text)
        shown = [float(row[2]) for row in re.findall(r"(\d+)\s+┆\s+(\d+)\s+┆\s+([\d.]+)", means)]
        said = [rank["intervals"]["harmonic_mean_s"] * 1e9 for rank in hpl["ranks"]]
        self.assertEqual(len(shown), 4)
        for one, other in zip(shown, said):
            # Picoseconds are rounded down, and short intervals weigh most.
            self.assertAlmostEqual(one, other, delta=1e-3 * other)


if __name__ == "__main__":
    unittest.main()
