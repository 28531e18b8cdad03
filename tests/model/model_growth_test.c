// Goal: rows of a tree that grows on a device are those that passes and contests make, distributions, K and V to the last bit, and
// rows that nobody adopts leave no trace.
// Method: random trees on random texts, two by turns, of a model that grows them and of its twin, on another device, that
// runs what the first one told, pass by pass. Both go on from what was adopted.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/gguf/gguf_test_file.h"
#include "common/model/gpu/gpu_internal.h"
#include "tests/families/family_file.h"
#include "tests/model/model_fixture.h"

#define ROWS 16u
#define NODES 16u
#define SLOTS 32u      // that trees may grow into
#define LENGTH 5u      // of most texts
#define BELOW 3u       // rows that are run by hand below a tree
#define STEPS_SEEN 32u // kinds of trees

typedef struct {
    or_kv_sequence_t *grown;
    or_kv_sequence_t *stepped;
} text_t;

typedef struct {
    uint32_t rows;
    uint32_t positions_max;
} kind_t;

typedef struct {
    model_fixture_t grown;
    model_fixture_t stepped;
    text_t texts[2];
    uint64_t *keys;   // [vocab_size]
    uint32_t *widths; // [vocab_size]
    kind_t seen[STEPS_SEEN];
    uint32_t seen_count;
    uint32_t adopted; // rows that were told of, of all trees
    uint64_t rng;
} twins_t;

static uint32_t below(twins_t *twins, uint32_t n)
{
    return (uint32_t)test_below(&twins->rng, n);
}

// ---- twins ----

static void know_tokens(twins_t *twins)
{
    uint32_t count = twins->grown.vocab_size;
    twins->keys = test_alloc(count, sizeof *twins->keys);
    twins->widths = test_alloc(count, sizeof *twins->widths);
    for (uint32_t i = 0; i < count; i++) {
        twins->keys[i] = test_random(&twins->rng);
        twins->widths[i] = below(twins, 4);
    }
    assert_int_equal(or_model_set_noise_keys(twins->grown.model, twins->keys, count), OR_OK);
    assert_int_equal(or_model_set_noise_keys(twins->stepped.model, twins->keys, count), OR_OK);
}

// Texts of random tokens, the first of `length`, the other of LENGTH.
static void open_twins(twins_t *twins, const char *path, const or_gpu_choice_t *choice,
                       or_kv_type_t kv, uint32_t context, uint32_t length)
{
    const or_model_options_t options = {.threads = 1,
                                        .context_max = context,
                                        .rows_max = length > ROWS ? length : ROWS,
                                        .window_slack = 1,
                                        .gpu = choice,
                                        .cache_type_k = kv,
                                        .cache_type_v = kv};
    int32_t *tokens = test_alloc(length, sizeof *tokens);
    *twins = (twins_t){.rng = test_seed()};
    model_fixture_open(&twins->grown, path, NULL, options);
    model_fixture_open(&twins->stepped, path, NULL, options);
    know_tokens(twins);
    for (uint32_t i = 0; i < 2; i++) {
        text_t *text = &twins->texts[i];
        uint32_t count = i == 0 ? length : LENGTH;
        random_tokens(&twins->rng, twins->grown.vocab_size, tokens, count);
        text->grown = model_fixture_sequence(&twins->grown, SLOTS + BELOW);
        text->stepped = model_fixture_sequence(&twins->stepped, SLOTS + BELOW);
        model_fixture_prefill(&twins->grown, text->grown, tokens, count, count, NULL);
        model_fixture_prefill(&twins->stepped, text->stepped, tokens, count, count, NULL);
    }
    free(tokens);
}

static void prepare(twins_t *twins)
{
    assert_int_equal(
        or_model_prepare_growth(twins->grown.model, twins->widths, twins->grown.vocab_size), OR_OK);
    assert_true(or_model_can_grow(twins->grown.model));
    assert_false(or_model_can_grow(twins->stepped.model));
}

