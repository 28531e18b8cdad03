"""Published templates: which family each is of, and how Jinja renders it as transformers does. Those that the data folder lacks are described in our own
words (data/*.jinja), without tools; when these were written, they rendered what the published ones do.

What our renderings leave out on purpose is a regular expression beside each: dates, and what a template says in the name of a system that says
nothing. docs/decisions.md has the reasons."""
import functools
import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))
from cli import data  # noqa: E402

DEEPSEEK = ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>")


@dataclass
class Template:
    family: str  # "" if it is refused
    left_out: str = "(?!)"
    roles: tuple = ("<s>", "</s>")  # the tokens that begin and end a text
    adds_begin: bool = False        # the model's file asks for the first one, which the template writes
    refused: str = "(?!)"           # in a system message: the conversation is refused by name
    plain: bool = False             # compared for words alone, without white space and tokens in them
    settings: dict = field(default_factory=dict)
    thinking: dict = field(default_factory=dict)  # --thinking of our programs -> the settings that say the same to the template

    def fits(self, talk):
        """Is a conversation one that can be compared?"""
        return not self.plain or not any(turn["content"] != turn["content"].strip() or "<" in turn["content"] for turn in talk)


def chatml_system(words):
    return rf"<\|im_start\|>system\n{words}.*?<\|im_end\|>\n"


SWITCH = {"off": {"enable_thinking": False}, "on": {"enable_thinking": True}}
KIMI = r"<\|im_system\|>system<\|im_middle\|>You are .*?<\|im_end\|>\n?"
COMMAND_TURN = r"<\|START_OF_TURN_TOKEN\|><\|SYSTEM_TOKEN\|>"
COMMAND = (rf"{COMMAND_TURN}# System Preamble(?:(?!# Developer|<\|END).)*<\|END_OF_TURN_TOKEN\|>"
           r"|# System Preamble.*?# Developer Preamble\n.*?system preamble instructions\.\n")
TEMPLATES = {
    "Apriel-1.6-15b-Thinker-fixed": Template(""),
    "ByteDance-Seed-OSS": Template(""),
    "CohereForAI-c4ai-command-r-plus-tool_use": Template(""),
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": Template("command-r7b", COMMAND, thinking=SWITCH),
    "EXAONE-4.0": Template("exaone4", thinking=SWITCH),
    "GLM-4-0414": Template("glm4", adds_begin=True),
    "GLM-4.6": Template("glm-4.6", adds_begin=True, thinking=SWITCH),
    "GLM-4.7-Flash": Template("glm-4.7", thinking=SWITCH),
    "GLM-Z1-0414": Template("glm-z1"),
    "GigaChat3-10B-A1.8B": Template("gigachat3", r"developer system<\|role_sep\|>.*?<\|message_sep\|>\n\n"),
    "HuggingFaceTB-SmolLM3-3B": Template("smollm3", chatml_system("## Metadata(?:(?!<).)*You are a helpful AI assistant named SmolLM"), refused="/(no_)?think", thinking=SWITCH),
    "Kimi-K2-Instruct": Template("kimi-k2", KIMI),
    "LFM2-8B-A1B": Template("lfm2"),
    "MiroThinker": Template(""),
    "Mistral-Small-3.2-24B-Instruct-2506": Template("mistral-v7", r"\[SYSTEM_PROMPT\]You are Mistral Small 3.*?\[/SYSTEM_PROMPT\]"),
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": Template(""),
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": Template("chatml", chatml_system("You are a function calling AI model"), adds_begin=True),
    "Qwen-QwQ-32B": Template("qwq", settings={"enable_thinking": True}),
    "Qwen-Qwen2.5-7B-Instruct": Template("chatml", chatml_system(r"You are Qwen, created by Alibaba Cloud\. You are a helpful assistant\.(?=<)")),
    "Qwen-Qwen3-0.6B": Template("qwen3", thinking=SWITCH),
    "Qwen3-Coder": Template("chatml"),
    "Qwen3.5-4B": Template("qwen3.5", thinking=SWITCH),
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": Template("deepseek-r1", roles=DEEPSEEK),
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": Template("deepseek-r1", roles=DEEPSEEK, settings={"enable_thinking": True}),
    "deepseek-ai-DeepSeek-V3.1": Template("deepseek-v3.1-empty", roles=DEEPSEEK, thinking=SWITCH),
    "deepseek-ai-DeepSeek-V3.2": Template("deepseek-v3.2", roles=DEEPSEEK, thinking=SWITCH),
    "deepseek-ai-DeepSeek-V4": Template("deepseek-v4", roles=DEEPSEEK, thinking=SWITCH),
    "google-gemma-2-2b-it": Template("gemma"),
    "google-gemma-4-31B-it": Template("gemma4", thinking=SWITCH),
    "google-gemma-4-31B-it-interleaved": Template("gemma4", thinking=SWITCH),
    "llama-cpp-deepseek-r1": Template("", roles=DEEPSEEK),
    "llama-cpp-rwkv-world": Template(""),
    "meetkai-functionary-medium-v3.1": Template(""),
    "meta-llama-Llama-3.1-8B-Instruct": Template("llama3.1"),
    "meta-llama-Llama-3.2-3B-Instruct": Template("llama3.1", settings={"date_string": "26 Jul 2024"}),
    "meta-llama-Llama-3.3-70B-Instruct": Template("llama3.1"),
    "microsoft-Phi-3.5-mini-instruct": Template("phi", r"(?<=\|>)\s+", plain=True),  # its tokenizer drops that
    "mistralai-Mistral-Nemo-Instruct-2407": Template("mistral-tekken"),
    "moonshotai-Kimi-K2": Template("kimi-k2", KIMI),
    "openai-gpt-oss-120b": Template("harmony", r"(?<=\n)Current date: [^\n]*\n", thinking={how: {"reasoning_effort": how} for how in ("low", "medium", "high")}),
    "stepfun-ai-Step-3.5-Flash": Template("qwen3-thinking", adds_begin=True),
    "unsloth-Apriel-1.5": Template(""),
}

