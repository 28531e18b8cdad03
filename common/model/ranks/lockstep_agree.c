#include "common/model/ranks/lockstep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Texts of a card come from another process: they may lack their end.
#define TEXT(text) (int)strnlen((text), sizeof(text)), (text)

static bool same_text(const char *a, const char *b, size_t bytes)
{
    return strncmp(a, b, bytes) == 0;
}

static or_status_t compare_versions(const or_lockstep_greeting_t *leader,
                                    const or_lockstep_greeting_t *own, int rank)
{
    if (same_text(own->version, leader->version, sizeof own->version)) {
        return OR_OK;
    }
    return or_fail(OR_ERR_MISMATCH,
                   "rank %d on %.*s runs Outrider %.*s, but rank 0 on %.*s runs %.*s: install the "
                   "same version on all hosts",
                   rank, TEXT(own->host), TEXT(own->version), TEXT(leader->host),
                   TEXT(leader->version));
}

or_status_t or_lockstep_greet(const or_ranks_t *ranks, const or_lockstep_greeting_t *greeting)
{
    int count = ranks->size * or_ranks_stages(ranks);
    or_lockstep_greeting_t *all = calloc((size_t)count, sizeof *all);
    if (all == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory to hear of %d ranks", count);
    }
    or_status_t status = ranks->gather_world(ranks, greeting, sizeof *greeting, all);
    for (int i = 0; status == OR_OK && i < count; i++) {
        status = compare_versions(&all[0], &all[i], i);
    }
    free(all);
    return status;
}

// Differences are looked for in this order because an earlier one explains the later ones.
static or_status_t compare(const or_lockstep_card_t *leader, const or_lockstep_card_t *card,
                           int rank)
{
    if (card->file != 0 && card->file != leader->file) {
        return or_fail(
            OR_ERR_MISMATCH,
            "rank %d on %.*s has another model file than rank 0 on %.*s: copy the leader's "
            "to every host, or give all a path on a shared disk",
            rank, TEXT(card->host), TEXT(leader->host));
    }
    if (!same_text(card->arith_id, leader->arith_id, sizeof card->arith_id)) {
        return or_fail(
            OR_ERR_MISMATCH,
            "rank %d on %.*s computes in arithmetic %.*s, but rank 0 on %.*s in %.*s: use "
            "the same build and the same --cache-type-k, --cache-type-v and --arith everywhere",
            rank, TEXT(card->host), TEXT(card->arith_id), TEXT(leader->host),
            TEXT(leader->arith_id));
    }
    if (card->shape != leader->shape) {
        return or_fail(
            OR_ERR_MISMATCH,
            "rank %d on %.*s was given other options than rank 0 on %.*s (context, rows a "
            "pass or the like): start all ranks with the same command line",
            rank, TEXT(card->host), TEXT(leader->host));
    }
    return OR_OK;
}

typedef struct {
    char host[sizeof((or_lockstep_card_t *)0)->host];
    uint64_t file;
} copy_t;

or_status_t or_lockstep_is_reader(const or_ranks_t *ranks, const char *host, uint64_t file,
                                  bool *is_reader)
{
    int count = ranks->size * or_ranks_stages(ranks);
    int own = ranks->stage * ranks->size + ranks->rank;
    copy_t *copies = calloc((size_t)count, sizeof *copies);
    if (copies == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory to hear of %d ranks", count);
    }
    copy_t copy = {.file = file};
    snprintf(copy.host, sizeof copy.host, "%s", host);
    or_status_t status = ranks->gather_world(ranks, &copy, sizeof copy, copies);
    int first = 0;
    while (first < own && memcmp(&copies[first], &copy, sizeof copy) != 0) {
        first++;
    }
    free(copies);
    *is_reader = first == own;
    return status;
}

or_status_t or_lockstep_agree(const or_ranks_t *ranks, const or_lockstep_card_t *card,
                              uint64_t *least_p)
{
    int count = ranks->size * or_ranks_stages(ranks);
    or_lockstep_card_t *cards = calloc((size_t)count, sizeof *cards);
    if (cards == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory to hear of %d ranks", count);
    }
    uint64_t least = card->room;
    or_status_t status = ranks->gather_world(ranks, card, sizeof *card, cards);
    for (int i = 0; status == OR_OK && i < count; i++) {
        status = compare(&cards[0], &cards[i], i);
        least = cards[i].room < least ? cards[i].room : least;
    }
    free(cards);
    if (status == OR_OK) {
        *least_p = least;
    }
    return status;
}

or_status_t or_lockstep_least(const or_ranks_t *ranks, uint64_t *number)
{
    int count = ranks->size * or_ranks_stages(ranks);
    uint64_t *numbers = calloc((size_t)count, sizeof *numbers);
    if (numbers == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory to hear of %d ranks", count);
    }
    or_status_t status = ranks->gather_world(ranks, number, sizeof *number, numbers);
    for (int i = 0; status == OR_OK && i < count; i++) {
        *number = numbers[i] < *number ? numbers[i] : *number;
    }
    free(numbers);
    return status;
}

or_status_t or_lockstep_alike(const or_ranks_t *ranks, const void *own, size_t bytes,
                              uint32_t *count_p)
{
    int count = ranks->size * or_ranks_stages(ranks);
    char *all = calloc((size_t)count, bytes);
    if (all == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory to hear of %d ranks", count);
    }
    or_status_t status = ranks->gather_world(ranks, own, bytes, all);
    *count_p = 0;
    for (int i = 0; status == OR_OK && i < count; i++) {
        *count_p += memcmp(all + (size_t)i * bytes, own, bytes) == 0;
    }
    free(all);
    return status;
}
