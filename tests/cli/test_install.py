"""Goal: what is installed is whole: it runs where nothing of the source tree is, its pages and completions know every option, its units find their
programs, and the Debian package has all of it.
Method: the build is installed into a temporary prefix and packed; options are taken from --help as users read it, looked for in the pages as `man`
shows them and in what bash offers; the package is read by dpkg-deb."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from cli import BIN, ROOT, generate

BUILD = BIN.parent
PROGRAMS = ["outrider", "outrider-coordinator", "outrider-drafter", "outrider-verifier"]
OPTION = re.compile(r"^  (?:-(\w+), |    )--([\w-]+)", re.M)  # a line of --help
BARE = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C.UTF-8", "MANWIDTH": "1000", "XDG_RUNTIME_DIR": "/nonexistent"}
OFFERS = r"""
compopt() { :; } # it works for a shell's own completion only
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
"_${1//-/_}"
printf '%s\n' "${COMPREPLY[@]}"
"""


def run(*words, cwd="/", code=0, **variables):
    """Run a command with nothing in its environment that the build or the user has set. Return what it printed on both outputs."""
    done = subprocess.run([*map(str, words)], cwd=cwd, env={**BARE, **variables}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=120)
    text = done.stdout.decode()
    if done.returncode != code:
        raise AssertionError(f"{' '.join(map(str, words))}: exit {done.returncode}\n{text}")
    return text


def need(program):
    """Skip the test without a program of the system, or fail it with CI=true."""
    if shutil.which(program) is None:
        if os.environ.get("CI") == "true":
            raise AssertionError(f"{program} is missing")
        raise unittest.SkipTest(f"{program} is missing")


def commands_of(program, words=()):
    """Return a program and all of its commands, as words behind its name."""
    yield words
    for command in json.loads(run(program, *words, "--help-json"))["commands"]:
        yield from commands_of(program, (*words, command))


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.prefix = Path(cls.temporary.name) / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        # Each program's and command's words, and the options in its --help, short and long.
        cls.commands = []
        for program in PROGRAMS:
            for words in commands_of(cls.prefix / "bin" / program):
                found = OPTION.findall(run(cls.prefix / "bin" / program, *words, "--help"))
                names = [f"-{short}" for short, _ in found if short] + [f"--{name}" for _, name in found]
                cls.commands.append(([program, *words], names))

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_generate_finds_the_demonstration_pair(self):
        words = ["--temp", 0.8, "-s", 7, "-p", "Once upon a time", "-n", 24]
        line = json.loads(run(self.prefix / "bin/outrider", "generate", "--json", *words).splitlines()[-1])
        self.assertEqual(line["tokens"], generate(*words)["tokens"])

    def test_the_version_is_the_package_s(self):
        cache = (BUILD / "CMakeCache.txt").read_text()
        version = re.search(r"^CMAKE_PROJECT_VERSION:\w+=(.+)$", cache, re.M)[1]
        for program in PROGRAMS:
            self.assertTrue(run(self.prefix / "bin" / program, "--version").startswith(f"{program} {version} "))

    def test_the_documents_have_this_release_s_numbers(self):
        protocol, arithmetic = re.search(r"protocol (\d+), arithmetic (\S+)\)", run(self.prefix / "bin/outrider", "--version")).groups()
        journal = re.search(r"^#define VERSION (\d+)u", (ROOT / "coordinator/journal/journal_file.c").read_text(), re.M)[1]
        self.assertIn(f"protocol {protocol}, arithmetic `{arithmetic}`, journal format {journal},", (ROOT / "CHANGELOG.md").read_text())
        releases = (ROOT / "docs/releases.md").read_text()
        for number in (f"| the protocol, {protocol} |", f"`{arithmetic}`", f"the journal's format, {journal};"):
            self.assertIn(number, releases)

    def test_pages_have_every_option(self):
        need("man")
        count = 0
        for words, options in self.commands:
            page = run("man", "-l", self.prefix / f"share/man/man1/{'-'.join(words)}.1")
            shown = set(re.findall(r"(?<![\w-])--?[\w-]+", page))
            self.assertLessEqual(set(options), shown, words)
            count += len(options)
        self.assertGreater(count, 400)

    def test_pages_are_clean(self):
        need("groff")
        pages = sorted((self.prefix / "share/man/man1").iterdir())
        self.assertGreaterEqual(len(pages), 26)
        for page in pages:
            self.assertEqual(run("groff", "-man", "-ww", "-z", "-Tutf8", page), "", page)
            self.assertEqual(run("man", "--warnings", "--encoding=UTF-8", "--ditroff", "-l", page).count("warning:"), 0, page)
            for name in re.findall(r"^\.BR (\S+) \(1\)", page.read_text(), re.M):
                self.assertTrue((page.parent / f"{name}.1".replace("\\-", "-")).is_file(), name)

    def offered(self, *words):
        """Return bash's completions of the last word."""
        return set(run("bash", "-c", OFFERS, "bash", self.prefix / "share/bash-completion/completions" / words[0], *words).split())

    def test_bash_offers_every_option(self):
        for words, options in self.commands:
            self.assertLessEqual(set(options), self.offered(*words, "-"), words)

    def test_bash_offers_commands_and_values(self):
        self.assertEqual(self.offered("outrider", "ge"), {"generate"})
        self.assertEqual(self.offered("outrider", "bench", ""), {"load", "step", "kernels"})
        self.assertEqual(self.offered("outrider", "generate", "--cpu-strict", ""), {"0", "1"})
        self.assertEqual(self.offered("outrider-drafter", "-m", str(self.prefix / "share/outrider/mod")), {str(self.prefix / "share/outrider/models")})
        self.assertEqual(self.offered("outrider", "generate", "--temp", ""), set())
        self.assertIn("--no-padding", self.offered("outrider", "generate", "--no-"))

    def test_zsh_knows_every_option(self):
        file = self.prefix / "share/zsh/site-functions/_outrider"
        functions = dict(re.findall(r"^_([\w]+)\(\) \{\n(.*?)^\}$", file.read_text(), re.M | re.S))
        for words, options in self.commands:
            body = functions["_".join(words).replace("-", "_")]
            for option in options:
                self.assertIn(f"'*{option}[", body, words)
        need("zsh")
        self.assertEqual(run("zsh", "-f", "-n", file), "")

    def test_units_are_sound(self):
        need("systemd-analyze")
        units = sorted((self.prefix / "lib/systemd/system").iterdir())
        self.assertEqual([unit.stem for unit in units], PROGRAMS[1:])
        run("systemd-analyze", "verify", *units)
        for unit in units:
            for path in re.findall(rf"{self.prefix}[^\s=]+", unit.read_text()):
                self.assertTrue(Path(path).is_file(), path)

    def test_a_second_installation_keeps_the_configuration(self):
        file = self.prefix / "etc/outrider/outrider.env"
        file.write_text(file.read_text() + "# kept\n")
        run("cmake", "--install", BUILD, "--prefix", self.prefix)
        self.assertIn("# kept", file.read_text())


