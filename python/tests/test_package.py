"""The package against a run that the test makes, and against what the command says of it.

BELLJAR names the command. Run by `cargo xtask test python`.
"""

import os
import unittest
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import belljar
import pyarrow

SCENARIO = Path(__file__).parents[2] / "scenarios" / "pingpong.toml"


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = TemporaryDirectory()
        cls.lines = []
        scenario = belljar.Scenario(base=SCENARIO)
        scenario["network.statistics"] = "1 ms"
        cls.traced = belljar.run(scenario, Path(cls.folder.name) / "run", progress=cls.lines.append)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_calls_are_those_of_the_command(self):
        table = pyarrow.table(self.traced.calls())
        said = {one["function"]: one["calls"] for one in self.traced.stat()["functions"]}
        counted = Counter()
        for name, calls in zip(table["function"].to_pylist(), table["calls"].to_pylist()):
            counted[name] += calls
        self.assertEqual(dict(counted), said)
        self.assertGreater(said["MPI_Send"], 300)

    def test_columns_are_read_alone_and_in_order(self):
        calls = self.traced.calls("inside_ps", "function")
        self.assertEqual(calls.columns, ["inside_ps", "function"])
        some = pyarrow.table(calls)
        self.assertEqual(some.column_names, ["inside_ps", "function"])
        whole = pyarrow.table(self.traced.calls())
        self.assertEqual(some["inside_ps"], whole["inside_ps"])
        # A table can be taken again.
        self.assertEqual(pyarrow.table(calls), some)

    def test_root_causes_add_up_to_the_waiting(self):
        waited = sum(kind["waiting_ps"] for kind in self.traced.wait()["kinds"])
        delays = self.traced.delays()
        caused = sum(rank["direct_ps"] + rank["indirect_ps"] for rank in delays["ranks"])
        self.assertEqual(caused + delays["unattributed_ps"], waited)

    def test_a_correct_program_has_no_errors_of_mpi_use(self):
        check = self.traced.check()
        errors = [finding for finding in check["findings"] if finding["severity"] == "error"]
        self.assertEqual(errors, [])
        self.assertEqual(check["calls"], sum(one["calls"] for one in self.traced.stat()["functions"]))

    def test_tables_go_to_others_without_pyarrow_in_between(self):
        messages = self.traced.messages("side", "bytes")
        expected = sum(row["bytes"] for row in pyarrow.table(messages).to_pylist() if row["side"] == "send")
        self.assertGreater(expected, 0)
        try:
            import polars
        except ImportError:
            self.skipTest("polars is not installed")
        frame = polars.DataFrame(messages)
        self.assertEqual(frame.filter(polars.col("side") == "send")["bytes"].sum(), expected)

    def test_the_matrix_is_the_sum_of_messages(self):
        sent = Counter()
        for row in pyarrow.table(self.traced.messages()).to_pylist():
            if row["side"] == "send":
                sent[row["rank"], row["peer_rank"]] += row["bytes"]
        pairs = self.traced.matrix()["pairs"]
        told = {(pair["from"], pair["to"]): pair["bytes"] for pair in pairs}
        for pair, amount in sent.items():
            self.assertGreaterEqual(told[pair], amount)

    def test_links_and_consoles(self):
        links = self.traced.links()
        self.assertTrue(links and all(isinstance(row["link"], str) for row in links), links[:2])
        self.assertIn("Linux version", self.traced.console(0))
        self.assertTrue(self.traced.summary())

    def test_replays(self):
        same = belljar.replay(self.traced.path)
        self.assertAlmostEqual(same["total_ps"] / same["traced_ps"], 1, places=2)
        far = belljar.replay(self.traced.path, set={"network.latency": "20 us"}, model="flow", loops=True)
        self.assertGreater(far["total_ps"], same["total_ps"])
        self.assertTrue(far["loops"])
        rows = belljar.sweep(self.traced.path, {"network.latency": ["1 us", "20 us"], "model": ["flow"]})
        self.assertEqual([row["network.latency"] for row in rows], ["1 us", "20 us"])
        self.assertEqual(rows[1]["total_ps"], far["total_ps"])

    def test_a_mix_is_simulated_and_networkx_reads_snapshots(self):
        import networkx

        mix = Path(self.folder.name) / "mix.toml"
        mix.write_text(
            'name = "m"\nhosts = 4\nscheduler = ["fcfs", "easy"]\nsnapshots = ["1 s"]\nnetwork.bandwidth = "10 Gb/s"\n'
            '[[jobs]]\nname = "ring"\nranks = 3\nduration = "2 s"\ntraffic = { pattern = "ring", rate = "1 Gb/s" }\n'
        )
        out = Path(self.folder.name) / "mixed"
        rows = belljar.simulate(mix, out=out)
        self.assertEqual([row["scheduler"] for row in rows], ["fcfs", "easy"])
        self.assertEqual(rows[0]["highest_load"], 1_000_000_000)
        graph = networkx.read_graphml(out / "0" / "1.000s.graphml")
        loads = networkx.get_edge_attributes(graph, "load").values()
        # Each of three hosts sends and receives 1 Gb/s; the fourth has no job.
        self.assertEqual(sorted(loads), [0, 0] + 6 * [1_000_000_000])
        self.assertEqual(sum(kind == "host" for kind in networkx.get_node_attributes(graph, "kind").values()), 4)

    def test_errors_say_what_is_wrong(self):
        with self.assertRaises(KeyError) as caught:
            self.traced.table("cals")
        self.assertIn("calls", str(caught.exception))
        with self.assertRaises(KeyError):
            self.traced.calls("inside")
        with self.assertRaises(belljar.BelljarError) as caught:
            belljar.replay(self.traced.path, set={"network.latency": "soon"})
        self.assertIn("latency", caught.exception.error)
        with self.assertRaises(FileNotFoundError):
            belljar.open("nowhere")
        broken = Path(self.folder.name) / "broken.bjt"
        broken.write_bytes(b"no trace")
        with self.assertRaises(OSError):
            pyarrow.table(belljar.open(broken).calls())

    def test_scenarios_are_toml(self):
        scenario = belljar.Scenario(name="two", nodes={"count": 2, "memory": "256 MiB"})
        scenario["workload.command"] = 'echo "hello"'
        self.assertEqual(
            scenario.text(),
            'name = "two"\n\n[nodes]\ncount = 2\nmemory = "256 MiB"\n\n[workload]\ncommand = "echo \\"hello\\""\n',
        )

    def test_progress_was_told(self):
        self.assertTrue(any("virtual time" in line for line in self.lines), self.lines)


class MissingFiles(unittest.TestCase):
    def test_missing_files_are_named_with_the_key_that_makes_them(self):
        with TemporaryDirectory() as folder:
            (Path(folder) / "trace.bjt").write_bytes(b"")
            run = belljar.open(folder)
            for read, words in (
                (run.links, ["links.csv", "network.statistics"]),
                (run.summary, ["summary.json", "belljar run"]),
                (lambda: run.console(7), ["node7.log"]),
            ):
                with self.assertRaises(belljar.BelljarError) as caught:
                    read()
                for word in words:
                    self.assertIn(word, str(caught.exception))
                    self.assertIn(word, caught.exception.error)
        with TemporaryDirectory() as folder:
            with self.assertRaises(belljar.BelljarError) as caught:
                belljar.open(folder).calls()
            self.assertIn("trace.enabled", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
