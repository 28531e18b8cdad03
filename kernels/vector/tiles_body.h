// tiles_body - how x86-64 cuts a product into tiles, written once and compiled for each instruction set by the file that
// includes this one. Private to kernels.
//
// Before the include, that file defines a tile:
//
//     TILE_ROWS          the most rows of a tile: 6 or 12
//     WIDEST(rows)       the most strips of a tile with that many rows: 1, 2, 4 or 8
//     fetch_t            the place that a tile prefetches from
//     what_to_fetch(product, type, first, next, next_bytes)
//                        the tile's share of the next chunk, or the place that lies ahead in the weights
//     multiply_tile(product, type, m, first, fetch, rows, strips)
//                        rows `m` and on, strips `first` and on
//
// An fma takes four cycles and two can start in each, so eight chains keep the units busy: few rows take more strips.
// More rows in a tile save loads.
#pragma once

#include "kernels/vector/product.h"

#ifdef WIDEST // without tiles this header is empty

// All strips, `widest` at a time.
ALWAYS_INLINE void multiply_tile_rows(const product_t *p, weights_t type, uint32_t m,
                                      const char *next, size_t next_bytes, uint32_t rows,
                                      uint32_t strips, uint32_t widest)
{
    for (uint32_t c = 0; c < strips;) {
        const fetch_t fetch = what_to_fetch(p, type, c, next, next_bytes);
        if (widest >= 8 && strips - c >= 8) {
            multiply_tile(p, type, m, c, &fetch, rows, 8);
            c += 8;
        } else if (widest >= 4 && strips - c >= 4) {
            multiply_tile(p, type, m, c, &fetch, rows, 4);
            c += 4;
        } else if (widest >= 2 && strips - c >= 2) {
            multiply_tile(p, type, m, c, &fetch, rows, 2);
            c += 2;
        } else {
            multiply_tile(p, type, m, c, &fetch, rows, 1);
            c += 1;
        }
    }
}

#define ROWS(n)                                                                                    \
    case n:                                                                                        \
        multiply_tile_rows(p, type, m, next, next_bytes, n, strips, WIDEST(n));                    \
        break

// `rows` is at most TILE_ROWS; `type` is a constant wherever this is inlined.
ALWAYS_INLINE void multiply_rows(const product_t *p, weights_t type, uint32_t m, const char *next,
                                 size_t next_bytes, uint32_t rows, uint32_t strips)
{
    switch (rows) {
        ROWS(1);
        ROWS(2);
        ROWS(3);
        ROWS(4);
        ROWS(5);
#if TILE_ROWS > 6
        ROWS(6);
        ROWS(7);
        ROWS(8);
        ROWS(9);
        ROWS(10);
        ROWS(11);
#endif
    default:
        multiply_tile_rows(p, type, m, next, next_bytes, TILE_ROWS, strips, WIDEST(TILE_ROWS));
        break;
    }
}

#undef ROWS

// Tiles as even as can be: one row more than a tile takes is two halves, not a full tile and a lonely row.
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

#endif
