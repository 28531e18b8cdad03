#include "launch/doctor/doctor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/utf8.h"
#include "launch/generate/output.h"

#define SENTENCE_BYTES 9216 // two paths and some words

static const char *const state_names[] = {"ok", "warn", "fail"};
static const char *const state_marks[] = {"ok", "warn", "FAIL"};

or_status_t or_doctor_init(or_doctor_t *doctor, bool json)
{
    *doctor = (or_doctor_t){.group = ""};
    if (json) {
        doctor->checks = json_array();
    }
    return json && doctor->checks == NULL ? or_fail(OR_ERR_NO_MEMORY, "no memory for the JSON line")
                                          : OR_OK;
}

void or_doctor_begin_group(or_doctor_t *doctor, const char *group)
{
    bool again = doctor->group != NULL && strcmp(doctor->group, group) == 0;
    doctor->group = group;
    if (doctor->checks == NULL && !again) {
        printf("%s\n", group);
        fflush(stdout);
    }
}

// Nothing from a file, a peer or a path may steer the terminal or spoil the JSON.
static void make_printable(char *text)
{
    size_t length = strlen(text);
    for (size_t i = 0, used; i < length; i += used) {
        if (or_utf8_next(text + i, length - i, &used) != OR_UTF8_CHARACTER ||
            (unsigned char)text[i] < ' ' || text[i] == '\x7f') {
            memset(text + i, '?', used);
        }
    }
}

void or_doctor_say(or_doctor_t *doctor, or_check_state_t state, const char *name,
                   const char *advice, const char *format, ...)
{
    char detail[SENTENCE_BYTES], what_to_do[SENTENCE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    snprintf(what_to_do, sizeof what_to_do, "%s", advice != NULL ? advice : "");
    make_printable(detail);
    make_printable(what_to_do);
    doctor->counts[state]++;
    if (doctor->checks != NULL) {
        json_t *check = json_pack("{s:s, s:s, s:s, s:s, s:s?}", "group", doctor->group, "name",
                                  name, "state", state_names[state], "detail", detail, "advice",
                                  advice != NULL ? what_to_do : NULL);
        json_array_append_new(doctor->checks, check);
        return;
    }
    printf("  %-4s  %-17s  %s\n", state_marks[state], name, detail);
    if (advice != NULL) {
        printf("        -> %s\n", what_to_do);
    }
    fflush(stdout); // whoever waits for the next check sees how far we are
}

void or_doctor_say_error(or_doctor_t *doctor, const char *name, const char *advice)
{
    or_doctor_say(doctor, OR_CHECK_FAIL, name, advice, "%s", or_error_text());
}

static void summarise(const or_doctor_t *doctor, char *text, size_t capacity)
{
    const unsigned *counts = doctor->counts;
    unsigned all = counts[OR_CHECK_OK] + counts[OR_CHECK_WARN] + counts[OR_CHECK_FAIL];
    if (counts[OR_CHECK_OK] == all) {
        snprintf(text, capacity, "%u checks, all is well", all);
    } else {
        snprintf(text, capacity, "%u checks: %u failed, %u %s", all, counts[OR_CHECK_FAIL],
                 counts[OR_CHECK_WARN], counts[OR_CHECK_WARN] == 1 ? "warning" : "warnings");
    }
}

or_status_t or_doctor_finish(or_doctor_t *doctor, const char *advice)
{
    char summary[128], next[SENTENCE_BYTES];
    snprintf(next, sizeof next, "%s", advice);
    make_printable(next);
    summarise(doctor, summary, sizeof summary);
    if (doctor->checks == NULL) {
        printf("\n%s.\nnext: %s\n", summary, next);
        return OR_OK;
    }
    const unsigned *counts = doctor->counts;
    unsigned all = counts[OR_CHECK_OK] + counts[OR_CHECK_WARN] + counts[OR_CHECK_FAIL];
    bool complete = json_array_size(doctor->checks) == all; // else memory ran out on the way
    json_t *root =
        json_pack("{s:o, s:i, s:i, s:i, s:s, s:s}", "checks", doctor->checks, "ok",
                  (int)counts[OR_CHECK_OK], "warnings", (int)counts[OR_CHECK_WARN], "failed",
                  (int)counts[OR_CHECK_FAIL], "summary", summary, "next", next);
    doctor->checks = NULL;
    if (!complete) {
        json_decref(root);
        root = NULL;
    }
    return or_output_json(root, OR_OUTPUT_DIGITS);
}

or_doctor_bytes_t or_doctor_bytes(uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
    or_doctor_bytes_t shown;
    size_t unit = 0;
    double value = (double)bytes;
    while (value >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024;
        unit++;
    }
    snprintf(shown.text, sizeof shown.text, "%.*f %s", unit == 0 ? 0 : 1, value, units[unit]);
    return shown;
}
