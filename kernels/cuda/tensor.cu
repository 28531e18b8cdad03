// cuda_tensor.h over cuBLASLt, which counts columns first: its product of weights [inputs x outputs], transposed, and
// x [inputs x 64] is y [outputs x 64]; a row of ours is a column of its.
#include "kernels/cuda/cuda_tensor.h"

#include <assert.h>
#include <cublasLt.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/cuda_portable.cuh"
#include "kernels/cuda/tensor_trial.h"

#define NO_LIBRARY OR_CUDA_TENSOR // above it: codes of the library
#define WORKSPACE ((size_t)32 << 20)
#define ALIGNMENT 16u // bytes
#define PLANS_MAX 64u
#define CANDIDATES 8 // for a shape's algorithm

// Member and symbol of each function that is called here.
#define FUNCTIONS(F)                                                                               \
    F(create, cublasLtCreate)                                                                      \
    F(destroy, cublasLtDestroy)                                                                    \
    F(version, cublasLtGetVersion)                                                                 \
    F(create_product, cublasLtMatmulDescCreate)                                                    \
    F(destroy_product, cublasLtMatmulDescDestroy)                                                  \
    F(set_product, cublasLtMatmulDescSetAttribute)                                                 \
    F(create_layout, cublasLtMatrixLayoutCreate)                                                   \
    F(destroy_layout, cublasLtMatrixLayoutDestroy)                                                 \
    F(set_layout, cublasLtMatrixLayoutSetAttribute)                                                \
    F(create_preference, cublasLtMatmulPreferenceCreate)                                           \
    F(destroy_preference, cublasLtMatmulPreferenceDestroy)                                         \
    F(set_preference, cublasLtMatmulPreferenceSetAttribute)                                        \
    F(recommend, cublasLtMatmulAlgoGetHeuristic)                                                   \
    F(multiply, cublasLtMatmul)

struct library_t {
    void *handle;
#define MEMBER(member, symbol) decltype(&symbol) member;
    FUNCTIONS(MEMBER)
#undef MEMBER
};

static bool find_functions(library_t *l)
{
    bool all = true;
#define FIND(member, symbol)                                                                       \
    l->member = (decltype(l->member))dlsym(l->handle, #symbol);                                    \
    all = all && l->member != NULL;
    FUNCTIONS(FIND)
#undef FIND
    return all;
}

// Open a release of the library where the system looks for it, or where NVIDIA's own installer puts it.
static void *open_release(int release)
{
    static const char *const folders[] = {"", "/usr/local/cuda/lib64/"};
    void *handle = NULL;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0] && !handle; i++) {
        char path[64];
        snprintf(path, sizeof path, "%slibcublasLt.so.%d", folders[i], release);
        handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return handle;
}

// Open the library of the runtime we were built for, because the driver that is here runs it. Else open another one.
static int open_library(library_t *library)
{
    static const int releases[] = {CUDART_VERSION / 1000, 13, 12};
    for (size_t i = 0; i < sizeof releases / sizeof releases[0] && !library->handle; i++) {
        library->handle = open_release(releases[i]);
    }
    return library->handle && find_functions(library) ? OR_CUDA_OK : NO_LIBRARY;
}

static int told(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? OR_CUDA_OK : OR_CUDA_TENSOR + (int)status;
}

const char *or_cuda_tensor_text(int status)
{
    switch (status - OR_CUDA_TENSOR) {
    case 0:
        return "cuBLASLt is not here, which multiplies on tensor cores: install libcublasLt.so.13 "
               "or .12, or name its folder in LD_LIBRARY_PATH";
    case CUBLAS_STATUS_NOT_INITIALIZED:
    case CUBLAS_STATUS_ARCH_MISMATCH:
        return "cuBLASLt does not work with this device and driver";
    case CUBLAS_STATUS_ALLOC_FAILED:
        return "out of memory for cuBLASLt";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "cuBLASLt has no algorithm for a matrix of this shape that gives a row the same "
               "bits in every batch; leave --arith tensor out";
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return "a product of cuBLASLt failed";
    default:
        return "cuBLASLt failed";
    }
}

