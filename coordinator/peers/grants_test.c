// Goal: a peer is what its key's grant says: owner, roles, trust and limits; who has no grant,
// another role or another owner's name is refused; a drafter with a key reads no other owner's
// text; whatever the operator changes in the keyring holds for those who are connected, within a
// second, or as soon as it can be read; bans go by key; refusals are counted; nobody's connections keep
// the others out. Method: the real coordinator with a keyring in a
// file, on a network in memory whose edges are given keys; the test is all peers, and the operator.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "coordinator/coordinator_test_support.h"

#define ADA "000000000000000000000000000000000000000a"
#define BOB "000000000000000000000000000000000000000b"
#define EVE "000000000000000000000000000000000000000e"

static or_keyring_t *keyring; // the coordinator's

static int setup(void **state)
{
    keyring = open_test_keyring();
    or_coordinator_config_t config = or_coordinator_config_default();
    config.keyring = keyring;
    return world_setup_with(state, config);
}

static int teardown(void **state)
{
    int failed = world_teardown(state);
    close_test_keyring(&keyring);
    return failed;
}

// ---- the operator, who has a ring of his own ----

static or_key_grant_t grant(const char *key, const char *owner, uint32_t roles)
{
    or_key_grant_t given = {.roles = roles};
    snprintf(given.key, sizeof given.key, "%s", key);
    snprintf(given.name, sizeof given.name, "%s", owner);
    snprintf(given.owner, sizeof given.owner, "%s", owner);
    return given;
}

// ---- peers ----

static void join_with_key(world_t *w, edge_t *edge, const char *key, or_hello_t hello)
{
    join(w, edge, hello);
    or_network_set_key(edge->channel, key);
}

// A client beside the usual one; it is heard through hear_as_client.
static void join_client_beside(world_t *w, edge_t *edge, const char *key)
{
    join_with_key(w, edge, key, (or_hello_t){.role = OR_ROLE_CLIENT});
    hear_as_client(w, edge); // says Hello
    run(w, 5);
    hear_as_client(w, edge);
    assert_true(or_link_welcomed(edge->link));
}

static or_hello_t drafter_hello(const world_t *w)
{
    return (or_hello_t){.role = OR_ROLE_DRAFTER, .vocab_hash = or_vocab_hash(w->vocab)};
}

static const or_hello_t client_hello = {.role = OR_ROLE_CLIENT};

static void join_verifier(world_t *w, const char *key)
{
    join_with_key(w, &w->verifier, key,
                  (or_hello_t){.role = OR_ROLE_VERIFIER,
                               .vocab_hash = or_vocab_hash(w->vocab),
                               .model_hash = TARGET});
    run(w, 5);
}

// The figures, as a client without a key on this machine gets them.
static or_stats_t figures(world_t *w)
{
    edge_t asker;
    const or_message_t question = {.type = OR_MSG_STATS_REQUEST};
    join_beside(w, &asker, client_hello);
    assert_int_equal(or_link_send(asker.link, OR_PEER_HUB, &question), OR_OK);
    run(w, 5);
    hear_as_client(w, &asker);
    leave(&asker);
    return w->stats;
}

static void ask_for(world_t *w, uint64_t number, uint32_t count)
{
    or_generate_request_t request = usual_request(count);
    request.request = number;
    memset(&w->end, 0, sizeof w->end);
    w->error[0] = '\0';
    ask(w, request);
    run(w, 5);
}

// ---- greetings ----

static void the_grant_says_whose_a_client_is(void **state)
{
    world_t *w = *state;
    authorize_test_key(grant(ADA, "ada", OR_KEY_CLIENT | OR_KEY_VERIFIER));
    run(w, 1500);
    join_verifier(w, ADA);
    join_with_key(w, &w->client, ADA, client_hello);
    run(w, 5);
    assert_true(or_link_welcomed(w->client.link));
    ask_for(w, 1, 2);
    run(w, 3000);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_string_equal(w->verifier_owner, "ada");
    assert_int_equal(figures(w).refused, 0);
}

