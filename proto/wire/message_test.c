// Goal: what is encoded is what is decoded, for every type and field; no frame, however hostile,
// crashes, leaks or costs much.
// Method: random messages of every type there and back, compared field by field. Frames are damaged at random (ASan watches),
// and made by hand for each rule of message.h. message_protobuf_test.c compares the same codec with another one.
#include "proto/wire/message.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/version.h"
#include "proto/wire/message_arena.h"
#include "proto/wire/message_test_random.h"
#include "tests/support/test_support.h"

#define ROUNDS 100 // of every type

static void encode(const or_message_t *message, uint8_t **frame, size_t *bytes)
{
    or_status_t status = or_message_encode(message, frame, bytes);
    if (status != OR_OK) {
        fail_msg("cannot encode: %s", or_error_text());
    }
}

static void assert_comes_back(const or_message_t *message)
{
    uint8_t *frame;
    size_t bytes;
    encode(message, &frame, &bytes);
    or_message_t back;
    memset(&back, 0xAA, sizeof back);
    if (or_message_decode(frame, bytes, &back) != OR_OK) {
        fail_msg("cannot decode a %s: %s", or_message_type_name(message->type), or_error_text());
    }
    const char *field = message_difference(message, &back);
    if (field != NULL) {
        fail_msg("%s differs after encoding and decoding", field);
    }
    assert_int_equal(back.version, OR_PROTOCOL_VERSION);
    or_message_fini(&back);
    free(frame);
}

static void every_field_comes_back(void **context)
{
    (void)context;
    uint64_t state = test_seed();
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t type = OR_RANDOM_TYPE_FIRST; type <= OR_RANDOM_TYPE_LAST; type++) {
            or_message_t message;
            message_test_random(&state, (or_message_type_t)type, &message);
            assert_comes_back(&message);
            message_test_random_free();
        }
    }
}

static void damage(uint64_t *state, uint8_t *frame, size_t *bytes)
{
    if (test_below(state, 3) == 0 && *bytes > 0) {
        *bytes = test_below(state, *bytes);
    }
    for (uint64_t flips = test_below(state, 4); flips > 0 && *bytes > 0; flips--) {
        frame[test_below(state, *bytes)] ^= (uint8_t)(1u << test_below(state, 8));
    }
}

// A decoded message must be readable throughout: encoding it reads every array.
static void use(const or_message_t *message)
{
    uint8_t *frame;
    size_t bytes;
    if (or_message_encode(message, &frame, &bytes) == OR_OK) {
        free(frame);
    }
}

static void damaged_frames_do_no_harm(void **context)
{
    (void)context;
    uint64_t state = test_seed();
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t type = OR_RANDOM_TYPE_FIRST; type <= OR_RANDOM_TYPE_LAST; type++) {
            or_message_t message;
            message_test_random(&state, (or_message_type_t)type, &message);
            uint8_t *frame;
            size_t bytes;
            encode(&message, &frame, &bytes);
            message_test_random_free();
            damage(&state, frame, &bytes);
            or_message_t back;
            if (or_message_decode(frame, bytes, &back) == OR_OK) {
                use(&back);
            } else {
                assert_null(back.owned);
            }
            or_message_fini(&back);
            free(frame);
        }
    }
}

static void random_bytes_do_no_harm(void **context)
{
    (void)context;
    uint64_t state = test_seed();
    for (int round = 0; round < 20000; round++) {
        uint8_t frame[64];
        size_t bytes = test_below(&state, sizeof frame);
        for (size_t i = 0; i < bytes; i++) {
            frame[i] = (uint8_t)test_random(&state);
        }
        or_message_t back;
        if (or_message_decode(frame, bytes, &back) == OR_OK) {
            use(&back);
        }
        or_message_fini(&back);
    }
}

static void assert_refused(const uint8_t *frame, size_t bytes, const char *sentence)
{
    or_message_t message;
    assert_int_equal(or_message_decode(frame, bytes, &message), OR_ERR_FORMAT);
    if (strstr(or_error_text(), sentence) == NULL) {
        fail_msg("expected \"%s\" in \"%s\"", sentence, or_error_text());
    }
    assert_null(message.owned);
}

