#include "kernels/kernels.h"

#ifdef OR_KERNELS_AVX2
#include <cpuid.h>
#endif
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#ifdef OR_KERNELS_NEON
#include <sys/auxv.h>
#endif

#include "kernels/canonical.h"
#include "kernels/kernels_internal.h"

typedef struct {
    const or_kernels_t *table;
    bool (*runs_here)(void);
    const char *names; // this table's name and those before it, which run wherever it runs
    const char *needs; // of a CPU, in words
} candidate_t;

static bool ref_runs_here(void)
{
    return true;
}

#ifdef OR_KERNELS_AVX2
// "avx2" also asks whether the operating system saves the wide registers, as "avx512f" does below;
// not every compiler can be asked for "f16c".
static bool avx2_runs_here(void)
{
    unsigned eax, ebx, ecx, edx;
    bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
    return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

#ifdef OR_KERNELS_AVX512
static bool avx512_runs_here(void)
{
    return avx2_runs_here() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq");
}

static bool avx512vnni_runs_here(void)
{
    return avx512_runs_here() && __builtin_cpu_supports("avx512vnni");
}
#endif

#ifdef OR_KERNELS_NEON
static bool neon_runs_here(void)
{
    return true;
}

static bool neon_dot_runs_here(void)
{
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
}
#endif

// The tables, from the plainest to the fastest.
static const candidate_t candidates[] = {
    {&or_kernels_ref, ref_runs_here, "ref", "nothing"},
#ifdef OR_KERNELS_AVX2
    {&or_kernels_avx2, avx2_runs_here, "ref avx2", "AVX2, FMA and F16C"},
#endif
#ifdef OR_KERNELS_AVX512
    {&or_kernels_avx512, avx512_runs_here, "ref avx2 avx512", "AVX-512 F, BW, VL and DQ"},
    {&or_kernels_avx512vnni, avx512vnni_runs_here, "ref avx2 avx512 avx512vnni",
     "AVX-512 F, BW, VL, DQ and VNNI"},
#endif
#ifdef OR_KERNELS_NEON
    {&or_kernels_neon, neon_runs_here, "ref neon", "Advanced SIMD"},
    {&or_kernels_neon_dot, neon_dot_runs_here, "ref neon neon_dot",
     "Advanced SIMD with dot products"},
#endif
};

#define CANDIDATES (sizeof candidates / sizeof candidates[0])

static const candidate_t *best_candidate(void)
{
    size_t i = CANDIDATES - 1;
    while (i > 0 && !candidates[i].runs_here()) {
        i--;
    }
    return &candidates[i];
}

const or_kernels_t *or_kernels_find(const char *name)
{
    for (size_t i = 0; i < CANDIDATES; i++) {
        if (strcmp(candidates[i].table->name, name) == 0 && candidates[i].runs_here()) {
            return candidates[i].table;
        }
    }
    return NULL;
}

const or_kernels_t *or_kernels_pick(void)
{
    const char *name = getenv("OUTRIDER_KERNELS");
    return name != NULL && *name != '\0' ? or_kernels_find(name) : best_candidate()->table;
}

const char *or_kernels_names(void)
{
    return best_candidate()->names;
}

bool or_kernels_describe(size_t i, or_kernels_description_t *description)
{
    if (i >= CANDIDATES) {
        return false;
    }
    const candidate_t *it = &candidates[i];
    *description = (or_kernels_description_t){it->table->name, it->needs, it->runs_here()};
    return true;
}

float or_f16_to_f32(uint16_t half)
{
    return canonical_widen(half);
}

float or_bf16_to_f32(uint16_t bfloat)
{
    return canonical_widen_bf16(bfloat);
}

uint16_t or_f32_to_f16(float value)
{
    return canonical_narrow(value);
}
