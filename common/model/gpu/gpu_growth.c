// Drafting on a device. For contenders (model_draws.h) counts and lists come back. A tree (model_growth.h) is asked
// for once, one recording runs, and its rows come back with their contenders.
//
//     results     counts [OR_LOGITS_ROWS]   lists [rows][OR_CUDA_CONTENDERS_MAX]
#include "common/model/gpu/gpu_growth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/inline.h"
#include "common/base/math/math.h"
#include "common/model/gpu/gpu_internal.h"
#include "common/model/model_draws.h"

_Static_assert(OR_CONTESTS_MAX <= OR_LOGITS_ROWS, "a contest's logits stay on the device");
_Static_assert(OR_GROWTH_NODES_MAX == OR_CUDA_GROWTH_MAX, "a batch may be all guesses");
_Static_assert(OR_GROWTH_ROWS_MAX == OR_CUDA_GROWTH_ROWS, "all rows that are told find room");
_Static_assert(OR_CUDA_GROWTH_MAX <= OR_LOGITS_ROWS, "a pass's logits stay on the device");

#define ROWS_LEAST 8u    // of a pass that may have several
#define FIRST_TOLD 2048u // contenders that come with the rows; others are fetched behind them

// ---- a contest ----

static or_cuda_contest_t contest_of(const or_contest_t *contest)
{
    const or_sampling_t *sampling = contest->sampling;
    return (or_cuda_contest_t){.key = contest->key.value,
                               .byte_offset = contest->place.byte_offset,
                               .zero_width = contest->place.zero_width,
                               .noisy = contest->noisy,
                               .temperature = sampling->temperature,
                               .top_k = sampling->top_k,
                               .top_p = sampling->top_p,
                               .log_min_p =
                                   sampling->min_p > 0 ? or_ln((double)sampling->min_p) : -INFINITY,
                               .window = contest->window};
}

static void find_contenders(or_model_t *model, const or_cuda_contest_t *contests, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_gpu_contests_t *own = &gpu->contests;
    or_gpu_keep(gpu, gpu->functions->contenders(gpu->cuda, gpu->logits, model->vocab_stride,
                                                own->vocab_size, own->keys, contests, rows,
                                                own->scratch, own->lists, own->counts));
}

static or_status_t ask_contests(or_model_t *model, const or_contest_t *contests, uint32_t count)
{
    or_gpu_t *gpu = model->gpu;
    const or_gpu_functions_t *f = gpu->functions;
    or_gpu_contests_t *own = &gpu->contests;
    for (uint32_t i = 0; i < count; i++) {
        own->asked_host[i] = contest_of(&contests[i]);
    }
    or_gpu_keep(gpu,
                f->upload(gpu->cuda, own->asked, own->asked_host, count * sizeof *own->asked_host));
    find_contenders(model, own->asked, count);
    or_gpu_keep(gpu, f->download(gpu->cuda, own->results_host, own->results,
                                 OR_GPU_COUNTS_BYTES + count * OR_GPU_LIST_BYTES));
    or_gpu_keep(gpu, f->wait(gpu->cuda));
    return or_gpu_check(gpu);
}

// ---- its answer as a distribution ----

// Does or_sampler_distribution have the best token first? Else ids ascend, as they do in the list. (They do as well where so many
// logits are no numbers that top-k keeps all others; then only the rounding of a drafter's sums is another.)
static bool is_ranked(const or_sampling_t *sampling, uint32_t vocab_size)
{
    return (sampling->top_k > 0 && sampling->top_k < vocab_size) || sampling->top_p < 1;
}

static int best_first(const void *a, const void *b)
{
    const or_cuda_contender_t *x = a;
    const or_cuda_contender_t *y = b;
    if (x->logit != y->logit) {
        return x->logit > y->logit ? -1 : 1;
    }
    return x->id < y->id ? -1 : x->id > y->id;
}

