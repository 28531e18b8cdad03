#include "coordinator/budget/policy_test_world.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "tests/support/test_support.h"

#define WIRE_MAX 4096u

// A drafter's tree on its way, or the coordinator's text.
typedef struct {
    int64_t at_ns; // when it arrives
    bool tree;
    bool answer;    // to what was asked at asked_ns; else an increment
    int64_t base;   // tokens that it stands on
    int64_t claims; // up to this one it guesses
    int64_t right;  // and up to this one rightly
    uint32_t nodes, draft_us;
    int64_t asked_ns;
    or_budget_t budget; // with a text: what is asked for
} wire_t;

struct world {
    world_config_t config;
    or_policy_t policy;
    uint64_t random;
    int64_t now_ns;
    wire_t wires[WIRE_MAX];
    uint32_t wire_count;
    // The coordinator.
    int64_t text;          // committed tokens
    int64_t claims, right; // of the guesses that stand on the text
    int64_t told_ns;
    bool awaited, judging;
    uint32_t asked_nodes; // of the drafter, last
    uint32_t tries;       // how often none were before
    uint32_t judged_nodes, judged_accepted;
    int64_t asked_ns;   // the verifier
    int64_t verdict_ns; // OR_TIME_NEVER: it has nothing to do
    int64_t wake_ns;    // the policy waits until then
    // The drafter.
    int64_t known;    // tokens of the text it knows
    int64_t frontier; // it has guessed up to here
    int64_t sent;     // and sent up to here
    int64_t pass_ns;  // when its pass ends; OR_TIME_NEVER: it rests
    bool owes;        // an answer
    int64_t owes_ns, owed_asked_ns;
    or_budget_t asked;
};

static double draw(const world_t *world, int64_t position)
{
    uint64_t state = world->config.seed ^ ((uint64_t)position * UINT64_C(0x9E3779B97F4A7C15));
    return test_uniform(&state);
}

static double acceptance(const world_t *world, uint32_t nodes)
{
    double share = (1 + log2(1.0 + nodes)) / (1 + log2(1.0 + world->config.most.nodes));
    return 1 - pow(1 - world->config.numbers.acceptance, share);
}

static int64_t levels(uint32_t nodes)
{
    return nodes == 0 ? 0 : 3 + (int64_t)log2(nodes);
}

// The last of base + 1 .. claims that a tree on `base` has right.
static int64_t right_up_to(const world_t *world, int64_t base, int64_t claims, uint32_t nodes)
{
    double least = acceptance(world, nodes);
    while (base < claims && draw(world, base + 1) < least) {
        base++;
    }
    return base;
}

static void put(world_t *world, wire_t wire)
{
    double noise = 1 + world->config.numbers.jitter * (2 * test_uniform(&world->random) - 1);
    assert_true(world->wire_count < WIRE_MAX);
    wire.at_ns = world->now_ns + (int64_t)(world->config.numbers.trip_ns / 2 * noise);
    world->wires[world->wire_count++] = wire;
}

// ---- the drafter ----

static void draft_tree(world_t *world, int64_t base, int64_t claims, bool answer)
{
    uint32_t nodes = world->asked.nodes;
    put(world, (wire_t){.tree = true,
                        .answer = answer,
                        .base = base,
                        .claims = claims,
                        .right = right_up_to(world, base, claims, nodes),
                        .nodes = nodes,
                        .draft_us = (uint32_t)((world->now_ns - world->owes_ns) / 1000),
                        .asked_ns = world->owed_asked_ns});
    world->sent = claims;
}

// Answer, send what is new, or go on with a pass; after a pass, or when a text came.
static void draft(world_t *world)
{
    int64_t full = levels(world->asked.nodes);
    bool ahead = world->asked.ahead > 0;
    int64_t most = world->known + full * (world->asked.ahead > 1 ? world->asked.ahead : 1);
    if (world->owes && world->frontier - world->known >= full) {
        world->owes = false;
        draft_tree(world, world->known, world->known + full, true);
    }
    if (world->asked.ahead > 1 && !world->owes && world->frontier > world->sent) {
        draft_tree(world, world->known, world->frontier, false);
    }
    // Working ahead, it looks a text further than it may send.
    bool goes_on = world->owes || (ahead && world->frontier < most + full);
    world->pass_ns = goes_on && full > 0
                         ? world->now_ns + (int64_t)world->config.numbers.pass_ns + 1
                         : OR_TIME_NEVER;
}

static void hear_text(world_t *world, const wire_t *wire)
{
    int64_t right = right_up_to(world, world->known, world->frontier, world->asked.nodes);
    bool keeps = world->asked.ahead > 0 && wire->base <= right;
    world->known = wire->base;
    world->asked = wire->budget;
    world->frontier = keeps ? world->frontier : world->known;
    world->sent = keeps && world->sent > world->known ? world->sent : world->known;
    world->owes = true;
    world->owes_ns = world->now_ns;
    world->owed_asked_ns = wire->asked_ns;
    if (world->pass_ns == OR_TIME_NEVER || !keeps) {
        draft(world);
    }
}

// ---- the coordinator ----

static void take_tree(world_t *world, const wire_t *wire)
{
    if (wire->answer) {
        or_policy_heard(&world->policy, world->now_ns - wire->asked_ns, wire->draft_us,
                        wire->nodes);
        world->awaited = world->awaited && wire->asked_ns != world->told_ns;
    }
    if (wire->base > world->text || wire->right < world->text ||
        (!world->config.late_is_good && wire->base != world->text)) {
        return;
    }
    world->claims = wire->claims > world->claims ? wire->claims : world->claims;
    world->right = wire->right > world->right ? wire->right : world->right;
}

