// Goal: whatever peers say, in whatever order, the hub neither ends nor stands still. It stays
// within its places, and its ledger equals what it holds and is empty at the end. With an honest
// verifier every text ends.
// Method: the input is a list of acts. Peers come and go and send what fits the texts they know,
// or something near it; time passes; the coordinator dies. A byte below 128 (and the end of the
// input) stands for the fitting value.
#include <math.h>
#include <string.h>

#include "tests/fuzz/hub_world.h"
#include "tests/fuzz/vocabularies.h"

#define ACTS_MAX 200u
#define MANY 40u // entries of an array
#define LONG 20000u
#define WRONG_HASH 0x1234u

static hub_world_t world;

// ---- numbers ----

static bool fits(fuzz_input_t *input)
{
    return fuzz_byte(input) < 128;
}

static uint32_t near(fuzz_input_t *input, uint32_t right)
{
    uint8_t how = fuzz_byte(input);
    return how < 128 ? right : how < 160 ? right + 1 : how < 192 ? right - 1 : fuzz_number(input);
}

static uint64_t near_wide(fuzz_input_t *input, uint64_t right)
{
    uint8_t how = fuzz_byte(input);
    if (how < 128) {
        return right;
    }
    uint64_t number = fuzz_number(input);
    return how < 192 ? right + number : number << 32 | fuzz_number(input);
}

static float near_real(fuzz_input_t *input, float right)
{
    static const float others[] = {0, 1, -1, 0.5F, 2, 1e30F, NAN, INFINITY};
    return fits(input) ? right : others[fuzz_byte(input) % 8];
}

// Fill an array of `room` words with numbers below 300 or anything.
static uint32_t words(fuzz_input_t *input, uint32_t *array, uint32_t room, uint32_t step)
{
    uint32_t count = fuzz_byte(input) % (room + 1);
    for (uint32_t i = 0; i < count; i++) {
        array[i] = near(input, 1 + i * step);
    }
    return count;
}

static const char *owner_of(fuzz_input_t *input)
{
    static const char *const owners[] = {
        "ada", "ben", "",
        "a name of more than sixty-three bytes, which no owner may have, as it would be cut"};
    return owners[fuzz_byte(input) % 4];
}

static hub_known_t *known_of(fuzz_input_t *input, hub_edge_t *edge)
{
    uint8_t which = fuzz_byte(input);
    return &edge->known[which < 128 ? edge->last : which % HUB_KNOWN];
}

static void say(hub_edge_t *edge, const or_message_t *message)
{
    or_status_t status = or_link_send(edge->link, OR_PEER_HUB, message);
    assert(status == OR_OK || status == OR_ERR_FULL || status == OR_ERR_INVALID ||
           status == OR_ERR_UNREACHABLE);
}

// ---- coming and going ----

static void come(fuzz_input_t *input, hub_edge_t *edge)
{
    static const or_role_t roles[] = {OR_ROLE_CLIENT, OR_ROLE_DRAFTER, OR_ROLE_VERIFIER};
    const or_vocab_t *vocab = fuzz_vocabulary(0);
    uint8_t role = fuzz_byte(input);
    or_hello_t hello = {.role = role < 250 ? roles[role % 3] : (or_role_t)(role - 248),
                        .software = "fuzz",
                        .model = "m.gguf"};
    bool client = hello.role == OR_ROLE_CLIENT;
    hello.owner = owner_of(input);
    hello.arith_id = client ? "" : fits(input) ? "canonical" : "another";
    hello.vocab_hash = client ? 0 : fits(input) ? or_vocab_hash(vocab) : WRONG_HASH;
    hello.vocab_size = client ? 0 : near(input, or_vocab_size(vocab));
    hello.context_max = near(input, 64);
    hello.nodes_max = near(input, 32);
    hello.sessions_max = near(input, 2);
    hub_world_join(&world, edge, &hello, client && !fits(input));
}

static void cut(fuzz_input_t *input, hub_edge_t *edge)
{
    or_network_cut(edge->channel);
    hub_world_run(&world, fits(input) ? 1 : 60000);
    or_network_mend(edge->channel);
}

// ---- clients ----

static uint32_t choose(fuzz_input_t *input, const uint32_t *from, uint32_t count)
{
    uint8_t which = fuzz_byte(input);
    return which < 240 ? from[which % count] : which;
}

