#include "coordinator/coordinator_test_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coordinator/hub.h"

const uint32_t tokens[NODES] = {5, 6, 7, 8, 9, 10, 11, 12, 13};
const uint32_t chain[NODES] = {1, 1, 1, 1, 1, 1, 1, 1, 1};

#define WORDS 500u
uint32_t word_period;
const int32_t *word_script;
uint32_t word_script_begin, word_script_count;

uint32_t word_at(uint32_t length)
{
    const uint32_t place = length - word_script_begin;
    return word_script != NULL && place < word_script_count ? (uint32_t)word_script[place]
                                                            : 5 + length % word_period;
}

void join(world_t *w, edge_t *edge, or_hello_t hello)
{
    hello.software = "test";
    hello.arith_id = hello.arith_id != NULL ? hello.arith_id : "";
    hello.owner = hello.owner != NULL ? hello.owner : "";
    hello.model = "m.gguf";
    hello.context_max = hello.context_max > 0 ? hello.context_max : 64;
    hello.nodes_max = hello.nodes_max > 0 ? hello.nodes_max : 32;
    if (hello.vocab_size == 0 && hello.vocab_hash == or_vocab_hash(w->vocab)) {
        hello.vocab_size = or_vocab_size(w->vocab);
    }
    assert_int_equal(or_network_edge(w->network, &edge->channel), OR_OK);
    assert_int_equal(or_link_create(edge->channel, &w->clock.clock, &hello, 1000, &edge->link),
                     OR_OK);
}

void leave(edge_t *edge)
{
    or_link_destroy(&edge->link);
    or_channel_destroy(&edge->channel);
}

int world_setup_with(void **state, or_coordinator_config_t config)
{
    world_t *w = calloc(1, sizeof *w);
    const or_network_faults_t none = {0};
    word_period = WORDS;
    word_script = NULL;
    config.model_name = "target.gguf";
    config.verifier_timeout_ms = 5000;
    config.model_hash = TARGET;
    assert_int_equal(or_gguf_open(test_model("tales-1m-f16.gguf"), &w->gguf), OR_OK);
    config.gguf = w->gguf;
    assert_int_equal(or_vocab_load(w->gguf, &w->vocab), OR_OK);
    or_virtual_clock_init(&w->clock, OR_NS_PER_S);
    assert_int_equal(or_network_create(&w->clock, 1, &none, &w->network), OR_OK);
    assert_int_equal(or_network_hub(w->network, &w->hub_channel), OR_OK);
    assert_int_equal(or_link_create(w->hub_channel, &w->clock.clock, NULL, 1000, &w->hub), OR_OK);
    assert_int_equal(
        or_coordinator_create(&config, w->vocab, w->hub, &w->clock.clock, &w->coordinator), OR_OK);
    w->config = config;
    *state = w;
    return 0;
}

int world_setup(void **state)
{
    return world_setup_with(state, or_coordinator_config_default());
}

int world_setup_without_trust(void **state)
{
    or_coordinator_config_t config = or_coordinator_config_default();
    config.trust_loopback = false;
    return world_setup_with(state, config);
}

int world_setup_narrow(void **state)
{
    or_coordinator_config_t config = or_coordinator_config_default();
    config.sessions_max = 2;
    config.waiting_max = 3;
    return world_setup_with(state, config);
}

int world_setup_shared(void **state)
{
    or_coordinator_config_t config = or_coordinator_config_default();
    config.sessions_max = 3;
    config.sessions_per_owner_max = 1;
    return world_setup_with(state, config);
}

int world_teardown(void **state)
{
    world_t *w = *state;
    leave(&w->client);
    leave(&w->second);
    leave(&w->drafter);
    leave(&w->verifier);
    or_coordinator_destroy(&w->coordinator);
    or_link_destroy(&w->hub);
    or_channel_destroy(&w->hub_channel);
    or_network_destroy(&w->network);
    or_vocab_destroy(&w->vocab);
    or_gguf_close(&w->gguf);
    free(w->frames[0]);
    free(w->frames[1]);
    free(w);
    return 0;
}

