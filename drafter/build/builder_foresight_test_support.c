#include "drafter/build/builder_foresight_test_support.h"

#include <math.h>
#include <string.h>

#define CHILDREN_MAX 12u

typedef struct {
    int32_t ids[CHILDREN_MAX];
    double scores[CHILDREN_MAX];
    uint32_t count;
} children_t;

side_t ahead, plain;
device_t device;
int32_t text[POSITIONS + 1];
uint32_t length;
uint64_t rng;
static or_gguf_t *gguf;
static or_vocab_t *vocab; // its widths only
static or_kv_cache_t *cache;

void ok(or_status_t status)
{
    if (status != OR_OK) {
        fail_msg("%s", or_error_text());
    }
}

uint32_t below(uint32_t n)
{
    return (uint32_t)test_below(&rng, n);
}

// ---- distributions ----

static uint64_t mark_after(uint64_t mark, int32_t token)
{
    uint64_t state = mark ^ (uint64_t)token;
    return test_random(&state);
}

uint64_t mark_of_text(uint32_t count)
{
    uint64_t mark = 1;
    for (uint32_t i = 0; i < count; i++) {
        mark = mark_after(mark, text[i]);
    }
    return mark;
}

or_noise_place_t place_of_text(void)
{
    or_noise_place_t place = {0, 0};
    for (uint32_t i = 0; i < length; i++) {
        place = or_noise_advance(place, or_vocab_widths(vocab)[text[i]]);
    }
    return place;
}

// Some alone, some equal to others, some much worse.
static children_t children_of(uint64_t mark)
{
    children_t children = {.count = 1 + (uint32_t)(mark % CHILDREN_MAX)};
    double score = children.count == 1 ? 0 : -0.25;
    for (uint32_t i = 0; i < children.count; i++) {
        children.ids[i] = (int32_t)((mark + 3 * i) % VOCABULARY);
        children.scores[i] = score;
        score -= 0.5 * (double)(test_random(&mark) % 4);
    }
    return children;
}

static or_distribution_t dist_of(const children_t *children)
{
    return (or_distribution_t){
        .ids = children->ids, .scores = children->scores, .count = children->count};
}

static uint64_t mark_at(const side_t *side, uint32_t slot)
{
    return slot == OR_KV_NO_SLOT ? mark_of_text(length) : side->marks[slot];
}

// ---- in the model's place ----

static side_t *side_of(const or_builder_t *builder)
{
    return builder == ahead.builder ? &ahead : &plain;
}

static bool is_live(const side_t *side, uint32_t slot)
{
    return or_kv_slot_is_live(side->sequence, slot, side->sequence->epoch);
}

static void take_list(or_builder_t *builder, uint32_t guess, const or_distribution_t *dist)
{
    or_build_list_t *list = &builder->lists[guess];
    assert_false(builder->guesses[guess].expanded);
    builder->guesses[guess].expanded = true;
    list->count = dist->count;
    memcpy(list->ids, dist->ids, dist->count * sizeof *dist->ids);
    memcpy(list->scores, dist->scores, dist->count * sizeof *dist->scores);
    memcpy(list->weights, dist->scores, dist->count * sizeof *dist->scores);
}

static void read_list(or_builder_t *builder, uint32_t guess, uint64_t mark)
{
    const children_t children = children_of(mark);
    const or_distribution_t dist = dist_of(&children);
    take_list(builder, guess, &dist);
}

// The guess is in its slot now, which was nobody's.
static void put_node(side_t *side, uint32_t guess)
{
    const or_build_guess_t *this = &side->builder->guesses[guess];
    uint32_t parent = side->builder->guesses[this->parent].slot;
    assert_true(this->slot < or_builder_slots(side->builder));
    assert_false(is_live(side, this->slot));
    assert_true(parent == OR_KV_NO_SLOT ? this->parent == OR_BUILD_ROOT : is_live(side, parent));
    side->marks[this->slot] = mark_after(mark_at(side, parent), this->token);
    kv_test_put_node(side->sequence, this->slot, parent, (uint32_t)side->marks[this->slot]);
}

