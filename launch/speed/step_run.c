#include "launch/speed/step_run.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/decode/token_tree.h"
#include "launch/bench/bench_progress.h"
#include "launch/speed/bench_timer.h"

#define CHILDREN 8u // most of a node
#define SHARE 0.6   // of the likeliest child; each next one has that share of what is left

typedef struct {
    or_model_t *model;
    const or_clock_t *clock;
    const or_step_plan_t *plan;
    or_token_tree_t *tree;
    or_kv_sequence_t *texts[OR_STEP_SESSIONS_MAX]; // the first also has the trees
    uint32_t text_count;
    or_kv_sequence_t *prefix; // the one that is prefilled, empty between passes
    or_model_row_t rows[OR_STEP_TREE_MAX];
    float *logits; // of as many rows
    double *ms;    // [step][repeat]
} run_t;

const char *or_step_kind_name(or_step_kind_t kind)
{
    static const char *const names[] = {"tree", "sessions", "prefill"};
    return names[kind];
}

// ---- trees ----

// Best first, as a drafter grows it: each time the likeliest child that is not there yet; then in the order
// in which trees travel.
static void grow(or_token_tree_t *tree, uint32_t count)
{
    static double weight[OR_STEP_TREE_MAX + 1], next[OR_STEP_TREE_MAX + 1];
    static uint32_t children[OR_STEP_TREE_MAX + 1];
    or_token_tree_reset(tree, 0);
    weight[0] = 1;
    for (uint32_t node = 0; node < count; node++) {
        next[node] = weight[node] * SHARE;
        children[node] = 0;
        uint32_t best = 0;
        for (uint32_t i = 1; i <= node; i++) {
            best = next[i] > next[best] ? i : best;
        }
        weight[node + 1] = next[best];
        next[best] = ++children[best] < CHILDREN ? next[best] * (1 - SHARE) : 0;
        or_token_tree_add(tree, best, (int32_t)node, NULL);
    }
    or_token_tree_depth_first(tree, NULL);
}

static uint32_t depth_of(const or_token_tree_t *tree)
{
    uint32_t deepest = 0;
    for (uint32_t i = 0; i <= or_token_tree_count(tree); i++) {
        uint32_t depth = or_token_tree_depths(tree)[i];
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest;
}

// ---- room ----

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t pass_rows(const or_step_t *step)
{
    bool cut = step->kind == OR_STEP_PREFILL && step->rows > OR_STEP_PREFILL_ROWS;
    return cut ? OR_STEP_PREFILL_ROWS : step->rows;
}

static uint32_t rows_needed(const or_step_plan_t *plan)
{
    uint32_t rows = 1;
    for (uint32_t i = 0; i < plan->count; i++) {
        rows = larger(rows, pass_rows(&plan->steps[i]));
    }
    return rows;
}

static uint32_t texts_needed(const or_step_plan_t *plan)
{
    uint32_t texts = 1;
    for (uint32_t i = 0; i < plan->count; i++) {
        bool many = plan->steps[i].kind == OR_STEP_SESSIONS;
        texts = larger(texts, many ? plan->steps[i].rows : 1);
    }
    return texts;
}

or_status_t or_step_room(const or_step_plan_t *plan, or_model_options_t *options)
{
    or_token_tree_t *tree = NULL;
    or_status_t status = or_token_tree_create(OR_STEP_TREE_MAX, &tree);
    if (status != OR_OK) {
        return status;
    }
    uint32_t context = plan->context + 1;
    for (uint32_t i = 0; i < plan->count; i++) {
        const or_step_t *step = &plan->steps[i];
        if (step->kind == OR_STEP_TREE) {
            grow(tree, step->rows);
            context = larger(context, plan->context + depth_of(tree));
        } else if (step->kind == OR_STEP_PREFILL) {
            context = larger(context, step->rows);
        }
    }
    or_token_tree_destroy(&tree);
    options->context_max = context;
    options->rows_max = rows_needed(plan);
    options->sequences_max = texts_needed(plan) + 1; // and the prefix
    return OR_OK;
}

// ---- passes ----

// Ids of all the vocabulary, none of them next to its neighbours.
static int32_t token_at(const run_t *run, uint32_t place)
{
    return (int32_t)((place * UINT64_C(2654435761) >> 8) % or_model_shape(run->model)->vocab_size);
}

// Tokens begin .. begin + count - 1 of a text that has the ones before.
static or_status_t commit(run_t *run, or_kv_sequence_t *sequence, uint32_t begin, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        run->rows[i] =
            (or_model_row_t){sequence, token_at(run, begin + i), OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    }
    return or_model_forward(run->model, run->rows, count);
}

static or_status_t fill(run_t *run, or_kv_sequence_t *sequence, uint32_t tokens)
{
    uint32_t most = or_model_rows_max(run->model);
    most = most < OR_STEP_PREFILL_ROWS ? most : OR_STEP_PREFILL_ROWS;
    or_status_t status = OR_OK;
    for (uint32_t done = 0; status == OR_OK && done < tokens; done += most) {
        status = commit(run, sequence, done, tokens - done < most ? tokens - done : most);
    }
    return status;
}

static or_status_t pass_tree(run_t *run, uint32_t count)
{
    const uint32_t *parents = or_token_tree_parents(run->tree);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t parent = parents[i + 1];
        run->rows[i] = (or_model_row_t){run->texts[0], token_at(run, i), i,
                                        parent == 0 ? OR_KV_NO_SLOT : parent - 1};
    }
    or_status_t status = or_model_forward(run->model, run->rows, count);
    return status != OR_OK ? status : or_model_logits(run->model, 0, count, run->logits);
}

