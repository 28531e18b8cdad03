// verifier - the target's process: it checks the trees of many sessions, in passes that they share, and says what the
// target would have written.
//
//     OpenSession, Prefix ──▶ prefixes, in parts ──┐
//     DraftTree ───────────────────────────────────┴▶ scheduler ──▶ one pass of many ──▶ accept ──▶ Verdicts
//
// A text does not depend, bit by bit, on the sessions that share its passes. Fair queueing decides which take part,
// first among owners (scheduler.h). Prefixes that an owner's texts have in common are computed once. If pages are
// short, sessions give theirs (pages.c): KvEvicted says so, and the prefix is computed again when a tree needs it.
//
// Under slrs a judgement may wait for the drafter (PsiRequest, PsiReply). Others are served meanwhile, and the
// request is repeated with the tree. The coordinator decides how long that may last.
//
// A round number belongs to one tree. The last verdict of a session is kept and repeated for a repeated round; a
// second, different tree for the same round is refused. A tree whose base does not match our prefix by length and
// hash gets NEED_PREFIX and changes nothing. One thread; drive it by turns, as the drafter.
#pragma once

#include "common/model/model.h"
#include "common/text/vocab/vocab.h"
#include "proto/net/link.h"

typedef struct or_verifier or_verifier_t;

typedef struct {
    uint32_t nodes_max; // most nodes of one tree
    // A session beyond these takes the place of one at rest, which its coordinator replays if it comes back. If none
    // rests it is refused with BUSY.
    uint32_t sessions_max;
    uint32_t
        batch_rows; // most rows of a pass, of all sessions together; 0: as many as the model takes
    uint32_t crowd_rows; // the same while several sessions are open; 0: batch_rows
    uint32_t stats_ms;   // how often Stats are sent; 0: never
    bool no_prefix_sharing;
    // A delay: a pass does not begin before work has waited for so long. It makes a slow target, for laboratories.
    uint32_t step_delay_us;
} or_verifier_config_t;

// Return the Hello of this verifier. Its strings are borrowed from gguf and model.
or_hello_t or_verifier_hello(const or_verifier_config_t *config, const or_gguf_t *gguf,
                             const or_model_t *model, const or_vocab_t *vocab);

// Create a verifier; borrows all. OR_ERR_INVALID if a pass of the model has no room for a tree of nodes_max nodes and
// its root; OR_ERR_NO_MEMORY; OR_ERR_IO (a GPU).
or_status_t or_verifier_create(const or_verifier_config_t *config, or_model_t *model,
                               const or_vocab_t *vocab, or_link_t *link, const or_clock_t *clock,
                               or_verifier_t **verifier_p);
void or_verifier_destroy(or_verifier_t **verifier_p);

// Handle the waiting messages and run at most one forward pass. Returns when to come back at the latest: now, if more
// work waits.
int64_t or_verifier_turn(or_verifier_t *verifier);

// Return the coordinator's sentence after it refused us; NULL otherwise.
const char *or_verifier_refused(const or_verifier_t *verifier);

// Return why several ranks are out of step, as after a pass that failed on the way; NULL otherwise. The verifier then
// does nothing any more. The owner of the process ends it with those of the other ranks; the coordinator has the
// texts.
const char *or_verifier_broken(const or_verifier_t *verifier);
