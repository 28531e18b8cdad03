#include "verifier/accept/accept_device.h"

#include <string.h>

bool or_accept_suits_device(or_accept_rule_t rule, const or_sampling_t *sampling)
{
    return rule == OR_ACCEPT_RECURSIVE && or_sampling_is_plain(sampling) &&
           sampling->temperature > 0 && sampling->top_k == 0 && sampling->top_p >= 1 &&
           sampling->min_p <= 0;
}

static void take_path(const or_cuda_path_t *path, or_acceptance_t *acceptance)
{
    memcpy(acceptance->accepted, path->accepted, path->accepted_count * sizeof *path->accepted);
    acceptance->accepted_count = path->accepted_count;
    acceptance->next = path->next;
    acceptance->stopped = path->stopped != 0;
}

or_status_t or_accept_on_device(const or_accept_job_t *job, const or_sampling_t *sampling,
                                const or_keyed_chooser_t *chooser, const or_device_rows_t *rows,
                                or_acceptance_t *acceptance, bool *done)
{
    const or_gpu_trial_t trial = {.tree = job->tree,
                                  .draws = job->draws,
                                  .first_row = rows->first_row,
                                  .rows = rows->rows,
                                  .row_of = rows->row_of,
                                  .temperature = sampling->temperature,
                                  .key = chooser->key,
                                  .round = chooser->round,
                                  .stop_ids = job->stop_ids,
                                  .stop_count = job->stop_count};
    const or_cuda_path_t *path = NULL;
    *done = false;
    if (rows->rejection == NULL) {
        return OR_OK;
    }
    or_status_t status = or_gpu_rejection_run(rows->rejection, &trial, &path);
    if (status == OR_OK && path != NULL) {
        take_path(path, acceptance);
        *done = true;
    }
    return status;
}
