// cluster_internal - a local cluster's state, and how its children are started.
#pragma once

#include "launch/cluster/cluster.h"
#include "launch/cluster/process.h"

#define ENDPOINT_BYTES 256
#define SENTENCE_BYTES 2048
#define FOLDER_BYTES 512

typedef enum { COORDINATOR, VERIFIER, DRAFTER, CHILD_COUNT } or_cluster_child_t;

// A child's life, and when it is to be started again.
typedef struct {
    int64_t started_ns;
    int64_t restart_at_ns;  // OR_TIME_NEVER if none is due
    int64_t pause_ns;       // before the next restart
    bool joined;            // of the verifier, if it may be restarted: since it was started last
    bool served;            // of the drafter: it lived longer than one that is refused ever does
    unsigned failed_starts; // in a row that ended without joining
    bool placed;            // since its last start: its log has said what it runs on
} worker_t;

struct or_cluster {
    or_cluster_config_t config;
    or_process_t children[CHILD_COUNT];
    worker_t workers[CHILD_COUNT];
    char endpoint[ENDPOINT_BYTES];
    char http[ENDPOINT_BYTES];          // "": nowhere
    char ready_file[FOLDER_BYTES + 32]; // with `restart`: it exists while the verifier serves
};

// Start a child with the command line that the configuration asks for. The coordinator's endpoint and HTTP address are known
// afterwards. OR_ERR_IO, OR_ERR_NOT_FOUND, OR_ERR_CANCELLED; OR_ERR_UNREACHABLE if the coordinator does not say where it is.
or_status_t or_cluster_start_child(or_cluster_t *cluster, or_cluster_child_t which);
