#include "common/text/pretokenize.h"

#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "common/base/log/log.h"
#include "common/text/utf8.h"

struct or_pretokenizer {
    const or_split_t *splits;
    uint32_t count;
    pcre2_code *codes[OR_SPLITS_MAX];
    // The patterns take linear time, so PCRE2's limits have nothing to stop.
    pcre2_match_context *limits;
};

typedef struct {
    const or_pretokenizer_t *pretokenizer;
    const char *text;
    pcre2_match_data *match;
    or_piece_fn_t take;
    void *context;
} cutter_t;

// -- compiling
// -------------------------------------------------------------------------------------------------

static or_status_t compile(const char *pattern, pcre2_code **code_p)
{
    int error;
    PCRE2_SIZE place;
    // '$' is the very end, never before a last newline.
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY, &error, &place, NULL);
    if (code == NULL) {
        PCRE2_UCHAR reason[128] = "";
        pcre2_get_error_message(error, reason, sizeof reason);
        return or_fail(OR_ERR_UNSUPPORTED,
                       "the PCRE2 library does not take a pre-tokenizer's pattern (%s, at %zu of "
                       "%s): install one with Unicode support",
                       (const char *)reason, (size_t)place, pattern);
    }
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); // if it fails, pcre2_match interprets the pattern
    *code_p = code;
    return OR_OK;
}

or_status_t or_pretokenizer_create(const or_pre_rule_t *rule, or_pretokenizer_t **pretokenizer_p)
{
    or_pretokenizer_t *pretokenizer = calloc(1, sizeof *pretokenizer);
    or_status_t status = OR_OK;
    if (pretokenizer != NULL) {
        pretokenizer->limits = pcre2_match_context_create(NULL);
    }
    if (pretokenizer == NULL || pretokenizer->limits == NULL) {
        status = or_fail(OR_ERR_NO_MEMORY, "no memory for the pre-tokenizer");
        goto failed;
    }
    pcre2_set_match_limit(pretokenizer->limits, UINT32_MAX);
    pretokenizer->splits = rule->splits;
    while (status == OR_OK && rule->splits[pretokenizer->count].pattern != NULL) {
        uint32_t i = pretokenizer->count++;
        status = compile(rule->splits[i].pattern, &pretokenizer->codes[i]);
    }
    if (status != OR_OK) {
        goto failed;
    }
    *pretokenizer_p = pretokenizer;
    return OR_OK;
failed:
    or_pretokenizer_destroy(&pretokenizer);
    return status;
}

void or_pretokenizer_destroy(or_pretokenizer_t **pretokenizer_p)
{
    or_pretokenizer_t *pretokenizer = *pretokenizer_p;
    if (pretokenizer == NULL) {
        return;
    }
    for (uint32_t i = 0; i < pretokenizer->count; i++) {
        pcre2_code_free(pretokenizer->codes[i]);
    }
    pcre2_match_context_free(pretokenizer->limits);
    free(pretokenizer);
    *pretokenizer_p = NULL;
}

// -- cutting
// -------------------------------------------------------------------------------------------------

// PCRE2's result for text[piece_start] to text[piece_end - 1] from `from` on.
static int match(const cutter_t *cutter, uint32_t step, size_t piece_start, size_t piece_end,
                 size_t from, uint32_t options)
{
    return pcre2_match(cutter->pretokenizer->codes[step], (PCRE2_SPTR)cutter->text + piece_start,
                       piece_end - piece_start, from - piece_start, PCRE2_NO_UTF_CHECK | options,
                       cutter->match, cutter->pretokenizer->limits);
}

// Find the next match in text[piece_start] to text[piece_end - 1] from `from` on.
static bool find_match(const cutter_t *cutter, uint32_t step, size_t piece_start, size_t piece_end,
                       size_t from, size_t *start, size_t *end)
{
    int found = match(cutter, step, piece_start, piece_end, from, 0);
    if (found < 0) {
        // This is not known to happen. The rest of the piece stays whole: it is slower
        // to merge and may give other tokens, but the text is the same.
        if (found != PCRE2_ERROR_NOMATCH) {
            or_log(OR_LOG_WARN, "pre-tokenizer: PCRE2 error %d, %zu bytes stay in one piece", found,
                   piece_end - from);
        }
        return false;
    }
    const PCRE2_SIZE *place = pcre2_get_ovector_pointer(cutter->match);
    *start = piece_start + place[0];
    *end = piece_start + place[1];
    return *end > *start; // no pattern of the table matches nothing
}

static or_status_t cut(const cutter_t *cutter, uint32_t step, size_t start, size_t end);

static bool continues_character(char byte)
{
    return ((unsigned char)byte & 0xC0) == 0x80;
}

