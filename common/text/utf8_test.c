// Goal: exactly the characters of Unicode are accepted, and ill-formed text is cut into the
// standard's maximal subparts.
// Method: convert every code point there and back. Compare every sequence over the bytes at
// which the rules change with a slow definition: a prefix is promising if some character begins
// with it.
#include "common/text/utf8.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/test_support.h"

static size_t encode(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, c >>= 6) {
        out[i] = (char)(0x80 | (c & 0x3F));
    }
    out[0] = (char)(0xF00 >> length | c);
    return length;
}

static void every_code_point_is_a_character(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x1FFFFF; c++) {
        char text[5] = {0};
        size_t used;
        size_t length = encode(c, text);
        bool valid = c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF);
        or_utf8_t found = or_utf8_next(text, sizeof text, &used);
        if (valid) {
            assert_int_equal(found, OR_UTF8_CHARACTER);
            assert_int_equal(used, length);
            assert_int_equal(or_utf8_code_point(text, used), c);
        } else {
            assert_int_equal(found, OR_UTF8_ILL_FORMED);
        }
        for (size_t cut = 1; valid && cut < length; cut++) {
            assert_int_equal(or_utf8_next(text, cut, &used), OR_UTF8_INCOMPLETE);
            assert_int_equal(used, cut);
        }
    }
}

// Does some character's encoding begin with these bytes? The least and the greatest completion
// tell, since encodings and code points are in the same order, except for the surrogates.
static bool is_promising(const unsigned char *bytes, size_t length)
{
    unsigned char first = bytes[0];
    size_t need = first < 0x80 ? 1 : first < 0xC0 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (need < length || first >= 0xF8) {
        return false;
    }
    uint32_t low = need == 1 ? first : first & (0x7Fu >> need);
    uint32_t high = low;
    for (size_t i = 1; i < need; i++) {
        if (i < length && (bytes[i] & 0xC0) != 0x80) {
            return false;
        }
        low = low << 6 | (i < length ? bytes[i] & 0x3Fu : 0);
        high = high << 6 | (i < length ? bytes[i] & 0x3Fu : 0x3F);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    bool only_surrogates = low >= 0xD800 && high <= 0xDFFF;
    return high >= least[need] && low <= 0x10FFFF && !only_surrogates;
}

static void ill_formed_text_is_cut_into_maximal_subparts(void **state)
{
    (void)state;
    static const unsigned char edges[] = {0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF,
                                          0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED,
                                          0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
    enum { EDGES = sizeof edges };
    for (unsigned n = 0; n < EDGES * EDGES * EDGES * EDGES; n++) {
        unsigned char bytes[4] = {edges[n % EDGES], edges[n / EDGES % EDGES],
                                  edges[n / EDGES / EDGES % EDGES],
                                  edges[n / EDGES / EDGES / EDGES]};
        size_t longest = 0;
        while (longest < 4 && is_promising(bytes, longest + 1)) {
            longest++;
        }
        size_t used;
        or_utf8_next((const char *)bytes, 4, &used);
        assert_int_equal(used, longest > 0 ? longest : 1);
    }
}

static void mended_text_is_fit_to_be_shown(void **state)
{
    (void)state;
    static const char *const texts[][2] = {
        {"", ""},
        {"plain \xC3\xA9 \xF0\x9F\x99\x82", "plain \xC3\xA9 \xF0\x9F\x99\x82"},
        {"a\nb\x7F"
         "c\x1B[31m",
         "a?b?c?[31m"},
        {"\xFF\xC3.\xE2\x82", "??.??"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[32];
        snprintf(text, sizeof text, "%s", texts[i][0]);
        or_utf8_mend(text);
        assert_string_equal(text, texts[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_is_a_character),
        cmocka_unit_test(ill_formed_text_is_cut_into_maximal_subparts),
        cmocka_unit_test(mended_text_is_fit_to_be_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