static void judge(world_t *world, or_guess_source_t source)
{
    bool drafted = source == OR_SOURCE_DRAFTER && world->claims > world->text;
    int64_t most = levels(world->config.most.nodes);
    int64_t offered = drafted ? world->claims - world->text : 0;
    int64_t accepted = drafted ? world->right - world->text : 0;
    offered = offered < most ? offered : most;
    world->judged_accepted = (uint32_t)(accepted < offered ? accepted : offered);
    world->judged_nodes = (uint32_t)(offered * world->config.most.nodes / most);
    world->asked_ns = world->now_ns;
    world->wake_ns = OR_TIME_NEVER;
    world->verdict_ns = world->now_ns + 1 +
                        (int64_t)(world->config.numbers.plain_ns +
                                  world->judged_nodes * world->config.numbers.row_ns);
}

static void choose(world_t *world)
{
    int64_t most = levels(world->config.most.nodes);
    int64_t ready = (world->claims - world->text) * world->config.most.nodes / most;
    const or_policy_state_t state = {
        .ready = (uint32_t)ready, .awaited = world->awaited, .asked_ns = world->told_ns};
    if (world->config.conduct == WORLD_POLICY) {
        or_policy_choice_t choice = or_policy_choose(&world->policy, &state, world->now_ns);
        if (choice.until_ns > 0) {
            assert_true(choice.until_ns > world->now_ns);
            world->wake_ns = choice.until_ns;
            return;
        }
        judge(world, choice.source);
        return;
    }
    judge(world, ready > 0 ? OR_SOURCE_DRAFTER : OR_SOURCE_PLAIN);
}

static void take_verdict(world_t *world)
{
    const or_policy_round_t round = {
        .source = world->judged_nodes > 0 ? OR_SOURCE_DRAFTER : OR_SOURCE_PLAIN,
        .nodes = world->judged_nodes,
        .accepted = world->judged_accepted,
        .first_right = world->judged_accepted > 0,
        .round_ns = world->now_ns - world->asked_ns,
        .forward_us = (uint32_t)((world->now_ns - world->asked_ns) / 1000)};
    world->verdict_ns = OR_TIME_NEVER;
    or_policy_judged(&world->policy, &round);
    world->text += world->judged_accepted + 1;
    if (world->right < world->text || !world->config.late_is_good) {
        world->claims = world->right = world->text;
    }
    if (world->policy.budget.ahead > 0) {
        or_policy_ahead(&world->policy, world->claims > world->text);
    }
    or_budget_t budget = or_policy_budget(&world->policy, world->now_ns);
    world->tries += world->asked_nodes == 0 && budget.nodes > 0;
    world->asked_nodes = budget.nodes;
    world->awaited = world->config.conduct != WORLD_PLAIN && budget.nodes > 0;
    world->told_ns = world->now_ns;
    if (world->awaited) {
        put(world, (wire_t){.base = world->text, .asked_ns = world->now_ns, .budget = budget});
    }
}

// ---- time ----

static void run_event(world_t *world, int64_t until_ns)
{
    int64_t next_ns = world->verdict_ns < world->wake_ns ? world->verdict_ns : world->wake_ns;
    uint32_t first = WIRE_MAX;
    next_ns = world->pass_ns < next_ns ? world->pass_ns : next_ns;
    for (uint32_t i = 0; i < world->wire_count; i++) {
        if (world->wires[i].at_ns <= next_ns) {
            next_ns = world->wires[i].at_ns;
            first = i;
        }
    }
    if (next_ns > until_ns) {
        world->now_ns = until_ns;
        return;
    }
    world->now_ns = next_ns;
    if (first < WIRE_MAX) {
        wire_t wire = world->wires[first];
        world->wires[first] = world->wires[--world->wire_count];
        if (wire.tree) {
            take_tree(world, &wire);
        } else if (wire.base >= world->known) {
            hear_text(world, &wire);
        }
    } else if (world->pass_ns == next_ns) {
        world->frontier++;
        draft(world);
    } else if (world->verdict_ns == next_ns) {
        take_verdict(world);
    }
    if (world->verdict_ns == OR_TIME_NEVER) {
        choose(world);
    }
}

double world_run(world_t *world, int64_t until_ns)
{
    int64_t before = world->text;
    while (world->now_ns < until_ns) {
        run_event(world, until_ns);
    }
    return (double)(world->text - before);
}

world_t *world_create(const world_config_t *config)
{
    world_t *world = calloc(1, sizeof *world);
    assert_non_null(world);
    const or_policy_terms_of_session_t terms = {
        .kind = config->kind, .most = config->most, .late_is_good = config->late_is_good};
    world->config = *config;
    world->random = config->seed;
    world->pass_ns = world->wake_ns = OR_TIME_NEVER;
    world->now_ns = OR_NS_PER_S; // clocks do not begin at 0
    or_policy_init(&world->policy, &terms);
    judge(world, OR_SOURCE_PLAIN);
    return world;
}

void world_destroy(world_t **world_p)
{
    free(*world_p);
    *world_p = NULL;
}

void world_set(world_t *world, const world_numbers_t *numbers)
{
    world->config.numbers = *numbers;
}

const or_policy_t *world_policy(const world_t *world)
{
    return &world->policy;
}

uint32_t world_tries(const world_t *world)
{
    return world->tries;
}
