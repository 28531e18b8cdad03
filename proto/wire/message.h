// message - everything that travels, as plain C structs, and the codec to frames (outrider.proto).
//
// Encoding borrows what the struct points to. Decoding gives a message that owns its arrays and
// strings until or_message_fini. A decoded message is well formed (types, array lengths that must
// agree, at most the limits below) but its meaning is unchecked: ids, rounds and indices are the
// receiver's to judge. Strings are zero-terminated, never NULL after decoding. Not locked; a
// message belongs to one thread.
#pragma once

#include <stdint.h>

#include "common/base/status.h"
#include "common/decode/sampling/distribution.h"
#include "proto/wire/figures.h"

#define OR_FRAME_BYTES_MAX (16u << 20) // a longer frame is refused unread
#define OR_WIRE_TOKENS_MAX (1u << 20)  // most entries of any array

typedef struct {
    uint64_t value; // 0: none
} or_session_id_t;

typedef struct {
    const uint8_t *bytes;
    uint32_t length;
} or_wire_bytes_t;

typedef enum {
    OR_ROLE_NONE,
    OR_ROLE_CLIENT,
    OR_ROLE_DRAFTER,
    OR_ROLE_VERIFIER,
    OR_ROLE_COORDINATOR
} or_role_t;
const char *or_role_name(or_role_t role);

// The first message of a peer: who it is and what it has. Sent again after a reconnect.
typedef struct {
    or_role_t role;
    const char *software; // "outrider 0.1.0"
    const char *arith_id; // or_model_arith_id; clients send ""
    uint64_t vocab_hash;  // 0 for clients
    uint32_t vocab_size;
    const char *model;   // file name, for messages and logs
    uint64_t model_hash; // or_gguf_fingerprint of that file; 0 for clients
    const char *owner;
    uint32_t context_max; // positions its KV cache can hold for one session
    uint32_t nodes_max;   // tree nodes it builds or checks
    uint32_t sessions_max;
} or_hello_t;

typedef struct {
    const char *software;
    uint32_t heartbeat_ms; // send something at least this often
    uint32_t nodes_max;    // of the whole system; 0: not known yet
    uint64_t vocab_hash;   // the target's
    const char *owner;
    bool trusted;         // may draft for the rules that believe the distributions it sends
    const char *model;    // the target's file; "" while no verifier is connected
    const char *arith_id; // that verifier's
    uint32_t drafters;    // connected now
} or_welcome_t;

// Coordinator to drafter and verifier. To a drafter private_key is 0 and, in rejection mode,
// noise_key is too.
typedef struct {
    or_sampling_t sampling;
    const uint32_t *stop_ids; // tokens that end the text
    uint32_t stop_count;
    const uint8_t *constraint; // reserved; a verifier that does not know it refuses the session
    uint32_t constraint_bytes;
    uint32_t accept_rule;  // or_accept_rule_t
    uint32_t draft_method; // or_draft_method_t
    uint32_t draft_nodes;  // most nodes a tree
    uint32_t draft_depth;  // most levels below the root
    float draft_temperature;
    uint64_t noise_key;   // coupled mode: what or_noise_key gave
    uint64_t private_key; // everything else random, verifier only
    // Tokens of the prefix that are prompt; the completion's offset 0 is behind them.
    uint32_t prompt_length;
    uint32_t logprobs;  // 0: none; N + 1: each Verdict has those of its tokens, and of the N best
    uint64_t draft_key; // what a drafter draws its guesses with: another key than the verifier's
    // Branching factors by level, or the one width of a beam; empty: the method's own choice.
    const uint32_t *draft_shape;
    uint32_t draft_shape_count;
    uint32_t distribution_entries; // most tokens of a reduced distribution
    float lenience;                // lenient: q / p is multiplied by it; at least 1
    float typical_epsilon; // typical: a token passes if q(x) > min(epsilon, delta exp(-entropy))
    float typical_delta;
    float draft_threshold; // dyspec-t: nodes likelier to be reached than this are kept
    bool draft_calibrated; // dyspec, dyspec-t: by measured acceptance, not by the drafter's p
    // Different vocabularies (or_vocab_method_t). The verifier reads outside_ids alone, a drafter the
    // rest; ids, lists of ids included, are always the receiver's own.
    uint32_t vocab_method; // OR_VOCAB_SAME: what follows is 0
    // tli: draft only tokens that this map has (VocabMap). One we do not have is asked for: NEED_MAP.
    uint64_t map_hash;
    uint64_t target_hash; // slrs: the vocabulary whose tokens are guessed (VocabRequest brings it)
    // union: guesses and distributions may have ids vocab_size .. vocab_size + outside_ids - 1 as well, tokens
    // that the target does not have: it never takes one.
    uint32_t outside_ids;
    // Whose text it is: prefixes are shared inside one owner only (docs/design.md section 9). "": nobody's in
    // particular, an owner like any other. Drafters are not told.
    const char *owner;
    // To a drafter: how far ahead of the verdicts it works (docs/design.md section 3, step 5). 0: a tree when
    // one is asked for. 1: it extends the likeliest outcomes meanwhile, so that the next tree is ready at
    // once. N > 1: it also sends guesses that stand on those outcomes, for up to N rounds in flight.
    uint32_t draft_ahead;
} or_open_session_t;

