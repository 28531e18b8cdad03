#include "common/base/cpus.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

or_cpu_options_t or_cpu_options_default(void)
{
    return (or_cpu_options_t){.poll = OR_POLL_USUAL};
}

static bool has_range(const or_cpu_options_t *options)
{
    return options->range != NULL && options->range[0] != '\0';
}

or_status_t or_cpu_options_check(const or_cpu_options_t *options, const char *suffix)
{
    or_cpus_t cpus;
    if (has_range(options) && or_cpus_parse(options->range, &cpus) != OR_OK) {
        return or_fail(OR_ERR_INVALID, "--cpu-range%s: %s", suffix, or_error_text());
    }
    if (options->strict > 1) {
        return or_fail(OR_ERR_INVALID, "--cpu-strict%s: %" PRIu32 " is neither 0 nor 1", suffix,
                       options->strict);
    }
    if (options->poll > OR_POLL_MOST) {
        return or_fail(OR_ERR_INVALID, "--poll%s: %" PRIu32 " is over %d", suffix, options->poll,
                       OR_POLL_MOST);
    }
    return OR_OK;
}

or_status_t or_cpu_options_confine(const or_cpu_options_t *options)
{
    or_cpus_t cpus;
    or_status_t status = OR_OK;
    if (has_range(options)) {
        status = or_cpus_parse(options->range, &cpus);
        status = status != OR_OK ? status : or_cpus_confine(&cpus);
    }
    return status;
}

int32_t or_cpu_options_poll(const or_cpu_options_t *options)
{
    return options->poll == 0 ? OR_POLL_NEVER : (int32_t)options->poll;
}

// Half of the identifier that Linux draws when it starts.
uint64_t or_cpus_machine(void)
{
    char text[64];
    uint64_t number = 0;
    uint32_t digits = 0;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file == NULL) {
        return 0;
    }
    const char *at = fgets(text, sizeof text, file);
    fclose(file);
    for (; at != NULL && *at != '\0' && digits < 16; at++) {
        if (isxdigit((unsigned char)*at)) {
            number = number << 4 |
                     (unsigned)(isdigit((unsigned char)*at) ? *at - '0' : (*at | 32) - 'a' + 10);
            digits++;
        }
    }
    return digits == 16 ? number : 0;
}

or_cpus_t or_cpus_allowed(void)
{
    or_cpus_t cpus;
    if (sched_getaffinity(0, sizeof cpus.set, &cpus.set) != 0) { // more CPUs than a set has
        CPU_ZERO(&cpus.set);
        CPU_SET(0, &cpus.set);
    }
    return cpus;
}

uint32_t or_cpus_count(const or_cpus_t *cpus)
{
    return (uint32_t)CPU_COUNT(&cpus->set);
}

// Read a whole number at *text, which moves behind it. False if there is no digit.
static bool read_number(const char **text, unsigned long *number)
{
    char *end;
    bool digit = **text >= '0' && **text <= '9';
    *number = strtoul(*text, &end, 10);
    *text = end;
    return digit;
}

// Read "lo-hi" or one number at *text, which moves behind it. False if it is neither.
static bool read_range(const char **text, unsigned long *low, unsigned long *high)
{
    bool good = read_number(text, low);
    *high = *low;
    if (good && **text == '-') {
        (*text)++;
        good = read_number(text, high);
    }
    return good && *low <= *high;
}

or_status_t or_cpus_parse(const char *text, or_cpus_t *cpus)
{
    unsigned long low, high;
    const char *at = text;
    if (!read_range(&at, &low, &high) || *at != '\0') {
        return or_fail(OR_ERR_INVALID, "'%s' is not a range of CPUs, as 0-3", text);
    }
    or_cpus_t allowed = or_cpus_allowed();
    or_cpus_t found;
    CPU_ZERO(&found.set);
    for (unsigned long i = low; i <= high; i++) {
        if (i >= CPU_SETSIZE || !CPU_ISSET(i, &allowed.set)) {
            return or_fail(OR_ERR_INVALID,
                           "this process may use %" PRIu32 " CPUs, and %lu is none of them (see "
                           "taskset -cp $$)",
                           or_cpus_count(&allowed), i);
        }
        CPU_SET(i, &found.set);
    }
    *cpus = found;
    return OR_OK;
}

or_status_t or_cpus_parse_list(const char *text, or_cpus_t *cpus)
{
    const char *at = text;
    bool good = true, more = *at != '\0' && *at != '\n';
    or_cpus_t found;
    CPU_ZERO(&found.set);
    while (good && more) {
        unsigned long low, high;
        good = read_range(&at, &low, &high) && high < CPU_SETSIZE;
        for (unsigned long i = low; good && i <= high; i++) {
            CPU_SET(i, &found.set);
        }
        more = *at == ',';
        at += more;
    }
    at += *at == '\n';
    if (!good || *at != '\0') {
        return or_fail(OR_ERR_INVALID, "this is not a list of CPUs, as 0-3,8");
    }
    *cpus = found;
    return OR_OK;
}

void or_cpus_list(const or_cpus_t *cpus, char *text, size_t capacity)
{
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; i < CPU_SETSIZE && at < capacity; i++) {
        int low = i;
        while (i < CPU_SETSIZE && CPU_ISSET(i, &cpus->set)) {
            i++;
        }
        const char *comma = at > 0 ? "," : "";
        if (i == low + 1) {
            at += (size_t)snprintf(text + at, capacity - at, "%s%d", comma, low);
        } else if (i > low) {
            at += (size_t)snprintf(text + at, capacity - at, "%s%d-%d", comma, low, i - 1);
        }
    }
}

or_cpus_t or_cpus_subset(const or_cpus_t *cpus, uint32_t first, uint32_t count)
{
    or_cpus_t found;
    uint32_t place = 0;
    CPU_ZERO(&found.set);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &cpus->set)) {
            if (place >= first && place - first < count) {
                CPU_SET(i, &found.set);
            }
            place++;
        }
    }
    return found;
}

or_cpus_t or_cpus_nth(const or_cpus_t *cpus, uint32_t n)
{
    return or_cpus_subset(cpus, n % or_cpus_count(cpus), 1);
}

or_status_t or_cpus_confine(const or_cpus_t *cpus)
{
    if (sched_setaffinity(0, sizeof cpus->set, &cpus->set) != 0) {
        return or_fail(
            OR_ERR_IO,
            "cannot stay on the CPUs of --cpu-range or --cpu-strict (%s); leave them out",
            strerror(errno));
    }
    return OR_OK;
}

static _Thread_local struct {
    bool pinned;
    or_cpus_t before;
} own;

or_status_t or_cpus_pin(const or_cpus_t *cpus)
{
    const or_cpus_t before = or_cpus_allowed();
    or_status_t status = or_cpus_confine(cpus);
    if (status == OR_OK && !own.pinned) { // later pins would note a mask that is already narrowed
        own.before = before;
        own.pinned = true;
    }
    return status;
}

bool or_cpus_before_pin(or_cpus_t *before)
{
    if (own.pinned) {
        *before = own.before;
    }
    return own.pinned;
}
