// shadow - the committed text as a drafter with another vocabulary holds it.
//
//     target   <s> | Once | upon | a | won | derful            the truth (token_log of the session)
//     text         "Once upon a wonderful"
//     shadow   <eot> | Once | upon | a | wonder | ful          what the drafter is sent; its own ids and hash
//
// The text is the drafter's tokenizer's own view of the whole, so that the drafter reads what it was
// trained on. But only the tail since the last place where no later text can change the tokens is
// tokenised again, so a round costs its own tokens. Where the vocabularies are a bijection tokens go
// over one by one instead, and nothing is tokenised. Special tokens go over by content and are left out
// where the drafter has none; its begin token is put where it wants one. One thread.
#pragma once

#include "common/text/vocab/vocab_pair.h"
#include "proto/session/token_log.h"

typedef struct or_shadow or_shadow_t;

// Borrows pair. OR_ERR_NO_MEMORY.
or_status_t or_shadow_create(const or_vocab_pair_t *pair, or_shadow_t **shadow_p);
void or_shadow_destroy(or_shadow_t **shadow_p);

// Bring it up to date with the target's committed tokens, of which those of the last call are a prefix.
// *changed: the first token of the shadow that is not what it was before the call (its length then, if
// it only grew). The shadow is never empty afterwards: where the text gives it nothing, its begin or
// end token stands for that. OR_ERR_NO_MEMORY; OR_ERR_UNSUPPORTED if there is nothing it could hold.
or_status_t or_shadow_follow(or_shadow_t *shadow, const int32_t *tokens, uint32_t count,
                             uint32_t *changed);

// The drafter's tokens; valid until the next follow.
const or_token_log_t *or_shadow_log(const or_shadow_t *shadow);
