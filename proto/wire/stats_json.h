// stats_json - a coordinator's figures as JSON: /status and `outrider status --json`.
//
//     {"model": "tales-6m-f16.gguf", "ready": true, ..., "figures": {"rounds": 812, ...},
//      "peers": [{...}], "sessions": [{...}], "events": [{...}]}
//
// Pure.
#pragma once

#include <jansson.h>

#include "proto/wire/message.h"

// Make the object, which the caller passes to json_decref. An `owner` other than "" is shown what proto/wire/figures.h says
// that it may see: no sessions and peers of others, and no events. Only events after number `events_after` are listed.
// NULL: no memory.
json_t *or_stats_json(const or_stats_t *stats, const char *owner, uint64_t events_after);
