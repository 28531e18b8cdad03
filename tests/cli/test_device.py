"""Goal: --device, -ngl and --arith do what they say in every program that runs a model: the text is the CPU's, token for token; what cannot be
is an error that says what to do, or a warning and the CPU where nobody named a device.
Method: the smallest demonstration model as target and as draft model, few tokens. OUTRIDER_BIN chooses the device: programs whose GPU is emulated
by the CPU (tests/emulated/bin), or those of a build, where a machine without a GPU must say so."""
import json
import re
import unittest
from unittest.mock import patch

from cli import DRAFT, ENVIRONMENT, Cluster, call, generate, outrider

LIST = outrider("generate", "--list-devices")[0].decode().splitlines()
GPU = LIST[0].startswith("CUDA0: ")
PAIR = ("-m", DRAFT, "-md", DRAFT, "-c", 64)
GREEDY = ("--temp", 0)
SAMPLED = ("--temp", 1, "-s", 5)
PROMPT = ("-p", "Once upon", "-n", 12, "--draft-nodes", 8)


def tokens(*words):
    return generate(*PROMPT, *words)["tokens"]


def evaluate(*words):
    return json.loads(outrider("model", "eval", "-m", DRAFT, "--ids", "1,458,1112", "--tree", "5,6", "--parents", "-1,-1", "--top", 0, "--json", *words)[0])


