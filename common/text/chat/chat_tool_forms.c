// The formats of tools as their models' published templates have them. Two templates of a family that write tools otherwise are
// two rows.
#include "common/text/chat/chat_tools_internal.h"

// ---- Qwen's, which is that of Hermes ----

#define HERMES_LIST                                                                                \
    .before = "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"   \
              "You are provided with function signatures within <tools></tools> XML tags:\n"       \
              "<tools>",                                                                           \
    .each = "\n" OR_TOOLS_TOOL,                                                                    \
    .after = "\n</tools>\n\nFor each function call, return a json object with function name and "  \
             "arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": "        \
             "<function-name>, \"arguments\": <args-json-object>}\n</tool_call>",                  \
    .joint = "\n\n"
#define HERMES_CALLS                                                                               \
    .joint = "\n",                                                                                 \
    .each = "<tool_call>\n{\"name\": \"" OR_TOOLS_NAME "\", \"arguments\": " OR_TOOLS_ARGUMENTS    \
            "}\n</tool_call>",                                                                     \
    .between = "\n"
#define HERMES_RESULTS                                                                             \
    .results = {.before = "<|im_start|>user",                                                      \
                .each = "\n<tool_response>\n" OR_TOOLS_CONTENT "\n</tool_response>",               \
                .after = "<|im_end|>\n"},                                                          \
    .reads = {                                                                                     \
        .kind = OR_CALLS_OBJECT,                                                                   \
        .begin = "<tool_call>",                                                                    \
        .end = "</tool_call>",                                                                     \
        .key = "arguments",                                                                        \
    }
#define HERMES_MARKS "<tools></tools> XML tags", "<args-json-object>"

// ---- Kimi's ----

#define KIMI_LIST                                                                                  \
    .place = OR_TOOLS_FIRST,                                                                       \
    .before = "<|im_system|>tool_declare<|im_middle|>" OR_TOOLS_ALL "<|im_end|>"
#define KIMI_CALLS                                                                                 \
    .before = "<|tool_calls_section_begin|>",                                                      \
    .each = "<|tool_call_begin|>functions." OR_TOOLS_NAME ":" OR_TOOLS_NUMBER                      \
            "<|tool_call_argument_begin|>" OR_TOOLS_ARGUMENTS "<|tool_call_end|>",                 \
    .after = "<|tool_calls_section_end|>"
#define KIMI_RESULT(id, line)                                                                      \
    .results = {.each = "<|im_system|>tool<|im_middle|>## Return of " id line OR_TOOLS_CONTENT     \
                        "<|im_end|>"}
#define KIMI_READS                                                                                 \
    .reads = {                                                                                     \
        .kind = OR_CALLS_NAMED,                                                                    \
        .begin = "<|tool_calls_section_begin|>",                                                   \
        .end = "<|tool_calls_section_end|>",                                                       \
        .inner = {"<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"},     \
        .call = "<|tool_call_begin|>",                                                             \
        .arguments = "<|tool_call_argument_begin|>",                                               \
        .over = "<|tool_call_end|>",                                                               \
    }

