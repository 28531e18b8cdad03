// message_session - the messages of coordinator, drafter and verifier: who a peer is, what a session is, its rounds, and
// the vocabularies that it needs.
//
//     coordinator ── OpenSession, Prefix, Verdict ──▶ drafter          ── DraftTree, PsiReply ──▶ coordinator
//                 ── OpenSession, Prefix, DraftTree ──▶ verifier       ── Verdict, PsiRequest ──▶ coordinator
//
// message.h says what is checked of a decoded message. Ids, lists of ids included, are always the receiver's own.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/decode/sampling/distribution.h"

typedef struct {
    uint64_t value; // 0: none
} or_session_id_t;

typedef struct {
    const uint8_t *bytes;
    uint32_t length;
} or_wire_bytes_t;

// ---- peers ----

typedef enum {
    OR_ROLE_NONE,
    OR_ROLE_CLIENT,
    OR_ROLE_DRAFTER,
    OR_ROLE_VERIFIER,
    OR_ROLE_COORDINATOR
} or_role_t;
const char *or_role_name(or_role_t role);

// The first message of a peer says who it is and what it has. It is sent again after a reconnect.
typedef struct {
    or_role_t role;
    const char *software; // "outrider 0.1.0"
    const char *arith_id; // or_model_arith_id; clients send ""
    uint64_t vocab_hash;  // 0 for clients
    uint32_t vocab_size;
    const char *model;   // file name, for messages and logs
    uint64_t model_hash; // or_gguf_fingerprint of that file; 0 for clients
    const char *owner;
    uint32_t context_max; // positions that its KV cache can hold for one session
    uint32_t nodes_max;   // tree nodes that it builds or checks
    uint32_t sessions_max;
    uint64_t machine; // or_cpus_machine, of a model that runs on CPUs; 0 otherwise
} or_hello_t;

// The coordinator's answer to a Hello: the peer may stay.
typedef struct {
    const char *software;
    uint32_t heartbeat_ms; // the peer must send something at least this often
    uint32_t nodes_max;    // the whole system's; 0: not known yet
    uint64_t vocab_hash;   // the target's
    const char *owner;
    bool trusted;         // the peer may draft for rules that believe its distributions
    const char *model;    // the target's file; "" while no verifier is connected
    const char *arith_id; // that verifier's
    uint32_t drafters;    // connected now
} or_welcome_t;

// A frame that keeps a silent connection alive.
typedef struct {
    uint32_t reply;  // not 0: the receiver answers with a heartbeat ...
    uint32_t answer; // ... that has this number here
} or_heartbeat_t;

// ---- sessions ----

// A session's terms, to drafter and verifier. A drafter's private_key is 0, and a verifier's draft_key. Only the rule coupled
// has a noise_key, the same for both.
typedef struct {
    or_sampling_t sampling;
    const uint32_t *stop_ids; // tokens that end the text
    uint32_t stop_count;
    const uint8_t *constraint; // reserved; a verifier that does not know it refuses the session
    uint32_t constraint_bytes;
    uint32_t accept_rule;  // or_accept_rule_t
    uint32_t draft_method; // or_draft_method_t
    uint32_t draft_nodes;  // most nodes of a tree
    uint32_t draft_depth;  // most levels below the root
    float draft_temperature;
    uint64_t noise_key;   // coupled: the key that or_noise_key gave; else 0
    uint64_t private_key; // the key of all other random numbers, for the verifier only
    // The first tokens of the prefix are the prompt. Offset 0 of the completion is behind them.
    uint32_t prompt_length;
    // N + 1: each Verdict has the log-probabilities of its tokens, and of the N best. 0: none.
    uint32_t logprobs;
    uint64_t draft_key; // the key of a drafter's own draws, another than the verifier's
    // Branching factors by level, or the one width of a beam. Empty: the method chooses.
    const uint32_t *draft_shape;
    uint32_t draft_shape_count;
    uint32_t distribution_entries; // most tokens of a reduced distribution
    float lenience;                // lenient: q / p is multiplied by it; at least 1
    float typical_epsilon; // typical: a token passes if q(x) > min(epsilon, delta exp(-entropy))
    float typical_delta;
    float draft_threshold; // dyspec-t: nodes that are likelier to be reached than this are kept
    bool draft_calibrated; // dyspec, dyspec-t: go by measured acceptance, not by the drafter's p
    // The way for two vocabularies to meet (or_vocab_method_t). With OR_VOCAB_SAME the next three are 0. The verifier
    // reads outside_ids alone, and a drafter the other two.
    uint32_t vocab_method;
    // tli: the drafter proposes only tokens that the VocabMap with this hash has. A drafter that lacks the map asks
    // for it with the error NEED_MAP.
    uint64_t map_hash;
    uint64_t target_hash; // slrs: the vocabulary whose tokens are guessed; VocabRequest brings it
    // union: guesses and distributions may also have ids from vocab_size to vocab_size + outside_ids - 1. These stand
    // for tokens that the target does not have, and the target never takes one.
    uint32_t outside_ids;
    // The owner of the text. Prefixes are shared inside one owner only (docs/design.md section 9). The owner "" is one
    // like any other. Drafters are not told.
    const char *owner;
    // The number of rounds that a drafter works ahead of the verdicts (docs/design.md section 3, step 5). 0: it builds
    // a tree when it is asked for one. 1: meanwhile it extends the likeliest outcomes, so that the next tree is ready
    // at once. N > 1: it also sends guesses that stand on those outcomes, for up to N rounds in flight.
    uint32_t draft_ahead;
} or_open_session_t;