static void strangers_roles_and_names_are_refused(void **state)
{
    static const struct {
        const char *key, *owner;
        or_role_t role;
    } all[] = {{EVE, "", OR_ROLE_CLIENT},    // not in the ring
               {ADA, "", OR_ROLE_DRAFTER},   // a client's key
               {ADA, "", OR_ROLE_VERIFIER},  // the same
               {ADA, "bob", OR_ROLE_CLIENT}, // another's name
               {BOB, "", OR_ROLE_CLIENT}};   // a drafter's key
    world_t *w = *state;
    authorize_test_key(grant(ADA, "ada", OR_KEY_CLIENT));
    authorize_test_key(grant(BOB, "bob", OR_KEY_DRAFTER));
    run(w, 1500);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        w->refusal[0] = '\0';
        join_with_key(w, &w->drafter, all[i].key,
                      (or_hello_t){.role = all[i].role,
                                   .owner = all[i].owner,
                                   .vocab_hash = or_vocab_hash(w->vocab),
                                   .model_hash = TARGET});
        run(w, 5);
        assert_false(or_link_welcomed(w->drafter.link));
        assert_non_null(strstr(w->refusal, "this key"));
        assert_null(strstr(w->refusal, all[i].key));
        leave(&w->drafter);
    }
    const or_stats_t stats = figures(w);
    assert_true(stats.refused >= 5);
    assert_int_equal(stats.drafters, 0);
    assert_int_equal(stats.verifiers, 0);
    join_with_key(w, &w->client, ADA, (or_hello_t){.role = OR_ROLE_CLIENT, .owner = "ada"});
    run(w, 5);
    assert_true(or_link_welcomed(w->client.link)); // its own name does no harm
}

// ---- owners ----

// A drafter with a key is told of its owner's texts and of no others, nobody's included.
static void a_drafter_reads_its_owners_texts_only(void **state)
{
    world_t *w = *state;
    authorize_test_key(grant(ADA, "ada", OR_KEY_DRAFTER));
    authorize_test_key(grant(BOB, "bob", OR_KEY_CLIENT));
    authorize_test_key(grant(EVE, "ada", OR_KEY_CLIENT)); // another key of ada's
    run(w, 1500);
    join_verifier(w, NULL);
    join_with_key(w, &w->drafter, ADA, drafter_hello(w));
    run(w, 5);
    const char *const others[] = {BOB, NULL};
    for (size_t i = 0; i < 2; i++) {
        join_with_key(w, &w->client, others[i], client_hello);
        run(w, 5);
        ask_for(w, 10 + i, 3);
        run(w, 3000);
        assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
        assert_int_equal(w->heard[0].opens, 0);
        assert_int_equal(w->heard[0].prefixes, 0);
        leave(&w->client);
    }
    join_with_key(w, &w->client, EVE, client_hello);
    run(w, 5);
    ask_for(w, 20, 3);
    assert_int_equal(w->heard[0].opens, 1);
}

// Only loopback speaks for the machine: a drafter without an owner is there or nowhere.
static void a_drafter_of_nobody_serves_all_on_this_machine(void **state)
{
    world_t *w = *state;
    authorize_test_key(grant(BOB, "bob", OR_KEY_CLIENT));
    run(w, 1500);
    join_verifier(w, NULL);
    join(w, &w->drafter, drafter_hello(w));
    join_with_key(w, &w->client, BOB, client_hello);
    run(w, 5);
    ask_for(w, 1, 3);
    assert_int_equal(w->heard[0].opens, 1);
}

