// session_ids - numbers of sessions, which go to clients, drafters and logs and tell nothing of each other.
//
//     0, 1, 2, ...  ──keyed permutation of 62 bits──▶  odd numbers in no order
//
// An owner that compared its own texts' numbers, were they counted, would know how many texts others began between them. The
// key is drawn for each process, so that a restarted coordinator's sessions are not taken for old ones. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/wire/message.h"

typedef struct {
    uint8_t key[16];
    uint64_t count; // given out so far
} or_session_ids_t;

void or_session_ids_init(or_session_ids_t *ids);
// The number of the next session: never 0. The same until it is taken.
or_session_id_t or_session_ids_next(const or_session_ids_t *ids);
void or_session_ids_take(or_session_ids_t *ids);
// Was there ever a session with this number?
bool or_session_ids_was(const or_session_ids_t *ids, or_session_id_t id);
