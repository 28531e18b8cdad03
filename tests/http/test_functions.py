"""Goal: tools work over HTTP as clients of OpenAI's API expect, whole and streamed, from the request to a call, its result and back.
Method: models that write a script whatever they are asked, with published templates; real processes, and the openai package where it is at hand."""
import json
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cli")]

import scripted_model  # noqa: E402
from cli import data  # noqa: E402
from http_case import Cluster, need  # noqa: E402

TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]
ASKED = [{"role": "user", "content": "How is the weather?"}]
HERMES = ["<think>", "Hm.", "</think>", "\n\nLet me look.\n", "<tool_call>", '\n{"name": "get_weather", ', '"arguments": {"city": "Ro', 'me"}}\n', "</tool_call>"]
NEMO = ["[TOOL_CALLS]", '[{"name": "get_weather", "arguments": {"city": "Rome"}}, ', '{"name": "now", "arguments": {}}]']
LLAMA = ["\n\n", '{"name": "get_weather", ', '"parameters": {"city": "Rome"}}', "; ", '{"name": "now", "parameters": {}}']
BROKEN = ["So: ", "<tool_call>", '{"name": "get_weather"}', "</tool_call>", " done"]


def served(case, template, script):
    folder = tempfile.TemporaryDirectory()
    case.addCleanup(folder.cleanup)
    model = Path(folder.name) / "scripted.gguf"
    scripted_model.write(model, data(f"templates/{template}.jinja").read_text(), script)
    return case.enterContext(Cluster("-m", model, "-md", model))


