"""A vocabulary in which any text has a token for each byte, but for the special tokens of chat templates: ids tell the text apart from its markup."""
import struct

STRING, ARRAY, UINT32, INT32, FLOAT, BOOL = 8, 9, 4, 5, 6, 7
NORMAL, UNKNOWN, CONTROL, USER, BYTE = 1, 2, 3, 4, 6
SPACE = "\u2581"

# The special tokens of the families' published vocabularies.
SPECIAL = """<unk> <s> </s> <|im_start|> <|im_end|> <|im_sep|> <|im_user|> <|im_assistant|> <|im_system|> <|im_middle|> <|start_header_id|> <|end_header_id|> <|eot_id|>
<|begin_of_text|> <|end_of_text|> <start_of_turn> <end_of_turn> <|turn> <turn|> <|channel> <channel|> <|system|> <|user|> <|assistant|> <|end|> <|start|> <|channel|>
<|message|> <|return|> <|call|> <|constrain|> <think> </think> [gMASK] <sop> [INST] [/INST] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] <|start_of_role|> <|end_of_role|>
<｜begin▁of▁sentence｜> <｜end▁of▁sentence｜> <｜User｜> <｜Assistant｜> <|START_OF_TURN_TOKEN|> <|END_OF_TURN_TOKEN|> <|SYSTEM_TOKEN|> <|USER_TOKEN|> <|CHATBOT_TOKEN|>
<|START_THINKING|> <|END_THINKING|> <|START_RESPONSE|> <|END_RESPONSE|> <|begin_of_sentence|> <|end_of_sentence|> <|tool_call> <tool_call|> <|tool_response> <tool_response|> <|"|> <|think|>
[|system|] [|user|] [|assistant|] [|endofturn|] [|tool|] <|observation|> <|role_sep|> <|message_sep|> <tool_call> </tool_call> <tool_response> </tool_response> <arg_key> </arg_key> <arg_value> </arg_value>
[AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_CALLS] [TOOL_RESULTS] [/TOOL_RESULTS] [TOOL_CONTENT] [CALL_ID] [ARGS] <|python_tag|>
<|tool_calls_section_begin|> <|tool_calls_section_end|> <|tool_call_begin|> <|tool_call_argument_begin|> <|tool_call_end|>""".split()
TOKENS = SPECIAL + [SPACE] + [f"<0x{byte:02X}>" for byte in range(256)]
KINDS = [UNKNOWN] + [CONTROL] * (len(SPECIAL) - 1) + [NORMAL] + [BYTE] * 256


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, kind, value):
    return string(key) + struct.pack("<I", kind) + value


def array(kind, values):
    return struct.pack("<IQ", kind, len(values)) + b"".join(values)


def write(path, template, begin="<s>", end="</s>", adds_begin=False, user_defined=False):
    """Write it as a model's file without a model, with a chat template. user_defined: its markup is that, as many files have it."""
    kinds = [USER if user_defined and kind == CONTROL and token not in (begin, end) else kind for token, kind in zip(TOKENS, KINDS)]
    entries = [
        entry("general.architecture", STRING, string("llama")),
        entry("tokenizer.ggml.model", STRING, string("llama")),
        entry("tokenizer.ggml.tokens", ARRAY, array(STRING, [string(token) for token in TOKENS])),
        entry("tokenizer.ggml.token_type", ARRAY, array(INT32, [struct.pack("<i", kind) for kind in kinds])),
        entry("tokenizer.ggml.scores", ARRAY, array(FLOAT, [struct.pack("<f", -i) for i in range(len(TOKENS))])),
        entry("tokenizer.ggml.bos_token_id", UINT32, struct.pack("<I", TOKENS.index(begin))),
        entry("tokenizer.ggml.eos_token_id", UINT32, struct.pack("<I", TOKENS.index(end))),
        entry("tokenizer.ggml.add_bos_token", BOOL, bytes([adds_begin])),
        entry("tokenizer.ggml.add_space_prefix", BOOL, b"\0"),
        entry("tokenizer.chat_template", STRING, string(template)),
    ]
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries) + bytes(64))


def text_of(ids):
    """The text that has these ids, its special tokens written out."""
    first = len(SPECIAL) + 1
    parts = [bytes([i - first]) if i >= first else b" " if i == first - 1 else TOKENS[i].encode() for i in ids]
    return b"".join(parts).decode(errors="replace")


def count_special(ids):
    return sum(i < len(SPECIAL) for i in ids)
