// Goal: whoever asks hears who is here, how they do and what happened, as far as it may see that; and what is counted of
// all texts is the sum of what each text's client was told, whatever was repeated or broken off meanwhile.
// Method: the real coordinator, drafters and clients of several owners, texts with good trees, bad ones and none; the
// page of metrics is read as Prometheus does.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/coordinator_test_support.h"
#include "coordinator/figures/events.h"

// The figures that the client heard last, and the sums of its texts.
static struct {
    uint32_t peers, events, policies, errors;
    or_stats_t counts;                   // no lists and strings
    or_peer_figures_t drafter, verifier; // strings are not kept
    char drafter_state[32], label[80], kinds[512];
    uint64_t last_event;
    uint32_t prompt_tokens, tokens, source;
    float batch;
    uint8_t token[OR_SESSION_TOKEN_BYTES]; // of the last text that began
    char *page;
} heard;

static struct {
    uint64_t prompt, written, drafted, accepted, calls, ended;
} sums;

static void note_stats(const or_stats_t *stats)
{
    heard.counts = *stats;
    heard.counts.model = NULL;
    heard.counts.policies = NULL;
    heard.counts.peers = NULL;
    heard.counts.events = NULL;
    heard.peers = stats->peer_count;
    heard.events = stats->event_count;
    heard.policies = stats->policy_count;
    for (uint32_t i = 0; i < stats->peer_count; i++) {
        const or_peer_figures_t *peer = &stats->peers[i];
        if (peer->role == OR_ROLE_DRAFTER) {
            heard.drafter = *peer;
            snprintf(heard.drafter_state, sizeof heard.drafter_state, "%s", peer->state);
        } else {
            heard.verifier = *peer;
        }
    }
    heard.kinds[0] = '\0';
    for (uint32_t i = 0; i < stats->event_count; i++) {
        size_t used = strlen(heard.kinds);
        snprintf(heard.kinds + used, sizeof heard.kinds - used, "%s, ", stats->events[i].kind);
        heard.last_event = stats->events[i].number;
    }
    if (stats->policy_count > 0) {
        snprintf(heard.label, sizeof heard.label, "%s", stats->policies[0].label);
        heard.prompt_tokens = stats->policies[0].prompt_tokens;
        heard.tokens = stats->policies[0].tokens;
        heard.source = stats->policies[0].source;
        heard.batch = stats->policies[0].batch;
    }
}

static void add_end(const or_generate_delta_t *delta)
{
    if (delta->finish == OR_FINISH_NONE || delta->stats.target_calls == 0) {
        return;
    }
    sums.prompt += delta->stats.prompt_tokens;
    sums.written += delta->stats.completion_tokens;
    sums.drafted += delta->stats.drafted;
    sums.accepted += delta->stats.accepted;
    sums.calls += delta->stats.target_calls;
    sums.ended++;
}

static void look(world_t *w, const or_message_t *message)
{
    (void)w;
    if (message->type == OR_MSG_STATS) {
        note_stats(&message->body.stats);
    } else if (message->type == OR_MSG_GENERATE_DELTA) {
        const or_generate_delta_t *delta = &message->body.generate_delta;
        add_end(delta);
        if (delta->token_bytes == sizeof heard.token) {
            memcpy(heard.token, delta->token, sizeof heard.token);
        }
    } else if (message->type == OR_MSG_METRICS) {
        free(heard.page);
        heard.page = strndup((const char *)message->body.metrics.text, message->body.metrics.bytes);
    } else if (message->type == OR_MSG_ERROR) {
        heard.errors++;
    }
}

static void begin(world_t *w)
{
    memset(&heard, 0, sizeof heard);
    memset(&sums, 0, sizeof sums);
    w->look = look;
    join_usual(w);
}

static void end(world_t *w)
{
    (void)w;
    free(heard.page);
    heard.page = NULL;
}