static void trust_comes_from_the_grant(void **state)
{
    world_t *w = *state;
    or_key_grant_t given = grant(ADA, "ada", OR_KEY_DRAFTER | OR_KEY_CLIENT);
    or_generate_request_t request = usual_request(20);
    authorize_test_key(given);
    run(w, 1500);
    join_verifier(w, NULL);
    w->slow = true;
    join_with_key(w, &w->drafter, ADA, drafter_hello(w));
    join_with_key(w, &w->client, ADA, client_hello);
    run(w, 5);
    request.accept_rule = OR_ACCEPT_RECURSIVE;
    request.draft_method = OR_DRAFT_DYSPEC;
    request.request = 5;
    ask(w, request);
    run(w, 50);
    assert_int_equal(w->heard[0].opens, 0);
    given.trusted = true;
    authorize_test_key(given);
    w->slow = false;
    run(w, 3000);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    uint32_t opens = w->heard[0].opens;
    request.request = 6;
    w->slow = true;
    ask(w, request);
    run(w, 50);
    assert_int_equal(w->heard[0].opens, opens + 1);
    uint32_t cancels = w->heard[0].cancels;
    given.trusted = false; // what it draws now is believed no more
    authorize_test_key(given);
    run(w, 1500);
    assert_true(w->heard[0].cancels > cancels);
}

// ---- limits ----

static void a_key_has_its_number_of_requests(void **state)
{
    world_t *w = *state;
    or_key_grant_t given = grant(ADA, "ada", OR_KEY_CLIENT);
    given.sessions_max = 2;
    authorize_test_key(given);
    authorize_test_key(grant(BOB, "bob", OR_KEY_CLIENT));
    run(w, 1500);
    join_verifier(w, NULL);
    w->slow = true;
    edge_t second;
    join_with_key(w, &w->client, ADA, client_hello);
    join_client_beside(w, &second, ADA);
    ask_for(w, 1, 2);
    or_generate_request_t request = usual_request(2);
    request.request = 2;
    ask_through(&second, request); // of the same key
    run(w, 5);
    ask_for(w, 3, 2);
    assert_int_equal(w->end.finish, OR_FINISH_ERROR);
    assert_int_equal(w->end.error_code, OR_WIRE_BUSY);
    assert_true(w->retry_ms > 0);
    assert_non_null(strstr(w->error, "your key allows 2"));
    given.sessions_max = 3; // holds from now on
    authorize_test_key(given);
    run(w, 1500);
    ask_for(w, 4, 2);
    assert_int_equal(w->end.finish, OR_FINISH_NONE);
    edge_t bobs;
    join_client_beside(w, &bobs, BOB);
    ask_through(&bobs, request); // another key's are not counted
    run(w, 5);
    hear_as_client(w, &bobs);
    assert_int_equal(w->end.finish, OR_FINISH_NONE);
    w->slow = false;
    run(w, 3000);
    memset(&w->end, 0, sizeof w->end);
    hear_as_client(w, &bobs);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    leave(&bobs);
    leave(&second);
}

// A text whose client is away holds none of its key's places; one that goes on holds one, as one that waits does.
static void a_key_counts_what_waits_or_goes_on(void **state)
{
    world_t *w = *state;
    or_key_grant_t given = grant(ADA, "ada", OR_KEY_CLIENT);
    given.sessions_max = 1;
    authorize_test_key(given);
    run(w, 1500);
    edge_t second;
    join_with_key(w, &w->client, ADA, client_hello);
    join_client_beside(w, &second, ADA);
    ask_for(w, 1, 40); // waits for a verifier
    or_generate_request_t request = usual_request(2);
    request.request = 2;
    ask_through(&second, request);
    run(w, 5);
    hear_as_client(w, &second);
    assert_int_equal(w->end.error_code, OR_WIRE_BUSY);
    leave(&w->client); // its text is parked when that is noticed
    for (uint32_t s = 0; s < 12; s++) {
        run(w, 1000);
        hear_as_client(w, &second); // is alive
    }
    memset(&w->end, 0, sizeof w->end);
    request.request = 3;
    ask_through(&second, request);
    run(w, 5);
    hear_as_client(w, &second);
    assert_int_equal(w->end.finish, OR_FINISH_NONE);
    leave(&second);
}

// ---- places ----

enum { KEY_PLACES = 64, NAMELESS_PLACES = 512, PLACES = 1024, VERIFIER_PLACES = 16 };