static void close_twins(twins_t *twins)
{
    for (uint32_t i = 0; i < 2; i++) {
        assert_same_kv(&twins->grown, twins->texts[i].grown, twins->texts[i].stepped);
        or_kv_sequence_close(&twins->texts[i].grown);
        or_kv_sequence_close(&twins->texts[i].stepped);
    }
    free(twins->keys);
    free(twins->widths);
    model_fixture_close(&twins->stepped);
    model_fixture_close(&twins->grown);
}

// ---- a tree ----

// A guess that was run: the root, and rows that were adopted.
typedef struct {
    or_growth_guess_t guess; // its parent is a place among these
    or_distribution_t dist;  // a copy: the next tree is told in the same place
    int32_t ids[OR_CUDA_CONTENDERS_MAX];
    double scores[OR_CUDA_CONTENDERS_MAX];
} run_t;

typedef struct {
    text_t *text;
    or_sampling_t sampling;
    or_growth_t growth;
    or_growth_guess_t guesses[NODES + 1];
    uint32_t slots[SLOTS];
    run_t run[SLOTS + 1];
    uint32_t run_count;
    or_noise_place_t places[SLOTS]; // where the children of a slot's node begin
} tree_t;

static or_contest_t contest_at(const tree_t *tree, or_noise_place_t place)
{
    or_contest_t contest = tree->growth.contest;
    contest.place = place;
    return contest;
}

static void copy_dist(run_t *run, const or_distribution_t *dist)
{
    assert_true(dist->count > 0 && dist->count <= OR_CUDA_CONTENDERS_MAX);
    memcpy(run->ids, dist->ids, dist->count * sizeof *dist->ids);
    memcpy(run->scores, dist->scores, dist->count * sizeof *dist->scores);
    run->dist = (or_distribution_t){.ids = run->ids, .scores = run->scores, .count = dist->count};
}

// A token more of the text, on both sides, which is the root; a distribution that the grown side has of it.
static void plant(twins_t *twins, tree_t *tree)
{
    int32_t token;
    random_tokens(&twins->rng, twins->grown.vocab_size, &token, 1);
    const or_model_row_t rows[] = {prefix_row(tree->text->grown, token),
                                   prefix_row(tree->text->stepped, token)};
    model_fixture_pass(&twins->grown, &rows[0], 1, NULL);
    model_fixture_pass(&twins->stepped, &rows[1], 1, NULL);
    run_t *root = &tree->run[0];
    root->guess = (or_growth_guess_t){
        .token = token, .slot = OR_KV_NO_SLOT, .place = {below(twins, 100), below(twins, 3)}};
    tree->run_count = 1;
    const or_contest_t contest = contest_at(tree, root->guess.place);
    or_distribution_t dist;
    assert_int_equal(or_model_contenders(twins->grown.model, 0, 1, &contest, &dist), OR_OK);
    copy_dist(root, &dist);
}

static void wish(twins_t *twins, text_t *text, tree_t *tree)
{
    static const float temperatures[] = {0, 0.5F, 1, 1};
    static const uint32_t top_ks[] = {0, 5, 40};
    *tree = (tree_t){.text = text, .sampling = or_sampling_default()};
    tree->sampling.temperature = temperatures[below(twins, 4)];
    tree->sampling.top_k = top_ks[below(twins, 3)];
    tree->sampling.top_p = 1;
    tree->sampling.min_p = 0;
    tree->growth = (or_growth_t){.sequence = text->grown,
                                 .contest = {.sampling = &tree->sampling,
                                             .key = {test_random(&twins->rng)},
                                             .noisy = below(twins, 4) > 0,
                                             .window = 4},
                                 .tau = 0.5 + 0.5 * below(twins, 3),
                                 .nearly = 2.0 * below(twins, 3),
                                 .share = below(twins, 3) == 0 ? 0.05 : 0,
                                 .nodes = 2 + below(twins, below(twins, 6) == 0 ? NODES - 1 : 7),
                                 .depth = 1 + below(twins, 7),
                                 .width = 1 + below(twins, 4)};
}

