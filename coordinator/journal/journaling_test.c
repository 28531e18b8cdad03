// Goal: with a journal a text outlives its coordinator, whatever becomes of it: the next one gives the rest to who
// asked for it, each token once, also an end that was missed; and says so where it cannot.
// Method: the real coordinator, destroyed in the middle of it all, and another with the same journal.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/version.h"
#include "common/text/tokenizer.h"
#include "coordinator/clients/parking_test_support.h"
#include "tests/support/full_disk.h"

static char journal_path[64];
static const or_clock_t *journal_clock; // NULL: the machine's

static void open_journal(world_t *w)
{
    const or_journal_config_t config = {
        .path = journal_path, .abandoned_s = RESUME_MS / 1000, .clock = journal_clock};
    assert_int_equal(or_journal_open_with(&config, &w->config.journal), OR_OK);
}

static int set_up(void **state)
{
    int failed = parking_setup(state);
    world_t *w = *state;
    journal_clock = NULL;
    snprintf(journal_path, sizeof journal_path, "/tmp/parking-test-%d", (int)getpid());
    test_remove_folder(journal_path);
    open_journal(w);
    begin_anew(w);
    return failed;
}

static int tear_down(void **state)
{
    world_t *w = *state;
    or_journal_t *journal = w->config.journal;
    int failed = world_teardown(state);
    or_journal_close(&journal);
    test_remove_folder(journal_path);
    return failed;
}

// Two keys of one owner may come in.
static int set_up_keys(void **state)
{
    int failed = set_up(state);
    world_t *w = *state;
    w->config.keyring = open_test_keyring();
    authorize_two_keys(w, 0);
    begin_anew(w);
    return failed;
}

static int tear_down_keys(void **state)
{
    world_t *w = *state;
    or_keyring_t *keyring = w->config.keyring;
    int failed = tear_down(state);
    close_test_keyring(&keyring);
    return failed;
}

// The coordinator that there is dies; the next one has what is in the journal. `client` NULL: nobody is there yet.
static void restart(world_t *w, client_t *client)
{
    or_coordinator_destroy(&w->coordinator);
    or_link_destroy(&w->hub);
    or_channel_destroy(&w->hub_channel);
    or_journal_close(&w->config.journal);
    open_journal(w);
    assert_int_equal(or_network_hub(w->network, &w->hub_channel), OR_OK);
    assert_int_equal(or_link_create(w->hub_channel, &w->clock.clock, NULL, 1000, &w->hub), OR_OK);
    assert_int_equal(
        or_coordinator_create(&w->config, w->vocab, w->hub, &w->clock.clock, &w->coordinator),
        OR_OK);
    if (client != NULL) {
        run_hearing(w, client, 2100); // everybody greets it
    }
}

static void a_coordinator_that_died_goes_on(void **state)
{
    world_t *w = *state;
    client_t client = {0}, waiting = {0};
    or_journal_entry_t entry;
    uint64_t number;
    join_target(w);
    enter(w, &client, "a");
    enter(w, &waiting, "b");
    ask_for_a_part(w, &client, 1);
    assert_int_equal(
        or_journal_find(w->config.journal, client.token, sizeof client.token, &entry, &number),
        OR_OK);
    assert_true(entry.count >= client.count); // on disk before it is told
    ask_for(w, &waiting, 2, WANTED);
    uint32_t before = entry.count;
    restart(w, &client);
    run_hearing(w, &waiting, 2100);
    resume(w, &waiting, &client); // another owner's
    assert_unknown(&waiting);
    assert_int_equal(ask_stats(w)->refused, 1);
    w->slow = false;
    resume(w, &client, &client);
    run_hearing(w, &client, 50);
    assert_whole(&client);
    assert_int_equal(client.resumed_tokens, before); // its figures are of the rest
    assert_int_equal(or_journal_count(w->config.journal), 2);
    send_cancel(w, &client, client.session);
    assert_int_equal(or_journal_count(w->config.journal), 1);
    leave(&client.edge);
    leave(&waiting.edge);
}

