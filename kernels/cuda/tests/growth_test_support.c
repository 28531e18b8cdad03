#include "kernels/cuda/tests/growth_test_support.h"

#include <math.h>
#include <string.h>

#include "common/base/math/math.h"
#include "tests/support/test_support.h"

#define BELOW 0.25 // the window: what may be listed all the same

uint32_t growth_pick(uint64_t *random, const uint32_t *of, uint32_t count)
{
    return of[test_below(random, count)];
}

// ---- wishes ----

static void draw_contest(uint64_t *random, or_cuda_growth_t *wishes)
{
    wishes->tau = 0.1 * PICK(random, 3, 6, 10, 30);
    wishes->contest = (or_cuda_contest_t){
        .key = test_random(random),
        .byte_offset = 12345, // of none of the rows
        .noisy = test_below(random, 3) > 0,
        .temperature = 0.25F * (float)PICK(random, 0, 2, 3, 4, 4, 4),
        .top_k = 5,
        .top_p = 0.5F,
        .window = wishes->tau < 1 ? 8 * wishes->tau : 8,
    };
}

void growth_draw_wishes(or_cuda_growth_t *wishes, uint64_t *random)
{
    *wishes = (or_cuda_growth_t){
        .nodes = PICK(random, 1, 2, 16, 16, 40, 64, 64),
        .depth = PICK(random, 1, 3, 7, 20, 64),
        .width = PICK(random, 1, 2, 32, 32, 32, 100),
        .rows = PICK(random, 1, 4, 16, 16, 64),
        .passes = PICK(random, 2, 64, 64, 64),
        .nearly = test_below(random, 4) == 0 ? INFINITY : PICK(random, 0, 2, 2),
        .share = 0.01 * PICK(random, 0, 0, 0, 5, 30),
        .table = {(const uint32_t *)(uintptr_t)0x1000, // addresses that are only passed on
                  (const uint32_t *)(uintptr_t)0x3000},
        .committed = (uint32_t)test_below(random, 1000),
        .slots = (void *)(uintptr_t)0x2000,
        .slots_max = 256,
        .free_slot_count = PICK(random, 0, 5, 30, 128, 128, 128, 128, 128),
    };
    for (uint32_t i = 0; i < OR_CUDA_GROWTH_ROWS; i++) {
        wishes->free_slots[i] = 255 - i;
    }
    draw_contest(random, wishes);
}

// ---- the model ----

void growth_model_draw(growth_model_t *model, uint64_t *random)
{
    model->seed = test_random(random);
    for (uint32_t id = 0; id < GROWTH_TEST_VOCAB; id++) {
        model->token_keys[id] = test_random(random);
        model->widths[id] = (uint32_t)test_below(random, 6);
    }
    model->most = PICK(random, 1, 3, 40, 300, 1024);
    model->least = test_below(random, 2) == 0 ? 1 : model->most;
    model->levels = PICK(random, 0, 0, 3, 1);
    model->many = PICK(random, 0, 0, 0, 20);
}

static or_noise_place_t place_of(const or_cuda_contest_t *contest)
{
    return (or_noise_place_t){contest->byte_offset, contest->zero_width};
}

// The scores of a list, with noise; -INFINITY for some that are below the window. Returns the best one.
static double score_list(const growth_model_t *model, const or_cuda_contest_t *contest,
                         const or_cuda_contender_t *list, uint32_t count, double window,
                         double *scores)
{
    static int32_t ids[OR_CUDA_CONTENDERS_MAX];
    static double plain[OR_CUDA_CONTENDERS_MAX];
    double best = -INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = list[i].id;
        plain[i] = contest->temperature > 0 ? (double)list[i].logit / (double)contest->temperature
                                            : (double)list[i].logit;
        best = fmax(best, plain[i]);
    }
    if (contest->noisy) {
        return or_noise_perturb((or_rng_key_t){contest->key}, place_of(contest), ids, plain, count,
                                model->token_keys, window, scores);
    }
    memcpy(scores, plain, count * sizeof *scores);
    return best;
}

static uint32_t draw_count(const growth_model_t *model, uint64_t *random)
{
    return model->levels == 1
               ? 1U << test_below(random, 3)
               : model->least + (uint32_t)test_below(random, model->most - model->least + 1);
}