// One that has a batch, and whose kind comes again if it is wished for on texts of about a length.
static void wish_for_batch(twins_t *twins, text_t *text, tree_t *tree)
{
    wish(twins, text, tree);
    tree->growth.share = 0;
    tree->growth.nodes = 8;
    tree->growth.depth = 3;
    tree->growth.width = 2;
}

// ---- what is known of it ----

static double score_of(const twins_t *twins, const tree_t *tree, const run_t *run, uint32_t i)
{
    const or_contest_t *contest = &tree->growth.contest;
    double noise = contest->noisy ? or_noise_gumbel(contest->key, run->guess.place,
                                                    twins->keys[run->dist.ids[i]])
                                  : 0;
    return run->dist.scores[i] + noise;
}

// log softmax(scores / tau), nearly: only the device's own weights have to be exact.
static double weight_of(const twins_t *twins, const tree_t *tree, const run_t *run, uint32_t i)
{
    double sum = 0;
    double own = score_of(twins, tree, run, i);
    for (uint32_t k = 0; k < run->dist.count; k++) {
        sum += exp((score_of(twins, tree, run, k) - own) / tree->growth.tau);
    }
    return -log(sum);
}

static or_growth_guess_t child(const twins_t *twins, const tree_t *tree, uint32_t run, uint32_t i)
{
    const run_t *parent = &tree->run[run];
    int32_t token = parent->dist.ids[i];
    return (or_growth_guess_t){
        .token = token,
        .parent = run,
        .depth = parent->guess.depth + 1,
        .slot = OR_KV_NO_SLOT,
        .place = or_noise_advance(parent->guess.place, twins->widths[token]),
        .weight = parent->guess.weight + weight_of(twins, tree, parent, i),
    };
}

static int best_first(const void *a, const void *b)
{
    const or_growth_guess_t *x = a;
    const or_growth_guess_t *y = b;
    if (x->weight != y->weight) {
        return x->weight > y->weight ? -1 : 1;
    }
    return x->depth < y->depth ? -1 : x->depth > y->depth;
}

static bool was_run(const tree_t *tree, const or_growth_guess_t *guess)
{
    for (uint32_t i = 1; i < tree->run_count; i++) {
        if (tree->run[i].guess.parent == guess->parent &&
            tree->run[i].guess.token == guess->token) {
            return true;
        }
    }
    return false;
}

// The best `width` children of a guess, and those that were run.
static uint32_t add_children(const twins_t *twins, const tree_t *tree, uint32_t run,
                             or_growth_guess_t *known)
{
    uint32_t count = tree->run[run].dist.count;
    or_growth_guess_t *children = test_alloc(count, sizeof *children);
    for (uint32_t i = 0; i < count; i++) {
        children[i] = child(twins, tree, run, i);
    }
    qsort(children, count, sizeof *children, best_first);
    uint32_t added = 0;
    for (uint32_t i = 0; i < count && i < tree->growth.width; i++) {
        if (!was_run(tree, &children[i])) {
            known[added++] = children[i];
        }
    }
    free(children);
    return added;
}

// Their parents, places among those that were run, become places among the sorted.
static void renumber(tree_t *tree)
{
    for (uint32_t i = 1; i <= tree->growth.guess_count; i++) {
        const or_growth_guess_t *parent = &tree->run[tree->guesses[i].parent].guess;
        uint32_t place = 0;
        while (parent->slot != tree->guesses[place].slot) {
            place++;
        }
        tree->guesses[i].parent = place;
    }
}

static void describe(const twins_t *twins, tree_t *tree)
{
    static or_growth_guess_t known[(SLOTS + 1) * 5];
    uint32_t count = 0;
    for (uint32_t i = 0; i < tree->run_count; i++) {
        if (i > 0) {
            known[count++] = tree->run[i].guess;
        }
        count += add_children(twins, tree, i, known + count);
    }
    qsort(known, count, sizeof *known, best_first);
    or_growth_t *growth = &tree->growth;
    growth->guess_count = count < growth->nodes ? count : growth->nodes;
    tree->guesses[0] = tree->run[0].guess;
    memcpy(tree->guesses + 1, known, growth->guess_count * sizeof *known);
    renumber(tree);
    growth->guesses = tree->guesses;
    growth->slots = tree->slots;
    growth->slot_count = 0;
    for (uint32_t slot = SLOTS; slot-- > 0;) {
        const or_kv_sequence_t *text = tree->text->grown;
        if (!or_kv_slot_is_live(text, slot, text->epoch)) {
            tree->slots[growth->slot_count++] = slot;
        }
    }
}