// Two keys of one owner: what one asked for is not the other's, whoever of them comes first.
static void a_text_comes_back_to_the_key_that_asked_for_it(void **state)
{
    world_t *w = *state;
    client_t owner = {0}, thief = {0};
    join_target(w);
    enter_as(w, &owner, two_keys[0].public_key);
    enter_as(w, &thief, two_keys[1].public_key);
    ask_for_a_part(w, &owner, 1);
    restart(w, &owner);
    run_hearing(w, &thief, 2100);
    resume(w, &thief, &owner);
    assert_unknown(&thief);
    w->slow = false;
    resume(w, &owner, &owner);
    run_hearing(w, &owner, 50);
    assert_whole(&owner);
    leave(&owner.edge);
    leave(&thief.edge);
}

static void a_text_whose_key_was_revoked_leaves_the_journal(void **state)
{
    world_t *w = *state;
    client_t client = {0};
    join_target(w);
    enter_as(w, &client, two_keys[0].public_key);
    ask_for_a_part(w, &client, 1);
    assert_int_equal(or_journal_count(w->config.journal), 1);
    revoke_test_key(two_keys[0].public_key);
    run_hearing(w, &client, 1500);
    assert_int_equal(client.finish, OR_FINISH_ERROR);
    assert_int_equal(client.error_code, OR_WIRE_REFUSED);
    assert_int_equal(or_journal_count(w->config.journal), 0);
    leave(&client.edge);
}

static void what_had_not_begun_begins_with_the_next(void **state)
{
    world_t *w = *state;
    client_t client = {0};
    join_target(w);
    w->slow = true;
    enter(w, &client, "a");
    ask_for(w, &client, 1, WANTED);
    restart(w, &client);
    w->slow = false;
    resume(w, &client, &client);
    run_hearing(w, &client, 50);
    assert_whole(&client);
    leave(&client.edge);
}

// The prompt is what its first coordinator made of the conversation, also for one that has no template.
static void a_conversation_goes_on_with_the_prompt_it_had(void **state)
{
    world_t *w = *state;
    client_t client = {0};
    static const or_chat_message_t messages[] = {
        {.role = "user", .content = (const uint8_t *)"Hello", .content_bytes = 5}};
    assert_int_equal(or_chat_by_name("vicuna", &w->config.chat), OR_OK);
    restart(w, NULL);
    join_target(w);
    enter(w, &client, "a");
    w->slow = true;
    or_message_t question = {.type = OR_MSG_GENERATE_REQUEST,
                             .body.generate_request = usual_request(5)};
    question.body.generate_request.request = client.request = 1;
    question.body.generate_request.plain = true;
    question.body.generate_request.messages = messages;
    question.body.generate_request.message_count = 1;
    assert_int_equal(or_link_send(client.edge.link, OR_PEER_HUB, &question), OR_OK);
    run_hearing(w, &client, 5);
    uint32_t length = w->verifier_prompt_length;
    assert_true(length > 3);
    w->config.chat = NULL;
    restart(w, &client);
    w->slow = false;
    resume(w, &client, &client);
    run_hearing(w, &client, 50);
    assert_int_equal(client.finish, OR_FINISH_LENGTH);
    assert_int_equal(w->verifier_prompt_length, length);
    leave(&client.edge);
}

// A conversation whose answer is in word_script.
static void ask_in_turn(client_t *client, uint64_t id)
{
    static const or_chat_message_t messages[] = {
        {.role = "user", .content = (const uint8_t *)"Hello", .content_bytes = 5}};
    or_message_t question = {.type = OR_MSG_GENERATE_REQUEST,
                             .body.generate_request = usual_request(word_script_count)};
    question.body.generate_request.request = client->request = id;
    question.body.generate_request.plain = true;
    question.body.generate_request.messages = messages;
    question.body.generate_request.message_count = 1;
    assert_int_equal(or_link_send(client->edge.link, OR_PEER_HUB, &question), OR_OK);
}

// Make the target answer such a conversation with this text.
static void script_answer(const world_t *w, const char *text, int32_t **ids)
{
    static const or_chat_turn_t turn = {.role = "user", .content = "Hello", .length = 5};
    int32_t *prompt = NULL;
    size_t prompt_count, count;
    assert_int_equal(or_chat_tokenize(w->config.chat, w->vocab, OR_THINKING_USUAL, &turn, 1,
                                      &prompt, &prompt_count),
                     OR_OK);
    free(prompt);
    assert_int_equal(or_tokenize(w->vocab, text, strlen(text), OR_TOKENIZE_CONTINUES, ids, &count),
                     OR_OK);
    word_script = *ids;
    word_script_begin = (uint32_t)prompt_count;
    word_script_count = (uint32_t)count;
}

