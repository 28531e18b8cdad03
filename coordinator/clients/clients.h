// clients - what clients ask for: texts, the rest of them, their end; where texts lie, and what they keep of the memory.
#pragma once

#include "coordinator/peers/peers.h"

// ---- clients.c: requests ----

// A message of a client.
void or_clients_take(or_coordinator_t *coordinator, or_peer_t from, const or_message_t *message);
// Settle what is marked of a session for its client and for the queue: it is parked, queues again, is forgotten or told.
void or_clients_settle(or_coordinator_t *coordinator, or_csession_t *session);

// ---- parking.c: while clients are away ----

// The client's connection is gone: its requests stay for it, those that have not begun too, but hold no place of others.
void or_parking_detach(or_coordinator_t *coordinator, or_peer_t client);
// It said good-bye: its requests end.
void or_parking_leave(or_coordinator_t *coordinator, or_peer_t client);
// It lets go of this one alone.
void or_parking_put_away(or_coordinator_t *coordinator, or_csession_t *session);
// Nobody wants it any more: it ends, and is forgotten.
void or_parking_cancel(or_coordinator_t *coordinator, or_csession_t *session);
// Its client is away, and nobody was asked about its round (or_round_is_asked): keep it for the client, within bounds.
void or_parking_park(or_coordinator_t *coordinator, or_csession_t *session);
// The session that this client shows the token of, also if only the journal has it. OR_ERR_NOT_FOUND: there is none, or it
// is another's. OR_ERR_FULL: it cannot go on now; after *retry_ms.
or_status_t or_parking_find(or_coordinator_t *coordinator, const or_member_t *client,
                            const or_resume_t *resume, or_csession_t **session_p,
                            uint32_t *retry_ms);
// The session is this client's from here on, and waits to go on if it was parked.
void or_parking_return(or_coordinator_t *coordinator, or_csession_t *session,
                       const or_member_t *client);

// ---- places.c: the table's places ----

// May this client have one more text at work or waiting, by its key and by the queue? OR_ERR_FULL, with a sentence for
// an answer BUSY: after *retry_ms.
or_status_t or_places_admit(or_coordinator_t *coordinator, const or_member_t *client, bool plain,
                            uint32_t *retry_ms);
// A place for a session of `client`. Sessions that are done make room: the client's own, those whose clients had their time,
// and of others those of the owner that keeps most. OR_ERR_FULL as above.
or_status_t or_places_find(or_coordinator_t *coordinator, const or_member_t *client,
                           or_csession_t ***place_p, uint32_t *retry_ms);

// ---- places.c: what a text keeps of the memory, in its owner's account (ledger.h) ----
//
// Where there is no more for the owner, its own ends are forgotten first, the oldest before the others.

// It was just made. OR_ERR_FULL with a sentence: it cannot be kept.
#define OR_CHARGES_RETRY_MS 2000u // until then texts end, and ends are forgotten
or_status_t or_charges_open(or_coordinator_t *coordinator, or_csession_t *session);
// It has grown. If there is no memory for that a text that goes on fails, and its `finish` says so.
void or_charges_grow(or_coordinator_t *coordinator, or_csession_t *session);
// It keeps less than before.
void or_charges_shrink(or_csession_t *session);
// Forget a session that is over; nothing at a free place.
void or_charges_drop(or_coordinator_t *coordinator, or_csession_t **place);
