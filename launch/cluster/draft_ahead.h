// draft_ahead - what --draft-policy and --draft-ahead ask for; shared by generate and bench.
#pragma once

#include "common/decode/methods.h"
#include "proto/wire/message.h"

#define OR_DRAFT_AHEAD_USUAL (-1) // --draft-ahead was not given
#define OR_DRAFT_AHEAD_AUTO 4u    // the most that auto goes ahead then; fixed does not
#define OR_DRAFT_AHEAD_ROUNDS_MAX 8

// Set draft_policy and draft_ahead of `request`. OR_ERR_INVALID names the option and what is allowed.
or_status_t or_draft_ahead_parse(const char *policy, int32_t ahead, or_generate_request_t *request);

// May this pair be drafted ahead for? Guesses that are drawn, and rules that believe how, are for one text
// alone.
bool or_draft_ahead_is_legal(or_draft_method_t method, or_accept_rule_t rule);
