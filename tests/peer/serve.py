#!/usr/bin/env python3
"""Speculative decoding end to end, beside its own bound and beside ik_llama.cpp's llama-server with the same two files.

    outrider model inflate launch/models/tales-6m-f16.gguf big.gguf 300M --type Q8_0
    serve.py --target big.gguf --draft launch/models/tales-1m-f16.gguf --corpus tales.txt.xz --peer ik_llama.cpp/build/bin

Ours is `outrider up` with nothing but its defaults: one text after the other, written once plainly and once as it is done if nobody says how. Beside it `outrider
bench` says what the parts of a round with guesses take. With times in plain steps, E tokens a target call can make decoding at most

    bound = E / (tree step + unhidden draft time)

times faster; what is missing to that is coordination and wires ("elsewhere"), with defaults also trying. The peer generates the same prompts with each draft length, and without
a draft model; a text that takes it longer than --peer-patience is the last of its turn, and those before it count. By turns; figures are medians over
the turns. Not a test: it takes minutes, and says nothing on a machine that is busy.
"""
import argparse
import json
import lzma
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from peer import Cluster, absolute, end, free_port, median, print_table, processor, run_json, say

ROOT = Path(__file__).resolve().parents[2]
PROMPT_LETTERS = 300
SHARE_ASKED = 0.9  # of the bound
PEER_ASKED = 2.0  # times the peer's best
GAIN_ASKED_AT_0, GAIN_ASKED = 1.6, 1.8  # times plain decoding, at temperature 0 and else


def prompts_of(path, count):
    """Beginnings of paragraphs, spread evenly over a text."""
    text = (lzma.open(path, "rt") if path.suffix == ".xz" else open(path, encoding="utf-8")).read()
    paragraphs = [part for part in text.split("\n") if len(part) > PROMPT_LETTERS]
    if len(paragraphs) < count:
        raise SystemExit(f"{path} has only {len(paragraphs)} paragraphs of more than {PROMPT_LETTERS} letters")
    return [paragraphs[i * len(paragraphs) // count][:PROMPT_LETTERS].rsplit(" ", 1)[0] for i in range(count)]


# ---- ours ----

def bench(options, prompts_file, temperature, seed):
    words = [options.outrider, "bench", "--json", "-m", options.target, "-md", options.draft, "-t", options.threads, "-td", options.draft_threads,
             "--prompts", prompts_file, "-n", options.predict, "--ignore-eos", "--temp", temperature, "--repeats", 1, "--seed", seed,
             "--methods", "coupled", "--nodes", options.nodes, "--draft-policy", options.policy, *options.our_options.split()]
    cases = run_json(words)["cases"]
    plain = next(case for case in cases if case["name"] == "plain")
    return plain, {case["nodes"]: case for case in cases if case["name"] != "plain"}


def terms(plain, case):
    """The parts of a speed-up; times in plain steps."""
    step = plain["round_us"]["verify"]
    found = {"E": case["block_efficiency"], "tree step": case["round_us"]["verify"] / step, "unhidden draft": case["round_us"]["draft"] / step,
             "accept": case["round_us"]["accept"] / step, "elsewhere": case["round_us"]["elsewhere"] / step,
             "draft passes": case["draft_passes"] / case["target_calls"], "ahead hits": case["ahead_hit_rate"] or 0,
             "tokens/s": case["tokens_per_second"], "plain tokens/s": plain["tokens_per_second"], "plain step, ms": step / 1e3,
             "differing": case["texts_differing"]}
    found["bound"] = found["E"] / (found["tree step"] + found["unhidden draft"])
    found["speed-up"] = case["tokens_per_second"] / plain["tokens_per_second"]
    found["share"] = found["speed-up"] / found["bound"]
    return found


def generate(cluster, prompt, predict, temperature, seed, *more):
    """Tokens written and the milliseconds they took, prompt excluded."""
    found = run_json([cluster.outrider, "generate", "--connect", cluster.endpoint, "-p", prompt, "-n", predict, "--ignore-eos", "--temp", temperature,
                      "--seed", seed, "--json", *more])
    tokens = found["completion_tokens"]
    return tokens, 1e3 * tokens / found["tokens_per_second"]


def by_default(options, prompts, temperature, seed):
    """Tokens a second over all prompts: plainly, and with defaults."""
    with Cluster(options.outrider, options.target, options.draft) as cluster:
        generate(cluster, "Once", 8, 0, 1)  # pages and caches, once
        each = [[generate(cluster, prompt, options.predict, temperature, seed, *more) for more in (("--plain",), ())] for prompt in prompts]
    return [rate(done) for done in zip(*each)]


# ---- the peer's ----

class Server:
    """llama-server on a free port of loopback."""

    def __init__(self, options, draft_length):
        self.port = free_port()
        words = [options.peer / "llama-server", "-m", options.target, "--host", "127.0.0.1", "--port", self.port, "-t", options.threads,
                 "-c", options.context, "-np", 1, *options.peer_options.split()]
        if draft_length > 0:
            words += ["-md", options.draft, "-td", options.draft_threads, "-cd", options.context, "--spec-type", f"draft:n_max={draft_length}"]
        self.patience = options.peer_patience
        self.folder = tempfile.TemporaryDirectory()  # it leaves logs where it runs
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, cwd=self.folder.name)

    def __enter__(self):
        end = time.monotonic() + 120
        while time.monotonic() < end and self.process.poll() is None:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).read()
                return self
            except OSError:
                time.sleep(0.2)
        self.__exit__()
        self.log.seek(0)
        raise SystemExit("llama-server does not start:\n" + self.log.read()[-2000:].decode(errors="replace"))

    def __exit__(self, *_):
        end(self.process, signal.SIGTERM)
        self.folder.cleanup()

    def complete(self, prompt, predict, temperature, seed):
        """Tokens written and the milliseconds they took, prompt excluded. TimeoutError if it is too slow; then it still works on them."""
        body = {"prompt": prompt, "n_predict": predict, "temperature": temperature, "seed": seed, "ignore_eos": True, "cache_prompt": False, "top_k": 0,
                "top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.0}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"})
        timings = json.load(urllib.request.urlopen(request, timeout=self.patience))["timings"]
        return timings["predicted_n"], timings["predicted_ms"]