static void question(world_t *w, edge_t *edge, bool metrics, uint64_t events_after)
{
    const or_message_t message = {
        .type = OR_MSG_STATS_REQUEST,
        .body.stats_request = {.metrics = metrics, .events_after = events_after}};
    assert_int_equal(or_link_send(edge->link, OR_PEER_HUB, &message), OR_OK);
    run(w, 2);
    hear_as_client(w, edge);
}

static void peers_are_shown_with_what_they_say(void **state)
{
    world_t *w = *state;
    begin(w);
    const or_message_t said = {.type = OR_MSG_STATS,
                               .body.stats = {.model_us = 1234,
                                              .passes = 56,
                                              .pages = 78,
                                              .pages_free = 9,
                                              .model = "",
                                              .choice = ""}};
    assert_int_equal(or_link_send(w->drafter.link, OR_PEER_HUB, &said), OR_OK);
    run(w, 100);
    question(w, &w->client, false, 0);
    assert_int_equal(heard.peers, 2);
    assert_string_equal(heard.drafter_state, "idle");
    assert_int_equal(heard.drafter.model_us, 1234);
    assert_int_equal(heard.drafter.passes, 56);
    assert_int_equal(heard.drafter.pages, 78);
    assert_int_equal(heard.drafter.pages_free, 9);
    assert_in_range(heard.drafter.connected_ms, 100, 200);
    assert_true(heard.drafter.bytes > 0);
    assert_true(heard.drafter.number != heard.verifier.number);
    assert_string_equal(heard.kinds, "verifier joined, drafter joined, ");
}

static void a_drafters_state_follows_what_it_does(void **state)
{
    world_t *w = *state;
    begin(w);
    or_generate_request_t request = usual_request(20);
    request.label =
        "req-1 \x01 with a name that is far too long to be shown whole in any log or page";
    w->accepts = true;
    ask_and_draft(w, request, 2);
    question(w, &w->client, false, 0);
    assert_string_equal(heard.drafter_state, "serving");
    assert_int_equal(heard.drafter.nodes, 2);
    assert_int_equal(heard.drafter.accepted, 1);
    assert_int_equal(heard.drafter.sessions, 1);
    assert_int_equal(heard.verifier.sessions, 1);
    assert_int_equal(heard.policies, 1);
    assert_int_equal(heard.prompt_tokens, 3);
    assert_int_equal(heard.tokens, 2);
    assert_int_equal(heard.source, OR_SOURCE_DRAFTER); // whatever the policy is
    assert_int_equal(strlen(heard.label), 64);
    assert_memory_equal(heard.label, "req-1 ? with", 12);
    w->slow = true;
    run(w, 1500);
    question(w, &w->client, false, 0);
    assert_string_equal(heard.drafter_state, "late");
}

static void an_owner_sees_its_own_and_no_events(void **state)
{
    world_t *w = *state;
    edge_t alice = {0}, drafter = {0};
    begin(w);
    w->slow = true;
    join_beside(w, &alice, (or_hello_t){.role = OR_ROLE_CLIENT, .owner = "alice"});
    join_beside(w, &drafter,
                (or_hello_t){.role = OR_ROLE_DRAFTER,
                             .owner = "bob",
                             .vocab_hash = or_vocab_hash(w->vocab)});
    or_generate_request_t request = usual_request(2);
    request.plain = true;
    ask(w, request);
    run(w, 5);
    question(w, &alice, false, 0);
    assert_int_equal(heard.peers, 2); // the verifier, and the drafter that is everybody's
    assert_int_equal(heard.policies, 0);
    assert_int_equal(heard.events, 0);
    question(w, &alice, true, 0);
    assert_int_equal(heard.errors, 1);
    assert_null(heard.page);
    or_network_set_inside(alice.channel, true); // too late: who it is was settled when it came
    question(w, &alice, true, 0);
    assert_int_equal(heard.errors, 2);
    question(w, &w->client, false, 0);
    assert_int_equal(heard.peers, 3);
    assert_int_equal(heard.policies, 1);
    assert_true(heard.events > 0);
    leave(&drafter);
    leave(&alice);
}

