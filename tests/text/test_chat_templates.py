"""Goal: a conversation's tokens are those of the family's published template, as transformers renders it.
Method: the templates, written down from their descriptions, rendered by Jinja in the sandbox and with the settings of transformers; random
conversations of harmless words; the rendered text, with special tokens recognised in it, has the ids that chat.c gives."""
import json
import os
import random
import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))
from cli import BIN, data  # noqa: E402

try:
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError:
    if os.environ.get("CI") == "true":
        raise
    raise unittest.SkipTest("python3-jinja2 is missing")

# A system message first is kept apart: {% set rest %} are the others.
APART = ("{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] %}{% set rest = messages[1:] %}"
         "{% else %}{% set system = '' %}{% set rest = messages %}{% endif %}")
EACH = "{% for message in rest %}"
TURNS = "{% for m in messages %}"
END = "{% endfor %}"
USER = "{% if message['role'] == 'user' %}"
OTHER = "{% else %}"
FI = "{% endif %}"

# Family -> vocabulary, template.
TEMPLATES = {
    "chatml": ("qwen2", TURNS + "{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}" + END + "{{ '<|im_start|>assistant\n' }}"),
    "llama3": ("llama-bpe", "{{ bos_token }}" + TURNS + "{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' + m['content'] | trim + '<|eot_id|>' }}"
               + END + "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"),
    "llama2": ("llama-spm", APART + EACH
               + "{% if loop.first and system %}{% set content = '<<SYS>>\n' + system.strip() + '\n<</SYS>>\n\n' + message['content'].strip() %}"
               + "{% else %}{% set content = message['content'].strip() %}{% endif %}"
               + USER + "{{ bos_token + '[INST] ' + content + ' [/INST]' }}" + OTHER + "{{ ' ' + content + ' ' + eos_token }}" + FI + END),
    "mistral-v1": ("llama-spm", APART + "{{ bos_token }}" + EACH + USER
                   + "{% if loop.first and system %}{{ ' [INST] ' + system + '\n\n' + message['content'] + ' [/INST]' }}"
                   + "{% else %}{{ ' [INST] ' + message['content'] + ' [/INST]' }}{% endif %}"
                   + OTHER + "{{ ' ' + message['content'] + eos_token }}" + FI + END),
    "mistral": ("llama-spm", APART + "{{ bos_token }}" + EACH + USER
                + "{% if loop.last and system %}{{ '[INST] ' + system + '\n\n' + message['content'] + '[/INST]' }}"
                + "{% else %}{{ '[INST] ' + message['content'] + '[/INST]' }}{% endif %}"
                + OTHER + "{{ ' ' + message['content'] + eos_token }}" + FI + END),
    "mistral-tekken": ("llama-spm", APART + "{{ bos_token }}" + EACH + USER
                       + "{% if loop.last and system %}{{ '[INST]' + system + '\n\n' + message['content'] + '[/INST]' }}"
                       + "{% else %}{{ '[INST]' + message['content'] + '[/INST]' }}{% endif %}"
                       + OTHER + "{{ message['content'] + eos_token }}" + FI + END),
    "mistral-v7": ("llama-spm", APART + "{{ bos_token }}{% if system %}{{ '[SYSTEM_PROMPT]' + system + '[/SYSTEM_PROMPT]' }}{% endif %}" + EACH + USER
                   + "{{ '[INST]' + message['content'] + '[/INST]' }}" + OTHER + "{{ message['content'] + eos_token }}" + FI + END),
    "gemma": ("llama-spm", APART + "{{ bos_token }}{% if system %}{% set before = system | trim + '\n\n' %}{% endif %}" + EACH
              + "{{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else 'user') + '\n' + (before if loop.first and before else '')"
              + " + message['content'] | trim + '<end_of_turn>\n' }}" + END + "{{ '<start_of_turn>model\n' }}"),
    "phi": ("phi-3", "{{ bos_token }}" + TURNS + "{% if m['content'] or m['role'] != 'system' %}{{ '<|' + m['role'] + '|>\n' + m['content'] + '<|end|>\n' }}{% endif %}"
            + END + "{{ '<|assistant|>\n' }}"),
    "zephyr": ("llama-spm", "{% for m in messages %}\n{% if m['role'] == 'user' %}\n{{ '<|user|>\n' + m['content'] + eos_token }}\n"
               "{% elif m['role'] == 'system' %}\n{{ '<|system|>\n' + m['content'] + eos_token }}\n"
               "{% else %}\n{{ '<|assistant|>\n' + m['content'] + eos_token }}\n{% endif %}\n"
               "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}\n"),
    "vicuna": ("llama-spm", APART + "{{ bos_token }}{% if system %}{{ system | trim + '\n\n' }}{% endif %}" + EACH + USER
               + "{{ 'USER: ' + message['content'] | trim + '\n' }}" + OTHER + "{{ 'ASSISTANT: ' + message['content'] | trim + eos_token + '\n' }}"
               + FI + END + "{{ 'ASSISTANT:' }}"),
    "phi-4": ("qwen2", TURNS + "{{ '<|im_start|>' + m['role'] + '<|im_sep|>' + m['content'] + '<|im_end|>' }}" + END + "{{ '<|im_start|>assistant<|im_sep|>' }}"),
    "granite": ("qwen2", TURNS + "{{ '<|start_of_role|>' + m['role'] + '<|end_of_role|>' + m['content'] + '<|end_of_text|>\n' }}" + END
                + "{{ '<|start_of_role|>assistant<|end_of_role|>' }}"),
    "deepseek-v3": ("llama-bpe", APART + "{{ bos_token + system }}" + EACH + USER + "{{ '<｜User｜>' + message['content'] }}"
                    + OTHER + "{{ '<｜Assistant｜>' + message['content'] + '<｜end▁of▁sentence｜>' }}" + FI + END + "{{ '<｜Assistant｜>' }}"),
    "deepseek-v3.1": ("llama-bpe", APART + "{{ bos_token + system }}" + EACH + USER + "{{ '<｜User｜>' + message['content'] }}" + OTHER
                      + "{{ '<｜Assistant｜></think>' + message['content'] + '<｜end▁of▁sentence｜>' }}" + FI + END + "{{ '<｜Assistant｜></think>' }}"),
    "deepseek-v2": ("llama-spm", APART + "{{ bos_token }}{% if system %}{{ system + '\n\n' }}{% endif %}" + EACH + USER
                    + "{{ 'User: ' + message['content'] + '\n\n' }}" + OTHER + "{{ 'Assistant: ' + message['content'] + eos_token }}" + FI + END
                    + "{{ 'Assistant:' }}"),
    "command-r": ("llama-bpe", APART + "{{ bos_token }}{% if system %}{{ '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>' + system + '<|END_OF_TURN_TOKEN|>' }}{% endif %}"
                  + EACH + "{{ '<|START_OF_TURN_TOKEN|>' + ('<|USER_TOKEN|>' if message['role'] == 'user' else '<|CHATBOT_TOKEN|>') + message['content'].strip()"
                  + " + '<|END_OF_TURN_TOKEN|>' }}" + END + "{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}"),
    "olmo2": ("llama-spm", APART + "{{ bos_token }}{% if system %}{{ '<|system|>\n' + system + '\n' }}{% endif %}" + EACH + USER
              + "{{ '<|user|>\n' + message['content'] + '\n' }}" + OTHER + "{{ '<|assistant|>\n' + message['content'] + eos_token + '\n' }}" + FI + END
              + "{{ '<|assistant|>\n' }}"),
    "tulu": ("llama-spm", APART + "{% if system %}{{ '<|system|>\n' + system + '\n' }}{% endif %}" + EACH + USER
             + "{{ '<|user|>\n' + message['content'] + '\n' }}" + OTHER + "{{ '<|assistant|>\n' + message['content'] + eos_token + '\n' }}" + FI + END
             + "{{ '<|assistant|>\n' }}"),
    "ernie4.5": ("qwen2", "{{ '<|begin_of_sentence|>' }}" + TURNS + "{% if m['role'] == 'user' %}{{ 'User: ' + m['content'] + '\n' }}"
                 + "{% elif m['role'] == 'assistant' %}{{ 'Assistant: ' + m['content'] + '<|end_of_sentence|>' }}{% else %}{{ m['content'] + '\n' }}{% endif %}"
                 + END + "{{ 'Assistant: ' }}"),
}
BEGIN = {"qwen2": "", "llama-bpe": "<|begin_of_text|>", "llama-spm": "<s>", "phi-3": "<s>"}
WORDS = ["Hello", "how", "are", "you", "\n", "  ", "I'm", "1234", "naïve", "日本", "😀", "don't", "```c\nint x;\n```", "- item", "?", "a" * 40, "▁", "<b>", "[x]"]
SEED = int(os.environ.get("OR_TEST_SEED", "8"))


