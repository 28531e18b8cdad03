#include "tests/simulation/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "common/decode/methods.h"
#include "common/decode/token_tree.h"
#include "coordinator/coordinator.h"
#include "drafter/drafter.h"
#include "tests/support/test_support.h"
#include "verifier/verifier.h"

#define STEP_MAX_NS                                                                                \
    (50 * OR_NS_PER_MS) // the client's own timers are not visible: never leap over them

typedef struct {
    or_channel_t *channel;
    or_link_t *link;
    or_drafter_t *drafter; // NULL: down
} sim_drafter_t;

struct sim {
    sim_config_t config;
    or_virtual_clock_t clock;
    or_network_t *network;
    or_channel_t *hub_channel, *verifier_channel;
    or_link_t *hub_link, *verifier_link;
    or_coordinator_t *coordinator;
    or_verifier_t *verifier;
    sim_drafter_t drafters[2];
};

void sim_model_load(const char *path, uint32_t threads, uint32_t pages, sim_model_t *model)
{
    const or_model_options_t options = {
        .threads = threads, .rows_max = OR_TREE_NODES_MAX + 1, .pages_max = pages};
    memset(model, 0, sizeof *model);
    if (or_gguf_open(path, &model->gguf) != OR_OK ||
        or_vocab_load(model->gguf, &model->vocab) != OR_OK ||
        or_model_load(model->gguf, &options, &model->model) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
}

void sim_model_free(sim_model_t *model)
{
    or_model_destroy(&model->model);
    or_vocab_destroy(&model->vocab);
    or_gguf_close(&model->gguf);
}

const or_clock_t *sim_clock(sim_t *sim)
{
    return &sim->clock.clock;
}

static void start_drafter(sim_t *sim, const sim_model_t *model, sim_drafter_t *place)
{
    if (place->drafter != NULL || model == NULL) {
        return;
    }
    const or_drafter_config_t config = {
        .nodes_max = OR_TREE_NODES_MAX, .sessions_max = 4, .gguf = model->gguf};
    or_hello_t hello = or_drafter_hello(&config, model->gguf, model->model, model->vocab);
    assert_int_equal(or_network_edge(sim->network, &place->channel), OR_OK);
    assert_int_equal(
        or_link_create(place->channel, sim_clock(sim), &hello, OR_LINK_HEARTBEAT_MS, &place->link),
        OR_OK);
    assert_int_equal(or_drafter_create(&config, model->model, model->vocab, place->link,
                                       sim_clock(sim), &place->drafter),
                     OR_OK);
}

void sim_start(sim_t *sim, sim_role_t role)
{
    if (role == SIM_VERIFIER && sim->verifier == NULL) {
        const or_verifier_config_t config = {.nodes_max = OR_TREE_NODES_MAX, .sessions_max = 4};
        const sim_model_t *model = sim->config.target;
        or_hello_t hello = or_verifier_hello(&config, model->gguf, model->model, model->vocab);
        assert_int_equal(or_network_edge(sim->network, &sim->verifier_channel), OR_OK);
        assert_int_equal(or_link_create(sim->verifier_channel, sim_clock(sim), &hello,
                                        OR_LINK_HEARTBEAT_MS, &sim->verifier_link),
                         OR_OK);
        assert_int_equal(or_verifier_create(&config, model->model, model->vocab, sim->verifier_link,
                                            sim_clock(sim), &sim->verifier),
                         OR_OK);
    }
    if (role == SIM_DRAFTER) {
        start_drafter(sim, sim->config.draft, &sim->drafters[0]);
    }
    if (role == SIM_SECOND_DRAFTER) {
        start_drafter(sim, sim->config.second, &sim->drafters[1]);
    }
}

void sim_crash(sim_t *sim, sim_role_t role)
{
    if (role == SIM_VERIFIER) {
        or_verifier_destroy(&sim->verifier);
        or_link_destroy(&sim->verifier_link);
        or_channel_destroy(&sim->verifier_channel);
    } else {
        sim_drafter_t *place = &sim->drafters[role == SIM_SECOND_DRAFTER];
        or_drafter_destroy(&place->drafter);
        or_link_destroy(&place->link);
        or_channel_destroy(&place->channel);
    }
}

sim_t *sim_create(const sim_config_t *config)
{
    sim_t *sim = calloc(1, sizeof *sim);
    sim->config = *config;
    or_virtual_clock_init(&sim->clock, OR_NS_PER_S);
    assert_int_equal(or_network_create(&sim->clock, config->seed, &config->faults, &sim->network),
                     OR_OK);
    assert_int_equal(or_network_hub(sim->network, &sim->hub_channel), OR_OK);
    or_coordinator_config_t hub = or_coordinator_config_default();
    hub.expect_drafter = config->draft != NULL;
    hub.gguf = config->target->gguf;
    hub.waiting_max = config->waiting_max > 0 ? config->waiting_max : hub.waiting_max;
    hub.draft_timeout_ms =
        config->draft_timeout_ms > 0 ? config->draft_timeout_ms : hub.draft_timeout_ms;
    assert_int_equal(
        or_link_create(sim->hub_channel, sim_clock(sim), NULL, hub.heartbeat_ms, &sim->hub_link),
        OR_OK);
    assert_int_equal(or_coordinator_create(&hub, config->target->vocab, sim->hub_link,
                                           sim_clock(sim), &sim->coordinator),
                     OR_OK);
    sim_start(sim, SIM_VERIFIER);
    sim_start(sim, SIM_DRAFTER);
    sim_start(sim, SIM_SECOND_DRAFTER);
    return sim;
}

void sim_destroy(sim_t *sim)
{
    sim_crash(sim, SIM_SECOND_DRAFTER);
    sim_crash(sim, SIM_DRAFTER);
    sim_crash(sim, SIM_VERIFIER);
    or_coordinator_destroy(&sim->coordinator);
    or_link_destroy(&sim->hub_link);
    or_channel_destroy(&sim->hub_channel);
    or_network_destroy(&sim->network);
    free(sim);
}

int64_t sim_now_ns(const sim_t *sim)
{
    return sim->clock.now_ns;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// Every role once; returns when the next thing happens.
static int64_t turn(sim_t *sim)
{
    int64_t due = or_coordinator_turn(sim->coordinator);
    if (sim->verifier != NULL) {
        due = earlier(due, or_verifier_turn(sim->verifier));
        assert_null(or_verifier_refused(sim->verifier));
    }
    for (int i = 0; i < 2; i++) {
        if (sim->drafters[i].drafter != NULL) {
            due = earlier(due, or_drafter_turn(sim->drafters[i].drafter));
            assert_null(or_drafter_refused(sim->drafters[i].drafter));
        }
    }
    if (sim->config.guest != NULL) {
        sim->config.guest(sim, sim->config.guest_context);
    }
    return earlier(due, or_network_next_ns(sim->network));
}

or_channel_t *sim_connect(sim_t *sim)
{
    or_channel_t *channel = NULL;
    assert_int_equal(or_network_edge(sim->network, &channel), OR_OK);
    return channel;
}

static void take(const or_generate_delta_t *delta, sim_result_t *result)
{
    assert_int_equal(delta->offset, result->count);
    assert_int_equal(delta->text_offset, result->text_bytes);
    assert_true(result->count + delta->count <= sizeof result->tokens / sizeof *result->tokens);
    assert_true(result->text_bytes + delta->text_bytes < sizeof result->text);
    for (uint32_t i = 0; i < delta->count; i++) {
        result->tokens[result->count++] = (int32_t)delta->tokens[i];
    }
    if (delta->text_bytes > 0) {
        memcpy(result->text + result->text_bytes, delta->text, delta->text_bytes);
    }
    result->text_bytes += delta->text_bytes;
    result->finish = delta->finish;
    result->stats = delta->stats;
    strncpy(result->error, delta->error, sizeof result->error - 1);
}

static or_client_t *connect_client(sim_t *sim, const or_generate_request_t *request)
{
    or_channel_t *channel = sim_connect(sim);
    or_client_t *client = NULL;
    const or_client_config_t config = {.busy_wait_s = OR_CLIENT_BUSY_WAIT_S};
    assert_int_equal(
        or_client_create_on(channel, sim_clock(sim), "memory", &config, request, &client), OR_OK);
    return client;
}

// What the client has; true if that was something.
static bool look_at_client(sim_t *sim, or_client_t *client, sim_result_t *result)
{
    or_message_t message = {0};
    or_status_t status = or_client_next(client, sim->clock.now_ns, &message);
    if (status == OR_OK) {
        take(&message.body.generate_delta, result);
        or_message_fini(&message);
    } else if (status != OR_ERR_AGAIN) {
        fail_msg("client: %s", or_error_text());
    }
    return status == OR_OK;
}

// Move the clock to `due`, or to the next frame if that lands before.
static void advance(sim_t *sim, int64_t due)
{
    due = earlier(due, or_network_next_ns(sim->network));
    due = earlier(due, sim->clock.now_ns + STEP_MAX_NS);
    sim->clock.now_ns = due > sim->clock.now_ns ? due : sim->clock.now_ns;
}

void sim_generate(sim_t *sim, const or_generate_request_t *request, uint32_t limit_s,
                  sim_hook_t hook, void *context, sim_result_t *result)
{
    memset(result, 0, sizeof *result);
    or_client_t *client = connect_client(sim, request);
    int64_t end = sim->clock.now_ns + limit_s * OR_NS_PER_S;
    while (result->finish == OR_FINISH_NONE && sim->clock.now_ns < end) {
        int64_t due = turn(sim);
        if (look_at_client(sim, client, result)) {
            continue;
        }
        if (hook != NULL) {
            hook(sim, context, result);
        }
        advance(sim, due);
    }
    or_client_destroy(&client);
}

void sim_generate_all(sim_t *sim, const or_generate_request_t *requests, uint32_t count,
                      uint32_t limit_s, sim_result_t *results)
{
    or_client_t *clients[64];
    int64_t end = sim->clock.now_ns + limit_s * OR_NS_PER_S;
    uint32_t left = count;
    assert_true(count <= sizeof clients / sizeof *clients);
    memset(results, 0, count * sizeof *results);
    for (uint32_t i = 0; i < count; i++) {
        clients[i] = connect_client(sim, &requests[i]);
    }
    while (left > 0 && sim->clock.now_ns < end) {
        int64_t due = turn(sim);
        left = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (results[i].finish == OR_FINISH_NONE) {
                look_at_client(sim, clients[i], &results[i]);
                left += results[i].finish == OR_FINISH_NONE;
            } else {
                or_client_destroy(&clients[i]); // as a process that has its text ends
            }
        }
        advance(sim, due);
    }
    for (uint32_t i = 0; i < count; i++) {
        or_client_destroy(&clients[i]);
    }
}

or_generate_request_t sim_request(const char *prompt, uint32_t max_tokens)
{
    or_sampling_t sampling = or_sampling_default();
    sampling.temperature = 0;
    return (or_generate_request_t){
        .prompt = (const uint8_t *)prompt,
        .prompt_bytes = (uint32_t)strlen(prompt),
        .max_tokens = max_tokens,
        .sampling = sampling,
        .seed = 1,
        .has_seed = true,
        .draft_method = OR_DRAFT_COUPLED,
        .accept_rule = OR_ACCEPT_COUPLED,
        .draft_nodes = 16,
        .draft_depth = 16,
    };
}
