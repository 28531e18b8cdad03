// Tiles of a product, their sums in registers. An fma takes four cycles and two can start in each, so
// eight chains keep the units busy: few rows take more strips. More rows in a tile save loads.
#include "kernels/avx2/kernels_avx2_tile.h"

#define TILE_SUMS 12u // and 2 weights and 1 x: 15 of the 16 registers
#define AHEAD 1024u   // bytes by which reading is announced

// What a tile asks for while it computes: with each step a line of each strip.
typedef struct {
    const char *at;
    size_t step;
} fetch_t;

// Rows `m` and on, strips `first` and on. `type`, `rows` and `strips` are constants wherever this is
// inlined. x of every fourth row is a pointer, the rows between are reached from it: few enough to stay
// in registers.
ALWAYS_INLINE void multiply_tile(const product_t *p, weights_t type, uint32_t m, uint32_t first,
                                 const fetch_t *fetch, uint32_t rows, uint32_t strips)
{
    const size_t x_stride = p->x_stride;
    const size_t step = p->step * bytes_of_weight(type);
    const size_t apart = p->apart * bytes_of_weight(type);
    const size_t next_step = fetch->step;
    const uint32_t vectors = 2 * strips;
    const char *next = fetch->at;
    const char *w = (const char *)p->w + first * apart;
    const float *x = p->x + m * x_stride;
    const float *x4 = rows > 4 ? x + 4 * x_stride : x;
    float *y = p->y + m * p->y_stride + (size_t)first * STRIP;
    __m256 sums[TILE_SUMS]; // [rows][vectors]
#pragma GCC unroll 12
    for (uint32_t j = 0; j < rows * vectors; j++) {
        const float *from = y + j / vectors * p->y_stride + j % vectors * WIDTH;
        sums[j] = p->continues ? _mm256_loadu_ps(from) : _mm256_setzero_ps();
    }
    for (uint32_t i = 0; i < p->k; i++, w += step, next += next_step) {
#pragma GCC unroll 4
        for (uint32_t c = 0; c < strips; c++) {
            if (type != WEIGHTS_NEAR) {
                _mm_prefetch(next + c * apart, _MM_HINT_T0);
            }
            __m256 low = load_weights(type, w + c * apart);
            __m256 high = load_weights(type, w + c * apart + WIDTH * bytes_of_weight(type));
#pragma GCC unroll 6
            for (uint32_t r = 0; r < rows; r++) {
                __m256 factor = _mm256_broadcast_ss((r < 4 ? x : x4) + r % 4 * x_stride + i);
                __m256 *sum = &sums[r * vectors + 2 * c];
                sum[0] = _mm256_fmadd_ps(factor, low, sum[0]);
                sum[1] = _mm256_fmadd_ps(factor, high, sum[1]);
            }
        }
    }
#pragma GCC unroll 12
    for (uint32_t j = 0; j < rows * vectors; j++) {
        _mm256_storeu_ps(y + j / vectors * p->y_stride + j % vectors * WIDTH, sums[j]);
    }
}

// The tile's share of what is next, or what lies ahead in w.
ALWAYS_INLINE fetch_t what_to_fetch(const product_t *p, weights_t type, uint32_t first,
                                    const char *next, size_t next_bytes)
{
    if (next != NULL) {
        return (fetch_t){next, next_bytes / p->k};
    }
    const char *w = (const char *)p->w + first * p->apart * bytes_of_weight(type);
    return (fetch_t){w + AHEAD, p->step * bytes_of_weight(type)};
}

// All strips, `widest` at a time.
ALWAYS_INLINE void multiply_tile_rows(const product_t *p, weights_t type, uint32_t m,
                                      const char *next, size_t next_bytes, uint32_t rows,
                                      uint32_t strips, uint32_t widest)
{
    for (uint32_t c = 0; c < strips;) {
        const fetch_t fetch = what_to_fetch(p, type, c, next, next_bytes);
        if (widest >= 4 && strips - c >= 4) {
            multiply_tile(p, type, m, c, &fetch, rows, 4);
            c += 4;
        } else if (widest >= 2 && strips - c >= 2) {
            multiply_tile(p, type, m, c, &fetch, rows, 2);
            c += 2;
        } else {
            multiply_tile(p, type, m, c, &fetch, rows, 1);
            c++;
        }
    }
}

// `rows` is at most TILE_ROWS; `type` is a constant wherever this is inlined.
ALWAYS_INLINE void multiply_rows(const product_t *p, weights_t type, uint32_t m, const char *next,
                                 size_t next_bytes, uint32_t rows, uint32_t strips)
{
    switch (rows) {
    case 1:
        multiply_tile_rows(p, type, m, next, next_bytes, 1, strips, 4);
        break;
    case 2:
        multiply_tile_rows(p, type, m, next, next_bytes, 2, strips, 2);
        break;
    case 3:
        multiply_tile_rows(p, type, m, next, next_bytes, 3, strips, 1);
        break;
    case 4:
        multiply_tile_rows(p, type, m, next, next_bytes, 4, strips, 1);
        break;
    case 5:
        multiply_tile_rows(p, type, m, next, next_bytes, 5, strips, 1);
        break;
    default:
        multiply_tile_rows(p, type, m, next, next_bytes, TILE_ROWS, strips, 1);
        break;
    }
}

// Tiles as even as can be: 7 rows are 4 and 3, not 6 and a lonely 1.
ALWAYS_INLINE void multiply(const product_t *p, weights_t type, uint32_t rows, uint32_t strips)
{
    uint32_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
    size_t share = tiles > 0 ? p->next_bytes / tiles : 0;
    const char *next = p->next;
    for (uint32_t m = 0; tiles > 0; tiles--) {
        uint32_t tile_rows = (rows - m + tiles - 1) / tiles;
        multiply_rows(p, type, m, next, share, tile_rows, strips);
        next = next != NULL ? next + share : NULL;
        m += tile_rows;
    }
}

void multiply_avx2(const product_t *product, uint32_t rows, uint32_t strips)
{
    switch (product->type) {
    case WEIGHTS_F32:
        multiply(product, WEIGHTS_F32, rows, strips);
        break;
    case WEIGHTS_F16:
        multiply(product, WEIGHTS_F16, rows, strips);
        break;
    case WEIGHTS_BF16:
        multiply(product, WEIGHTS_BF16, rows, strips);
        break;
    case WEIGHTS_NEAR:
        multiply(product, WEIGHTS_NEAR, rows, strips);
        break;
    }
}
