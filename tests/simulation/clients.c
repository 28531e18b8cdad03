#include "tests/simulation/cluster_internal.h"

#include <string.h>

#include "common/decode/methods.h"
#include "tests/support/test_support.h"

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
    client->channel = sim_connect_role(sim, SIM_CLIENT);
    sim_at_work(sim, SIM_CLIENT, true);
    or_status_t status =
        or_requests_create(client->channel, sim_clock(sim), &config, 1, &client->client);
    if (status == OR_OK) {
        or_requests_begin(client->client, 0, request);
    }
    sim_at_work(sim, SIM_CLIENT, false);
    if (status != OR_OK) {
        take_failure(sim, result);
    }
}

static void look_at_client(sim_t *sim, or_requests_t *client, sim_result_t *result)
{
    uint32_t slot;
    or_message_t message = {0};
    sim_at_work(sim, SIM_CLIENT, true);
    or_status_t status = or_requests_next(client, sim->clock.now_ns, &slot, &message);
    sim_at_work(sim, SIM_CLIENT, false);
    if (status == OR_OK) {
        take(&message.body.generate_delta, sim->clock.now_ns, result);
        sim->written += message.body.generate_delta.count;
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
        int64_t due = sim_turn(sim);
        left = look_at_clients(sim, count, results);
        sim->changed = false;
        if (hook != NULL) {
            hook(sim, context, results);
        }
        if (!sim->changed) {
            sim_advance(sim, due, or_network_traffic(sim->network) != traffic);
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

// Look at all clients; those that have all of their text begin the next.
static void go_on(sim_t *sim, or_generate_request_t *requests, uint32_t count,
                  const sim_load_t *load, sim_result_t *results)
{
    for (uint32_t i = 0; i < count; i++) {
        look_at_client(sim, sim->clients[i].client, &results[i]);
        if (results[i].finish != OR_FINISH_NONE) {
            load->ended(load->context, i, &results[i], &requests[i]);
            memset(&results[i], 0, sizeof results[i]);
            or_requests_begin(sim->clients[i].client, 0, &requests[i]);
        }
    }
}

double sim_load(sim_t *sim, or_generate_request_t *requests, uint32_t count, const sim_load_t *load,
                sim_result_t *results)
{
    int64_t warm_ns = sim->clock.now_ns + (int64_t)(load->warm_s * (double)OR_NS_PER_S);
    int64_t end_ns = warm_ns + (int64_t)(load->seconds * (double)OR_NS_PER_S);
    uint64_t before = 0;
    assert_true(count <= CLIENTS_MAX);
    memset(results, 0, count * sizeof *results);
    for (uint32_t i = 0; i < count; i++) {
        connect_client(sim, i, &requests[i], &results[i]);
    }
    while (sim->clock.now_ns < end_ns) {
        uint64_t traffic = or_network_traffic(sim->network);
        before = sim->clock.now_ns < warm_ns ? sim->written : before;
        int64_t due = sim_turn(sim);
        go_on(sim, requests, count, load, results);
        sim_advance(sim, due, or_network_traffic(sim->network) != traffic);
    }
    for (uint32_t i = 0; i < count; i++) {
        or_requests_destroy(&sim->clients[i].client);
    }
    return (double)(sim->written - before) / load->seconds;
}

const char *sim_prompt(uint32_t i)
{
    static const char *const prompts[] = {"Once upon a time there was a little girl who",
                                          "There was once a king who had three sons, and",
                                          "The fox said to the wolf:", "In a dark forest"};
    return prompts[i % (sizeof prompts / sizeof *prompts)];
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
