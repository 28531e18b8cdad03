// vocab - a model's tokens: their bytes, kinds, special roles, content hash and noise keys. From
// GGUF metadata.
//
//     id    piece        kind     bytes
//     1     <s>          special  ""            control tokens print nothing: zero width
//     3+b   <0x0A>       byte     "\n"
//     284   ▁of          text     " of"
//
// `bytes` is exactly what the token adds to the text. A leading-space rule for the very first token
// belongs to the tokenizer and the detokeniser, not to the token. Immutable after load: any thread. Owns all it returns.
//
// Kinds of tokenizer:
//     "llama"     SentencePiece-style BPE, merges by scores
//     "gpt2"      byte-level BPE, merges from tokenizer.ggml.merges, pre-tokenisation by tokenizer.ggml.pre
//     "gemma4"    SentencePiece-style, merges from the file; ends of lines are merged with nothing else
#pragma once

#include <stdint.h>

#include "common/gguf/gguf.h"

typedef struct or_vocab or_vocab_t;

typedef enum {
    OR_TOKEN_TEXT,
    OR_TOKEN_BYTE, // one raw byte, the fallback for what no text token covers
    OR_TOKEN_SPECIAL, // control and unknown: found in text only where the caller allows, prints nothing
    OR_TOKEN_USER,   // user-defined: matched verbatim before merging, prints its text
    OR_TOKEN_UNUSED, // padding: never comes from text, prints nothing
} or_token_kind_t;

#define OR_TOKEN_NONE (-1)

// Load a vocabulary. A file that names no pre-tokenizer gets "default", with a warning in the
// log. OR_ERR_FORMAT, also if two noise keys collide (never seen; docs/design.md section 4 rests
// on it). OR_ERR_UNSUPPORTED names an unknown tokenizer or pre-tokenizer. OR_ERR_NOT_FOUND if
// the file has no vocabulary, or no merges although it needs some. OR_ERR_NO_MEMORY.
or_status_t or_vocab_load(const or_gguf_t *gguf, or_vocab_t **vocab_p);
void or_vocab_destroy(or_vocab_t **vocab_p);

// Pack the vocabulary of a file into bytes that can travel: its tokenizer.ggml.* metadata,
// compressed. *packed_p is malloc'd, the caller frees it. OR_ERR_NOT_FOUND; OR_ERR_UNSUPPORTED
// over OR_VOCAB_BYTES_MAX; OR_ERR_NO_MEMORY.
or_status_t or_vocab_pack(const or_gguf_t *gguf, uint8_t **packed_p, size_t *packed_bytes,
                          size_t *unpacked_bytes);
// Load the same vocabulary from a peer's bytes, trusting nothing in them. Fails as or_vocab_load
// does. Also OR_ERR_FORMAT if they do not unpack to exactly that many bytes (at most
// OR_VOCAB_BYTES_MAX). The same goes for more or longer tokens than any vocabulary has, which
// would only cost memory and time.
or_status_t or_vocab_unpack(const uint8_t *packed, size_t packed_bytes, size_t unpacked_bytes,
                            or_vocab_t **vocab_p);
#define OR_VOCAB_BYTES_MAX (64u << 20)

uint32_t or_vocab_size(const or_vocab_t *vocab);
// The size without the unused tokens at its end.
uint32_t or_vocab_unpadded_size(const or_vocab_t *vocab);
or_token_kind_t or_vocab_kind(const or_vocab_t *vocab, int32_t id);
// The bytes that the token prints. `length` may be 0. id in range.
const char *or_vocab_bytes(const or_vocab_t *vocab, int32_t id, uint32_t *length);
// The token's name in the file ("<s>", "▁of"), for inspection.
const char *or_vocab_piece(const or_vocab_t *vocab, int32_t id, uint32_t *length);

// OR_TOKEN_NONE where the model has none.
int32_t or_vocab_bos(const or_vocab_t *vocab);
int32_t or_vocab_eos(const or_vocab_t *vocab);
// Does a prompt start with BOS (the file's add_bos_token, or the tokenizer's custom)?
bool or_vocab_adds_bos(const or_vocab_t *vocab);
// Does the token end the generation? These are eos, eot and the like, and the tokens that end a turn
// in the common families of chat models.
bool or_vocab_is_end(const or_vocab_t *vocab, int32_t id);

// Does the file want the token never to be drawn (tokenizer.ggml.suppress_tokens)? How many are there? Ids that no token has are
// left out. They say nothing of what a token is: vocabularies that differ in them alone are the same.
bool or_vocab_is_suppressed(const or_vocab_t *vocab, int32_t id);
uint32_t or_vocab_suppressed_count(const or_vocab_t *vocab);

// The kind of tokenizer: "llama", "gpt2" or "gemma4".
const char *or_vocab_model(const or_vocab_t *vocab);

// A hash of the content: bytes, kinds and special roles of every token, and how text becomes tokens.
// The latter is tokenizer, pre-tokenizer, merges or scores, added begin token and space. Names of
// files do not count, nor do unused tokens at the end: a padded vocabulary has the same hash and
// another size.
uint64_t or_vocab_hash(const or_vocab_t *vocab);

// One 64-bit key per token, unique in this vocabulary and the same in any vocabulary that has the
// same token (docs/design.md section 4). It is XXH64 of the token's text, seeded with kind class and
// rank (how many tokens of equal class and text have a lower id).
//
//     class    tokens                          text
//     text     text, user-defined              the bytes they print: " of" in either kind of vocabulary
//     byte     byte fallback                   the byte; as text where no text token prints that byte alone,
//                                              so that "\n" is the same token in either kind of vocabulary
//     role     special, end or begin of text   "eos" or "bos" (eos if one token is both): "</s>" is "<|endoftext|>"
//     special  other special, unused           their piece: "<|user|>"
const uint64_t *or_vocab_noise_keys(const or_vocab_t *vocab);
// Bytes each token prints, as in or_vocab_bytes.
const uint32_t *or_vocab_widths(const or_vocab_t *vocab);
