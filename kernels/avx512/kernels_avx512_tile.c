// Tiles of a product, their sums in registers. An fma takes four cycles and two can start in each, so
// eight chains keep the units busy: few rows take more columns. More rows in a tile save loads.
#include "kernels/avx512/kernels_avx512_tile.h"

#define TILE_SUMS 24u // and 2 weights and 1 x: 27 of the 32 registers
#define AHEAD 1024u   // bytes by which reading is announced

// What a tile asks for while it computes: with each step a line of each column vector.
typedef struct {
    const char *at;
    size_t step;
    size_t apart;
} fetch_t;

// Rows `m` and on, column vectors `first` and on. `type`, `rows` and `columns` are constants wherever
// this is inlined. x of every fourth row is a pointer, the rows between are reached from it: few enough
// to stay in registers.
ALWAYS_INLINE void multiply_tile(const product_t *p, weights_t type, uint32_t m, uint32_t first,
                                 const fetch_t *fetch, uint32_t rows, uint32_t columns)
{
    const size_t x_stride = p->x_stride;
    const size_t step = p->step * bytes_of_weight(type);
    const size_t apart = p->apart * bytes_of_weight(type);
    const size_t next_step = fetch->step;
    const size_t next_apart = fetch->apart;
    const char *next = fetch->at;
    const char *w = (const char *)p->w + first * apart;
    const float *x = p->x + m * x_stride;
    const float *x4 = rows > 4 ? x + 4 * x_stride : x;
    const float *x8 = rows > 8 ? x + 8 * x_stride : x;
    float *y = p->y + m * p->y_stride + (size_t)first * WIDTH;
    __m512 sums[TILE_SUMS]; // [rows][columns]
#pragma GCC unroll 24
    for (uint32_t j = 0; j < rows * columns; j++) {
        const float *from = y + j / columns * p->y_stride + j % columns * WIDTH;
        sums[j] = p->continues ? _mm512_loadu_ps(from) : _mm512_setzero_ps();
    }
#pragma GCC unroll 2
    for (uint32_t i = 0; i < p->k; i++, w += step, next += next_step) {
        __m512 weights[8];
#pragma GCC unroll 8
        for (uint32_t c = 0; c < columns; c++) {
            if (type != WEIGHTS_NEAR) {
                _mm_prefetch(next + c * next_apart, _MM_HINT_T0);
            }
            weights[c] = load_weights(type, w + c * apart);
        }
#pragma GCC unroll 12
        for (uint32_t r = 0; r < rows; r++) {
            const float *quad = r < 4 ? x : r < 8 ? x4 : x8;
            __m512 factor = _mm512_set1_ps(quad[r % 4 * x_stride + i]);
#pragma GCC unroll 8
            for (uint32_t c = 0; c < columns; c++) {
                sums[r * columns + c] = _mm512_fmadd_ps(factor, weights[c], sums[r * columns + c]);
            }
        }
    }
#pragma GCC unroll 24
    for (uint32_t j = 0; j < rows * columns; j++) {
        _mm512_storeu_ps(y + j / columns * p->y_stride + j % columns * WIDTH, sums[j]);
    }
}

// The tile's share of what is next, or what lies ahead in w.
ALWAYS_INLINE fetch_t what_to_fetch(const product_t *p, weights_t type, uint32_t first,
                                    const char *next, size_t next_bytes)
{
    if (next != NULL) {
        return (fetch_t){next, next_bytes / p->k, p->next_apart};
    }
    size_t apart = p->apart * bytes_of_weight(type);
    return (fetch_t){(const char *)p->w + first * apart + AHEAD, p->step * bytes_of_weight(type),
                     apart};
}

// All columns, `widest` at a time.
ALWAYS_INLINE void multiply_tile_rows(const product_t *p, weights_t type, uint32_t m,
                                      const char *next, size_t next_bytes, uint32_t rows,
                                      uint32_t columns, uint32_t widest)
{
    for (uint32_t c = 0; c < columns;) {
        const fetch_t fetch = what_to_fetch(p, type, c, next, next_bytes);
        if (widest >= 8 && columns - c >= 8) {
            multiply_tile(p, type, m, c, &fetch, rows, 8);
            c += 8;
        } else if (widest >= 4 && columns - c >= 4) {
            multiply_tile(p, type, m, c, &fetch, rows, 4);
            c += 4;
        } else if (columns - c >= 2) {
            multiply_tile(p, type, m, c, &fetch, rows, 2);
            c += 2;
        } else {
            multiply_tile(p, type, m, c, &fetch, rows, 1);
            c += 1;
        }
    }
}