// Ask, and let the coordinator die when so many tokens were told.
static void ask_with_a_cut(world_t *w, client_t *client, uint64_t id, uint32_t cut)
{
    w->slow = false;
    ask_in_turn(client, id);
    while (client->count < cut) {
        run_hearing(w, client, 1);
    }
    w->slow = true;
    run_hearing(w, client, 3);
    restart(w, client);
    w->slow = false;
    resume(w, client, client);
    run_hearing(w, client, 100);
    assert_int_equal(client->finish, OR_FINISH_LENGTH);
}

// Wherever the coordinator dies, also where the next one has no template: thoughts stay thoughts, and their marks no text.
static void thoughts_are_told_apart_after_a_restart(void **state)
{
    world_t *w = *state;
    static const char thought[] = "see here.", answer[] = "Well.";
    const or_chat_t *chat = NULL;
    int32_t *ids = NULL;
    assert_int_equal(or_chat_by_name("qwen3", &chat), OR_OK);
    w->config.chat = chat;
    script_answer(w, "<think>\nsee here.</think>\n\nWell.", &ids);
    restart(w, NULL);
    join_target(w);
    assert_in_range(word_script_count, 8, 40);
    for (uint32_t cut = 1; cut + 3 < word_script_count; cut++) {
        client_t client = {0};
        enter(w, &client, "a");
        w->config.chat = cut % 2 == 0 ? chat : NULL;
        ask_with_a_cut(w, &client, cut, cut);
        w->config.chat = chat;
        restart(w, NULL);
        run(w, 2100);
        assert_int_equal(client.count, word_script_count);
        assert_int_equal(client.text_bytes, strlen(thought) + strlen(answer));
        assert_memory_equal(client.text, thought, strlen(thought));
        assert_memory_equal(client.text + strlen(thought), answer, strlen(answer));
        assert_int_equal(client.change_count, 2);
        assert_int_equal(client.changes[0], 0);
        assert_int_equal(client.changes[1], strlen(thought));
        leave(&client.edge);
    }
    free(ids);
}

// Coordinator after coordinator, each of which writes a little.
static void many_coordinators_write_one_text(void **state)
{
    world_t *w = *state;
    client_t client = {0};
    join_target(w);
    enter(w, &client, "a");
    ask_for_a_part(w, &client, 1);
    for (int i = 0; i < 6 && client.finish == OR_FINISH_NONE; i++) {
        uint32_t before = client.count;
        restart(w, &client);
        w->slow = false;
        resume(w, &client, &client);
        w->slow = true;
        run_hearing(w, &client, 3);
        assert_true(client.count > before);
    }
    w->slow = false;
    run_hearing(w, &client, 11000);
    assert_whole(&client);
    leave(&client.edge);
}

static void an_end_outlives_its_coordinator(void **state)
{
    world_t *w = *state;
    client_t client = {0}, before;
    join_target(w);
    enter(w, &client, "a");
    ask_for_a_part(w, &client, 1);
    before = client;
    w->slow = false;
    run(w, 11000); // nobody listens any more
    restart(w, &client);
    resume(w, &client, &before);
    run_hearing(w, &client, 5);
    assert_whole(&client);
    leave(&client.edge);
}

static void what_the_disk_lost_is_said(void **state)
{
    world_t *w = *state;
    client_t client = {0}, more;
    join_target(w);
    enter(w, &client, "a");
    ask_for_a_part(w, &client, 1);
    restart(w, &client);
    more = client;
    more.count += 20;
    resume(w, &client, &more);
    assert_unknown(&client);
    assert_non_null(strstr(client.error, "less of the text"));
    leave(&client.edge);
}

static void ask_by_rule(world_t *w, client_t *client, uint32_t rule)
{
    or_generate_request_t request = usual_request(WANTED);
    request.plain = true;
    request.accept_rule = rule;
    request.request = client->request = 1;
    ask_through(&client->edge, request);
    run_hearing(w, client, 1);
}

