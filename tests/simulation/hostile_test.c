// Goal: all texts are correct although one drafter sends wrong hashes, giant trees, other trees for a round,
// nonsense and floods. It is cut off or asked no more, and the honest one never is. Texts after that are as quick as
// without it. A drafter that only guesses badly changes no text either. A crowd larger than the queue is served in
// the end.
// Method: run the whole system in one process on a virtual clock with real models. The offender is a guest on the
// same network, and its acts are drawn from a seed. Texts are compared with plain decoding that knows no network.
#include <string.h>

#include "common/decode/token_tree.h"
#include "tests/simulation/cluster.h"
#include "tests/simulation/plain.h"
#include "tests/support/test_support.h"

#define TOKENS 24
#define CROWD 8
#define LIMIT_S 600
#define STALL_NS (950 * OR_NS_PER_MS) // a round waits for a second
#define US_PER_S 1000000u
#define PROMPT "There was once a king who"

static sim_model_t target, draft;

static int setup(void **state)
{
    (void)state;
    sim_model_load(test_model("tales-6m-f16.gguf"), 1, 64, &target);
    sim_model_load(test_model("tales-1m-f16.gguf"), 1, 64, &draft);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sim_model_free(&draft);
    sim_model_free(&target);
    return 0;
}

// ---- the offender ----

typedef enum { WRONG_HASH, GIANT, OTHERS, NONSENSE, FLOOD, USELESS, MISCHIEFS } mischief_t;

typedef struct {
    or_channel_t *channel;
    or_link_t *link;
    uint64_t random;
    bool only_useless; // well-formed trees of guesses that never come true
    bool stalls;       // empty trees, just in time
    struct {
        or_session_id_t session;
        uint64_t round, hash;
        uint32_t length;
        int64_t at_ns; // 0: sent
    } due[4 * CROWD];  // one a session; those that are over are overwritten
    uint32_t next_due;
    uint32_t trees;
    bool cut_off;
} offender_t;

static void send_guesses(offender_t *o, or_session_id_t session, uint64_t round, uint32_t length,
                         uint64_t hash, uint32_t count)
{
    static uint32_t tokens[OR_TREE_NODES_MAX + 1], back[OR_TREE_NODES_MAX + 1];
    for (uint32_t i = 0; i < count; i++) {
        tokens[i] = 300 + test_below(&o->random, 3000);
        back[i] = 1;
    }
    const or_message_t message = {.type = OR_MSG_DRAFT_TREE,
                                  .session = session,
                                  .body.draft_tree = {.round = round,
                                                      .base_length = length,
                                                      .base_hash = hash,
                                                      .tokens = tokens,
                                                      .back = back,
                                                      .count = count}};
    o->trees++;
    or_link_send(o->link, OR_PEER_HUB, &message); // a full queue is the offender's loss
}

static void send_nonsense(offender_t *o)
{
    uint8_t frame[64];
    for (size_t i = 0; i < sizeof frame; i++) {
        frame[i] = (uint8_t)test_below(&o->random, 256);
    }
    or_channel_send(o->channel, OR_PEER_HUB, frame, sizeof frame);
}

// Misbehave when asked for a tree of `nodes`.
static void misbehave(offender_t *o, or_session_id_t session, uint64_t round, uint32_t length,
                      uint64_t hash, uint32_t nodes)
{
    mischief_t mischief = o->only_useless ? USELESS : (mischief_t)test_below(&o->random, MISCHIEFS);
    uint32_t many = mischief == FLOOD ? 300 : mischief == OTHERS ? 5 : 1;
    for (uint32_t i = 0; i < many; i++) {
        if (mischief == NONSENSE) {
            send_nonsense(o);
        } else {
            send_guesses(o, session, round, length, hash + (mischief == WRONG_HASH),
                         mischief == GIANT ? 1000 : nodes);
        }
    }
}