static or_status_t start(or_builder_t *builder)
{
    or_kv_sequence_drop_slots(side_of(builder)->sequence);
    builder->guesses[OR_BUILD_ROOT].expanded = false;
    read_list(builder, OR_BUILD_ROOT, mark_of_text(length));
    return OR_OK;
}

static void forget_rows(void);

static or_status_t expand(or_builder_t *builder, const uint32_t *guesses, uint32_t count)
{
    side_t *side = side_of(builder);
    assert_true(count > 0);
    forget_rows();
    if (side == &ahead && device.fails_to_expand) {
        builder->guesses[guesses[0]].slot = or_build_take_slot(builder);
        return or_fail(OR_ERR_IO, "a device fails");
    }
    side->passes++;
    builder->passes++;
    for (uint32_t i = 0; i < count; i++) {
        builder->guesses[guesses[i]].slot = or_build_take_slot(builder);
        put_node(side, guesses[i]);
        read_list(builder, guesses[i], side->marks[builder->guesses[guesses[i]].slot]);
    }
    return OR_OK;
}

// ---- a device ----

typedef struct {
    int32_t token;
    uint32_t depth, slot, parent_slot;
    double weight;
    uint64_t mark;
} seen_t;

// The root and what is known, best first.
static seen_t seen[OR_GROWTH_NODES_MAX + 1];
static uint32_t seen_count;
static uint64_t marks[SLOTS_MAX];
static or_grown_row_t rows[OR_GROWTH_ROWS_MAX];
static children_t dists[OR_GROWTH_ROWS_MAX];
static uint32_t row_count;

static void forget_rows(void)
{
    memset(rows, 0xAA, sizeof rows);
    memset(dists, 0xAA, sizeof dists);
}

// Check what model_growth.h promises to a device.
static void check_growth(const or_builder_t *builder, const or_growth_t *growth)
{
    bool taken[SLOTS_MAX] = {false};
    assert_true(growth->nodes > 0 && growth->nodes <= OR_GROWTH_NODES_MAX);
    assert_true(growth->depth > 0 && growth->depth <= growth->nodes);
    assert_true(growth->guess_count <= growth->nodes && growth->tau == builder->tau);
    assert_true(growth->slot_count > 0 && growth->slot_count <= OR_GROWTH_ROWS_MAX);
    for (uint32_t i = 0; i < growth->slot_count; i++) {
        assert_false(taken[growth->slots[i]] || is_live(&ahead, growth->slots[i]));
        taken[growth->slots[i]] = true;
    }
    for (uint32_t i = 1; i <= growth->guess_count; i++) {
        const or_growth_guess_t *guess = &growth->guesses[i];
        const or_growth_guess_t *above = &growth->guesses[guess->parent];
        assert_true(guess->parent < i && guess->depth == above->depth + 1);
        assert_true(guess->parent == 0 || above->slot != OR_KV_NO_SLOT);
        assert_true(guess->slot == OR_KV_NO_SLOT || is_live(&ahead, guess->slot));
        const or_growth_guess_t *before = &growth->guesses[i - 1];
        assert_true(guess->weight < before->weight ||
                    (guess->weight == before->weight && guess->depth >= before->depth));
    }
}

static void take_growth(const or_growth_t *growth)
{
    seen_count = 0;
    for (uint32_t i = 0; i <= growth->guess_count; i++) {
        const or_growth_guess_t *guess = &growth->guesses[i];
        uint32_t parent = growth->guesses[guess->parent].slot;
        uint64_t above = mark_at(&ahead, parent);
        seen[i] =
            (seen_t){guess->token, guess->depth,  guess->slot,
                     parent,       guess->weight, i == 0 ? above : mark_after(above, guess->token)};
        seen_count += i > 0;
        assert_true(guess->slot == OR_KV_NO_SLOT || ahead.marks[guess->slot] == seen[i].mark);
    }
}

