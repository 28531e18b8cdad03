// Goal: padded frames have one of the few sizes that padding.h names, hold what they held, and are never shorter
// or longer than they need to be.
// Method: every size up to beyond the first large step and those about the limit, against a slow walk over the
// classes; real messages of many sizes there and back through the codec.
#include "proto/net/padding.h"

#include <stdlib.h>
#include <string.h>

#include "proto/wire/message.h"
#include "proto/wire/message_test_random.h"
#include "tests/support/test_support.h"

// The classes from the first to the one that `bytes` and a field of at least 3 bytes fit into.
static size_t slow_class(size_t bytes)
{
    size_t class = 128;
    while (class != bytes && class < bytes + 3) {
        class = class < 65536 ? 2 * class : class + 65536;
    }
    return class;
}

static void classes_are_those_of_the_drawing(void **context)
{
    (void)context;
    for (size_t bytes = 0; bytes < 200000; bytes++) {
        assert_int_equal(or_padding_class(bytes), slow_class(bytes));
    }
    assert_int_equal(or_padding_class(0), 128);
    assert_int_equal(or_padding_class(125), 128);
    assert_int_equal(or_padding_class(126), 256);
    assert_int_equal(or_padding_class(128), 128);
    assert_int_equal(or_padding_class(65536 + 1), 2 * 65536);
}

static void nothing_grows_over_the_limit(void **context)
{
    (void)context;
    assert_int_equal(or_padding_class(OR_FRAME_BYTES_MAX - 70000), OR_FRAME_BYTES_MAX - 65536);
    assert_int_equal(or_padding_class(OR_FRAME_BYTES_MAX - 3), OR_FRAME_BYTES_MAX);
    for (size_t bytes = OR_FRAME_BYTES_MAX - 2; bytes <= OR_FRAME_BYTES_MAX; bytes++) {
        assert_int_equal(or_padding_class(bytes), bytes); // there is no room for a field
    }
}

// A message whose encoding has about this many bytes.
static uint8_t *encode(size_t about, size_t *bytes)
{
    static char text[200000];
    uint8_t *frame;
    memset(text, 'x', about);
    text[about] = '\0';
    const or_message_t message = {.type = OR_MSG_CANCEL, .body.cancel.reason = text};
    assert_int_equal(or_message_encode(&message, &frame, bytes), OR_OK);
    return frame;
}

// Around each class all lengths of the field's own length come up.
static void a_padded_message_is_the_same_message(void **context)
{
    (void)context;
    static const size_t about[] = {1, 128, 256, 512, 1024, 16384, 32768, 65536, 131072};
    for (size_t i = 0; i < sizeof about / sizeof *about; i++) {
        for (size_t length = about[i] > 140 ? about[i] - 140 : 1; length < about[i] + 10;
             length++) {
            size_t bytes, plain;
            or_message_t message;
            uint8_t *frame = encode(length, &bytes);
            plain = bytes;
            assert_int_equal(or_padding_apply(&frame, &bytes), OR_OK);
            assert_int_equal(bytes, slow_class(plain));
            assert_int_equal(or_message_decode(frame, bytes, &message), OR_OK);
            assert_int_equal(strlen(message.body.cancel.reason), length);
            or_message_fini(&message);
            free(frame);
        }
    }
}

static void any_message_survives_padding(void **context)
{
    (void)context;
    uint64_t state = test_seed();
    for (uint32_t type = OR_RANDOM_TYPE_FIRST; type <= OR_RANDOM_TYPE_LAST; type++) {
        for (int round = 0; round < 20; round++) {
            or_message_t message, back;
            uint8_t *frame;
            size_t bytes;
            message_test_random(&state, (or_message_type_t)type, &message);
            assert_int_equal(or_message_encode(&message, &frame, &bytes), OR_OK);
            size_t class = slow_class(bytes);
            assert_int_equal(or_padding_apply(&frame, &bytes), OR_OK);
            assert_int_equal(bytes, class);
            assert_int_equal(or_message_decode(frame, bytes, &back), OR_OK);
            assert_null(message_difference(&message, &back));
            or_message_fini(&back);
            message_test_random_free();
            free(frame);
        }
    }
}

static void padding_alone_is_no_message(void **context)
{
    (void)context;
    uint8_t *frame = malloc(1);
    size_t bytes = 0;
    or_message_t message;
    assert_int_equal(or_padding_apply(&frame, &bytes), OR_OK);
    assert_int_equal(bytes, OR_PADDING_LEAST);
    assert_int_not_equal(or_message_decode(frame, bytes, &message), OR_OK);
    free(frame);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_are_those_of_the_drawing),
        cmocka_unit_test(nothing_grows_over_the_limit),
        cmocka_unit_test(a_padded_message_is_the_same_message),
        cmocka_unit_test(any_message_survives_padding),
        cmocka_unit_test(padding_alone_is_no_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
