// Goal: slots have what was used most, never give up what is held, and lose nothing; texts that use some experts more than others
// find more of them than the share that has room, also behind a pass that took all, and soon after their favourites changed.
// Method: random passes beside a slow account of all uses; then routing of a known skew, with a fixed seed.
#include <stdlib.h>
#include <string.h>

#include "common/model/expert_slots.h"
#include "tests/support/test_support.h"

#define LAYERS 3u
#define EXPERTS 16u
#define USED 4u

// ---- a slow account ----

typedef struct {
    or_expert_slots_t *slots;
    uint32_t count; // of slots
    uint32_t uses[LAYERS][EXPERTS];
    uint64_t last[LAYERS][EXPERTS];
    uint64_t pass;
    uint64_t needed, found;
} account_t;

static void open_account(account_t *account, uint32_t count)
{
    *account = (account_t){.count = count};
    assert_int_equal(or_expert_slots_create(LAYERS, EXPERTS, count, &account->slots), OR_OK);
}

static void begin_pass(account_t *account)
{
    account->pass++;
    or_expert_slots_begin(account->slots);
    for (uint32_t i = 0; account->pass % OR_EXPERT_AGE == 0 && i < LAYERS * EXPERTS; i++) {
        account->uses[i / EXPERTS][i % EXPERTS] /= 2;
    }
}

static uint32_t slot_of(const account_t *account, uint32_t layer, uint32_t expert)
{
    return or_expert_slots_find(account->slots, (or_expert_id_t){layer, expert});
}

// Each slot has at most one expert.
static void check_slots(const account_t *account)
{
    bool taken[LAYERS * EXPERTS] = {false};
    for (uint32_t i = 0; i < LAYERS * EXPERTS; i++) {
        const uint32_t slot = slot_of(account, i / EXPERTS, i % EXPERTS);
        if (slot != OR_EXPERT_NO_SLOT) {
            assert_true(slot < account->count && !taken[slot]);
            taken[slot] = true;
        }
    }
}

// Nobody who has a slot, and is of another layer, was used less than who is replaced.
static void check_replaced(const account_t *account, uint32_t layer, or_expert_id_t replaced)
{
    assert_true(replaced.layer != layer);
    assert_int_equal(slot_of(account, replaced.layer, replaced.expert), OR_EXPERT_NO_SLOT);
    const uint32_t uses = account->uses[replaced.layer][replaced.expert];
    const uint64_t last = account->last[replaced.layer][replaced.expert];
    for (uint32_t i = 0; i < LAYERS * EXPERTS; i++) {
        const uint32_t l = i / EXPERTS, e = i % EXPERTS;
        if (l != layer && slot_of(account, l, e) != OR_EXPERT_NO_SLOT) {
            assert_true(account->uses[l][e] > uses ||
                        (account->uses[l][e] == uses && account->last[l][e] >= last));
        }
    }
}

// Take experts of a layer as a pass does. All of the layer that have a slot are held.
static void take_experts(account_t *account, uint32_t layer, const bool chosen[EXPERTS])
{
    for (uint32_t e = 0; e < EXPERTS; e++) {
        const or_expert_id_t id = {layer, e};
        const bool has = slot_of(account, layer, e) != OR_EXPERT_NO_SLOT;
        if (has) {
            or_expert_slots_hold(account->slots, id);
        }
        if (chosen[e]) {
            account->needed++;
            account->found += has;
            account->uses[layer][e] += OR_EXPERT_USE;
            account->last[layer][e] = account->pass;
            assert_true(or_expert_slots_use(account->slots, id));
            assert_false(or_expert_slots_use(account->slots, id));
        }
    }
    for (uint32_t e = 0; e < EXPERTS; e++) {
        or_expert_id_t replaced;
        if (!chosen[e] || slot_of(account, layer, e) != OR_EXPERT_NO_SLOT) {
            continue;
        }
        assert_int_not_equal(
            or_expert_slots_take(account->slots, (or_expert_id_t){layer, e}, &replaced),
            OR_EXPERT_NO_SLOT);
        if (replaced.layer != OR_EXPERT_NO_SLOT) {
            check_replaced(account, layer, replaced);
        }
    }
    check_slots(account);
    or_expert_slots_let_go(account->slots, layer);
}