// The verifier's counters and another owner's text, long or short, change nothing in what alice is shown.
static void nothing_shown_depends_on_other_owners(void **state)
{
    world_t *w = *state;
    edge_t alice = {0};
    begin(w);
    join_beside(w, &alice, (or_hello_t){.role = OR_ROLE_CLIENT, .owner = "alice"});
    question(w, &alice, false, 0);
    const or_stats_t before = heard.counts;
    const or_message_t said = {
        .type = OR_MSG_STATS,
        .body.stats = {
            .rounds = 9, .nodes = 8, .accepted = 7, .prefill_rows = 6, .model = "", .choice = ""}};
    assert_int_equal(or_link_send(w->verifier.link, OR_PEER_HUB, &said), OR_OK);
    ask(w, usual_request(5));
    run(w, 3000);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    question(w, &alice, false, 0);
    assert_memory_equal(&before, &heard.counts, sizeof before);
    assert_int_equal(heard.peers, 2);
    assert_string_equal(heard.drafter_state, "shared");
    assert_int_equal(heard.drafter.nodes + heard.drafter.bytes + heard.verifier.bytes, 0);
    question(w, &w->client, false, 0);
    assert_int_equal(heard.counts.started, 1); // who may see all is shown it
    assert_int_equal(heard.counts.nodes, 8);
    leave(&alice);
}

static void events_are_told_once(void **state)
{
    world_t *w = *state;
    begin(w);
    question(w, &w->client, false, 0);
    uint64_t before = heard.last_event;
    assert_int_equal(heard.events, 2);
    const or_message_t bye = {.type = OR_MSG_CANCEL, .body.cancel = {.reason = "bye"}};
    assert_int_equal(or_link_send(w->drafter.link, OR_PEER_HUB, &bye), OR_OK);
    run(w, 5);
    question(w, &w->client, false, before);
    assert_string_equal(heard.kinds, OR_EVENT_DRAFTER_LOST ", ");
    question(w, &w->client, false, heard.last_event);
    assert_int_equal(heard.events, 0);
}

static void what_goes_wrong_is_an_event(void **state)
{
    world_t *w = *state;
    edge_t stranger = {0};
    begin(w);
    question(w, &w->client, false, 0);
    uint64_t before = heard.last_event;
    w->forged_hash = 1;
    or_generate_request_t request = usual_request(2);
    request.plain = true;
    ask(w, request);
    run(w, 20);
    join(w, &stranger,
         (or_hello_t){.role = OR_ROLE_VERIFIER,
                      .vocab_hash = or_vocab_hash(w->vocab),
                      .model_hash = TARGET + 1});
    or_link_tick(stranger.link);
    run(w, 20);
    question(w, &w->client, false, before);
    assert_string_equal(heard.kinds, OR_EVENT_FAILED ", " OR_EVENT_REFUSED ", ");
    leave(&stranger);
}

// ---- sums ----

// The value of a series, its labels aside.
static uint64_t value_of(const char *name)
{
    char line[128];
    snprintf(line, sizeof line, "\noutrider:%s", name);
    const char *at = heard.page;
    while ((at = strstr(at, line)) != NULL) {
        at += strlen(line);
        if (*at == '{' || *at == ' ') {
            const char *behind = *at == '{' ? strchr(at, '}') + 1 : at;
            return (uint64_t)strtod(behind, NULL);
        }
    }
    fail_msg("no series %s", name);
    return 0;
}

static void assert_sums_agree(void)
{
    assert_int_equal(value_of("prompt_tokens_total"), sums.prompt);
    assert_int_equal(value_of("generation_tokens_total"), sums.written);
    assert_int_equal(value_of("spec_decode_num_draft_tokens_total"), sums.drafted);
    assert_int_equal(value_of("spec_decode_num_accepted_tokens_total"), sums.accepted);
    assert_int_equal(value_of("verifier_calls_total"), sums.calls);
}