// A few more words, and then none.
static void write_on(world_t *w, client_t *client)
{
    uint32_t before = client->count;
    w->slow = false;
    while (client->count < before + 3) {
        run_hearing(w, client, 1);
    }
    w->slow = true;
    run_hearing(w, client, 3);
    assert_in_range(client->count, before + 3, WANTED - 1);
}

// The disk is full in the middle of a text, and its coordinator dies: its client has more than is left.
static void lose_a_part(world_t *w, client_t *client, uint32_t rule)
{
    join(w, &w->verifier,
         (or_hello_t){.role = OR_ROLE_VERIFIER,
                      .vocab_hash = or_vocab_hash(w->vocab),
                      .model_hash = TARGET,
                      .arith_id = "canonical"});
    enter(w, client, "a");
    ask_by_rule(w, client, rule);
    write_on(w, client);
    fill_disk();
    write_on(w, client);
    restart(w, client);
    empty_disk();
}

// Tokens that seed and prefix give again are written again, and no word of them is told twice.
static void what_the_disk_lost_is_written_again(void **state)
{
    static const uint32_t rules[] = {OR_ACCEPT_COUPLED, OR_ACCEPT_GREEDY};
    world_t *w = *state;
    for (uint32_t i = 0; i < 2; i++) {
        client_t client = {0};
        lose_a_part(w, &client, rules[i]);
        w->slow = false;
        resume(w, &client, &client);
        run_hearing(w, &client, 50);
        assert_whole(&client);
        send_cancel(w, &client, client.session);
        leave(&client.edge);
        leave(&w->verifier);
    }
}

// The naive rule draws anew: what its client has would not fit.
static void what_would_be_another_text_is_not(void **state)
{
    world_t *w = *state;
    client_t client = {0};
    lose_a_part(w, &client, OR_ACCEPT_NAIVE);
    resume(w, &client, &client);
    assert_unknown(&client);
    assert_non_null(strstr(client.error, "less of the text"));
    leave(&client.edge);
}

// After a restart all come back at once: those for whom there is neither a place nor room in the queue are told when
// to try again, and lose nothing.
static void not_more_come_back_than_there_is_room_for(void **state)
{
    world_t *w = *state;
    client_t clients[2] = {0};
    join_target(w);
    for (uint32_t i = 0; i < 2; i++) {
        enter(w, &clients[i], "a");
        ask_for_a_part(w, &clients[i], 1 + i);
    }
    w->config.sessions_max = 1;
    w->config.waiting_max = 0;
    restart(w, &clients[0]);
    run_hearing(w, &clients[1], 2100);
    resume(w, &clients[0], &clients[0]);
    for (uint32_t i = 0; i < 3; i++) {
        resume(w, &clients[1], &clients[1]);
        assert_int_equal(clients[1].finish, OR_FINISH_ERROR);
        assert_int_equal(clients[1].error_code, OR_WIRE_BUSY);
    }
    assert_int_equal(ask_stats(w)->parked, 0);
    w->slow = false;
    run_hearing(w, &clients[0], 11000);
    run_hearing(w, &clients[1], 2100);
    assert_whole(&clients[0]);
    resume(w, &clients[1], &clients[1]);
    run_hearing(w, &clients[1], 50);
    assert_whole(&clients[1]);
    leave(&clients[0].edge);
    leave(&clients[1].edge);
}

static void another_target_does_not_write_on(void **state)
{
    world_t *w = *state;
    client_t client = {0};
    join_target(w);
    enter(w, &client, "a");
    ask_for_a_part(w, &client, 1);
    w->config.model_hash = TARGET + 1;
    restart(w, &client);
    resume(w, &client, &client);
    assert_unknown(&client);
    leave(&client.edge);
}

