#include "verifier/verifier_test_support.h"

#include <stdlib.h>
#include <string.h>

const uint32_t prompt[PROMPT] = {1, 458, 1112};
const or_gpu_choice_t *bench_gpu;

static const or_verifier_config_t shape = {.nodes_max = 32, .sessions_max = 2};

static int set_up(void **state, uint32_t pages_max, uint32_t step_delay_us)
{
    bench_t *b = calloc(1, sizeof *b);
    const or_model_options_t options = {.threads = 1,
                                        .context_max = BENCH_CONTEXT,
                                        .sequences_max = shape.sessions_max,
                                        .slots_max = shape.nodes_max,
                                        .pages_max = pages_max,
                                        .gpu = bench_gpu};
    const or_network_faults_t none = {0};
    or_verifier_config_t config = shape;
    config.step_delay_us = step_delay_us;
    assert_int_equal(or_gguf_open(test_model("tales-1m-f16.gguf"), &b->gguf), OR_OK);
    assert_int_equal(or_vocab_load(b->gguf, &b->vocab), OR_OK);
    assert_int_equal(or_model_load(b->gguf, &options, &b->model), OR_OK);
    or_virtual_clock_init(&b->clock, OR_NS_PER_S);
    assert_int_equal(or_network_create(&b->clock, 1, &none, &b->network), OR_OK);
    assert_int_equal(or_network_hub(b->network, &b->hub_channel), OR_OK);
    assert_int_equal(or_network_edge(b->network, &b->channel), OR_OK);
    or_hello_t hello = or_verifier_hello(&shape, b->gguf, b->model, b->vocab);
    assert_int_equal(or_link_create(b->hub_channel, &b->clock.clock, NULL, 1000, &b->hub), OR_OK);
    assert_int_equal(or_link_create(b->channel, &b->clock.clock, &hello, 1000, &b->link), OR_OK);
    assert_int_equal(
        or_verifier_create(&config, b->model, b->vocab, b->link, &b->clock.clock, &b->verifier),
        OR_OK);
    *state = b;
    return 0;
}

int bench_setup(void **state)
{
    return set_up(state, 0, 0);
}

int bench_setup_scarce(void **state)
{
    return set_up(state, BENCH_CONTEXT / OR_KV_PAGE, 0);
}

int bench_setup_slow(void **state)
{
    return set_up(state, 0, BENCH_STEP_MS * 1000);
}

int bench_teardown(void **state)
{
    bench_t *b = *state;
    or_verifier_destroy(&b->verifier);
    or_link_destroy(&b->link);
    or_link_destroy(&b->hub);
    or_channel_destroy(&b->channel);
    or_channel_destroy(&b->hub_channel);
    or_network_destroy(&b->network);
    or_model_destroy(&b->model);
    or_vocab_destroy(&b->vocab);
    or_gguf_close(&b->gguf);
    free(b);
    return 0;
}

or_message_type_t hear(bench_t *b, or_message_t *message)
{
    for (int i = 0; i < 100; i++) {
        or_link_event_t event;
        or_verifier_turn(b->verifier);
        or_link_tick(b->hub);
        while (or_link_receive(b->hub, &event, &b->peer, message) == OR_OK) {
            if (event == OR_LINK_MESSAGE && message->type != OR_MSG_HELLO &&
                message->type != OR_MSG_KV_EVICTED) {
                return message->type;
            }
            or_message_fini(message);
        }
    }
    memset(message, 0, sizeof *message);
    return OR_MSG_HEARTBEAT;
}

void say(bench_t *b, or_message_t message)
{
    message.session.value = message.session.value == 0 ? 7 : message.session.value;
    assert_int_equal(or_link_send(b->hub, b->peer, &message), OR_OK);
}

or_open_session_t usual_terms(void)
{
    or_open_session_t open = {.sampling = or_sampling_default(),
                              .accept_rule = OR_ACCEPT_COUPLED,
                              .draft_method = OR_DRAFT_COUPLED,
                              .draft_nodes = 16,
                              .draft_depth = 8,
                              .draft_temperature = 1,
                              .prompt_length = PROMPT};
    open.sampling.temperature = 0;
    return open;
}

void greet_and_open(bench_t *b, or_open_session_t terms)
{
    or_message_t message;
    hear(b, &message); // Hello: now the hub knows the peer
    say(b, (or_message_t){.type = OR_MSG_OPEN_SESSION, .body.open_session = terms});
    say(b, (or_message_t){.type = OR_MSG_PREFIX,
                          .body.prefix = {.tokens = prompt,
                                          .count = PROMPT,
                                          .hash = or_prefix_hash(0, prompt, PROMPT),
                                          .round = 1}});
}

or_message_t tree_of(uint64_t round, const uint32_t *tokens, const uint32_t *back, uint32_t count)
{
    return (or_message_t){.type = OR_MSG_DRAFT_TREE,
                          .body.draft_tree = {.round = round,
                                              .base_length = PROMPT,
                                              .base_hash = or_prefix_hash(0, prompt, PROMPT),
                                              .tokens = tokens,
                                              .back = back,
                                              .count = count}};
}

void expect_error(bench_t *b, or_wire_error_t code)
{
    or_message_t message;
    assert_int_equal(hear(b, &message), OR_MSG_ERROR);
    assert_int_equal(message.body.error.code, code);
    assert_true(strlen(message.body.error.text) > 0);
    or_message_fini(&message);
}

void expect_silence(bench_t *b)
{
    or_message_t message;
    assert_int_equal(hear(b, &message), OR_MSG_HEARTBEAT);
}

void expect_refusal(bench_t *b, const char *reason)
{
    or_message_t message;
    assert_int_equal(hear(b, &message), OR_MSG_ERROR);
    assert_int_equal(message.body.error.code, OR_WIRE_INVALID);
    if (strstr(message.body.error.text, reason) == NULL) {
        fail_msg("'%s' does not say '%s'", message.body.error.text, reason);
    }
    or_message_fini(&message);
}

void decode_plainly(bench_t *b, uint32_t count, uint32_t *text)
{
    uint64_t hash = or_prefix_hash(0, prompt, PROMPT);
    const or_session_id_t id = {20};
    say(b, (or_message_t){
               .type = OR_MSG_OPEN_SESSION, .session = id, .body.open_session = usual_terms()});
    say(b, (or_message_t){
               .type = OR_MSG_PREFIX,
               .session = id,
               .body.prefix = {.tokens = prompt, .count = PROMPT, .hash = hash, .round = 1}});
    for (uint32_t i = 0; i < count; i++) {
        or_message_t verdict;
        or_message_t step = tree_of(i + 1, NULL, NULL, 0);
        step.session = id;
        step.body.draft_tree.base_length = PROMPT + i;
        step.body.draft_tree.base_hash = hash;
        say(b, step);
        assert_int_equal(hear(b, &verdict), OR_MSG_VERDICT);
        text[i] = verdict.body.verdict.next;
        hash = verdict.body.verdict.hash;
        or_message_fini(&verdict);
    }
}