// Committed tokens from `start` on. They replace all that the receiver holds from there on.
typedef struct {
    uint32_t start;
    const uint32_t *tokens;
    uint32_t count;
    uint64_t hash;  // of the whole prefix, these tokens included
    uint64_t round; // that comes next
    // To a drafter with another vocabulary. If `placed`, the next two say where the next token begins, which the
    // coordinator alone knows (common/decode/sampling/noise.h).
    bool placed;
    uint32_t byte_offset, zero_width;
    // If `judged`, this is also the verdict on the tree of round - 1, for drafters that learn from it. The first
    // `accepted` of `tokens` behind the old root are accepted guesses, and `next` came after them. It is
    // OR_PREFIX_NO_TOKEN if the drafter has no such token.
    bool judged;
    uint32_t accepted;
    int32_t next;
    // To a drafter: limits of the next tree, where they are lower than those of the session. They were decided from
    // earlier rounds, never from what was drawn in this one.
    uint32_t draft_nodes; // 0: the session's
    uint32_t draft_depth; // 0: the session's
    uint32_t draft_ahead; // the session's draft_ahead for this tree, plus 1; 0: no change
} or_prefix_t;
#define OR_PREFIX_NO_TOKEN (-1)

// The session is over, and the receiver forgets it. Session 0, from any peer, is a good-bye: nobody needs to wait for the
// sender's silence.
typedef struct {
    const char *reason;
    // From a client: it is away and may resume. The work is freed, and the text is kept as after a lost connection.
    bool keep;
} or_cancel_t;

// From the verifier: this session's K and V were given to others from position kept_length on. Its tokens are still known
// there. Nothing needs to be sent again, but the next round costs a prefill.
typedef struct {
    uint32_t kept_length;
} or_kv_evicted_t;

// ---- rounds ----

// A drafter's guesses, by way of the coordinator to the verifier. A tree of 0 nodes asks for a plain step.
typedef struct {
    uint64_t round; // from 1
    // Not 0: the round in flight that this tree depends on. The tree's base is then the text that the sender expects to be
    // committed in that round, and the tree is worthless if another text is. 0: it stands on committed tokens.
    uint64_t parent_round;
    uint32_t base_length;   // tokens of the prefix that it stands on, the root included
    uint64_t base_hash;     // the prefix hash of these tokens, expected ones included
    const uint32_t *tokens; // nodes 1.., depth first
    const uint32_t *back;   // (i + 1) - parent, at least 1 (token_tree.h)
    uint32_t count;
    // Ratio rules, for each node: the distribution that it was drawn from, and its place in the order in which it and its
    // siblings were drawn, from 0. NULL under all other rules.
    const uint32_t *dist_index;
    uint32_t dist_index_count; // 0 or count
    const uint32_t *draw_order;
    uint32_t draw_order_count; // 0 or count
    const or_reduced_distribution_t *dists;
    uint32_t dist_count;
    uint32_t draft_us; // the time that building took
    uint32_t passes;   // forward passes of the draft models, those that caught up included
    // slrs, for each node: the probability, in [0, 1], that the drafter's text begins with this token, given the nodes
    // before it.
    const double *psi;
    uint32_t psi_count; // 0 or count
    // The time before building in which the drafter read tokens that it had long lacked: of a text that is new to it, or whose
    // pages it gave away.
    uint32_t read_us;
} or_draft_tree_t;

