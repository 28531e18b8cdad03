// ranks_script - a fixed life of a few sequences in which everything happens once that ranks have to repeat. There are
// a prefix and a tree in one pass, an accepted path, pages that are shared, and calls that are refused. One sequence
// is cut short, one closed and opened again.
#pragma once

#include "tests/model/ranks_record.h"

// A play_t that records all logits.
void play_script(or_model_t *model, record_t *record);