def rate(done):
    """Tokens a second of (tokens, milliseconds) together."""
    return 1e3 * sum(tokens for tokens, _ in done) / sum(ms for _, ms in done)


def peer_rate(options, prompts, draft_length, temperature, seed):
    """Tokens a second over all prompts it had the patience's time for; None if for none."""
    done = []
    with Server(options, draft_length) as server:
        try:
            server.complete(prompts[0], 8, temperature, seed)  # pages and caches, once
            for prompt in prompts:
                done.append(server.complete(prompt, options.predict, temperature, seed))
                say(f"  peer, drafts of {draft_length}, prompt {len(done)} of {len(prompts)}: {rate(done[-1:]):.1f} tokens/s")
        except TimeoutError:
            say(f"  peer, drafts of {draft_length}: TOO SLOW, no answer within {options.peer_patience} s (--peer-patience); {len(done)} of {len(prompts)} "
                "prompts count. Is the machine busy? Its threads spin: fewer (-t) may be faster")
        except urllib.error.HTTPError as error:
            say(f"  peer, drafts of {draft_length}: it answered with {error}; {len(done)} of {len(prompts)} prompts count")
    return rate(done) if done else None


# ---- both ----

def measure(options, prompts, prompts_file, temperature):
    """Our rates with defaults, plain ones first; our terms by tree size; the peer's rates by draft length (0: without); each a list over turns."""
    defaults, ours, peers = [], {}, {}
    for turn in range(options.turns):
        defaults.append(by_default(options, prompts, temperature, turn + 1))
        plain, cases = bench(options, prompts_file, temperature, turn + 1)
        for nodes, case in cases.items():
            ours.setdefault(nodes, []).append(terms(plain, case))
        say(f"temperature {temperature}, turn {turn + 1} of {options.turns}: ours plainly {defaults[-1][0]:.1f}, with defaults {defaults[-1][1]:.1f}, " +
            ", ".join(f"{nodes} nodes {found[-1]['tokens/s']:.1f}" for nodes, found in ours.items()) + " tokens/s")
        for length in options.draft_lengths if options.peer else []:
            found = peer_rate(options, prompts, length, temperature, turn + 1)
            peers.setdefault(length, []).extend([] if found is None else [found])
    return defaults, ours, peers


def verdict(name, found, asked):
    return [name, f"{found:.2f}", "", asked, "met" if found >= asked else "not met"]


def middle(found, key):
    return median([term[key] for term in found])


