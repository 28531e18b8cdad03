#include "tests/fuzz/hub_world.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log/log.h"
#include "tests/fuzz/vocabularies.h"

#define HEARTBEAT_MS 5000u
#define TURNS_MAX 100u // at one time
#define WORD 6u        // that an honest verifier writes
#define END_S 600u     // for all texts to end
#define SMALL_BYTES ((uint64_t)512 << 10)
#define LARGE_BYTES ((uint64_t)32 << 20)

// ---- the journal's folder ----

static char folder[64];

static void empty_folder(void)
{
    DIR *files = opendir(folder);
    const struct dirent *file;
    char path[512];
    while (files != NULL && (file = readdir(files)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", folder, file->d_name);
        unlink(path); // fails for "." and ".."
    }
    if (files != NULL) {
        closedir(files);
    }
}

static void remove_folder(void)
{
    empty_folder();
    rmdir(folder);
}

// Make the folder in memory, if the system has such a place.
static void make_folder(void)
{
    if (folder[0] == '\0') {
        strcpy(folder,
               access("/dev/shm", W_OK) == 0 ? "/dev/shm/fuzz_hub_XXXXXX" : "/tmp/fuzz_hub_XXXXXX");
        const char *made = mkdtemp(folder);
        assert(made != NULL);
        atexit(remove_folder);
    }
}

static void open_journal(hub_world_t *w)
{
    const or_journal_config_t config = {.path = folder,
                                        .retention_s = 0,
                                        .abandoned_s = 60,
                                        .clock = &w->clock.clock,
                                        .boot = "boot"};
    or_status_t status = or_journal_open_with(&config, &w->journal);
    assert(status == OR_OK);
    w->config.journal = w->journal;
}

// ---- the hub ----

static void start(hub_world_t *w)
{
    or_status_t status = or_network_hub(w->network, &w->channel);
    assert(status == OR_OK);
    status = or_link_create(w->channel, &w->clock.clock, NULL, HEARTBEAT_MS, &w->link);
    assert(status == OR_OK);
    if (w->durable) {
        open_journal(w);
    }
    status = or_coordinator_create(&w->config, fuzz_vocabulary(0), w->link, &w->clock.clock,
                                   &w->coordinator);
    assert(status == OR_OK);
}

static void stop(hub_world_t *w)
{
    or_coordinator_destroy(&w->coordinator);
    or_journal_close(&w->journal);
    w->config.journal = NULL;
    or_link_destroy(&w->link);
    or_channel_destroy(&w->channel);
}

static or_coordinator_config_t usual_config(or_ledger_t *ledger, bool keeps)
{
    or_coordinator_config_t config = or_coordinator_config_default();
    config.sessions_max = 3;
    config.waiting_max = 4;
    config.verifier_timeout_ms = 10000;
    config.heartbeat_ms = HEARTBEAT_MS;
    config.resume_ms = keeps ? 30000 : 0;
    config.ledger = ledger;
    return config;
}

void hub_world_init(hub_world_t *w, bool small, bool keeps, bool durable)
{
    const or_network_faults_t none = {0};
    or_log_init("fuzz", OR_LOG_ERROR);
    *w = (hub_world_t){.durable = durable};
    if (durable) {
        make_folder();
    }
    uint64_t room = small ? SMALL_BYTES : LARGE_BYTES;
    or_virtual_clock_init(&w->clock, OR_NS_PER_S);
    or_status_t status = or_network_create(&w->clock, 1, &none, &w->network);
    assert(status == OR_OK);
    status = or_ledger_create(room, room / 4, &w->ledger);
    assert(status == OR_OK);
    w->config = usual_config(w->ledger, keeps);
    start(w);
}

void hub_world_fini(hub_world_t *w)
{
    or_ledger_usage_t usage;
    for (uint32_t i = 0; i < HUB_EDGES + 2; i++) {
        hub_world_leave(&w->edges[i]);
    }
    stop(w);
    or_ledger_usage(w->ledger, &usage);
    for (uint32_t i = 0; i < OR_HELD_KINDS; i++) {
        assert(usage.bytes[i] == 0);
    }
    or_ledger_destroy(&w->ledger);
    or_network_destroy(&w->network);
    if (w->durable) {
        empty_folder();
    }
}

void hub_world_restart(hub_world_t *w)
{
    stop(w);
    start(w);
}

// ---- peers ----

void hub_world_leave(hub_edge_t *edge)
{
    or_link_destroy(&edge->link);
    or_channel_destroy(&edge->channel);
    *edge = (hub_edge_t){0};
}

void hub_world_join(hub_world_t *w, hub_edge_t *edge, const or_hello_t *hello, bool inside)
{
    hub_world_leave(edge);
    or_status_t status = or_network_edge(w->network, &edge->channel);
    assert(status == OR_OK);
    or_network_set_inside(edge->channel, inside);
    status = or_link_create(edge->channel, &w->clock.clock, hello, HEARTBEAT_MS, &edge->link);
    assert(status == OR_OK);
    edge->role = hello->role;
}

// Return the record in which the edge notes what it hears of this text.
static hub_known_t *note(hub_edge_t *edge, or_session_id_t session)
{
    for (uint32_t i = 0; i < HUB_KNOWN; i++) {
        if (edge->known[i].session.value == session.value) {
            edge->last = i;
            return &edge->known[i];
        }
    }
    edge->last = (edge->last + 1) % HUB_KNOWN;
    edge->known[edge->last] = (hub_known_t){.session = session};
    return &edge->known[edge->last];
}

static void note_tree(hub_known_t *known, const or_draft_tree_t *tree)
{
    known->round = tree->round;
    known->length = tree->base_length;
    known->hash = tree->base_hash;
    known->count = tree->count < HUB_NODES ? tree->count : HUB_NODES;
    for (uint32_t i = 0; i < known->count; i++) {
        known->tokens[i] = tree->tokens[i];
        known->back[i] = tree->back[i];
    }
    known->asked = true;
}

static void note_delta(hub_world_t *w, hub_edge_t *edge, hub_known_t *known,
                       const or_generate_delta_t *delta)
{
    known->request = delta->request;
    known->length = delta->offset + delta->count;
    known->text_bytes = delta->text_offset + delta->text_bytes;
    if (delta->token_bytes == OR_SESSION_TOKEN_BYTES) {
        known->secret = w->secret_count++ % HUB_TOKENS;
        memcpy(w->secrets[known->secret], delta->token, OR_SESSION_TOKEN_BYTES);
    }
    edge->text_done |= delta->finish == OR_FINISH_LENGTH;
    edge->refused |= delta->finish == OR_FINISH_ERROR;
}

static void hear(hub_world_t *w, hub_edge_t *edge, const or_message_t *message)
{
    hub_known_t *known = note(edge, message->session);
    const or_prefix_t *prefix = &message->body.prefix;
    const or_verdict_t *verdict = &message->body.verdict;
    if (message->type == OR_MSG_OPEN_SESSION) {
        known->logprobs = message->body.open_session.logprobs;
    } else if (message->type == OR_MSG_PREFIX) {
        known->round = prefix->round;
        known->length = prefix->start + prefix->count;
        known->hash = prefix->hash;
    } else if (message->type == OR_MSG_VERDICT) {
        known->round = verdict->round + 1;
        known->length = verdict->base_length + verdict->accepted_count + 1;
        known->hash = verdict->hash;
    } else if (message->type == OR_MSG_DRAFT_TREE) {
        note_tree(known, &message->body.draft_tree);
    } else if (message->type == OR_MSG_GENERATE_DELTA) {
        note_delta(w, edge, known, &message->body.generate_delta);
    }
}

static void listen(hub_world_t *w, hub_edge_t *edge)
{
    or_link_event_t event;
    or_peer_t from;
    or_message_t message = {0};
    while (or_link_receive(edge->link, &event, &from, &message) == OR_OK) {
        if (event == OR_LINK_MESSAGE) {
            hear(w, edge, &message);
            or_message_fini(&message);
        }
    }
}

// Answer as a verifier for which no guess is right and the next token is always the same.
static void answer(hub_edge_t *edge, hub_known_t *known)
{
    static const uint32_t word = WORD;
    uint32_t best[OR_LOGPROBS_MAX];
    float values[OR_LOGPROBS_MAX];
    for (uint32_t i = 0; i < OR_LOGPROBS_MAX; i++) {
        best[i] = WORD + i;
        values[i] = -1.0F - (float)i;
    }
    const or_token_logprob_t logprob = {.token = WORD,
                                        .logprob = -1.0F,
                                        .top_tokens = best,
                                        .top_logprobs = values,
                                        .top_count = known->logprobs > 0 ? known->logprobs - 1 : 0};
    const or_message_t message = {
        .type = OR_MSG_VERDICT,
        .session = known->session,
        .body.verdict = {.round = known->round,
                         .base_length = known->length,
                         .next = word,
                         .hash = or_prefix_hash(known->hash, &word, 1),
                         .logprobs = known->logprobs > 0 ? &logprob : NULL,
                         .logprob_count = known->logprobs > 0}};
    known->asked = false;
    or_status_t status = or_link_send(edge->link, OR_PEER_HUB, &message);
    assert(status == OR_OK);
}

static void work(hub_edge_t *edge)
{
    for (uint32_t i = 0; edge->honest && i < HUB_KNOWN; i++) {
        if (edge->known[i].asked) {
            answer(edge, &edge->known[i]);
        }
    }
}

// ---- what must hold ----

static void check_session(const or_csession_t *session, or_ledger_usage_t *held, uint32_t *live)
{
    assert(session->held.request.bytes >= or_csession_request_bytes(session));
    assert(session->held.answer.bytes >= or_csession_answer_bytes(session) ||
           session->finish == OR_FINISH_ERROR || session->finish == OR_FINISH_CANCELLED);
    held->bytes[OR_HELD_REQUESTS] += session->held.request.bytes;
    held->bytes[OR_HELD_ANSWERS] += session->held.answer.bytes;
    *live += or_csession_is_live(session);
}

static void check(hub_world_t *w)
{
    const or_coordinator_t *c = w->coordinator;
    or_ledger_usage_t held = {0}, usage;
    uint32_t live = 0;
    for (uint32_t i = 0; i < c->sessions.places; i++) {
        if (c->sessions.all[i] != NULL) {
            check_session(c->sessions.all[i], &held, &live);
        }
    }
    for (uint32_t i = 0; i < OR_PEERS_MAX; i++) {
        assert(c->peers.members[i].peer.value != 0 || c->peers.members[i].unread.bytes == 0);
        held.bytes[OR_HELD_UNSENT] += c->peers.members[i].unread.bytes;
    }
    assert(live <= w->config.sessions_max);
    or_ledger_usage(w->ledger, &usage);
    for (uint32_t i = 0; i < OR_HELD_JOURNAL; i++) {
        assert(usage.bytes[i] == held.bytes[i]);
    }
    assert(w->journal != NULL || usage.bytes[OR_HELD_JOURNAL] == 0);
}

// ---- time ----

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t turn(hub_world_t *w)
{
    int64_t due = or_coordinator_turn(w->coordinator);
    for (uint32_t i = 0; i < HUB_EDGES + 2; i++) {
        hub_edge_t *edge = &w->edges[i];
        if (edge->link != NULL) {
            listen(w, edge);
            due = sooner(due, or_link_tick(edge->link));
        }
    }
    return due;
}

// Run everything that happens at this time. Returns the time of the next event.
static int64_t settle(hub_world_t *w)
{
    for (uint32_t i = 0; i < TURNS_MAX; i++) {
        uint64_t traffic = or_network_traffic(w->network);
        int64_t due = turn(w);
        if (due > w->clock.now_ns && traffic == or_network_traffic(w->network)) {
            check(w);
            return sooner(due, or_network_next_landing_ns(w->network));
        }
    }
    assert(!"the hub comes to rest");
    return OR_TIME_NEVER;
}

// An honest verifier takes a millisecond.
static bool is_asked(const hub_world_t *w)
{
    const hub_edge_t *verifier = &w->edges[HUB_EDGES];
    for (uint32_t i = 0; verifier->honest && i < HUB_KNOWN; i++) {
        if (verifier->known[i].asked) {
            return true;
        }
    }
    return false;
}

void hub_world_run(hub_world_t *w, uint32_t ms)
{
    int64_t end = w->clock.now_ns + ms * OR_NS_PER_MS;
    for (;;) {
        int64_t due = settle(w);
        int64_t soon = w->clock.now_ns + OR_NS_PER_MS;
        due = is_asked(w) || due < soon ? soon : due;
        if (due > end) {
            w->clock.now_ns = end;
            return;
        }
        w->clock.now_ns = due;
        work(&w->edges[HUB_EDGES]);
    }
}

// ---- the end ----

static bool goes_on(const hub_world_t *w)
{
    const or_coordinator_t *c = w->coordinator;
    for (uint32_t i = 0; i < c->sessions.places; i++) {
        const or_csession_t *session = c->sessions.all[i];
        if (session != NULL &&
            (or_csession_is_live(session) || session->phase == OR_PHASE_WAITING)) {
            return true;
        }
    }
    return false;
}

static void join_honest(hub_world_t *w)
{
    const or_vocab_t *vocab = fuzz_vocabulary(0);
    const or_hello_t verifier = {.role = OR_ROLE_VERIFIER,
                                 .software = "fuzz",
                                 .arith_id = "canonical",
                                 .vocab_hash = or_vocab_hash(vocab),
                                 .vocab_size = or_vocab_size(vocab),
                                 .model = "m.gguf",
                                 .owner = "",
                                 .context_max = 64,
                                 .nodes_max = 32,
                                 .sessions_max = 8};
    const or_hello_t client = {
        .role = OR_ROLE_CLIENT, .software = "fuzz", .arith_id = "", .model = "", .owner = "zoe"};
    hub_world_join(w, &w->edges[HUB_EDGES], &verifier, false);
    w->edges[HUB_EDGES].honest = true;
    hub_world_join(w, &w->edges[HUB_EDGES + 1], &client, false);
}

static void ask(hub_edge_t *client, uint64_t request)
{
    static const uint32_t prompt[] = {1, 6, 7};
    const or_message_t message = {.type = OR_MSG_GENERATE_REQUEST,
                                  .body.generate_request = {.request = request,
                                                            .prompt_tokens = prompt,
                                                            .prompt_token_count = 3,
                                                            .max_tokens = 3,
                                                            .sampling = or_sampling_default(),
                                                            .plain = true,
                                                            .accept_rule = OR_ACCEPT_COUPLED,
                                                            .ignore_end = true}};
    or_status_t status = or_link_send(client->link, OR_PEER_HUB, &message);
    assert(status == OR_OK);
}

void hub_world_end_all(hub_world_t *w)
{
    hub_edge_t *client = &w->edges[HUB_EDGES + 1];
    for (uint32_t i = 0; i < HUB_EDGES; i++) {
        if (w->edges[i].role == OR_ROLE_VERIFIER) {
            hub_world_leave(&w->edges[i]);
        }
    }
    join_honest(w);
    hub_world_run(w, 1);
    ask(client, 1);
    for (uint64_t s = 2; !client->text_done || goes_on(w); s++) {
        assert(s < END_S);
        hub_world_run(w, 1000);
        if (client->refused) { // too busy: it comes back
            client->refused = false;
            ask(client, s);
        }
    }
}