// ---- what is told of it ----

static uint32_t levels(const tree_t *tree)
{
    const or_kv_sequence_t *text = tree->text->grown;
    uint32_t most = text->positions_max - text->length + 1;
    return tree->growth.depth < most ? tree->growth.depth : most;
}

// Was there a tree of its kind before?
static bool comes_again(twins_t *twins, const tree_t *tree)
{
    const or_growth_t *growth = &tree->growth;
    const kind_t kind = {growth->width == 1   ? 1
                         : growth->nodes <= 8 ? 8
                                              : 16,
                         or_gpu_steps_round(tree->text->grown->length + levels(tree) - 1)};
    for (uint32_t i = 0; i < twins->seen_count; i++) {
        if (memcmp(&twins->seen[i], &kind, sizeof kind) == 0) {
            return true;
        }
    }
    assert_true(twins->seen_count < STEPS_SEEN);
    twins->seen[twins->seen_count++] = kind;
    return false;
}

// Is there a guess whose children will be asked for, whatever becomes of others?
static bool has_batch(const tree_t *tree)
{
    const or_growth_t *growth = &tree->growth;
    return growth->share == 0 && growth->guess_count < growth->nodes && levels(tree) > 1 &&
           growth->guesses[1].slot == OR_KV_NO_SLOT;
}

static void grow(twins_t *twins, const tree_t *tree, or_grown_t *grown)
{
    bool again = comes_again(twins, tree);
    memset(grown, 0xAA, sizeof *grown);
    assert_int_equal(or_model_grow(twins->grown.model, &tree->growth, grown), OR_OK);
    if (!again) {
        assert_int_equal(grown->row_count, 0);
        assert_int_equal(grown->passes, 0);
    } else if (has_batch(tree)) {
        assert_true(grown->row_count > 0);
        assert_true(grown->passes > 0 && grown->passes <= grown->row_count);
    }
}

// ---- the same by passes ----

static or_noise_place_t place_behind(const twins_t *twins, const tree_t *tree,
                                     const or_grown_row_t *row)
{
    or_noise_place_t place = row->parent_slot == OR_KV_NO_SLOT ? tree->run[0].guess.place
                                                               : tree->places[row->parent_slot];
    return or_noise_advance(place, twins->widths[row->token]);
}

static void assert_same_dist(const or_distribution_t *a, const or_distribution_t *b)
{
    assert_int_equal(a->count, b->count);
    assert_true(a->count > 0);
    assert_memory_equal(a->ids, b->ids, a->count * sizeof *a->ids);
    assert_memory_equal(a->scores, b->scores, a->count * sizeof *a->scores);
}

// Rows of which none is another's parent.
static void step(twins_t *twins, tree_t *tree, const or_grown_row_t *told, uint32_t count)
{
    or_model_row_t rows[ROWS] = {0};
    or_contest_t contests[ROWS] = {0};
    or_distribution_t dists[ROWS];
    for (uint32_t i = 0; i < count; i++) {
        assert_true(told[i].slot < SLOTS);
        tree->places[told[i].slot] = place_behind(twins, tree, &told[i]);
        contests[i] = contest_at(tree, tree->places[told[i].slot]);
        rows[i] = tree_row(tree->text->stepped, told[i].token, told[i].slot, told[i].parent_slot);
    }
    model_fixture_pass(&twins->stepped, rows, count, NULL);
    assert_int_equal(or_model_contenders(twins->stepped.model, 0, count, contests, dists), OR_OK);
    for (uint32_t i = 0; i < count; i++) {
        assert_same_dist(&told[i].dist, &dists[i]);
    }
}