@unittest.skipUnless(GPU, "no GPU here")
class OnAGpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with Cluster(*PAIR, "--device", "none", "--device-draft", "none") as cluster:
            connect = ("--connect", cluster.endpoint, "--plain")
            cls.expected = {how: tokens(*connect, *how) for how in (GREEDY, SAMPLED)}

    def check_texts(self, *words):
        """Check that a cluster with these options writes the CPU's texts, plainly and drafted. Return what it logs as it starts."""
        with Cluster(*PAIR, *words) as cluster:
            lines = [cluster.hears(" ready on ") for _ in range(2)]
            connect = ("--connect", cluster.endpoint)
            for how, expected in self.expected.items():
                for plain in ((), ("--plain",)):
                    self.assertEqual(tokens(*connect, *plain, *how), expected, (words, how, plain))
            return lines

    def test_target_and_draft_model(self):
        for line in self.check_texts("--device", "CUDA0", "--device-draft", "CUDA0"):
            self.assertRegex(line, r"ready on CUDA0, .*, kernels cuda,")

    def test_one_of_the_two(self):
        lines = self.check_texts("-dev", "none", "-devd", "CUDA0", "-ngld", "all")
        self.assertEqual({"verifier: " in line: "kernels cuda" in line for line in lines}, {True: False, False: True})

    def test_the_first_gpu_is_taken_unasked(self):
        self.assertEqual(evaluate()["device"], "CUDA0")

    def test_logits_have_the_same_bits(self):
        expected = evaluate("--device", "none")
        self.assertEqual((expected["device"], len(expected["rows"])), ("CPU", 5))
        for layers in ("auto", "all", 99, 1, 0):
            found = evaluate("--device", "CUDA0", "-ngl", layers)
            self.assertEqual((found["device"], found["kernels"], found["arith_id"]), ("CUDA0", "cuda", expected["arith_id"]))
            self.assertEqual(found["rows"], expected["rows"], layers)

    def test_tensor_cores_have_an_arithmetic_of_their_own(self):
        with Cluster(*PAIR, "--arith", "tensor", "--device-draft", "none") as cluster:
            words = ("--connect", cluster.endpoint, "-p", "Once upon", "-n", 8, *SAMPLED)
            plain, drafted = generate(*words, "--plain"), generate(*words)
        self.assertEqual(plain["tokens"], drafted["tokens"])
        self.assertRegex(plain["arith_id"], "^tensor-")

    def test_several_ranks(self):
        """Parts are added up from GPU to GPU. If ranks share one, or a user wants it, they go by way of the host."""
        ways = (({}, "NCCL, emulated"), ({"OR_EMULATED_ONE_DEVICE": "1"}, "the host: ranks 0 and 1 share a GPU"),
                ({"OUTRIDER_NCCL": "no"}, "the host: rank 0 was told --no-nccl"))
        for variables, way in ways if "emulated" in LIST[0] else (({}, ""),):
            with patch.dict(ENVIRONMENT, variables), Cluster("-m", DRAFT, "--plain", "-c", 64, "--np", 2) as cluster:
                self.assertIn("kernels cuda", cluster.hears(" ready on "))
                self.assertIn("ranks add up by " + way, cluster.hears("ranks add up by "))
                self.assertEqual(tokens("--connect", cluster.endpoint, *GREEDY), self.expected[GREEDY])

    def test_bench_step(self):
        words = ("bench", "step", "-m", DRAFT, "--rows", "1,2", "--context", 2, "--repeat", 1)
        for device, name in (("CUDA0", "CUDA0"), ("none", "CPU")):
            lines = json.loads(outrider(*words, "--device", device, "--json")[0])
            self.assertEqual([(line["device"], line["kernels"] == "cuda") for line in lines], 2 * [(name, name == "CUDA0")])
        self.assertRegex(outrider(*words, "--device", "CUDA0")[0].decode(), r"^.*\.gguf on CUDA0, .* kernels cuda, ")

    def test_keys_and_values_of_every_type(self):
        def text(device, key, value):
            with Cluster("-m", DRAFT, "--plain", "-c", 64, "-ctk", key, "-ctv", value, "--device", device) as cluster:
                return tokens("--connect", cluster.endpoint, *SAMPLED)

        for types in (("q8_0", "q8_0"), ("f16", "q8_0"), ("q8_0", "f32")):
            self.assertEqual(text("CUDA0", *types), text("none", *types), types)

    @unittest.skipUnless("emulated" in LIST[0], "a GPU has more memory")
    def test_what_a_gpu_cannot_run_the_cpu_does(self):
        words, small = ("-m", DRAFT, "--plain", "-c", 64), {"OR_EMULATED_MEMORY": "65536"}
        with Cluster(*words, **small) as cluster:
            self.assertIn("runs on the CPU: the GPU: ", cluster.hears("runs on the CPU"))
            self.assertIn("ready on CPU,", cluster.hears(" ready on "))
            self.assertEqual(tokens("--connect", cluster.endpoint, *GREEDY), self.expected[GREEDY])
        error = outrider("generate", "-p", "x", *words, "--device", "CUDA0", code=None, **small)[1]
        self.assertIn("were asked for; choose a smaller model", error)

    def test_a_gpu_that_is_not_there(self):
        for program in ("outrider-verifier", "outrider-drafter"):
            error = call(program, "-m", DRAFT, "--connect", "tcp://127.0.0.1:9", "--device", "CUDA77", code=2)[1]
            self.assertIn("--device CUDA77: the last one here is CUDA", error)
        self.assertIn("outrider-verifier: --device CUDA77", outrider("generate", "-p", "x", *PAIR, "-dev", "CUDA77", code=None)[1])
        error = outrider("generate", "-p", "x", *PAIR, "-dev", "none", "-devd", "CUDA77", code=None)[1]
        self.assertIn("outrider-drafter: --device-draft CUDA77: the last one here is CUDA", error)
        self.assertIn("--list-devices", outrider("model", "eval", "--ids", 1, "-dev", "CUDA77", code=1)[1])

    def test_the_doctor_sees_it(self):
        checks = json.loads(outrider("doctor", "--json", code=None)[0])["checks"]
        (check,) = [check for check in checks if check["name"] == "gpu CUDA0"]
        self.assertEqual(("CUDA0: " + check["detail"]).split(",")[0], LIST[0].split(",")[0])
        (check,) = [check for check in checks if check["name"] == "--device auto"]
        self.assertEqual((check["state"], check["detail"]), ("ok", "takes CUDA0"))


