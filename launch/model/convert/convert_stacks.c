// Tensors of a checkpoint that hold several matrices: all experts of gpt-oss and Gemma 4, and the matrices of all heads that make
// K and V of DeepSeek's latent vector.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "launch/model/convert/convert_plan_internal.h"

// ---- experts ----

#define BLOCK_WEIGHTS 32u // of MXFP4, two in a byte
#define PACKED_ENDING "_blocks"

// The shape that the config makes of such a tensor.
typedef struct {
    const char *dtype; // NULL: floats
    uint32_t dim_count;
    uint64_t dims[4];
} form_t;

#define DIMS_TEXT (OR_SAFETENSORS_DIMS_MAX * 22u + 3u)

static void write_dims(const uint64_t *dims, uint32_t count, char text[DIMS_TEXT])
{
    size_t length = (size_t)snprintf(text, DIMS_TEXT, "[");
    for (uint32_t i = 0; i < count; i++) {
        length += (size_t)snprintf(text + length, DIMS_TEXT - length, "%s%" PRIu64,
                                   i > 0 ? ", " : "", dims[i]);
    }
    snprintf(text + length, DIMS_TEXT - length, "]");
}

static or_status_t find_form(or_convert_plan_t *plan, const char *theirs, const form_t *form,
                             uint64_t *source)
{
    or_status_t status = or_plan_find_tensor(plan, theirs, source);
    if (status != OR_OK) {
        return status;
    }
    const or_safetensor_t *tensor = or_checkpoint_at(plan->checkpoint, *source);
    const char *path = or_checkpoint_path_of(plan->checkpoint, *source);
    if (tensor->dim_count != form->dim_count ||
        memcmp(tensor->dims, form->dims, form->dim_count * sizeof *form->dims) != 0) {
        char theirs_text[DIMS_TEXT], ours_text[DIMS_TEXT];
        write_dims(tensor->dims, tensor->dim_count, theirs_text);
        write_dims(form->dims, form->dim_count, ours_text);
        return or_fail(OR_ERR_FORMAT, "%s: tensor %.96s is %s; the config makes it %s", path,
                       tensor->name, theirs_text, ours_text);
    }
    bool fits = form->dtype != NULL ? strcmp(tensor->dtype, form->dtype) == 0
                                    : or_plan_is_readable(plan, *source);
    return fits ? OR_OK
                : or_fail(OR_ERR_UNSUPPORTED, "%s: tensor %.96s is of dtype %s; %s are read", path,
                          tensor->name, tensor->dtype,
                          form->dtype != NULL ? form->dtype : "F32, F16 and BF16");
}

static or_status_t find_packed(or_convert_plan_t *plan, const char *theirs, or_convert_item_t *item)
{
    const uint64_t outputs = (uint64_t)item->rows * item->turns;
    const uint64_t blocks = item->width / BLOCK_WEIGHTS;
    const form_t form = {"U8", 4, {item->matrices, outputs, blocks, BLOCK_WEIGHTS / 2}};
    const form_t scales_form = {"U8", 3, {item->matrices, outputs, blocks}};
    char scales[128];
    if (item->width % BLOCK_WEIGHTS != 0) {
        return or_fail(OR_ERR_FORMAT, "%s: rows of %u are no whole blocks of MXFP4", theirs,
                       item->width);
    }
    snprintf(scales, sizeof scales, "%.*s_scales", (int)(strlen(theirs) - strlen(PACKED_ENDING)),
             theirs);
    item->is_packed = true;
    or_status_t status = find_form(plan, theirs, &form, &item->source);
    return status != OR_OK ? status : find_form(plan, scales, &scales_form, &item->scales);
}

static bool is_packed(const char *theirs)
{
    const size_t length = strlen(theirs), end = strlen(PACKED_ENDING);
    return length > end && strcmp(theirs + length - end, PACKED_ENDING) == 0;
}

or_status_t or_plan_add_stacked(const or_plan_names_t *names, const or_hf_tensor_t *tensor,
                                const or_arch_tensor_t *row, or_convert_item_t *item)
{
    or_convert_plan_t *plan = names->plan;
    const bool as_gguf = plan->config->family->stacks_as_gguf;
    const bool takes_turns = !as_gguf && !or_plan_is_suffix(row, "ffn_down_exps");
    const uint32_t experts = item->matrices;
    char name[128] = "";
    bool has;
    item->turns = takes_turns ? 2 : 1;
    item->turn = or_plan_is_suffix(row, "ffn_up_exps") ? 1 : 0;
    or_status_t status = or_plan_find_name(names, tensor, name, sizeof name, &has);
    if (status == OR_OK && item->is_vector) {
        const form_t form = {NULL, 2, {experts, (uint64_t)item->width * item->turns}};
        item->is_vector = false;
        item->type = OR_TENSOR_F32;
        item->rows = experts;
        item->matrices = 1;
        status = find_form(plan, name, &form, &item->source);
    } else if (status == OR_OK && as_gguf) {
        const form_t form = {NULL, 3, {experts, item->rows, item->width}};
        status = find_form(plan, name, &form, &item->source);
    } else if (status == OR_OK && is_packed(name)) {
        status = find_packed(plan, name, item);
    } else if (status == OR_OK) {
        const form_t form = {NULL, 3, {experts, item->width, (uint64_t)item->rows * item->turns}};
        item->is_transposed = true;
        status = find_form(plan, name, &form, &item->source);
    }
    return status != OR_OK ? status : or_plan_add_found(plan, item);
}

// ---- heads ----

// A head's rows there are those that make its K, and behind them those that make its V. The new file has K's matrices
// transposed, as they are applied to queries.
or_status_t or_plan_add_heads(const or_plan_names_t *names, const or_hf_tensor_t *tensor,
                              const or_arch_tensor_t *row, or_convert_item_t *item)
{
    or_convert_plan_t *plan = names->plan;
    const or_model_shape_t *shape = &plan->config->shape;
    const uint32_t plain = or_arch_dim(shape, OR_DIM_HEAD_PLAIN);
    char name[128] = "";
    bool has;
    item->head_stride = plain + shape->value_dim;
    item->is_transposed = row->inputs == OR_DIM_HEAD_PLAIN;
    item->first_row = item->is_transposed ? 0 : plain;
    const form_t form = {NULL, 2, {(uint64_t)shape->heads * item->head_stride, shape->latent}};
    or_status_t status = or_plan_find_name(names, tensor, name, sizeof name, &has);
    status = status != OR_OK ? status : find_form(plan, name, &form, &item->source);
    return status != OR_OK ? status : or_plan_add_found(plan, item);
}
