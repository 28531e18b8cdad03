#include "launch/bench/bench_plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/decode/sampling/distribution.h"
#include "common/decode/sampling/sampler.h"
#include "launch/generate/input.h"

#define PAIRS_MAX 256u
#define TEMPERATURES_MAX 16u
#define BUDGETS_MAX 64u
#define DISTS_MAX 8u
#define USUAL_METHODS                                                                              \
    "coupled+coupled,chain+coupled,chain+sps,mcsd+multi-round,rsd-c+recursive,rsd-s+recursive"
#define LENGTH_METHODS "chain+sps,mcsd+multi-round,rsd-c+recursive,rsd-s+recursive,coupled+coupled"
#define K_CONFIG_METHODS "mcsd+multi-round,rsd-c+recursive"

#define TREES_MAX 16u
#define K_CONFIG_LEAVES 32u

typedef struct {
    or_draft_method_t method;
    or_accept_rule_t rule;
} pair_t;

typedef struct {
    const or_bench_plan_choice_t *choice;
    pair_t pairs[PAIRS_MAX];
    uint32_t pair_count;
    bool all; // every legal pair: those that are illegal at one temperature are left out there
    float temperatures[TEMPERATURES_MAX];
    uint32_t temperature_count;
    uint32_t budgets[BUDGETS_MAX];
    uint32_t budget_count;
    uint32_t dists[DISTS_MAX]; // entries of each
    uint32_t dist_count;
} request_t;

// ---- what is asked for ----

static or_status_t add_pair(request_t *request, pair_t pair)
{
    for (uint32_t i = 0; i < request->pair_count; i++) {
        if (request->pairs[i].method == pair.method && request->pairs[i].rule == pair.rule) {
            return OR_OK;
        }
    }
    if (request->pair_count == PAIRS_MAX) {
        return or_fail(OR_ERR_INVALID, "--methods: more than %u pairs", PAIRS_MAX);
    }
    request->pairs[request->pair_count++] = pair;
    return OR_OK;
}

// Is the pair exact at one of the temperatures? OR_ERR_INVALID says why it is at none.
static or_status_t check_pair(const request_t *request, pair_t pair)
{
    or_status_t status = OR_OK;
    if (or_accept_rule_is_lossy(pair.rule) && !request->choice->allow_lossy) {
        return or_fail(
            OR_ERR_INVALID,
            "%s does not sample the target's distribution: --allow-lossy compares it all the same",
            or_accept_rule_name(pair.rule));
    }
    status = or_vocab_method_check(request->choice->vocab_method, pair.rule);
    if (status != OR_OK) {
        return status;
    }
    for (uint32_t i = 0; i < request->temperature_count; i++) {
        status = or_methods_check(pair.method, pair.rule, request->temperatures[i]);
        if (status == OR_OK) {
            return OR_OK;
        }
    }
    return status;
}

static or_status_t add_all_pairs(request_t *request)
{
    char method[OR_INPUT_WORD_BYTES];
    char rule[OR_INPUT_WORD_BYTES];
    or_status_t status = OR_OK;
    const char *methods = or_draft_method_list();
    while (status == OR_OK && or_input_word("--methods", &methods, method) == OR_OK) {
        const char *rules = or_accept_rule_list();
        while (status == OR_OK && or_input_word("--methods", &rules, rule) == OR_OK) {
            pair_t pair;
            if (or_draft_method_parse(method, &pair.method) == OR_OK &&
                or_accept_rule_parse(rule, &pair.rule) == OR_OK &&
                (pair.method != OR_DRAFT_MULTI || request->choice->multi) &&
                !or_accept_rule_is_lossy(pair.rule) &&
                (pair.rule != OR_ACCEPT_SLRS || request->choice->vocab_method == OR_VOCAB_SLRS) &&
                check_pair(request, pair) == OR_OK) {
                status = add_pair(request, pair);
            }
        }
    }
    return status;
}

