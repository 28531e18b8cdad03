// grants - what a peer's key allows: who it is when it greets, how many texts it may have, and how fast they are written.
#pragma once

#include "coordinator/peers/peers.h"

#define OR_GRANTS_RETRY_MS 1000u // for who may not have one more text now

// The grant of this key; NULL: it is "", it is not in the keyring, or there are no keys.
const or_key_grant_t *or_grants_find(const or_coordinator_t *coordinator, const char *key);
// Does a grant (NULL: there is none) let a peer of this owner be this?
bool or_grants_allow_role(const or_key_grant_t *grant, or_role_t role, const char *owner);
// Set owner, trust and limits of a member whose peer is set, by its key or where it connects from. False, with a sentence
// for it: it may not come in as that.
bool or_grants_identify(or_coordinator_t *coordinator, const or_hello_t *hello, or_member_t *member,
                        char *text, size_t capacity);
// May this client's key have one more request at work or waiting? This is asked when one is begun and when a parked one
// is to go on, while it is parked still. Parked ones and those that are done are not counted. If not, why, for an answer
// BUSY after OR_GRANTS_RETRY_MS.
bool or_grants_allow_session(const or_coordinator_t *coordinator, const or_member_t *client,
                             char *why, size_t capacity);
// May its text be written now? If its key has written as much as it may, session->queue.paced_ns says until when; else
// that is 0.
bool or_grants_may_write(or_coordinator_t *coordinator, or_csession_t *session);
// Its text has grown by so many tokens.
void or_grants_wrote(or_coordinator_t *coordinator, const or_csession_t *session, uint32_t tokens);