static void write_text(world_t *w, uint64_t id, uint32_t guesses, uint32_t wanted)
{
    or_generate_request_t request = usual_request(wanted);
    request.request = id;
    request.plain = guesses == 0;
    ask(w, request);
    run(w, 5);
    if (guesses > 0) {
        draft(w, w->last.round, w->last.count, w->last.hash, tokens, chain, guesses);
    }
    run(w, 1500);
    if (guesses > 0) { // it was slow with later rounds; it is not silent
        draft(w, w->last.round, w->last.count, w->last.hash, tokens, chain, guesses);
        run(w, 5);
    }
}

static void totals_are_the_sums_of_the_texts(void **state)
{
    world_t *w = *state;
    begin(w);
    w->accepts = true;
    write_text(w, 1, 3, 6);
    write_text(w, 2, 0, 9);
    w->refused_trees = 1; // judged plainly instead: none of its guesses count
    write_text(w, 3, 4, 3);
    write_text(w, 4, 5, 1); // of the accepted guess and the next token the first is the last
    ask(w, (or_generate_request_t){.request = 1}); // again: nothing is counted twice
    run(w, 5);
    sums.prompt -= 3;
    sums.written -= 6;
    sums.drafted -= 3;
    sums.accepted -= 1;
    sums.calls -= 5;
    assert_int_equal(sums.ended, 5);
    assert_true(sums.drafted == 8 && sums.accepted == 2);
    question(w, &w->client, true, 0);
    assert_sums_agree();
    end(w);
}

static void texts_that_are_broken_off_count_as_far_as_they_came(void **state)
{
    world_t *w = *state;
    begin(w);
    or_generate_request_t request = usual_request(20);
    ask_and_draft(w, request, 2);
    w->slow = true;
    draft(w, w->last.round + 1, w->heard[0].length, w->heard[0].hash, tokens, chain, 3);
    run(w, 5); // under way, and never judged
    const or_message_t cancel = {
        .type = OR_MSG_CANCEL, .session = w->session, .body.cancel = {.reason = "enough"}};
    assert_int_equal(or_link_send(w->client.link, OR_PEER_HUB, &cancel), OR_OK);
    run(w, 5);
    assert_int_equal(w->end.finish, OR_FINISH_CANCELLED);
    assert_int_equal(sums.drafted, 2);
    question(w, &w->client, true, 0);
    assert_sums_agree();
    end(w);
}

static void waiting_is_told_and_counted(void **state)
{
    world_t *w = *state;
    begin(w);
    leave(&w->verifier);
    run(w, 20000); // it is missed
    or_generate_request_t request = usual_request(2);
    request.plain = true;
    ask(w, request);
    run(w, 1000);
    join(w, &w->verifier,
         (or_hello_t){.role = OR_ROLE_VERIFIER,
                      .vocab_hash = or_vocab_hash(w->vocab),
                      .model_hash = TARGET});
    run(w, 20);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_in_range(w->end.stats.queue_us, 1000000, 1100000);
    question(w, &w->client, true, 0);
    assert_int_equal(value_of("request_queue_time_seconds_count"), 1);
    assert_int_equal(value_of("request_queue_time_seconds_sum"), 1);
    end(w);
}

static void alter_reused(world_t *w, or_verdict_t *verdict)
{
    (void)w;
    verdict->reused = verdict->base_length == 3 ? 2 : 1000;
}

static void what_was_in_the_cache_is_told(void **state)
{
    world_t *w = *state;
    begin(w);
    w->alter = alter_reused;
    write_text(w, 1, 0, 5);
    assert_int_equal(w->end.stats.prompt_reused, 2);
    question(w, &w->client, true, 0);
    assert_int_equal(value_of("prefix_cache_hits_total"), 2);
    end(w);
}