// ---- what belongs to a device ----

struct plan_t {
    or_cuda_tensor_shape_t shape;
    cublasLtMatmulAlgo_t algorithm;
};

struct or_cuda_tensor {
    or_cuda_t *cuda;
    library_t library;
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t product;
    cublasLtMatmulPreference_t preference;
    cublasLtMatrixLayout_t weights; // these three are laid out anew for each product
    cublasLtMatrixLayout_t x;
    cublasLtMatrixLayout_t y;
    void *workspace;
    plan_t plans[PLANS_MAX];
    uint32_t plan_count;
    uint32_t version;
    cudaDeviceProp device;
};

static int describe_product(or_cuda_tensor_t *t)
{
    const library_t *l = &t->library;
    const cublasOperation_t transposed = CUBLAS_OP_T;
    int status = told(l->create_product(&t->product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    if (status == OR_CUDA_OK) {
        status = told(l->set_product(t->product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                     sizeof transposed));
    }
    cublasLtMatrixLayout_t *const layouts[] = {&t->weights, &t->x, &t->y};
    for (cublasLtMatrixLayout_t *layout : layouts) {
        if (status == OR_CUDA_OK) {
            status = told(l->create_layout(layout, CUDA_R_32F, 1, 1, 1));
        }
    }
    return status;
}

// If K is split over thread blocks, their sums meet in the workspace and are added in order there.
static int describe_preference(or_cuda_tensor_t *t)
{
    const library_t *l = &t->library;
    const uint64_t workspace = WORKSPACE;
    const uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, alignment = ALIGNMENT;
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void *value;
        size_t bytes;
    } wishes[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction, sizeof reduction},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignment, sizeof alignment},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &alignment, sizeof alignment},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &alignment, sizeof alignment},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &alignment, sizeof alignment},
    };
    int status = told(l->create_preference(&t->preference));
    for (const auto &wish : wishes) {
        if (status == OR_CUDA_OK) {
            status = told(l->set_preference(t->preference, wish.attribute, wish.value, wish.bytes));
        }
    }
    return status;
}

static int open_on_device(or_cuda_tensor_t *t)
{
    int index = 0;
    (void)or_cuda_stream(t->cuda); // which enters the device
    int status = (int)cudaGetDevice(&index);
    if (status == OR_CUDA_OK) {
        status = (int)cudaGetDeviceProperties(&t->device, index);
    }
    if (status == OR_CUDA_OK) {
        status = open_library(&t->library);
    }
    if (status == OR_CUDA_OK) {
        t->version = (uint32_t)t->library.version();
        status = told(t->library.create(&t->handle));
    }
    if (status == OR_CUDA_OK) {
        status = describe_product(t);
    }
    if (status == OR_CUDA_OK) {
        status = describe_preference(t);
    }
    return status == OR_CUDA_OK ? or_cuda_alloc(t->cuda, WORKSPACE, &t->workspace) : status;
}

int or_cuda_tensor_open(or_cuda_t *cuda, or_cuda_tensor_t **tensor_p)
{
    or_cuda_tensor_t *t = (or_cuda_tensor_t *)calloc(1, sizeof *t);
    if (!t) {
        return OR_CUDA_TENSOR + CUBLAS_STATUS_ALLOC_FAILED;
    }
    t->cuda = cuda;
    int status = open_on_device(t);
    if (status != OR_CUDA_OK) {
        or_cuda_tensor_close(&t);
        return status;
    }
    *tensor_p = t;
    return OR_CUDA_OK;
}