// Put the answer to this round off.
static void put_off(offender_t *o, or_session_id_t session, uint64_t round, uint32_t length,
                    uint64_t hash, int64_t now_ns)
{
    uint32_t at = 0;
    while (at < 4 * CROWD && o->due[at].session.value != session.value) {
        at++;
    }
    at = at < 4 * CROWD ? at : o->next_due++ % (4 * CROWD);
    if (o->due[at].session.value == session.value && o->due[at].round == round) {
        return; // reminded
    }
    o->due[at].session = session;
    o->due[at].round = round;
    o->due[at].length = length;
    o->due[at].hash = hash;
    o->due[at].at_ns = now_ns + STALL_NS;
}

static void answer_at_last(offender_t *o, int64_t now_ns)
{
    for (uint32_t i = 0; i < 4 * CROWD; i++) {
        if (o->due[i].at_ns != 0 && now_ns >= o->due[i].at_ns) {
            o->due[i].at_ns = 0;
            send_guesses(o, o->due[i].session, o->due[i].round, o->due[i].length, o->due[i].hash,
                         0);
        }
    }
}

static void take(offender_t *o, const or_message_t *message, int64_t now_ns)
{
    const or_prefix_t *prefix = &message->body.prefix;
    const or_verdict_t *verdict = &message->body.verdict;
    if (message->type == OR_MSG_PREFIX && o->stalls) {
        put_off(o, message->session, prefix->round, prefix->start + prefix->count, prefix->hash,
                now_ns);
    } else if (message->type == OR_MSG_VERDICT && o->stalls) {
        put_off(o, message->session, verdict->round + 1,
                verdict->base_length + verdict->accepted_count + 1, verdict->hash, now_ns);
    } else if (message->type == OR_MSG_PREFIX) {
        misbehave(o, message->session, prefix->round, prefix->start + prefix->count, prefix->hash,
                  prefix->draft_nodes > 0 ? prefix->draft_nodes : 16);
    } else if (message->type == OR_MSG_VERDICT) {
        misbehave(o, message->session, verdict->round + 1,
                  verdict->base_length + verdict->accepted_count + 1, verdict->hash,
                  verdict->draft_nodes > 0 ? verdict->draft_nodes : 16);
    } else if (message->type == OR_MSG_ERROR && message->session.value == 0) {
        o->cut_off = o->cut_off || strstr(message->body.error.text, "cut off") != NULL;
    }
}

static void offend(sim_t *sim, void *context)
{
    offender_t *o = context;
    if (o->link == NULL) {
        const or_hello_t hello = {.role = OR_ROLE_DRAFTER,
                                  .software = "offender",
                                  .vocab_hash = or_vocab_hash(target.vocab),
                                  .vocab_size = or_vocab_size(target.vocab),
                                  .model = "offender.gguf",
                                  .context_max = 512,
                                  .nodes_max = 64};
        o->channel = sim_connect(sim);
        assert_int_equal(or_link_create(o->channel, sim_clock(sim), &hello, 1000, &o->link), OR_OK);
    }
    or_link_event_t event;
    or_peer_t from;
    or_message_t message;
    while (or_link_receive(o->link, &event, &from, &message) == OR_OK) {
        if (event == OR_LINK_MESSAGE) {
            take(o, &message, sim_now_ns(sim));
            or_message_fini(&message);
        }
    }
    answer_at_last(o, sim_now_ns(sim));
    or_link_tick(o->link);
}

static void send_home(offender_t *o)
{
    or_link_destroy(&o->link);
    or_channel_destroy(&o->channel);
}

// ---- texts ----

static void make_requests(or_generate_request_t *requests, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        requests[i] = sim_request(PROMPT, TOKENS);
        requests[i].sampling.temperature = i % 2 == 0 ? 0.0F : 1.0F;
        requests[i].seed = i;
    }
}