class DebianPackage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for program in ("cpack", "dpkg-deb", "dpkg-shlibdeps", "file"):
            need(program)
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.temporary.name)
        run("cpack", "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-B", cls.folder)
        (cls.package,) = cls.folder.glob("*.deb")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_what_it_needs(self):
        needed = {name.split()[0] for name in run("dpkg-deb", "-f", self.package, "Depends").split(", ")}
        self.assertLessEqual({"openmpi-bin", "libc6", "libzmq5", "libsodium23", "libmicrohttpd12"}, needed)
        self.assertFalse([name for name in needed if name.endswith("-dev") or "cmocka" in name or "gmp" in name or "protobuf" in name], needed)

    def test_contents(self):
        found = {}
        for line in run("dpkg-deb", "-c", self.package).splitlines():
            mode, owner, *_, path = line.split()
            self.assertEqual(owner, "root/root", path)
            found[path.removeprefix(".")] = mode
        for program in PROGRAMS:
            self.assertEqual(found[f"/usr/bin/{program}"], "-rwxr-xr-x")
            self.assertIn(f"/usr/share/man/man1/{program}.1", found)
            self.assertIn(f"/usr/share/bash-completion/completions/{program}", found)
        for path in ("/etc/outrider/outrider.env", "/usr/share/zsh/vendor-completions/_outrider", "/usr/share/doc/outrider/copyright",
                     "/usr/share/doc/outrider/CHANGELOG.md", "/usr/share/doc/outrider/docs/releases.md", "/usr/share/outrider/models/tales-6m-f16.gguf",
                     "/usr/lib/systemd/system/outrider-coordinator.service"):
            self.assertEqual(found[path], "-rw-r--r--")
        self.assertFalse([path for path in found if not path.startswith(("/etc/", "/usr/")) and path != "/"])

    def test_units_and_scripts(self):
        run("dpkg-deb", "-R", self.package, self.folder / "all")
        control = self.folder / "all/DEBIAN"
        self.assertEqual((control / "conffiles").read_text(), "/etc/outrider/outrider.env\n")
        for script in ("postinst", "prerm", "postrm"):
            run("sh", "-n", control / script)
            self.assertTrue(os.access(control / script, os.X_OK))
        text = (self.folder / "all/usr/lib/systemd/system/outrider-drafter.service").read_text()
        self.assertIn("ExecStart=/usr/bin/outrider-drafter ", text)
        self.assertIn("EnvironmentFile=/etc/outrider/outrider.env", text)


if __name__ == "__main__":
    unittest.main()
