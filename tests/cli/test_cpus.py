"""Goal: threads run where the options say and wait as they say; processes without work use no CPU.

Method: a cluster whose processes are looked at in /proc, thread by thread."""
import os
import time
import unittest
from pathlib import Path

from cli import DRAFT, TARGET, Cluster, call, children, generate, of_rest, outrider, wait_until

ALLOWED = sorted(os.sched_getaffinity(0))
LAST = ALLOWED[-1]
TICKS = os.sysconf("SC_CLK_TCK")


def places(pid):
    """Return the CPUs of each thread as the kernel writes them: ['0-1', '0', '1']."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("Cpus_allowed_list:"):
                found.append(line.split()[1])
    return found


def background_places(pid):
    """Return the CPUs of ZeroMQ's own threads."""
    return [set(os.sched_getaffinity(int(task.name))) for task in Path(f"/proc/{pid}/task").iterdir()
            if (task / "comm").read_text().startswith("ZMQbg")]


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def verifiers(cluster, count):
    """Return the process id of the verifier, or of the ranks that mpirun has, which may be children of children."""
    def found(pid):
        below = []
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                name = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")[0].decode()
                below += [int(child)] if Path(name).name == "outrider-verifier" else found(child)
        return below
    def ready():
        pids = found(cluster.process.pid)
        return pids if len(pids) == count else None
    return wait_until(ready, f"{count} ranks of the verifier")


class Cpus(unittest.TestCase):
    def write(self, cluster, tokens=8):
        return generate("--connect", cluster.endpoint, "-p", "Once", "-n", tokens, "--temp", 0)

    def test_all_threads_stay_in_the_range(self):
        words = ("-m", TARGET, "-md", DRAFT, "-Cr", f"{LAST}-{LAST}", "--cpu-range-draft", ALLOWED[0], "--poll", 0)
        with Cluster(*words) as cluster:
            self.write(cluster)
            roles = cluster.roles("outrider-verifier", "outrider-drafter")
            self.assertEqual(set(places(roles["outrider-verifier"])), {str(LAST)})
            self.assertEqual(set(places(roles["outrider-drafter"])), {str(ALLOWED[0])})

    @unittest.skipIf(len(ALLOWED) < 2, "needs two CPUs")
    def test_strict_threads_have_a_cpu_each(self):
        two = ALLOWED[:2]
        if two[1] != two[0] + 1:
            self.skipTest("the first two CPUs are no range")
        words = ("-m", TARGET, "-md", DRAFT, "-t", 2, "-td", 1, "-Cr", f"{two[0]}-{two[1]}", "--cpu-strict", 1)
        with Cluster(*words) as cluster:
            self.write(cluster)
            verifier = cluster.roles("outrider-verifier")["outrider-verifier"]
            found = places(verifier)
            self.assertEqual(os.sched_getaffinity(verifier), {two[0]})  # the first thread of the pool
            self.assertEqual(found.count(str(two[1])), 1)
            background = background_places(verifier)  # they do not wait behind a pass
            self.assertGreaterEqual(len(background), 2)
            self.assertEqual([cpus for cpus in background if cpus != set(two)], [])

    @unittest.skipIf(len(ALLOWED) < 2, "needs two CPUs")
    @of_rest
    def test_strict_ranks_do_not_meet(self):
        with Cluster("-m", TARGET, "--plain", "--np", 2, "--cpu-strict", 1) as cluster:
            self.write(cluster)
            first, second = (set(Path(f"/proc/{pid}/status").read_text().split("Cpus_allowed_list:")[1].split()[:1])
                             for pid in verifiers(cluster, 2))
            self.assertTrue(first.isdisjoint(second), f"{first} and {second}")

    def test_text_does_not_depend_on_it(self):
        texts = {generate("-p", "Once", "-n", 24, "--temp", 0, *words)["text"]
                 for words in ((), ("--poll", 100, "--poll-draft", 0, "--cpu-strict", 1), ("-Cr", ALLOWED[0], "-Crd", LAST))}
        self.assertEqual(len(texts), 1)

    def rest(self, pids, allowed):
        """Return the CPU seconds of all together in two seconds."""
        time.sleep(1.5)  # ranks look for work often in the first second
        before = sum(map(cpu_seconds, pids))
        time.sleep(2)
        self.assertLess(sum(map(cpu_seconds, pids)) - before, allowed)

    def test_idle_processes_rest(self):
        with Cluster("-m", TARGET, "-md", DRAFT, "--poll", 100, "--poll-draft", 100) as cluster:
            self.write(cluster)
            pids = [pid for name, pid in children(cluster.process.pid).items() if name.startswith("outrider-")]
            self.assertEqual(len(pids), 3)
            self.rest(pids, 0.1)

    @of_rest
    def test_idle_ranks_rest(self):
        with Cluster("-m", TARGET, "--plain", "--np", 2) as cluster:
            self.write(cluster)
            self.rest(verifiers(cluster, 2), 0.2)

    def test_what_cannot_be_is_refused(self):
        for words, said in ((("-Cr", "0-1023"), "--cpu-range: "), (("-Crd", "x"), "--cpu-range-draft: 'x' is not a range"),
                            (("--cpu-strict", 2), "--cpu-strict: 2"), (("--poll-draft", 101), "--poll-draft: 101 is over 100"),
                            (("--connect", "tcp://127.0.0.1:9", "-Cr", "0"), "local cluster")):
            _, error = outrider("generate", "-p", "x", *words, code=2)
            self.assertIn(said, error)
        for program in ("outrider-drafter", "outrider-verifier"):
            _, error = call(program, "-m", TARGET, "--connect", "tcp://127.0.0.1:9", "--cpu-range", "4096", code=2)
            self.assertIn("4096", error)


if __name__ == "__main__":
    unittest.main()
