#include "launch/model/quantize_report.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "launch/model/weight_types.h"

#define MIB 0x1p-20

static double relative(double squared_error, double power)
{
    return power > 0 ? sqrt(squared_error / power) : 0;
}

static void print_tensor(const or_quantize_result_t *result)
{
    const or_gguf_tensor_t *tensor = result->tensor;
    char shape[64], types[32];
    snprintf(shape, sizeof shape, "%" PRIu64 " x %" PRIu64, tensor->dims[0],
             tensor->elements / tensor->dims[0]);
    int used = snprintf(types, sizeof types, "%s -> ", or_gguf_tensor_type_name(tensor->type));
    snprintf(types + used, sizeof types - (size_t)used, "%s", or_gguf_tensor_type_name(result->to));
    printf("%-28.*s %14s  %-16s %9.2f %9.5f %9.2g%s\n", (int)tensor->name.length,
           tensor->name.bytes, shape, types, (double)result->bytes * MIB,
           relative(result->squared_error, result->power), result->largest_error,
           result->to != result->wanted ? " *" : "");
}

static void print_fallback(const or_quantize_report_t *report)
{
    for (uint64_t i = 0; i < report->count; i++) {
        if (report->results[i].to != report->results[i].wanted &&
            or_weight_is_matrix(report->results[i].tensor)) {
            printf("* rows of %" PRIu64 " are no whole blocks of %s\n",
                   report->results[i].tensor->dims[0],
                   or_gguf_tensor_type_name(report->results[i].wanted));
            return;
        }
    }
}

void or_quantize_report_print(const or_quantize_report_t *report)
{
    double power = 0, squared_error = 0, largest = 0;
    uint64_t vectors = 0;
    printf("%-28s %14s  %-16s %9s %9s %9s\n", "tensor", "shape", "type", "MiB", "rms error",
           "largest");
    for (uint64_t i = 0; i < report->count; i++) {
        const or_quantize_result_t *result = &report->results[i];
        if (!or_weight_is_matrix(result->tensor)) {
            vectors++;
            continue;
        }
        print_tensor(result);
        power += result->power;
        squared_error += result->squared_error;
        largest = fmax(largest, result->largest_error);
    }
    print_fallback(report);
    printf("\nall matrices: rms error %.5f of the weights' rms, largest %.2g; %" PRIu64
           " vectors stay as they are\n%s: %.1f MiB from %.1f, in %.1f s\n",
           relative(squared_error, power), largest, vectors, report->out,
           (double)report->bytes_after * MIB, (double)report->bytes_before * MIB, report->seconds);
}

static json_t *tensor_object(const or_quantize_result_t *result)
{
    const or_gguf_tensor_t *tensor = result->tensor;
    json_t *shape = json_array();
    for (uint32_t d = 0; d < tensor->dim_count; d++) {
        json_array_append_new(shape, json_integer((json_int_t)tensor->dims[d]));
    }
    json_t *object = json_pack(
        "{s:s%, s:o, s:s, s:I, s:f, s:f}", "name", tensor->name.bytes, tensor->name.length, "shape",
        shape, "from", or_gguf_tensor_type_name(tensor->type), "bytes", (json_int_t)result->bytes,
        "relative_rms_error", relative(result->squared_error, result->power), "largest_error",
        result->largest_error);
    json_object_set_new(object, "to", json_string(or_gguf_tensor_type_name(result->to)));
    return object;
}

or_status_t or_quantize_report_print_json(const or_quantize_report_t *report)
{
    double power = 0, squared_error = 0;
    json_t *tensors = json_array();
    for (uint64_t i = 0; i < report->count; i++) {
        json_array_append_new(tensors, tensor_object(&report->results[i]));
        bool counts = or_weight_is_matrix(report->results[i].tensor);
        power += counts ? report->results[i].power : 0;
        squared_error += counts ? report->results[i].squared_error : 0;
    }
    json_t *line = json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:f, s:f, s:o}", "from", report->in, "to", report->out, "type",
        or_gguf_tensor_type_name(report->type), "bytes_before", (json_int_t)report->bytes_before,
        "bytes_after", (json_int_t)report->bytes_after, "seconds", report->seconds,
        "relative_rms_error", relative(squared_error, power), "tensors", tensors);
    char *dump = line != NULL ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(line);
    if (dump == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the JSON line");
    }
    puts(dump);
    free(dump);
    return OR_OK;
}
