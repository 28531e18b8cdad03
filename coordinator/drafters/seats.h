// seats - a session's drafters, each on its seat: one, or several for method multi.
//
//     awaited ──tree──▶ drafted          its tree for this round is here
//        └──time-out──▶ late             nobody waits for it until it speaks
//
// State only: nothing is sent here. drafting.c fills seats, redraft.c tells drafters, trees.c takes what they send. One
// thread.
#pragma once

#include "common/decode/merge.h"
#include "coordinator/budget/budget.h"
#include "coordinator/budget/usefulness.h"
#include "coordinator/vocab/translator.h"
#include "proto/net/link.h"
#include "proto/session/draft_check.h"
#include "proto/session/token_log.h"

#define OR_SEATS_MAX 4u
#define OR_UNFIT_MAX 16u
#define OR_RESTING_MAX 16u

typedef struct or_seat {
    or_peer_t peer;       // 0: nobody sits here
    or_peer_t before;     // who sat here last; 0: nobody
    uint64_t draft_key;   // what it draws with; no two that serve a session together have the same
    uint64_t link_bytes;  // of its link when it joined
    uint32_t sequences;   // its part of a shape that was asked for; 0: the whole shape
    uint32_t asked_nodes; // the most it was told to build
    uint32_t nodes;       // of its next tree, so far: at most asked_nodes
    or_usefulness_t usefulness;     // of its guesses: it may be told to build less
    or_vocab_method_t vocab_method; // how its vocabulary meets the target's
    or_translator_t *translator;    // to and from its vocabulary; NULL: it has the target's

    // This round's tree.
    bool awaited;       // it is due in this round
    int64_t awaited_ns; // since when; after that, since when it is late
    int64_t waited_ns;  // how long this round waited for it
    bool late;          // it let a round pass: not waited for until it speaks
    bool spoke;         // it has sent something about this text
    bool drafted;       // what follows is its tree for this round; else that is empty
    or_token_tree_t *tree;
    uint64_t tree_digest;   // as it came
    or_draws_store_t draws; // where the rule wants to know them
    uint32_t draft_us;
    uint32_t sent;    // trees and guesses that came in this round, where they are pooled
    uint32_t repeats; // and trees with nothing new
    uint32_t misfits; // trees in a row that stood on another text

    // The drafter's knowledge of the text.
    uint32_t told_length;  // of its text when it was told last
    bool behind;           // the text has grown since
    int64_t unanswered_ns; // since when it owes a word; 0: it does not
    int64_t nudge_ns;      // when to remind it of the round; OR_TIME_NEVER
    int64_t replayed_ns;   // when it was last sent the whole prefix on request
    int64_t mapped_ns;     // and its map
    uint32_t busy_ms; // the pause that its last drafter got as it was busy; 0: a tree came since
    uint64_t nagged;  // the last round in which it asked too often
} or_seat_t;

// A session at its drafters.
typedef struct {
    or_seat_t seats[OR_SEATS_MAX];
    uint32_t count;     // of seats, for good once the first drafter has joined; 0 before
    uint32_t joined;    // drafters so far
    or_merge_t *merge;  // the seats' trees into what the verifier was sent; multi only
    char vocab_map[32]; // how vocabularies meet: "tli", "same+slem"; "": none yet
    char vocab_why[256];
    // Drafters that cannot serve this session: the last few.
    or_peer_t unfit[OR_UNFIT_MAX];
    uint32_t unfit_count; // so far
    // Drafters that were busy or no use to it, and when each may try again: the last few.
    struct {
        or_peer_t drafter;
        int64_t until_ns;
    } resting[OR_RESTING_MAX];
    uint32_t rests; // so far
} or_at_drafters_t;

// The most drafters that may serve a session at the same time.
uint32_t or_seats_max(const or_csession_t *session);
// The seat of this drafter; NULL: it has none.
or_seat_t *or_seats_find(or_csession_t *session, or_peer_t drafter);
// The text as this seat's drafter holds it.
const or_token_log_t *or_seats_log(const or_csession_t *session, const or_seat_t *seat);
// Does the session pool its drafter's guesses, now that its drafter is known?
bool or_seats_pool(const or_csession_t *session);
// Can trees of its method be made smaller without another shape?
bool or_seats_can_cut(const or_csession_t *session);
// The accepted path in the numbers of this seat's own tree, as far as that has it: how many nodes. `path` has room for
// verdict->accepted_count.
uint32_t or_seats_own_path(const or_csession_t *session, uint32_t seat, const or_verdict_t *verdict,
                           uint32_t *path);
// The guesses that the drafters of the text were asked for at most, all together.
uint32_t or_seats_asked_nodes(const or_csession_t *session);
// The seat of a drafter with another vocabulary that made this round's guesses; NULL: there is none.
or_seat_t *or_seats_guessing(or_csession_t *session);

// Has a text given a drafter up a while ago, and has it sent nothing about any text since? After some more time that is
// forgotten, and a text tries it again. late_ns is the drafter's (or_member_t).
bool or_seats_is_quiet(const or_coordinator_t *coordinator, int64_t late_ns);
// A new round: expect a tree of every seat that is taken, not late, and has sent none yet. A quiet drafter is late at once
// for a text that it has sent nothing about.
void or_seats_await(or_coordinator_t *coordinator, or_csession_t *session);
// Is one still to come?
bool or_seats_are_awaited(const or_csession_t *session);
// Its tree came, or is waited for no longer.
void or_seats_end_wait(const or_coordinator_t *coordinator, or_seat_t *seat);
// It is late: not waited for until it speaks.
void or_seats_lose_patience(or_coordinator_t *coordinator, or_seat_t *seat);
// This round does without those that are awaited, and holds it against none of them.
void or_seats_bridge(or_csession_t *session);
// A round was judged and `accepted` of its nodes were taken. What became of its guesses, and how long they took, decides
// how many it is asked for next. False: none, and `why`.
bool or_seats_judge(const or_coordinator_t *coordinator, const or_csession_t *session,
                    or_seat_t *seat, uint32_t accepted, char *why, size_t capacity);
