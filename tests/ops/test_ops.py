"""Goal: the examples of launch/ops are right as far as that can be said without the systems they are for.
Method: scripts through the shell's and shellcheck's parser, and run, the Slurm one without Slurm; units through systemd-analyze, with our programs where they were built; the
Kubernetes file through the schemas of Kubernetes (the Python package kubernetes-validate) and of the MPI operator (its CRD, named by
OUTRIDER_MPI_OPERATOR_CRD: github.com/kubeflow/mpi-operator, manifests/base/kubeflow.org_mpijobs.yaml), and what no schema sees, by hand. What
is not here is skipped by name."""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))

from cli import BIN, DRAFT, ENVIRONMENT, ROOT, TARGET, Background, call, children, wait_until  # noqa: E402  (the path comes first)

OPS = ROOT / "launch/ops"
SCRIPTS = [OPS / "mpirun.sh", OPS / "outrider.sbatch"]
CRD = Path(os.environ.get("OUTRIDER_MPI_OPERATOR_CRD", "kubeflow.org_mpijobs.yaml"))
# One of our programs, and the words behind it up to the next one.
COMMAND = re.compile(r"(outrider(?:-coordinator|-verifier|-drafter)|outrider +status)((?: +(?!outrider|-- )[^ #]+)*)")


def need(program):
    if shutil.which(program) is None:
        raise unittest.SkipTest(f"there is no {program}")
    return program


