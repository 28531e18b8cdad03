// session - one text at the drafter: the shadow of the committed prefix, its KV cache, the last tree built.
//
//     log     [ prompt ........ completion .... root ]
//     lanes   [ K and V of what was computed ]  slots: the expanded nodes of the last tree
//     round   the one to draft next, or drafted and not yet judged
//
// It knows no peers and sends nothing; drafter.c does. One thread.
//
// A session that was opened to draft ahead keeps one growing tree (builder.h) if its method and rule allow that. Its
// text then comes as prefixes alone. The part of the tree that they follow is kept, learnt from, and not computed
// again. If it works 2 or more rounds ahead, the coordinator is told of each guess once, as soon as it is final. It
// first hears of the round's tree without the guesses it knows, then of more.
#pragma once

#include "common/base/clock.h"
#include "common/decode/merge.h"
#include "common/model/model.h"
#include "common/text/vocab/vocab.h"
#include "drafter/lane.h"
#include "drafter/strings/kept.h"
#include "drafter/strings/session_strings.h"
#include "proto/session/terms.h"
#include "proto/session/token_log.h"

#define OR_DRAFT_MODELS_MAX 8u // in one drafter

typedef struct {
    or_session_id_t id; // 0: this place is free
    or_terms_t terms;
    or_map_t *map; // the map that guesses are restricted by, held; NULL: none
    or_token_log_t log;
    // The place where token `place_at` of the log begins: the next token, if the last Prefix said so, else the first
    // of the completion.
    or_noise_place_t place;
    uint32_t place_at;
    or_lane_t lanes[OR_DRAFT_MODELS_MAX];
    uint32_t lane_count; // 1, unless several models draft
    or_merge_t *merge;   // merges the lanes' trees into `tree`
    or_shape_t shape;    // shape of its trees, for methods that have one
    uint32_t nodes;      // nodes of the next tree: as many as the session was opened with, or fewer
    uint32_t depth;      // levels of the next tree, likewise
    uint32_t ahead;      // rounds ahead, likewise
    bool grows;          // its tree grows on, in the first lane's builder
    bool grown;          // the tree has grown as far as there is room
    uint32_t growths;    // passes in which it has grown since the round's tree was due
    or_belief_t belief;
    or_calibration_t *calibration; // one of the shared ones; NULL if the method uses none
    or_dstrings_t slrs;            // with rule slrs: the chain that travels
    or_token_tree_t *tree;         // the round's whole tree
    or_build_news_t news;          // growing tree: what the coordinator is told next
    uint64_t round;                // 0 before the first prefix
    uint64_t tree_round;           // the round of `tree`; 0 if there is none
    bool built;        // the builder built the tree; else it is empty for want of context
    uint32_t draft_us; // time to build it
    // Time and passes before that in which text was read that the cache had long lacked.
    uint32_t read_us, read_passes;
    uint32_t passes;     // forward passes to build it, failed attempts included
    uint64_t passes_all; // forward passes of all trees so far
    bool wanted;         // a tree is due for `round`
    bool at_work; // the drafter's: it builds or grows for it, so the session must stay as it is
    bool called;  // the drafter's: messages about it wait for it to stop reading
    int64_t used_ns;
    // For growing trees: when the last one was sent, or 0. Then moving averages of the time until the text goes
    // on, and of the time of a pass that is waited for.
    int64_t sent_ns;
    double away_ns, pass_ns;
} or_dsession_t;

// The sessions of one process share these.
typedef struct {
    or_model_t *model;
    const or_vocab_t *vocab;
    const or_clock_t *clock;
    uint32_t nodes_max;
    or_calibrations_t *calibrations;
    or_maps_t *maps;       // maps of `vocab`, for sessions that are restricted by one
    or_targets_t *targets; // for sessions that draft strings (slrs)
    // Further models of the same vocabulary, for method multi. They hold at least as many positions as `model`.
    or_model_t *const *more_models;
    uint32_t more_count; // at most OR_DRAFT_MODELS_MAX - 1
} or_dshared_t;

