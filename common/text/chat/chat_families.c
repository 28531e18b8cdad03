// The families as their models' published templates have them. A template is recognised by text that only its family
// writes. Marks hold no ends of lines, which some files write as "\n" and others as such.
#include "common/text/chat/chat_internal.h"

#define BOS OR_CHAT_BOS
#define EOS OR_CHAT_EOS

// ---- how answers are written ----

#define THINK_MARKS                                                                                \
    {"<think>", OR_CHAT_MARK_REASONING},                                                           \
    {                                                                                              \
        "</think>", OR_CHAT_MARK_ANSWER                                                            \
    }
static const or_chat_reply_t thinks = {.marks = {THINK_MARKS}};

// The prompt does not end its last line: the model does that, before it thinks.
static const or_chat_reply_t thinks_on_a_line = {.marks = {THINK_MARKS},
                                                 .drops_first_spaces = true};

// The same of models that do not think.
static const or_chat_reply_t on_a_line = {.drops_first_spaces = true};

// Messages for three channels, one behind the other. Only "final" is for the user, or a message without a channel.
static const or_chat_reply_t harmony = {.marks = {{"<|start|>", OR_CHAT_MARK_HEADER},
                                                  {"<|channel|>", OR_CHAT_MARK_HEADER},
                                                  {"<|message|>", OR_CHAT_MARK_BODY},
                                                  {"<|end|>", OR_CHAT_MARK_HEADER}},
                                        .thoughts = {"analysis", "commentary"},
                                        .in_header = true};

static const or_chat_reply_t gemma_channels = {
    .marks = {{"<|channel>", OR_CHAT_MARK_LINE}, {"<channel|>", OR_CHAT_MARK_ANSWER}}};

static const or_chat_reply_t command = {.marks = {{"<|START_THINKING|>", OR_CHAT_MARK_REASONING},
                                                  {"<|END_THINKING|>", OR_CHAT_MARK_ANSWER},
                                                  {"<|START_RESPONSE|>", OR_CHAT_MARK_ANSWER},
                                                  {"<|END_RESPONSE|>", OR_CHAT_MARK_ANSWER}}};

// ---- the families ----

#define CHATML_TURNS                                                                               \
    .system = {.before = "<|im_start|>system\n", .after = "<|im_end|>\n"},                         \
    .user = {.before = "<|im_start|>user\n", .after = "<|im_end|>\n"},                             \
    .assistant = {.before = "<|im_start|>assistant\n", .after = "<|im_end|>\n"}

#define SMOLLM3_HEAD(mode)                                                                         \
    {                                                                                              \
        .before = "<|im_start|>system\n## Metadata\n\nKnowledge Cutoff Date: June 2025\n"          \
                  "Reasoning Mode: " mode "\n\n## Custom Instructions\n\n",                        \
        .after = "\n\n<|im_end|>\n", .skips_empty = true, .drops_spaces_behind = true              \
    }
#define SMOLLM3_ANSWER(thought)                                                                    \
    {                                                                                              \
        .before = "<|im_start|>assistant\n" thought, .after = "<|im_end|>\n", .drops_lines = true  \
    }

#define LLAMA3_TURN(role)                                                                          \
    {                                                                                              \
        .before = "<|start_header_id|>" role "<|end_header_id|>\n\n", .after = "<|eot_id|>",       \
        .drops_spaces = true                                                                       \
    }
#define LLAMA3_TURNS                                                                               \
    .system = LLAMA3_TURN("system"), .user = LLAMA3_TURN("user"),                                  \
    .assistant = LLAMA3_TURN("assistant")

#define HARMONY_PREFACE(effort)                                                                    \
    "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"       \
    "Knowledge cutoff: 2024-06\n\nReasoning: " effort "\n\n# Valid channels: analysis, "           \
    "commentary, final. Channel must be included for every message.<|end|>"

#define TULU_TURNS                                                                                 \
    .system = {.before = "<|system|>\n", .after = "\n"},                                           \
    .user = {.before = "<|user|>\n", .after = "\n"},                                               \
    .assistant = {.before = "<|assistant|>\n", .after = EOS "\n"}, .opening = "<|assistant|>\n",   \
    .order = OR_CHAT_USER_LAST

#define GLM_TURNS                                                                                  \
    .preface = "[gMASK]<sop>", .system = {.before = "<|system|>\n", .after = ""},                  \
    .user = {.before = "<|user|>\n", .after = ""}

