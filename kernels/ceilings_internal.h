// ceilings_internal - the ceilings that are built for some processors only.
#pragma once

#include "kernels/ceilings.h"

// Enough to keep two multipliers of latency 5 busy, few enough for the registers. Loops over chains are
// unrolled by pragma, or they would live in memory.
#define OR_CEILING_CHAINS 12u

// Reading at several places at once keeps more prefetches under way: a tenth more than one after the other
// on an Ice Lake server.
#define OR_CEILING_STREAMS 4u

extern const or_ceilings_t or_ceilings_avx2;
extern const or_ceilings_t or_ceilings_avx512;
extern const or_ceilings_t or_ceilings_avx512vnni;
extern const or_ceilings_t or_ceilings_neon;
extern const or_ceilings_t or_ceilings_neon_dot;
