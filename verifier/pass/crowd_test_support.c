#include "verifier/pass/crowd_test_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TURNS_MAX 20000
#define STATS_MS 50
#define LIKELY 8 // tokens that are guessed where there is no hint
#define DISTS_MAX (CROWD_NODES + 1)

or_model_options_t crowd_model_options(uint32_t pages, const or_ranks_t *ranks)
{
    return (or_model_options_t){.threads = 1,
                                .context_max = CROWD_CONTEXT,
                                .rows_max = 512,
                                .pages_max = pages,
                                .ranks = ranks};
}

crowd_t *crowd_create(const or_verifier_config_t *config, uint32_t pages, const or_ranks_t *ranks)
{
    crowd_t *crowd = calloc(1, sizeof *crowd);
    const or_model_options_t options = crowd_model_options(pages, ranks);
    const or_network_faults_t none = {0};
    or_verifier_config_t shape = *config;
    shape.nodes_max = CROWD_NODES;
    shape.stats_ms = STATS_MS;
    assert_int_equal(or_gguf_open(test_model(CROWD_MODEL), &crowd->gguf), OR_OK);
    assert_int_equal(or_vocab_load(crowd->gguf, &crowd->vocab), OR_OK);
    assert_int_equal(or_model_load(crowd->gguf, &options, &crowd->model), OR_OK);
    or_virtual_clock_init(&crowd->clock, OR_NS_PER_S);
    const or_clock_t *clock = &crowd->clock.clock;
    assert_int_equal(or_network_create(&crowd->clock, 1, &none, &crowd->network), OR_OK);
    assert_int_equal(or_network_hub(crowd->network, &crowd->hub_channel), OR_OK);
    assert_int_equal(or_network_edge(crowd->network, &crowd->channel), OR_OK);
    or_hello_t hello = or_verifier_hello(&shape, crowd->gguf, crowd->model, crowd->vocab);
    assert_int_equal(or_link_create(crowd->hub_channel, clock, NULL, 1000, &crowd->hub), OR_OK);
    assert_int_equal(or_link_create(crowd->channel, clock, &hello, 1000, &crowd->link), OR_OK);
    assert_int_equal(or_verifier_create(&shape, crowd->model, crowd->vocab, crowd->link, clock,
                                        &crowd->verifier),
                     OR_OK);
    while (!crowd->welcome || crowd->stats_heard == 0) {
        crowd_turn(crowd, NULL, 0);
    }
    return crowd;
}

void crowd_destroy(crowd_t **crowd_p)
{
    crowd_t *crowd = *crowd_p;
    or_verifier_destroy(&crowd->verifier);
    or_link_destroy(&crowd->link);
    or_link_destroy(&crowd->hub);
    or_channel_destroy(&crowd->channel);
    or_channel_destroy(&crowd->hub_channel);
    or_network_destroy(&crowd->network);
    or_model_destroy(&crowd->model);
    or_vocab_destroy(&crowd->vocab);
    or_gguf_close(&crowd->gguf);
    free(crowd);
    *crowd_p = NULL;
}

static void say(crowd_t *crowd, uint64_t id, or_message_t message)
{
    message.session.value = id;
    assert_int_equal(or_link_send(crowd->hub, crowd->peer, &message), OR_OK);
}

// ---- what a drafter sends ----

typedef struct {
    uint32_t tokens[CROWD_NODES], back[CROWD_NODES], count;
    uint32_t dist_index[CROWD_NODES], order[CROWD_NODES];
    uint32_t dist_tokens[DISTS_MAX][2], dist_count;
    or_reduced_distribution_t dists[DISTS_MAX];
    double psi[CROWD_NODES];
} guesses_t;

static uint32_t guess_at(const text_t *text, uint64_t *rng, uint32_t depth)
{
    uint32_t at = text->length - text->prompt_length + depth;
    bool hinted = text->hints != NULL && at < text->wanted && test_below(rng, 4) > 0;
    return hinted ? text->hints[at] : 300 + (uint32_t)test_below(rng, LIKELY);
}

// One distribution for the children of a node: theirs and one more, ascending.
static uint32_t add_dist(guesses_t *g, uint32_t a, uint32_t b)
{
    static const uint32_t weights[] = {40000, OR_DISTRIBUTION_TOTAL - 40000};
    uint32_t *tokens = g->dist_tokens[g->dist_count];
    tokens[0] = a < b ? a : b;
    tokens[1] = a < b ? b : a;
    g->dists[g->dist_count] = (or_reduced_distribution_t){tokens, weights, 2};
    return g->dist_count++;
}