// A word is a pair ("rsd-s+recursive"), a rule that gets its usual method ("recursive"), or a method that gets the coupled
// rule ("rsd-s").
static or_status_t parse_pair(char *word, pair_t *pair)
{
    char *plus = strchr(word, '+');
    if (plus != NULL) {
        *plus = '\0';
        or_status_t status = or_draft_method_parse(word, &pair->method);
        return status == OR_OK ? or_accept_rule_parse(plus + 1, &pair->rule) : status;
    }
    if (or_accept_rule_parse(word, &pair->rule) == OR_OK) {
        pair->method = or_accept_rule_usual_method(pair->rule);
        return OR_OK;
    }
    pair->rule = OR_ACCEPT_COUPLED;
    if (or_draft_method_parse(word, &pair->method) == OR_OK) {
        return OR_OK;
    }
    return or_fail(OR_ERR_INVALID,
                   "'%s' is neither a draft method (%s) nor an acceptance rule (%s), nor a pair of "
                   "them as rsd-s+recursive, nor 'all' or 'plain'",
                   word, or_draft_method_list(), or_accept_rule_list());
}

static or_status_t parse_methods(request_t *request, const char *list)
{
    char word[OR_INPUT_WORD_BYTES];
    or_status_t status;
    while ((status = or_input_word("--methods", &list, word)) == OR_OK) {
        pair_t pair = {OR_DRAFT_NONE, OR_ACCEPT_COUPLED};
        if (strcmp(word, "all") == 0) {
            request->all = true;
            status = add_all_pairs(request);
        } else if (strcmp(word, "plain") != 0) { // which is in every plan
            status = parse_pair(word, &pair);
            if (status == OR_OK && pair.method != OR_DRAFT_NONE) {
                status = check_pair(request, pair);
                status = status == OR_OK ? add_pair(request, pair) : status;
            }
            or_fail_context(status, "--methods");
        }
        if (status != OR_OK) {
            return status;
        }
    }
    return status == OR_ERR_NOT_FOUND ? OR_OK : status;
}

static or_status_t parse_temperatures(request_t *request)
{
    char word[OR_INPUT_WORD_BYTES];
    const char *list = request->choice->temperatures;
    or_status_t status;
    while ((status = or_input_word("--temp", &list, word)) == OR_OK) {
        char *end;
        float temperature = strtof(word, &end);
        if (*end != '\0' || !isfinite(temperature) || temperature < 0) {
            return or_fail(OR_ERR_INVALID, "--temp: '%s' is not a temperature of 0 or more", word);
        }
        if (request->temperature_count == TEMPERATURES_MAX) {
            return or_fail(OR_ERR_INVALID, "--temp: more than %u temperatures", TEMPERATURES_MAX);
        }
        request->temperatures[request->temperature_count++] = temperature;
    }
    return status == OR_ERR_NOT_FOUND ? OR_OK : status;
}

// Parse a list of numbers from 1 to `most`.
static or_status_t parse_numbers(const char *option, const char *list, uint32_t most,
                                 uint32_t count_max, uint32_t *out, uint32_t *out_count)
{
    int32_t *numbers;
    size_t count;
    or_status_t status = or_input_numbers(option, list, INT32_MIN, &numbers, &count);
    if (status != OR_OK) {
        return status;
    }
    if (count == 0 || count > count_max) {
        status = or_fail(OR_ERR_INVALID, "%s: 1 to %" PRIu32 " numbers, not %zu", option, count_max,
                         count);
    }
    for (size_t i = 0; i < count && status == OR_OK; i++) {
        if (numbers[i] < 1 || numbers[i] > (int32_t)most) {
            status = or_fail(OR_ERR_INVALID, "%s: %" PRId32 " is not between 1 and %" PRIu32,
                             option, numbers[i], most);
        } else {
            out[(*out_count)++] = (uint32_t)numbers[i];
        }
    }
    free(numbers);
    return status;
}

// ---- the trees of the papers' experiments ----
//
// RSD (Jeon et al. 2024, arXiv 2402.14160, section 5): "fixed draft length" compares trees of equal depth, "fixed target
// computational budget" trees of equal size. Multi-candidate speculative decoding (Yang et al. 2024, arXiv 2401.06706):
// configurations of candidates by level, at most 32 leaves. The shapes are those of docs/algorithms.md section 2.

