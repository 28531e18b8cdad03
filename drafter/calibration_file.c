// Measured acceptance as a text file:
//
//     outrider acceptance 2 5e0c41b2a6f09d37 71f6...       vocabulary and models
//     sequoia recursive warm 0 2 310 201       method, rule, temperature, rank, bin, tried, taken
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drafter/calibration.h"

#define FIRST_WORDS "outrider acceptance "
#define VERSION "2"
#define LINE_BYTES 256
#define COUNT_MAX 1e9

static const char *const families[OR_CALIBRATION_FAMILIES] = {"sequoia", "dyspec"};
static const char *const heats[OR_CALIBRATION_HEATS] = {"greedy", "cool", "warm"};

// Return the place of `name` among the names; `count` if it is none of them.
static uint32_t find_name(const char *const *names, uint32_t count, const char *name)
{
    uint32_t at = 0;
    while (at < count && strcmp(names[at], name) != 0) {
        at++;
    }
    return at;
}

// Return a sentence that says what is wrong with the line; NULL if nothing is.
static const char *read_line(const char *line, or_calibrations_t *all)
{
    char method[16], rule_name[32], temperature[16], rest;
    uint32_t rank, bin;
    double tried, taken;
    if (sscanf(line, "%15s %31s %15s %u %u %lf %lf %c", method, rule_name, temperature, &rank, &bin,
               &tried, &taken, &rest) != 7) {
        return "is not three names and four numbers";
    }
    uint32_t family = find_name(families, OR_CALIBRATION_FAMILIES, method);
    uint32_t heat = find_name(heats, OR_CALIBRATION_HEATS, temperature);
    or_accept_rule_t rule;
    if (family == OR_CALIBRATION_FAMILIES || heat == OR_CALIBRATION_HEATS ||
        or_accept_rule_parse(rule_name, &rule) != OR_OK || (uint32_t)rule >= OR_CALIBRATION_RULES) {
        return "is of a kind that this version does not know";
    }
    if (rank >= OR_CALIBRATION_RANKS || bin >= OR_CALIBRATION_BINS) {
        return "has a rank above 15 or a bin above 7";
    }
    if (!(taken >= 0 && taken <= tried && tried <= COUNT_MAX)) {
        return "says more taken than tried, or no number";
    }
    all->of[family][rule][heat].tried[rank][bin] = tried;
    all->of[family][rule][heat].taken[rank][bin] = taken;
    return NULL;
}

static bool next_line(FILE *file, char line[LINE_BYTES])
{
    if (fgets(line, LINE_BYTES, file) == NULL) {
        return false;
    }
    line[strcspn(line, "\n")] = '\0';
    return true;
}

static bool is_of(const char *line, const char *models)
{
    const char *begin = FIRST_WORDS VERSION " ";
    return strncmp(line, begin, strlen(begin)) == 0 && strcmp(line + strlen(begin), models) == 0;
}

static or_status_t read_file(FILE *file, const char *models, const char *path,
                             or_calibrations_t *all, bool *foreign)
{
    char line[LINE_BYTES];
    bool begins = next_line(file, line) && strncmp(line, FIRST_WORDS, strlen(FIRST_WORDS)) == 0;
    if (!begins && !ferror(file)) {
        return or_fail(OR_ERR_FORMAT,
                       "%s is no acceptance file: it does not begin with '" FIRST_WORDS
                       "'; move it away to begin anew",
                       path);
    }
    *foreign = begins && !is_of(line, models);
    if (*foreign) {
        return OR_OK;
    }
    for (uint32_t number = 2; next_line(file, line); number++) {
        const char *fault = read_line(line, all);
        if (fault != NULL) {
            return or_fail(OR_ERR_FORMAT, "%s, line %u %s: mend it, or move the file away", path,
                           number, fault);
        }
    }
    return ferror(file) ? or_fail(OR_ERR_IO, "%s: %s", path, strerror(errno)) : OR_OK;
}

or_status_t or_calibrations_load(or_calibrations_t *all, const char *models, const char *path,
                                 bool *foreign)
{
    *foreign = false;
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return errno == ENOENT ? OR_OK : or_fail(OR_ERR_IO, "%s: %s", path, strerror(errno));
    }
    or_calibrations_t *read = calloc(1, sizeof *read);
    or_status_t status = read == NULL ? or_fail(OR_ERR_NO_MEMORY, "no memory to read %s", path)
                                      : read_file(file, models, path, read, foreign);
    fclose(file);
    if (status == OR_OK && !*foreign) {
        *all = *read;
    }
    free(read);
    return status;
}

static void write_kind(FILE *file, const char *method, uint32_t rule, const char *temperature,
                       const or_calibration_t *calibration)
{
    for (uint32_t rank = 0; rank < OR_CALIBRATION_RANKS; rank++) {
        for (uint32_t bin = 0; bin < OR_CALIBRATION_BINS; bin++) {
            if (calibration->tried[rank][bin] > 0) {
                fprintf(file, "%s %s %s %u %u %.17g %.17g\n", method, or_accept_rule_name(rule),
                        temperature, rank, bin, calibration->tried[rank][bin],
                        calibration->taken[rank][bin]);
            }
        }
    }
}

static bool write_file(FILE *file, const char *models, const or_calibrations_t *all)
{
    fprintf(file, FIRST_WORDS VERSION " %s\n", models);
    for (uint32_t family = 0; family < OR_CALIBRATION_FAMILIES; family++) {
        for (uint32_t rule = 0; rule < OR_CALIBRATION_RULES; rule++) {
            for (uint32_t heat = 0; heat < OR_CALIBRATION_HEATS; heat++) {
                write_kind(file, families[family], rule, heats[heat], &all->of[family][rule][heat]);
            }
        }
    }
    return fflush(file) == 0 && fsync(fileno(file)) == 0 && !ferror(file);
}

or_status_t or_calibrations_save(const or_calibrations_t *all, const char *models, const char *path)
{
    size_t bytes = strlen(path) + 32;
    char *beside = malloc(bytes); // a name that no other process writes to
    if (beside == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory to write %s", path);
    }
    snprintf(beside, bytes, "%s.%ld.new", path, (long)getpid());
    FILE *file = fopen(beside, "w");
    bool written = file != NULL && write_file(file, models, all);
    written = (file == NULL || fclose(file) == 0) && written;
    or_status_t status = OR_OK;
    if (!written || rename(beside, path) != 0) {
        status = or_fail(OR_ERR_IO, "%s: %s", path, strerror(errno));
        unlink(beside);
    }
    free(beside);
    return status;
}