def render(template, messages, begin):
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(messages=messages, bos_token=begin, eos_token="</s>", add_generation_prompt=True)


def words(rng, trimmed):
    text = "".join(rng.choice(WORDS) + rng.choice(["", " ", " "]) for _ in range(rng.randint(1, 12)))
    return text.strip() if trimmed else text


def conversation(rng, trimmed):
    turns = [{"role": "system", "content": words(rng, trimmed)}] if rng.random() < 0.5 else []
    for _ in range(rng.randint(0, 3)):
        turns += [{"role": "user", "content": words(rng, trimmed)}, {"role": "assistant", "content": words(rng, trimmed)}]
    return turns + [{"role": "user", "content": words(rng, trimmed)}]


class Templates(unittest.TestCase):
    def check(self, family, rng, count=60):
        vocabulary, template = TEMPLATES[family]
        lines, talks = [], []
        for _ in range(count):
            # phi's tokenizer drops white space behind its markers, and keeps what stands before them; chat.c drops both.
            talk = conversation(rng, trimmed=family == "phi")
            text = render(template, talk, BEGIN[vocabulary])
            if family == "phi":
                text = re.sub(r"(<\|(?:system|user|assistant|end)\|>)\s+", r"\1", text)
            if family in ("zephyr", "tulu"):
                text = BEGIN[vocabulary] + text  # which the file asks for, not the template
            talks.append(talk)
            lines += [json.dumps(talk), json.dumps(text)]
        done = subprocess.run([BIN.parent / "tests/chat-tokens", data(f"vocab/{vocabulary}.gguf"), family], input="\n".join(lines) + "\n",
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        out = done.stdout.splitlines()
        self.assertEqual(len(out), len(lines))
        for i, talk in enumerate(talks):
            self.assertEqual(out[2 * i], out[2 * i + 1], f"{family}, OR_TEST_SEED={SEED}: {talk}")


def add(family):
    setattr(Templates, f"test_{family.replace('-', '_')}", lambda self: self.check(family, random.Random(f"{SEED} {family}")))


for name in TEMPLATES:
    add(name)

if __name__ == "__main__":
    unittest.main(verbosity=2)