def run(*words):
    done = subprocess.run([*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
    return done.returncode, done.stdout.decode()


class Scripts(unittest.TestCase):
    def test_shell(self):
        for script in SCRIPTS:
            self.assertEqual(run("bash", "-n", script), (0, ""))

    def test_shellcheck(self):
        need("shellcheck")
        for script in [*SCRIPTS, Path(__file__).with_name("test_slurm.sh")]:
            self.assertEqual(run("shellcheck", script), (0, ""))

    def test_mpirun(self):
        """The script's own words, one rank: the verifier itself answers, that it cannot reach a model."""
        need("mpirun")
        environment = {**os.environ, "MODEL": "/nowhere/target.gguf", "RANKS": "1", "COORDINATOR": "tcp://127.0.0.1:9", "VERIFIER": str(BIN / "outrider-verifier")}
        done = subprocess.run([OPS / "mpirun.sh"], capture_output=True, env=environment, timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/nowhere/target.gguf", (done.stdout + done.stderr).decode())


class Job(unittest.TestCase):
    """The Slurm example is a script like any other: here it runs without Slurm, its mpirun with a rank a core."""

    def start(self, programs=BIN):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        variables = {"OUTRIDER_BIN": str(programs), "MODEL": str(TARGET), "DRAFT_MODEL": str(DRAFT), "PORT": str(port)}
        with patch.dict(ENVIRONMENT, variables):
            job = Background(OPS / "outrider.sbatch", program=shutil.which("bash"))
        self.addCleanup(job.__exit__)
        self.addCleanup(job.process.terminate)
        self.assertTrue(any(line.startswith(b"outrider listens at") for line in job.process.stdout))
        return job

    def drafter(self, job):
        """Its process id, under one of the script's two keepers."""
        for child in Path(f"/proc/{job.process.pid}/task/{job.process.pid}/children").read_text().split():
            found = children(child).get("outrider-drafter")
            if found is not None:
                return found
        return None

    def test_a_drafter_comes_back_and_the_coordinators_end_ends_all(self):
        need("mpirun")
        job = self.start()
        first = wait_until(lambda: self.drafter(job), "a drafter")
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: self.drafter(job) not in (None, first), "another drafter")
        os.kill(job.roles("outrider-coordinator")["outrider-coordinator"], signal.SIGKILL)
        self.assertEqual(job.end()[0], 128 + signal.SIGKILL)

    def test_who_is_refused_stays_away(self):
        need("mpirun")
        with tempfile.TemporaryDirectory() as folder:
            for name in ("outrider-coordinator", "outrider-verifier"):
                Path(folder, name).symlink_to(BIN / name)
            Path(folder, "outrider-drafter").write_text("#!/bin/sh\nexit 3\n")
            Path(folder, "outrider-drafter").chmod(0o755)
            job = self.start(folder)
            time.sleep(1.5)
            job.process.terminate()
            code, out, _ = job.end()
        self.assertEqual((code, out.count(b"with exit code 3: it is not started again"), out.count(b"starting it again")), (0, 1, 0), out)


class Options(unittest.TestCase):
    def test_they_exist(self):
        """Each long option that an example gives a program of ours is one that it has."""
        found = 0
        for path in sorted(OPS.rglob("*")):
            if path.is_dir():
                continue
            text = path.read_text().replace("\\\n", " ").replace('"', "").replace(",", " ")
            for line in text.splitlines():
                for program, rest in COMMAND.findall(line):
                    options = re.findall(r" (--[a-z][a-z-]*)", rest)
                    usage = call(program.split()[0], *program.split()[1:], "--help")[0].decode() if options else ""
                    for option in options:
                        self.assertIn(option, usage, f"{path.name}: {line}")
                        found += 1
        self.assertGreater(found, 10)


class Systemd(unittest.TestCase):
    def test_units(self):
        need("systemd-analyze")
        with tempfile.TemporaryDirectory() as folder:
            units = []
            for unit in sorted((OPS / "systemd").glob("*.service")):
                units.append(Path(folder, unit.name))
                units[-1].write_text(unit.read_text().replace("/usr/bin/outrider", f"{BIN}/outrider"))
            self.assertEqual(len(units), 3)
            code, text = run("systemd-analyze", "verify", "--man=no", *units)
            self.assertEqual((code, text), (0, ""))

    def test_models_are_not_where_only_one_unit_may_read(self):
        """A DynamicUser's StateDirectory is closed to all others."""
        models = re.findall(r"^\w+_MODEL=(.*)$", (OPS / "systemd/outrider.env").read_text(), re.MULTILINE)
        self.assertEqual(len(models), 2)
        for unit in (OPS / "systemd").glob("*.service"):
            for state in re.findall(r"^StateDirectory=(.*)$", unit.read_text(), re.MULTILINE):
                for model in models:
                    self.assertFalse(Path(model).is_relative_to(f"/var/lib/{state}"), f"{unit.name}: {model}")

    def test_stopping_is_no_failure(self):
        """The exit codes that the unit calls success include that of mpirun after SIGTERM."""
        need("mpirun")
        with Background("-m", TARGET, "--listen", "tcp://127.0.0.1:*", "--ready-fd", 1, program="outrider-coordinator") as coordinator:
            endpoint = coordinator.process.stdout.readline().decode().strip()
            variables = {"MODEL": str(TARGET), "COORDINATOR": endpoint, "RANKS": "2", "OVERSUBSCRIBE": "1",
                         "VERIFIER": str(BIN / "outrider-verifier")}
            with patch.dict(ENVIRONMENT, variables), Background(program=OPS / "mpirun.sh") as job:
                self.assertTrue(job.hears("welcomed by"))
                job.process.terminate()
                code = job.end()[0]
        unit = (OPS / "systemd/outrider-verifier.service").read_text()
        self.assertIn(str(code), ["0", *re.search(r"^SuccessExitStatus=(.*)$", unit, re.MULTILINE).group(1).split()])
        self.assertIn("\nRestart=always\n", unit)  # on-failure would not start it again after that code

    def test_they_are_locked_in(self):
        need("systemd-analyze")
        for unit in sorted((OPS / "systemd").glob("*.service")):
            code, text = run("systemd-analyze", "security", "--offline=yes", "--threshold=35", unit)
            self.assertEqual(code, 0, text)


class Kubernetes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            import yaml
        except ImportError as error:
            raise unittest.SkipTest("there is no Python package yaml") from error
        cls.text = (OPS / "kubernetes/outrider.yaml").read_text()
        cls.documents = list(yaml.safe_load_all(cls.text))
        cls.job = next(document for document in cls.documents if document["kind"] == "MPIJob")
        cls.yaml = yaml

    def test_says_that_it_was_not_run(self):
        self.assertIn("It was not run on a cluster", self.text)
        self.assertIn("It was not built", (OPS / "kubernetes/Containerfile").read_text())

    def test_core_schemas(self):
        try:
            import kubernetes_validate
        except ImportError as error:
            raise unittest.SkipTest("there is no Python package kubernetes-validate") from error
        for document in self.documents:
            if document is not self.job:
                kubernetes_validate.validate(document, "1.29", strict=True)

    def test_mpi_job_schema(self):
        try:
            import jsonschema
        except ImportError as error:
            raise unittest.SkipTest("there is no Python package jsonschema") from error
        if not CRD.exists():
            raise unittest.SkipTest("OUTRIDER_MPI_OPERATOR_CRD does not name the operator's CRD")
        crd = self.yaml.safe_load(CRD.read_text())
        schema = next(version for version in crd["spec"]["versions"] if version["name"] == "v2beta1")["schema"]["openAPIV3Schema"]
        jsonschema.Draft7Validator(strict(schema)).validate(self.job)
        broken = {**self.job, "spec": {**self.job["spec"], "slotsPerWorkers": 1}}
        with self.assertRaises(jsonschema.ValidationError):
            jsonschema.Draft7Validator(strict(schema)).validate(broken)

    def test_pod_templates_of_the_job(self):
        """The operator's schema knows pods; Kubernetes' own is stricter. Each is held against it as a pod."""
        try:
            import kubernetes_validate
        except ImportError as error:
            raise unittest.SkipTest("there is no Python package kubernetes-validate") from error
        for name, replica in self.job["spec"]["mpiReplicaSpecs"].items():
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name.lower()}, "spec": replica["template"]["spec"]}
            kubernetes_validate.validate(pod, "1.29", strict=True)

    def test_what_no_schema_sees(self):
        replicas = self.job["spec"]["mpiReplicaSpecs"]
        words = replicas["Launcher"]["template"]["spec"]["containers"][0]["command"]
        self.assertEqual(int(words[words.index("-np") + 1]), replicas["Worker"]["replicas"] * self.job["spec"]["slotsPerWorker"])
        service = next(document for document in self.documents if document["kind"] == "Service")
        address = f"tcp://{service['metadata']['name']}.{service['metadata']['namespace']}.svc:{service['spec']['ports'][0]['port']}"
        self.assertEqual(self.text.count(address), 3)  # the verifier's, the drafter's, and where their keys are made
        for document in self.documents:
            if document["kind"] == "Deployment":
                self.assertEqual(document["spec"]["selector"]["matchLabels"], document["spec"]["template"]["metadata"]["labels"])


def strict(schema):
    """A CRD's schema that also refuses fields it does not name, as `kubectl apply` does."""
    if isinstance(schema, list):
        return [strict(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    named = isinstance(schema.get("properties"), dict) and schema.get("type") == "object"
    if named and "additionalProperties" not in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made["additionalProperties"] = False
    if schema.get("x-kubernetes-int-or-string") is True:
        made.pop("type", None)
    return made


if __name__ == "__main__":
    unittest.main()