static void strangers_are_told_apart(void **context)
{
    (void)context;
    const uint8_t no_body[] = {0x08, 2};                 // version 2
    const uint8_t new_body[] = {0x08, 2, 0xEA, 0x3F, 0}; // version 2, field 1021
    const uint8_t no_sampling[] = {0x08, 2, 0x2A, 0};    // an OpenSession of nothing
    const uint8_t text[] = "GET / HTTP/1.1\r\n";
    assert_refused(NULL, 0, "not Outrider's");
    assert_refused(no_body, sizeof no_body, "unknown message type");
    assert_refused(new_body, sizeof new_body, "unknown message type");
    assert_refused(no_sampling, sizeof no_sampling, "sampling");
    assert_refused(text, sizeof text - 1, "");
}

static void another_version_is_named(void **context)
{
    (void)context;
    or_message_t message = {.type = OR_MSG_HEARTBEAT, .version = 7};
    uint8_t *frame;
    size_t bytes;
    encode(&message, &frame, &bytes);
    or_message_t back;
    assert_int_equal(or_message_decode(frame, bytes, &back), OR_ERR_MISMATCH);
    assert_int_equal(back.version, 7);
    assert_non_null(strstr(or_error_text(), "protocol 7"));
    assert_non_null(strstr(or_error_text(), "this is 2"));
    free(frame);
}

static void an_error_is_read_whatever_its_version(void **context)
{
    (void)context;
    or_message_t message = {.type = OR_MSG_ERROR, .version = 7};
    message.body.error = (or_error_t){.code = OR_WIRE_VERSION, .text = "too old"};
    uint8_t *frame;
    size_t bytes;
    encode(&message, &frame, &bytes);
    or_message_t back;
    assert_int_equal(or_message_decode(frame, bytes, &back), OR_OK);
    assert_string_equal(back.body.error.text, "too old");
    or_message_fini(&back);
    free(frame);
}

static void unequal_arrays_are_refused(void **context)
{
    (void)context;
    // Envelope{version 2, DraftTree{tokens, back, dist_index, distributions}}, fields 5, 6, 7 and 9.
    const uint8_t back[] = {0x08, 2, 0x3A, 7, 0x2A, 2, 5, 6, 0x32, 1, 1};
    const uint8_t dist_index[] = {0x08, 2, 0x3A, 11, 0x2A, 2, 5, 6, 0x32, 2, 1, 1, 0x3A, 1, 0};
    const uint8_t draw_order[] = {0x08, 2, 0x3A, 11, 0x2A, 2, 5, 6, 0x32, 2, 1, 1, 0x42, 1, 0};
    const uint8_t weights[] = {0x08, 2, 0x3A, 5, 0x4A, 3, 0x0A, 1, 9};
    // Verdict{logprobs{top_tokens}}, and PsiReply{tokens}.
    const uint8_t top[] = {0x08, 2, 0x42, 5, 0x32, 3, 0x1A, 1, 9};
    const uint8_t psi[] = {0x08, 2, 0x62, 3, 0x1A, 1, 9};
    assert_refused(back, sizeof back, "tree tokens and parents");
    assert_refused(dist_index, sizeof dist_index, "distribution indices");
    assert_refused(draw_order, sizeof draw_order,
                   "draw order and tree tokens differ in length: 1 and 2");
    assert_refused(weights, sizeof weights, "tokens and weights differ in length: 1 and 0");
    assert_refused(top, sizeof top, "top tokens and logprobs differ in length: 1 and 0");
    assert_refused(psi, sizeof psi, "tokens and their psi differ in length: 1 and 0");
}

static void assert_delta_is_refused(const or_generate_delta_t *delta, const char *sentence)
{
    or_message_t message = {.type = OR_MSG_GENERATE_DELTA, .body.generate_delta = *delta};
    uint8_t *frame;
    size_t bytes;
    encode(&message, &frame, &bytes);
    assert_refused(frame, bytes, sentence);
    free(frame);
}

