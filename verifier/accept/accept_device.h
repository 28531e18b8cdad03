// accept_device - acceptance rules that can run on the device with the target's logits: the recursive rule, if
// temperature alone turns logits into a distribution. One thread, as for the model.
#pragma once

#include "common/model/gpu/gpu_rejection.h"
#include "verifier/accept/accept.h"

// The tree's rows in the last pass.
typedef struct {
    or_gpu_rejection_t *rejection; // NULL: on no device
    uint32_t first_row;            // the root's
    uint32_t rows;                 // of root and nodes
    const uint32_t *row_of;        // of node i, counted from the root's
} or_device_rows_t;

// Return true if this rule with this sampling can run on a device.
bool or_accept_suits_device(or_accept_rule_t rule, const or_sampling_t *sampling);

// Do what or_accept would do with the job and this chooser, on the device. *done is false if the judgement turns out
// to be one for or_accept. Errors are or_gpu_rejection_run's.
or_status_t or_accept_on_device(const or_accept_job_t *job, const or_sampling_t *sampling,
                                const or_keyed_chooser_t *chooser, const or_device_rows_t *rows,
                                or_acceptance_t *acceptance, bool *done);