// So many peers of one kind at once; their edges, which are the caller's to give back.
static edge_t *join_crowd(world_t *w, uint32_t count, const char *key, or_hello_t hello)
{
    edge_t *crowd = calloc(count, sizeof *crowd);
    assert_non_null(crowd);
    for (uint32_t i = 0; i < count; i++) {
        join_with_key(w, &crowd[i], key, hello);
        hear_as_client(w, &crowd[i]); // says Hello
    }
    run(w, 20);
    for (uint32_t i = 0; i < count; i++) {
        hear_as_client(w, &crowd[i]);
    }
    return crowd;
}

static uint32_t count_welcomed(const edge_t *crowd, uint32_t count)
{
    uint32_t welcomed = 0;
    for (uint32_t i = 0; i < count; i++) {
        welcomed += or_link_welcomed(crowd[i].link);
    }
    return welcomed;
}

static void disperse(edge_t *crowd, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        leave(&crowd[i]);
    }
    free(crowd);
}

static void a_key_has_its_number_of_connections(void **state)
{
    world_t *w = *state;
    authorize_test_key(grant(ADA, "ada", OR_KEY_CLIENT));
    authorize_test_key(grant(BOB, "bob", OR_KEY_CLIENT));
    run(w, 1500);
    edge_t *adas = join_crowd(w, KEY_PLACES, ADA, client_hello), bobs;
    assert_int_equal(count_welcomed(adas, KEY_PLACES), KEY_PLACES);
    join_with_key(w, &w->drafter, ADA, client_hello); // one more, where refusals are noted
    run(w, 5);
    assert_false(or_link_welcomed(w->drafter.link));
    assert_non_null(strstr(w->refusal, "busy: this key has 64 connections"));
    join_client_beside(w, &bobs, BOB);
    leave(&bobs);
    disperse(adas, KEY_PLACES);
}

static void who_has_no_key_leaves_places_to_those_who_have(void **state)
{
    world_t *w = *state;
    authorize_test_key(grant(ADA, "ada", OR_KEY_CLIENT));
    run(w, 1500);
    edge_t *crowd = join_crowd(w, NAMELESS_PLACES + 10, "", client_hello), adas;
    assert_int_equal(count_welcomed(crowd, NAMELESS_PLACES + 10), NAMELESS_PLACES);
    join_client_beside(w, &adas, ADA);
    leave(&adas);
    disperse(crowd, NAMELESS_PLACES + 10);
}

static void a_verifier_always_finds_a_place(void **state)
{
    world_t *w = *state;
    authorize_test_key(grant(ADA, "ada", OR_KEY_VERIFIER));
    run(w, 1500);
    edge_t *crowd = join_crowd(w, PLACES, "", drafter_hello(w));
    assert_int_equal(count_welcomed(crowd, PLACES), PLACES - VERIFIER_PLACES);
    join_verifier(w, ADA);
    assert_true(or_link_welcomed(w->verifier.link));
    disperse(crowd, PLACES);
}

// ---- revocation ----

// An obstacle to reading the list, such as descriptors that are all taken, hinders it only as long as it lasts.
static void a_revocation_is_not_missed(void **state)
{
    world_t *w = *state;
    struct rlimit limit, none;
    authorize_test_key(grant(ADA, "ada", OR_KEY_CLIENT));
    run(w, 1500);
    join_with_key(w, &w->client, ADA, client_hello);
    run(w, 5);
    assert_true(or_link_welcomed(w->client.link));
    revoke_test_key(ADA);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    run(w, 3000);
    bool meanwhile = or_coordinator_admits(w->coordinator, ADA);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    run(w, 1500);
    assert_true(meanwhile);
    assert_false(or_coordinator_admits(w->coordinator, ADA));
}

static void a_revoked_clients_texts_end(void **state)
{
    world_t *w = *state;
    authorize_test_key(grant(ADA, "ada", OR_KEY_CLIENT));
    run(w, 1500);
    join_verifier(w, NULL);
    w->slow = true;
    join_with_key(w, &w->client, ADA, client_hello);
    run(w, 5);
    ask_for(w, 1, 100);
    assert_int_equal(w->verifier_opens, 1);
    revoke_test_key(ADA);
    run(w, 1500);
    assert_int_equal(w->end.finish, OR_FINISH_ERROR);
    assert_int_equal(w->end.error_code, OR_WIRE_REFUSED);
    assert_non_null(strstr(w->error, "revoked"));
    assert_int_equal(w->verifier_cancels, 1);
    w->slow = false;
    ask_for(w, 2, 2); // and it is not heard any more
    run(w, 100);
    assert_int_equal(w->verifier_opens, 1);
    assert_true(figures(w).refused > 0);
}

