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

// A process at the edge of the network.
typedef struct {
    or_channel_t *channel; // NULL: down
    or_link_t *link;
} sim_edge_t;

typedef struct {
    or_channel_t *channel; // the client's own
    or_requests_t *client; // NULL: there is none
} sim_client_t;
#define CLIENTS_MAX 64
#define ABANDONED_S 86400 // what a journal keeps of texts that nobody comes back to

struct sim {
    sim_config_t config;
    or_virtual_clock_t clock;
    or_network_t *network;
    bool cut[SIM_ROLES];
    bool changed;                // by the hook; the roles see the change before the clock moves
    sim_edge_t edges[SIM_ROLES]; // of verifier and drafters
    sim_client_t clients[CLIENTS_MAX];
    or_verifier_t *verifier;
    or_drafter_t *drafters[2];
    or_channel_t *hub_channel;
    or_link_t *hub_link;
    or_journal_t *journal;
    or_coordinator_t *coordinator;
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

// ---- processes ----

static or_channel_t *connect_role(sim_t *sim, sim_role_t role)
{
    or_channel_t *channel = sim_connect(sim);
    if (sim->config.lines[role] != NULL) {
        or_network_set_line(channel, sim->config.lines[role]);
    }
    if (sim->cut[role]) {
        or_network_cut(channel);
    }
    return channel;
}

static or_link_t *start_edge(sim_t *sim, sim_role_t role, const or_hello_t *hello)
{
    sim_edge_t *edge = &sim->edges[role];
    edge->channel = connect_role(sim, role);
    assert_int_equal(
        or_link_create(edge->channel, sim_clock(sim), hello, OR_LINK_HEARTBEAT_MS, &edge->link),
        OR_OK);
    return edge->link;
}

static void start_drafter(sim_t *sim, sim_role_t role, const sim_model_t *model)
{
    if (model == NULL) {
        return;
    }
    const or_drafter_config_t config = {.nodes_max = OR_TREE_NODES_MAX,
                                        .sessions_max = 4,
                                        .gguf = model->gguf,
                                        .step_delay_us = sim->config.draft_step_us};
    or_hello_t hello = or_drafter_hello(&config, model->gguf, model->model, model->vocab);
    or_link_t *link = start_edge(sim, role, &hello);
    assert_int_equal(or_drafter_create(&config, model->model, model->vocab, link, sim_clock(sim),
                                       &sim->drafters[role - SIM_DRAFTER]),
                     OR_OK);
}

static void start_verifier(sim_t *sim)
{
    const or_verifier_config_t config = {.nodes_max = OR_TREE_NODES_MAX,
                                         .sessions_max = 4,
                                         .step_delay_us = sim->config.target_step_us};
    const sim_model_t *model = sim->config.target;
    or_hello_t hello = or_verifier_hello(&config, model->gguf, model->model, model->vocab);
    or_link_t *link = start_edge(sim, SIM_VERIFIER, &hello);
    assert_int_equal(or_verifier_create(&config, model->model, model->vocab, link, sim_clock(sim),
                                        &sim->verifier),
                     OR_OK);
}

static void start_coordinator(sim_t *sim)
{
    const sim_config_t *config = &sim->config;
    or_coordinator_config_t hub = or_coordinator_config_default();
    hub.expect_drafter = config->draft != NULL;
    hub.gguf = config->target->gguf;
    hub.waiting_max = config->waiting_max > 0 ? config->waiting_max : hub.waiting_max;
    hub.draft_timeout_ms =
        config->draft_timeout_ms > 0 ? config->draft_timeout_ms : hub.draft_timeout_ms;
    if (config->journal != NULL) {
        assert_int_equal(or_journal_open(config->journal, 0, ABANDONED_S, &sim->journal), OR_OK);
    }
    hub.journal = sim->journal;
    assert_int_equal(or_network_hub(sim->network, &sim->hub_channel), OR_OK);
    assert_int_equal(
        or_link_create(sim->hub_channel, sim_clock(sim), NULL, hub.heartbeat_ms, &sim->hub_link),
        OR_OK);
    assert_int_equal(or_coordinator_create(&hub, config->target->vocab, sim->hub_link,
                                           sim_clock(sim), &sim->coordinator),
                     OR_OK);
}

static bool is_up(const sim_t *sim, sim_role_t role)
{
    return role == SIM_COORDINATOR ? sim->coordinator != NULL : sim->edges[role].link != NULL;
}

void sim_start(sim_t *sim, sim_role_t role)
{
    if (is_up(sim, role)) {
        return;
    }
    sim->changed = true;
    switch (role) {
    case SIM_VERIFIER:
        start_verifier(sim);
        break;
    case SIM_DRAFTER:
        start_drafter(sim, role, sim->config.draft);
        break;
    case SIM_SECOND_DRAFTER:
        start_drafter(sim, role, sim->config.second);
        break;
    case SIM_COORDINATOR:
        start_coordinator(sim);
        break;
    default:
        fail_msg("no role to start: %d", (int)role);
    }
}

void sim_crash(sim_t *sim, sim_role_t role)
{
    if (!is_up(sim, role)) {
        return;
    }
    sim->changed = true;
    switch (role) {
    case SIM_VERIFIER:
        or_verifier_destroy(&sim->verifier);
        break;
    case SIM_DRAFTER:
    case SIM_SECOND_DRAFTER:
        or_drafter_destroy(&sim->drafters[role - SIM_DRAFTER]);
        break;
    case SIM_COORDINATOR:
        or_coordinator_destroy(&sim->coordinator);
        or_link_destroy(&sim->hub_link);
        or_channel_destroy(&sim->hub_channel);
        or_journal_close(&sim->journal);
        return;
    default:
        fail_msg("no role to crash: %d", (int)role);
    }
    or_link_destroy(&sim->edges[role].link);
    or_channel_destroy(&sim->edges[role].channel);
}

sim_t *sim_create(const sim_config_t *config)
{
    sim_t *sim = calloc(1, sizeof *sim);
    sim->config = *config;
    or_virtual_clock_init(&sim->clock, OR_NS_PER_S);
    assert_int_equal(or_network_create(&sim->clock, config->seed, &config->faults, &sim->network),
                     OR_OK);
    sim_start(sim, SIM_COORDINATOR);
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
    sim_crash(sim, SIM_COORDINATOR);
    or_network_destroy(&sim->network);
    free(sim);
}

// ---- lines ----

// Collect the existing channels of a role; returns their number.
static uint32_t channels_of(const sim_t *sim, sim_role_t role, or_channel_t **channels)
{
    uint32_t count = 0;
    for (uint32_t i = 0; role == SIM_CLIENT && i < CLIENTS_MAX; i++) {
        if (sim->clients[i].client != NULL) {
            channels[count++] = sim->clients[i].channel;
        }
    }
    if (role != SIM_CLIENT && sim->edges[role].channel != NULL) {
        channels[count++] = sim->edges[role].channel;
    }
    return count;
}

void sim_cut(sim_t *sim, sim_role_t role)
{
    or_channel_t *channels[CLIENTS_MAX];
    sim->changed = true;
    uint32_t count = channels_of(sim, role, channels);
    sim->cut[role] = true;
    for (uint32_t i = 0; i < count; i++) {
        or_network_cut(channels[i]);
    }
}

void sim_mend(sim_t *sim, sim_role_t role)
{
    or_channel_t *channels[CLIENTS_MAX];
    sim->changed = true;
    uint32_t count = channels_of(sim, role, channels);
    sim->cut[role] = false;
    for (uint32_t i = 0; i < count; i++) {
        or_network_mend(channels[i]);
    }
}

void sim_stall(sim_t *sim, sim_role_t role, int64_t until_ns)
{
    or_channel_t *channels[CLIENTS_MAX];
    sim->changed = true;
    uint32_t count = channels_of(sim, role, channels);
    for (uint32_t i = 0; i < count; i++) {
        or_network_stall(channels[i], until_ns);
    }
}

// ---- time ----

int64_t sim_now_ns(const sim_t *sim)
{
    return sim->clock.now_ns;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void at_work(const sim_t *sim, sim_role_t role, bool begins)
{
    if (sim->config.at_work != NULL) {
        sim->config.at_work(sim->config.at_work_context, role, begins);
    }
}

// Give a role that is up its turn; returns when it wants the next one.
static int64_t turn_of(sim_t *sim, sim_role_t role)
{
    int64_t due = OR_TIME_NEVER;
    if (!is_up(sim, role)) {
        return due;
    }
    at_work(sim, role, true);
    if (role == SIM_COORDINATOR) {
        due = or_coordinator_turn(sim->coordinator);
    } else if (role == SIM_VERIFIER) {
        due = or_verifier_turn(sim->verifier);
    } else {
        due = or_drafter_turn(sim->drafters[role - SIM_DRAFTER]);
    }
    at_work(sim, role, false);
    return due;
}

static void assert_nobody_refused(const sim_t *sim)
{
    assert_null(sim->verifier != NULL ? or_verifier_refused(sim->verifier) : NULL);
    for (int i = 0; i < 2; i++) {
        assert_null(sim->drafters[i] != NULL ? or_drafter_refused(sim->drafters[i]) : NULL);
    }
}

// Give every role one turn; returns when the next thing happens.
static int64_t turn(sim_t *sim)
{
    static const sim_role_t order[] = {SIM_COORDINATOR, SIM_VERIFIER, SIM_DRAFTER,
                                       SIM_SECOND_DRAFTER};
    int64_t due = OR_TIME_NEVER;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        due = earlier(due, turn_of(sim, order[i]));
    }
    assert_nobody_refused(sim);
    if (sim->config.guest != NULL) {
        sim->config.guest(sim, sim->config.guest_context);
    }
    return due;
}

or_channel_t *sim_connect(sim_t *sim)
{
    or_channel_t *channel = NULL;
    assert_int_equal(or_network_edge(sim->network, &channel), OR_OK);
    return channel;
}

static void take(const or_generate_delta_t *delta, int64_t now_ns, sim_result_t *result)
{
    assert_int_equal(delta->offset, result->count);
    assert_int_equal(delta->text_offset, result->text_bytes);
    assert_true(result->count + delta->count <= sizeof result->tokens / sizeof *result->tokens);
    assert_true(result->text_bytes + delta->text_bytes < sizeof result->text);
    if (delta->count > 0) {
        result->last_ns = now_ns;
    }
    if (delta->count > 0 && result->count == 0) {
        result->first_ns = now_ns;
        result->first_count = delta->count;
    }
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
    strncpy(result->note, delta->note, sizeof result->note - 1);
}

// Record why a client failed.
static void take_failure(const sim_t *sim, sim_result_t *result)
{
    if (!sim->config.clients_may_fail) {
        fail_msg("client: %s", or_error_text());
    }
    result->finish = OR_FINISH_ERROR;
    strncpy(result->error, or_error_text(), sizeof result->error - 1);
}

static void connect_client(sim_t *sim, uint32_t place, const or_generate_request_t *request,
                           sim_result_t *result)
{
    sim_client_t *client = &sim->clients[place];
    const or_requests_config_t config = {.endpoint = "memory",
                                         .busy_wait_s = OR_REQUESTS_BUSY_WAIT_S,
                                         .reconnect_wait_s = OR_REQUESTS_RECONNECT_WAIT_S};
    client->channel = connect_role(sim, SIM_CLIENT);
    at_work(sim, SIM_CLIENT, true);
    or_status_t status =
        or_requests_create(client->channel, sim_clock(sim), &config, 1, &client->client);
    if (status == OR_OK) {
        or_requests_begin(client->client, 0, request);
    }
    at_work(sim, SIM_CLIENT, false);
    if (status != OR_OK) {
        take_failure(sim, result);
    }
}

static void look_at_client(sim_t *sim, or_requests_t *client, sim_result_t *result)
{
    uint32_t slot;
    or_message_t message = {0};
    at_work(sim, SIM_CLIENT, true);
    or_status_t status = or_requests_next(client, sim->clock.now_ns, &slot, &message);
    at_work(sim, SIM_CLIENT, false);
    if (status == OR_OK) {
        take(&message.body.generate_delta, sim->clock.now_ns, result);
        or_message_fini(&message);
    } else if (status != OR_ERR_AGAIN) {
        take_failure(sim, result);
    }
}

// Look at all clients; returns how many do not have all of their text.
static uint32_t look_at_clients(sim_t *sim, uint32_t count, sim_result_t *results)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (results[i].finish == OR_FINISH_NONE) {
            look_at_client(sim, sim->clients[i].client, &results[i]);
            left += results[i].finish == OR_FINISH_NONE;
        } else {
            or_requests_destroy(&sim->clients[i].client); // as a process that has its text ends
        }
    }
    return left;
}