uint32_t growth_model_list(const growth_model_t *model, uint64_t path,
                           const or_cuda_contest_t *contest, or_cuda_contender_t *list)
{
    static double scores[OR_CUDA_CONTENDERS_MAX];
    uint64_t random = model->seed ^ path;
    if (model->many > 0 && test_below(&random, model->many) == 0) {
        return OR_CUDA_CONTENDERS_MANY;
    }
    uint32_t count = draw_count(model, &random);
    count = contest->temperature > 0 ? count : 1;
    uint32_t step = GROWTH_TEST_VOCAB / count;
    for (uint32_t i = 0; i < count; i++) {
        list[i].id = (int32_t)(i * step + test_below(&random, step));
        list[i].logit = model->levels > 0 ? 0.5F * (float)test_below(&random, model->levels)
                                          : 10 * (float)test_uniform(&random);
    }
    double best = score_list(model, contest, list, count, contest->window + BELOW, scores);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (scores[i] >= best - contest->window - BELOW) {
            list[kept++] = list[i];
        }
    }
    return kept;
}

void growth_draw_plenty(or_cuda_growth_t *wishes, growth_model_t *model, uint64_t *random,
                        uint32_t nodes, uint32_t contenders)
{
    growth_draw_wishes(wishes, random);
    wishes->nodes = wishes->depth = nodes;
    wishes->rows = wishes->passes = OR_CUDA_GROWTH_MAX;
    wishes->width = 32;
    wishes->nearly = 2;
    wishes->share = 0;
    wishes->free_slot_count = OR_CUDA_GROWTH_ROWS;
    wishes->contest.temperature = 1;
    growth_model_draw(model, random);
    model->least = model->most = contenders;
    model->levels = 0;
    model->many = 0;
}

// ---- lists: drafter/build/builder_model.c ----

static void insert_sorted(growth_list_t *list, int32_t id, double score)
{
    if (list->count == GROWTH_TEST_CHILDREN && score <= list->scores[list->count - 1]) {
        return;
    }
    uint32_t at = list->count < GROWTH_TEST_CHILDREN ? list->count++ : list->count - 1;
    for (; at > 0 && list->scores[at - 1] < score; at--) {
        list->scores[at] = list->scores[at - 1];
        list->ids[at] = list->ids[at - 1];
    }
    list->scores[at] = score;
    list->ids[at] = id;
}

static void fill_list(growth_tree_t *tree, uint32_t guess, const or_cuda_contender_t *from,
                      uint32_t count)
{
    static double scores[OR_CUDA_CONTENDERS_MAX];
    or_cuda_contest_t contest = growth_tree_contest(tree, &tree->guesses[guess]);
    double best = score_list(tree->model, &contest, from, count, contest.window, scores);
    growth_list_t *list = &tree->lists[guess];
    double tau = tree->wishes->tau;
    double total = 0;
    list->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (scores[i] >= best - contest.window) {
            total += or_exp((scores[i] - best) / tau);
            insert_sorted(list, from[i].id, scores[i]);
        }
    }
    for (uint32_t i = 0; i < list->count; i++) {
        list->weights[i] = (list->scores[i] - best) / tau - or_ln(total);
    }
    if (list->count > tree->wishes->width) {
        list->count = tree->wishes->width;
    }
    tree->guesses[guess].expanded = true;
}

or_cuda_contest_t growth_tree_contest(const growth_tree_t *tree, const growth_guess_t *guess)
{
    or_cuda_contest_t contest = tree->wishes->contest;
    contest.byte_offset = guess->place.byte_offset;
    contest.zero_width = guess->place.zero_width;
    return contest;
}

// ---- the tree: drafter/build/build_coupled.c, where there is room for what the round wants ----

static bool before(const growth_guess_t *a, const growth_guess_t *b)
{
    return a->weight > b->weight || (a->weight == b->weight && a->depth < b->depth);
}

const growth_guess_t *growth_tree_at(const growth_tree_t *tree, uint32_t place)
{
    return &tree->guesses[tree->chosen[place]];
}

static void insert(growth_tree_t *tree)
{
    uint32_t guess = tree->chosen[tree->count];
    uint32_t at = tree->count++;
    for (; at > 0 && before(&tree->guesses[guess], growth_tree_at(tree, at - 1)); at--) {
        tree->chosen[at] = tree->chosen[at - 1];
    }
    tree->chosen[at] = guess;
}

static bool make_room(growth_tree_t *tree, double weight)
{
    if (tree->count < tree->wishes->nodes) {
        return true;
    }
    if (weight <= growth_tree_at(tree, tree->count - 1)->weight) {
        return false;
    }
    growth_guess_t *gone = &tree->guesses[tree->chosen[--tree->count]];
    tree->guesses[gone->parent].children--;
    gone->expanded = false;
    return true;
}