// The library stays: it is large, is opened once more at no cost, and does not like to be unloaded.
void or_cuda_tensor_close(or_cuda_tensor_t **tensor_p)
{
    or_cuda_tensor_t *t = *tensor_p;
    if (!t) {
        return;
    }
    *tensor_p = NULL;
    or_cuda_free(t->cuda, t->workspace); // waits
    const cublasLtMatrixLayout_t layouts[] = {t->weights, t->x, t->y};
    for (cublasLtMatrixLayout_t layout : layouts) {
        if (layout) {
            (void)t->library.destroy_layout(layout);
        }
    }
    if (t->preference) {
        (void)t->library.destroy_preference(t->preference);
    }
    if (t->product) {
        (void)t->library.destroy_product(t->product);
    }
    if (t->handle) {
        (void)t->library.destroy(t->handle);
    }
    free(t);
}

// Devices of one kind with more or fewer multiprocessors may be recommended different algorithms.
void or_cuda_tensor_name(const or_cuda_tensor_t *t, char name[OR_CUDA_TENSOR_NAME])
{
    snprintf(name, OR_CUDA_TENSOR_NAME, "cublaslt-%u/sm_%d%dx%d", t->version, t->device.major,
             t->device.minor, t->device.multiProcessorCount);
}

// ---- layouts ----

static cudaDataType type_of(or_cuda_float_t type)
{
    return type == OR_CUDA_F32 ? CUDA_R_32F : type == OR_CUDA_F16 ? CUDA_R_16F : CUDA_R_16BF;
}

// `parts` matrices of one shape, part_stride elements apart.
struct layout_t {
    or_cuda_float_t type;
    uint64_t rows; // as the library counts
    uint64_t columns;
    size_t stride;
    uint32_t parts;
    size_t part_stride;
};

static int lay_out(const or_cuda_tensor_t *t, cublasLtMatrixLayout_t to, const layout_t &layout)
{
    const uint32_t type = type_of(layout.type);
    const int64_t stride = (int64_t)layout.stride, part_stride = (int64_t)layout.part_stride;
    const int32_t parts = (int32_t)layout.parts;
    const struct {
        cublasLtMatrixLayoutAttribute_t attribute;
        const void *value;
        size_t bytes;
    } values[] = {
        {CUBLASLT_MATRIX_LAYOUT_TYPE, &type, sizeof type},
        {CUBLASLT_MATRIX_LAYOUT_ROWS, &layout.rows, sizeof layout.rows},
        {CUBLASLT_MATRIX_LAYOUT_COLS, &layout.columns, sizeof layout.columns},
        {CUBLASLT_MATRIX_LAYOUT_LD, &stride, sizeof stride},
        {CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &parts, sizeof parts},
        {CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &part_stride, sizeof part_stride},
    };
    int status = OR_CUDA_OK;
    for (const auto &value : values) {
        if (status == OR_CUDA_OK) {
            status = told(t->library.set_layout(to, value.attribute, value.value, value.bytes));
        }
    }
    return status;
}

static int lay_out_all(const or_cuda_tensor_t *t, const layout_t &weights, const layout_t &x,
                       const layout_t &y)
{
    int status = lay_out(t, t->weights, weights);
    if (status == OR_CUDA_OK) {
        status = lay_out(t, t->x, x);
    }
    return status == OR_CUDA_OK ? lay_out(t, t->y, y) : status;
}

// ---- a tile ----

// Spans of one length, each behind the one before, and the rows that they are multiplied by.
struct work_t {
    or_cuda_tensor_t *tensor;
    const or_cuda_tensor_matrix_t *matrix;
    or_cuda_span_t span; // the first
    uint32_t parts;
    size_t x_stride;
    float *y; // of the first part
    size_t y_stride;
    size_t part_stride;
    const cublasLtMatmulAlgo_t *algorithm;
};

static int lay_out_work(const work_t *w)
{
    const or_cuda_tensor_matrix_t *m = w->matrix;
    const uint32_t inputs = w->span.count;
    return lay_out_all(
        w->tensor, {m->type, inputs, m->outputs, m->inputs, w->parts, inputs},
        {m->type, inputs, OR_CUDA_TENSOR_ROWS, w->x_stride, w->parts, inputs},
        {OR_CUDA_F32, m->outputs, OR_CUDA_TENSOR_ROWS, w->y_stride, w->parts, w->part_stride});
}