// A list with an entry for each token has one for all of them, or is empty.
static void unequal_details_are_refused(void **context)
{
    (void)context;
    const uint32_t tokens[] = {1, 2}, back[] = {1, 1};
    const uint8_t origins[] = {0};
    const uint64_t ends[] = {1, 2, 3};
    const double psi[] = {0.5};
    const or_token_logprob_t logprobs[3] = {{.token = 1}};
    const or_draft_tree_t tree = {
        .tokens = tokens, .back = back, .count = 2, .psi = psi, .psi_count = 1};
    or_generate_delta_t delta = {.tokens = tokens, .count = 2, .logprobs = logprobs};
    delta.logprob_count = 3;
    assert_delta_is_refused(&delta, "logprobs and tokens");
    delta.logprob_count = 0;
    delta.origins = origins;
    delta.origin_count = 1;
    assert_delta_is_refused(&delta, "origins and tokens");
    delta.origin_count = 0;
    delta.token_ends = ends;
    delta.token_end_count = 3;
    assert_delta_is_refused(&delta, "token ends and tokens");
    delta.token_end_count = 0;
    delta.tree = &tree;
    assert_delta_is_refused(&delta, "psi and tree tokens");
    or_message_t verdict = {.type = OR_MSG_VERDICT};
    verdict.body.verdict = (or_verdict_t){.accepted = tokens,
                                          .accepted_count = 2, // and the token behind them
                                          .logprobs = logprobs,
                                          .logprob_count = 2};
    uint8_t *frame;
    size_t bytes;
    encode(&verdict, &frame, &bytes);
    assert_refused(frame, bytes, "logprobs and the verdict's tokens");
    free(frame);
    verdict.body.verdict.logprob_count = 3;
    assert_comes_back(&verdict);
}

static void long_arrays_are_refused(void **context)
{
    (void)context;
    uint32_t *tokens = calloc(OR_WIRE_TOKENS_MAX + 1, sizeof *tokens);
    assert_non_null(tokens);
    or_message_t message = {.type = OR_MSG_PREFIX};
    message.body.prefix = (or_prefix_t){.tokens = tokens, .count = OR_WIRE_TOKENS_MAX + 1};
    uint8_t *frame;
    size_t bytes;
    encode(&message, &frame, &bytes);
    assert_refused(frame, bytes, "at most 1048576");
    free(frame);
    message.body.prefix.count = OR_WIRE_TOKENS_MAX;
    assert_comes_back(&message);
    free(tokens);
}

// Every part of a text looks for its place among them.
static void many_changes_of_parts_are_refused(void **context)
{
    (void)context;
    static const uint64_t changes[OR_PART_CHANGES_MAX + 1] = {0};
    or_message_t message = {.type = OR_MSG_GENERATE_DELTA};
    message.body.generate_delta = (or_generate_delta_t){
        .part_changes = changes, .part_change_count = OR_PART_CHANGES_MAX + 1};
    uint8_t *frame;
    size_t bytes;
    encode(&message, &frame, &bytes);
    assert_refused(frame, bytes, "changes of parts has 65 entries where at most 64");
    free(frame);
    message.body.generate_delta = (or_generate_delta_t){
        .call_changes = changes, .call_change_count = OR_PART_CHANGES_MAX + 1};
    encode(&message, &frame, &bytes);
    assert_refused(frame, bytes, "changes of calls has 65 entries where at most 64");
    free(frame);
    message.body.generate_delta = (or_generate_delta_t){.part_changes = changes};
    message.body.generate_delta.part_change_count = OR_PART_CHANGES_MAX;
    encode(&message, &frame, &bytes);
    assert_int_equal(or_message_decode(frame, bytes, &message), OR_OK);
    assert_int_equal(message.body.generate_delta.part_change_count, OR_PART_CHANGES_MAX);
    or_message_fini(&message);
    free(frame);
}

static void large_frames_are_refused(void **context)
{
    (void)context;
    uint8_t *text = calloc(OR_FRAME_BYTES_MAX + 1, 1);
    assert_non_null(text);
    or_message_t message = {.type = OR_MSG_GENERATE_REQUEST};
    message.body.generate_request.prompt = text;
    message.body.generate_request.prompt_bytes = OR_FRAME_BYTES_MAX;
    uint8_t *frame;
    size_t bytes;
    assert_int_equal(or_message_encode(&message, &frame, &bytes), OR_ERR_INVALID);
    assert_refused(text, OR_FRAME_BYTES_MAX + 1, "over the limit");
    free(text);
}

static size_t fill_frame(uint8_t *frame, const uint8_t *head, size_t head_bytes,
                         const uint8_t *unit, size_t unit_bytes, size_t units)
{
    memcpy(frame, head, head_bytes);
    for (size_t i = 0; i < units; i++) {
        memcpy(frame + head_bytes + i * unit_bytes, unit, unit_bytes);
    }
    return head_bytes + units * unit_bytes;
}

