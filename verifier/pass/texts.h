// texts - texts at rest: the K and V of sessions that have ended, for other sessions of the same owner that begin
// with the same tokens.
//
// A text holds its pages with a sequence of its own, as any session does; no session computes or waits for it. Their
// number is bounded, and the least recently used one goes first. All of them go before any session loses a page
// (pages.c). One thread.
#pragma once

#include "verifier/session.h"

typedef struct or_texts or_texts_t;

// Create the texts at rest; borrows model. OR_ERR_NO_MEMORY.
or_status_t or_texts_create(or_model_t *model, uint32_t texts_max, or_texts_t **texts_p);
void or_texts_destroy(or_texts_t **texts_p);

// Keep the cached positions of a session that ends, unless a text has as much already or memory is short.
void or_texts_keep(or_texts_t *texts, const or_vsession_t *session);
// Forget the least recently used text. False if there is none.
bool or_texts_drop(or_texts_t *texts);
