"""Goal: `outrider keys` makes, shows, authorises, revokes and trusts keys; says what to do next in commands that work as they are printed;
never shows a secret; refuses what makes no sense with a sentence and exit code 2, and what the world does not allow with 1.
Method: every test has a key folder of its own; printed commands are run by a shell; files are looked at directly."""
import json
import os
import re
import shlex
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path

from cli import BIN, ENVIRONMENT, outrider

SOME_KEY = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"  # of ZeroMQ's RFC 32
OTHER_KEY = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"


class Keys(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = Path(self.scratch.name) / "keys"

    def tearDown(self):
        self.scratch.cleanup()

    def keys(self, *words, code=0):
        """Return standard output and standard error of `outrider keys`."""
        out, error = outrider("keys", *words, code=code, OUTRIDER_KEYS=str(self.folder))
        return out.decode(), error

    def listed(self, *words):
        return json.loads(self.keys("list", "--json", *words)[0])

    def secrets(self):
        return [line.split()[1] for path in self.folder.glob("*.key") for line in path.read_text().splitlines()
                if line.startswith("secret ")]

    def printed_command(self, text):
        """Return the command that a text tells the user to run."""
        return next(line.strip() for line in text.splitlines() if line.startswith("  outrider "))

    def run_in_shell(self, command):
        """Run a line as typed in a shell whose PATH has our programs."""
        return subprocess.run(["bash", "-c", command], check=True, capture_output=True, text=True,
                              env={**ENVIRONMENT, "PATH": f"{BIN}:/usr/bin:/bin", "OUTRIDER_KEYS": str(self.folder)}).stdout


class New(Keys):
    def test_a_pair_for_the_owners_eyes_only(self):
        out, _ = self.keys("new")
        path = self.folder / "identity.key"
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(self.folder.stat().st_mode), 0o700)
        self.assertIn(self.listed()["identity"], out)
        self.assertEqual(len(self.secrets()), 1)

    def test_one_that_is_there_stays(self):
        self.keys("new")
        before = (self.folder / "identity.key").read_bytes()
        out, _ = self.keys("new")
        self.assertEqual((self.folder / "identity.key").read_bytes(), before)
        self.assertIn("was there already", out)

    def test_its_commands_can_be_run_as_they_are(self):
        self.run_in_shell(self.printed_command(self.keys("new", "--name", "laptop")[0]))
        command = self.printed_command(self.keys("new", "--coordinator")[0]).replace("HOST:PORT", "there.example:5577")
        self.run_in_shell(command)
        listed = self.listed()
        self.assertEqual([(grant["key"], grant["name"]) for grant in listed["authorized"]], [(listed["identity"], "laptop")])
        self.assertEqual(listed["servers"], [{"endpoint": "tcp://there.example:5577", "key": listed["coordinator"]}])

    def test_no_secret_is_ever_shown(self):
        shown = ""
        for words in (["new"], ["new", "--coordinator"], ["new"], ["authorize", SOME_KEY], ["trust", "tcp://h:1", SOME_KEY], ["list"],
                      ["list", "--json"], ["revoke", SOME_KEY]):
            shown += "".join(self.keys(*words))
        self.assertEqual(len(self.secrets()), 2)
        for secret in self.secrets():
            self.assertNotIn(secret, shown)

    def test_a_key_file_others_can_read_is_refused(self):
        self.keys("new")
        (self.folder / "identity.key").chmod(0o640)
        self.assertIn("chmod 600", self.keys("new", code=1)[1])
        self.assertIn("chmod 600", self.keys("list", code=1)[1])

    def test_a_folder_others_can_write_to_is_refused(self):
        self.keys("new")
        self.folder.chmod(0o770)
        self.assertIn("chmod", self.keys("authorize", SOME_KEY, code=1)[1])
        self.folder.chmod(0o700)

    def test_the_folder_may_be_named(self):
        other = Path(self.scratch.name) / "other"
        self.keys("new", "--keys", other)
        self.assertTrue((other / "identity.key").exists())
        self.assertFalse(self.folder.exists())


@unittest.skipUnless(os.geteuid() == 0, "only root has to do with other users' files")
class OfAService(Keys):
    """Root looks after the keys of a service that runs as another user, which must be able to read them afterwards."""

    USER = 12345

    def assert_all_are_its_own(self):
        for path in self.folder.iterdir():
            self.assertEqual((path.stat().st_uid, path.stat().st_gid), (self.USER, self.USER), path)

    def test_what_root_does_the_service_can_read(self):
        self.folder.mkdir(mode=0o700)
        os.chown(self.folder, self.USER, self.USER)
        for words in (["new", "--coordinator"], ["new"], ["authorize", SOME_KEY, "--name", "one"], ["authorize", OTHER_KEY],
                      ["revoke", "one"], ["trust", "tcp://a:1", SOME_KEY], ["trust", "tcp://b:1", SOME_KEY]):
            self.keys(*words)
            self.assert_all_are_its_own()
        self.assertEqual(sorted(path.name for path in self.folder.iterdir() if path.suffix != ".lock"),
                         ["authorized", "coordinator.key", "identity.key", "servers"])

    def test_a_mode_stays(self):
        self.keys("authorize", SOME_KEY)
        (self.folder / "authorized").chmod(0o640)
        self.keys("authorize", OTHER_KEY)
        self.assertEqual(stat.S_IMODE((self.folder / "authorized").stat().st_mode), 0o640)


