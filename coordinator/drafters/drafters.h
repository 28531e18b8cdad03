// drafters - who drafts for a session, what drafters are told, and the trees that they send. One thread.
#pragma once

#include "coordinator/drafters/seats.h"
#include "coordinator/session/session.h"

// ---- redraft.c: what a drafter is told ----

// Tell it (again) what to draft.
void or_redraft_open(or_coordinator_t *coordinator, const or_csession_t *session,
                     const or_seat_t *seat);
// Send the map that it keeps to.
void or_redraft_send_map(or_coordinator_t *coordinator, const or_csession_t *session,
                         const or_seat_t *seat);
// Send the committed text, in its own tokens: all of it, or the last tokens, which do for who has only missed a little.
void or_redraft_send_prefix(or_coordinator_t *coordinator, or_csession_t *session, or_seat_t *seat,
                            bool whole);
// Send the part of the text that it has not been told yet.
void or_redraft_send_tail(or_coordinator_t *coordinator, or_csession_t *session, or_seat_t *seat);
// Pass on a verdict on a tree of which `accepted` nodes are its own, with their numbers in `path`: the verdict itself, or
// the text's tail.
void or_redraft_pass_on(or_coordinator_t *coordinator, or_csession_t *session, or_seat_t *seat,
                        const or_verdict_t *verdict, const uint32_t *path, uint32_t accepted);
// Tell drafters that are awaited what they do not know of the text.
void or_redraft_catch_up(or_coordinator_t *coordinator, or_csession_t *session);
// Remind drafters of the round where it is time.
void or_redraft_nudge(or_coordinator_t *coordinator, or_csession_t *session);

// ---- drafting.c: who sits on the seats ----

// Find drafters for the session's free seats and tell them everything; true if one came. Under a ratio rule only trusted
// ones will do.
bool or_drafting_join(or_coordinator_t *coordinator, or_csession_t *session);
// Are drafters here, and none of them has a vocabulary that suits? `why` says so.
bool or_drafting_has_only_strangers(or_coordinator_t *coordinator, or_csession_t *session,
                                    char *why, size_t capacity);
// The drafters move on with us, and those that are no use leave. One that is late is not flooded: it gets a prefix when
// it speaks.
void or_drafting_pass_on(or_coordinator_t *coordinator, or_csession_t *session,
                         const or_verdict_t *verdict);
// The drafters that are awaited are late now.
void or_drafting_give_up(or_coordinator_t *coordinator, or_csession_t *session);
// A drafter leaves its seat.
void or_drafting_leave(or_coordinator_t *coordinator, or_csession_t *session, or_seat_t *seat);
// All leave, and are told why. Who comes after that takes over from nobody.
void or_drafting_leave_all(or_coordinator_t *coordinator, or_csession_t *session,
                           const char *reason);
// It leaves for good: it cannot serve this session. Another may.
void or_drafting_dismiss(or_coordinator_t *coordinator, or_csession_t *session, or_seat_t *seat,
                         const char *why);
// It is busy and asks to be let alone for `ms`. Another may take its seat.
void or_drafting_pause(or_coordinator_t *coordinator, or_csession_t *session, or_seat_t *seat,
                       uint32_t ms);

// ---- trees.c: what drafters sent for a round ----

// A new round: no seat has a tree.
void or_trees_clear(or_csession_t *session);
// This seat has none.
void or_trees_drop(const or_csession_t *session, or_seat_t *seat);
// The time that its drafter took for it, what it read included.
uint32_t or_trees_time_us(const or_draft_tree_t *tree);
// Tells two trees of a round apart.
uint64_t or_trees_digest(const or_draft_tree_t *tree);
// Keep what the drafter on this seat sent for the round, or put it into the pool. OR_ERR_INVALID: it cannot be judged.
// OR_ERR_MISMATCH: it stands on a text that the session has not.
or_status_t or_trees_take(or_coordinator_t *coordinator, or_csession_t *session, or_seat_t *seat,
                          const or_draft_tree_t *tree);
// Make the round's tree of what came, merged by prefix in the order of the seats, or of the first guesses of the pool. It
// is empty if the verifier cannot take it.
void or_trees_gather(or_coordinator_t *coordinator, or_csession_t *session);
// The tree in coordinator->scratch becomes the round's, or none if the verifier cannot take it.
void or_trees_keep_scratch(or_coordinator_t *coordinator, or_csession_t *session);
// May the verifier we have now be sent what was gathered at all? It may have come after the drafters were told what to
// build. Under a ratio rule a tree must not be dropped for what was drawn (docs/algorithms.md section 3), so this is about
// what was asked for; other rules do not mind.
bool or_trees_suit_verifier(const or_coordinator_t *coordinator, or_csession_t *session);