// A megabyte of empty distributions: two bytes on the wire, 24 in memory.
static void frames_of_empty_fields_are_stopped(void **context)
{
    (void)context;
    enum { UNITS = 1 << 19 };
    const uint8_t tree[] = {0x08, 2, 0x3A, 0x80, 0x80, 0x40}; // a DraftTree of 2^20 bytes
    const uint8_t dist[] = {0x4A, 0};
    uint8_t *frame = malloc(sizeof tree + UNITS * sizeof dist);
    assert_non_null(frame);
    size_t bytes = fill_frame(frame, tree, sizeof tree, dist, sizeof dist, UNITS);
    assert_refused(frame, bytes, "");
    free(frame);
}

// Twenty thousand times the same nested field: each is merged with all that came before, by copying.
static void repeated_fields_are_stopped(void **context)
{
    (void)context;
    enum { UNITS = 20000 };
    const uint8_t open[] = {0x08, 2, 0x2A, 0x80, 0xF1, 0x04}; // an OpenSession of 80,000 bytes
    const uint8_t sampling[] = {0x0A, 2, 0x4A, 0};            // Sampling{bias{}}
    uint8_t *frame = malloc(sizeof open + UNITS * sizeof sampling);
    assert_non_null(frame);
    size_t bytes = fill_frame(frame, open, sizeof open, sampling, sizeof sampling, UNITS);
    assert_refused(frame, bytes, "not a well-formed message");
    free(frame);
}

// Sub-messages of nothing, one after the other, would take time and no memory: 16 MiB of them took 1 to 2 seconds.
static void sub_messages_that_come_again_and_again_are_stopped(void **context)
{
    (void)context;
    enum { UNITS = 17, BYTES = 2 * UNITS };
    const struct {
        uint8_t head[4], unit[2];
        uint32_t head_bytes;
    } cases[] = {
        {{0x08, 2, 0x2A, BYTES}, {0x0A, 0}, 4}, // OpenSession{sampling{}, sampling{}, ...}
        {{0x08, 2}, {0x72, 0}, 2},              // Stats{}, Stats{}, ...
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t frame[4 + BYTES];
        size_t bytes =
            fill_frame(frame, cases[i].head, cases[i].head_bytes, cases[i].unit, 2, UNITS);
        assert_refused(frame, bytes, "not a well-formed message");
        or_message_t message;
        if (i == 1) { // as many as are allowed
            assert_int_equal(or_message_decode(frame, bytes - 2, &message), OR_OK);
            or_message_fini(&message);
        }
    }
}

static void absent_strings_are_empty(void **context)
{
    (void)context;
    or_message_t message = {.type = OR_MSG_HELLO};
    uint8_t *frame;
    size_t bytes;
    encode(&message, &frame, &bytes);
    or_message_t back;
    assert_int_equal(or_message_decode(frame, bytes, &back), OR_OK);
    assert_string_equal(back.body.hello.software, "");
    assert_string_equal(back.body.hello.owner, "");
    or_message_fini(&back);
    or_message_fini(&back); // safe on a zeroed message
    free(frame);
}

// proto3 leaves out -0 as it does 0, and sends NaN.
static void floats_travel_unless_they_are_zero(void **context)
{
    (void)context;
    or_message_t message = {.type = OR_MSG_OPEN_SESSION}, back;
    uint8_t *frame;
    size_t bytes, zero_bytes;
    encode(&message, &frame, &zero_bytes);
    free(frame);
    message.body.open_session.lenience = -0.0F;
    encode(&message, &frame, &bytes);
    assert_int_equal(bytes, zero_bytes);
    free(frame);
    message.body.open_session.lenience = NAN;
    message.body.open_session.sampling.top_p = -INFINITY;
    encode(&message, &frame, &bytes);
    assert_int_equal(or_message_decode(frame, bytes, &back), OR_OK);
    assert_true(isnan(back.body.open_session.lenience));
    assert_true(back.body.open_session.sampling.top_p == -INFINITY);
    or_message_fini(&back);
    free(frame);
}

static void the_arena_keeps_its_budget(void **context)
{
    (void)context;
    or_message_arena_t arena;
    or_message_arena_init(&arena, 100000);
    for (size_t i = 0; i < 90; i++) {
        char *piece = or_message_arena_take(&arena, i, 11);
        assert_non_null(piece);
        assert_int_equal((uintptr_t)piece % _Alignof(max_align_t), 0);
        memset(piece, 0xAA, i * 11);
    }
    assert_null(or_message_arena_take(&arena, 1, 100000));
    assert_null(or_message_arena_take(&arena, SIZE_MAX / 2, 4));
    or_message_blocks_free(arena.blocks);
}