static bool stands_on_one_of(const or_grown_row_t *row, const or_grown_row_t *rows, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].slot == row->parent_slot) {
            return true;
        }
    }
    return false;
}

static void step_all(twins_t *twins, tree_t *tree, const or_grown_t *grown)
{
    for (uint32_t first = 0, count = 0; first < grown->row_count; first += count, count = 0) {
        const or_grown_row_t *rows = grown->rows + first;
        do {
            count++;
        } while (count < ROWS && first + count < grown->row_count &&
                 !stands_on_one_of(&rows[count], rows, count));
        step(twins, tree, rows, count);
    }
}

// ---- what is adopted ----

static uint32_t find_run(const tree_t *tree, uint32_t slot)
{
    uint32_t place = 0;
    while (place < tree->run_count && tree->run[place].guess.slot != slot) {
        place++;
    }
    return place;
}

static void note_run(const twins_t *twins, tree_t *tree, const or_grown_row_t *row, uint32_t parent)
{
    run_t *run = &tree->run[tree->run_count];
    uint32_t i = 0;
    while (tree->run[parent].dist.ids[i] != row->token) { // who is guessed contended
        i++;
    }
    run->guess = child(twins, tree, parent, i);
    run->guess.slot = row->slot;
    copy_dist(run, &row->dist);
    tree->run_count++;
}

// On the other side those that are not adopted stay, where they are in nobody's way.
static void adopt_some(twins_t *twins, tree_t *tree, const or_grown_t *grown)
{
    for (uint32_t i = 0; i < grown->row_count; i++) {
        const or_grown_row_t *row = &grown->rows[i];
        const or_model_row_t asked =
            tree_row(tree->text->grown, row->token, row->slot, row->parent_slot);
        uint32_t parent = find_run(tree, row->parent_slot);
        if (parent == tree->run_count) {
            assert_int_equal(or_model_adopt(twins->grown.model, &asked), OR_ERR_INVALID);
        } else if (below(twins, 4) > 0 || tree->run_count == 1) {
            assert_int_equal(or_model_adopt(twins->grown.model, &asked), OR_OK);
            assert_int_equal(or_model_adopt(twins->grown.model, &asked), OR_ERR_INVALID);
            note_run(twins, tree, row, parent);
            twins->adopted++;
        }
    }
}

// A slot in which a row was run that nobody adopted, or one that was never taken.
static uint32_t find_free_slot(const tree_t *tree, const or_grown_t *grown, uint32_t other)
{
    for (uint32_t i = 0; i < grown->row_count; i++) {
        if (find_run(tree, grown->rows[i].slot) == tree->run_count) {
            return grown->rows[i].slot;
        }
    }
    return other;
}

// A row at a time below what was adopted, on both sides.
static void run_below(twins_t *twins, const tree_t *tree, const or_grown_t *grown)
{
    uint32_t vocab_size = twins->grown.vocab_size;
    const or_kv_sequence_t *text = tree->text->grown;
    float *logits = test_alloc((size_t)2 * vocab_size, sizeof *logits);
    for (uint32_t i = 0; i < BELOW; i++) {
        const or_growth_guess_t *parent = &tree->run[below(twins, tree->run_count)].guess;
        int32_t token = (int32_t)below(twins, vocab_size);
        uint32_t slot = find_free_slot(tree, grown, SLOTS + i);
        const or_model_row_t rows[] = {
            tree_row(tree->text->grown, token, slot, parent->slot),
            tree_row(tree->text->stepped, token, SLOTS + i, parent->slot)};
        if (text->length + parent->depth < text->positions_max) {
            model_fixture_pass(&twins->grown, &rows[0], 1, logits);
            model_fixture_pass(&twins->stepped, &rows[1], 1, logits + vocab_size);
            assert_same_bits(logits, logits + vocab_size, vocab_size);
            or_kv_sequence_drop_slot(tree->text->grown, slot);
        }
    }
    free(logits);
}

