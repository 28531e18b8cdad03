// Scales in the plan of a conversion: a tensor of FP8 is found together with those of its blocks.
#include <stdio.h>

#include "launch/model/convert/convert_plan_internal.h"

or_hf_source_t or_convert_source(const or_convert_plan_t *plan, uint64_t source)
{
    const uint64_t scales = plan->scales[source];
    return (or_hf_source_t){.tensor = or_checkpoint_at(plan->checkpoint, source),
                            .scales =
                                scales > 0 ? or_checkpoint_at(plan->checkpoint, scales - 1) : NULL,
                            .how = plan->config->quantised};
}

bool or_plan_is_readable(const or_convert_plan_t *plan, uint64_t source)
{
    return or_checkpoint_at(plan->checkpoint, source)->readable || plan->scales[source] > 0;
}

or_status_t or_plan_find_scales(or_convert_plan_t *plan, const char *theirs, uint64_t source)
{
    char name[160];
    if (plan->config->quantised.kind != OR_HF_FP8 ||
        !or_hf_is_fp8(or_checkpoint_at(plan->checkpoint, source))) {
        return OR_OK;
    }
    snprintf(name, sizeof name, "%s_scale_inv", theirs);
    const uint64_t scales = or_checkpoint_find(plan->checkpoint, name);
    if (scales == or_checkpoint_count(plan->checkpoint)) {
        return or_fail(OR_ERR_FORMAT, "%s has no tensor %s", or_checkpoint_folder(plan->checkpoint),
                       name);
    }
    plan->used[scales] = true;
    plan->scales[source] = scales + 1;
    const or_hf_source_t found = or_convert_source(plan, source);
    return or_fail_context(or_hf_check_scales(&found), "%s",
                           or_checkpoint_path_of(plan->checkpoint, scales));
}
