// The drafting methods as a table, and how a tree is begun and built with one of them.
#include "drafter/build/builder_internal.h"

typedef struct {
    or_draft_method_t method;
    or_status_t (*build)(or_builder_t *builder, uint32_t *count);
} method_row_t;

#define METHOD_ROW(constant, number, name, builder, rules, nature, traits)                         \
    {OR_DRAFT_##constant, or_build_##builder},
static const method_row_t methods[] = {OR_DRAFT_METHODS(METHOD_ROW)};

static const method_row_t *find_row(or_draft_method_t method)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (methods[i].method == method) {
            return &methods[i];
        }
    }
    return NULL;
}

bool or_build_is_drawn(or_draft_method_t method, or_accept_rule_t rule)
{
    return or_accept_rule_uses_distributions(rule) || rule == OR_ACCEPT_SLRS ||
           (rule == OR_ACCEPT_NAIVE && or_draft_method_has(method, OR_DRAFT_SAMPLES));
}

bool or_build_grows(or_draft_method_t method, or_accept_rule_t rule)
{
    return or_draft_method_has(method, OR_DRAFT_GROWS) && !or_build_is_drawn(method, rule);
}

void or_build_job_suit(or_build_job_t *job, or_draft_method_t method, or_accept_rule_t rule)
{
    job->noisy = rule == OR_ACCEPT_COUPLED && job->sampling.temperature > 0 &&
                 !or_draft_method_has(method, OR_DRAFT_NOISELESS);
    job->drawn = or_build_is_drawn(method, rule);
    job->replaced = job->drawn && or_draft_method_has(method, OR_DRAFT_REPLACES);
    job->repeats = or_accept_rule_counts_repeats(rule);
}

// Begin a new tree: it holds the root and nothing else.
static void open_job(or_builder_t *builder, const method_row_t *row, const or_build_job_t *job)
{
    builder->fixed_tau = or_draft_method_has(row->method, OR_DRAFT_NOISELESS) ? 1 : 0;
    or_build_take_job(builder, job);
    builder->room = builder->nodes_wanted;
    builder->grow_depth = builder->depth_limit;
    builder->rooted = false;
    builder->tree_count = 0;
    builder->tree_drawn = job->drawn;
    builder->guesses[OR_BUILD_ROOT] = (or_build_guess_t){
        .token = job->history[job->history_count - 1], .slot = OR_KV_NO_SLOT, .place = job->place};
    builder->slots_used = 0;
    builder->spare_slot_count = 0;
    builder->crowded = false;
    builder->lists[OR_BUILD_ROOT].count = 0;
}

static or_status_t grow(or_builder_t *builder, const method_row_t *row, uint32_t *count)
{
    *count = 0;
    if (builder->nodes_wanted == 0 || builder->depth_limit == 0) {
        return OR_OK;
    }
    bool asks_model = or_draft_method_has(row->method, OR_DRAFT_ASKS_MODEL);
    or_status_t status = asks_model ? builder->source.start(builder) : OR_OK;
    if (status != OR_OK) {
        return status;
    }
    return builder->job->strings != NULL ? or_build_strings(builder, count)
                                         : row->build(builder, count);
}

or_status_t or_builder_build(or_builder_t *builder, or_draft_method_t method,
                             const or_build_job_t *job, or_token_tree_t *tree)
{
    const method_row_t *row = find_row(method);
    if (row == NULL) {
        return or_fail(OR_ERR_UNSUPPORTED, "draft method %u is not known to this drafter",
                       (unsigned)method);
    }
    uint32_t count;
    open_job(builder, row, job);
    or_token_tree_reset(tree, builder->guesses[OR_BUILD_ROOT].token);
    or_status_t status = grow(builder, row, &count);
    if (status == OR_OK) {
        status = or_build_make_tree(builder, builder->chosen, count, tree);
    }
    if (status == OR_OK && builder->tree_drawn) {
        or_build_record_draws(builder, tree);
    }
    builder->job = NULL;
    return status;
}

or_status_t or_builder_root(or_builder_t *builder, or_draft_method_t method,
                            const or_build_job_t *job)
{
    open_job(builder, find_row(method), job);
    builder->room = builder->nodes_max;
    builder->grow_depth = builder->source.positions - builder->history_count;
    or_status_t status = builder->source.start(builder);
    if (status == OR_OK) {
        or_build_best_begin(builder);
        builder->rooted = true;
    }
    builder->job = NULL;
    return status;
}