// Fill a free place. OR_ERR_UNSUPPORTED (method), OR_ERR_INVALID (sampling; a map that leaves no token),
// OR_ERR_NOT_FOUND (the map, or for slrs the target's vocabulary, is not here), OR_ERR_NO_MEMORY; or_lane_open's.
or_status_t or_dsession_open(or_dsession_t *session, const or_dshared_t *shared, or_session_id_t id,
                             const or_open_session_t *open);
void or_dsession_close(or_dsession_t *session);
// Return true if another session that was opened so would build what this one does.
bool or_dsession_is_as(const or_dsession_t *session, const or_dshared_t *shared,
                       const or_open_session_t *open);

// Return true if the session holds pages; give them all back. Their content is computed again when it drafts.
bool or_dsession_holds_pages(const or_dsession_t *session);
void or_dsession_drop_pages(or_dsession_t *session);

// Take committed tokens. If they go on along the last tree, keep the K and V of that path; if they differ from our
// text, keep what lies before. Learn, if the prefix says what became of the tree. *again: the prefix is the text that
// the last tree stands on already, so send that tree again. OR_ERR_MISMATCH (the caller asks for all tokens from 0),
// OR_ERR_INVALID, OR_ERR_FULL; nothing has changed then.
or_status_t or_dsession_prefix(or_dsession_t *session, const or_dshared_t *shared,
                               const or_prefix_t *prefix, bool *again);

// Return true if the prefix is the text, in all that it says, for which a tree is due: to take it changes nothing.
bool or_dsession_repeats(const or_dsession_t *session, const or_prefix_t *prefix);

// Take a verdict: keep the accepted nodes' K and V, learn, move to the next round. Old verdicts are
// ignored. OR_ERR_MISMATCH if it does not fit what we hold; nothing has changed then.
or_status_t or_dsession_verdict(or_dsession_t *session, const or_dshared_t *shared,
                                const or_verdict_t *verdict);

// Return the place where the next token begins.
or_noise_place_t or_dsession_place(const or_dsession_t *session, const or_dshared_t *shared);

// Bring the cache up to date, in passes of the model's size, and grow session->tree for session->round. The part of
// it that the coordinator lacks is session->news, if it is told news. OR_ERR_FULL: no pages. OR_ERR_AGAIN: it was called while
// it read; a tree is still due.
or_status_t or_dsession_draft(or_dsession_t *session, const or_dshared_t *shared);

// Tell the whole tree of the round again, and what has grown on it once more: the coordinator may have lost it.
void or_dsession_tell_again(or_dsession_t *session);
// Return true if the coordinator is told news rather than each round's whole tree.
bool or_dsession_tells_news(const or_dsession_t *session);
// Note that its tree was sent now; that the text has gone on now. Both are for or_build_job_t.pass_cost.
void or_dsession_sent(or_dsession_t *session, int64_t now_ns);
void or_dsession_heard(or_dsession_t *session, int64_t now_ns);

// Return the forward passes of all its models so far.
uint64_t or_dsession_passes(const or_dsession_t *session);

// Return true if the session has a tree that may grow on; return its number of guesses.
bool or_dsession_can_grow(const or_dsession_t *session);
uint32_t or_dsession_grown(const or_dsession_t *session);
// Grow it by a pass; then session->news is what the coordinator should be told at once, or empty. Takes no pages.
// Errors are the model's.
or_status_t or_dsession_grow(or_dsession_t *session, const or_dshared_t *shared);

// slrs: take a question about the chain of `session->round`, which may still be drawn; old ones are
// ignored. OR_ERR_MISMATCH if it does not fit what we hold; OR_ERR_INVALID, OR_ERR_NO_MEMORY.
or_status_t or_dsession_ask(or_dsession_t *session, const or_psi_request_t *request);
// Return true if there is a question to answer.
bool or_dsession_is_asked(const or_dsession_t *session);
// Answer it, bringing the cache up to date first. The reply borrows from the session until the next
// answer or tree. OR_ERR_FULL: no pages; OR_ERR_INVALID (node or tokens): there is no answer.
or_status_t or_dsession_answer(or_dsession_t *session, const or_dshared_t *shared,
                               or_psi_reply_t *reply);