def report(options, temperature, defaults, ours, peers):
    print(f"Temperature {temperature}, {options.prompts} prompts, {options.predict} tokens each, {processor()}, {options.threads} + {options.draft_threads} "
          f"threads, medians of {options.turns}\n")
    keys = ["E", "tree step", "unhidden draft", "accept", "elsewhere", "draft passes", "ahead hits", "bound", "speed-up", "share", "plain step, ms",
            "plain tokens/s", "tokens/s", "differing"]
    print_table(["nodes"] + keys, [[nodes] + [f"{middle(found, key):.2f}" for key in keys] for nodes, found in ours.items()])
    best = max(ours.values(), key=lambda found: middle(found, "tokens/s"))
    plain, rates = zip(*defaults)
    gain = median([drafted / plainly for plainly, drafted in defaults])
    share = gain / middle(best, "bound")
    gain_asked = GAIN_ASKED_AT_0 if float(temperature) == 0 else GAIN_ASKED
    print_table(["with defaults", "tokens/s", "best", "asked", ""],
                [["plainly", f"{median(plain):.1f}", f"{max(plain):.1f}", "", ""], ["as it comes", f"{median(rates):.1f}", f"{max(rates):.1f}", "", ""],
                 verdict("times plain decoding", gain, gain_asked), verdict("share of the bound", share, SHARE_ASKED)])
    if peers:
        print_table(["peer's drafts of", "tokens/s"], [[length or "none", f"{median(found):.1f}" if found else "too slow"] for length, found in peers.items()])
    if any(peers.values()):
        ratio = median(rates) / max(median(found) for found in peers.values() if found)
        print(f"ours with defaults / peer's best {ratio:.2f}, asked {PEER_ASKED}: {'met' if ratio >= PEER_ASKED else 'not met'}\n", flush=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=absolute, required=True, metavar="FILE", help="the target model (GGUF)")
    parser.add_argument("--draft", type=absolute, required=True, metavar="FILE", help="the draft model (GGUF), of the same vocabulary")
    parser.add_argument("--corpus", type=Path, required=True, metavar="FILE", help="a text, perhaps .xz, whose paragraphs begin the prompts")
    parser.add_argument("--peer", type=absolute, metavar="DIR", help="the folder with the peer's llama-server; not given: ours alone")
    parser.add_argument("--outrider", type=Path, default=ROOT / "build/release/bin/outrider", metavar="FILE", help="ours; default: %(default)s")
    parser.add_argument("--prompts", type=int, default=20, metavar="N", help="default: %(default)s")
    parser.add_argument("-n", "--predict", type=int, default=128, metavar="N", help="tokens after each; default: %(default)s")
    parser.add_argument("-c", "--context", type=int, default=512, metavar="N", help="the peer's; default: %(default)s")
    parser.add_argument("-t", "--threads", type=int, default=os.cpu_count(), metavar="N", help="of the target; default: %(default)s")
    parser.add_argument("-td", "--draft-threads", type=int, default=os.cpu_count(), metavar="N", help="of the draft model; default: %(default)s")
    parser.add_argument("--temperatures", default="0,1", metavar="LIST", help="default: %(default)s")
    parser.add_argument("--nodes", default="64", metavar="LIST", help="outrider bench's trees, at most; default: %(default)s")
    parser.add_argument("--policy", default="auto", metavar="NAME", help="outrider bench's: fixed or auto; default: %(default)s")
    parser.add_argument("--draft-lengths", default="0,2,4,8,16", metavar="LIST", help="the peer's; 0: no draft model; default: %(default)s")
    parser.add_argument("--turns", type=int, default=5, metavar="N", help="default: %(default)s")
    parser.add_argument("--our-options", default="", metavar="WORDS", help="more for outrider bench")
    parser.add_argument("--peer-patience", type=float, default=120, metavar="S", help="seconds that the peer may take for a text; default: %(default)s")
    parser.add_argument("--peer-options", default="", metavar="WORDS", help="more for llama-server")
    options = parser.parse_args()
    options.draft_lengths = [int(word) for word in options.draft_lengths.split(",")]
    for program in [options.outrider] + ([options.peer / "llama-server"] if options.peer else []):
        if not os.access(program, os.X_OK):
            parser.error(f"{program} is no program")
    return options


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and take the server along
    prompts = prompts_of(options.corpus, options.prompts)
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.writelines(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts)
        file.flush()
        for temperature in options.temperatures.split(","):
            report(options, temperature, *measure(options, prompts, file.name, float(temperature)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
