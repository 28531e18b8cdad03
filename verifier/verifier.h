// verifier - the target's process: checks trees, one forward pass each, and says what the target
// would have written.
//
//     OpenSession, Prefix ──▶ prefill in chunks ──┐
//     DraftTree ──────────────────────────────────┴▶ queue ──▶ forward (root + nodes) ──▶ accept ──▶ Verdict
//
// Under slrs a judgement may wait for the drafter (PsiRequest, PsiReply); others are served meanwhile,
// and the request is repeated with the tree. How long is the coordinator's to say.
//
// One round number, one tree: the last verdict of a session is kept and repeated for a repeated
// round; a second, different tree for the same round is refused. A tree whose base does not match
// our prefix by length and hash gets NEED_PREFIX and changes nothing. One thread; drive it by
// turns, as the drafter.
#pragma once

#include "common/model/model.h"
#include "common/text/vocab.h"
#include "proto/link.h"

typedef struct or_verifier or_verifier_t;

typedef struct {
    uint32_t nodes_max;    // of one tree
    uint32_t sessions_max; // more are refused with BUSY
    uint32_t prefill_rows; // rows a prefill pass; 0: what the model takes
} or_verifier_config_t;

or_hello_t or_verifier_hello(const or_verifier_config_t *config, const or_gguf_t *gguf,
                             const or_model_t *model, const or_vocab_t *vocab);

// Borrows all. OR_ERR_NO_MEMORY.
or_status_t or_verifier_create(const or_verifier_config_t *config, or_model_t *model,
                               const or_vocab_t *vocab, or_link_t *link, const or_clock_t *clock,
                               or_verifier_t **verifier_p);
void or_verifier_destroy(or_verifier_t **verifier_p);

// Handle what waits and run at most one forward pass; returns when to come back at the latest (now,
// if more work waits).
int64_t or_verifier_turn(or_verifier_t *verifier);

// After the coordinator refused us: its sentence; NULL otherwise.
const char *or_verifier_refused(const or_verifier_t *verifier);