static void choose_method(fuzz_input_t *input, or_generate_request_t *request)
{
    static const uint32_t methods[] = {OR_DRAFT_COUPLED, OR_DRAFT_CHAIN,  OR_DRAFT_RSD_C,
                                       OR_DRAFT_MULTI,   OR_DRAFT_TOPK,   OR_DRAFT_KSEQ,
                                       OR_DRAFT_NGRAM,   OR_DRAFT_DYSPEC, OR_DRAFT_MCSD};
    static const uint32_t rules[] = {
        OR_ACCEPT_COUPLED, OR_ACCEPT_SPS,         OR_ACCEPT_RECURSIVE, OR_ACCEPT_COUPLED,
        OR_ACCEPT_GREEDY,  OR_ACCEPT_KSEQ,        OR_ACCEPT_COUPLED,   OR_ACCEPT_TRAVERSAL,
        OR_ACCEPT_OTM,     OR_ACCEPT_MULTI_ROUND, OR_ACCEPT_BLOCK,     OR_ACCEPT_NAIVE};
    uint8_t pair = fuzz_byte(input);
    if (pair < 200) {
        request->draft_method = methods[pair % 9];
        request->accept_rule = rules[pair % 9];
    } else {
        request->draft_method = choose(input, methods, 9);
        request->accept_rule = choose(input, rules, 12);
    }
}

static void choose_drafting(fuzz_input_t *input, or_generate_request_t *request, uint32_t *shape)
{
    choose_method(input, request);
    request->draft_nodes = near(input, 8);
    request->draft_depth = near(input, 8);
    request->draft_shape = shape;
    request->draft_shape_count = words(input, shape, 6, 0);
    request->distribution_entries = near(input, 0);
    request->vocab_method = fuzz_byte(input) % 8;
    request->draft_ahead = fuzz_byte(input) % 12;
    request->draft_policy = fuzz_byte(input) % 3;
    request->draft_temperature = near_real(input, 1);
    request->lenience = near_real(input, 0);
    request->typical_epsilon = near_real(input, 0);
    request->typical_delta = near_real(input, 0);
    request->draft_threshold = near_real(input, 0);
}

static void choose_flags(fuzz_input_t *input, or_generate_request_t *request)
{
    uint32_t flags = fuzz_byte(input) | (uint32_t)fuzz_byte(input) << 8;
    request->plain = flags & 1;
    request->has_seed = flags & 2;
    request->ignore_end = flags & 4;
    request->special = flags & 8;
    request->allow_lossy = flags & 16;
    request->details = flags & 32;
    request->measured = flags & 64;
    request->has_draft_temperature = flags & 128;
    request->draft_calibrated = flags & 256;
}

static void choose_sampling(fuzz_input_t *input, or_sampling_t *sampling, or_logit_bias_t *bias)
{
    *sampling = or_sampling_default();
    sampling->temperature = near_real(input, 0);
    sampling->top_k = near(input, 0);
    sampling->top_p = near_real(input, 1);
    sampling->min_p = near_real(input, 0);
    sampling->repeat_penalty = near_real(input, 1);
    sampling->repeat_last_n = (int32_t)near(input, 64);
    sampling->bias = bias;
    sampling->bias_count = fuzz_byte(input) % (MANY + 1);
    for (uint32_t i = 0; i < sampling->bias_count; i++) {
        bias[i] = (or_logit_bias_t){(int32_t)near(input, i), near_real(input, 1)};
    }
}

static void choose_prompt(fuzz_input_t *input, or_generate_request_t *request, uint32_t *tokens)
{
    static uint8_t text[LONG];
    memset(text, 'a', sizeof text);
    uint8_t kind = fuzz_byte(input);
    if (kind < 128) {
        tokens[0] = 1;
        tokens[1] = tokens[2] = 6;
        request->prompt_tokens = tokens;
        request->prompt_token_count = 3;
    } else if (kind < 192) {
        request->prompt = text;
        request->prompt_bytes = fuzz_number(input) % LONG;
    } else {
        request->prompt_tokens = tokens;
        request->prompt_token_count = words(input, tokens, MANY, 1);
    }
}

