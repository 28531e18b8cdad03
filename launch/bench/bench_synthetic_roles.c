#include "launch/bench/bench_synthetic_roles.h"

#include <time.h>

#include "common/base/math/rng.h"

#define TOKEN 300u // the child of rank i is token TOKEN + i, which is text in any vocabulary of use

static void spend(uint32_t us)
{
    const struct timespec pause = {us / 1000000, (long)(us % 1000000) * 1000};
    nanosleep(&pause, NULL);
}

// ---- drafter ----

void or_synthetic_drafter_init(or_synthetic_drafter_t *drafter,
                               const or_synthetic_distribution_t *dist, or_link_t *link)
{
    *drafter = (or_synthetic_drafter_t){.dist = dist};
    or_edge_init(&drafter->edge, link);
}

// The nodes in order of probability; node 0 is the root. As many as are asked for, or as have any.
static uint32_t choose_nodes(or_synthetic_drafter_t *drafter)
{
    const or_synthetic_distribution_t *dist = drafter->dist;
    double product[OR_TREE_NODES_MAX + 1] = {1};
    uint32_t depth[OR_TREE_NODES_MAX + 1] = {0};
    uint32_t children[OR_TREE_NODES_MAX + 1] = {0};
    uint32_t count = 0;
    while (count < drafter->nodes_max) {
        double best = 0;
        uint32_t parent = 0;
        for (uint32_t i = 0; i <= count; i++) {
            bool full = children[i] == dist->ranks || depth[i] == drafter->depth_max;
            double one = full ? 0 : product[i] * dist->acceptance[children[i]];
            if (one > best) {
                best = one;
                parent = i;
            }
        }
        if (best == 0) {
            break;
        }
        drafter->parents[count] = parent;
        drafter->ranks[count] = children[parent]++;
        count++;
        product[count] = best;
        depth[count] = depth[parent] + 1;
        children[count] = 0;
    }
    return count;
}

// The subtree below node `at`, depth first; `sent` is the number it travels under.
static void put_below(or_synthetic_drafter_t *drafter, uint32_t count, uint32_t at, uint32_t sent)
{
    for (uint32_t i = 0; i < count; i++) {
        if (drafter->parents[i] == at) {
            drafter->tokens[drafter->count] = TOKEN + drafter->ranks[i];
            drafter->back[drafter->count] = drafter->count + 1 - sent;
            drafter->count++;
            put_below(drafter, count, i + 1, drafter->count);
        }
    }
}

static void send_tree(or_synthetic_drafter_t *drafter, uint64_t round, uint32_t length,
                      uint64_t hash)
{
    spend(drafter->dist->draft_us);
    const or_message_t message = {
        .type = OR_MSG_DRAFT_TREE,
        .session = drafter->id,
        .body.draft_tree = {.round = round,
                            .base_length = length,
                            .base_hash = hash,
                            .tokens = drafter->tokens,
                            .back = drafter->back,
                            .count = drafter->count,
                            .draft_us = drafter->dist->draft_us,
                            .passes = 1}, // of a model whose size nobody knows
    };
    or_edge_send(&drafter->edge, &message);
}

static void drafter_take(void *role, const or_message_t *message)
{
    or_synthetic_drafter_t *drafter = role;
    const or_prefix_t *prefix = &message->body.prefix;
    const or_verdict_t *verdict = &message->body.verdict;
    if (message->type == OR_MSG_OPEN_SESSION) {
        const or_open_session_t *open = &message->body.open_session;
        bool small = open->draft_nodes < OR_TREE_NODES_MAX;
        drafter->id = message->session;
        drafter->nodes_max = small ? open->draft_nodes : OR_TREE_NODES_MAX;
        drafter->depth_max = open->draft_depth;
        drafter->count = 0;
        put_below(drafter, choose_nodes(drafter), 0, 0);
    } else if (message->session.value != drafter->id.value) {
        return; // of a session that is over
    } else if (message->type == OR_MSG_PREFIX) {
        send_tree(drafter, prefix->round, prefix->start + prefix->count, prefix->hash);
    } else if (message->type == OR_MSG_VERDICT && verdict->finish == OR_FINISH_NONE) {
        send_tree(drafter, verdict->round + 1, verdict->base_length + verdict->accepted_count + 1,
                  verdict->hash);
    }
}

int64_t or_synthetic_drafter_turn(void *role)
{
    or_synthetic_drafter_t *drafter = role;
    or_edge_drain(&drafter->edge, drafter_take, drafter);
    return or_link_tick(drafter->edge.link);
}

// ---- verifier ----

void or_synthetic_verifier_init(or_synthetic_verifier_t *verifier,
                                const or_synthetic_distribution_t *dist, or_link_t *link)
{
    *verifier = (or_synthetic_verifier_t){.dist = dist};
    or_edge_init(&verifier->edge, link);
}

// The child of node `at` that is accepted; 0 if none is.
static uint32_t accept_child(const or_synthetic_verifier_t *verifier, const or_draft_tree_t *tree,
                             uint32_t at, uint32_t depth)
{
    or_rng_key_t key = or_rng_key(verifier->dist->seed, verifier->sessions);
    double left = or_rng_uniform(or_rng_draw(key, OR_RNG_ACCEPT, (uint32_t)tree->round, depth, 0));
    uint32_t rank = 0;
    for (uint32_t node = 1; node <= tree->count && rank < verifier->dist->ranks; node++) {
        if (node - tree->back[node - 1] == at) {
            left -= verifier->dist->acceptance[rank++];
            if (left < 0) {
                return node;
            }
        }
    }
    return 0;
}

static void judge(or_synthetic_verifier_t *verifier, const or_draft_tree_t *tree)
{
    uint32_t count = 0;
    uint32_t at = 0;
    uint64_t hash = tree->base_hash;
    uint32_t next = TOKEN + OR_SYNTHETIC_RANKS_MAX; // no child's
    spend(verifier->dist->step_us);
    while ((at = accept_child(verifier, tree, at, count)) != 0) {
        hash = or_prefix_hash(hash, &tree->tokens[at - 1], 1);
        verifier->accepted[count++] = at;
    }
    verifier->round = tree->round;
    verifier->verdict = (or_verdict_t){.round = tree->round,
                                       .base_length = tree->base_length,
                                       .accepted = verifier->accepted,
                                       .accepted_count = count,
                                       .next = next,
                                       .forward_us = verifier->dist->step_us,
                                       .hash = or_prefix_hash(hash, &next, 1)};
}

static void verifier_take(void *role, const or_message_t *message)
{
    or_synthetic_verifier_t *verifier = role;
    if (message->type == OR_MSG_OPEN_SESSION && message->session.value != verifier->id.value) {
        verifier->id = message->session;
        verifier->sessions++;
        verifier->round = 0;
    } else if (message->type == OR_MSG_DRAFT_TREE && message->session.value == verifier->id.value) {
        if (message->body.draft_tree.round != verifier->round) { // else it is repeated
            judge(verifier, &message->body.draft_tree);
        }
        const or_message_t verdict = {
            .type = OR_MSG_VERDICT, .session = verifier->id, .body.verdict = verifier->verdict};
        or_edge_send(&verifier->edge, &verdict);
    }
}

int64_t or_synthetic_verifier_turn(void *role)
{
    or_synthetic_verifier_t *verifier = role;
    or_edge_drain(&verifier->edge, verifier_take, verifier);
    return or_link_tick(verifier->edge.link);
}