static or_distribution_t distribution_of(const or_gpu_t *gpu, const or_sampling_t *sampling,
                                         or_cuda_contender_t *list, uint32_t count, int32_t *ids,
                                         double *scores)
{
    if (is_ranked(sampling, gpu->contests.vocab_size)) {
        qsort(list, count, sizeof *list, best_first);
    }
    double temperature = (double)sampling->temperature;
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = list[i].id;
        scores[i] = temperature > 0 ? (double)list[i].logit / temperature : 0;
    }
    return (or_distribution_t){.ids = ids, .scores = scores, .count = count};
}

static or_distribution_t dist_of_row(const or_gpu_t *gpu, uint32_t row,
                                     const or_sampling_t *sampling)
{
    const or_gpu_contests_t *contests = &gpu->contests;
    uint32_t count = ((const uint32_t *)contests->results_host)[row];
    if (count > OR_CUDA_CONTENDERS_MAX) {
        return (or_distribution_t){.count = 0};
    }
    size_t place = (size_t)row * OR_CUDA_CONTENDERS_MAX;
    or_cuda_contender_t *lists =
        (or_cuda_contender_t *)(contests->results_host + OR_GPU_COUNTS_BYTES);
    return distribution_of(gpu, sampling, lists + place, count, contests->ids + place,
                           contests->scores + place);
}

// ---- for callers (model_draws.h) ----

bool or_model_has_contenders(const or_model_t *model)
{
    return model->gpu != NULL && model->gpu->contests.vocab_size > 0;
}

or_status_t or_model_set_noise_keys(or_model_t *model, const uint64_t *keys, uint32_t count)
{
    or_gpu_t *gpu = model->gpu;
    if (gpu == NULL || !or_ranks_is_alone(model->ranks)) {
        return OR_OK;
    }
    uint32_t vocab_size = count < model->shape.vocab_size ? count : model->shape.vocab_size;
    or_gpu_keep(gpu, gpu->functions->upload(gpu->cuda, gpu->contests.keys, keys,
                                            vocab_size * sizeof *keys)); // waits
    gpu->contests.vocab_size = vocab_size;
    return or_gpu_check(gpu);
}

or_status_t or_model_contenders(or_model_t *model, uint32_t first, uint32_t count,
                                const or_contest_t *contests, or_distribution_t *dists)
{
    or_status_t status = or_pass_check_rows(model, first, count);
    if (status == OR_OK && count > OR_CONTESTS_MAX) {
        status = or_fail(OR_ERR_INVALID, "contenders of %u rows at once: at most %u", count,
                         OR_CONTESTS_MAX);
    }
    if (status != OR_OK) {
        return status;
    }
    or_gpu_multiply_head(model, first, count, model->gpu->logits);
    status = ask_contests(model, contests, count);
    for (uint32_t i = 0; status == OR_OK && i < count; i++) {
        dists[i] = dist_of_row(model->gpu, i, contests[i].sampling);
    }
    return status;
}

uint64_t or_model_whole_rows(const or_model_t *model)
{
    return model->gpu != NULL ? model->gpu->whole_rows : 0;
}

// ---- a tree ----

bool or_model_can_grow(const or_model_t *model)
{
    const or_gpu_t *gpu = model->gpu;
    return gpu != NULL && gpu->growth.widths != NULL && !gpu->steps.off[OR_GPU_GROWTH];
}

// ---- what may be asked ----

// Is this a valid guess, given that the guesses before it are? Parents stand before their children.
static bool is_guess(const or_model_t *model, const or_growth_t *growth, uint32_t place)
{
    const or_kv_sequence_t *sequence = growth->sequence;
    const or_growth_guess_t *guess = &growth->guesses[place];
    if (guess->token < 0 || (uint32_t)guess->token >= model->shape.vocab_size) {
        return false;
    }
    if (place == 0) {
        return guess->depth == 0;
    }
    if (guess->slot != OR_KV_NO_SLOT &&
        !or_kv_slot_is_live(sequence, guess->slot, sequence->epoch)) {
        return false;
    }
    if (guess->parent >= place) {
        return false;
    }
    const or_growth_guess_t *parent = &growth->guesses[guess->parent];
    return guess->depth == parent->depth + 1 &&
           (guess->parent == 0 || parent->slot != OR_KV_NO_SLOT);
}

