// message_generate - the messages of a client and the coordinator about one text: GenerateRequest asks for it, GenerateDelta
// brings it piece by piece, and Resume goes on after a lost connection.
#pragma once

#include "proto/wire/message_session.h"

#define OR_OWNER_BYTES 64   // most bytes of an owner's name, its zero included
#define OR_STOP_IDS_MAX 16u // tokens that end a text

// Limits of a request's stop strings. OpenAI's API has four; each costs time at every token.
#define OR_STOP_STRINGS_MAX 16u
#define OR_STOP_BYTES_MAX 256u  // of each
#define OR_PART_CHANGES_MAX 64u // even: a text with more ends as an answer, perhaps with calls

typedef enum {
    OR_POLICY_FIXED, // every round gets what was asked for
    OR_POLICY_AUTO,  // at most that: as much as the coordinator's cost model finds worth its time
} or_draft_policy_t;
const char *or_draft_policy_name(uint32_t policy); // "fixed", "auto"; NULL: there is no such policy

// A turn of a conversation.
typedef struct {
    const char *role; // "system", "user", "assistant"
    const uint8_t *content;
    uint32_t content_bytes;
} or_chat_message_t;

// `request` is the client's own number for it: a repeated request is the same request.
typedef struct {
    uint64_t request;
    const uint8_t *prompt; // text, used if prompt_token_count is 0
    uint32_t prompt_bytes;
    const uint32_t *prompt_tokens;
    uint32_t prompt_token_count;
    uint32_t max_tokens; // 0: until an end token or the context
    or_sampling_t sampling;
    uint64_t seed;
    bool has_seed;               // else one is drawn and reported
    const or_wire_bytes_t *stop; // stop strings; at most OR_STOP_STRINGS_MAX
    uint32_t stop_count;
    bool plain; // no drafter
    uint32_t draft_method, accept_rule;
    uint32_t draft_nodes, draft_depth;
    float draft_temperature;
    bool has_draft_temperature;  // else the temperature, or 1 where that is 0
    bool ignore_end;             // end tokens do not end the text
    bool special;                // special tokens written in the prompt are special
    const uint32_t *draft_shape; // the same as in or_open_session_t
    uint32_t draft_shape_count;
    uint32_t distribution_entries; // 0: the default
    bool allow_lossy;              // rules that are not lossless may be asked for
    // The same as in or_open_session_t. 0: the default.
    float lenience, typical_epsilon, typical_delta, draft_threshold;
    bool draft_calibrated;
    uint32_t vocab_method; // or_vocab_method_t
    uint32_t draft_ahead;  // the same as in or_open_session_t; the most, with draft_policy auto
    uint32_t draft_policy; // or_draft_policy_t
    // The owner of the request, believed of the coordinator's own HTTP server alone. Other clients' requests belong to
    // the owner of their Hello. NULL means "".
    const char *owner;
    const char *label; // the client's name for it, for logs and figures; NULL means ""
    uint32_t logprobs; // the same as in or_open_session_t, for the deltas
    bool details;      // deltas have origins, token_ends and the tree
    // A benchmark's request: its drafters go on, however little is taken of their trees.
    bool measured;
    // One of several texts for the same prompt and seed. Each has noise of its own.
    uint32_t choice;
    // A conversation instead of a prompt. It is written out by the model's own template.
    const or_chat_message_t *messages;
    uint32_t message_count;
    uint32_t thinking; // or_thinking_t (common/text/chat/chat.h), for a conversation
    // Where the prompt is a conversation that was written out before, as in a journal: the name of the chat family
    // that reads the answer's thoughts. NULL means "": the answer is text.
    const char *reader;
    // The name of the format in which the reader's models write calls of tools (common/text/chat/chat_tools.h). NULL
    // means "": calls are text like any other.
    const char *calls;
} or_generate_request_t;

#define OR_STATS_LEVELS 16u // beyond, nothing is counted by depth or rank

