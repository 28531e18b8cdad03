// Goal: a place in a stream comes back as it was told, and none that no text has is believed.
// Method: ids there and back; each number at its bound and beyond it.
#include <string.h>

#include "coordinator/http/api/api_event_id.h"
#include "tests/support/test_support.h"

static const or_api_event_id_t usual = {.secret = "0123456789abcde",
                                        .tokens = 9,
                                        .text_bytes = 40,
                                        .characters = 38,
                                        .number = UINT64_MAX,
                                        .created = 1700000000,
                                        .request = UINT32_MAX,
                                        .said = OR_API_SAID_FINISH};

static bool is_taken(const or_api_event_id_t *id, or_api_event_id_t *back)
{
    char text[OR_API_EVENT_ID_BYTES];
    memset(back, 0, sizeof *back);
    or_api_event_id_format(id, text);
    return or_api_event_id_parse(text, back);
}

static void places_come_back(void **state)
{
    (void)state;
    or_api_event_id_t back;
    assert_true(is_taken(&usual, &back));
    assert_memory_equal(back.secret, usual.secret, sizeof back.secret);
    assert_int_equal(back.tokens, 9);
    assert_int_equal(back.text_bytes, 40);
    assert_int_equal(back.characters, 38);
    assert_true(back.number == UINT64_MAX && back.request == UINT32_MAX);
    assert_int_equal(back.said, OR_API_SAID_FINISH);
}

static void places_that_no_text_has_are_refused(void **state)
{
    (void)state;
    or_api_event_id_t id = usual, back;
    id.text_bytes = id.characters = UINT32_MAX;
    assert_true(is_taken(&id, &back));
    id.text_bytes = UINT64_MAX;
    assert_false(is_taken(&id, &back));
    id = usual, id.text_bytes = (uint64_t)UINT32_MAX + 1;
    assert_false(is_taken(&id, &back));
    id = usual, id.characters = UINT64_MAX - 1;
    assert_false(is_taken(&id, &back));
    id = usual, id.tokens = UINT32_MAX;
    assert_false(is_taken(&id, &back));
    id = usual, id.created = INT64_MIN;
    assert_false(is_taken(&id, &back));
    assert_false(or_api_event_id_parse("", &back));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_come_back),
        cmocka_unit_test(places_that_no_text_has_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