static or_status_t check_slots(const or_growth_t *growth)
{
    const or_kv_sequence_t *sequence = growth->sequence;
    for (uint32_t i = 0; i < growth->slot_count; i++) {
        if (growth->slots[i] >= sequence->slots_max ||
            or_kv_slot_is_live(sequence, growth->slots[i], sequence->epoch)) {
            return or_fail(OR_ERR_INVALID, "a tree cannot grow into slot %u: it is not free",
                           growth->slots[i]);
        }
    }
    return OR_OK;
}

static or_status_t check(const or_model_t *model, const or_growth_t *growth)
{
    const or_kv_sequence_t *sequence = growth->sequence;
    if (sequence == NULL || sequence->cache != model->cache || sequence->length == 0) {
        return or_fail(OR_ERR_INVALID, "a tree has no text of this model to grow on");
    }
    if (growth->nodes == 0 || growth->nodes > OR_GROWTH_NODES_MAX ||
        growth->guess_count > growth->nodes || growth->depth == 0 || growth->width == 0 ||
        !(growth->tau > 0)) {
        return or_fail(OR_ERR_INVALID,
                       "a tree cannot grow to %u guesses, of which %u are there, %u deep and %u "
                       "wide with tau %g; at most %u guesses",
                       growth->nodes, growth->guess_count, growth->depth, growth->width,
                       growth->tau, OR_GROWTH_NODES_MAX);
    }
    for (uint32_t i = 0; i <= growth->guess_count; i++) {
        if (!is_guess(model, growth, i)) {
            return or_fail(OR_ERR_INVALID, "guess %u of a tree has no such token, parent or slot",
                           i);
        }
    }
    return check_slots(growth);
}

// ---- what is asked ----

// Few sizes, so that recordings serve for many trees. A chain has one row a pass.
static uint32_t rows_for(const or_model_t *model, const or_growth_t *growth)
{
    uint32_t rows = growth->width == 1 ? 1 : ROWS_LEAST;
    while (growth->width > 1 && rows < growth->nodes) {
        rows *= 2;
    }
    return or_min_u32(rows, or_min_u32(model->rows_max, OR_LOGITS_ROWS));
}

// Levels that guesses may have: the children of the context's last position cannot be run.
static uint32_t depth_for(const or_growth_t *growth)
{
    const or_kv_sequence_t *sequence = growth->sequence;
    uint32_t deepest = sequence->positions_max - sequence->length + 1;
    return or_min_u32(or_min_u32(growth->depth, OR_CUDA_GROWTH_MAX), deepest);
}

static void ask_for_tree(const or_growth_t *growth, uint32_t rows,
                         const or_cuda_page_table_t *table, or_cuda_growth_t *tree)
{
    const or_kv_sequence_t *sequence = growth->sequence;
    *tree =
        (or_cuda_growth_t){.nodes = growth->nodes,
                           .depth = depth_for(growth),
                           .width = growth->width,
                           .rows = rows,
                           .passes = OR_CUDA_GROWTH_ROWS,
                           .tau = growth->tau,
                           .nearly = growth->nearly,
                           .share = growth->share,
                           .contest = contest_of(&growth->contest),
                           .table = *table,
                           .committed = sequence->length,
                           .slots = sequence->slot_bytes,
                           .slots_max = sequence->slots_max,
                           .free_slot_count = or_min_u32(growth->slot_count, OR_CUDA_GROWTH_ROWS),
                           .guess_count = growth->guess_count};
    memcpy(tree->free_slots, growth->slots, tree->free_slot_count * sizeof *tree->free_slots);
    for (uint32_t i = 0; i <= growth->guess_count; i++) {
        const or_growth_guess_t *guess = &growth->guesses[i];
        tree->guesses[i] = (or_cuda_guess_t){.token = guess->token,
                                             .parent = guess->parent,
                                             .depth = guess->depth,
                                             .slot = guess->slot,
                                             .byte_offset = guess->place.byte_offset,
                                             .zero_width = guess->place.zero_width,
                                             .weight = guess->weight};
    }
}