typedef struct {
    uint32_t nodes, depth;
    or_shape_t shape; // count 0: the method has none, nodes and depth bound its tree
} tree_t;

#define COLUMNS 4

// The shapes end with NULL.
typedef struct {
    uint32_t group;                // the length, or the budget
    const char *beams[COLUMNS];    // width x length
    const char *branches[COLUMNS]; // children by level
} row_t;

static const row_t by_length[] = {
    {2, {"2x2", "3x2"}, {"2x2", "2x1", "3x1"}},
    {3, {"3x3", "4x3"}, {"2x2x2", "3x1x1", "4x1x1"}},
    {4, {"5x4", "7x4"}, {"2x2x2x2", "5x1x1x1", "7x1x1x1"}},
    {5, {"6x5", "12x5"}, {"2x2x2x2x2", "6x1x1x1x1", "12x1x1x1x1"}},
};
// The shapes are those that were published: some branchings stay a few nodes below the budget.
static const row_t by_budget[] = {
    {6, {"2x3", "3x2"}, {"2x1x1", "2x2", "3x1"}},
    {10, {"2x5", "5x2"}, {"2x1x1x1x1", "2x2x1", "5x1"}},
    {14, {"2x7", "7x2"}, {"2x1x1x1x1x1", "2x2x2", "7x1"}},
    {21, {"3x7", "7x3"}, {"3x1x1x1x1x1", "3x2x2", "7x1x1"}},
    {30, {"5x6", "6x5"}, {"2x2x2x2", "5x1x1x1x1", "6x1x1x1x1"}},
};
static const char *const k_configs[] = {"1x1x1x1x1", "4x2x2x1x1", "8x2x1x1", "8x2x2",
                                        "16x1x1",    "16x2",      "32",      NULL};

#define COUNT(table) (sizeof(table) / sizeof *(table))

static const row_t *find_row(const row_t *rows, size_t count, uint32_t group)
{
    while (count > 1 && rows->group != group) {
        rows++;
        count--;
    }
    return rows;
}

// Count the nodes of a shape that is read as a beam, or as branching factors.
static uint32_t nodes_as(const or_shape_t *shape, bool beam)
{
    uint32_t level = 1, nodes = 0;
    if (beam) {
        return shape->widths[0] * shape->widths[1];
    }
    for (uint32_t i = 0; i < shape->count; i++) {
        level *= shape->widths[i];
        nodes += level;
    }
    return nodes;
}

// Take the shapes that the method grows as they are meant. "3x2" is a beam to one method and branching factors to another:
// the number of nodes tells which.
static uint32_t take(or_draft_method_t method, const char *const *shapes, bool beam, tree_t *trees)
{
    uint32_t count = 0;
    for (size_t i = 0; i < COUNT(k_configs) && shapes[i] != NULL; i++) {
        tree_t tree = {.depth = OR_SHAPE_LEVELS_MAX};
        if (or_shape_parse(shapes[i], &tree.shape) != OR_OK ||
            or_shape_check(&tree.shape, method, tree.depth) != OR_OK) {
            continue;
        }
        tree.nodes = or_shape_nodes(&tree.shape, method, tree.depth);
        tree.depth = or_shape_levels(&tree.shape, method, tree.depth);
        if (tree.nodes == nodes_as(&tree.shape, beam)) {
            trees[count++] = tree;
        }
    }
    return count;
}

