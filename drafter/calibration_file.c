// Measured acceptance as a text file:
//
//     outrider acceptance 1
//     sequoia-drawn-sampled 0 2 310 201        kind, rank, bin, tried, taken
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drafter/calibration.h"

#define FIRST_LINE "outrider acceptance 1"
#define LINE_BYTES 256
#define COUNT_MAX 1e9

static const char *const kinds[OR_CALIBRATION_KINDS] = {
    "sequoia-best-greedy", "sequoia-best-sampled", "sequoia-drawn-greedy", "sequoia-drawn-sampled",
    "dyspec-best-greedy",  "dyspec-best-sampled",  "dyspec-drawn-greedy",  "dyspec-drawn-sampled"};

// What is wrong with the line; NULL if nothing is.
static const char *read_line(const char *line, or_calibrations_t *all)
{
    char name[64], rest;
    uint32_t rank, bin, kind = 0;
    double tried, taken;
    if (sscanf(line, "%63s %u %u %lf %lf %c", name, &rank, &bin, &tried, &taken, &rest) != 5) {
        return "is not a kind and four numbers";
    }
    while (kind < OR_CALIBRATION_KINDS && strcmp(kinds[kind], name) != 0) {
        kind++;
    }
    if (kind == OR_CALIBRATION_KINDS) {
        return "is of a kind that this version does not know";
    }
    if (rank >= OR_CALIBRATION_RANKS || bin >= OR_CALIBRATION_BINS) {
        return "has a rank above 15 or a bin above 7";
    }
    if (!(taken >= 0 && taken <= tried && tried <= COUNT_MAX)) {
        return "says more taken than tried, or no number";
    }
    all->of_kind[kind].tried[rank][bin] = tried;
    all->of_kind[kind].taken[rank][bin] = taken;
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

static or_status_t read_file(FILE *file, const char *path, or_calibrations_t *all)
{
    char line[LINE_BYTES];
    bool begins = next_line(file, line) && strcmp(line, FIRST_LINE) == 0;
    if (!begins && !ferror(file)) {
        return or_fail(OR_ERR_FORMAT,
                       "%s is no acceptance file: it does not begin with '" FIRST_LINE
                       "'; move it away to begin anew",
                       path);
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

or_status_t or_calibrations_load(or_calibrations_t *all, const char *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return errno == ENOENT ? OR_OK : or_fail(OR_ERR_IO, "%s: %s", path, strerror(errno));
    }
    or_calibrations_t read = {0};
    or_status_t status = read_file(file, path, &read);
    fclose(file);
    if (status == OR_OK) {
        *all = read;
    }
    return status;
}

static void write_kind(FILE *file, const char *name, const or_calibration_t *calibration)
{
    for (uint32_t rank = 0; rank < OR_CALIBRATION_RANKS; rank++) {
        for (uint32_t bin = 0; bin < OR_CALIBRATION_BINS; bin++) {
            if (calibration->tried[rank][bin] > 0) {
                fprintf(file, "%s %u %u %.17g %.17g\n", name, rank, bin,
                        calibration->tried[rank][bin], calibration->taken[rank][bin]);
            }
        }
    }
}

static bool write_file(FILE *file, const or_calibrations_t *all)
{
    fprintf(file, FIRST_LINE "\n");
    for (uint32_t kind = 0; kind < OR_CALIBRATION_KINDS; kind++) {
        write_kind(file, kinds[kind], &all->of_kind[kind]);
    }
    return fflush(file) == 0 && fsync(fileno(file)) == 0 && !ferror(file);
}

or_status_t or_calibrations_save(const or_calibrations_t *all, const char *path)
{
    char *beside = malloc(strlen(path) + sizeof ".new");
    if (beside == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory to write %s", path);
    }
    sprintf(beside, "%s.new", path);
    FILE *file = fopen(beside, "w");
    bool written = file != NULL && write_file(file, all);
    written = (file == NULL || fclose(file) == 0) && written;
    or_status_t status = OR_OK;
    if (!written || rename(beside, path) != 0) {
        status = or_fail(OR_ERR_IO, "%s: %s", path, strerror(errno));
        unlink(beside);
    }
    free(beside);
    return status;
}