// The path to one of those that were adopted becomes text.
static void accept_some(twins_t *twins, const tree_t *tree)
{
    uint32_t path[NODES];
    uint32_t place = below(twins, tree->run_count);
    uint32_t count = tree->run[place].guess.depth;
    for (uint32_t i = count; i-- > 0; place = tree->run[place].guess.parent) {
        path[i] = tree->run[place].guess.slot;
    }
    assert_int_equal(or_kv_sequence_accept(tree->text->grown, path, count), OR_OK);
    assert_int_equal(or_kv_sequence_accept(tree->text->stepped, path, count), OR_OK);
}

// ---- tests ----

typedef void wish_t(twins_t *twins, text_t *text, tree_t *tree);

// A tree that grows, maybe once more from what was adopted of it.
static void live_a_round(twins_t *twins, text_t *text, wish_t *wish_for_tree)
{
    static tree_t tree;
    or_grown_t grown;
    wish_for_tree(twins, text, &tree);
    plant(twins, &tree);
    uint32_t times = 1 + below(twins, 2);
    for (uint32_t i = 0; i < times; i++) {
        describe(twins, &tree);
        grow(twins, &tree, &grown);
        or_kv_sequence_drop_slots_from(text->stepped, SLOTS);
        for (uint32_t slot = 0; slot < SLOTS; slot++) { // what was not adopted of the last
            if (find_run(&tree, slot) == tree.run_count) {
                or_kv_sequence_drop_slot(text->stepped, slot);
            }
        }
        step_all(twins, &tree, &grown);
        adopt_some(twins, &tree, &grown);
        if (i + 1 == times) {
            run_below(twins, &tree, &grown);
        }
    }
    accept_some(twins, &tree);
}

// Whatever the seed, a kind comes again, and of its rows some are adopted.
static void live_rounds_with_batches(twins_t *twins)
{
    uint32_t before = twins->adopted;
    for (uint32_t i = 0; i < 2; i++) {
        text_t *text = &twins->texts[i];
        or_kv_sequence_truncate(text->grown, LENGTH);
        or_kv_sequence_truncate(text->stepped, LENGTH);
        live_a_round(twins, text, wish_for_batch);
    }
    assert_true(twins->adopted > before);
}

static void check(const char *path, bool tensor, or_kv_type_t kv, uint32_t rounds)
{
    const or_gpu_choice_t choice = {.functions = or_gpu_functions(), .tensor = tensor};
    twins_t twins;
    open_twins(&twins, path, &choice, kv, 128, LENGTH);
    prepare(&twins);
    for (uint32_t i = 0; i < rounds; i++) {
        text_t *text = &twins.texts[below(&twins, 2)];
        if (or_kv_sequence_length(text->grown) > 100) {
            or_kv_sequence_truncate(text->grown, LENGTH);
            or_kv_sequence_truncate(text->stepped, LENGTH);
        }
        live_a_round(&twins, text, wish);
    }
    live_rounds_with_batches(&twins);
    close_twins(&twins);
}

static void rows_are_as_passes_make_them(void **state)
{
    (void)state;
    check("tests/model/data/llama3-mixed.gguf", false, OR_KV_F16, test_runs(1));
    check("tests/model/data/qwen2-bf16.gguf", false, OR_KV_Q8_0, test_runs(1));
}

// What is launched is the same whichever experts the rows take; some layers have windows or heads of their own, heads have
// sinks, or share one vector of K and V.
static void other_families_make_them_too(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt-oss/0", "gemma4/0", "deepseek-v3/0"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = family_file_make(names[i]);
        check(path, false, OR_KV_F16, test_runs(1));
        free(path);
    }
}

static void tensor_cores_make_them_too(void **state)
{
    (void)state;
    check("tests/model/data/llama-linear-bf16.gguf", true, OR_KV_F16, test_runs(1));
}