// Committed tokens start .. start + count - 1. What the receiver holds at and beyond `start` is
// replaced. `hash` is that of the whole prefix up to start + count; `round` is the round that comes
// next.
typedef struct {
    uint32_t start;
    const uint32_t *tokens;
    uint32_t count;
    uint64_t hash;
    uint64_t round;
    // To a drafter with another vocabulary. `placed`: where the next token begins, which the sender
    // alone knows (common/decode/sampling/noise.h). `judged`: what became of the tree of round - 1, for who
    // learns from it: that many guesses of a path were accepted, the first ones of `tokens` behind the
    // old root; then came `next`, OR_PREFIX_NO_TOKEN if that is none of the drafter's.
    bool placed;
    uint32_t byte_offset, zero_width;
    bool judged;
    uint32_t accepted;
    int32_t next;
    // To a drafter: the most nodes of the next tree, where that is less than what the session was opened
    // with; 0: no less. Decided from earlier rounds, never from what was drawn in this one.
    uint32_t draft_nodes;
    uint32_t draft_depth; // the same of levels
    uint32_t draft_ahead; // the same of open_session's draft_ahead, plus 1
} or_prefix_t;
#define OR_PREFIX_NO_TOKEN (-1)

// Drafter to coordinator to verifier. A tree of 0 nodes asks for a plain step.
typedef struct {
    uint64_t round; // from 1
    // The round in flight that it depends on: its base is what the sender believes will be committed
    // then, and it is good for nothing if that does not come. 0: it stands on committed tokens.
    uint64_t parent_round;
    uint32_t base_length;   // tokens of the prefix that it stands on, the root included
    uint64_t base_hash;     // and their hash, assumed ones included
    const uint32_t *tokens; // nodes 1.., depth first
    const uint32_t *back;   // (i + 1) - parent, at least 1 (token_tree.h)
    uint32_t count;
    // Rejection mode, per node: the distribution it was drawn from, and when it was drawn among its
    // siblings (from 0). NULL in coupled mode.
    const uint32_t *dist_index;
    uint32_t dist_index_count; // 0 or count
    const uint32_t *draw_order;
    uint32_t draw_order_count; // 0 or count
    const or_reduced_distribution_t *dists;
    uint32_t dist_count;
    uint32_t draft_us; // what building took
    uint32_t passes;   // forward passes of the draft models, those that caught up included
    // slrs, per node: the probability that the drafter's text begins with this token, given the nodes
    // before it; in [0, 1].
    const double *psi;
    uint32_t psi_count; // 0 or count
} or_draft_tree_t;

