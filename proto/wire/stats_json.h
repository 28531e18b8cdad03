// stats_json - a coordinator's figures as JSON: /status and `outrider status --json`.
//
//     {"model": "tales-6m-f16.gguf", "ready": true, ..., "figures": {"rounds": 812, ...},
//      "peers": [{...}], "sessions": [{...}], "events": [{...}]}
//
// Pure.
#pragma once

#include <jansson.h>

#include "proto/wire/message.h"

// The caller's to json_decref. Sessions and peers that belong to others than `owner` are left out, as are events, which tell of
// all, and the counts that all texts add to: an owner is told how many requests wait, and of verifiers that they are there.
// "": nobody is another. Only events after number `events_after`. NULL: no memory.
json_t *or_stats_json(const or_stats_t *stats, const char *owner, uint64_t events_after);
