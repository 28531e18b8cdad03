// accept_device - acceptance rules that can run on the device where the target's logits are: "recursive", where
// temperature is all that makes a distribution of logits.
#pragma once

#include "common/model/gpu/gpu_rejection.h"
#include "verifier/accept/accept.h"

// Where the tree's rows are in the last pass.
typedef struct {
    or_gpu_rejection_t *rejection; // NULL: on no device
    uint32_t first_row;            // the root's
    uint32_t rows;                 // of root and nodes
    const uint32_t *row_of;        // of node i, counted from the root's
} or_device_rows_t;

// Could this rule, with this sampling, be run on a device?
bool or_accept_suits_device(or_accept_rule_t rule, const or_sampling_t *sampling);

// What or_accept would make of the job with this chooser, for what suits a device. *done is false where a judgement
// turns out to be one for or_accept. Errors are or_gpu_rejection_run's.
or_status_t or_accept_on_device(const or_accept_job_t *job, const or_sampling_t *sampling,
                                const or_keyed_chooser_t *chooser, const or_device_rows_t *rows,
                                or_acceptance_t *acceptance, bool *done);