// Totals of one request.
typedef struct {
    uint32_t prompt_tokens, completion_tokens;
    uint64_t target_calls; // verified rounds; prefill is not counted
    uint64_t drafted, accepted;
    uint64_t wire_bytes;          // all frames between drafter and coordinator, heartbeats included
    uint64_t elapsed_us;          // the whole request, not decoding alone
    uint64_t draft_us, verify_us; // inside the two models' processes
    uint64_t round_us;            // sum over rounds, from one verdict to the next
    uint64_t plain_rounds;        // rounds without a tree although a drafter was wanted
    uint64_t resyncs;
    uint64_t first_token_us;
    uint64_t accept_us; // the acceptance rule
    // Entry d counts the nodes on accepted paths, the root included, that had guesses after them at depth d + 1, and
    // how often one of these was accepted.
    uint64_t depth_offered[OR_STATS_LEVELS], depth_accepted[OR_STATS_LEVELS];
    // Entry r counts the nodes on accepted paths that had more than r children, and how often child r was accepted. The
    // first child is child 0.
    uint64_t rank_offered[OR_STATS_LEVELS], rank_accepted[OR_STATS_LEVELS];
    uint64_t draft_passes; // passes of the draft models, for the trees that were taken
    uint64_t psi_requests; // slrs: extra round trips after rejections
    uint64_t translate_us; // between vocabularies
    uint64_t ahead_rounds; // rounds that began while a drafter was ahead
    uint64_t ahead_hits;   // the ones of these whose guesses were here when the verdict before came
    uint64_t bridged_rounds; // plain steps or lookups, taken rather than wait for a drafter
    uint64_t lookup_rounds;  // rounds with guesses of the coordinator's own
    uint64_t failovers;      // drafters that took over from another
    uint64_t resumes;        // by a client that was away, or a coordinator that was restarted
    // Completion tokens that were there when this coordinator began to count. A restarted one knows nothing of the
    // rounds and the time before.
    uint32_t resumed_tokens;
    uint32_t prompt_reused; // tokens of the prompt that were in the cache already
    uint64_t queue_us;      // before the work began
} or_generate_stats_t;

// Completion tokens from `offset` on, and the text that they completed. The last delta has a finish and stats.
typedef struct {
    uint64_t request;
    uint32_t offset;
    const uint32_t *tokens;
    uint32_t count;
    const uint8_t *text;
    uint32_t text_bytes;
    uint32_t finish;   // or_finish_t; NONE while it goes on
    const char *error; // finish ERROR: a sentence for the user
    uint32_t error_code;
    uint64_t seed;
    const char *arith_id;
    or_generate_stats_t stats;
    uint64_t text_offset; // bytes of text before this delta's
    // Something the user should know: a reason for plain decoding or, before the first token, for waiting.
    const char *note;
    const char *advice;    // how it might have been faster
    const char *vocab_map; // how the drafter's vocabulary meets the target's; "": no drafter yet
    const char *vocab_why; // a reason for that
    uint32_t retry_ms;     // error BUSY: worth trying again after so long; 0: not said
    const uint8_t *token;  // the session's secret, with deltas of offset 0: Resume shows it
    uint32_t token_bytes;
    // With logprobs: one for each of `tokens`. A text that was resumed has none for what was written before.
    const or_token_logprob_t *logprobs;
    uint32_t logprob_count; // 0 or count
    // With details, for each token: 1 if it was a guess that was accepted.
    const uint8_t *origins;
    uint32_t origin_count; // 0 or count
    // With details, for each token: the end of the text after it, in bytes from the text's beginning. Text that is still
    // held back counts.
    const uint64_t *token_ends;
    uint32_t token_end_count; // 0 or count
    // With details: the last round's tree as the verifier had it, and the path in it that was accepted, in node numbers
    // from 1. NULL: there was none. It is not repeated.
    const or_draft_tree_t *tree;
    const uint32_t *tree_accepted;
    uint32_t tree_accepted_count;
    // Of a conversation's answer: where its text changes from answer to thought and back, in bytes from its beginning,
    // ascending, as far as is known. It begins as an answer.
    const uint64_t *part_changes;
    uint32_t part_change_count; // at most OR_PART_CHANGES_MAX
    // The same of the text in which tools may be called, within the answer. It has the marks of calls, spelled out.
    const uint64_t *call_changes;
    uint32_t call_change_count; // at most OR_PART_CHANGES_MAX
} or_generate_delta_t;

// Is the text that begins `at` bytes from a delta's own text a thought? *end: where it changes, or the delta's end.
bool or_generate_delta_is_thought(const or_generate_delta_t *delta, uint32_t at, uint32_t *end);
// May it call tools? The same.
bool or_generate_delta_is_call(const or_generate_delta_t *delta, uint32_t at, uint32_t *end);

// The client goes on after a lost connection.
typedef struct {
    uint64_t request;
    uint32_t offset;      // completion tokens that the client has
    uint64_t text_offset; // bytes of text that it has
    // The session's secret, from its first delta. With it, and with the key or owner that the request came with, anybody
    // takes the session over: from any address, and of any later coordinator that has the journal. Empty: only the
    // connection that asked may resume.
    const uint8_t *token;
    uint32_t token_bytes;
    const char *owner; // the same as in or_generate_request_t
} or_resume_t;
#define OR_SESSION_TOKEN_BYTES 16u