@unittest.skipIf(GPU, "a GPU is here")
class WithoutAGpu(unittest.TestCase):
    def test_the_reason_is_said(self):
        self.assertEqual(len(LIST), 1)
        self.assertRegex(LIST[0], r"^no GPU can be used here: .+")

    def test_models_run_on_the_cpu(self):
        self.assertEqual(evaluate()["device"], "CPU")
        with Cluster("-m", DRAFT, "--plain", "-c", 64) as cluster:
            self.assertIn("ready on CPU,", cluster.hears(" ready on "))

    def test_whoever_wants_layers_there_reads_why_not(self):
        error = outrider("generate", *PROMPT, *PAIR, "-ngl", 2)[1]
        self.assertEqual(re.findall(r"warn generate: (\S+): \S+ runs on the CPU: (.*)", error), [("outrider-verifier", LIST[0].split(": ", 1)[1])])
        self.assertIn("runs on the CPU: ", outrider("model", "eval", "-m", DRAFT, "--ids", 1, "-ngl", 1)[1])

    def test_asking_for_one_is_an_error(self):
        for program in ("outrider-verifier", "outrider-drafter"):
            for words in (("--device", "CUDA0"), ("--arith", "tensor")):
                error = call(program, "-m", DRAFT, "--connect", "tcp://127.0.0.1:9", *words, code=2)[1]
                self.assertIn(f"{words[0]} {words[1]}: ", error)
                self.assertIn("leave this out", error)
        self.assertIn("leave this out", outrider("generate", "-p", "x", *PAIR, "-devd", "CUDA0", code=None)[1])

    def test_the_doctor_says_so(self):
        checks = json.loads(outrider("doctor", "--json", code=None)[0])["checks"]
        (check,) = [check for check in checks if check["name"] == "gpu"]
        self.assertIn(check["detail"].split(": ", 1)[0], ("none, models run on the CPU", "one of NVIDIA's is here, but models run on the CPU"))
        self.assertTrue(LIST[0].endswith(check["detail"].split(": ", 1)[1]))


class Words(unittest.TestCase):
    PROGRAMS = (("outrider", "generate"), ("outrider", "chat"), ("outrider", "up"), ("outrider", "bench"), ("outrider", "bench", "load"),
                ("outrider", "bench", "step"), ("outrider", "model", "eval"), ("outrider-verifier",), ("outrider-drafter",))

    def test_every_program_lists_devices(self):
        for words in self.PROGRAMS:
            out, error = call(*words, "--list-devices")
            names = [line.split(",")[0] for line in out.decode().splitlines()]  # without what is free
            self.assertEqual((names, error), ([line.split(",")[0] for line in LIST], ""), words)

    def test_help(self):
        for words in self.PROGRAMS:
            text = call(*words, "--help")[0].decode()
            for option in ("-dev, --device NAME", "-ngl, --gpu-layers N", "--arith NAME", "--list-devices"):
                self.assertIn(option, text, words)
            local = words[0] == "outrider" and words[-1] not in ("step", "eval")
            for option in ("-devd, --device-draft NAME", "-ngld, --gpu-layers-draft N", "--arith-draft NAME"):
                self.assertEqual(option in text, local, words)

    def test_layers_of_the_cpu_are_warned_of(self):
        words = ("generate", *PROMPT, *PAIR, "-dev", "none", "-devd", "none")
        error = outrider(*words, "-ngld", 3)[1]
        self.assertRegex(error, r"warn generate: outrider-drafter: \S+ runs on the CPU: --device-draft none leaves --gpu-layers-draft without effect\n")
        self.assertNotIn("outrider-verifier:", error)
        for layers in ((), ("-ngl", 0), ("-ngl", "auto")):
            self.assertNotIn(" warn ", outrider(*words, *layers)[1])

    def test_what_makes_no_sense_is_refused(self):
        for words, said in ((("-dev", "gpu"), "--device: 'gpu' is none of"), (("-devd", "CUDA"), "--device-draft: 'CUDA'"),
                            (("-dev", "CUDA-1"), "--device: 'CUDA-1'"), (("-ngl", "many"), "--gpu-layers: 'many'"),
                            (("-ngld", "-1"), "--gpu-layers-draft: '-1'"), (("--arith", "fast"), "--arith: 'fast'"),
                            (("--arith", "tensor", "--device", "none"), "--arith: tensor is a GPU's"),
                            (("--connect", "tcp://127.0.0.1:9", "-ngl", "3"), "-ngl/--gpu-layers is for a local cluster")):
            self.assertIn(said, outrider("generate", "-p", "x", *words, code=2)[1])
        for words in (("bench", "step"), ("model", "eval", "--ids", 1)):
            self.assertIn("--device: 'gpu'", outrider(*words, "--device", "gpu", code=2)[1])


if __name__ == "__main__":
    unittest.main()