static void choose_stops(fuzz_input_t *input, or_generate_request_t *request,
                         or_wire_bytes_t *stops)
{
    static uint8_t text[OR_STOP_BYTES_MAX + 1];
    memset(text, 'a', sizeof text);
    request->stop = stops;
    request->stop_count = fuzz_byte(input) % (OR_STOP_STRINGS_MAX + 2);
    for (uint32_t i = 0; i < request->stop_count; i++) {
        stops[i] = (or_wire_bytes_t){text, near(input, 9) % (OR_STOP_BYTES_MAX + 2)};
    }
}

static void generate(fuzz_input_t *input, hub_edge_t *edge)
{
    uint32_t tokens[MANY], shape[8];
    or_logit_bias_t bias[MANY];
    or_wire_bytes_t stops[OR_STOP_STRINGS_MAX + 2];
    or_message_t message = {.type = OR_MSG_GENERATE_REQUEST};
    or_generate_request_t *request = &message.body.generate_request;
    request->request = fuzz_byte(input) % 6;
    request->max_tokens = near(input, 8);
    choose_prompt(input, request, tokens);
    choose_drafting(input, request, shape);
    choose_flags(input, request);
    choose_sampling(input, &request->sampling, bias);
    choose_stops(input, request, stops);
    request->seed = fuzz_number(input);
    request->logprobs = fuzz_byte(input) % (OR_LOGPROBS_MAX + 3);
    request->choice = near(input, 0);
    request->owner = owner_of(input);
    request->label = "label";
    say(edge, &message);
}

static void resume(fuzz_input_t *input, hub_edge_t *edge)
{
    static const uint8_t wrong[OR_SESSION_TOKEN_BYTES] = {1};
    const hub_known_t *known = known_of(input, edge);
    uint8_t which = fuzz_byte(input);
    const uint8_t *token = which < 64    ? world.secrets[known->secret]
                           : which < 192 ? world.secrets[which % HUB_TOKENS]
                                         : wrong;
    const or_message_t message = {
        .type = OR_MSG_RESUME,
        .body.resume = {.request = near_wide(input, known->request),
                        .offset = near(input, known->length),
                        .text_offset = near_wide(input, known->text_bytes),
                        .token = token,
                        .token_bytes = fits(input) ? OR_SESSION_TOKEN_BYTES : fuzz_byte(input) % 17,
                        .owner = owner_of(input)}};
    say(edge, &message);
}

static void cancel(fuzz_input_t *input, hub_edge_t *edge)
{
    const or_message_t message = {
        .type = OR_MSG_CANCEL,
        .session = {near_wide(input, known_of(input, edge)->session.value)},
        .body.cancel = {.reason = "enough", .keep = fuzz_byte(input) & 1}};
    say(edge, &message);
}

static void ask_stats(fuzz_input_t *input, hub_edge_t *edge)
{
    const or_message_t message = {
        .type = OR_MSG_STATS_REQUEST,
        .body.stats_request = {.metrics = !fits(input), .events_after = near_wide(input, 0)}};
    say(edge, &message);
}

// ---- drafters ----

typedef struct {
    uint32_t tokens[HUB_NODES], back[HUB_NODES], index[HUB_NODES], order[HUB_NODES];
    double psi[HUB_NODES];
    or_reduced_distribution_t dists[4];
    uint32_t dist_tokens[4][2], dist_weights[4][2];
} guesses_t;

static uint32_t guess(fuzz_input_t *input, guesses_t *g)
{
    uint32_t count = fuzz_byte(input) % (HUB_NODES + 1);
    for (uint32_t i = 0; i < count; i++) {
        g->tokens[i] = near(input, 6 + i % 4);
        g->back[i] = near(input, 1);
    }
    return count;
}