typedef struct {
    uint32_t token;
    float logprob;
    const uint32_t *top_tokens;
    const float *top_logprobs;
    uint32_t top_count;
} or_token_logprob_t;

typedef enum {
    OR_FINISH_NONE = 0,
    OR_FINISH_STOP = 1,   // an end token or a stop string
    OR_FINISH_LENGTH = 2, // max_tokens or the context
    OR_FINISH_ERROR = 3,
    OR_FINISH_CANCELLED = 4,
} or_finish_t;
const char *or_finish_name(uint32_t finish); // "stop", "length", ...

// Verifier to coordinator to drafter. The path accepted[0] -> accepted[1] ... are node numbers
// (from 1) of that round's tree; `next` is the token after them. With finish STOP `next` is the end
// token itself.
typedef struct {
    uint64_t round;
    uint32_t base_length;
    const uint32_t *accepted;
    uint32_t accepted_count;
    uint32_t next;
    const uint32_t *draws; // reserved: draws per level
    uint32_t draw_count;
    // Where the session asked for them: one for each accepted node and one for `next`, in that order, by the
    // target's logits as they are, before sampling parameters. The best come first.
    const or_token_logprob_t *logprobs;
    uint32_t logprob_count; // 0 or accepted_count + 1
    uint32_t finish;        // OR_FINISH_NONE or OR_FINISH_STOP
    uint32_t forward_us;    // the target's pass (0 towards the drafter)
    uint32_t accept_us;
    uint64_t hash;           // of the prefix with accepted and next
    const uint8_t *features; // reserved
    uint32_t feature_bytes;
    uint32_t draft_nodes, draft_depth, draft_ahead; // as in or_prefix_t
    // In a session's first verdict: positions of the prompt that were not computed for it, because the cache had
    // them from another text of its owner.
    uint32_t reused;
} or_verdict_t;
#define OR_LOGPROBS_MAX 20u // of the best tokens

// The session is over: forget it. With session 0, from any peer: good-bye, and nobody needs to wait for
// its silence.
typedef struct {
    const char *reason;
    bool
        keep; // a client's: it is away and may resume; free the work, keep the text as after a lost connection
} or_cancel_t;

// Send me the vocabulary with this or_vocab_hash. Coordinator to drafter (its own), and drafter to
// coordinator (the target's).
typedef struct {
    uint64_t hash;
} or_vocab_request_t;

// A vocabulary as or_vocab_pack gives it.
typedef struct {
    uint64_t hash;
    uint32_t unpacked_bytes;
    const uint8_t *packed;
    uint32_t packed_bytes;
} or_vocabulary_t;

// Coordinator to drafter.
typedef struct {
    uint64_t from_hash, to_hash;
    const int32_t *to; // per id of `from`: the id in `to`, -1 if none
    uint32_t count;
    uint64_t map_hash; // or_vocab_map_hash of `to`: a map with another one is not used
} or_vocab_map_t;
uint64_t or_vocab_map_hash(const int32_t *to, uint32_t count); // never 0

// Verifier to coordinator to drafter (slrs): which of these target tokens may the drafter's text begin
// with after `node` of the round's tree, and how probably? No tokens: any.
typedef struct {
    uint64_t round;
    uint32_t base_length; // towards the drafter, in its tokens
    uint64_t base_hash;
    uint32_t node;
    const uint32_t *tokens; // ascending
    uint32_t count;
} or_psi_request_t;

// Those of them with a probability above 0.
typedef struct {
    uint64_t round;
    uint32_t node;
    const uint32_t *tokens; // ascending
    const double *psi;
    uint32_t count;
} or_psi_reply_t;

// Verifier to coordinator: this session's K and V were given to others from position kept_length on.
// Its tokens are still known there; nothing needs to be sent again, but the next round costs a prefill.
typedef struct {
    uint32_t kept_length;
} or_kv_evicted_t;