static void unknown_types_are_not_encoded(void **context)
{
    (void)context;
    or_message_t message = {.type = (or_message_type_t)99};
    uint8_t *frame;
    size_t bytes;
    assert_int_equal(or_message_encode(&message, &frame, &bytes), OR_ERR_INVALID);
    assert_string_equal(or_message_type_name(99), "unknown");
    assert_string_equal(or_message_type_name(OR_MSG_DRAFT_TREE), "draft_tree");
    assert_string_equal(or_role_name(OR_ROLE_VERIFIER), "verifier");
    assert_string_equal(or_finish_name(OR_FINISH_LENGTH), "length");
}

// A round must stay small: the budget that wire_bytes_per_token is made of.
static void a_round_is_small(void **context)
{
    (void)context;
    uint32_t tokens[16], back[16], accepted[] = {1, 2, 3};
    for (uint32_t i = 0; i < 16; i++) {
        tokens[i] = 300 + 200 * i;
        back[i] = i % 3 + 1;
    }
    or_message_t tree = {.type = OR_MSG_DRAFT_TREE, .session = {7}};
    tree.body.draft_tree = (or_draft_tree_t){.round = 40,
                                             .base_length = 200,
                                             .base_hash = UINT64_MAX,
                                             .tokens = tokens,
                                             .back = back,
                                             .count = 16,
                                             .draft_us = 5000};
    or_message_t verdict = {.type = OR_MSG_VERDICT, .session = {7}};
    verdict.body.verdict = (or_verdict_t){.round = 40,
                                          .base_length = 200,
                                          .accepted = accepted,
                                          .accepted_count = 3,
                                          .next = 4000,
                                          .hash = UINT64_MAX};
    uint8_t *frame;
    size_t tree_bytes, verdict_bytes;
    encode(&tree, &frame, &tree_bytes);
    free(frame);
    encode(&verdict, &frame, &verdict_bytes);
    free(frame);
    print_message("a tree of 16 nodes %zu bytes, its verdict %zu bytes\n", tree_bytes,
                  verdict_bytes);
    assert_true(tree_bytes <= 80);
    assert_true(verdict_bytes <= 40);
}

static void the_prefix_hash_rolls(void **context)
{
    (void)context;
    const uint32_t tokens[] = {1, 458, 1112, 70000};
    uint64_t whole = or_prefix_hash(0, tokens, 4);
    assert_int_equal(or_prefix_hash(or_prefix_hash(0, tokens, 2), tokens + 2, 2), whole);
    assert_int_equal(or_prefix_hash(0, NULL, 0), 0);
    const uint32_t one[] = {1};
    // XXH64 of 01 00 00 00 with seed 0, by the algorithm's description.
    assert_int_equal(or_prefix_hash(0, one, 1), UINT64_C(0xf42f94001fcb5351));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_comes_back),
        cmocka_unit_test(damaged_frames_do_no_harm),
        cmocka_unit_test(random_bytes_do_no_harm),
        cmocka_unit_test(strangers_are_told_apart),
        cmocka_unit_test(another_version_is_named),
        cmocka_unit_test(an_error_is_read_whatever_its_version),
        cmocka_unit_test(unequal_arrays_are_refused),
        cmocka_unit_test(unequal_details_are_refused),
        cmocka_unit_test(long_arrays_are_refused),
        cmocka_unit_test(many_changes_of_parts_are_refused),
        cmocka_unit_test(large_frames_are_refused),
        cmocka_unit_test(frames_of_empty_fields_are_stopped),
        cmocka_unit_test(repeated_fields_are_stopped),
        cmocka_unit_test(sub_messages_that_come_again_and_again_are_stopped),
        cmocka_unit_test(absent_strings_are_empty),
        cmocka_unit_test(floats_travel_unless_they_are_zero),
        cmocka_unit_test(the_arena_keeps_its_budget),
        cmocka_unit_test(unknown_types_are_not_encoded),
        cmocka_unit_test(a_round_is_small),
        cmocka_unit_test(the_prefix_hash_rolls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
