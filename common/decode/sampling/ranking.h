// ranking - the best of many scores, best first, without sorting the rest.
//
//     scores     best ....:.:|.::::|:::::::|::::::::::::| ... ::::::::|  everything further down
//     bands           0      1     2       3                          last
//
// Each item is in a band, by how far below the best it is. The bands asked for so far are gathered,
// and a band is put in order (a heap) when its turn comes. Order: by score, ties in the order given.
// Scratch of one sampler; one thread.
#pragma once

#include <stdint.h>

#include "common/base/status.h"

typedef struct or_ranking or_ranking_t;

// OR_ERR_NO_MEMORY.
or_status_t or_ranking_create(uint32_t items_max, or_ranking_t **ranking_p);
void or_ranking_destroy(or_ranking_t **ranking_p);

// Rank `count` scores, the best of which is given; none is NaN. Borrows them until the last
// or_ranking_next. `wanted` is an estimate of how many will be asked for.
void or_ranking_open(or_ranking_t *ranking, const double *scores, uint32_t count, double best,
                     uint32_t wanted);

// The item that comes next. Call it `count` times at most.
uint32_t or_ranking_next(or_ranking_t *ranking);