// Client to coordinator: send me Stats, or Metrics.
typedef struct {
    bool metrics;
    uint64_t events_after; // only later events, by number
} or_stats_request_t;

// Coordinator to client: everything it counts, in Prometheus' text format. For who may see all owners' texts.
typedef struct {
    const uint8_t *text;
    uint32_t bytes;
} or_metrics_text_t;

// Codes of Error messages; numbers are the wire's.
typedef enum {
    OR_WIRE_INVALID = 1,         // the message made no sense
    OR_WIRE_VERSION = 2,         // another protocol version
    OR_WIRE_UNKNOWN_SESSION = 3, // open it (again)
    OR_WIRE_NEED_PREFIX = 4,     // prefix hash or length differs; `length` is what the sender has
    OR_WIRE_BUSY = 5,            // come back after retry_ms
    OR_WIRE_REFUSED = 6,         // not allowed or not compatible: do not retry
    OR_WIRE_FAILED = 7,          // the work failed
    OR_WIRE_CONTEXT = 8,         // does not fit the context
    OR_WIRE_NEED_MAP = 9, // send the VocabMap that the session was opened with, then open again
    OR_WIRE_LIMIT = 10,   // what the owner may keep here is used up: the text ends where it is
} or_wire_error_t;

typedef struct {
    uint32_t code; // or_wire_error_t
    const char *text;
    uint32_t retry_ms;
    uint64_t round; // that it concerns; 0 if none
    uint32_t length;
} or_error_t;

#define OR_OWNER_BYTES 64   // of an owner's name, with its end
#define OR_STOP_IDS_MAX 16u // tokens that end a text

// Of a request. OpenAI's API has four; each costs time at every token.
#define OR_STOP_STRINGS_MAX 16u
#define OR_STOP_BYTES_MAX 256u // of each

typedef enum {
    OR_POLICY_FIXED, // what was asked for, in every round
    OR_POLICY_AUTO,  // at most that: as much as the coordinator's cost model finds worth its time
} or_draft_policy_t;
const char *or_draft_policy_name(
    uint32_t policy); // "fixed", "auto"; NULL for a number that is none

// A turn of a conversation.
typedef struct {
    const char *role; // "system", "user", "assistant"
    const uint8_t *content;
    uint32_t content_bytes;
} or_chat_message_t;

// Client to coordinator. `request` is the client's own number for it: a repeated request is the
// same request.
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
    const uint32_t *draft_shape; // as in or_open_session_t
    uint32_t draft_shape_count;
    uint32_t distribution_entries; // 0: the default
    bool allow_lossy;              // rules that are not lossless may be asked for
    // As in or_open_session_t; numbers that are 0: the defaults.
    float lenience, typical_epsilon, typical_delta, draft_threshold;
    bool draft_calibrated;
    uint32_t vocab_method; // or_vocab_method_t
    uint32_t draft_ahead;  // as in or_open_session_t; the most, with draft_policy auto
    uint32_t draft_policy; // or_draft_policy_t
    // From the coordinator's own HTTP face only, of which it is believed: whose request it is. Others' is that of
    // their Hello. NULL: as "".
    const char *owner;
    const char *label; // the client's name for it, for logs and figures; NULL: as ""
    uint32_t logprobs; // as in or_open_session_t, for its deltas
    bool details;      // deltas have origins, token_ends and the tree
    bool
        measured; // a bench's: its drafters build what was asked for, however little of it is taken
    uint32_t choice; // one of several texts for the same prompt and seed: each has noise of its own
    const or_chat_message_t
        *messages; // a conversation instead of a prompt, by the model's own template
    uint32_t message_count;
} or_generate_request_t;

#define OR_STATS_LEVELS 16u // beyond, nothing is counted by depth or rank