// `rows` is at most TILE_ROWS; `type` is a constant wherever this is inlined.
ALWAYS_INLINE void multiply_rows(const product_t *p, weights_t type, uint32_t m, const char *next,
                                 size_t next_bytes, uint32_t rows, uint32_t columns)
{
    switch (rows) {
    case 1:
        multiply_tile_rows(p, type, m, next, next_bytes, 1, columns, 8);
        break;
    case 2:
        multiply_tile_rows(p, type, m, next, next_bytes, 2, columns, 4);
        break;
    case 3:
        multiply_tile_rows(p, type, m, next, next_bytes, 3, columns, 4);
        break;
    case 4:
        multiply_tile_rows(p, type, m, next, next_bytes, 4, columns, 2);
        break;
    case 5:
        multiply_tile_rows(p, type, m, next, next_bytes, 5, columns, 2);
        break;
    case 6:
        multiply_tile_rows(p, type, m, next, next_bytes, 6, columns, 2);
        break;
    case 7:
        multiply_tile_rows(p, type, m, next, next_bytes, 7, columns, 2);
        break;
    case 8:
        multiply_tile_rows(p, type, m, next, next_bytes, 8, columns, 2);
        break;
    case 9:
        multiply_tile_rows(p, type, m, next, next_bytes, 9, columns, 2);
        break;
    case 10:
        multiply_tile_rows(p, type, m, next, next_bytes, 10, columns, 2);
        break;
    case 11:
        multiply_tile_rows(p, type, m, next, next_bytes, 11, columns, 2);
        break;
    default:
        multiply_tile_rows(p, type, m, next, next_bytes, TILE_ROWS, columns, 2);
        break;
    }
}

// Tiles as even as can be: 13 rows are 7 and 6, not 12 and a lonely 1.
ALWAYS_INLINE void multiply(const product_t *p, weights_t type, uint32_t rows, uint32_t columns)
{
    uint32_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
    size_t share = tiles > 0 ? p->next_bytes / tiles : 0;
    const char *next = p->next;
    for (uint32_t m = 0; tiles > 0; tiles--) {
        uint32_t tile_rows = (rows - m + tiles - 1) / tiles;
        multiply_rows(p, type, m, next, share, tile_rows, columns);
        next = next != NULL ? next + share : NULL;
        m += tile_rows;
    }
}

// A function for each type of weights: AddressSanitizer checks with calls what is in a function as large as all four.
__attribute__((noinline)) static void multiply_f32(const product_t *p, uint32_t rows,
                                                   uint32_t columns)
{
    multiply(p, WEIGHTS_F32, rows, columns);
}

__attribute__((noinline)) static void multiply_f16(const product_t *p, uint32_t rows,
                                                   uint32_t columns)
{
    multiply(p, WEIGHTS_F16, rows, columns);
}

__attribute__((noinline)) static void multiply_bf16(const product_t *p, uint32_t rows,
                                                    uint32_t columns)
{
    multiply(p, WEIGHTS_BF16, rows, columns);
}

__attribute__((noinline)) static void multiply_near(const product_t *p, uint32_t rows,
                                                    uint32_t columns)
{
    multiply(p, WEIGHTS_NEAR, rows, columns);
}

void multiply_avx512(const product_t *product, uint32_t rows, uint32_t columns)
{
    switch (product->type) {
    case WEIGHTS_F32:
        multiply_f32(product, rows, columns);
        break;
    case WEIGHTS_F16:
        multiply_f16(product, rows, columns);
        break;
    case WEIGHTS_BF16:
        multiply_bf16(product, rows, columns);
        break;
    case WEIGHTS_NEAR:
        multiply_near(product, rows, columns);
        break;
    }
}