// List the trees that a method takes part with in an experiment whose group is `group` (a length, or a budget): the beams or the
// branchings it can grow. A method without shapes gets one sequence, or trees of as many nodes as the beams have; of
// OR_BENCH_K_CONFIG it gets none. Returns how many.
static uint32_t list_trees(or_bench_kind_t kind, or_draft_method_t method, uint32_t group,
                           tree_t trees[TREES_MAX])
{
    bool by_depth = kind == OR_BENCH_FIXED_LENGTH;
    if (kind == OR_BENCH_K_CONFIG || kind == OR_BENCH_BY_NODES) {
        return kind == OR_BENCH_K_CONFIG ? take(method, k_configs, false, trees) : 0;
    }
    const row_t *row = by_depth ? find_row(by_length, COUNT(by_length), group)
                                : find_row(by_budget, COUNT(by_budget), group);
    uint32_t count = take(method, row->beams, true, trees);
    count = count > 0 ? count : take(method, row->branches, false, trees);
    if (count > 0) {
        return count;
    }
    if (!by_depth || method == OR_DRAFT_CHAIN) {
        trees[0] = (tree_t){.nodes = group, .depth = group};
        return 1;
    }
    for (size_t i = 0; row->beams[i] != NULL; i++) {
        or_shape_t beam;
        if (or_shape_parse(row->beams[i], &beam) == OR_OK) {
            trees[count++] = (tree_t){.nodes = nodes_as(&beam, true), .depth = group};
        }
    }
    return count;
}

// ---- cases ----

static or_status_t add_case(or_bench_plan_t *plan, or_bench_case_t made)
{
    or_bench_case_t *larger = reallocarray(plan->cases, plan->count + 1, sizeof *plan->cases);
    if (larger == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the cases");
    }
    plan->cases = larger;
    plan->cases[plan->count++] = made;
    return OR_OK;
}

static void describe_tree(or_bench_case_t *made, bool sweep)
{
    int written = snprintf(made->tree, sizeof made->tree, "%" PRIu32, made->nodes);
    size_t used = made->shape.count > 0 || written < 0 ? 0 : (size_t)written;
    for (uint32_t i = 0; i < made->shape.count && used < sizeof made->tree; i++) {
        int length = snprintf(made->tree + used, sizeof made->tree - used, "%s%" PRIu32,
                              i > 0 ? "x" : "", made->shape.widths[i]);
        used += length > 0 ? (size_t)length : 0;
    }
    if (sweep && used < sizeof made->tree) {
        snprintf(made->tree + used, sizeof made->tree - used, " K%" PRIu32,
                 made->distribution_entries);
    }
}

typedef struct {
    or_bench_plan_t *plan;
    pair_t pair;
    float temperature;
    bool calibrated;
    bool sweep; // several sizes of distributions are compared
    uint32_t distribution_entries;
    uint32_t baseline;
} place_t;

static void name_case(or_bench_case_t *made, bool calibrated)
{
    bool star = calibrated && or_draft_method_has(made->method, OR_DRAFT_CALIBRATES);
    snprintf(made->name, sizeof made->name, "%s%s+%s%s", or_draft_method_name(made->method),
             star ? "*" : "", or_accept_rule_name(made->rule),
             or_accept_rule_is_lossy(made->rule) ? " (lossy)" : "");
}

static or_status_t add_tree(const place_t *place, uint32_t group, const tree_t *tree)
{
    or_bench_case_t made = {.method = place->pair.method,
                            .rule = place->pair.rule,
                            .temperature = place->temperature,
                            .nodes = tree->nodes,
                            .depth = tree->depth,
                            .shape = tree->shape,
                            .group = group,
                            .distribution_entries = place->distribution_entries,
                            .baseline = place->baseline,
                            .legal = true};
    name_case(&made, place->calibrated);
    describe_tree(&made, place->sweep);
    if (or_methods_check(made.method, made.rule, made.temperature) != OR_OK) {
        made.legal = false;
        snprintf(made.reason, sizeof made.reason, "%s", or_error_text());
    }
    return add_case(place->plan, made);
}

// Add the trees of one pair in one group of the plan.
static or_status_t add_trees(const place_t *place, const request_t *request, uint32_t group)
{
    tree_t trees[TREES_MAX];
    or_status_t status = OR_OK;
    uint32_t count = list_trees(request->choice->kind, place->pair.method, group, trees);
    if (request->choice->kind == OR_BENCH_BY_NODES) {
        trees[count++] = (tree_t){.nodes = group, .depth = request->choice->depth};
    }
    for (uint32_t i = 0; i < count && status == OR_OK; i++) {
        status = add_tree(place, group, &trees[i]);
    }
    return status;
}