static void who_was_used_least_gives_way(void **state)
{
    (void)state;
    uint64_t rng = test_seed();
    for (uint32_t count = EXPERTS; count <= LAYERS * EXPERTS; count += 5) {
        account_t account;
        open_account(&account, count);
        for (uint32_t pass = 0; pass < 2 * OR_EXPERT_AGE; pass++) {
            begin_pass(&account);
            for (uint32_t layer = 0; layer < LAYERS; layer++) {
                bool chosen[EXPERTS];
                for (uint32_t e = 0; e < EXPERTS; e++) {
                    chosen[e] = test_below(&rng, 4) == 0;
                }
                take_experts(&account, layer, chosen);
            }
        }
        or_expert_slots_destroy(&account.slots);
        assert_null(account.slots);
    }
}

static void what_is_held_is_not_replaced(void **state)
{
    (void)state;
    account_t account;
    or_expert_id_t replaced;
    open_account(&account, 2);
    begin_pass(&account);
    assert_int_equal(or_expert_slots_take(account.slots, (or_expert_id_t){0, 1}, &replaced), 0);
    assert_int_equal(or_expert_slots_take(account.slots, (or_expert_id_t){1, 1}, &replaced), 1);
    assert_int_equal(or_expert_slots_take(account.slots, (or_expert_id_t){2, 1}, &replaced),
                     OR_EXPERT_NO_SLOT);
    or_expert_slots_let_go(account.slots, 1);
    assert_int_equal(or_expert_slots_take(account.slots, (or_expert_id_t){2, 1}, &replaced), 1);
    assert_true(replaced.layer == 1 && replaced.expert == 1);
    begin_pass(&account); // lets all go
    assert_int_equal(or_expert_slots_take(account.slots, (or_expert_id_t){1, 2}, &replaced), 0);
    or_expert_slots_destroy(&account.slots);
}

// ---- a known skew ----

// Choose USED experts of a layer: three of four are the favourites, which begin at `favourite`.
static void choose(uint64_t *rng, uint32_t favourite, bool chosen[EXPERTS])
{
    memset(chosen, 0, EXPERTS * sizeof *chosen);
    for (uint32_t count = 0; count < USED;) {
        const bool one_of_few = test_below(rng, 4) > 0;
        const uint32_t e = (uint32_t)(one_of_few ? favourite + test_below(rng, USED + 1)
                                                 : test_below(rng, EXPERTS)) %
                           EXPERTS;
        count += !chosen[e];
        chosen[e] = true;
    }
}

// Return the share that so many passes found.
static double play(account_t *account, uint64_t *rng, uint32_t favourite, uint32_t passes)
{
    account->needed = account->found = 0;
    for (uint32_t i = 0; i < passes; i++) {
        begin_pass(account);
        for (uint32_t layer = 0; layer < LAYERS; layer++) {
            bool chosen[EXPERTS];
            choose(rng, favourite, chosen);
            take_experts(account, layer, chosen);
        }
    }
    return (double)account->found / (double)account->needed;
}

static void favourites_are_found(void **state)
{
    (void)state;
    static const bool all[EXPERTS] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    uint64_t rng = 7;
    account_t account;
    open_account(&account, LAYERS * EXPERTS / 2);
    play(&account, &rng, 0, 50);
    const double before = play(&account, &rng, 0, 100);
    assert_true(before > 0.75);
    begin_pass(&account);
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        take_experts(&account, layer, all);
    }
    assert_true(play(&account, &rng, 0, 20) > 0.75); // what was read last would be of use in half
    play(&account, &rng, EXPERTS / 2, OR_EXPERT_AGE);
    assert_true(play(&account, &rng, EXPERTS / 2, 100) > 0.75);
    or_expert_slots_destroy(&account.slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_was_used_least_gives_way),
        cmocka_unit_test(what_is_held_is_not_replaced),
        cmocka_unit_test(favourites_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