// A pass of shadows, which see what the root saw.
static void ask_for_shadows(or_gpu_growth_asked_t *asked, uint32_t rows)
{
    const or_cuda_growth_t *tree = &asked->tree;
    for (uint32_t i = 0; i < rows; i++) {
        asked->tokens[i] = tree->guesses[0].token;
        asked->positions[i] = tree->committed - 1;
        asked->seen[i] = (or_cuda_seen_t){.table = tree->table,
                                          .committed = tree->committed,
                                          .position = tree->committed - 1,
                                          .slots = tree->slots,
                                          .slots_max = tree->slots_max,
                                          .slot = OR_CUDA_SHADOW};
        asked->contests[i] = tree->contest;
    }
}

static void ask(or_gpu_t *gpu, const or_growth_t *growth, uint32_t rows)
{
    or_gpu_growth_asked_t *asked = gpu->growth.asked_host;
    const or_kv_sequence_t *sequence = growth->sequence;
    const size_t bytes =
        or_gpu_page_table_bytes(sequence->page_count, sequence->cache->frames != NULL);
    const or_cuda_page_table_t table = or_gpu_write_page_table(
        sequence, 0, sequence->page_count, asked->pages, gpu->growth.asked->pages);
    ask_for_tree(growth, rows, &table, &asked->tree);
    ask_for_shadows(asked, rows);
    or_gpu_keep(gpu,
                gpu->functions->upload(gpu->cuda, gpu->growth.asked, asked, sizeof *asked + bytes));
}

// ---- what is launched ----

static void grow(or_model_t *model, uint32_t rows, or_cuda_loop_t loop)
{
    or_gpu_t *gpu = model->gpu;
    const or_gpu_growth_t *growth = &gpu->growth;
    const or_gpu_contests_t *contests = &gpu->contests;
    or_gpu_growth_asked_t *asked = growth->asked;
    const or_cuda_growth_tables_t tables = {.tokens = asked->tokens,
                                            .positions = asked->positions,
                                            .seen = asked->seen,
                                            .chains = growth->chains,
                                            .contests = asked->contests};
    or_gpu_keep(gpu, gpu->functions->grow(gpu->cuda, &asked->tree, rows, contests->keys,
                                          growth->widths, contests->lists, contests->counts,
                                          growth->scratch, &tables, growth->grown, loop));
}

// The batch that the tables tell, and the choice of the next.
static or_status_t launch_pass(or_model_t *model, uint32_t rows, or_cuda_loop_t loop)
{
    or_gpu_t *gpu = model->gpu;
    or_gpu_embed(model, rows);
    or_status_t status = or_gpu_launch_layers(model, rows);
    if (status == OR_OK) {
        or_gpu_multiply_head(model, 0, rows, gpu->logits);
        find_contenders(model, gpu->growth.asked->contests, rows);
        grow(model, rows, loop);
    }
    return status;
}

static or_status_t launch(or_model_t *model, uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    or_cuda_loop_t loop = OR_CUDA_NO_LOOP;
    or_gpu_keep(
        gpu, gpu->functions->clear(gpu->cuda, gpu->growth.grown, offsetof(or_cuda_grown_t, rows)));
    grow(model, rows, OR_CUDA_NO_LOOP);
    or_gpu_keep(gpu, gpu->functions->loop_begin(gpu->cuda, &loop));
    or_status_t status = or_gpu_check(gpu);
    if (status == OR_OK) {
        status = launch_pass(model, rows, loop);
        or_gpu_keep(gpu, gpu->functions->loop_end(gpu->cuda));
    }
    return status;
}