static int multiply_tile(const work_t *w, const uint16_t *x, float *y)
{
    or_cuda_tensor_t *t = w->tensor;
    const uint16_t *weights = (const uint16_t *)w->matrix->weights + w->span.first;
    const float one = 1.0f, zero = 0.0f;
    return told(t->library.multiply(t->handle, t->product, &one, weights, t->weights, x, t->x,
                                    &zero, y, t->y, y, t->y, w->algorithm, t->workspace, WORKSPACE,
                                    or_cuda_stream(t->cuda)));
}

// ---- one algorithm for a shape ----

struct choice_t {
    or_cuda_tensor_t *tensor;
    const or_cuda_tensor_shape_t *shape;
    cublasLtMatmulHeuristicResult_t candidates[CANDIDATES]; // best first
    int count;
};

// Recommended for all parts of the whole matrix, whatever of it is here.
static int recommend(choice_t *choice)
{
    const or_cuda_tensor_t *t = choice->tensor;
    const or_cuda_tensor_shape_t *s = choice->shape;
    const uint64_t rows = OR_CUDA_TENSOR_ROWS;
    const size_t width = (size_t)s->parts * s->inputs;
    int status =
        lay_out_all(t, {s->type, s->inputs, s->outputs, width, s->parts, s->inputs},
                    {s->type, s->inputs, rows, width, s->parts, s->inputs},
                    {OR_CUDA_F32, s->outputs, rows, s->outputs, s->parts, rows * s->outputs});
    return status == OR_CUDA_OK ? told(t->library.recommend(t->handle, t->product, t->weights, t->x,
                                                            t->y, t->y, t->preference, CANDIDATES,
                                                            choice->candidates, &choice->count))
                                : status;
}

// Is this status the library's verdict on an algorithm, not on the device or on its own state?
static bool is_refusal(int status)
{
    return status == OR_CUDA_TENSOR + CUBLAS_STATUS_NOT_SUPPORTED ||
           status == OR_CUDA_TENSOR + CUBLAS_STATUS_INVALID_VALUE ||
           status == OR_CUDA_TENSOR + CUBLAS_STATUS_ARCH_MISMATCH;
}

static int multiply_trial(void *context, uint32_t candidate, const or_tensor_operands_t *operands,
                          bool *refuses)
{
    choice_t *choice = (choice_t *)context;
    const or_cuda_tensor_shape_t *s = choice->shape;
    const cublasLtMatmulHeuristicResult_t *recommended = &choice->candidates[candidate];
    const uint32_t width = s->parts * s->inputs;
    const or_cuda_tensor_matrix_t matrix = {s->type, operands->weights, operands->outputs,
                                            width,   s->outputs,        s->parts};
    const size_t part_stride = (size_t)OR_CUDA_TENSOR_ROWS * operands->outputs;
    const work_t w = {choice->tensor, &matrix,           {0, s->inputs}, operands->parts,   width,
                      operands->y,    operands->outputs, part_stride,    &recommended->algo};
    *refuses = recommended->state != CUBLAS_STATUS_SUCCESS;
    int status = lay_out_work(&w);
    if (status != OR_CUDA_OK || *refuses) {
        return status;
    }
    status = multiply_tile(&w, operands->x, w.y);
    *refuses = is_refusal(status);
    return *refuses ? OR_CUDA_OK : status;
}