static void keep_frame(world_t *w, const or_message_t *message)
{
    free(w->frames[0]);
    w->frames[0] = w->frames[1];
    w->frame_bytes[0] = w->frame_bytes[1];
    assert_int_equal(or_message_encode(message, &w->frames[1], &w->frame_bytes[1]), OR_OK);
}

// The path through the tree that goes along the target's words.
static uint32_t judge(const or_draft_tree_t *tree, uint32_t *path)
{
    uint32_t at = 0;
    uint32_t accepted = 0;
    for (uint32_t node = 1; node <= tree->count; node++) {
        if (node - tree->back[node - 1] == at &&
            tree->tokens[node - 1] == word_at(tree->base_length + accepted)) {
            path[accepted++] = at = node;
        }
    }
    return accepted;
}

static void send_verdict(world_t *w)
{
    or_message_t message = {
        .type = OR_MSG_VERDICT, .session = w->due_session, .body.verdict = w->due};
    if (w->alter != NULL) {
        w->alter(w, &message.body.verdict);
    }
    assert_int_equal(or_link_send(w->verifier.link, OR_PEER_HUB, &message), OR_OK);
    w->due_ns = 0;
}

static void begin_verdict(world_t *w, const or_message_t *message)
{
    const or_draft_tree_t *tree = &message->body.draft_tree;
    uint32_t ms = w->step_ms + tree->count * w->row_ms;
    uint32_t accepted = judge(tree, w->due_path);
    uint32_t next = word_at(tree->base_length + accepted);
    uint64_t hash = tree->base_hash;
    for (uint32_t i = 0; i < accepted; i++) {
        hash = or_prefix_hash(hash, &tree->tokens[w->due_path[i] - 1], 1);
    }
    w->due_session = message->session;
    w->due = (or_verdict_t){.round = tree->round,
                            .base_length = tree->base_length,
                            .accepted = w->due_path,
                            .accepted_count = accepted,
                            .next = next,
                            .forward_us = ms * 1000,
                            .hash = or_prefix_hash(hash, &next, 1)};
    w->due_ns = w->clock.now_ns + ms * OR_NS_PER_MS;
}

static void note_prompt(world_t *w, const or_prefix_t *prefix)
{
    w->verifier_prompt_length = 0;
    while (w->verifier_prompt_length < prefix->count && w->verifier_prompt_length < 256) {
        w->verifier_prompt[w->verifier_prompt_length] = prefix->tokens[w->verifier_prompt_length];
        w->verifier_prompt_length++;
    }
}

static void refuse(world_t *w, or_session_id_t session, or_error_t error)
{
    const or_message_t message = {.type = OR_MSG_ERROR, .session = session, .body.error = error};
    assert_int_equal(or_link_send(w->verifier.link, OR_PEER_HUB, &message), OR_OK);
}

static void answer_open(world_t *w, const or_message_t *message)
{
    w->verifier_terms = message->body.open_session;
    strncpy(w->verifier_owner, w->verifier_terms.owner, sizeof w->verifier_owner - 1);
    w->verifier_opens++;
    w->shut = w->busy > 0;
    if (w->shut) {
        w->busy--;
        refuse(w, message->session,
               (or_error_t){.code = OR_WIRE_BUSY,
                            .text = "full",
                            .retry_ms = w->busy_ms > 0 ? w->busy_ms : 300});
    }
}

