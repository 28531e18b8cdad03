// cluster - a coordinator, a verifier and a drafter as child processes on this machine. A verifier of
// several ranks is the job of an mpirun, which is then the child.
//
//     start: coordinator ──ready line: its endpoint──▶ verifier, drafter --connect ENDPOINT
//     watch: the text cannot go on without coordinator and verifier; without the drafter it goes on by plain decoding.
//            With `restart` any of them is started again and sessions go on: after a lost coordinator those of its journal
//
// Main thread only; start it before any other thread runs (it forks).
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "common/base/status.h"
#include "launch/cluster/cluster_models.h"
#include "launch/cluster/http_options.h"

typedef struct {
    FILE *announce; // where one line says who runs where, once it runs; NULL: nowhere
    // The coordinator's endpoint for verifier and drafter, on loopback; a port of * takes any free one. NULL: any free one.
    const char *listen;
    // Further endpoints, for other machines: encrypted, unless `encrypt` is "off". At most OR_CLUSTER_OUTER_MAX.
    char *const *outer;
    size_t outer_count;
    const char *encrypt; // NULL: "auto"
    // Borrowed until stop. It has a target; without a draft model there is no drafter.
    const or_cluster_models_t *models;
    uint32_t sessions_max;            // at a time, of coordinator, verifier and drafter alike
    uint32_t owner_sessions_max;      // of these, one owner's; 0: as many as there are
    uint32_t queue_max;               // requests that wait for a place
    const char *journal;              // the coordinator's; NULL: none
    uint64_t memory_max, journal_max; // bytes that it keeps; 0: as many as it usually does
    const or_http_options_t *http;    // borrowed; NULL: no HTTP
    const char *log_level;
    const char *log_format; // NULL: "text"
    // The children's logs go to our standard error; else they are kept, and quoted when a child fails, or takes the CPU
    // where a GPU was wanted.
    bool show_logs;
    bool restart; // each of them, with a growing pause, when it ends
} or_cluster_config_t;

#define OR_CLUSTER_MODELS_MAX 7u // multi_models
#define OR_CLUSTER_OUTER_MAX 8u
#define OR_CLUSTER_SESSIONS 64u      // sessions_max, unless more are asked for
#define OR_CLUSTER_SESSIONS_OWN 2u   // of who writes one text at a time, and keeps the last
#define OR_CLUSTER_QUEUE 1024u       // queue_max
#define OR_CLUSTER_PLACES_MAX 65536u // of either: the coordinator's bound

typedef struct or_cluster or_cluster_t;

// Strings of `config` are borrowed until stop. Returns when the coordinator listens. OR_ERR_IO,
// OR_ERR_NOT_FOUND, OR_ERR_UNREACHABLE (a child ended at once: its last words), OR_ERR_INVALID (the coordinator's options, too).
or_status_t or_cluster_start(const or_cluster_config_t *config, or_cluster_t **cluster_p);
// End all children and reap them: those that have not ended in order after `patience_ns` are
// killed. NULL is fine.
void or_cluster_stop(or_cluster_t **cluster_p, int64_t patience_ns);

// Return the endpoint where clients connect, borrowed from the cluster.
const char *or_cluster_endpoint(const or_cluster_t *cluster);

// Return the address of its HTTP, as "127.0.0.1:8080"; "" if it has none.
const char *or_cluster_http(const or_cluster_t *cluster);

// Look after the children; call every few hundred milliseconds. A lost drafter is warned of, and with `restart` a lost
// verifier or coordinator.
// OR_ERR_UNREACHABLE if the coordinator or the verifier ended. With `restart` that is so only after several starts of the
// coordinator that failed, or of the verifier without ever joining. Also if the drafter ended before it was of any use
// (`useful` false): its file or options are wrong. OR_ERR_MISMATCH with the coordinator's sentence if it refused one of them,
// OR_ERR_INVALID with a child's own if its options are wrong.
// A drafter that had served before is warned of as a lost one.
or_status_t or_cluster_check(or_cluster_t *cluster, bool useful);