// Totals of one request.
typedef struct {
    uint32_t prompt_tokens, completion_tokens;
    uint64_t target_calls; // verified rounds; prefill is not counted
    uint64_t drafted, accepted;
    // All frame bytes on the drafter-coordinator link, both ways, heartbeats included.
    uint64_t wire_bytes;
    uint64_t elapsed_us; // first verdict's tokens to last is decoding; this is the whole request
    uint64_t draft_us, verify_us; // inside the two models' processes
    uint64_t round_us;            // sum over rounds, from one verdict to the next
    uint64_t plain_rounds;        // rounds without a tree although a drafter was wanted
    uint64_t resyncs;
    uint64_t first_token_us;
    uint64_t accept_us; // the acceptance rule
    // At entry d: nodes on accepted paths, the root included, that had guesses after them at depth
    // d + 1, and how often one was accepted.
    uint64_t depth_offered[OR_STATS_LEVELS], depth_accepted[OR_STATS_LEVELS];
    // At entry r: nodes on accepted paths that had more than r children, and how often child r (from
    // 0, in order) was accepted.
    uint64_t rank_offered[OR_STATS_LEVELS], rank_accepted[OR_STATS_LEVELS];
    uint64_t draft_passes;   // of the draft models, for the trees that were taken
    uint64_t psi_requests;   // slrs: extra round trips after rejections
    uint64_t translate_us;   // between vocabularies
    uint64_t ahead_rounds;   // that began while a drafter was ahead
    uint64_t ahead_hits;     // of them, those whose guesses were here when the verdict before came
    uint64_t bridged_rounds; // plain steps, or lookups, taken rather than wait for a drafter
    uint64_t lookup_rounds;  // with guesses of the coordinator's own
    uint64_t failovers;      // drafters that took over from another
    uint64_t resumes;        // by a client that was away, or a coordinator that was restarted
    // Completion tokens that were there when this coordinator began to count: a restarted one knows nothing of
    // the rounds and the time before.
    uint32_t resumed_tokens;
    uint32_t prompt_reused; // tokens of the prompt that were in the cache already
    uint64_t queue_us;      // before the work began
} or_generate_stats_t;

// Coordinator to client: completion tokens from `offset` on, and the text they completed. The last
// one has a finish and stats.
typedef struct {
    uint64_t request;
    uint32_t offset;
    const uint32_t *tokens;
    uint32_t count;
    const uint8_t *text;
    uint32_t text_bytes;
    uint32_t finish;   // or_finish_t; NONE while it goes on
    const char *error; // finish ERROR: what to tell the user
    uint32_t error_code;
    uint64_t seed;
    const char *arith_id;
    or_generate_stats_t stats;
    uint64_t text_offset; // bytes of text before this delta's
    // Something the user should know: why it was decoded plainly; where nothing has come yet, why it waits.
    const char *note;
    const char *advice;    // how it might have been faster
    const char *vocab_map; // how the drafter's vocabulary meets the target's; "": no drafter yet
    const char *vocab_why; // and why so
    uint32_t retry_ms;     // error BUSY: worth trying again after so long; 0: not said
    const uint8_t *token;  // the session's secret, with deltas of offset 0: Resume shows it
    uint32_t token_bytes;
    // With logprobs: of `tokens`, one each. A text that was resumed has none for what was written before.
    const or_token_logprob_t *logprobs;
    uint32_t logprob_count; // 0 or count
    // With details: per token 1 if it was a guess that was accepted; and where the text ends after it, in bytes
    // from the text's beginning (of text that is still held back, too).
    const uint8_t *origins;
    uint32_t origin_count; // 0 or count
    const uint64_t *token_ends;
    uint32_t token_end_count; // 0 or count
    // With details: the last round's tree as the verifier had it, and the path in it that was accepted (node
    // numbers from 1). NULL: there was none. Not repeated.
    const or_draft_tree_t *tree;
    const uint32_t *tree_accepted;
    uint32_t tree_accepted_count;
} or_generate_delta_t;