// Move the clock to `due`, or to the next frame if that arrives before. If a frame has arrived in a turn in
// which none was sent or taken, its receiver is at work: the frame waits until that is done.
static void advance(sim_t *sim, int64_t due, bool moved)
{
    due = earlier(due, moved ? or_network_next_ns(sim->network)
                             : or_network_next_landing_ns(sim->network));
    due = earlier(due, sim->clock.now_ns + STEP_MAX_NS);
    sim->clock.now_ns = due > sim->clock.now_ns ? due : sim->clock.now_ns;
}

static void generate(sim_t *sim, const or_generate_request_t *requests, uint32_t count,
                     uint32_t limit_s, sim_hook_t hook, void *context, sim_result_t *results)
{
    int64_t end = sim->clock.now_ns + limit_s * OR_NS_PER_S;
    uint32_t left = count;
    assert_true(count <= CLIENTS_MAX);
    memset(results, 0, count * sizeof *results);
    for (uint32_t i = 0; i < count; i++) {
        connect_client(sim, i, &requests[i], &results[i]);
    }
    while (left > 0 && sim->clock.now_ns < end) {
        uint64_t traffic = or_network_traffic(sim->network);
        int64_t due = turn(sim);
        left = look_at_clients(sim, count, results);
        sim->changed = false;
        if (hook != NULL) {
            hook(sim, context, results);
        }
        if (!sim->changed) {
            advance(sim, due, or_network_traffic(sim->network) != traffic);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        or_requests_destroy(&sim->clients[i].client);
    }
}

void sim_generate(sim_t *sim, const or_generate_request_t *request, uint32_t limit_s,
                  sim_hook_t hook, void *context, sim_result_t *result)
{
    generate(sim, request, 1, limit_s, hook, context, result);
}

void sim_generate_all(sim_t *sim, const or_generate_request_t *requests, uint32_t count,
                      uint32_t limit_s, sim_result_t *results)
{
    generate(sim, requests, count, limit_s, NULL, NULL, results);
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