// Serve a crowd; returns how much (virtual) time its texts took together.
static uint64_t serve_crowd(sim_t *sim, uint32_t count)
{
    static or_generate_request_t requests[4 * CROWD];
    static sim_result_t results[4 * CROWD];
    uint64_t elapsed_us = 0;
    make_requests(requests, count);
    sim_generate_all(sim, requests, count, LIMIT_S, results);
    for (uint32_t i = 0; i < count; i++) {
        assert_plain_text(&target, &requests[i], &results[i]);
        elapsed_us += results[i].stats.elapsed_us;
    }
    return elapsed_us;
}

static const or_network_faults_t quiet = {.delay_min_ns = OR_NS_PER_MS,
                                          .delay_max_ns = OR_NS_PER_MS};

static void a_hostile_drafter_is_cut_off_and_harms_nobody(void **state)
{
    (void)state;
    sim_config_t config = {.seed = 1, .faults = quiet, .target = &target, .draft = &draft};
    sim_t *sim = sim_create(&config);
    uint64_t before_us = serve_crowd(sim, CROWD);
    sim_destroy(sim);
    uint64_t base = test_seed();
    uint32_t cut_off = 0;
    for (uint64_t seed = base; seed < base + 4; seed++) {
        offender_t offender = {.random = seed};
        config.guest = offend;
        config.guest_context = &offender;
        sim = sim_create(&config);
        for (int wave = 0; wave < 10 && !offender.cut_off; wave++) {
            serve_crowd(sim, CROWD);
        }
        assert_true(offender.trees > 0);
        cut_off += offender.cut_off ? 1 : 0; // else it was of so little use that it is left aside
        uint32_t trees = offender.trees;
        uint64_t after_us = serve_crowd(sim, CROWD);
        assert_true(!offender.cut_off || offender.trees == trees); // it is told of nothing any more
        assert_true(after_us <= before_us + before_us / 10);
        send_home(&offender);
        sim_destroy(sim);
    }
    assert_true(cut_off > 0);
}

// All its messages are valid: it is no offender, only no help.
static void bad_guesses_change_no_text(void **state)
{
    (void)state;
    offender_t offender = {.random = 5, .only_useless = true};
    sim_config_t config = {
        .seed = 1, .faults = quiet, .target = &target, .guest = offend, .guest_context = &offender};
    sim_t *sim = sim_create(&config);
    serve_crowd(sim, CROWD);
    send_home(&offender);
    sim_destroy(sim);
    assert_true(offender.trees > CROWD);
    assert_false(offender.cut_off);
}

// The drafter answers every round with nothing, just before it would be given up on. At first that
// costs a text a few waits. Once it is known for it, it costs one, then none.
static void one_that_holds_rounds_up_is_soon_left(void **state)
{
    (void)state;
    offender_t offender = {.stalls = true};
    const sim_config_t config = {.seed = 1,
                                 .faults = quiet,
                                 .target = &target,
                                 .draft = &draft,
                                 .guest = offend,
                                 .guest_context = &offender};
    sim_t *sim = sim_create(&config);
    uint64_t first_us = serve_crowd(sim, CROWD / 2);
    uint64_t last_us = first_us;
    for (int wave = 0; wave < 4; wave++) {
        last_us = serve_crowd(sim, CROWD / 2);
    }
    send_home(&offender);
    sim_destroy(sim);
    assert_true(offender.trees > 0);
    assert_true(first_us < CROWD / 2 * 5 * US_PER_S);
    assert_true(last_us < CROWD / 2 * US_PER_S / 2);
}

static void a_crowd_beyond_the_queue_is_served_in_the_end(void **state)
{
    (void)state;
    const sim_config_t config = {
        .seed = 1, .faults = quiet, .target = &target, .draft = &draft, .waiting_max = 2};
    sim_t *sim = sim_create(&config);
    serve_crowd(sim, 4 * CROWD); // four at a time
    sim_destroy(sim);
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hostile_drafter_is_cut_off_and_harms_nobody),
        cmocka_unit_test(bad_guesses_change_no_text),
        cmocka_unit_test(one_that_holds_rounds_up_is_soon_left),
        cmocka_unit_test(a_crowd_beyond_the_queue_is_served_in_the_end),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