static or_status_t pass_sessions(run_t *run, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        run->rows[i] = (or_model_row_t){run->texts[i], token_at(run, i), 0, OR_KV_NO_SLOT};
    }
    or_status_t status = or_model_forward(run->model, run->rows, count);
    return status != OR_OK ? status : or_model_logits(run->model, 0, count, run->logits);
}

static or_status_t pass_prefill(run_t *run, uint32_t count)
{
    or_status_t status = fill(run, run->prefix, count);
    uint32_t last = (count - 1) % OR_STEP_PREFILL_ROWS;
    return status != OR_OK ? status : or_model_logits(run->model, last, 1, run->logits);
}

static or_status_t time_step(run_t *run, const or_step_t *step, double *ms)
{
    static or_status_t (*const passes[])(run_t *, uint32_t) = {pass_tree, pass_sessions,
                                                               pass_prefill};
    if (step->kind == OR_STEP_TREE) {
        grow(run->tree, step->rows);
    }
    int64_t start = or_clock_now(run->clock);
    or_status_t status = passes[step->kind](run, step->rows);
    *ms = (double)(or_clock_now(run->clock) - start) / (double)OR_NS_PER_MS;
    for (uint32_t i = 0; i < run->text_count; i++) {
        or_kv_sequence_drop_slots(run->texts[i]);
    }
    or_kv_sequence_truncate(run->prefix, 0);
    return status;
}

// ---- figures ----

static void figure(const or_model_t *model, double *ms, uint32_t repeats, or_step_t *step)
{
    step->median_ms = or_timer_median(ms, repeats);
    step->best_ms = ms[0]; // they are sorted now
    uint32_t passes = (step->rows + pass_rows(step) - 1) / pass_rows(step);
    step->bytes_per_s = 1e3 * passes * (double)or_model_memory(model).weights / step->median_ms;
}

// ---- the run ----

static or_status_t open_texts(run_t *run)
{
    uint32_t slots = 1;
    for (uint32_t i = 0; i < run->plan->count; i++) {
        bool tree = run->plan->steps[i].kind == OR_STEP_TREE;
        slots = larger(slots, tree ? run->plan->steps[i].rows : 1);
    }
    or_status_t status = or_model_open_sequence(run->model, 1, &run->prefix);
    uint32_t texts = texts_needed(run->plan);
    while (status == OR_OK && run->text_count < texts) {
        or_kv_sequence_t **text = &run->texts[run->text_count];
        status = or_model_open_sequence(run->model, run->text_count == 0 ? slots : 1, text);
        if (status == OR_OK) {
            run->text_count++;
            status = fill(run, *text, run->plan->context);
        }
    }
    return status;
}

static or_status_t take_turns(run_t *run)
{
    const or_step_plan_t *plan = run->plan;
    or_bench_progress_t progress;
    or_status_t status = OR_OK;
    or_bench_progress_init(&progress, (plan->repeats + 1) * (uint64_t)plan->count, run->clock);
    for (uint32_t turn = 0; status == OR_OK && turn <= plan->repeats; turn++) {
        for (uint32_t i = 0; status == OR_OK && i < plan->count; i++) {
            char name[32];
            snprintf(name, sizeof name, "%s %u", or_step_kind_name(plan->steps[i].kind),
                     plan->steps[i].rows);
            or_bench_progress_show(&progress, turn * (uint64_t)plan->count + i, name);
            // The first turn goes to the place of the second, which writes over it.
            uint32_t place = turn == 0 ? 0 : turn - 1;
            status = time_step(run, &plan->steps[i], &run->ms[i * plan->repeats + place]);
        }
    }
    or_bench_progress_clear(&progress);
    return status;
}

or_status_t or_step_run(or_model_t *model, const or_clock_t *clock, or_step_plan_t *plan)
{
    run_t *run = calloc(1, sizeof *run);
    if (run == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the rows");
    }
    *run = (run_t){.model = model, .clock = clock, .plan = plan};
    run->logits =
        malloc((size_t)rows_needed(plan) * or_model_shape(model)->vocab_size * sizeof *run->logits);
    run->ms = malloc((size_t)plan->count * plan->repeats * sizeof *run->ms);
    or_status_t status = run->logits != NULL && run->ms != NULL
                             ? or_token_tree_create(OR_STEP_TREE_MAX, &run->tree)
                             : or_fail(OR_ERR_NO_MEMORY, "no memory for the logits");
    if (status == OR_OK) {
        status = open_texts(run);
    }
    if (status == OR_OK) {
        status = take_turns(run);
    }
    for (uint32_t i = 0; status == OR_OK && i < plan->count; i++) {
        figure(model, &run->ms[i * plan->repeats], plan->repeats, &plan->steps[i]);
    }
    for (uint32_t i = 0; i < run->text_count; i++) {
        or_kv_sequence_close(&run->texts[i]);
    }
    or_kv_sequence_close(&run->prefix);
    or_token_tree_destroy(&run->tree);
    free(run->ms);
    free(run->logits);
    free(run);
    return status;
}