// A client that is away when its key goes finds nothing when it comes back with another one.
static void a_text_whose_client_is_away_ends_too(void **state)
{
    world_t *w = *state;
    authorize_test_key(grant(ADA, "ada", OR_KEY_CLIENT));
    run(w, 1500);
    join_verifier(w, NULL);
    w->slow = true;
    join_with_key(w, &w->client, ADA, client_hello);
    run(w, 5);
    ask_for(w, 1, 100);
    leave(&w->client);
    run(w, 12000);
    revoke_test_key(ADA);
    run(w, 1500);
    const or_stats_t stats = figures(w);
    assert_int_equal(stats.parked, 0);
    assert_int_equal(stats.waiting, 0);
}

static void a_revoked_drafter_is_left_and_the_text_goes_on(void **state)
{
    world_t *w = *state;
    authorize_test_key(grant(ADA, "ada", OR_KEY_CLIENT));
    authorize_test_key(grant(BOB, "ada", OR_KEY_DRAFTER));
    run(w, 1500);
    join_verifier(w, NULL);
    w->slow = true;
    join_with_key(w, &w->drafter, BOB, drafter_hello(w));
    join_with_key(w, &w->client, ADA, client_hello);
    run(w, 5);
    ask_for(w, 1, 6);
    assert_int_equal(w->heard[0].opens, 1);
    revoke_test_key(BOB);
    run(w, 1500);
    assert_non_null(strstr(w->refusal, "revoked"));
    uint32_t prefixes = w->heard[0].prefixes, verdicts = w->heard[0].verdicts;
    w->slow = false;
    run(w, 3000);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_int_equal(w->heard[0].prefixes, prefixes); // it reads no more of it
    assert_int_equal(w->heard[0].verdicts, verdicts);
    assert_int_equal(figures(w).drafters, 0);
}

static void a_revoked_verifier_is_lost(void **state)
{
    world_t *w = *state;
    authorize_test_key(grant(ADA, "ada", OR_KEY_VERIFIER));
    run(w, 1500);
    join_verifier(w, ADA);
    assert_int_equal(figures(w).verifiers, 1);
    revoke_test_key(ADA);
    run(w, 1500);
    assert_int_equal(figures(w).verifiers, 0);
}

static void another_owner_turns_a_key_away(void **state)
{
    world_t *w = *state;
    authorize_test_key(grant(ADA, "ada", OR_KEY_CLIENT));
    run(w, 1500);
    join_verifier(w, NULL);
    w->slow = true;
    join_with_key(w, &w->client, ADA, client_hello);
    run(w, 5);
    ask_for(w, 1, 100);
    authorize_test_key(grant(ADA, "bob", OR_KEY_CLIENT));
    run(w, 1500);
    assert_int_equal(w->end.finish, OR_FINISH_ERROR);
    assert_int_equal(w->end.error_code, OR_WIRE_REFUSED);
}

// A keyring that makes no sense is a slip, not an order to turn everybody away.
static void a_slip_in_the_file_turns_nobody_away(void **state)
{
    world_t *w = *state;
    authorize_test_key(grant(ADA, "ada", OR_KEY_CLIENT));
    run(w, 1500);
    join_verifier(w, NULL);
    join_with_key(w, &w->client, ADA, client_hello);
    run(w, 5);
    FILE *out = fopen(test_keyring_path(), "a");
    assert_non_null(out);
    fputs("nonsense\n", out);
    fclose(out);
    run(w, 2500);
    ask_for(w, 1, 2);
    run(w, 3000);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
}

