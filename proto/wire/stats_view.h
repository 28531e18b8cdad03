// stats_view - what an owner may see of a coordinator's figures, whichever way it asks.
//
// Nothing here depends on what others write: an owner is told of its own texts and drafters, how many requests wait, and of
// those that work for everybody that they are there. Pure functions.
#pragma once

#include "proto/wire/message.h"

// `owner` is NULL for who may see all, here and below. Is this the owner's? `whose` may be NULL, as "".
bool or_stats_is_own(const char *owner, const char *whose);
// The counts; lists are the same, and `sessions` is how many of the listed ones are the owner's.
or_stats_t or_stats_for_owner(const or_stats_t *stats, const char *owner);
// A peer that the owner may see: one of others', or of everybody's, has no figures and the state "shared".
or_peer_figures_t or_peer_for_owner(const or_peer_figures_t *peer, const char *owner);