static void offer(const or_growth_t *growth, seen_t child)
{
    seen_t *last = &seen[seen_count];
    bool full = seen_count == growth->nodes;
    if (full && child.weight <= last->weight) {
        return;
    }
    uint32_t place = seen_count += !full;
    for (; place > 1; place--) {
        const seen_t *other = &seen[place - 1];
        if (other->weight > child.weight ||
            (other->weight == child.weight && other->depth <= child.depth)) {
            break;
        }
        seen[place] = *other;
    }
    seen[place] = child;
}

static void offer_children(const or_growth_t *growth, const seen_t *above,
                           const children_t *children)
{
    for (uint32_t i = 0; i < children->count && i < growth->width; i++) {
        offer(growth, (seen_t){.token = children->ids[i],
                               .depth = above->depth + 1,
                               .slot = OR_KV_NO_SLOT,
                               .parent_slot = above->slot,
                               .weight = above->weight + children->scores[i],
                               .mark = mark_after(above->mark, children->ids[i])});
    }
}

// Returns how many rows the next pass has, whose places are put into `batch`.
static uint32_t choose(const or_growth_t *growth, uint32_t batch[OR_GROWTH_NODES_MAX])
{
    double least = seen_count == growth->nodes ? seen[growth->nodes].weight : -INFINITY;
    double tokens = 1, brings = 0;
    uint32_t count = 0;
    for (uint32_t i = 1; i <= seen_count; i++) {
        const seen_t *guess = &seen[i];
        tokens += exp(guess->weight);
        if (guess->weight > least && guess->slot == OR_KV_NO_SLOT && guess->depth < growth->depth) {
            least = count == 0 ? fmax(least, guess->weight - growth->nearly) : least;
            brings += exp(guess->weight);
            batch[count++] = i;
        }
    }
    return brings >= growth->share * tokens ? count : 0;
}

// Run a guess, or another in its place.
static void run_guess(const or_growth_t *growth, seen_t *guess, uint32_t slot)
{
    guess->slot = slot;
    if (device.manner == OTHERS && below(4) == 0) {
        guess->token = (guess->token + 3) % (int32_t)VOCABULARY; // maybe its sibling
        guess->mark = mark_after(guess->parent_slot == OR_KV_NO_SLOT ? mark_of_text(length)
                                                                     : marks[guess->parent_slot],
                                 guess->token);
    }
    marks[slot] = guess->mark;
    children_t *dist = &dists[row_count];
    *dist = children_of(guess->mark);
    offer_children(growth, guess, dist);
    if (device.manner != SOME || below(4) > 0) {
        rows[row_count++] = (or_grown_row_t){guess->token, guess->parent_slot, slot, dist_of(dist)};
    }
}

static bool run_pass(const or_growth_t *growth, uint32_t *slots_used)
{
    uint32_t batch[OR_GROWTH_NODES_MAX];
    seen_t guesses[OR_GROWTH_NODES_MAX];
    uint32_t count = choose(growth, batch);
    device.ran_out = *slots_used + count > growth->slot_count;
    if (count == 0 || device.ran_out) {
        return false;
    }
    device.passes++;
    for (uint32_t i = 0; i < count; i++) {
        seen[batch[i]].slot = growth->slots[*slots_used + i];
        guesses[i] = seen[batch[i]];
    }
    for (uint32_t i = 0; i < count; i++) { // some of which go as the children of others come
        run_guess(growth, &guesses[i], growth->slots[(*slots_used)++]);
    }
    return true;
}