static or_status_t add_temperature(or_bench_plan_t *plan, const request_t *request,
                                   float temperature)
{
    place_t place = {.plan = plan,
                     .temperature = temperature,
                     .calibrated = request->choice->calibrated,
                     .baseline = plan->count};
    or_bench_case_t plain = {.method = OR_DRAFT_NONE,
                             .rule = OR_ACCEPT_COUPLED,
                             .temperature = temperature,
                             .nodes = 1,
                             .depth = 1,
                             .baseline = plan->count,
                             .legal = true,
                             .name = "plain",
                             .tree = "-"};
    or_status_t status = add_case(plan, plain);
    for (uint32_t g = 0; g < request->budget_count; g++) {
        for (uint32_t i = 0; i < request->pair_count && status == OR_OK; i++) {
            place.pair = request->pairs[i];
            bool legal = or_methods_check(place.pair.method, place.pair.rule, temperature) == OR_OK;
            bool dists = or_accept_rule_uses_distributions(place.pair.rule);
            place.sweep = dists && request->dist_count > 1;
            for (uint32_t k = 0; k < (dists ? request->dist_count : 1) && status == OR_OK; k++) {
                place.distribution_entries = request->dists[k];
                if (legal || !request->all) {
                    status = add_trees(&place, request, request->budgets[g]);
                }
            }
        }
    }
    return status;
}

static void set_rows(request_t *request, const row_t *rows, uint32_t count)
{
    request->budget_count = count;
    for (uint32_t i = 0; i < count; i++) {
        request->budgets[i] = rows[i].group;
    }
}

static or_status_t set_groups(request_t *request, or_bench_plan_t *plan)
{
    plan->group_name = request->choice->kind == OR_BENCH_FIXED_LENGTH ? "depth" : "budget";
    switch (request->choice->kind) {
    case OR_BENCH_FIXED_LENGTH:
        set_rows(request, by_length, COUNT(by_length));
        return OR_OK;
    case OR_BENCH_FIXED_BUDGET:
        set_rows(request, by_budget, COUNT(by_budget));
        return OR_OK;
    case OR_BENCH_K_CONFIG: // the leaves' bound is the configurations' own
        request->budget_count = 1;
        request->budgets[0] = K_CONFIG_LEAVES;
        plan->group_name = "leaves";
        return OR_OK;
    default:
        return parse_numbers("--nodes", request->choice->nodes, OR_TREE_NODES_MAX, BUDGETS_MAX,
                             request->budgets, &request->budget_count);
    }
}

static const char *usual_methods(or_bench_kind_t kind)
{
    if (kind == OR_BENCH_K_CONFIG) {
        return K_CONFIG_METHODS;
    }
    return kind == OR_BENCH_BY_NODES ? USUAL_METHODS : LENGTH_METHODS;
}

or_status_t or_bench_plan_make(const or_bench_plan_choice_t *choice, or_bench_plan_t *plan)
{
    request_t request = {.choice = choice};
    or_bench_plan_t made = {0};
    or_status_t status = parse_temperatures(&request);
    if (status == OR_OK) {
        status = parse_methods(&request, choice->methods != NULL ? choice->methods
                                                                 : usual_methods(choice->kind));
    }
    if (status == OR_OK) {
        status = parse_numbers("--distribution-entries", choice->distribution_entries,
                               OR_DISTRIBUTION_ENTRIES_MAX, DISTS_MAX, request.dists,
                               &request.dist_count);
    }
    if (status == OR_OK) {
        status = set_groups(&request, &made);
    }
    for (uint32_t i = 0; i < request.temperature_count && status == OR_OK; i++) {
        status = add_temperature(&made, &request, request.temperatures[i]);
    }
    if (status == OR_OK && request.pair_count > 0 && made.count == request.temperature_count) {
        status = or_fail(OR_ERR_INVALID, "--k-config compares branching factors: --methods needs "
                                         "one that has them, as mcsd or rsd-c");
    }
    if (status != OR_OK) {
        or_bench_plan_fini(&made);
        return status;
    }
    *plan = made;
    return OR_OK;
}

void or_bench_plan_fini(or_bench_plan_t *plan)
{
    free(plan->cases);
    *plan = (or_bench_plan_t){0};
}
