#include "tests/simulation/cluster_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/decode/token_tree.h"
#include "tests/support/test_support.h"

#define STEP_MAX_NS                                                                                \
    (50 * OR_NS_PER_MS) // the client's own timers are not visible: never leap over them

#define ABANDONED_S 86400 // what a journal keeps of texts that nobody comes back to

#define SESSIONS_MAX 4u

static uint32_t sessions_max(const sim_t *sim)
{
    return sim->config.sessions_max > 0 ? sim->config.sessions_max : SESSIONS_MAX;
}

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

or_channel_t *sim_connect_role(sim_t *sim, sim_role_t role)
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
    edge->channel = sim_connect_role(sim, role);
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
                                        .sessions_max = sessions_max(sim),
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
                                         .sessions_max = sessions_max(sim),
                                         .crowd_rows = sim->config.crowd_rows,
                                         .stats_ms = sim->config.stats_ms,
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

or_network_line_t sim_line(double rtt_ms)
{
    return (or_network_line_t){.one_way_ns = (int64_t)(rtt_ms * (double)OR_NS_PER_MS / 2)};
}

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

void sim_at_work(const sim_t *sim, sim_role_t role, bool begins)
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
    sim_at_work(sim, role, true);
    if (role == SIM_COORDINATOR) {
        due = or_coordinator_turn(sim->coordinator);
    } else if (role == SIM_VERIFIER) {
        due = or_verifier_turn(sim->verifier);
    } else {
        due = or_drafter_turn(sim->drafters[role - SIM_DRAFTER]);
    }
    sim_at_work(sim, role, false);
    return due;
}

static void assert_nobody_refused(const sim_t *sim)
{
    assert_null(sim->verifier != NULL ? or_verifier_refused(sim->verifier) : NULL);
    for (int i = 0; i < 2; i++) {
        assert_null(sim->drafters[i] != NULL ? or_drafter_refused(sim->drafters[i]) : NULL);
    }
}

int64_t sim_turn(sim_t *sim)
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

void sim_advance(sim_t *sim, int64_t due, bool moved)
{
    due = earlier(due, moved ? or_network_next_ns(sim->network)
                             : or_network_next_landing_ns(sim->network));
    due = earlier(due, sim->clock.now_ns + STEP_MAX_NS);
    sim->clock.now_ns = due > sim->clock.now_ns ? due : sim->clock.now_ns;
}
