// Guesses that are run before they are asked for, a whole tree of them at once (model_growth.h).
//
//     foresee    the guesses so far, slots ──▶ the source ──▶ rows ahead
//     expand     guesses ──┬── among the rows ahead: adopted, with slot and distribution
//                          └── not: run now, and what is left of the rows ahead is forgotten
//
// Rows that run ahead decide nothing: a tree is the same, whatever rows there are. Their slots are kept from others
// until a guess adopts them; a row whose slot is no longer kept belongs to no guess.
#include "drafter/build/builder_internal.h"

#include "common/base/inline.h"

// ---- slots ----

uint32_t or_build_take_slot(or_builder_t *builder)
{
    return builder->spare_slot_count > 0 ? builder->spare_slots[--builder->spare_slot_count]
                                         : builder->slots_used++;
}

static void keep_slots(or_builder_t *builder)
{
    uint32_t unused = builder->slots_max - builder->slots_used;
    uint32_t count = or_min_u32(builder->spare_slot_count + unused, OR_GROWTH_ROWS_MAX);
    while (builder->kept_slot_count < count) {
        builder->kept_slots[builder->kept_slot_count++] = or_build_take_slot(builder);
    }
}

// Return the slot's place among the kept ones; their number if it is not kept.
static uint32_t find_slot(const or_builder_t *builder, uint32_t slot)
{
    uint32_t place = 0;
    while (place < builder->kept_slot_count && builder->kept_slots[place] != slot) {
        place++;
    }
    return place;
}

void or_build_forget_ahead(or_builder_t *builder)
{
    while (builder->kept_slot_count > 0) { // the last first: they are taken again in the same order
        builder->spare_slots[builder->spare_slot_count++] =
            builder->kept_slots[--builder->kept_slot_count];
    }
    builder->ahead = (or_grown_t){0};
}

// ---- the tree so far ----

// Return the place of a guess that stands before place `end`; else `end`, which no source takes for a parent's.
// Parents come before their children.
static uint32_t place_of(const or_builder_t *builder, uint32_t guess, uint32_t end)
{
    uint32_t place = guess != OR_BUILD_ROOT;
    while (place > 0 && place < end && builder->picked[place - 1] != guess) {
        place++;
    }
    return place;
}

static or_growth_guess_t describe(const or_builder_t *builder, uint32_t guess, uint32_t place)
{
    const or_build_guess_t *this = &builder->guesses[guess];
    return (or_growth_guess_t){.token = this->token,
                               .parent = place_of(builder, this->parent, place),
                               .depth = this->depth,
                               .slot = this->slot,
                               .place = this->place,
                               .weight = this->weight};
}

// Describe the root and the first `count` picked guesses.
static void describe_tree(const or_builder_t *builder, uint32_t count,
                          or_growth_guess_t guesses[OR_GROWTH_NODES_MAX + 1])
{
    guesses[0] = describe(builder, OR_BUILD_ROOT, 0);
    for (uint32_t i = 0; i < count; i++) {
        guesses[i + 1] = describe(builder, builder->picked[i], i + 1);
    }
}

or_status_t or_build_foresee(or_builder_t *builder, uint32_t count, uint32_t width)
{
    or_growth_guess_t guesses[OR_GROWTH_NODES_MAX + 1];
    if (builder->source.foresee == NULL || builder->job->drawn ||
        builder->nodes_wanted > OR_GROWTH_NODES_MAX) {
        return OR_OK;
    }
    keep_slots(builder);
    describe_tree(builder, count, guesses);
    or_growth_t growth = {
        .tau = builder->tau,
        .nearly = OR_BUILD_NEARLY,
        .nodes = builder->nodes_wanted,
        .depth = or_min_u32(builder->depth_limit, builder->nodes_wanted), // no tree is deeper
        .width = width,
        .guesses = guesses,
        .guess_count = count,
        .slots = builder->kept_slots,
        .slot_count = builder->kept_slot_count,
    };
    // As for the first pass after the root's. Later ones are a smaller share of the round: what they would still bring is
    // asked for pass by pass, rather than that rows are run which nobody wants.
    growth.share = or_build_pass_share(builder->job, 1) / OR_BUILD_CHILDREN_SHARE;
    or_status_t status = builder->source.foresee(builder, &growth, &builder->ahead);
    builder->passes += builder->ahead.passes;
    if (status != OR_OK || builder->ahead.row_count == 0) {
        or_build_forget_ahead(builder);
    }
    return status;
}

// ---- what is asked for ----

// Return the row in which the guess was run ahead; NULL if it was not.
static const or_grown_row_t *find_row(const or_builder_t *builder, uint32_t guess)
{
    const or_build_guess_t *this = &builder->guesses[guess];
    uint32_t parent_slot = builder->guesses[this->parent].slot;
    for (uint32_t i = 0; i < builder->ahead.row_count; i++) {
        const or_grown_row_t *row = &builder->ahead.rows[i];
        if (row->token == this->token && row->parent_slot == parent_slot &&
            find_slot(builder, row->slot) < builder->kept_slot_count) {
            return row;
        }
    }
    return NULL;
}

static or_status_t adopt(or_builder_t *builder, uint32_t guess, const or_grown_row_t *row)
{
    uint32_t place = find_slot(builder, row->slot);
    builder->kept_slots[place] = builder->kept_slots[--builder->kept_slot_count];
    builder->guesses[guess].slot = row->slot;
    return builder->source.adopt(builder, guess, &row->dist);
}

// Expand guesses of which some were run ahead. The distributions of those rows are there until another pass runs.
static or_status_t expand_partly(or_builder_t *builder, const uint32_t *guesses, uint32_t count)
{
    uint32_t rest[OR_GROWTH_NODES_MAX];
    uint32_t rest_count = 0;
    or_status_t status = OR_OK;
    for (uint32_t i = 0; status == OR_OK && i < count; i++) {
        const or_grown_row_t *row = find_row(builder, guesses[i]);
        if (row != NULL) {
            status = adopt(builder, guesses[i], row);
        } else {
            rest[rest_count++] = guesses[i];
        }
    }
    if (status != OR_OK || rest_count == 0) {
        return status;
    }
    or_build_forget_ahead(builder);
    return builder->source.expand(builder, rest, rest_count);
}

or_status_t or_build_expand(or_builder_t *builder, const uint32_t *guesses, uint32_t count)
{
    if (count == 0) {
        return OR_OK;
    }
    return builder->ahead.row_count > 0 ? expand_partly(builder, guesses, count)
                                        : builder->source.expand(builder, guesses, count);
}