// Neither more than there is room for, nor less.
static void trees_grow_to_the_end_of_the_context(void **state)
{
    (void)state;
    const or_gpu_choice_t choice = {.functions = or_gpu_functions()};
    const uint32_t context = 14;
    twins_t twins;
    open_twins(&twins, "tests/model/data/llama3-bf16.gguf", &choice, OR_KV_F16, context, 8);
    prepare(&twins);
    for (uint32_t i = 0; i < 2; i++) {
        live_a_round(&twins, &twins.texts[1], wish_for_batch);
    }
    for (uint32_t i = 0; i < 2; i++) {
        text_t *text = &twins.texts[i];
        while (or_kv_sequence_length(text->grown) < context) {
            live_a_round(&twins, text, wish);
        }
    }
    assert_true(twins.adopted > 0);
    close_twins(&twins);
}

// A model of as few numbers as the others, whose texts may be longer.
static void save_with_context(const char *from, uint32_t context, const char *path)
{
    static const char key[] = ".context_length";
    test_gguf_t file;
    test_gguf_load(&file, from);
    unsigned char *at = memmem(file.bytes, file.count, key, sizeof key - 1);
    assert_non_null(at);
    memcpy(at + sizeof key - 1 + sizeof(uint32_t), &context, sizeof context); // behind its type
    test_gguf_save(&file, path);
    test_gguf_fini(&file);
}

static void a_text_grows_out_of_its_step(void **state)
{
    (void)state;
    char path[64];
    const or_gpu_choice_t choice = {.functions = or_gpu_functions()};
    twins_t twins;
    snprintf(path, sizeof path, "/tmp/outrider-growth-%d.gguf", (int)getpid());
    save_with_context("tests/model/data/llama3-bf16.gguf", 300, path);
    open_twins(&twins, path, &choice, OR_KV_F16, 300, 250);
    prepare(&twins);
    text_t *text = &twins.texts[0];
    while (or_kv_sequence_length(text->grown) < 259) {
        live_a_round(&twins, text, wish);
    }
    close_twins(&twins);
    unlink(path);
}

// Cut the text back as far as that is possible without reading it again.
static void cut_back(text_t *text)
{
    const uint32_t length = or_kv_sequence_length(text->grown);
    uint32_t least = 1;
    while (or_kv_sequence_usable(text->grown, length, least) == 0) {
        least++;
    }
    assert_true(least < length);
    or_kv_sequence_truncate(text->grown, least);
    or_kv_sequence_truncate(text->stepped, least);
    assert_int_equal(or_kv_sequence_length(text->grown), least);
}

// A shadow sees what the root saw. Of a text that was just cut back as far as it can be that is gone, so no tree grows there.
static void windows_are_kept_in_frames(void **state)
{
    (void)state;
    static tree_t tree;
    const or_gpu_choice_t choice = {.functions = or_gpu_functions()};
    char *path = family_file_make_with("gpt-oss/0", ".sliding_window", 9);
    or_grown_t grown;
    twins_t twins;
    open_twins(&twins, path, &choice, OR_KV_F16, 256, 100);
    prepare(&twins);
    assert_true(or_kv_cache_frames(or_model_cache(twins.grown.model)) > 0);
    text_t *text = &twins.texts[0];
    for (uint32_t i = 0; i < 3; i++) {
        live_a_round(&twins, text, wish_for_batch);
    }
    cut_back(text);
    wish_for_batch(&twins, text, &tree);
    tree.guesses[0].slot = OR_KV_NO_SLOT;
    tree.growth.guesses = tree.guesses;
    memset(&grown, 0xAA, sizeof grown);
    assert_int_equal(or_model_grow(twins.grown.model, &tree.growth, &grown), OR_OK);
    assert_int_equal(grown.row_count, 0);
    live_rounds_with_batches(&twins);
    assert_true(twins.adopted > 0);
    close_twins(&twins);
    free(path);
}

int main(void)
{
    fixture_need_gpu();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_as_passes_make_them),
        cmocka_unit_test(other_families_make_them_too),
        cmocka_unit_test(tensor_cores_make_them_too),
        cmocka_unit_test(trees_grow_to_the_end_of_the_context),
        cmocka_unit_test(a_text_grows_out_of_its_step),
        cmocka_unit_test(windows_are_kept_in_frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