// Make the draws of a chain: each node is drawn from a distribution of its own, of two tokens.
static void draw(fuzz_input_t *input, guesses_t *g, or_draft_tree_t *tree)
{
    tree->dist_count = tree->count < 4 ? tree->count : 4;
    for (uint32_t i = 0; i < tree->dist_count; i++) {
        g->dist_tokens[i][0] = g->tokens[i];
        g->dist_tokens[i][1] = near(input, g->tokens[i] + 1);
        g->dist_weights[i][0] = near(input, 32768);
        g->dist_weights[i][1] = near(input, 32768);
        g->dists[i] = (or_reduced_distribution_t){g->dist_tokens[i], g->dist_weights[i], 2};
    }
    for (uint32_t i = 0; i < tree->count; i++) {
        g->index[i] = near(input, i % 4);
        g->order[i] = near(input, 0);
        g->psi[i] = near_real(input, 0.5F);
    }
    tree->dist_index = g->index;
    tree->draw_order = g->order;
    tree->dist_index_count = tree->draw_order_count = tree->count;
    tree->dists = g->dists;
    tree->psi = g->psi;
    tree->psi_count = fits(input) ? 0 : tree->count;
}

static void draft(fuzz_input_t *input, hub_edge_t *edge)
{
    static guesses_t g;
    const hub_known_t *known = known_of(input, edge);
    or_message_t message = {.type = OR_MSG_DRAFT_TREE,
                            .session = {near_wide(input, known->session.value)}};
    or_draft_tree_t *tree = &message.body.draft_tree;
    tree->round = near_wide(input, known->round);
    tree->parent_round = near_wide(input, 0);
    tree->base_length = near(input, known->length);
    tree->base_hash = near_wide(input, known->hash);
    tree->tokens = g.tokens;
    tree->back = g.back;
    tree->count = guess(input, &g);
    tree->draft_us = near(input, 1000);
    tree->passes = near(input, 1);
    if (!fits(input)) {
        draw(input, &g, tree);
    }
    say(edge, &message);
}

// ---- verifiers ----

// Walk at most that many nodes of the chain that the tree begins with.
static uint32_t walk(const hub_known_t *known, uint32_t most, uint32_t *path)
{
    uint32_t count = 0;
    while (count < most && count < known->count && known->back[count] == 1) {
        path[count] = count + 1;
        count++;
    }
    return count;
}

static uint64_t hash_of(const hub_known_t *known, uint32_t accepted, uint32_t next)
{
    uint64_t hash = or_prefix_hash(known->hash, known->tokens, accepted);
    return or_prefix_hash(hash, &next, 1);
}

static void judge(fuzz_input_t *input, hub_edge_t *edge)
{
    uint32_t path[HUB_NODES];
    hub_known_t *known = known_of(input, edge);
    or_message_t message = {.type = OR_MSG_VERDICT,
                            .session = {near_wide(input, known->session.value)}};
    or_verdict_t *verdict = &message.body.verdict;
    verdict->accepted_count = walk(known, fuzz_byte(input) % 8, path);
    verdict->next = near(input, 6);
    verdict->hash = near_wide(input, hash_of(known, verdict->accepted_count, verdict->next));
    if (!fits(input)) {
        verdict->accepted_count = words(input, path, MANY, 1);
    }
    verdict->accepted = path;
    verdict->round = near_wide(input, known->round);
    verdict->base_length = near(input, known->length);
    verdict->finish = fits(input) ? OR_FINISH_NONE : fuzz_byte(input) % 6;
    verdict->forward_us = near(input, 1000);
    verdict->reused = near(input, 0);
    const or_token_logprob_t logprob = {.token = near(input, verdict->next),
                                        .logprob = near_real(input, -1)};
    verdict->logprobs = &logprob;
    verdict->logprob_count = fits(input) ? verdict->accepted_count == 0 && known->logprobs > 0 : 1;
    say(edge, &message);
}

// ---- everybody ----

static void complain(fuzz_input_t *input, hub_edge_t *edge)
{
    const hub_known_t *known = known_of(input, edge);
    const or_message_t message = {.type = OR_MSG_ERROR,
                                  .session = {near_wide(input, known->session.value)},
                                  .body.error = {.code = fuzz_byte(input) % 12,
                                                 .text = "trouble",
                                                 .retry_ms = near(input, 100),
                                                 .round = near_wide(input, known->round),
                                                 .length = near(input, known->length)}};
    say(edge, &message);
}

static void tell_figures(fuzz_input_t *input, or_stats_t *stats)
{
    stats->rounds = near_wide(input, 1);
    stats->passes = near_wide(input, 1);
    stats->batched = near_wide(input, 1);
    stats->model_us = near_wide(input, 1000);
    stats->sessions = near(input, 1);
    stats->queue = near(input, 0);
    stats->pages = near(input, 8);
    stats->pages_free = near(input, 4);
}

