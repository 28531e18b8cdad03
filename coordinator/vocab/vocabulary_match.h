// vocabulary_match - drafters whose vocabulary is another than the target's: how they come to be known, and how they meet
// it in a session.
#pragma once

#include "coordinator/peers/peers.h"

// A drafter said Hello: does it have the target's ids, or a vocabulary that is known? If not it is asked for it; false
// until it has come, or if its key brought too many: then it is put off, and no member.
bool or_vocab_match_begin(or_coordinator_t *coordinator, or_member_t *member,
                          const or_hello_t *hello);
// It came. True: the drafter may draft now. A member whose key brought too many is put off, and none any more.
bool or_vocab_match_take(or_coordinator_t *coordinator, or_member_t *member,
                         const or_vocabulary_t *message);
// A drafter that guesses the target's own tokens wants to know them.
void or_vocab_match_send_target(or_coordinator_t *coordinator, or_member_t *member,
                                or_session_id_t session, const or_vocab_request_t *request);
// Ask again those that have not answered. Returns when the next is due.
int64_t or_vocab_match_tick(or_coordinator_t *coordinator);
// Is a drafter's vocabulary still to come?
bool or_vocab_match_goes_on(or_coordinator_t *coordinator);
// The drafter is gone.
void or_vocab_match_forget(or_member_t *member);
// Choose how this drafter's vocabulary meets the target's in this session; `why` (of `capacity` bytes) says so to the user.
// OR_ERR_UNSUPPORTED, with figures and what would do: not at all.
or_status_t or_vocab_match_choose(const or_member_t *member, const or_csession_t *session,
                                  or_vocab_method_t *method, char *why, size_t capacity);
