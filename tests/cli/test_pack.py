"""Goal: `model pack` writes a packed file whole or not at all, where it should; every program that loads the model uses it or says why not, and the texts are the same.
Method: a copy of the demonstration target; texts with and without its packed file; every refusal with its sentence; a wrong byte that must not become a token."""
import json
import os
import tempfile
import unittest
from pathlib import Path

from cli import DRAFT, TARGET, Cluster, generate, outrider

TEXT = ("-p", "Once upon a time", "-n", 12, "--temp", "0", "-md", DRAFT)
EVAL = ("model", "eval", "--ids", "1,458,1112", "--json")


def flip(path, at):
    """Change a byte of a file, but not its time."""
    times = path.stat()
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


class Pack(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.model = self.folder / "model.gguf"
        self.model.write_bytes(TARGET.read_bytes())
        self.packed = self.folder / "model.gguf.packed"

    def fails(self, *words, code=1, **variables):
        out, error = outrider(*words, code=code, **variables)
        self.assertEqual(out, b"")
        return error

    def test_texts_are_the_same(self):
        plain = generate("-m", self.model, *TEXT)["tokens"]
        out, _ = outrider("model", "pack", self.model)
        self.assertIn(str(self.packed), out.decode())
        self.assertEqual(self.packed.stat().st_mode & 0o777, 0o600)
        self.assertEqual(generate("-m", self.model, *TEXT)["tokens"], plain)
        self.assertEqual(generate("-m", self.model, "--packed", "off", *TEXT)["tokens"], plain)
        logs = outrider("generate", "-m", self.model, *TEXT, "-v")[1]
        self.assertIn("mapped from their packed file", logs)
        self.assertNotIn("mapped", outrider("generate", "-m", self.model, "--packed", "off", *TEXT, "-v")[1])

    def test_layers_stay_on_disk(self):
        plain = generate("-m", self.model, *TEXT)["tokens"]
        few = ("--weights-memory", "7M")
        self.assertIn("model pack", self.fails(*EVAL, "-m", self.model, *few))
        outrider("model", "pack", self.model)
        self.assertEqual(outrider(*EVAL, "-m", self.model, *few), outrider(*EVAL, "-m", self.model))
        self.assertEqual(generate("-m", self.model, *few, *TEXT)["tokens"], plain)
        self.assertRegex(outrider("generate", "-m", self.model, *few, *TEXT, "-v")[1], r"[1-6] of 6 layers stay on disk: each pass reads \d+ MiB")
        self.assertIn(" of 6 layers in memory", outrider("bench", "step", "-m", self.model, *few, "--rows", 1, "--repeat", 1)[0].decode())
        self.assertIn("make the file", self.fails(*EVAL, "-m", self.model, *few, "--packed", "off", code=2))
        least = self.fails("bench", "step", "-m", self.model, "--weights-memory", "1K").split("at least ")[1].split()[0]
        outrider(*EVAL, "-m", self.model, "--weights-memory", least)

    def test_it_is_not_trusted_for_another_file(self):
        plain, _ = outrider(*EVAL, "-m", self.model)
        outrider("model", "pack", self.model)
        self.assertEqual(outrider(*EVAL, "-m", self.model), (plain, ""))
        os.utime(self.model)
        out, error = outrider(*EVAL, "-m", self.model)
        self.assertEqual(out, plain)
        self.assertIn("touched", error)
        self.assertEqual(outrider(*EVAL, "-m", self.model, "--packed", "off"), (plain, ""))
        outrider("model", "pack", "--force", self.model)
        self.assertEqual(outrider(*EVAL, "-m", self.model), (plain, ""))

    def test_a_wrong_byte_becomes_no_token(self):
        outrider("model", "pack", self.model)
        flip(self.packed, self.packed.stat().st_size // 2)  # behind the first piece, which is read at once
        error = self.fails(*EVAL, "-m", self.model)
        self.assertIn("damaged between bytes", error)
        self.assertIn("model pack --force", error)
        error = self.fails("generate", "-m", self.model, *TEXT)
        self.assertIn("damaged between bytes", error)
        outrider("model", "pack", "--force", self.model)
        outrider(*EVAL, "-m", self.model)

    def test_files_that_change_under_a_service(self):
        """A text ends with an error, before a token. The verifier that begins then does without a packed file that is not whole."""
        plain = generate("-m", self.model, *TEXT)["text"]
        outrider("model", "pack", self.model)
        with Cluster("-m", self.model, "-md", DRAFT, "--http", "none") as cluster:
            text = ("--connect", cluster.endpoint, *TEXT[:-2])
            self.assertEqual(generate(*text)["text"], plain)
            os.truncate(self.packed, 1 << 20)
            self.assertIn("packed was changed while it was in use", self.fails("generate", *text))
            self.assertEqual(generate(*text)["text"], plain)
            with self.model.open("r+b") as file:
                file.seek(-64, os.SEEK_END)
                file.write(bytes(32))
            self.assertIn("model.gguf was changed while it was in use", self.fails("generate", *text))

    def test_places(self):
        out, _ = outrider("model", "pack", self.model, "-o", self.folder / "elsewhere")
        self.assertIn("--packed", out.decode())
        self.assertFalse(self.packed.exists())
        plain, error = outrider(*EVAL, "-m", self.model, "--packed", self.folder / "elsewhere")
        self.assertEqual(error, "")
        self.assertIn("nowhere: cannot open", outrider(*EVAL, "-m", self.model, "--packed", self.folder / "nowhere")[1])
        # A folder of that name is a place that cannot be written to, for root too.
        self.packed.mkdir()
        self.assertIn("no regular file", self.fails("model", "pack", self.model))
        self.packed.rmdir()
        if os.geteuid() != 0:
            self.folder.chmod(0o500)
            self.addCleanup(self.folder.chmod, 0o700)
            with tempfile.TemporaryDirectory() as cache:
                out, _ = outrider("model", "pack", self.model, XDG_CACHE_HOME=cache)
                self.assertIn(cache, out.decode())
                self.assertEqual(outrider(*EVAL, "-m", self.model, XDG_CACHE_HOME=cache), (plain, ""))

    def test_the_cache_folder_is_used_where_there_is_no_other_place(self):
        with tempfile.TemporaryDirectory() as cache:
            descriptor = os.open(self.model, os.O_RDONLY)
            self.addCleanup(os.close, descriptor)
            path = f"/proc/{os.getpid()}/fd/{descriptor}"  # beside it nothing can be made
            out, _ = outrider("model", "pack", path, XDG_CACHE_HOME=cache)
            self.assertIn(cache, out.decode())
            out, error = outrider(*EVAL, "-m", path, XDG_CACHE_HOME=cache)
            self.assertEqual(error, "")

    def test_refusals(self):
        self.assertIn("give FILE", self.fails("model", "pack", code=2))
        self.assertIn("cannot open", self.fails("model", "pack", self.folder / "none.gguf"))
        outrider("model", "pack", self.model)
        self.assertIn("--force", self.fails("model", "pack", self.model))
        self.assertIn("is read", self.fails("model", "pack", self.model, "-o", self.model, "--force"))
        self.assertIn("packed form", self.fails(*EVAL, "-m", self.packed))
        self.assertIn("--packed", self.fails(*EVAL, "-m", self.model, "--packed", "", code=2))
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["model.gguf", "model.gguf.packed"])

    def test_inspect_says_what_it_is(self):
        outrider("model", "pack", self.model)
        out, _ = outrider("model", "inspect", self.packed)
        self.assertIn("the packed form of a model", out.decode())
        found = json.loads(outrider("model", "inspect", self.packed, "--json")[0])
        self.assertEqual({tensor["type"] for tensor in found["tensors"]}, {"packed"})
        self.assertIn("packed.layout", [key for key, _ in found["metadata"]])


if __name__ == "__main__":
    unittest.main()