// Send one of the rarer messages.
static void say_other(fuzz_input_t *input, hub_edge_t *edge)
{
    uint32_t tokens[MANY];
    double psi[MANY] = {0.5};
    uint8_t bytes[MANY] = {0};
    const hub_known_t *known = known_of(input, edge);
    const uint64_t target = or_vocab_hash(fuzz_vocabulary(0));
    or_message_t message = {.session = {near_wide(input, known->session.value)}};
    uint32_t count = words(input, tokens, MANY, 1);
    switch (fuzz_byte(input) % 6) {
    case 0:
        message.type = OR_MSG_STATS;
        tell_figures(input, &message.body.stats);
        break;
    case 1:
        message.type = OR_MSG_KV_EVICTED;
        message.body.kv_evicted.kept_length = near(input, known->length);
        break;
    case 2:
        message.type = OR_MSG_PSI_REQUEST;
        message.body.psi_request = (or_psi_request_t){.round = near_wide(input, known->round),
                                                      .base_length = near(input, known->length),
                                                      .base_hash = near_wide(input, known->hash),
                                                      .node = near(input, 0),
                                                      .tokens = tokens,
                                                      .count = count};
        break;
    case 3:
        message.type = OR_MSG_PSI_REPLY;
        message.body.psi_reply = (or_psi_reply_t){.round = near_wide(input, known->round),
                                                  .node = near(input, 0),
                                                  .tokens = tokens,
                                                  .psi = psi,
                                                  .count = count};
        break;
    case 4:
        message.type = OR_MSG_VOCAB_REQUEST;
        message.body.vocab_request.hash = near_wide(input, target);
        break;
    default:
        message.type = OR_MSG_VOCABULARY;
        message.body.vocabulary = (or_vocabulary_t){.hash = near_wide(input, WRONG_HASH),
                                                    .unpacked_bytes = near(input, MANY),
                                                    .packed = bytes,
                                                    .packed_bytes = count};
    }
    say(edge, &message);
}

static void say_bytes(fuzz_input_t *input, hub_edge_t *edge)
{
    uint8_t frame[64];
    size_t count = 1 + fuzz_byte(input) % (sizeof frame - 1);
    for (size_t i = 0; i < count; i++) {
        frame[i] = fuzz_byte(input);
    }
    (void)or_channel_send(edge->channel, OR_PEER_HUB, frame, count);
}

// ---- acts ----

static void wait(fuzz_input_t *input, hub_edge_t *edge)
{
    static const uint32_t ms[] = {1, 20, 300, 1500, 6000, 12000, 31000, 60000};
    (void)edge;
    hub_world_run(&world, ms[fuzz_byte(input) % 8]);
}

static void leave(fuzz_input_t *input, hub_edge_t *edge)
{
    const or_message_t bye = {.type = OR_MSG_CANCEL, .body.cancel = {.reason = ""}};
    if (!fits(input)) {
        say(edge, &bye);
    }
    hub_world_leave(edge);
}

static void restart(fuzz_input_t *input, hub_edge_t *edge)
{
    (void)input;
    (void)edge;
    hub_world_restart(&world);
}

typedef void (*act_t)(fuzz_input_t *, hub_edge_t *);
static const act_t acts[] = {come,  generate, draft, judge,   wait,      complain,  resume,
                             leave, cancel,   cut,   restart, ask_stats, say_other, say_bytes};
enum { ACTS = sizeof acts / sizeof *acts };

static void act(fuzz_input_t *input)
{
    act_t what = acts[fuzz_byte(input) % ACTS];
    hub_edge_t *edge = &world.edges[fuzz_byte(input) % HUB_EDGES];
    if (edge->link != NULL || what == come || what == wait || what == restart) {
        what(input, edge);
        if (fits(input)) {
            hub_world_run(&world, 1);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input_t input = {data, size};
    uint8_t flags = fuzz_byte(&input);
    hub_world_init(&world, flags & 1, (flags & 2) == 0, (flags & 12) == 12);
    for (uint32_t i = 0; i < ACTS_MAX && input.left > 0; i++) {
        act(&input);
    }
    hub_world_end_all(&world);
    hub_world_fini(&world);
    return 0;
}
