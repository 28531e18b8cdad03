// members - who comes and who goes, and what follows for the sessions.
#pragma once

#include "coordinator/peers/peers.h"

// A peer says who it is.
void or_members_greet(or_coordinator_t *coordinator, or_peer_t peer, const or_hello_t *hello);
// A drafter sent the vocabulary that it announced.
void or_members_take_vocabulary(or_coordinator_t *coordinator, or_member_t *member,
                                const or_vocabulary_t *vocabulary);
// Its connection is gone.
void or_members_lost(or_coordinator_t *coordinator, or_peer_t peer);
// It said good-bye: its requests end.
void or_members_leave(or_coordinator_t *coordinator, or_peer_t peer);
// Look whether the keyring has changed. Texts whose keys do not allow them any more fail. Returns when to look again.
int64_t or_members_tick(or_coordinator_t *coordinator);
// Turn away those that offended once too often and those whose keys do not allow them any more, and hear nothing from
// them for a while. To be called when the ends of their texts are settled.
void or_members_cut_off(or_coordinator_t *coordinator);