// The target writes 5, whatever the tree.
static void write_five(world_t *w, const or_message_t *message)
{
    static const uint32_t five = 5;
    const or_draft_tree_t *tree = &message->body.draft_tree;
    uint32_t path[NODES] = {1};
    uint32_t accepted = w->accepts && tree->count > 0;
    if (w->path_count > 0 && tree->count > 0) {
        memcpy(path, w->path, sizeof path);
        accepted = w->path_count;
        w->path_count = 0;
    }
    uint64_t hash = tree->base_hash;
    for (uint32_t i = 0; i < accepted; i++) {
        hash = or_prefix_hash(hash, &tree->tokens[path[i] - 1], 1);
    }
    or_message_t verdict = {
        .type = OR_MSG_VERDICT,
        .session = message->session,
        .body.verdict = {.round = tree->round,
                         .base_length = tree->base_length,
                         .accepted = path,
                         .accepted_count = accepted,
                         .next = five,
                         .hash = or_prefix_hash(hash, &five, 1) + (w->forged_hash > 0)},
    };
    w->forged_hash -= w->forged_hash > 0;
    if (w->alter != NULL) {
        w->alter(w, &verdict.body.verdict);
    }
    assert_int_equal(or_link_send(w->verifier.link, OR_PEER_HUB, &verdict), OR_OK);
}

static void answer_tree(world_t *w, const or_message_t *message)
{
    const or_draft_tree_t *tree = &message->body.draft_tree;
    if (w->shut) {
        refuse(w, message->session,
               (or_error_t){.code = OR_WIRE_UNKNOWN_SESSION, .text = "open it first"});
        return;
    }
    keep_frame(w, message);
    if (w->refused_trees > 0 && tree->count > 0) {
        const or_error_t error = {.code = OR_WIRE_INVALID, .text = "no", .round = tree->round};
        w->refused_trees--;
        refuse(w, message->session, error);
        refuse(w, message->session, error);
        return;
    }
    w->trees++;
    w->nodes += tree->count;
    if (!w->slow && w->judges) {
        begin_verdict(w, message);
    } else if (!w->slow) {
        write_five(w, message);
    }
}

static void verifier_answers(world_t *w, const or_message_t *message)
{
    w->verifier_cancels += message->type == OR_MSG_CANCEL;
    if (message->type == OR_MSG_OPEN_SESSION) {
        answer_open(w, message);
    } else if (message->type == OR_MSG_PREFIX && message->body.prefix.start == 0) {
        note_prompt(w, &message->body.prefix);
    } else if (message->type == OR_MSG_DRAFT_TREE) {
        answer_tree(w, message);
    }
}

static void note_heard(heard_t *heard, const or_message_t *message)
{
    const or_open_session_t *open = &message->body.open_session;
    const or_prefix_t *prefix = &message->body.prefix;
    const or_verdict_t *verdict = &message->body.verdict;
    if (message->type == OR_MSG_OPEN_SESSION) {
        heard->opens++;
        heard->terms = *open;
        for (uint32_t i = 0; i < open->draft_shape_count && i < 2; i++) {
            heard->shape[i] = open->draft_shape[i];
        }
    } else if (message->type == OR_MSG_PREFIX) {
        heard->prefixes++;
        heard->draft_nodes = prefix->draft_nodes;
        heard->round = prefix->round;
        heard->start = prefix->start;
        heard->length = prefix->start + prefix->count;
        heard->hash = prefix->hash;
        heard->placed = prefix->placed;
        heard->byte_offset = prefix->byte_offset;
        for (uint32_t i = 0; i < prefix->count && prefix->start + i < 256; i++) {
            heard->text[prefix->start + i] = prefix->tokens[i];
        }
    } else if (message->type == OR_MSG_CANCEL) {
        heard->cancels++;
    } else if (message->type == OR_MSG_VOCAB_REQUEST) {
        heard->vocab_requests++;
        heard->asked_hash = message->body.vocab_request.hash;
    } else if (message->type == OR_MSG_VOCABULARY) {
        heard->vocabularies++;
    } else if (message->type == OR_MSG_PSI_REQUEST) {
        heard->psi_requests++;
    } else if (message->type == OR_MSG_VOCAB_MAP) {
        heard->maps++;
        heard->map_hash = message->body.vocab_map.map_hash;
        heard->map_count = message->body.vocab_map.count;
    } else if (message->type == OR_MSG_VERDICT) {
        heard->verdicts++;
        heard->draft_nodes = verdict->draft_nodes;
        heard->round = verdict->round + 1;
        heard->length = verdict->base_length + verdict->accepted_count + 1;
        heard->hash = verdict->hash;
        heard->path_count = verdict->accepted_count;
        for (uint32_t i = 0; i < verdict->accepted_count && i < NODES; i++) {
            heard->path[i] = verdict->accepted[i];
        }
    }
}