// The text's file once more, as if its request had come in a frame of this protocol.
static void write_anew(world_t *w, const client_t *client, uint32_t protocol)
{
    or_journal_entry_t found;
    uint64_t number;
    uint8_t frame[1024];
    int32_t ids[WANTED];
    assert_int_equal(
        or_journal_find(w->config.journal, client->token, sizeof client->token, &found, &number),
        OR_OK);
    assert_in_range(found.request_bytes, 2, sizeof frame);
    assert_in_range(found.count, 1, WANTED);
    const uint32_t count = found.count;
    const uint64_t round = found.round;
    memcpy(ids, found.tokens, count * sizeof *ids);
    memcpy(frame, found.request, found.request_bytes);
    assert_int_equal(frame[0], 1 << 3); // the Envelope's first field is its version
    assert_int_equal(frame[1], OR_PROTOCOL_VERSION);
    frame[1] = (uint8_t)protocol;
    or_journal_entry_t entry = {.owner = "a",
                                .key = "",
                                .model_hash = found.model_hash,
                                .request = frame,
                                .request_bytes = found.request_bytes,
                                .seed = found.seed};
    memcpy(entry.token, client->token, sizeof entry.token);
    or_journal_drop(w->config.journal, number);
    assert_int_equal(or_journal_begin(w->config.journal, &entry, &number), OR_OK);
    assert_int_equal(or_journal_commit(w->config.journal, number, ids, count, round, ""), OR_OK);
}

// The request is kept as the frame that it came in.
static void a_request_of_another_protocol_does_not_write_on(void **state)
{
    world_t *w = *state;
    join_target(w);
    for (uint32_t more = 0; more < 2; more++) {
        client_t client = {0};
        w->slow = true;
        enter(w, &client, "a");
        ask_for_a_part(w, &client, 1 + more);
        write_anew(w, &client, OR_PROTOCOL_VERSION + more);
        restart(w, &client);
        w->slow = false;
        resume(w, &client, &client);
        run_hearing(w, &client, 50);
        if (more == 0) {
            assert_whole(&client);
        } else {
            assert_unknown(&client);
        }
        leave(&client.edge);
    }
}

static void other_arithmetic_does_not_write_on(void **state)
{
    world_t *w = *state;
    client_t client = {0};
    const or_hello_t verifier = {.role = OR_ROLE_VERIFIER,
                                 .vocab_hash = or_vocab_hash(w->vocab),
                                 .model_hash = TARGET,
                                 .arith_id = "canonical"};
    or_hello_t other = verifier;
    other.arith_id = "fast";
    join(w, &w->verifier, verifier);
    enter(w, &client, "a");
    ask_for_a_part(w, &client, 1);
    leave(&w->verifier);
    restart(w, &client);
    join(w, &w->verifier, other);
    run(w, 10);
    resume(w, &client, &client);
    run_hearing(w, &client, 10);
    assert_int_equal(client.finish, OR_FINISH_ERROR);
    assert_non_null(strstr(client.error, "other arithmetic (fast)"));
    leave(&client.edge);
}

// A planned restart ends nothing that is in the journal.
static void a_stop_in_order_ends_no_text(void **state)
{
    world_t *w = *state;
    client_t client = {0};
    join_target(w);
    enter(w, &client, "a");
    ask_for_a_part(w, &client, 1);
    or_coordinator_shutdown(w->coordinator);
    run_hearing(w, &client, 0);
    restart(w, &client);
    w->slow = false;
    resume(w, &client, &client);
    run_hearing(w, &client, 50);
    assert_whole(&client);
    leave(&client.edge);
}

// Without room for it on disk a text is written, and ends with its coordinator.
static void a_text_without_room_goes_on_without_the_journal(void **state)
{
    world_t *w = *state;
    client_t client = {0};
    or_ledger_t *ledger = NULL;
    assert_int_equal(or_ledger_create(1 << 20, 4096, &ledger), OR_OK);
    w->config.ledger = ledger;
    restart(w, NULL);
    join_target(w);
    enter(w, &client, "a");
    ask_for_a_part(w, &client, 1);
    assert_int_equal(or_journal_count(w->config.journal), 0);
    w->slow = false;
    run_hearing(w, &client, 1100);
    assert_whole(&client);
    w->config.ledger = NULL;
    restart(w, &client);
    or_ledger_destroy(&ledger); // nothing is charged to it any more
    resume(w, &client, &client);
    assert_unknown(&client);
    leave(&client.edge);
}

