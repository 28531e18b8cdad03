// Products with float, half and bfloat16 weights; a panel is a strip. The rows of one tile walk panels
// side by side, straight from memory. More rows take K in chunks: a panel's chunk of weights stays in
// the first cache while all tiles of rows pass over it and ask for the next one.
#include "kernels/avx2/kernels_avx2_tile.h"

#define CHUNK 512u // steps of K: 32 KiB of floats

typedef struct {
    const void *data; // of `type`
    size_t stride;    // weights from panel to panel
    uint32_t count;
    weights_t type;
} panels_t;

typedef struct {
    const float *x;
    size_t x_stride;
    float *y;
    size_t y_stride;
    uint32_t count;
} rows_t;

ALWAYS_INLINE const char *place_of(const panels_t *w, size_t panel, size_t step)
{
    return (const char *)w->data + (panel * w->stride + step * OR_PANEL) * bytes_of_weight(w->type);
}

static void multiply_panel(const panels_t *w, uint32_t p, uint32_t k, const rows_t *at)
{
    product_t product = {.type = w->type,
                         .step = OR_PANEL,
                         .x_stride = at->x_stride,
                         .y = at->y + (size_t)p * OR_PANEL,
                         .y_stride = at->y_stride,
                         .next_bytes = CHUNK * OR_PANEL * bytes_of_weight(w->type)};
    for (uint32_t first = 0; first < k; first += CHUNK) {
        uint32_t after = k - first < CHUNK ? k : first + CHUNK;
        product.w = place_of(w, p, first);
        product.k = after - first;
        product.x = at->x + first;
        product.continues = first > 0;
        product.next = after < k ? place_of(w, p, after) : place_of(w, p + 1, 0);
        multiply_avx2(&product, at->count, 1);
    }
}

static void multiply(const panels_t *w, uint32_t k, const rows_t *at)
{
    if (at->count <= TILE_ROWS) {
        const product_t product = {.w = w->data,
                                   .type = w->type,
                                   .step = OR_PANEL,
                                   .apart = w->stride,
                                   .k = k,
                                   .x = at->x,
                                   .x_stride = at->x_stride,
                                   .y = at->y,
                                   .y_stride = at->y_stride};
        multiply_avx2(&product, at->count, w->count);
        return;
    }
    for (uint32_t p = 0; p < w->count; p++) {
        multiply_panel(w, p, k, at);
    }
}

void matmul_f32_avx2(const float *panels, size_t panel_stride, uint32_t panel_count, uint32_t k,
                     const float *x, size_t x_stride, uint32_t rows, float *y, size_t y_stride)
{
    const panels_t w = {panels, panel_stride, panel_count, WEIGHTS_F32};
    const rows_t at = {x, x_stride, y, y_stride, rows};
    multiply(&w, k, &at);
}

void matmul_f16_avx2(const uint16_t *panels, size_t panel_stride, uint32_t panel_count, uint32_t k,
                     const float *x, size_t x_stride, uint32_t rows, float *y, size_t y_stride)
{
    const panels_t w = {panels, panel_stride, panel_count, WEIGHTS_F16};
    const rows_t at = {x, x_stride, y, y_stride, rows};
    multiply(&w, k, &at);
}

void matmul_bf16_avx2(const uint16_t *panels, size_t panel_stride, uint32_t panel_count, uint32_t k,
                      const float *x, size_t x_stride, uint32_t rows, float *y, size_t y_stride)
{
    const panels_t w = {panels, panel_stride, panel_count, WEIGHTS_BF16};
    const rows_t at = {x, x_stride, y, y_stride, rows};
    multiply(&w, k, &at);
}