static void second_notes(world_t *w, const or_message_t *message)
{
    note_heard(&w->heard[1], message);
}

void drafter_notes(world_t *w, const or_message_t *message)
{
    note_heard(&w->heard[0], message);
    if (message->type == OR_MSG_OPEN_SESSION) {
        w->drafter_secret |= message->body.open_session.private_key;
        w->told_nodes = message->body.open_session.draft_nodes;
        w->drafter_terms = message->body.open_session;
        strncpy(w->drafter_owner, w->drafter_terms.owner, sizeof w->drafter_owner - 1);
    }
    if (message->type == OR_MSG_PREFIX) {
        w->prefixes++;
        w->session = message->session;
        w->last = message->body.prefix;
    } else if (message->type == OR_MSG_ERROR && message->session.value == 0) {
        strncpy(w->refusal, message->body.error.text, sizeof w->refusal - 1);
    }
}

static void stats_noted(world_t *w, const or_message_t *message)
{
    if (message->type == OR_MSG_STATS) {
        w->stats = message->body.stats;
        w->stats.model = NULL;
        w->stats_count++;
    }
}

static void note_words(world_t *w, const or_generate_delta_t *delta)
{
    for (uint32_t i = 0; i < delta->count && delta->offset + i < 256; i++) {
        w->written[delta->offset + i] = delta->tokens[i];
        w->written_count = delta->offset + i + 1;
    }
}

static void client_notes(world_t *w, const or_message_t *message)
{
    stats_noted(w, message);
    if (message->type == OR_MSG_GENERATE_DELTA) {
        note_words(w, &message->body.generate_delta);
    }
    if (w->look != NULL) {
        w->look(w, message);
    }
    if (message->type == OR_MSG_GENERATE_DELTA &&
        message->body.generate_delta.finish != OR_FINISH_NONE) {
        w->end = message->body.generate_delta;
        w->end_session = message->session;
        w->retry_ms = w->end.retry_ms;
        if (w->ended < 8) {
            w->order[w->ended++] = w->end.request;
        }
        strncpy(w->error, w->end.error, sizeof w->error - 1);
        strncpy(w->note, w->end.note, sizeof w->note - 1);
        strncpy(w->advice, w->end.advice, sizeof w->advice - 1);
    }
}

static void hear(world_t *w, edge_t *edge, void (*act)(world_t *, const or_message_t *))
{
    or_link_event_t event;
    or_peer_t from;
    or_message_t message = {0};
    while (edge->link != NULL && or_link_receive(edge->link, &event, &from, &message) == OR_OK) {
        if (event == OR_LINK_MESSAGE) {
            act(w, &message);
            or_message_fini(&message);
        }
    }
    if (edge->link != NULL) {
        or_link_tick(edge->link);
    }
}

or_session_id_t next_session(const world_t *w)
{
    return or_session_ids_next(&w->coordinator->sessions.ids);
}

void run(world_t *w, uint32_t ms)
{
    for (uint32_t i = 0; i <= ms; i++) {
        for (int k = 0; k < 3; k++) {
            or_coordinator_turn(w->coordinator);
            hear(w, &w->verifier, verifier_answers);
            hear(w, &w->drafter, drafter_notes);
            hear(w, &w->second, second_notes);
            hear(w, &w->client, client_notes);
            if (w->due_ns != 0 && w->clock.now_ns >= w->due_ns) {
                send_verdict(w);
            }
        }
        w->clock.now_ns += OR_NS_PER_MS;
    }
}

