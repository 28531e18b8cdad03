#include "launch/model/inspect_kernels.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/version.h"
#include "common/gguf/gguf.h"
#include "common/model/model.h"
#include "kernels/kernels.h"

#define VARIABLE "OUTRIDER_KERNELS"
#define TYPES_MOST 256u // GGUF's numbers of types are below

// What the variable says; NULL where it says nothing.
static const char *forced(void)
{
    const char *name = getenv(VARIABLE);
    return name != NULL && *name != '\0' ? name : NULL;
}

static bool is_computed_with(uint32_t type)
{
    return or_gguf_tensor_block(type).bytes > 0;
}

static void print_text(const or_kernels_t *used)
{
    or_kernels_description_t it;
    printf("in use      %s%s\n", used != NULL ? used->name : "none",
           forced() != NULL ? ", as " VARIABLE " says" : ", the fastest that run here");
    printf("arithmetic  %s, the same bits in all of them\n\nkernels\n", OR_ARITH_ID);
    for (size_t i = 0; or_kernels_describe(i, &it); i++) {
        printf("  %-11s %-16s needs %s\n", it.name, it.runs_here ? "runs here" : "cannot run here",
               it.needs);
    }
    printf("\ntypes of weights\n ");
    for (uint32_t type = 0; type < TYPES_MOST; type++) {
        if (is_computed_with(type)) {
            printf(" %s", or_gguf_tensor_type_name(type));
        }
    }
    putchar('\n');
}

static json_t *json_tables(void)
{
    or_kernels_description_t it;
    json_t *tables = json_array();
    for (size_t i = 0; or_kernels_describe(i, &it); i++) {
        json_array_append_new(tables, json_pack("{s:s, s:s, s:b}", "name", it.name, "needs",
                                                it.needs, "runs_here", it.runs_here));
    }
    return tables;
}

static json_t *json_types(void)
{
    json_t *types = json_array();
    for (uint32_t type = 0; type < TYPES_MOST; type++) {
        if (is_computed_with(type)) {
            json_array_append_new(types, json_string(or_gguf_tensor_type_name(type)));
        }
    }
    return types;
}

static or_status_t print_json(const or_kernels_t *used)
{
    json_t *root = json_pack("{s:s?, s:s?, s:s, s:o, s:o}", "kernels",
                             used != NULL ? used->name : NULL, "forced", forced(), "arith_id",
                             OR_ARITH_ID, "tables", json_tables(), "weight_types", json_types());
    if (root == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the JSON line");
    }
    json_dumpf(root, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(root);
    return OR_OK;
}

or_status_t or_inspect_kernels(bool json)
{
    const or_kernels_t *used = or_kernels_pick();
    or_status_t status = OR_OK;
    if (json) {
        status = print_json(used);
    } else {
        print_text(used);
    }
    return status == OR_OK && used == NULL ? or_model_pick_kernels(&used) : status;
}
