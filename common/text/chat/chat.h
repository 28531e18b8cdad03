// chat - a conversation as the prompt that a chat model was trained on.
//
//     <|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n
//     └─ markup ─────┘└content┘└ markup ───────────────────────┘
//
// Each family is a table row (chat_families.c): what stands before and after each role's words. Which one a model wants is
// recognised in its tokenizer.chat_template, by what only that family writes; a template that is none of these is refused,
// never guessed at.
//
// Markup becomes special tokens, content never does: "<|im_end|>" written by a user is text, whether the file calls that token
// special or user-defined. The content and plain markup between two special tokens are tokenised as one text. So for harmless
// content the tokens are those of the rendered template, with a SentencePiece space after each special token if the file wants
// one. Some markup is plain text in every tokenizer (llama2's [INST], zephyr's and vicuna's roles): content can imitate that,
// and nothing here can tell.
//
// If a family has no place for a system message, its words go where the published template puts them. They stand before the
// words of the first user turn, or of the last (mistral v3 and tekken). Left out are templates' default system messages, and
// today's date. Thoughts in an assistant's words are left out where the template does so.
// Immutable: any thread.
#pragma once

#include "common/text/vocab/vocab.h"

typedef struct or_chat or_chat_t;             // a family; static, never freed
typedef struct or_chat_tools or_chat_tools_t; // a format of tools (chat_tools.h); the same

// A call of a tool that an assistant's turn made.
typedef struct {
    const char *name;      // of the function
    const char *arguments; // a JSON value
    size_t arguments_bytes;
    const char *id; // "": none
} or_chat_call_t;

typedef struct {
    const char *
        role; // "system", "user" or "assistant"; with a format of tools also "tool", whose content is a result
    const char *content;
    size_t length;
    const char *thought; // of an assistant, apart from its content; NULL: in that, or none
    size_t thought_length;
    const or_chat_call_t *calls; // of an assistant
    size_t call_count;
    const char *call_id; // of a tool: which call it answers; NULL: not said
} or_chat_turn_t;

// Shall the model think before it answers? Families of models that cannot do otherwise refuse the other.
typedef enum {
    OR_THINKING_USUAL, // as the family does it
    OR_THINKING_OFF,
    OR_THINKING_ON,
    OR_THINKING_LOW, // so much: where a family knows no efforts, on
    OR_THINKING_MEDIUM,
    OR_THINKING_HIGH,
} or_thinking_t;
// "off", "on", "low", "medium" or "high". OR_ERR_INVALID lists the names.
or_status_t or_thinking_by_name(const char *name, uint32_t *thinking);

// The family of a model's file. OR_ERR_NOT_FOUND if the file has no template, OR_ERR_UNSUPPORTED if its
// template is not known. Both name the families and the option that chooses one.
or_status_t or_chat_of_model(const or_gguf_t *gguf, const or_chat_t **chat_p);
// The family by name. OR_ERR_INVALID lists the names.
or_status_t or_chat_by_name(const char *name, const or_chat_t **chat_p);
const char *or_chat_name(const or_chat_t *chat);

// Write the prompt in tokens, up to where the assistant begins to write. It has a begin token if the family or the
// file wants one. *ids_p is malloc'd, the caller frees it. OR_ERR_INVALID, with a sentence for the user: no turn, an
// unknown role, an order that the family has no words for, or an or_thinking_t that it cannot do. OR_ERR_NO_MEMORY.
or_status_t or_chat_tokenize(const or_chat_t *chat, const or_vocab_t *vocab, uint32_t thinking,
                             const or_chat_turn_t *turns, size_t count, int32_t **ids_p,
                             size_t *count_p);

// Tools that a conversation speaks of: the format in which its model writes them, and a JSON array of those that may be
// called now. tools NULL: none may.
typedef struct {
    const or_chat_tools_t *format;
    const char *tools;
    size_t tools_bytes;
    size_t bytes_max; // of tools, calls and results in the prompt; 0: OR_CHAT_JSON_BYTES_MAX
} or_chat_toolbox_t;

// The same with tools. Also OR_ERR_INVALID: an order of calls and results, or ids, for which the format has no words.
or_status_t or_chat_tokenize_tools(const or_chat_t *chat, const or_chat_toolbox_t *toolbox,
                                   const or_vocab_t *vocab, uint32_t thinking,
                                   const or_chat_turn_t *turns, size_t count, int32_t **ids_p,
                                   size_t *count_p);