# Tokens of templates as a user might write them, and what they become here: nothing but text.
HOSTILE = ["<|im_end|>", "</s>", "<s>", "<|eot_id|>", "<|end|>", "<|return|>", "<｜User｜>", "<turn|>", "[INST]", "<|user|>", "[gMASK]", "<|END_RESPONSE|>"]


def turns(*words, system=None):
    """A conversation in which user and assistant take turns."""
    head = [] if system is None else [{"role": "system", "content": system}]
    return head + [{"role": "assistant" if i % 2 else "user", "content": text} for i, text in enumerate(words)]


TALKS = [
    turns("Hello", "Hi!", "How are you?", system="Be brief."),
    turns("Hello"),
    turns("Hello", "Hi!", "naïve 日本 😀", "  b\n\n- c", "d"),
    turns(" u \n", " \na ", "\tv ", system="sys \n"),
    turns("u", "", "v", system="s"),
    turns("", "", ""),
    turns("".join(HOSTILE), " ".join(HOSTILE), "x" + HOSTILE[0], system="y".join(HOSTILE)),
    turns("a", "<think>\nHm.\n</think>\n\nanswer", "b"),
    turns("a", "<think>Hm.</think>", "b"),
    turns("u", "v", "w", system=""),
    turns("u", system=" \n sys"),
    turns("u", "v", "w", system="Be /no_think brief."),
    turns("u", system="/think"),
    turns("\u3000u\u00a0", "\u2003v\x1f\u2028", "\x85w\u200b", system="\u00a0s\u3000"),
    turns("a", "x<|channel>thought\nHm.\n<channel|> y <channel|>v<|channel>z", "b"),
]


def template_text(name):
    """The template of this name."""
    ours = Path(__file__).parent / "data" / f"{name}.jinja"
    return (ours if ours.exists() else data(f"templates/{name}.jinja")).read_text()


@functools.cache
def compiled(text):
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import SandboxedEnvironment

    def refuse(words):
        raise ValueError(words)

    environment = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = lambda value, **more: json.dumps(value, ensure_ascii=False, indent=more.get("indent"))
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: "2026-11-26"
    return environment.from_string(text)


def variants():
    """Yield (template's name, --thinking or "") of all that are rendered."""
    for name, template in TEMPLATES.items():
        if template.family:
            yield from ((name, how) for how in ("", *template.thinking))


def render(template, text, messages, thinking="", **more):
    """The prompt as transformers renders it, without what we leave out. None: the template refuses the conversation, or it is not to be compared."""
    begin, end = template.roles
    if not template.fits(messages):
        return None
    try:
        prompt = compiled(text).render(messages=messages, bos_token=begin, eos_token=end, add_generation_prompt=True, **more, **template.settings | template.thinking.get(thinking, {}))
    except ValueError:
        return None
    return re.sub(template.left_out, "", prompt, flags=re.DOTALL)
