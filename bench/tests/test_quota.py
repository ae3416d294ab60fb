"""Tests of bench/quota.py, on a store that may lose, keep or refuse what it must not."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
BENCH = HERE.parent
FAKE = HERE / "fake_shell.py"
sys.path.insert(0, str(BENCH))

from harness.model import Lost, Model  # noqa: E402
from harness.shell import Shell, ShellError  # noqa: E402


class Models(unittest.TestCase):
    """What counts as lost."""

    def setUp(self):
        self.model = Model(100)
        self.pairs = {}
        for number in range(10):
            self.put(number, self.model.fresh_version())

    def put(self, number, version):
        self.pairs[self.model.key(number)] = self.model.value(number, version)
        self.model.done(number, version)

    def verify(self):
        self.model.verify(self.pairs.items())

    def test_a_store_that_holds_all_is_right(self):
        self.verify()
        self.assertEqual(self.model.compared, 10)
        sizes = {len(value) for value in self.pairs.values()}
        self.assertGreater(len(sizes), 5)
        stored = sum(len(key) + len(value) for key, value in self.pairs.items())
        self.assertEqual(self.model.live_bytes(), stored)

    def test_missing_old_foreign_and_deleted_pairs_are_noticed(self):
        key = self.model.key(3)
        good = self.pairs.pop(key)
        self.assertRaisesRegex(Lost, "is gone", self.verify)
        self.pairs[key] = self.model.value(4, self.model.versions[4])
        self.assertRaisesRegex(Lost, "must have version", self.verify)
        self.pairs[key] = good
        self.model.done(3, self.model.fresh_version())
        self.assertRaisesRegex(Lost, "must have version", self.verify)
        self.model.done(3, None)
        self.assertRaisesRegex(Lost, "was deleted", self.verify)
        del self.pairs[key]
        self.pairs["other"] = "x"
        self.assertRaisesRegex(Lost, "nobody wrote", self.verify)

    def test_refused_writes_may_have_happened_until_somebody_looks(self):
        version = self.model.fresh_version()
        self.model.refused(3, version)
        self.model.refused(4, None)
        self.model.refused(5, self.model.fresh_version())
        self.model.refused(20, self.model.fresh_version())
        self.pairs[self.model.key(3)] = self.model.value(3, version)
        del self.pairs[self.model.key(4)]
        self.verify()
        self.verify()
        self.assertEqual(self.model.versions[3], version)
        self.assertNotIn(4, self.model.versions)
        self.pairs[self.model.key(5)] = "late"
        self.assertRaises(Lost, self.verify)

    def test_a_write_that_was_accepted_later_is_sure(self):
        version = self.model.fresh_version()
        self.model.refused(3, version)
        self.model.done(3, version)
        self.assertRaisesRegex(Lost, f"must have version {version}", self.verify)


class Shells(unittest.TestCase):
    """Processes that end or say nothing."""

    def test_an_early_end_tells_what_was_said(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "cleave"
            program.write_text("#!/bin/sh\necho no such thing >&2\nexit 2\n")
            program.chmod(0o700)
            with Shell(program, folder) as shell:
                self.assertRaisesRegex(ShellError, "no such thing", shell.ask, ["count"])

    def test_silence_is_not_waited_for_without_end(self):
        for silent, text in (("tail -f /dev/null", "no answer"), ("cat > /dev/null", "not end")):
            with tempfile.TemporaryDirectory() as folder:
                program = Path(folder) / "cleave"
                program.write_text(f"#!/bin/sh\nexec {silent}\n")
                program.chmod(0o700)
                with Shell(program, folder, answer_seconds=0.1) as shell:
                    self.assertRaisesRegex(ShellError, text, shell.ask, ["count"])


class Command(unittest.TestCase):
    """bench/quota.py from end to end."""

    def quota(self, fault, rounds=3):
        with tempfile.TemporaryDirectory() as folder:
            command = [
                sys.executable, BENCH / "quota.py", "--cleave", FAKE, "--dir", f"{folder}/disk",
                "--size", "64K", "--rounds", str(rounds), "--value-size", "100", "--patience", "0",
            ]
            env = {**os.environ, "FAKE_BYTES": str(64 << 10), "FAKE_FAULT": fault}
            done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
            return done.returncode, done.stdout + done.stderr

    def test_a_good_store_passes(self):
        status, text = self.quota("")
        self.assertEqual(status, 0, text)
        self.assertIn("- nothing lost", text)
        self.assertIn("rounds: 3 of 3", text)
        self.assertIn("| **median** |", text)

    def test_each_fault_is_found(self):
        expected = {
            "loses": "lost in round 1: .* is gone",
            "revives": "lost in round [12]: .* was deleted",
            "mixes": "lost in round 1: .* must have version",
            "refuses": "stuck in round 1: deleting is refused",
            "breaks": "stuck in round 1: .* not as on a full disk: ERR something else",
            "hoards": "could be written again: .* \\*\\*not met",
        }
        for fault, text in expected.items():
            status, said = self.quota(fault)
            self.assertEqual(status, 1, said)
            self.assertRegex(said, text)


if __name__ == "__main__":
    unittest.main()