typedef struct {
    uint64_t request;
    uint32_t offset;      // completion tokens the client has
    uint64_t text_offset; // bytes of text the client has
    // The session's secret, from its first delta: whoever has it, and the key or owner that the request
    // came with, takes the session over, from any address and of any later coordinator that has the
    // journal. Empty: only the connection that asked may resume.
    const uint8_t *token;
    uint32_t token_bytes;
    const char *owner; // as in or_generate_request_t; NULL: as ""
} or_resume_t;
#define OR_SESSION_TOKEN_BYTES 16u

typedef struct {
    uint32_t reply;  // not 0: who reads this answers with a heartbeat ...
    uint32_t answer; // ... that has this number here
} or_heartbeat_t;

// Numbered as the oneof's fields in outrider.proto.
typedef enum {
    OR_MSG_HELLO = 3,
    OR_MSG_WELCOME,
    OR_MSG_OPEN_SESSION,
    OR_MSG_PREFIX,
    OR_MSG_DRAFT_TREE,
    OR_MSG_VERDICT,
    OR_MSG_CANCEL,
    OR_MSG_VOCAB_MAP,
    OR_MSG_PSI_REQUEST,
    OR_MSG_PSI_REPLY,
    OR_MSG_KV_EVICTED,
    OR_MSG_STATS,
    OR_MSG_ERROR,
    OR_MSG_GENERATE_REQUEST,
    OR_MSG_GENERATE_DELTA,
    OR_MSG_RESUME,
    OR_MSG_HEARTBEAT,
    OR_MSG_VOCAB_REQUEST,
    OR_MSG_VOCABULARY,
    OR_MSG_STATS_REQUEST,
    OR_MSG_METRICS,
} or_message_type_t;
const char *or_message_type_name(uint32_t type);

typedef struct {
    or_message_type_t type;
    uint32_t version; // set by encode (OR_PROTOCOL_VERSION unless already nonzero) and by decode
    or_session_id_t session;
    union {
        or_hello_t hello;
        or_welcome_t welcome;
        or_open_session_t open_session;
        or_prefix_t prefix;
        or_draft_tree_t draft_tree;
        or_verdict_t verdict;
        or_cancel_t cancel;
        or_vocab_map_t vocab_map;
        or_psi_request_t psi_request;
        or_psi_reply_t psi_reply;
        or_kv_evicted_t kv_evicted;
        or_stats_t stats;
        or_stats_request_t stats_request;
        or_metrics_text_t metrics;
        or_error_t error;
        or_generate_request_t generate_request;
        or_generate_delta_t generate_delta;
        or_resume_t resume;
        or_heartbeat_t heartbeat;
        or_vocab_request_t vocab_request;
        or_vocabulary_t vocabulary;
    } body;
    void *owned; // decode's allocation; NULL in messages built by hand
} or_message_t;

// A frame from a message. *frame_p is malloc'd, the caller frees it. OR_ERR_INVALID if it would be
// over OR_FRAME_BYTES_MAX.
or_status_t or_message_encode(const or_message_t *message, uint8_t **frame_p, size_t *bytes);

// A message from a frame. OR_ERR_FORMAT (not ours, malformed, arrays of unequal lengths),
// OR_ERR_MISMATCH (another protocol version: both are named; message->version is still set),
// OR_ERR_NO_MEMORY (what the frame may cost was not to be had: it may be a good one). On any
// failure nothing is owned. Only an Error is read whatever its version, so that two releases can
// tell each other why they do not talk.
or_status_t or_message_decode(const uint8_t *frame, size_t bytes, or_message_t *message);

// Free what decode allocated. Safe on a zeroed or hand-built message.
void or_message_fini(or_message_t *message);

// The rolling prefix hash of docs/design.md section 5: H(0) = 0, H(i+1) = XXH64(little-endian id, seed
// H(i)).
uint64_t or_prefix_hash(uint64_t hash, const uint32_t *tokens, uint32_t count);