// DeepSeek's models differ in what stands before an answer.
#define DEEPSEEK(before_answers, opens)                                                            \
    .system = {.before = "", .after = ""}, .user = {.before = "<｜User｜>", .after = ""},          \
    .assistant = {.before = "<｜Assistant｜>" before_answers, .after = "<｜end▁of▁sentence｜>"},   \
    .opening = "<｜Assistant｜>" opens, .system_place = OR_CHAT_SYSTEM_FIRST, .begins = true

const or_chat_t or_chat_families[] = {
    {.name = "chatml",
     .marks = {"<|im_start|>", "<|im_end|>"},
     .never = {"<|im_sep|>", "</think>", "<|tool_list_start|>"}, // phi-4, those that think, lfm2
     CHATML_TURNS,
     .opening = "<|im_start|>assistant\n"},
    {.name = "lfm2",
     .marks = {"<|im_start|>", "<|tool_list_start|>"},
     .never = {"</think>"},
     .head = {.before = "<|im_start|>system\n", .after = "<|im_end|>\n", .skips_empty = true},
     CHATML_TURNS,
     .opening = "<|im_start|>assistant\n",
     .begins = true},
    {.name = "qwen3-thinking", // and others that are made to think
     .marks = {"<|im_start|>", "assistant\\n<think>\\n' }}", "reasoning_content"},
     .never = {"<think></think>"}, // nemotron 3
     CHATML_TURNS,
     .opening = "<|im_start|>assistant\n<think>\n",
     .thinks = true,
     .order = OR_CHAT_USER_LAST,
     .thoughts = OR_CHAT_THOUGHTS_GO_LINES,
     .reply = &thinks},
    {.name = "qwq",
     .marks = {"<|im_start|>", "assistant\\n<think>\\n' }}"},
     .never = {"reasoning_content"},
     .system = {.before = "<|im_start|>system\n", .after = "<|im_end|>\n"},
     .user = {.before = "<|im_start|>user\n", .after = "<|im_end|>\n"},
     .assistant = {.before = "<|im_start|>assistant\n",
                   .after = "<|im_end|>\n",
                   .drops_lines = true},
     .opening = "<|im_start|>assistant\n<think>\n",
     .thinks = true,
     .order = OR_CHAT_USER_LAST,
     .thoughts = OR_CHAT_THOUGHTS_GO,
     .reply = &thinks},
    {.name = "qwen3.5",
     .marks = {"<|im_start|>", "'<think>\\n' }}", "|trim"},
     .system = {.before = "<|im_start|>system\n", .after = "<|im_end|>\n", .drops_spaces = true},
     .user = {.before = "<|im_start|>user\n", .after = "<|im_end|>\n", .drops_spaces = true},
     .assistant = {.before = "<|im_start|>assistant\n",
                   .after = "<|im_end|>\n",
                   .drops_spaces = true},
     .opening = "<|im_start|>assistant\n<think>\n",
     .thinks = true,
     .otherwise = {.opening = "<|im_start|>assistant\n<think>\n\n</think>\n\n"},
     .system_place = OR_CHAT_SYSTEM_FIRST,
     .order = OR_CHAT_USER_LAST,
     .thoughts = OR_CHAT_THOUGHTS_GO_LINES,
     .reply = &thinks},
    {.name = "smollm3", // without a date and without words of its own in the system's turn
     .marks = {"<|im_start|>", "Reasoning Mode: "},
     .head = SMOLLM3_HEAD("/think"),
     .system = {.before = "<|im_start|>system\n", .after = "<|im_end|>\n"},
     .user = {.before = "<|im_start|>user\n", .after = "<|im_end|>\n"},
     .assistant = SMOLLM3_ANSWER(""),
     .opening = "<|im_start|>assistant\n",
     .thinks = true,
     .otherwise = {.opening = "<|im_start|>assistant\n<think>\n\n</think>\n",
                   .head = SMOLLM3_HEAD("/no_think"),
                   .assistant = SMOLLM3_ANSWER("<think>\n\n</think>\n")},
     .switches = {"/no_think", "/think"},
     .system_place = OR_CHAT_SYSTEM_FIRST,
     .reply = &thinks},
    {.name = "qwen3",
     .marks = {"<|im_start|>", "<|im_end|>", "</think>"},
     .never = {"<think></think>", "|last)", "assistant\\n<think>"}, // nemotron 3, mirothinker
     CHATML_TURNS,
     .opening = "<|im_start|>assistant\n",
     .thinks = true,
     .otherwise = {.opening = "<|im_start|>assistant\n<think>\n\n</think>\n\n"},
     .order = OR_CHAT_USER_LAST,
     .thoughts = OR_CHAT_THOUGHTS_GO_LINES,
     .reply = &thinks},
    {.name = "phi-4",
     .marks = {"<|im_start|>", "<|im_sep|>"},
     .system = {.before = "<|im_start|>system<|im_sep|>", .after = "<|im_end|>"},
     .user = {.before = "<|im_start|>user<|im_sep|>", .after = "<|im_end|>"},
     .assistant = {.before = "<|im_start|>assistant<|im_sep|>", .after = "<|im_end|>"},
     .opening = "<|im_start|>assistant<|im_sep|>"},
    {.name = "harmony", // gpt-oss, without a date in the first message
     .marks = {"<|start|>", "<|channel|>", "<|message|>"},
     .preface = HARMONY_PREFACE("medium"),
     .system = {.before = "<|start|>developer<|message|># Instructions\n\n",
                .after = "\n\n<|end|>",
                .skips_empty = true},
     .user = {.before = "<|start|>user<|message|>", .after = "<|end|>"},
     .assistant = {.before = "<|start|>assistant<|channel|>final<|message|>", .after = "<|end|>"},
     .opening = "<|start|>assistant",
     .thinks = true,
     .preface_low = HARMONY_PREFACE("low"),
     .preface_high = HARMONY_PREFACE("high"),
     .system_place = OR_CHAT_SYSTEM_FIRST,
     .reply = &harmony},
    {.name = "gemma4",
     .marks = {"<|turn>", "<turn|>", "'<|channel>thought\\n<channel|>'"},
     .system = {.before = "<|turn>system\n", .after = "<turn|>\n", .drops_spaces = true},
     .user = {.before = "<|turn>user\n", .after = "<turn|>\n", .drops_spaces = true},
     .assistant = {.before = "<|turn>model\n", .after = "<turn|>\n", .drops_spaces = true},
     .opening = "<|turn>model\n<|channel>thought\n<channel|>",
     .otherwise = {.opening = "<|turn>model\n",
                   .head = {.before = "<|turn>system\n<|think|>\n",
                            .after = "<turn|>\n",
                            .always = true,
                            .drops_spaces = true}},
     .begins = true,
     .order = OR_CHAT_ANSWERS,
     .thoughts = OR_CHAT_THOUGHTS_CUT,
     .reply = &gemma_channels},
    {.name = "deepseek-v3",
     .marks = {"<｜User｜>", "<｜Assistant｜>"},
     .never = {"think"},
     DEEPSEEK("", "")},
    {.name = "deepseek-r1",
     .marks = {"<｜User｜>", "<｜Assistant｜><think>\\n"},
     .never = {"'<｜User｜>' + message['content'] + '"}, // llama.cpp's own
     DEEPSEEK("", "<think>\n"),
     .thinks = true,
     .thoughts = OR_CHAT_THOUGHTS_GO,
     .reply = &thinks},
    {.name = "deepseek-v3.1",
     .marks = {"<｜User｜>", "<｜Assistant｜>", "thinking", "</think>'"},
     .never = {"'<think></think>'", "thinking_start_token"},
     DEEPSEEK("</think>", "</think>"),
     .otherwise = {.opening = "<｜Assistant｜><think>"},
     .order = OR_CHAT_ANSWERS,
     .thoughts = OR_CHAT_THOUGHTS_GO,
     .reply = &thinks},
    {.name = "deepseek-v3.1-empty", // the same with an empty thought
     .marks = {"<｜User｜>", "<｜Assistant｜>", "thinking", "'<think></think>'"},
     DEEPSEEK("<think></think>", "<think></think>"),
     .otherwise = {.opening = "<｜Assistant｜><think>"},
     .order = OR_CHAT_ANSWERS,
     .thoughts = OR_CHAT_THOUGHTS_GO,
     .reply = &thinks},
    {.name = "deepseek-v3.2",
     .marks = {"<｜User｜>", "｜DSML｜", "thinking_start_token + thinking_end_token"},
     DEEPSEEK("</think>", "<think></think>"),
     .otherwise = {.opening = "<｜Assistant｜><think>"},
     .order = OR_CHAT_ANSWERS,
     .reply = &thinks},
    {.name = "deepseek-v4",
     .marks = {"<｜User｜>", "｜DSML｜", "drop_thinking"},
     DEEPSEEK("</think>", "</think>"),
     .otherwise = {.opening = "<｜Assistant｜><think>"},
     .order = OR_CHAT_ALTERNATES,
     .reply = &thinks},
    {.name = "deepseek-v2",
     .marks = {"'User: ' + message['content'] + '", "'Assistant: ' + message['content'] + eos"},
     .system = {.before = "", .after = "\n\n"},
     .user = {.before = "User: ", .after = "\n\n"},
     .assistant = {.before = "Assistant: ", .after = EOS},
     .opening = "Assistant:",
     .begins = true},
    {.name = "glm4", // of 2025 (0414)
     .marks = {"[gMASK]<sop>", "role == 'assistant' and not meta"},
     .never = {"</think>"}, // z1
     GLM_TURNS,
     .assistant = {.before = "<|assistant|>\n", .after = ""},
     .opening = "<|assistant|>",
     .system_place = OR_CHAT_SYSTEM_FIRST,
     .reply = &on_a_line},
    {.name = "glm-z1", // its template cuts a user's words at "</think>", too; here they stay whole
     .marks = {"[gMASK]<sop>", "role == 'assistant' and not meta", "</think>", "<think>{% endif"},
     .preface = "[gMASK]<sop>",
     .system = {.before = "<|system|>\n", .after = ""},
     .user = {.before = "<|user|>\n", .after = "", .drops_spaces = true},
     .assistant = {.before = "<|assistant|>\n", .after = "", .drops_spaces = true},
     .opening = "<|assistant|>\n<think>",
     .thinks = true,
     .system_place = OR_CHAT_SYSTEM_FIRST,
     .thoughts = OR_CHAT_THOUGHTS_GO,
     .reply = &thinks},
    {.name = "glm-4.6", // and 4.5
     .marks = {"[gMASK]<sop>", "'\\n<think></think>'"},
     GLM_TURNS,
     .assistant = {.before = "<|assistant|>\n<think></think>",
                   .after = "",
                   .lead = "\n",
                   .drops_spaces = true},
     .opening = "<|assistant|>",
     .thinks = true,
     .otherwise = {.opening = "<|assistant|>\n<think></think>", .suffix = "/nothink"},
     .order = OR_CHAT_USER_LAST,
     .thoughts = OR_CHAT_THOUGHTS_GO,
     .reply = &thinks_on_a_line},
    {.name = "glm-4.7",
     .marks = {"[gMASK]<sop>", "clear_thinking"},
     .preface = "[gMASK]<sop>",
     .system = {.before = "<|system|>", .after = ""},
     .user = {.before = "<|user|>", .after = ""},
     .assistant = {.before = "<|assistant|></think>", .after = "", .drops_spaces = true},
     .opening = "<|assistant|><think>",
     .thinks = true,
     .otherwise = {.opening = "<|assistant|></think>"},
     .order = OR_CHAT_USER_LAST,
     .thoughts = OR_CHAT_THOUGHTS_GO,
     .reply = &thinks},
    {.name = "gigachat3", // without what stands before all its conversations
     .marks = {"<|role_sep|>", "<|message_sep|>", "developer system"},
     .system = {.before = "system<|role_sep|>\n", .after = "<|message_sep|>\n\n"},
     .user = {.before = "user<|role_sep|>\n", .after = "<|message_sep|>\n\n"},
     .assistant = {.before = "assistant<|role_sep|>\n", .after = "<|message_sep|>\n\n"},
     .opening = "assistant<|role_sep|>\n",
     .begins = true,
     .order = OR_CHAT_USER_LAST},
    {.name = "exaone4",
     .marks = {"[|assistant|]", "[|endofturn|]", "enable_thinking is true"},
     .system = {.before = "[|system|]\n", .after = "[|endofturn|]\n"},
     .user = {.before = "[|user|]\n", .after = "[|endofturn|]\n"},
     .assistant = {.before = "[|assistant|]\n",
                   .after = "[|endofturn|]\n",
                   .lead = "<think>\n\n</think>\n\n",
                   .leads_turn = true},
     .opening = "[|assistant|]\n<think>\n\n</think>\n\n",
     .otherwise = {.opening = "[|assistant|]\n<think>\n"},
     .thoughts = OR_CHAT_THOUGHTS_GO_SPACES,
     .reply = &thinks},
    {.name = "kimi-k2", // and moonlight
     .marks = {"<|im_user|>", "<|im_middle|>"},
     .never = {"</think>"}, // kimi-k2-thinking
     .system = {.before = "<|im_system|>system<|im_middle|>", .after = "<|im_end|>"},
     .user = {.before = "<|im_user|>user<|im_middle|>", .after = "<|im_end|>"},
     .assistant = {.before = "<|im_assistant|>assistant<|im_middle|>", .after = "<|im_end|>"},
     .opening = "<|im_assistant|>assistant<|im_middle|>"},
    {.name = "command-r",
     .marks = {"<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>"},
     .never = {"<|START_RESPONSE|>", "results>"}, // r7b; templates for tools and documents
     .system = {.before = "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>",
                .after = "<|END_OF_TURN_TOKEN|>"},
     .user = {.before = "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>",
              .after = "<|END_OF_TURN_TOKEN|>",
              .drops_spaces = true},
     .assistant = {.before = "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
                   .after = "<|END_OF_TURN_TOKEN|>",
                   .drops_spaces = true},
     .opening = "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
     .system_place = OR_CHAT_SYSTEM_FIRST,
     .begins = true,
     .order = OR_CHAT_ALTERNATES},
    {.name = "command-r7b", // without the preamble that stands before all its conversations
     .marks = {"<|START_OF_TURN_TOKEN|>", "<|START_RESPONSE|>"},
     .system = {.before = "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>",
                .after = "<|END_OF_TURN_TOKEN|>"},
     .user = {.before = "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>", .after = "<|END_OF_TURN_TOKEN|>"},
     .assistant = {.before = "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_RESPONSE|>",
                   .after = "<|END_RESPONSE|><|END_OF_TURN_TOKEN|>"},
     .opening = "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_THINKING|><|END_THINKING|>",
     .otherwise = {.opening = "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"},
     .begins = true,
     .reply = &command},
    {.name = "granite",
     .marks = {"<|start_of_role|>", "<|end_of_role|>"},
     .system = {.before = "<|start_of_role|>system<|end_of_role|>", .after = "<|end_of_text|>\n"},
     .user = {.before = "<|start_of_role|>user<|end_of_role|>", .after = "<|end_of_text|>\n"},
     .assistant = {.before = "<|start_of_role|>assistant<|end_of_role|>",
                   .after = "<|end_of_text|>\n"},
     .opening = "<|start_of_role|>assistant<|end_of_role|>"},
    {.name = "olmo2", // which writes a begin token
     .marks = {"<|assistant|>", "['content'] + '", "['content'] + eos_token + '", "bos_token"},
     .never = {"[gMASK]"},
     TULU_TURNS,
     .begins = true},
    {.name = "tulu", // and falcon 3
     .marks = {"<|user|>", "<|assistant|>", "['content'] + '", "['content'] + eos_token + '"},
     .never = {"[gMASK]"},
     TULU_TURNS},
    {.name = "ernie4.5",
     .marks = {"<|begin_of_sentence|>", "Assistant: ", "sep_token"},
     .preface = "<|begin_of_sentence|>",
     .system = {.before = "", .after = "\n"},
     .user = {.before = "User: ", .after = "\n"},
     .assistant = {.before = "Assistant: ", .after = "<|end_of_sentence|>"},
     .opening = "Assistant: "},
    {.name = "llama3.1", // to 3.3, with the date that their templates have where there is no clock
     .marks = {"<|start_header_id|>", "Cutting Knowledge Date: December 2023", "26 Jul 2024"},
     .head = {.before =
                  "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December "
                  "2023\nToday Date: 26 Jul 2024\n\n",
              "<|eot_id|>",
              .always = true,
              .drops_spaces = true},
     LLAMA3_TURNS,
     .opening = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .begins = true},
    {.name = "llama3",
     .marks = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
     .never = {"Cutting Knowledge Date"}, // functionary
     LLAMA3_TURNS,
     .opening = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .begins = true},
    {.name = "llama2",
     .marks = {"[INST]", "<<SYS>>"},
     .system = {.before = "<<SYS>>\n", .after = "\n<</SYS>>\n\n", .drops_spaces = true},
     .user = {.before = "[INST] ", .after = " [/INST]", .drops_spaces = true},
     .assistant = {.before = " ",
                   .after = " " EOS BOS,
                   .drops_spaces = true}, // a begin token before each [INST]
     .opening = "",
     .system_place = OR_CHAT_SYSTEM_IN_FIRST,
     .begins = true,
     .order = OR_CHAT_ALTERNATES},
    // Mistral's four versions differ in spaces and in the place of the system's words.
    {.name = "mistral-v7",
     .marks = {"[INST]", "[SYSTEM_PROMPT]"},
     .never = {"[SYSTEM_PROMPT] ", "[INST] "}, // of a SentencePiece vocabulary, with spaces
     .system = {.before = "[SYSTEM_PROMPT]", .after = "[/SYSTEM_PROMPT]"},
     .user = {.before = "[INST]", .after = "[/INST]"},
     .assistant = {.before = "", .after = EOS},
     .opening = "",
     .begins = true},
    {.name = "mistral-v1", // in files with and without a space before [INST]; trained with one
     .marks = {"[INST]", " [/INST]"},
     .never = {"[SYSTEM_PROMPT]"},
     .system = {.before = "", .after = "\n\n"},
     .user = {.before = " [INST] ", .after = " [/INST]"},
     .assistant = {.before = " ", .after = EOS},
     .opening = "",
     .system_place = OR_CHAT_SYSTEM_IN_FIRST,
     .begins = true,
     .order = OR_CHAT_ALTERNATES},
    {.name = "mistral", // v3
     .marks = {"[INST] ", "[/INST]"},
     .never = {"[SYSTEM_PROMPT]"},
     .system = {.before = "", .after = "\n\n"},
     .user = {.before = "[INST] ", .after = "[/INST]"},
     .assistant = {.before = " ", .after = EOS},
     .opening = "",
     .system_place = OR_CHAT_SYSTEM_IN_LAST,
     .begins = true,
     .order = OR_CHAT_ALTERNATES},
    {.name = "mistral-tekken",
     .marks = {"[INST]", "[/INST]"},
     .never = {"[SYSTEM_PROMPT]"},
     .system = {.before = "", .after = "\n\n"},
     .user = {.before = "[INST]", .after = "[/INST]"},
     .assistant = {.before = "", .after = EOS},
     .opening = "",
     .system_place = OR_CHAT_SYSTEM_IN_LAST,
     .begins = true,
     .order = OR_CHAT_ALTERNATES},
    {.name = "gemma",
     .marks = {"<start_of_turn>", "<end_of_turn>"},
     .system = {.before = "", .after = "\n\n", .drops_spaces = true},
     .user = {.before = "<start_of_turn>user\n", .after = "<end_of_turn>\n", .drops_spaces = true},
     .assistant = {.before = "<start_of_turn>model\n",
                   .after = "<end_of_turn>\n",
                   .drops_spaces = true},
     .opening = "<start_of_turn>model\n",
     .system_place = OR_CHAT_SYSTEM_IN_FIRST,
     .begins = true,
     .order = OR_CHAT_ALTERNATES},
    {.name =
         "phi", // its templates write newlines behind these tokens, and its tokenizer drops them there
     .marks = {"<|user|>", "<|assistant|>", "<|end|>"},
     .never = {"\\n<|end|>"}, // apriel
     .system =
         {.before = "<|system|>", .after = "<|end|>", .skips_empty = true, .drops_spaces = true},
     .user = {.before = "<|user|>", .after = "<|end|>", .drops_spaces = true},
     .assistant = {.before = "<|assistant|>", .after = "<|end|>", .drops_spaces = true},
     .opening = "<|assistant|>"},
    {.name = "zephyr",
     .marks = {"<|user|>", "<|assistant|>", "['content'] + eos_token"},
     .never = {"['content'] + '", "[gMASK]"}, // falcon3, glm4
     .system = {.before = "<|system|>\n", .after = EOS "\n"},
     .user = {.before = "<|user|>\n", .after = EOS "\n"},
     .assistant = {.before = "<|assistant|>\n", .after = EOS "\n"},
     .opening = "<|assistant|>\n"},
    {.name = "vicuna",
     .marks = {"USER: ", "ASSISTANT:"},
     .never = {"SYSTEM: "}, // orca
     .system = {.before = "", .after = "\n\n", .drops_spaces = true},
     .user = {.before = "USER: ", .after = "\n", .drops_spaces = true},
     .assistant = {.before = "ASSISTANT: ", .after = EOS "\n", .drops_spaces = true},
     .opening = "ASSISTANT:"},
};
const size_t or_chat_family_count = sizeof or_chat_families / sizeof *or_chat_families;