// Up to two children a node, depth first; one where the rule takes chains.
static void grow(const text_t *text, uint64_t *rng, guesses_t *g, uint32_t node, uint32_t depth)
{
    bool chain = text->method == OR_DRAFT_CHAIN;
    uint32_t first = guess_at(text, rng, depth);
    uint32_t second = first == 299 ? 298 : 299;
    uint32_t children = chain ? 1 : 1 + (uint32_t)test_below(rng, 2);
    uint32_t dist = add_dist(g, first, second);
    for (uint32_t i = 0; i < children; i++) {
        if (g->count == CROWD_NODES || depth >= 6 || g->dist_count == DISTS_MAX) {
            return;
        }
        uint32_t at = g->count++;
        g->tokens[at] = i == 0 ? first : second;
        g->back[at] = at + 1 - node;
        g->dist_index[at] = dist;
        g->order[at] = i;
        g->psi[at] = 0.25;
        if (i == 0 && test_below(rng, 8) > 0) {
            grow(text, rng, g, at + 1, depth + 1);
        }
    }
}

static void send_tree(crowd_t *crowd, text_t *text)
{
    guesses_t g = {0};
    uint64_t rng = text->seed * 1000 + text->round;
    uint32_t left = text->prompt_length + text->wanted - text->length;
    if (!text->plain && left > 8 && test_below(&rng, 6) > 0) { // else a plain step
        grow(text, &rng, &g, 0, 0);
    }
    or_draft_tree_t tree = {.round = text->round,
                            .base_length = text->length,
                            .base_hash = text->hash,
                            .tokens = g.tokens,
                            .back = g.back,
                            .count = g.count};
    if (or_accept_rule_uses_distributions(text->rule)) {
        tree.dist_index = g.dist_index;
        tree.draw_order = g.order;
        tree.dist_index_count = tree.draw_order_count = g.count;
        tree.dists = g.dists;
        for (uint32_t i = 0; i < g.count;
             i++) { // a distribution may have been made for children that had no room
            tree.dist_count =
                g.dist_index[i] + 1 > tree.dist_count ? g.dist_index[i] + 1 : tree.dist_count;
        }
    }
    if (text->rule == OR_ACCEPT_SLRS) {
        tree.psi = g.psi;
        tree.psi_count = g.count;
    }
    memcpy(text->guess + 1, g.tokens, sizeof g.tokens);
    say(crowd, text->id, (or_message_t){.type = OR_MSG_DRAFT_TREE, .body.draft_tree = tree});
}

static void answer_question(crowd_t *crowd, const text_t *text, const or_psi_request_t *request)
{
    static const double psi = 0.25;
    uint32_t guess = text->guess[request->node + 1];
    bool asked = request->count == 0;
    for (uint32_t i = 0; i < request->count; i++) {
        asked = asked || request->tokens[i] == guess;
    }
    say(crowd, text->id,
        (or_message_t){.type = OR_MSG_PSI_REPLY,
                       .body.psi_reply = {.round = request->round,
                                          .node = request->node,
                                          .tokens = &guess,
                                          .psi = &psi,
                                          .count = asked}});
}

// ---- a text ----

void text_reset(text_t *text)
{
    text->state = TEXT_TO_COME;
    memcpy(text->tokens, text->prompt, text->prompt_length * sizeof *text->tokens);
    text->length = text->prompt_length;
    text->hash = or_prefix_hash(0, text->prompt, text->prompt_length);
    text->round = 1;
    text->rounds = text->accepted = text->evicted = text->owes = 0;
}

void text_begin(crowd_t *crowd, text_t *text)
{
    or_open_session_t open = {.sampling = text->sampling,
                              .accept_rule = text->rule,
                              .draft_method = text->method,
                              .draft_nodes = CROWD_NODES,
                              .draft_depth = CROWD_NODES,
                              .draft_temperature = 1,
                              .noise_key = text->seed,
                              .private_key = text->seed + 1,
                              .prompt_length = text->prompt_length,
                              .owner = text->owner};
    text_reset(text);
    text->state = TEXT_AT_WORK;
    say(crowd, text->id, (or_message_t){.type = OR_MSG_OPEN_SESSION, .body.open_session = open});
    say(crowd, text->id,
        (or_message_t){.type = OR_MSG_PREFIX,
                       .body.prefix = {.tokens = text->prompt,
                                       .count = text->prompt_length,
                                       .hash = text->hash,
                                       .round = 1}});
    send_tree(crowd, text);
}

void text_cancel(crowd_t *crowd, const text_t *text)
{
    say(crowd, text->id,
        (or_message_t){.type = OR_MSG_CANCEL, .body.cancel = {.reason = "enough"}});
}

static void append(text_t *text, uint32_t token)
{
    text->tokens[text->length++] = token;
    text->hash = or_prefix_hash(text->hash, &token, 1);
}