// The first whose rows know neither their batch nor the ranks.
static int choose_algorithm(or_cuda_tensor_t *tensor, plan_t *plan)
{
    choice_t choice = {tensor, &plan->shape, {}, 0};
    int status = recommend(&choice);
    if (status != OR_CUDA_OK) {
        return status;
    }
    const uint32_t count = (uint32_t)choice.count;
    const or_tensor_trial_t trial = {tensor->cuda, plan->shape, count, multiply_trial, &choice};
    uint32_t chosen;
    status = or_tensor_choose(&trial, &chosen);
    if (status == OR_CUDA_OK && chosen == count) {
        return OR_CUDA_TENSOR + CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (status == OR_CUDA_OK) {
        plan->algorithm = choice.candidates[chosen].algo;
    }
    return status;
}

// NULL: it was not prepared.
static const plan_t *find_plan(const or_cuda_tensor_t *t, const or_cuda_tensor_shape_t &shape)
{
    for (uint32_t i = 0; i < t->plan_count; i++) {
        const or_cuda_tensor_shape_t &known = t->plans[i].shape;
        if (known.type == shape.type && known.outputs == shape.outputs &&
            known.inputs == shape.inputs && known.parts == shape.parts) {
            return &t->plans[i];
        }
    }
    return NULL;
}

int or_cuda_tensor_prepare(or_cuda_tensor_t *tensor, const or_cuda_tensor_shape_t *shape)
{
    if (find_plan(tensor, *shape)) {
        return OR_CUDA_OK;
    }
    if (tensor->plan_count == PLANS_MAX) {
        return OR_CUDA_TENSOR + CUBLAS_STATUS_ALLOC_FAILED;
    }
    plan_t *plan = &tensor->plans[tensor->plan_count];
    *plan = {*shape, {}};
    int status = choose_algorithm(tensor, plan);
    tensor->plan_count += status == OR_CUDA_OK;
    return status;
}

// ---- products ----

// All tiles of `parts` parts, from part `first` on, with spans of one length, each behind the one before.
static int multiply_parts(or_cuda_tensor_t *t, const or_cuda_tensor_matrix_t *m,
                          const or_cuda_rows_t *x, uint32_t rows, const or_cuda_parts_t *to,
                          uint32_t first, uint32_t parts)
{
    const or_cuda_span_t span = to->spans[first];
    const plan_t *plan = find_plan(t, {m->type, m->whole_outputs, span.count, m->whole_parts});
    assert(plan);
    const work_t w = {t,
                      m,
                      span,
                      parts,
                      x->halves_stride,
                      to->y + first * to->part_stride,
                      to->y_stride,
                      to->part_stride,
                      &plan->algorithm};
    int status = lay_out_work(&w);
    const uint16_t *inputs = x->halves + (w.span.first - to->x_first);
    for (size_t row = 0; status == OR_CUDA_OK && row < rows; row += OR_CUDA_TENSOR_ROWS) {
        status = multiply_tile(&w, inputs + row * w.x_stride, w.y + row * w.y_stride);
    }
    return status;
}

static int clear_part(or_cuda_tensor_t *t, const or_cuda_tensor_matrix_t *m, uint32_t rows,
                      float *y, size_t y_stride)
{
    return (int)cudaMemset2DAsync(y, y_stride * sizeof *y, 0, m->outputs * sizeof *y, rows,
                                  or_cuda_stream(t->cuda));
}

static bool are_even(const or_cuda_parts_t *to)
{
    const or_cuda_span_t *spans = to->spans;
    bool even = spans[0].count > 0;
    for (uint32_t s = 1; s < to->count; s++) {
        even = even && spans[s].count == spans[0].count &&
               spans[s].first == spans[s - 1].first + spans[0].count;
    }
    return even;
}

int or_cuda_matmul_tensor(or_cuda_tensor_t *tensor, const or_cuda_tensor_matrix_t *matrix,
                          const or_cuda_rows_t *x, uint32_t rows, const or_cuda_parts_t *to)
{
    assert(to->count >= 1 && to->count <= OR_CUDA_SPANS_MAX);
    if (rows == 0 || matrix->outputs == 0) {
        return OR_CUDA_OK;
    }
    const uint32_t parts = are_even(to) ? to->count : 1; // at once
    int status = OR_CUDA_OK;
    for (uint32_t s = 0; status == OR_CUDA_OK && s < to->count; s += parts) {
        status = to->spans[s].count > 0
                     ? multiply_parts(tensor, matrix, x, rows, to, s, parts)
                     : clear_part(tensor, matrix, rows, to->y + s * to->part_stride, to->y_stride);
    }
    return status;
}