typedef struct {
    uint32_t token;
    float logprob;
    const uint32_t *top_tokens; // best first
    const float *top_logprobs;
    uint32_t top_count;
} or_token_logprob_t;
#define OR_LOGPROBS_MAX 20u // most entries of top_tokens

typedef enum {
    OR_FINISH_NONE = 0,
    OR_FINISH_STOP = 1,   // an end token or a stop string
    OR_FINISH_LENGTH = 2, // max_tokens or the context
    OR_FINISH_ERROR = 3,
    OR_FINISH_CANCELLED = 4,
} or_finish_t;
const char *or_finish_name(uint32_t finish); // "stop", "length", ...

// The verifier's judgement of a round, by way of the coordinator to the drafter. accepted[0] -> accepted[1] ... is a path
// of node numbers, from 1, in that round's tree, and `next` is the token after it. With finish STOP `next` is the end token.
typedef struct {
    uint64_t round;
    uint32_t base_length;
    const uint32_t *accepted;
    uint32_t accepted_count;
    uint32_t next;
    const uint32_t *draws; // reserved: draws per level
    uint32_t draw_count;
    // If the session asked for them: one for each accepted node and one for `next`, in that order. They are taken from
    // the target's logits before sampling parameters.
    const or_token_logprob_t *logprobs;
    uint32_t logprob_count; // 0 or accepted_count + 1
    uint32_t finish;        // OR_FINISH_NONE or OR_FINISH_STOP
    uint32_t forward_us;    // the target's pass (0 towards the drafter)
    uint32_t accept_us;
    uint64_t hash;           // the prefix hash with `accepted` and `next`
    const uint8_t *features; // reserved
    uint32_t feature_bytes;
    uint32_t draft_nodes, draft_depth, draft_ahead; // the same as in or_prefix_t
    // In a session's first verdict: the positions of the prompt that were not computed, because the cache had them from
    // another text of the same owner.
    uint32_t reused;
} or_verdict_t;

// The verifier's question under slrs, by way of the coordinator to the drafter. With which of these target tokens
// may the drafter's text begin after `node` of the round's tree, and with which probability? No tokens: any.
typedef struct {
    uint64_t round;
    uint32_t base_length; // towards the drafter, in its tokens
    uint64_t base_hash;
    uint32_t node;
    const uint32_t *tokens; // ascending
    uint32_t count;
} or_psi_request_t;

// The drafter's answer: the tokens with a probability above 0.
typedef struct {
    uint64_t round;
    uint32_t node;
    const uint32_t *tokens; // ascending
    const double *psi;
    uint32_t count;
} or_psi_reply_t;

// ---- vocabularies ----

// A request for the vocabulary with this or_vocab_hash. The coordinator asks a drafter for its own, and a drafter asks the
// coordinator for the target's.
typedef struct {
    uint64_t hash;
} or_vocab_request_t;

// A vocabulary, packed by or_vocab_pack.
typedef struct {
    uint64_t hash;
    uint32_t unpacked_bytes;
    const uint8_t *packed;
    uint32_t packed_bytes;
} or_vocabulary_t;

// A map from one vocabulary to another, from coordinator to drafter.
typedef struct {
    uint64_t from_hash, to_hash;
    const int32_t *to; // for each id of `from` the id in `to`; -1: none
    uint32_t count;
    uint64_t map_hash; // or_vocab_map_hash of `to`: a map with another one is not used
} or_vocab_map_t;
uint64_t or_vocab_map_hash(const int32_t *to, uint32_t count); // never 0