// Neither what was begun before nor what could not even begin is in its owner's account for ever.
static void a_text_that_ended_while_the_disk_was_full_is_released(void **state)
{
    world_t *w = *state;
    client_t begun = {0}, refused = {0};
    or_ledger_t *ledger = NULL;
    or_ledger_usage_t usage;
    assert_int_equal(or_ledger_create(64 << 20, 64 << 20, &ledger), OR_OK);
    w->config.ledger = ledger;
    journal_clock = &w->clock.clock;
    restart(w, NULL);
    join_target(w);
    enter(w, &begun, "a");
    enter(w, &refused, "a");
    ask_for_a_part(w, &begun, 1);
    fill_disk();
    w->slow = false;
    run_hearing(w, &begun, 1100);
    ask_for(w, &refused, 2, WANTED);
    run_hearing(w, &refused, 100);
    assert_whole(&begun);
    assert_whole(&refused);
    for (uint32_t s = 0; s < 30 + RESUME_MS / 1000 + 5; s++) { // an end is kept, and then its file
        run_hearing(w, &begun, 500);
        run_hearing(w, &refused, 500);
    }
    empty_disk();
    or_ledger_usage(ledger, &usage);
    assert_int_equal(usage.owners, 0);
    assert_int_equal(or_journal_count(w->config.journal), 0);
    leave(&begun.edge);
    leave(&refused.edge);
    w->config.ledger = NULL;
    restart(w, NULL);
    or_ledger_destroy(&ledger);
}

// Everything that the coordinator sends passes here.
static struct {
    const or_channel_ops_t *ops; // the channel's own
    or_journal_t *journal;
    uint8_t token[OR_SESSION_TOKEN_BYTES]; // of the only text
    uint32_t told;                         // tokens of it
} watch;

static void compare_with_journal(const or_generate_delta_t *delta)
{
    or_journal_entry_t entry;
    uint64_t number;
    if (delta->token_bytes > 0) {
        memcpy(watch.token, delta->token, sizeof watch.token);
    }
    watch.told = delta->offset + delta->count;
    assert_int_equal(
        or_journal_find(watch.journal, watch.token, sizeof watch.token, &entry, &number), OR_OK);
    assert_true(entry.count >= watch.told);
}

static or_status_t watched_send(or_channel_t *channel, or_peer_t to, const uint8_t *frame,
                                size_t bytes)
{
    or_message_t message = {0};
    assert_int_equal(or_message_decode(frame, bytes, &message), OR_OK);
    if (message.type == OR_MSG_GENERATE_DELTA) {
        compare_with_journal(&message.body.generate_delta);
    }
    or_message_fini(&message);
    return watch.ops->send(channel, to, frame, bytes);
}

// A token that a client was told and the journal lacks would be written anew, and otherwise, after a crash between the two.
static void every_token_is_in_the_journal_before_it_is_told(void **state)
{
    world_t *w = *state;
    client_t client = {0};
    watch.ops = w->hub_channel->ops;
    watch.journal = w->config.journal;
    watch.told = 0;
    or_channel_ops_t watched = *watch.ops;
    watched.send = watched_send;
    w->hub_channel->ops = &watched;
    join_target(w);
    enter(w, &client, "a");
    ask_for(w, &client, 1, WANTED);
    run_hearing(w, &client, 50);
    assert_whole(&client);
    assert_int_equal(watch.told, WANTED);
    w->hub_channel->ops = watch.ops;
    leave(&client.edge);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define KEYS(test) cmocka_unit_test_setup_teardown(test, set_up_keys, tear_down_keys)

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        TEST(a_coordinator_that_died_goes_on),
        KEYS(a_text_comes_back_to_the_key_that_asked_for_it),
        KEYS(a_text_whose_key_was_revoked_leaves_the_journal),
        TEST(what_had_not_begun_begins_with_the_next),
        TEST(a_conversation_goes_on_with_the_prompt_it_had),
        TEST(thoughts_are_told_apart_after_a_restart),
        TEST(many_coordinators_write_one_text),
        TEST(an_end_outlives_its_coordinator),
        TEST(what_the_disk_lost_is_said),
        TEST(another_target_does_not_write_on),
        TEST(a_request_of_another_protocol_does_not_write_on),
        TEST(other_arithmetic_does_not_write_on),
        TEST(a_stop_in_order_ends_no_text),
        TEST(a_text_without_room_goes_on_without_the_journal),
        TEST(a_text_that_ended_while_the_disk_was_full_is_released),
        TEST(every_token_is_in_the_journal_before_it_is_told),
        TEST(what_the_disk_lost_is_written_again),
        TEST(what_would_be_another_text_is_not),
        TEST(not_more_come_back_than_there_is_room_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
