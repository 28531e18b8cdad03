// session - one text at the drafter: the shadow of the committed prefix, its KV cache, the last
// tree built.
//
//     log     [ prompt ........ completion .... root ]
//     lanes   [ K and V of what was computed ]  slots: the expanded nodes of the last tree
//     round   the one to draft next, or drafted and not yet judged
//
// It knows no peers and sends nothing: drafter.c does. One thread.
//
// A session that was opened to draft ahead keeps one growing tree (builder.h) where its method and rule
// allow it. Its text comes as prefixes alone; whatever of the tree they follow is kept, learnt from, and
// not computed again. Where it works 2 rounds ahead or more, the coordinator is told of each guess once, as
// soon as it is final: told are the round's tree without what is known already, then more of it.
#pragma once

#include "common/base/clock.h"
#include "common/decode/merge.h"
#include "common/model/model.h"
#include "common/text/vocab/vocab.h"
#include "drafter/lane.h"
#include "drafter/strings/maps.h"
#include "drafter/strings/session_strings.h"
#include "proto/wire/terms.h"
#include "proto/wire/token_log.h"

#define OR_DRAFT_MODELS_MAX 8u // in one drafter

typedef struct {
    or_session_id_t id; // 0: this place is free
    or_terms_t terms;
    or_map_t *map; // that guesses are restricted by, held; NULL: they are not
    or_token_log_t log;
    // Where token `place_at` of the log begins: the next one, when the last Prefix said so; else the
    // first of the completion.
    or_noise_place_t place;
    uint32_t place_at;
    or_lane_t lanes[OR_DRAFT_MODELS_MAX];
    uint32_t lane_count; // 1, unless several models draft
    or_merge_t *merge;   // the lanes' trees into `tree`
    or_shape_t shape;    // of its trees, for methods that have one
    uint32_t nodes;      // of the next tree: what the session was opened with, or less
    uint32_t depth;      // the same of its levels
    uint32_t ahead;      // the same of open_session's draft_ahead
    bool grows;          // its tree grows on; the first lane's builder has it
    bool grown;          // as far as there is room
    or_belief_t belief;
    or_calibration_t *calibration; // of the shared ones; NULL if the method uses none
    or_dstrings_t slrs;            // with that rule, what travels
    or_token_tree_t *tree;         // the round's, whole
    or_build_news_t news;          // of a growing tree: what the coordinator is to be told next
    uint64_t round;                // 0 before the first prefix
    uint64_t tree_round;           // of `tree`; 0 if there is none
    bool built;                    // by the builder; else it is empty for want of context
    uint32_t draft_us;             // what building it took
    uint32_t passes;               // and how many forward passes, those of failed attempts included
    uint64_t passes_all;           // of all trees so far
    bool wanted;                   // a tree is due for `round`
    int64_t used_ns;
    // Of growing trees: when the last one went out, or 0; and moving averages of how long it is until the
    // text goes on, and of what a pass takes that is waited for.
    int64_t sent_ns;
    double away_ns, pass_ns;
} or_dsession_t;

// What sessions of one process share.
typedef struct {
    or_model_t *model;
    const or_vocab_t *vocab;
    const or_clock_t *clock;
    uint32_t nodes_max;
    or_calibrations_t *calibrations;
    or_maps_t *maps;       // of `vocab`, for sessions that are restricted by one
    or_targets_t *targets; // for sessions that draft strings (slrs)
    // Further models of the same vocabulary, for method multi; they hold as many positions as `model`
    // or more.
    or_model_t *const *more_models;
    uint32_t more_count; // at most OR_DRAFT_MODELS_MAX - 1
} or_dshared_t;

// Fill a free place. OR_ERR_UNSUPPORTED (method), OR_ERR_INVALID (sampling; a map that leaves no
// token), OR_ERR_NOT_FOUND (the map, or for slrs the
// target's vocabulary, is not here), OR_ERR_NO_MEMORY.
or_status_t or_dsession_open(or_dsession_t *session, const or_dshared_t *shared, or_session_id_t id,
                             const or_open_session_t *open);
void or_dsession_close(or_dsession_t *session);
// Would another session that was opened so build what this one does?
bool or_dsession_is_as(const or_dsession_t *session, const or_dshared_t *shared,
                       const or_open_session_t *open);

// Does it hold pages? Give them all back; what was in them is computed again when it drafts.
bool or_dsession_holds_pages(const or_dsession_t *session);
void or_dsession_drop_pages(or_dsession_t *session);

// Take committed tokens. Where they go on along the last tree, keep the K and V of that path; where
// they differ from what we hold, keep what lies before. Learn, if it says what became of the tree.
// *again: the prefix is what the last tree stands on already, so send that tree again.
// OR_ERR_MISMATCH (replay from 0, please), OR_ERR_INVALID, OR_ERR_FULL; nothing has changed then.
or_status_t or_dsession_prefix(or_dsession_t *session, const or_dshared_t *shared,
                               const or_prefix_t *prefix, bool *again);

// Take a verdict: keep the accepted nodes' K and V, learn, move to the next round. Old verdicts are
// ignored. OR_ERR_MISMATCH if it does not fit what we hold; nothing has changed then.
or_status_t or_dsession_verdict(or_dsession_t *session, const or_dshared_t *shared,
                                const or_verdict_t *verdict);

// Where the next token begins.
or_noise_place_t or_dsession_place(const or_dsession_t *session, const or_dshared_t *shared);

// Bring the cache up to date, in passes of the model's size, and grow session->tree for
// session->round; session->news is what the coordinator lacks of it, where it is told so. OR_ERR_FULL: no
// pages.
or_status_t or_dsession_draft(or_dsession_t *session, const or_dshared_t *shared);

// The coordinator may have lost what it was told of the round: it is told of the whole tree again, and of what has
// grown on it once more.
void or_dsession_tell_again(or_dsession_t *session);
// Is the coordinator told news, rather than each round's tree whole?
bool or_dsession_tells_news(const or_dsession_t *session);
// Its tree went out now; the text has gone on now. For or_build_job_t.pass_share.
void or_dsession_sent(or_dsession_t *session, int64_t now_ns);
void or_dsession_heard(or_dsession_t *session, int64_t now_ns);
// Finishing the tree took draft_us and so many passes.
void or_dsession_took(or_dsession_t *session, uint64_t passes);

// Forward passes so far, of all its models.
uint64_t or_dsession_passes(const or_dsession_t *session);

// Has the session a tree that may grow on? Its guesses by now.
bool or_dsession_can_grow(const or_dsession_t *session);
uint32_t or_dsession_grown(const or_dsession_t *session);
// Grow it by a pass; then session->news is what the coordinator should be told at once, or empty. Takes
// no pages. Errors are the model's.
or_status_t or_dsession_grow(or_dsession_t *session, const or_dshared_t *shared);

// slrs: take a question about the chain of `session->round`, which may still be drawn; old ones are
// ignored. OR_ERR_MISMATCH if it does not fit what we hold; OR_ERR_INVALID, OR_ERR_NO_MEMORY.
or_status_t or_dsession_ask(or_dsession_t *session, const or_psi_request_t *request);
// Is there one to answer?
bool or_dsession_is_asked(const or_dsession_t *session);
// Answer it, bringing the cache up to date first. The reply borrows from the session until the next
// answer or tree. OR_ERR_FULL: no pages; OR_ERR_INVALID (node or tokens): there is no answer.
or_status_t or_dsession_answer(or_dsession_t *session, const or_dshared_t *shared,
                               or_psi_reply_t *reply);
