// quant_grids - the magnitudes that the types IQ2 and IQ3 give to neighbouring weights at once. Private to kernels.
//
// A file says a place in one of these lists. An entry of IQ2 is of eight weights, two bits of each; of IQ3 it is of
// four, three bits of each. The first weight has the lowest bits. Bits say which of the first magnitudes of
// or_iq2_values, or_iq3_s_values or or_iq3_xxs_values a weight has.
//
// The lists are data of the GGUF format and follow no rule; tests/oracles/make_quants.py prints them from the gguf
// package.
#pragma once

#include <stdint.h>

extern const uint16_t or_iq2_xxs_grid[256];
extern const uint16_t or_iq2_xs_grid[512];
extern const uint16_t or_iq2_s_grid[1024];
extern const uint16_t or_iq3_xxs_grid[256];
extern const uint16_t or_iq3_s_grid[512];