class Functions(unittest.TestCase):
    def ask(self, cluster, messages=None, **more):
        status, _, answer = cluster.ask("POST", "/v1/chat/completions", {"messages": messages or ASKED, "temperature": 0, "max_tokens": 100, **more})
        self.assertEqual(status, 200, answer)
        return answer["choices"][0]

    def stream(self, cluster, **more):
        """Return content, thought, calls and finish_reason as a client gathers them."""
        status, _, text = cluster.ask("POST", "/v1/chat/completions", {"messages": ASKED, "temperature": 0, "max_tokens": 100, "stream": True, **more})
        self.assertEqual(status, 200, text)
        self.assertNotIn("\nid: ", "\n" + text)
        events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
        choices = [event["choices"][0] for event in events]
        deltas = [choice["delta"] for choice in choices]
        calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
        self.assertEqual([call.pop("index") for call in calls], list(range(len(calls))))
        return "".join(delta.get("content") or "" for delta in deltas), "".join(delta.get("reasoning_content", "") for delta in deltas), calls, choices[-1]["finish_reason"]

    def test_a_call_and_its_result(self):
        cluster = served(self, "Qwen-Qwen3-0.6B", HERMES)
        choice = self.ask(cluster, tools=TOOLS)
        message = choice["message"]
        self.assertEqual(choice["finish_reason"], "tool_calls")
        self.assertEqual(message["content"], "Let me look.\n")
        self.assertEqual(message["reasoning_content"], "Hm.")
        [call] = message["tool_calls"]
        self.assertEqual(call["type"], "function")
        self.assertEqual(call["function"], {"name": "get_weather", "arguments": '{"city": "Rome"}'})
        content, thought, calls, finish = self.stream(cluster, tools=TOOLS)
        self.assertEqual((content, thought, finish), (message["content"], "Hm.", "tool_calls"))
        self.assertEqual([one["function"] for one in calls], [call["function"]])
        # The message goes back as it came, with the result.
        back = [*ASKED, message, {"role": "tool", "tool_call_id": call["id"], "content": "sunny"}]
        self.assertEqual(self.ask(cluster, back, tools=TOOLS)["finish_reason"], "tool_calls")
        # Without tools the marks are words.
        for more in ({}, {"tools": TOOLS, "tool_choice": "none"}):
            choice = self.ask(cluster, **more)
            self.assertIn("<tool_call>", choice["message"]["content"])
            self.assertEqual(choice["finish_reason"], "stop")
            self.assertNotIn("tool_calls", choice["message"])
        # A text that ends inside a call has none, and a stop string is not looked for in one.
        choice = self.ask(cluster, tools=TOOLS, max_tokens=7)
        self.assertEqual(choice["finish_reason"], "length")
        self.assertTrue(choice["message"]["content"].endswith('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Ro'))
        self.assertEqual(self.ask(cluster, tools=TOOLS, stop=["Rome"])["finish_reason"], "tool_calls")
        self.assertEqual(self.ask(cluster, tools=TOOLS, stop=["look"])["message"]["content"], "Let me ")

    def test_the_openai_package(self):
        openai = need("openai")
        cluster = served(self, "Qwen-Qwen3-0.6B", HERMES)
        client = openai.OpenAI(base_url=cluster.url + "/v1", api_key="none")
        with client.chat.completions.create(model="outrider", messages=ASKED, tools=TOOLS, temperature=0, stream=True) as stream:
            calls = [call for event in stream for call in event.choices[0].delta.tool_calls or []]
        self.assertEqual([(call.index, call.function.name, json.loads(call.function.arguments)) for call in calls], [(0, "get_weather", {"city": "Rome"})])
        message = client.chat.completions.create(model="outrider", messages=ASKED, tools=TOOLS, temperature=0).choices[0].message
        again = client.chat.completions.create(model="outrider", messages=[*ASKED, message, {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sunny"}],
                                               tools=TOOLS, temperature=0)
        self.assertEqual(again.choices[0].finish_reason, "tool_calls")

    def test_marks_that_print_nothing(self):
        cluster = served(self, "mistralai-Mistral-Nemo-Instruct-2407", NEMO)
        choice = self.ask(cluster, tools=TOOLS)
        message = choice["message"]
        self.assertIsNone(message["content"])
        self.assertEqual(choice["finish_reason"], "tool_calls")
        self.assertEqual([call["function"] for call in message["tool_calls"]],
                         [{"name": "get_weather", "arguments": '{"city": "Rome"}'}, {"name": "now", "arguments": "{}"}])
        _, _, calls, _ = self.stream(cluster, tools=TOOLS)
        self.assertEqual([call["function"] for call in calls], [call["function"] for call in message["tool_calls"]])
        self.assertEqual(len(self.ask(cluster, tools=TOOLS, parallel_tool_calls=False)["message"]["tool_calls"]), 1)
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "x"} for call in message["tool_calls"]]
        self.assertEqual(self.ask(cluster, [*ASKED, message, *results], tools=TOOLS)["finish_reason"], "tool_calls")
        # The tokens of an answer have its text, marks spelled out.
        status, _, answer = cluster.ask("POST", "/v1/chat/completions", {"messages": ASKED, "temperature": 0, "max_tokens": 100, "tools": TOOLS, "draft": {"details": True}})
        self.assertEqual((status, "".join(token["text"] for token in answer["choices"][0]["outrider"]["tokens"])), (200, "".join(NEMO)))
        # Its template demands ids of nine characters.
        message["tool_calls"][0]["id"] = "call_1"
        status, _, answer = cluster.ask("POST", "/v1/chat/completions", {"messages": [*ASKED, message], "tools": TOOLS})
        self.assertEqual(status, 400)
        self.assertIn("9 characters", answer["error"]["message"])

    def test_a_call_without_a_mark(self):
        cluster = served(self, "meta-llama-Llama-3.1-8B-Instruct", LLAMA)
        choice = self.ask(cluster, tools=TOOLS)
        message = choice["message"]
        self.assertEqual((message["content"], choice["finish_reason"]), (None, "tool_calls"))
        # A message of this format has one call: with more it could not go back.
        [call] = message["tool_calls"]
        self.assertEqual(call["function"], {"name": "get_weather", "arguments": '{"city": "Rome"}'})
        content, _, calls, _ = self.stream(cluster, tools=TOOLS)
        self.assertEqual((content, [one["function"] for one in calls]), ("", [call["function"]]))
        back = [*ASKED, message, {"role": "tool", "tool_call_id": call["id"], "content": "sunny"}]
        self.assertEqual(self.ask(cluster, back, tools=TOOLS)["finish_reason"], "tool_calls")

    def test_what_is_no_call_is_text(self):
        cluster = served(self, "Qwen-Qwen2.5-7B-Instruct", BROKEN)
        choice = self.ask(cluster, tools=TOOLS)
        self.assertEqual(choice["message"]["content"], "".join(BROKEN))
        self.assertEqual(choice["finish_reason"], "stop")
        content, _, calls, finish = self.stream(cluster, tools=TOOLS)
        self.assertEqual((content, calls, finish), ("".join(BROKEN), [], "stop"))

    def test_a_template_without_a_format_is_named(self):
        cluster = served(self, "google-gemma-2-2b-it", BROKEN)
        status, _, answer = cluster.ask("POST", "/v1/chat/completions", {"messages": ASKED, "tools": TOOLS})
        self.assertEqual((status, answer["error"]["param"]), (400, "tools"))
        self.assertIn("no format of tools for its chat template, gemma.", answer["error"]["message"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