class Authorize(Keys):
    def test_what_was_said_is_what_is_listed(self):
        self.keys("authorize", SOME_KEY, "--name", "laptop", "--owner", "ada", "--roles", "drafter,verifier", "--trusted", "--sessions", 4,
                  "--tokens-per-minute", 6000, "--nodes", 64)
        self.assertEqual(self.listed()["authorized"], [{
            "key": SOME_KEY, "name": "laptop", "owner": "ada", "roles": "drafter,verifier", "trusted": True, "sessions": 4,
            "tokens_per_minute": 6000, "nodes": 64}])
        out, _ = self.keys("list")
        self.assertRegex(out, re.escape(SOME_KEY) + r"\s+laptop\s+ada\s+drafter,verifier\s+yes\s+4\s+6000\s+64")

    def test_the_usual_is_the_least(self):
        self.keys("authorize", SOME_KEY, "--name", "laptop")
        grant = self.listed()["authorized"][0]
        self.assertEqual((grant["owner"], grant["roles"], grant["trusted"]), ("laptop", "client,drafter", False))

    def test_a_second_time_replaces(self):
        self.keys("authorize", SOME_KEY, "--trusted")
        self.keys("authorize", SOME_KEY, "--name", "again")
        grants = self.listed()["authorized"]
        self.assertEqual([(grant["name"], grant["trusted"]) for grant in grants], [("again", False)])

    def test_nonsense(self):
        for words, says in ((["short"], "40"), ([], "one key"), ([SOME_KEY, OTHER_KEY], "one key"), ([SOME_KEY, "--roles", "boss"], "boss"),
                            ([SOME_KEY, "--name", "two words"], "blanks"), ([SOME_KEY, "--owner", ""], "1 to 63"),
                            ([SOME_KEY, "--owner", "a\nb"], "blanks"), ([SOME_KEY, "--sessions", "many"], "--sessions")):
            with self.subTest(words=words):
                self.assertIn(says, self.keys("authorize", *words, code=2)[1])
        self.assertEqual(self.listed()["authorized"], [])

    def test_a_file_that_makes_no_sense_is_not_touched(self):
        self.keys("list")
        path = self.folder / "authorized"
        path.write_text("# mine\nnonsense\n")
        path.chmod(0o600)
        self.assertIn("line 2", self.keys("authorize", SOME_KEY, code=1)[1])
        self.assertEqual(path.read_text(), "# mine\nnonsense\n")


class Revoke(Keys):
    def test_by_name_and_by_key(self):
        self.keys("authorize", SOME_KEY, "--name", "one")
        self.keys("authorize", OTHER_KEY, "--name", "two")
        self.keys("revoke", "one")
        self.assertEqual([grant["key"] for grant in self.listed()["authorized"]], [OTHER_KEY])
        self.keys("revoke", OTHER_KEY)
        self.assertEqual(self.listed()["authorized"], [])

    def test_nobody_and_two_of_a_name(self):
        self.assertIn("outrider keys list", self.keys("revoke", "nobody", code=1)[1])
        self.keys("authorize", SOME_KEY, "--name", "twin")
        self.keys("authorize", OTHER_KEY, "--name", "twin")
        self.assertIn("several", self.keys("revoke", "twin", code=1)[1])
        self.assertEqual(len(self.listed()["authorized"]), 2)
        self.keys("revoke", code=2)


class Trust(Keys):
    def test_one_key_an_endpoint(self):
        self.keys("trust", "tcp://a:1", SOME_KEY)
        self.keys("trust", "tcp://a:12", SOME_KEY)
        self.keys("trust", "tcp://a:1", OTHER_KEY)
        self.assertEqual({server["endpoint"]: server["key"] for server in self.listed()["servers"]},
                         {"tcp://a:1": OTHER_KEY, "tcp://a:12": SOME_KEY})

    def test_nonsense(self):
        for words in (["tcp://a:1"], ["a:1", SOME_KEY], ["tcp://a:1", "short"], ["tcp://a:1 b", SOME_KEY],
                      ["http://a:1", SOME_KEY], ["tcp://a", SOME_KEY]):
            with self.subTest(words=words):
                self.keys("trust", *words, code=2)


class Command(Keys):
    def test_help(self):
        for words in (["--help"], *([word, "--help"] for word in ("new", "list", "authorize", "revoke", "trust"))):
            self.assertIn("usage:", self.keys(*words)[0])

    def test_pairing_in_the_help_text_works(self):
        """Every command that the help text shows exists and takes these options."""
        out, _ = self.keys("--help")
        shown = [line.split("$ ", 1)[1] for line in out.splitlines() if "$ outrider keys" in line]
        self.assertEqual(len(shown), 4)
        for command in shown:
            words = shlex.split(command.split("  prints")[0].replace("KEY1", SOME_KEY).replace("KEY2", OTHER_KEY))
            self.keys(*words[2:])

    def test_no_such_command(self):
        self.assertIn("authorize", self.keys("permit", code=2)[1])
        self.keys(code=2)


if __name__ == "__main__":
    unittest.main()