void join_usual(world_t *w)
{
    uint64_t hash = or_vocab_hash(w->vocab);
    join(w, &w->verifier,
         (or_hello_t){.role = OR_ROLE_VERIFIER, .vocab_hash = hash, .model_hash = TARGET});
    join(w, &w->drafter, (or_hello_t){.role = OR_ROLE_DRAFTER, .vocab_hash = hash});
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT});
    run(w, 5);
}

void ask_through(edge_t *edge, or_generate_request_t request)
{
    static const uint32_t prompt[] = {1, 458, 1112};
    if (request.prompt_token_count == 0 && request.prompt_bytes == 0) {
        request.prompt_tokens = prompt;
        request.prompt_token_count = 3;
    }
    request.request = request.request != 0 ? request.request : 77;
    const or_message_t message = {.type = OR_MSG_GENERATE_REQUEST,
                                  .body.generate_request = request};
    assert_int_equal(or_link_send(edge->link, OR_PEER_HUB, &message), OR_OK);
}

void ask(world_t *w, or_generate_request_t request)
{
    ask_through(&w->client, request);
}

or_generate_request_t usual_request(uint32_t tokens_wanted)
{
    or_generate_request_t request = {.max_tokens = tokens_wanted,
                                     .sampling = or_sampling_default(),
                                     .has_seed = true,
                                     .draft_method = OR_DRAFT_COUPLED,
                                     .accept_rule = OR_ACCEPT_COUPLED,
                                     .draft_nodes = 8,
                                     .draft_depth = 8};
    request.sampling.temperature = 0;
    return request;
}

void draft(world_t *w, uint64_t round, uint32_t base_length, uint64_t base_hash,
           const uint32_t *nodes, const uint32_t *back, uint32_t count)
{
    const or_message_t message = {.type = OR_MSG_DRAFT_TREE,
                                  .session = w->session,
                                  .body.draft_tree = {.round = round,
                                                      .base_length = base_length,
                                                      .base_hash = base_hash,
                                                      .tokens = nodes,
                                                      .back = back,
                                                      .count = count}};
    assert_int_equal(or_link_send(w->drafter.link, OR_PEER_HUB, &message), OR_OK);
}

void ask_and_draft(world_t *w, or_generate_request_t request, uint32_t count)
{
    ask(w, request);
    run(w, 5);
    draft(w, w->last.round, w->last.count, w->last.hash, tokens, chain, count);
    run(w, 5);
}

static void ignore(world_t *w, const or_message_t *message)
{
    (void)w;
    (void)message;
}

void join_beside(world_t *w, edge_t *edge, or_hello_t hello)
{
    join(w, edge, hello);
    hear(w, edge, ignore);
    run(w, 5);
    hear(w, edge, ignore);
    assert_true(or_link_welcomed(edge->link));
}

void hear_as_client(world_t *w, edge_t *edge)
{
    hear(w, edge, client_notes);
}

// ---- the keyring of a test ----

const char *test_keyring_path(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/coordinator-test-keys-%d", (int)getpid());
    return path;
}

or_keyring_t *open_test_keyring(void)
{
    or_keyring_t *keyring = NULL;
    unlink(test_keyring_path());
    assert_int_equal(or_keyring_open(test_keyring_path(), &keyring), OR_OK);
    return keyring;
}

void close_test_keyring(or_keyring_t **keyring_p)
{
    char lock[96];
    or_keyring_close(keyring_p);
    snprintf(lock, sizeof lock, "%s.lock", test_keyring_path());
    unlink(lock);
    unlink(test_keyring_path());
}

void authorize_test_key(or_key_grant_t grant)
{
    or_keyring_t *operators = NULL;
    assert_int_equal(or_keyring_open(test_keyring_path(), &operators), OR_OK);
    assert_int_equal(or_keyring_authorize(operators, &grant), OR_OK);
    or_keyring_close(&operators);
}

void revoke_test_key(const char *key)
{
    or_keyring_t *operators = NULL;
    assert_int_equal(or_keyring_open(test_keyring_path(), &operators), OR_OK);
    assert_int_equal(or_keyring_revoke(operators, key), OR_OK);
    or_keyring_close(&operators);
}