static or_status_t foresee(or_builder_t *builder, or_growth_t *growth, or_grown_t *grown)
{
    uint32_t before = device.passes, slots_used = 0;
    check_growth(builder, growth);
    if (device.fails_to_run) {
        return or_fail(OR_ERR_IO, "a device fails");
    }
    or_growth_t wanted = *growth;
    if (device.manner == MORE) {
        wanted.nodes = OR_GROWTH_NODES_MAX;
        wanted.depth += 2;
        wanted.share = 0;
    }
    row_count = 0;
    memcpy(marks, ahead.marks, sizeof marks);
    take_growth(&wanted);
    device.begun += seen_count > 0 && seen[seen_count].depth > 1;
    uint32_t most = device.manner == FEW ? 1 : device.manner == NOTHING ? 0 : UINT32_MAX;
    for (uint32_t i = 0; i < most && run_pass(&wanted, &slots_used); i++) {
    }
    *grown = (or_grown_t){rows, row_count, device.passes - before};
    return OR_OK;
}

static or_status_t adopt(or_builder_t *builder, uint32_t guess, const or_distribution_t *dist)
{
    uint32_t slot = builder->guesses[guess].slot;
    if (device.fails_to_adopt) {
        return or_fail(OR_ERR_IO, "a device fails");
    }
    put_node(&ahead, guess);
    assert_true(ahead.marks[slot] == marks[slot]);
    take_list(builder, guess, dist);
    device.adopted++;
    return OR_OK;
}

// ---- two sides ----

static void open_side(side_t *side, bool foresees)
{
    const or_build_source_t source = {.vocab_size = VOCABULARY,
                                      .positions = POSITIONS,
                                      .start = start,
                                      .expand = expand,
                                      .foresee = foresees ? foresee : NULL,
                                      .adopt = adopt};
    ok(or_builder_create_over(&source, vocab, ROOM, 0, &side->builder));
    assert_true(or_builder_slots(side->builder) <= SLOTS_MAX);
    side->sequence = kv_test_open(cache, POSITIONS, or_builder_slots(side->builder));
    ok(or_token_tree_create(ROOM, &side->tree));
}

static void close_side(side_t *side)
{
    or_token_tree_destroy(&side->tree);
    or_kv_sequence_close(&side->sequence);
    or_builder_destroy(&side->builder);
}

int sides_setup(void **state)
{
    (void)state;
    ok(or_gguf_open(test_model("tales-1m-f16.gguf"), &gguf));
    ok(or_vocab_load(gguf, &vocab));
    cache = kv_test_cache(2 * ((POSITIONS + OR_KV_PAGE - 1) / OR_KV_PAGE));
    open_side(&ahead, true);
    open_side(&plain, false);
    rng = test_seed();
    return 0;
}

int sides_teardown(void **state)
{
    (void)state;
    close_side(&plain);
    close_side(&ahead);
    or_kv_cache_destroy(&cache);
    or_vocab_destroy(&vocab);
    or_gguf_close(&gguf);
    return 0;
}

void assert_slots(const side_t *side)
{
    const or_builder_t *b = side->builder;
    bool counted[SLOTS_MAX] = {false};
    uint32_t held = 0;
    assert_int_equal(b->kept_slot_count, 0);
    assert_int_equal(b->ahead.row_count, 0);
    for (uint32_t i = 0; i < b->set_count; i++) {
        uint32_t slot = b->guesses[b->chosen[i]].slot;
        assert_true(b->guesses[b->chosen[i]].expanded == (slot != OR_KV_NO_SLOT));
        if (slot != OR_KV_NO_SLOT) {
            assert_true(slot < b->slots_used && !counted[slot] && is_live(side, slot));
            counted[slot] = true;
            held++;
        }
    }
    for (uint32_t i = 0; i < b->spare_slot_count; i++) {
        uint32_t slot = b->spare_slots[i];
        assert_true(slot < b->slots_used && !counted[slot] && !is_live(side, slot));
        counted[slot] = true;
    }
    assert_int_equal(held + b->spare_slot_count, b->slots_used);
    assert_true(b->slots_used <= or_builder_slots(b));
}