// Also where the guesses are the coordinator's own.
static void a_key_has_its_number_of_guesses(void **state)
{
    world_t *w = *state;
    or_key_grant_t given = grant(ADA, "ada", OR_KEY_CLIENT);
    or_generate_request_t request = usual_request(60);
    given.nodes_max = 1;
    authorize_test_key(given);
    run(w, 1500);
    join(w, &w->verifier,
         (or_hello_t){.role = OR_ROLE_VERIFIER,
                      .vocab_hash = or_vocab_hash(w->vocab),
                      .context_max = 128,
                      .model_hash = TARGET});
    join_with_key(w, &w->client, ADA, client_hello);
    run(w, 5);
    w->judges = true;
    w->step_ms = 20;
    word_period = 7; // so that there is something to look up
    request.draft_policy = OR_POLICY_AUTO;
    request.draft_nodes = 4;
    ask(w, request);
    run(w, 3000);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_true(w->end.stats.lookup_rounds > 0);
    assert_true(w->end.stats.drafted <= w->end.stats.lookup_rounds);
}

// ---- bans ----

static void a_ban_goes_by_key(void **state)
{
    world_t *w = *state;
    authorize_test_key(grant(ADA, "ada", OR_KEY_DRAFTER | OR_KEY_CLIENT));
    run(w, 1500);
    join_with_key(w, &w->drafter, ADA, drafter_hello(w));
    join_with_key(w, &w->second, ADA, drafter_hello(w));
    run(w, 5);
    assert_int_equal(figures(w).drafters, 2);
    assert_true(or_coordinator_admits(w->coordinator, ADA));
    for (uint64_t i = 0; i < 600; i++) { // about sessions that never were
        w->session.value = 1000 + 2 * i;
        draft(w, 1, 3, 4, tokens, chain, 2);
        run(w, 0);
    }
    assert_non_null(strstr(w->refusal, "cut off"));
    assert_int_equal(figures(w).drafters, 0); // nor its other connection
    assert_false(or_coordinator_admits(w->coordinator, ADA));
    leave(&w->drafter);
    w->refusal[0] = '\0';
    join_with_key(w, &w->drafter, ADA, drafter_hello(w)); // a new connection
    run(w, 5);
    assert_non_null(strstr(w->refusal, "cut off"));
    assert_false(or_link_welcomed(w->drafter.link));
    leave(&w->drafter);
    w->clock.now_ns += 61 * OR_NS_PER_S;
    assert_true(or_coordinator_admits(w->coordinator, ADA));
    assert_false(or_coordinator_admits(w->coordinator, EVE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_grant_says_whose_a_client_is, setup, teardown),
        cmocka_unit_test_setup_teardown(strangers_roles_and_names_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_drafter_reads_its_owners_texts_only, setup, teardown),
        cmocka_unit_test_setup_teardown(a_drafter_of_nobody_serves_all_on_this_machine, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(trust_comes_from_the_grant, setup, teardown),
        cmocka_unit_test_setup_teardown(a_key_has_its_number_of_requests, setup, teardown),
        cmocka_unit_test_setup_teardown(a_key_counts_what_waits_or_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(a_key_has_its_number_of_connections, setup, teardown),
        cmocka_unit_test_setup_teardown(who_has_no_key_leaves_places_to_those_who_have, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_verifier_always_finds_a_place, setup, teardown),
        cmocka_unit_test_setup_teardown(a_revocation_is_not_missed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_revoked_clients_texts_end, setup, teardown),
        cmocka_unit_test_setup_teardown(a_text_whose_client_is_away_ends_too, setup, teardown),
        cmocka_unit_test_setup_teardown(a_revoked_drafter_is_left_and_the_text_goes_on, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_revoked_verifier_is_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(another_owner_turns_a_key_away, setup, teardown),
        cmocka_unit_test_setup_teardown(a_slip_in_the_file_turns_nobody_away, setup, teardown),
        cmocka_unit_test_setup_teardown(a_key_has_its_number_of_guesses, setup, teardown),
        cmocka_unit_test_setup_teardown(a_ban_goes_by_key, setup, teardown),
    };
    test_log_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