const or_chat_tools_t or_chat_tool_forms[] = {
    {.name = "qwen2.5",
     .family = "chatml",
     .marks = {HERMES_MARKS,
               "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."},
     HERMES_LIST,
     .joins_always = true,
     .nobody = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
     .calls = {HERMES_CALLS},
     HERMES_RESULTS},
    {.name = "qwq",
     .family = "qwq",
     .marks = {HERMES_MARKS},
     HERMES_LIST,
     .joins_always = true,
     .calls = {HERMES_CALLS, .joins_turn = true},
     HERMES_RESULTS},
    {.name = "qwen3",
     .family = "qwen3",
     .marks = {HERMES_MARKS},
     HERMES_LIST,
     .calls = {HERMES_CALLS},
     HERMES_RESULTS,
     .thought = {.before = "<think>\n", .after = "\n</think>\n\n"}},
    {.name = "llama3.1",
     .family = "llama3.1",
     .marks = {"{\"name\": function name, \"parameters\": dictionary of argument name and its "
               "value}",
               "tools_in_user_message"},
     .place = OR_TOOLS_IN_QUESTION,
     .before = "Given the following functions, please respond with a JSON for a function call with "
               "its proper arguments that best answers the given prompt.\n\nRespond in the format "
               "{\"name\": function name, \"parameters\": dictionary of argument name and its "
               "value}.Do not use variables.\n\n",
     .each = OR_TOOLS_TOOL "\n\n",
     .indent = 4,
     .head = "<|start_header_id|>system<|end_header_id|>\n\nEnvironment: ipython\nCutting "
             "Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n",
     .calls = {.alone = true,
               .each = "{\"name\": \"" OR_TOOLS_NAME "\", \"parameters\": " OR_TOOLS_ARGUMENTS "}",
               .most = 1},
     .results = {.each = "<|start_header_id|>ipython<|end_header_id|>\n\n" OR_TOOLS_QUOTED
                         "<|eot_id|>"},
     .reads =
         {.kind = OR_CALLS_OBJECT, .begin = "<|python_tag|>", .bare = true, .key = "parameters"}},
    {.name = "mistral-nemo",
     .family = "mistral-tekken",
     .marks = {"\"[AVAILABLE_TOOLS][\"", "\"[TOOL_CALLS][\"", "[TOOL_RESULTS]{\"content\": "},
     .place = OR_TOOLS_BEFORE_LAST,
     .before = "[AVAILABLE_TOOLS][",
     .each = "{\"type\": \"function\", \"function\": {" OR_TOOLS_MEMBERS "}}",
     .between = ", ",
     .after = "][/AVAILABLE_TOOLS]",
     .calls = {.alone = true,
               .before = "[TOOL_CALLS][",
               .each = "{\"name\": \"" OR_TOOLS_NAME "\", \"arguments\": " OR_TOOLS_ARGUMENTS
                       ", \"id\": \"" OR_TOOLS_ID "\"}",
               .between = ", ",
               .after = "]"},
     .results = {.each = "[TOOL_RESULTS]{\"content\": " OR_TOOLS_CONTENT
                         ", \"call_id\": \"" OR_TOOLS_ID "\"}[/TOOL_RESULTS]"},
     .id_bytes = 9,
     .reads = {.kind = OR_CALLS_ARRAY, .begin = "[TOOL_CALLS]", .key = "arguments"}},
    {.name = "mistral-v11",
     .family = "mistral-v7",
     .marks = {"'[AVAILABLE_TOOLS]' + tools|tojson", "'[CALL_ID]'", "'[ARGS]'", "'[TOOL_CONTENT]'"},
     .place = OR_TOOLS_BEFORE_LAST,
     .before = "[AVAILABLE_TOOLS]" OR_TOOLS_ALL "[/AVAILABLE_TOOLS]",
     .calls = {.alone = true,
               .each = "[TOOL_CALLS]" OR_TOOLS_NAME "[CALL_ID]" OR_TOOLS_ID
                       "[ARGS]" OR_TOOLS_ARGUMENTS},
     .results = {.each = "[TOOL_RESULTS]" OR_TOOLS_ID "[TOOL_CONTENT]" OR_TOOLS_CONTENT
                         "[/TOOL_RESULTS]"},
     .id_bytes = 9,
     .reads = {.kind = OR_CALLS_NAMED,
               .begin = "[TOOL_CALLS]",
               .inner = {"[CALL_ID]", "[ARGS]"},
               .id = "[CALL_ID]",
               .arguments = "[ARGS]"}},
    {.name = "kimi-k2",
     .family = "kimi-k2",
     .marks = {"tool_declare", "tool_response_queue"},
     KIMI_LIST,
     .calls = {KIMI_CALLS, .count_on = true},
     KIMI_RESULT("functions." OR_TOOLS_ANSWERED, "\n"),
     KIMI_READS},
    {.name = "kimi-k2-first", // as it was published first, with a backslash for the end of a line
     .family = "kimi-k2",
     .marks = {"tool_declare", "## Return of {{ message.tool_call_id }}\\n{{"},
     KIMI_LIST,
     .calls = {KIMI_CALLS},
     KIMI_RESULT(OR_TOOLS_ID, "\\n"),
     KIMI_READS},
};
const size_t or_chat_tool_form_count = sizeof or_chat_tool_forms / sizeof *or_chat_tool_forms;