static void take_verdict(crowd_t *crowd, text_t *text, const or_verdict_t *verdict)
{
    if (verdict->round < text->round || text->state != TEXT_AT_WORK) {
        return;
    }
    assert_int_equal(verdict->round, text->round);
    assert_int_equal(verdict->base_length, text->length);
    for (uint32_t i = 0; i < verdict->accepted_count; i++) {
        append(text, text->guess[verdict->accepted[i]]);
    }
    append(text, verdict->next);
    assert_int_equal(verdict->hash, text->hash);
    text->rounds++;
    text->accepted += verdict->accepted_count;
    text->round++;
    if (text->length >= text->prompt_length + text->wanted) {
        text->state = TEXT_DONE;
        text_cancel(crowd, text);
    } else if (text->slow) {
        text->owes = 2;
    } else {
        send_tree(crowd, text);
    }
}

// ---- the crowd ----

static text_t *find(text_t *texts, uint32_t count, uint64_t id)
{
    for (uint32_t i = 0; i < count; i++) {
        if (texts[i].id == id) {
            return &texts[i];
        }
    }
    return NULL;
}

static void take(crowd_t *crowd, text_t *texts, uint32_t count, const or_message_t *message)
{
    text_t *text = find(texts, count, message->session.value);
    if (message->type == OR_MSG_HELLO) {
        crowd->welcome = true;
        say(crowd, 0,
            (or_message_t){.type = OR_MSG_WELCOME,
                           .body.welcome = {.heartbeat_ms = 1000, .software = "test"}});
    } else if (message->type == OR_MSG_STATS) {
        crowd->stats = message->body.stats;
        crowd->stats_heard++;
    } else if (message->type == OR_MSG_KV_EVICTED) {
        crowd->evictions++;
        if (text != NULL) {
            text->evicted++;
        }
    } else if (text == NULL) {
        return;
    } else if (message->type == OR_MSG_VERDICT) {
        take_verdict(crowd, text, &message->body.verdict);
    } else if (message->type == OR_MSG_PSI_REQUEST) {
        answer_question(crowd, text, &message->body.psi_request);
    } else if (message->type == OR_MSG_ERROR && text->state == TEXT_AT_WORK) {
        text->state = TEXT_FAILED;
        snprintf(text->error, sizeof text->error, "%u %s", message->body.error.code,
                 message->body.error.text);
    }
}

void crowd_turn(crowd_t *crowd, text_t *texts, uint32_t count)
{
    or_link_event_t event;
    or_message_t message;
    or_verifier_turn(crowd->verifier);
    or_link_tick(crowd->hub);
    while (or_link_receive(crowd->hub, &event, &crowd->peer, &message) == OR_OK) {
        if (event == OR_LINK_MESSAGE) {
            take(crowd, texts, count, &message);
            or_message_fini(&message);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        if (texts[i].owes > 0 && --texts[i].owes == 0) {
            send_tree(crowd, &texts[i]);
        }
    }
    crowd->clock.now_ns += OR_NS_PER_MS;
}

void crowd_run(crowd_t *crowd, text_t *texts, uint32_t count)
{
    uint32_t ended = 0;
    for (uint32_t i = 0; i < count; i++) {
        text_reset(&texts[i]);
    }
    for (uint32_t turn = 0; ended < count; turn++) {
        if (turn == TURNS_MAX) {
            fail_msg("%u of %u texts have not ended", count - ended, count);
        }
        for (uint32_t i = 0; i < count; i++) {
            if (texts[i].state == TEXT_TO_COME && turn >= texts[i].arrival) {
                text_begin(crowd, &texts[i]);
            }
        }
        crowd_turn(crowd, texts, count);
        ended = 0;
        for (uint32_t i = 0; i < count; i++) {
            ended += texts[i].state == TEXT_DONE || texts[i].state == TEXT_FAILED;
        }
    }
}

or_stats_t crowd_stats(crowd_t *crowd)
{
    crowd_turn(crowd, NULL, 0); // what was said last is heard
    uint32_t heard = crowd->stats_heard;
    while (crowd->stats_heard == heard) {
        crowd_turn(crowd, NULL, 0);
    }
    return crowd->stats;
}

void assert_same_text(const text_t *a, const text_t *b)
{
    if (a->state != TEXT_DONE || b->state != TEXT_DONE) {
        fail_msg("text %llu: %s %s", (unsigned long long)a->id, a->error, b->error);
    }
    if (a->length != b->length ||
        memcmp(a->tokens, b->tokens, a->length * sizeof *a->tokens) != 0) {
        fail_msg("text %llu of rule %s (seed %llu) is not what it is alone",
                 (unsigned long long)a->id, or_accept_rule_name(a->rule),
                 (unsigned long long)a->seed);
    }
}
