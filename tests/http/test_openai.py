# Goal: OpenAI's own Python client, unmodified, works against a cluster: completions, chat, streaming, logprobs, stop, seed, n, usage, errors.
# Method: its calls, and for each the text that `outrider generate` writes with the same seed. Conversations: the demonstration models have no
# template of their own, so the coordinator is told one.
import math
import time
import unittest

from http_case import MODEL, PROMPT, Cluster, generate, need

openai = need("openai")

CHAT = [{"role": "system", "content": "You tell tales."}, {"role": "user", "content": "Once upon"}]


class OpenAiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster("--chat-template", "chatml"))
        cls.client = openai.OpenAI(base_url=f"{cls.cluster.url}/v1", api_key="none-is-needed", max_retries=0)

    def complete(self, **settings):
        return self.client.completions.create(**{"model": MODEL, "prompt": PROMPT, "temperature": 0, "max_tokens": 24, **settings})

    def chat(self, **settings):
        return self.client.chat.completions.create(**{"model": MODEL, "messages": CHAT, "temperature": 0, "max_completion_tokens": 24,
                                                      **settings})

    def generate(self, *words):
        return generate("--connect", self.cluster.endpoint, "-p", PROMPT, "-n", 24, *words)

    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()], [MODEL])
        self.assertEqual(self.client.models.retrieve(MODEL).owned_by, "outrider")
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("gpt-4")

    def test_the_text_is_the_commands(self):
        for settings, words in [({"temperature": 0}, ["--temp", 0]),
                                ({"temperature": 1, "seed": 7}, ["--temp", 1, "-s", 7]),
                                ({"temperature": 0.7, "top_p": 0.9, "seed": 8}, ["--temp", 0.7, "--top-p", 0.9, "-s", 8]),
                                ({"temperature": 1, "seed": 9, "extra_body": {"top_k": 20, "min_p": 0.02, "draft": False}},
                                 ["--temp", 1, "-s", 9, "--top-k", 20, "--min-p", 0.02, "--plain"])]:
            answer = self.complete(**settings)
            expected = self.generate(*words)
            self.assertEqual(answer.choices[0].text, expected["text"], settings)
            self.assertEqual(answer.choices[0].finish_reason, expected["finish_reason"])
            self.assertEqual(answer.usage.completion_tokens, expected["completion_tokens"])
            self.assertEqual(answer.usage.prompt_tokens, expected["prompt_tokens"])
            self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
            self.assertEqual(answer.system_fingerprint, expected["arith_id"])

    def test_a_seed_nobody_chose_is_told(self):
        first = self.complete(temperature=1)
        self.assertEqual(self.complete(temperature=1, seed=first.seed).choices[0].text, first.choices[0].text)

    def test_stream(self):
        whole = self.complete()
        chunks = list(self.complete(stream=True, stream_options={"include_usage": True}))
        self.assertEqual("".join(chunk.choices[0].text for chunk in chunks if chunk.choices), whole.choices[0].text)
        self.assertEqual([chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1], "length")
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)
        self.assertEqual(len({chunk.id for chunk in chunks}), 1)

    def test_stop(self):
        whole = self.complete(max_tokens=60).choices[0].text
        mark = whole[20:24]
        for stop in (mark, ["nowhere in it", mark]):
            answer = self.complete(max_tokens=60, stop=stop)
            self.assertEqual(answer.choices[0].text, whole[:whole.index(mark)])
            self.assertEqual(answer.choices[0].finish_reason, "stop")

    def test_several_texts(self):
        answer = self.complete(n=3, temperature=1, seed=5)
        texts = [choice.text for choice in answer.choices]
        self.assertEqual([choice.index for choice in answer.choices], [0, 1, 2])
        self.assertEqual(len(set(texts)), 3, "each has noise of its own")
        self.assertEqual(texts[0], self.generate("--temp", 1, "-s", 5)["text"])
        self.assertEqual([choice.text for choice in self.complete(n=3, temperature=1, seed=5).choices], texts)
        streamed = ["", "", ""]
        for chunk in self.complete(n=3, temperature=1, seed=5, stream=True):
            streamed[chunk.choices[0].index] += chunk.choices[0].text
        self.assertEqual(streamed, texts)

    def test_several_prompts(self):
        prompts = [PROMPT, "It was", "The sea"]
        answer = self.complete(prompt=prompts)
        for prompt, choice in zip(prompts, answer.choices):
            self.assertEqual(choice.text, self.complete(prompt=prompt).choices[0].text)
        tokens = self.cluster.post("/tokenize", {"content": PROMPT, "add_special": True})[2]["tokens"]
        self.assertEqual(self.complete(prompt=tokens).choices[0].text, answer.choices[0].text)
        self.assertEqual([choice.text for choice in self.complete(prompt=[tokens, tokens]).choices], [answer.choices[0].text] * 2)

    def test_echo(self):
        plain = self.complete().choices[0].text
        self.assertEqual(self.complete(echo=True).choices[0].text, PROMPT + plain)
        self.assertEqual("".join(chunk.choices[0].text for chunk in self.complete(echo=True, stream=True)), PROMPT + plain)

    def check_logprobs(self, tokens, logprobs, text):
        self.assertEqual("".join(tokens), text)
        self.assertTrue(all(math.isfinite(logprob) and logprob <= 0 for logprob in logprobs))

    def test_logprobs_of_a_completion(self):
        choice = self.complete(logprobs=4).choices[0]
        self.check_logprobs(choice.logprobs.tokens, choice.logprobs.token_logprobs, choice.text)
        for token, logprob, top, offset in zip(choice.logprobs.tokens, choice.logprobs.token_logprobs, choice.logprobs.top_logprobs,
                                               choice.logprobs.text_offset):
            self.assertTrue(choice.text[offset:].startswith(token))
            self.assertIn(len(top), (4, 5))
            self.assertEqual(max(top.values()), logprob, "at temperature 0 the best one is taken")
        streamed = [chunk.choices[0].logprobs for chunk in self.complete(logprobs=4, stream=True) if chunk.choices[0].logprobs]
        self.assertEqual([token for part in streamed for token in part.tokens], choice.logprobs.tokens)
        self.assertEqual([offset for part in streamed for offset in part.text_offset], choice.logprobs.text_offset)

    def test_chat(self):
        answer = self.chat()
        message = answer.choices[0].message
        self.assertEqual(message.role, "assistant")
        self.assertGreater(len(message.content), 10)
        self.assertEqual(answer.object, "chat.completion")
        parts = [{"role": turn["role"], "content": [{"type": "text", "text": turn["content"]}]} for turn in CHAT]
        self.assertEqual(self.chat(messages=parts).choices[0].message.content, message.content)
        self.assertEqual(self.chat().usage.prompt_tokens, answer.usage.prompt_tokens)

    def test_chat_stream(self):
        whole = self.chat().choices[0].message.content
        chunks = list(self.chat(stream=True))
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual("".join(chunk.choices[0].delta.content or "" for chunk in chunks), whole)
        self.assertEqual(chunks[-1].choices[0].finish_reason, "length")
        self.assertTrue(all(chunk.object == "chat.completion.chunk" for chunk in chunks))

    def test_logprobs_of_a_chat(self):
        choice = self.chat(logprobs=True, top_logprobs=2).choices[0]
        self.check_logprobs([entry.token for entry in choice.logprobs.content], [entry.logprob for entry in choice.logprobs.content],
                            choice.message.content)
        for entry in choice.logprobs.content:
            self.assertEqual(bytes(entry.bytes).decode(), entry.token)
            self.assertEqual(len(entry.top_logprobs), 2)
            self.assertEqual(entry.top_logprobs[0].logprob, entry.logprob)

    def test_bias_bans(self):
        tokens = self.cluster.post("/tokenize", {"content": PROMPT})[2]["tokens"]
        first = self.complete(logprobs=0).choices[0].logprobs.tokens[0]
        (banned,) = [piece["id"] for piece in self.cluster.post("/tokenize", {"content": first.strip(), "with_pieces": True})[2]["tokens"]]
        self.assertFalse(self.complete(logit_bias={str(banned): -100}).choices[0].text.startswith(first))
        self.assertTrue(self.complete(max_tokens=2, logit_bias={str(tokens[0]): 100}).choices[0].text)

    def test_cached_tokens_and_timings(self):
        prompt = "There was a king who had three sons, and the eldest of them went into the forest. " * 3
        self.complete(prompt=prompt)
        again = self.complete(prompt=prompt)
        self.assertGreater(again.usage.prompt_tokens_details.cached_tokens, 32)
        self.assertEqual(again.timings["predicted_n"], again.usage.completion_tokens)
        self.assertEqual(again.timings["prompt_n"] + again.timings["cache_n"], again.usage.prompt_tokens)
        self.assertGreaterEqual(again.timings["draft_n"], again.timings["draft_n_accepted"])
        self.assertEqual(self.complete(extra_body={"draft": False}).timings["draft_n"], 0)
        self.assertAlmostEqual(again.timings["predicted_per_second"], 1e3 * again.timings["predicted_n"] / again.timings["predicted_ms"], 3)

    def test_rates_of_short_texts(self):
        """A rate is never over less time than its tokens took."""
        for most in (1, 2, 4):
            begin = time.monotonic()
            choices = self.complete(n=2, max_tokens=most, temperature=1).choices
            seconds = time.monotonic() - begin
            for choice in choices:
                rounds = choice.timings["target_calls"]
                self.assertLess(choice.timings["predicted_ms"], 1e3 * seconds)
                self.assertEqual(choice.timings["predicted_per_second"] > 0, rounds > 1)
                self.assertLess(choice.timings["predicted_per_second"], 1e5)

    def test_errors(self):
        for error, settings, param, code in [
                (openai.NotFoundError, {"model": "gpt-4"}, "model", "model_not_found"),
                (openai.BadRequestError, {"max_tokens": -5}, "max_tokens", None),
                (openai.BadRequestError, {"temperature": 3}, "temperature", None),
                (openai.BadRequestError, {"suffix": "the end"}, "suffix", "unsupported_parameter"),
                (openai.BadRequestError, {"best_of": 4}, "best_of", "unsupported_parameter"),
                (openai.BadRequestError, {"prompt": "word " * 20000}, "prompt", "context_length_exceeded"),
                (openai.BadRequestError, {"extra_body": {"top_j": 4}}, "top_j", "unknown_parameter")]:
            with self.assertRaises(error, msg=settings) as caught:
                self.complete(**settings)
            self.assertEqual((caught.exception.param, caught.exception.code), (param, code))
            self.assertEqual(caught.exception.type, "invalid_request_error")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(tools=[{"type": "function", "function": {"name": "f"}}])
        self.assertEqual(caught.exception.param, "tools")


if __name__ == "__main__":
    unittest.main()
