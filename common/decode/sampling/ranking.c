#include "common/decode/sampling/ranking.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/math/lanes.h"

#define BANDS 8192u
#define BANDS_PER_NAT 256.0
#define GROWTH 8u // each gathering takes so many times the one before

typedef struct {
    double score;
    uint32_t item;
} entry_t;

struct or_ranking {
    const double *scores; // borrowed
    uint32_t count;
    uint16_t *bands;       // [items_max] the band of each item
    uint32_t *found;       // [items_max]
    entry_t *entries;      // [items_max] the bands gathered, one behind the other
    uint32_t sizes[BANDS]; // of the bands
    uint32_t ends[BANDS];  // in `entries`, of the bands gathered
    uint32_t gathered;     // bands
    uint32_t wanted;       // by the next gathering
    uint32_t opened;       // bands that had their turn
    entry_t *heap;         // the band whose turn it is, best on top
    uint32_t left;         // in it
};

or_status_t or_ranking_create(uint32_t items_max, or_ranking_t **ranking_p)
{
    or_ranking_t *ranking = calloc(1, sizeof *ranking);
    if (ranking == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a ranking");
    }
    ranking->bands = calloc(items_max, sizeof *ranking->bands);
    ranking->found = calloc(items_max, sizeof *ranking->found);
    ranking->entries = calloc(items_max, sizeof *ranking->entries);
    if (ranking->bands == NULL || ranking->found == NULL || ranking->entries == NULL) {
        or_ranking_destroy(&ranking);
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a ranking of %u items", items_max);
    }
    *ranking_p = ranking;
    return OR_OK;
}

void or_ranking_destroy(or_ranking_t **ranking_p)
{
    or_ranking_t *ranking = *ranking_p;
    if (ranking == NULL) {
        return;
    }
    free(ranking->bands);
    free(ranking->found);
    free(ranking->entries);
    free(ranking);
    *ranking_p = NULL;
}

void or_ranking_open(or_ranking_t *ranking, const double *scores, uint32_t count, double best,
                     uint32_t wanted)
{
    ranking->scores = scores;
    ranking->count = count;
    ranking->gathered = 0;
    ranking->wanted = wanted;
    ranking->opened = 0;
    ranking->left = 0;
    memset(ranking->sizes, 0, sizeof ranking->sizes);
    or_lanes()->bands(scores, count, best, BANDS_PER_NAT, BANDS - 1, ranking->bands);
    for (uint32_t i = 0; i < count; i++) {
        ranking->sizes[ranking->bands[i]]++;
    }
}

// Lay out the next bands, enough for the wanted entries, and fill them.
static void gather(or_ranking_t *ranking)
{
    uint32_t first = ranking->gathered;
    uint32_t begin = first > 0 ? ranking->ends[first - 1] : 0;
    uint32_t end = begin;
    while (ranking->gathered < BANDS && end - begin < ranking->wanted) {
        ranking->ends[ranking->gathered] = end; // for now its beginning
        end += ranking->sizes[ranking->gathered++];
    }
    uint32_t found = or_lanes()->within(ranking->bands, ranking->count, (uint16_t)first,
                                        (uint16_t)(ranking->gathered - 1), ranking->found);
    for (uint32_t i = 0; i < found; i++) {
        uint32_t item = ranking->found[i];
        uint32_t at = ranking->ends[ranking->bands[item]]++;
        ranking->entries[at] = (entry_t){ranking->scores[item], item};
    }
    ranking->wanted = ranking->wanted < BANDS * GROWTH ? ranking->wanted * GROWTH : UINT32_MAX;
}

static bool better(const entry_t *a, const entry_t *b)
{
    return a->score > b->score || (a->score == b->score && a->item < b->item);
}

static void sift_down(entry_t *heap, uint32_t count, uint32_t hole)
{
    entry_t moved = heap[hole];
    for (uint32_t child = 2 * hole + 1; child < count; child = 2 * hole + 1) {
        if (child + 1 < count && better(&heap[child + 1], &heap[child])) {
            child++;
        }
        if (!better(&heap[child], &moved)) {
            break;
        }
        heap[hole] = heap[child];
        hole = child;
    }
    heap[hole] = moved;
}

static void open_next_band(or_ranking_t *ranking)
{
    if (ranking->opened == ranking->gathered) {
        gather(ranking);
    }
    uint32_t band = ranking->opened++;
    ranking->left = ranking->sizes[band];
    ranking->heap = ranking->entries + ranking->ends[band] - ranking->left;
    for (uint32_t i = ranking->left / 2; i-- > 0;) {
        sift_down(ranking->heap, ranking->left, i);
    }
}

uint32_t or_ranking_next(or_ranking_t *ranking)
{
    while (ranking->left == 0) {
        open_next_band(ranking);
    }
    uint32_t item = ranking->heap[0].item;
    ranking->left--;
    if (ranking->left > 0) {
        ranking->heap[0] = ranking->heap[ranking->left];
        sift_down(ranking->heap, ranking->left, 0);
    }
    return item;
}