static void put(growth_tree_t *tree, uint32_t guess, uint32_t parent, uint32_t rank)
{
    const growth_guess_t *above = &tree->guesses[parent];
    const growth_list_t *list = &tree->lists[parent];
    int32_t token = list->ids[rank];
    uint64_t path = above->path ^ (uint64_t)token;
    tree->guesses[guess] = (growth_guess_t){
        .token = token,
        .parent = parent,
        .depth = above->depth + 1,
        .slot = GROWTH_TEST_NO_SLOT,
        .weight = above->weight + list->weights[rank],
        .place = or_noise_advance(above->place, tree->model->widths[token]),
        .path = test_random(&path),
    };
}

static void offer_children(growth_tree_t *tree, uint32_t parent)
{
    growth_guess_t *above = &tree->guesses[parent];
    const growth_list_t *list = &tree->lists[parent];
    while (above->children < list->count) {
        uint32_t rank = above->children;
        if (!make_room(tree, above->weight + list->weights[rank])) {
            return;
        }
        put(tree, tree->chosen[tree->count], parent, rank);
        above->children++;
        insert(tree);
    }
}

void growth_tree_begin(growth_tree_t *tree, const growth_model_t *model,
                       const or_cuda_growth_t *wishes)
{
    static or_cuda_contender_t list[OR_CUDA_CONTENDERS_MAX];
    *tree = (growth_tree_t){.model = model, .wishes = wishes};
    for (uint32_t i = 0; i < OR_CUDA_GROWTH_MAX; i++) {
        tree->chosen[i] = i + 1;
    }
    tree->guesses[0] = (growth_guess_t){.token = 7, .slot = GROWTH_TEST_NO_SLOT};
    tree->guesses[0].place.byte_offset = 100;
    uint32_t count;
    do { // the host's own row is known, however many contend
        tree->guesses[0].path++;
        or_cuda_contest_t contest = growth_tree_contest(tree, &tree->guesses[0]);
        count = growth_model_list(model, tree->guesses[0].path, &contest, list);
    } while (count == OR_CUDA_CONTENDERS_MANY);
    fill_list(tree, 0, list, count);
    offer_children(tree, 0);
}

static double bar(const growth_tree_t *tree)
{
    return tree->count == tree->wishes->nodes ? growth_tree_at(tree, tree->count - 1)->weight
                                              : -INFINITY;
}

static double believed(const growth_tree_t *tree, const uint32_t *guesses, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += or_exp(tree->guesses[guesses[i]].weight);
    }
    return sum;
}

static bool pays(const growth_tree_t *tree, uint32_t batch_count)
{
    double tokens = 1 + believed(tree, tree->chosen, tree->count);
    return tree->wishes->share <= 0 ||
           believed(tree, tree->batch, batch_count) >= tree->wishes->share * tokens;
}

uint32_t growth_tree_choose(growth_tree_t *tree, uint32_t most)
{
    double least = bar(tree);
    uint32_t found = 0;
    for (uint32_t i = 0; i < tree->count && found < most; i++) {
        const growth_guess_t *guess = growth_tree_at(tree, i);
        if (guess->weight <= least) {
            break;
        }
        if (!guess->expanded && guess->depth < tree->wishes->depth) {
            least = found == 0 ? fmax(least, guess->weight - tree->wishes->nearly) : least;
            tree->batch[found++] = tree->chosen[i];
        }
    }
    return pays(tree, found) ? found : 0;
}

void growth_tree_expand(growth_tree_t *tree, uint32_t count, const or_cuda_contender_t *lists,
                        const uint32_t *counts)
{
    for (uint32_t i = 0; i < count; i++) {
        fill_list(tree, tree->batch[i], lists + (size_t)i * OR_CUDA_CONTENDERS_MAX, counts[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (tree->guesses[tree->batch[i]].expanded) { // and not evicted since
            offer_children(tree, tree->batch[i]);
        }
    }
}

static uint32_t place_among(const growth_tree_t *tree, uint32_t guess)
{
    uint32_t place = 0;
    while (guess != 0 && tree->chosen[place] != guess) {
        place++;
    }
    return guess == 0 ? 0 : place + 1;
}

void growth_tree_hand_over(const growth_tree_t *tree, or_cuda_growth_t *growth)
{
    *growth = *tree->wishes;
    growth->guess_count = tree->count;
    for (uint32_t i = 0; i <= tree->count; i++) {
        const growth_guess_t *guess = i == 0 ? tree->guesses : growth_tree_at(tree, i - 1);
        growth->guesses[i] = (or_cuda_guess_t){
            .token = guess->token,
            .parent = place_among(tree, guess->parent),
            .depth = guess->depth,
            .slot = guess->slot,
            .byte_offset = guess->place.byte_offset,
            .zero_width = guess->place.zero_width,
            .weight = guess->weight,
        };
    }
}