static or_status_t cut_in_threes(const cutter_t *cutter, uint32_t step, size_t start, size_t end)
{
    size_t left = 0; // characters
    for (size_t i = start; i < end; i++) {
        left += !continues_character(cutter->text[i]);
    }
    or_status_t status = OR_OK;
    for (size_t at = start + 1; status == OR_OK && at <= end; at++) {
        if (at < end && continues_character(cutter->text[at])) {
            continue;
        }
        left--;
        if (left % 3 == 0) {
            status = cut(cutter, step, start, at);
            start = at;
        }
    }
    return status;
}

// Pass a piece through this step and those after it. The recursion is no deeper than there are
// steps.
static or_status_t cut(const cutter_t *cutter, uint32_t step, size_t start, size_t end)
{
    if (step == cutter->pretokenizer->count) {
        return cutter->take(cutter->context, start, end);
    }
    or_status_t status = OR_OK;
    size_t from = start;
    size_t match_start;
    size_t match_end;
    while (status == OR_OK && from < end &&
           find_match(cutter, step, start, end, from, &match_start, &match_end)) {
        if (match_start > from) {
            status = cut(cutter, step + 1, from, match_start);
        }
        if (status == OR_OK) {
            status = cutter->pretokenizer->splits[step].in_threes
                         ? cut_in_threes(cutter, step + 1, match_start, match_end)
                         : cut(cutter, step + 1, match_start, match_end);
        }
        from = match_end;
    }
    return status == OR_OK && from < end ? cut(cutter, step + 1, from, end) : status;
}

// Return the end of the stretch that begins at `start` and is either all UTF-8 or all
// ill-formed.
static size_t stretch_end(const char *text, size_t length, size_t start, bool *is_utf8)
{
    size_t at = start;
    while (at < length) {
        size_t used = 1;
        bool fits = (unsigned char)text[at] < 0x80 ||
                    or_utf8_next(text + at, length - at, &used) == OR_UTF8_CHARACTER;
        if (at == start) {
            *is_utf8 = fits;
        } else if (fits != *is_utf8) {
            break;
        }
        at += used;
    }
    return at;
}

or_status_t or_pretokenize(const or_pretokenizer_t *pretokenizer, const char *text, size_t length,
                           or_piece_fn_t take, void *context)
{
    cutter_t cutter = {pretokenizer, text, pcre2_match_data_create(1, NULL), take, context};
    if (cutter.match == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory to cut a text of %zu bytes", length);
    }
    or_status_t status = OR_OK;
    size_t end;
    for (size_t start = 0; status == OR_OK && start < length; start = end) {
        bool is_utf8 = false;
        end = stretch_end(text, length, start, &is_utf8);
        status = is_utf8 ? cut(&cutter, 0, start, end) : take(context, start, end);
    }
    pcre2_match_data_free(cutter.match);
    return status;
}

// -- a text that may go on
// --------------------------------------------------------------------------------------------

// The length of the text without an incomplete character at its end.
static size_t whole_characters(const char *text, size_t length)
{
    size_t used;
    for (size_t held = 1; held < OR_UTF8_MAX_BYTES && held <= length; held++) {
        if (or_utf8_next(text + length - held, held, &used) == OR_UTF8_INCOMPLETE) {
            return length - held;
        }
    }
    return length;
}

// Move *settled behind this step's last match that did not look at text[*open], and *open in
// front of the first match that did. The bytes between them are in no match of this step and go
// on to the next.
static void settle_step(const cutter_t *cutter, uint32_t step, size_t *settled, size_t *open)
{
    const PCRE2_SIZE *place = pcre2_get_ovector_pointer(cutter->match);
    size_t start = *settled;
    int found = 1;
    while (found > 0 && *settled < *open) {
        found = match(cutter, step, start, *open, *settled, PCRE2_PARTIAL_HARD);
        if (found > 0) {
            *settled = start + place[1];
        } else if (found != PCRE2_ERROR_NOMATCH) {
            *open = found == PCRE2_ERROR_PARTIAL ? start + place[0] : *settled;
        }
    }
}

or_status_t or_pretokenize_settled(const or_pretokenizer_t *pretokenizer, const char *text,
                                   size_t length, size_t *settled, size_t *open)
{
    cutter_t cutter = {
        .pretokenizer = pretokenizer, .text = text, .match = pcre2_match_data_create(1, NULL)};
    if (cutter.match == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory to cut a text of %zu bytes", length);
    }
    size_t end = whole_characters(text, length);
    size_t start = 0; // of the last stretch, which may go on
    bool is_utf8 = false;
    for (size_t at = 0; at < end;) {
        start = at;
        at = stretch_end(text, end, start, &is_utf8);
    }
    for (uint32_t step = 0; is_utf8 && step < pretokenizer->count; step++) {
        settle_step(&cutter, step, &start, &end);
    }
    *settled = start;
    *open = end;
    pcre2_match_data_free(cutter.match);
    return OR_OK;
}