static void what_a_drafter_sent_is_counted_though_it_left(void **state)
{
    world_t *w = *state;
    const or_message_t bye = {.type = OR_MSG_CANCEL, .body.cancel = {.reason = "bye"}};
    begin(w);
    ask_and_draft(w, usual_request(3), 2);
    assert_int_equal(or_link_send(w->drafter.link, OR_PEER_HUB, &bye), OR_OK);
    run(w, 1500);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_in_range(w->end.stats.wire_bytes, 1, 10000);
    end(w);
}

// Its next token is one of a text that goes on, not one that somebody waited for.
static void the_time_that_a_client_is_away_is_between_no_tokens(void **state)
{
    world_t *w = *state;
    begin(w);
    ask_and_draft(w, usual_request(3), 2);
    const or_message_t away = {
        .type = OR_MSG_CANCEL, .session = w->session, .body.cancel = {.keep = true, .reason = ""}};
    assert_int_equal(or_link_send(w->client.link, OR_PEER_HUB, &away), OR_OK);
    run(w, 60000);
    const or_message_t back = {
        .type = OR_MSG_RESUME,
        .body.resume = {
            .request = 78, .token = heard.token, .token_bytes = sizeof heard.token, .owner = ""}};
    assert_int_equal(or_link_send(w->client.link, OR_PEER_HUB, &back), OR_OK);
    run(w, 3000);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_int_equal(w->end.stats.resumes, 1);
    question(w, &w->client, true, 0);
    assert_int_equal(value_of("inter_token_latency_seconds_count"), 2);
    assert_in_range(value_of("inter_token_latency_seconds_sum"), 0, 5);
    end(w);
}

// Let a verifier say what it has counted, and check the mean batch that the text's policy believes in then.
static void check_load(world_t *w, edge_t *verifier, uint64_t passes, uint64_t batched, float batch)
{
    const or_message_t said = {
        .type = OR_MSG_STATS,
        .body.stats = {.passes = passes, .batched = batched, .model = "", .choice = ""}};
    assert_int_equal(or_link_send(verifier->link, OR_PEER_HUB, &said), OR_OK);
    run(w, 5);
    question(w, &w->client, false, 0);
    assert_true(heard.batch == batch);
}

// Counts from two beginnings are not subtracted from each other: of a verifier that began anew, or of another one, whether
// that has counted less or more.
static void another_verifier_is_as_crowded_as_it_says(void **state)
{
    world_t *w = *state;
    edge_t newer;
    begin(w);
    w->slow = true;
    ask(w, usual_request(2));
    run(w, 5);
    check_load(w, &w->verifier, 100, 1500, 1);
    check_load(w, &w->verifier, 200, 3100, 16);
    check_load(w, &w->verifier, 150, 150, 16);
    check_load(w, &w->verifier, 160, 180, 3);
    join_beside(w, &newer,
                (or_hello_t){.role = OR_ROLE_VERIFIER,
                             .vocab_hash = or_vocab_hash(w->vocab),
                             .model_hash = TARGET});
    check_load(w, &newer, 161, 5000, 3);
    check_load(w, &newer, 171, 5020, 2);
    leave(&w->verifier);
    w->verifier = newer;
    end(w);
}

#define USUAL(test) cmocka_unit_test_setup_teardown(test, world_setup, world_teardown)

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        USUAL(peers_are_shown_with_what_they_say),
        USUAL(a_drafters_state_follows_what_it_does),
        USUAL(an_owner_sees_its_own_and_no_events),
        USUAL(nothing_shown_depends_on_other_owners),
        USUAL(events_are_told_once),
        USUAL(what_goes_wrong_is_an_event),
        USUAL(totals_are_the_sums_of_the_texts),
        USUAL(texts_that_are_broken_off_count_as_far_as_they_came),
        USUAL(waiting_is_told_and_counted),
        USUAL(what_was_in_the_cache_is_told),
        USUAL(another_verifier_is_as_crowded_as_it_says),
        USUAL(what_a_drafter_sent_is_counted_though_it_left),
        USUAL(the_time_that_a_client_is_away_is_between_no_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
