#include "launch/speed/step_output.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "common/model/gpu/gpu_choice.h"
#include "launch/generate/output.h"

// Return how many steps of a single token a pass takes the time of; NAN if none was timed.
static double plain_steps(const or_step_plan_t *plan, const or_step_t *step)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        if (plan->steps[i].kind == OR_STEP_TREE && plan->steps[i].rows == 1) {
            return step->median_ms / plan->steps[i].median_ms;
        }
    }
    return (double)NAN;
}

static void print_head(const or_model_t *model, const or_step_plan_t *plan, const char *path,
                       uint32_t threads)
{
    printf("%s on %s: %.1f M parameters, %.1f MB of weights, kernels %s, %" PRIu32 " thread%s, "
           "medians of %" PRIu32,
           path, or_gpu_where(model).text, 1e-6 * (double)or_model_shape(model)->parameters,
           1e-6 * (double)or_model_memory(model).weights, or_model_kernels(model), threads,
           threads == 1 ? "" : "s", plan->repeats);
    if (!isnan(plan->memory_bytes_per_s)) {
        printf("; read %.1f GB/s in all", 1e-9 * plan->memory_bytes_per_s);
    }
    printf("\n\n");
}

void or_step_print_table(const or_model_t *model, const or_step_plan_t *plan, const char *path,
                         uint32_t threads)
{
    print_head(model, plan, path, threads);
    const bool has_experts = or_model_shape(model)->experts > 0;
    const or_model_kept_t kept = or_model_kept_of_all(model);
    if (kept.slots > 0) {
        printf("%" PRIu32 " of %" PRIu32 " experts have room in memory\n\n", kept.slots,
               kept.experts);
    }
    printf("%-9s %6s %11s %11s %8s %6s %12s%s\n", "pass", "rows", "ms", "best ms", "GB/s", "read",
           "plain steps",
           kept.slots > 0 ? "    experts    found  from disk"
           : has_experts  ? "    experts"
                          : "");
    for (uint32_t i = 0; i < plan->count; i++) {
        const or_step_t *step = &plan->steps[i];
        printf("%-9s %6" PRIu32 " %11.3f %11.3f %8.2f", or_step_kind_names[step->kind], step->rows,
               step->median_ms, step->best_ms, 1e-9 * step->bytes_per_s);
        or_output_share(stdout, step->read_share);
        or_output_cell(stdout, 12, 2, plain_steps(plan, step));
        if (has_experts) {
            printf(" %10.1f", step->experts);
        }
        if (kept.slots > 0) {
            printf(" %6.1f %% %10.1f", 100 * step->found, step->from_disk);
        }
        putchar('\n');
    }
}

or_status_t or_step_print_json(const or_model_t *model, const or_step_plan_t *plan)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < plan->count; i++) {
        const or_step_t *step = &plan->steps[i];
        json_array_append_new(
            array,
            json_pack("{s:s, s:I, s:s, s:s, s:f, s:f, s:f, s:o, s:f, s:o, s:o, s:f}", "pass",
                      or_step_kind_names[step->kind], "rows", (json_int_t)step->rows, "device",
                      or_gpu_where(model).name, "kernels", or_model_kernels(model), "ms",
                      step->median_ms, "best_ms", step->best_ms, "bytes_per_s", step->bytes_per_s,
                      "read_share", or_output_json_number(step->read_share), "experts",
                      step->experts, "plain_steps", or_output_json_number(plain_steps(plan, step)),
                      "experts_found", or_output_json_number(step->found), "experts_from_disk",
                      step->from_disk));
    }
    if (json_array_size(array) != plan->count) {
        json_decref(array);
        array = NULL;
    }
    return or_output_json(array, OR_OUTPUT_DIGITS);
}