// ---- what comes back ----

// The rows, and the first of all contenders.
static size_t told_bytes(uint32_t contenders)
{
    return offsetof(or_cuda_grown_t, contenders) + contenders * sizeof(or_cuda_contender_t);
}

static or_status_t fetch(or_gpu_t *gpu, size_t begin, size_t end)
{
    const or_gpu_growth_t *growth = &gpu->growth;
    or_gpu_keep(gpu, gpu->functions->download(gpu->cuda, (uint8_t *)growth->grown_host + begin,
                                              (const uint8_t *)growth->grown + begin, end - begin));
    or_gpu_keep(gpu, gpu->functions->wait(gpu->cuda));
    return or_gpu_check(gpu);
}

static or_status_t fetch_grown(or_gpu_t *gpu)
{
    const or_cuda_grown_t *told = gpu->growth.grown_host;
    or_status_t status = fetch(gpu, 0, told_bytes(FIRST_TOLD));
    return status != OR_OK || told->contender_count <= FIRST_TOLD
               ? status
               : fetch(gpu, told_bytes(FIRST_TOLD), told_bytes(told->contender_count));
}

static void read_rows(or_gpu_t *gpu, const or_sampling_t *sampling, or_grown_t *grown)
{
    or_gpu_growth_t *growth = &gpu->growth;
    or_cuda_grown_t *told = growth->grown_host;
    for (uint32_t i = 0; i < told->row_count; i++) {
        const or_cuda_grown_row_t *row = &told->rows[i];
        or_cuda_contender_t *list = told->contenders + row->first;
        growth->rows[i] = (or_grown_row_t){.token = row->token,
                                           .parent_slot = row->parent_slot,
                                           .slot = row->slot,
                                           .dist = distribution_of(gpu, sampling, list, row->count,
                                                                   growth->ids + row->first,
                                                                   growth->scores + row->first)};
    }
    *grown =
        (or_grown_t){.rows = growth->rows, .row_count = told->row_count, .passes = told->passes};
}

// The step's tables are the growth's, whose rows see no more than the deepest guess that is run.
static or_cuda_recording_t *find_recording(or_model_t *model, const or_growth_t *growth,
                                           uint32_t rows)
{
    or_gpu_t *gpu = model->gpu;
    const or_gpu_growth_asked_t *asked = gpu->growth.asked;
    gpu->positions = asked->positions;
    gpu->tokens = asked->tokens;
    gpu->seen = asked->seen;
    gpu->positions_max = or_gpu_steps_round(growth->sequence->length + depth_for(growth) - 1);
    return or_gpu_steps_find(model, OR_GPU_GROWTH, rows, launch);
}

// Does the root's row find all that it sees? A text that was just cut back as far as it can be has given up the first of
// that: what the next row does not attend to.
static bool sees_root(const or_kv_sequence_t *sequence)
{
    const uint32_t before = sequence->length - 1;
    return or_kv_sequence_usable(sequence, sequence->length, before) == before;
}

or_status_t or_model_grow(or_model_t *model, const or_growth_t *growth, or_grown_t *grown)
{
    or_gpu_t *gpu = model->gpu;
    or_status_t status = check(model, growth);
    if (status != OR_OK) {
        return status;
    }
    uint32_t rows = rows_for(model, growth);
    model->row_count = 0;
    or_cuda_recording_t *recording = or_model_can_grow(model) && sees_root(growth->sequence)
                                         ? find_recording(model, growth, rows)
                                         : NULL;
    if (recording == NULL) {
        *grown = (or_grown_t){0};
        return OR_OK;
    }
    ask(gpu, growth, rows);
    or_gpu_steps_replay(model, recording);
    status = fetch_grown(gpu);
    if (status == OR_OK) {
        read_rows(gpu, growth->contest.sampling, grown);
    }
    return status;
}
