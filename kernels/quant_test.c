// Goal: each quantised type means what GGUF says, bit for bit.
// Method: a unit of each type made by hand, with every field of bits placed and every number written out,
// decoded, and multiplied by every table.
#include "kernels/kernels_test_support.h"

#include <stdlib.h>
#include <string.h>

#define UNIT_MAX 256   // weights
#define FILE_BYTES 210 // of the largest unit

// ---- by hand ----

typedef struct {
    uint16_t at;
    uint8_t byte;
} byte_at_t;

typedef struct {
    uint16_t at;
    float value;
} value_at_t;

// A unit whose bytes are `fill` but for some. Its values are those of its groups of 16 but for some; `y` is
// the product of its first block with the activations below.
typedef struct {
    or_quant_t type;
    uint8_t fill;
    byte_at_t bytes[32]; // up to the first of 0, 0 behind the first
    float groups[16];
    value_at_t values[32]; // likewise
    float y;
} by_hand_t;

// 0.25 * {10, 20, -30, 127, -1, 0 ..., 0, 5, 2}: quants of scale 0.25, their sum 133, that of the halves 126
// and 7; times the scale 33.25, 31.5 and 1.75.
static const float activations[OR_QUANT_BLOCK] = {2.5f,   5.0f,         -7.5f,      31.75f,
                                                  -0.25f, [30] = 1.25f, [31] = 0.5f};

static const by_hand_t by_hand[] = {
    // Scale 0.5. Products 1*10 - 2*20 - 3*30 - 128*127 - 127*1 - 7*5 + 100*2 = -16338.
    {OR_QUANT_Q8_0,
     0x00,
     {{0, 0x00},
      {1, 0x38},
      {2, 0x01},
      {3, 0xFE},
      {4, 0x03},
      {5, 0x80},
      {6, 0x7F},
      {32, 0xF9},
      {33, 0x64}},
     {0},
     {{0, 0.5f}, {1, -1.0f}, {2, 1.5f}, {3, -64.0f}, {4, 63.5f}, {30, -3.5f}, {31, 50.0f}},
     -2042.25f},
    // Scale 2. Weights 0 and 16 are 15 - 8 and 4 - 8; 1 and 17 are 0 - 8 and 15 - 8; 3: 9 - 8; 30: 1 - 8;
    // 31: 11 - 8. Products 7*10 - 8*20 + 1*127 - 7*5 + 3*2 = 8.
    {OR_QUANT_Q4_0,
     0x88,
     {{0, 0x00}, {1, 0x40}, {2, 0x4F}, {3, 0xF0}, {5, 0x89}, {16, 0x18}, {17, 0xB8}},
     {0},
     {{0, 14.0f}, {1, -16.0f}, {3, 2.0f}, {16, -8.0f}, {17, 14.0f}, {30, -14.0f}, {31, 6.0f}},
     4.0f},
    // Scale -1, and all values: byte i is i and 15 - i. Products -127*10 - 104*20 + 83*30 - 65*127 + 49 -
    // 104*5 - 127*2 = -9840.
    {OR_QUANT_IQ4_NL,
     0x00,
     {{0, 0x00},
      {1, 0xBC},
      {2, 0xF0},
      {3, 0xE1},
      {4, 0xD2},
      {5, 0xC3},
      {6, 0xB4},
      {7, 0xA5},
      {8, 0x96},
      {9, 0x87},
      {10, 0x78},
      {11, 0x69},
      {12, 0x5A},
      {13, 0x4B},
      {14, 0x3C},
      {15, 0x2D},
      {16, 0x1E},
      {17, 0x0F}},
     {0},
     {{0, 127},   {1, 104},  {2, 83},   {3, 65},   {4, 49},   {5, 35},   {6, 22},   {7, 10},
      {8, -1},    {9, -13},  {10, -25}, {11, -38}, {12, -53}, {13, -69}, {14, -89}, {15, -113},
      {16, -113}, {17, -89}, {18, -69}, {19, -53}, {20, -38}, {21, -25}, {22, -13}, {23, -1},
      {24, 10},   {25, 22},  {26, 35},  {27, 49},  {28, 65},  {29, 83},  {30, 104}, {31, 127}},
     2460.0f},
    // Scale 0.5; the fifth bits are those of weights 0, 16 and 31. Products 3*10 + 2*2 - 16*(133 - 12) =
    // -1902.
    {OR_QUANT_Q5_0,
     0x00,
     {{0, 0x00}, {1, 0x38}, {2, 0x01}, {4, 0x01}, {5, 0x80}, {6, 0xF3}, {21, 0x20}},
     {-8.0f, -8.0f},
     {{0, 1.5f}, {16, 7.5f}, {31, 1.0f}},
     -237.75f},
    // Scale 2, minimum -1. 2 * 0.25 * (15*10 + 11*2) - 33.25.
    {OR_QUANT_Q4_1,
     0x00,
     {{0, 0x00}, {1, 0x40}, {3, 0xBC}, {4, 0x4F}, {19, 0xB8}},
     {-1.0f, -1.0f},
     {{0, 29.0f}, {15, 15.0f}, {16, 7.0f}, {31, 21.0f}},
     52.75f},
    // Scale 1, minimum 0.25; the fifth bits are those of weights 1, 17 and 30. 0.25 * (26*20 + 23*5) +
    // 0.25 * 33.25.
    {OR_QUANT_Q5_1,
     0x00,
     {{0, 0x00}, {1, 0x3C}, {3, 0x34}, {4, 0x02}, {6, 0x02}, {7, 0x40}, {9, 0x9A}, {22, 0x70}},
     {0.25f, 0.25f},
     {{1, 26.25f}, {17, 25.25f}, {30, 23.25f}},
     167.0625f},
    // Scale 0.5, minimum 0.25. Scales and minima of blocks 0: 33 and 63, 3: 2 and 0, 4: 5 + 48 and 9 + 32,
    // 7: 0 and 1. Weights 0 and 31: 7, 15; 32: 15, of no scale; 96 and 127: 10, 3; 128: 1. 16.5 * 0.25 *
    // (7*10 + 15*2) - 15.75 * 33.25.
    {OR_QUANT_Q4_K,
     0x00,
     {{0, 0x00},
      {1, 0x38},
      {3, 0x34},
      {4, 0xE1},
      {7, 0x02},
      {8, 0xBF},
      {12, 0x95},
      {15, 0x10},
      {16, 0xF7},
      {47, 0x0F},
      {48, 0xA0},
      {79, 0x30},
      {80, 0x01}},
     {-15.75f, -15.75f, 0, 0, 0, 0, 0, 0, -10.25f, -10.25f, 0, 0, 0, 0, -0.25f, -0.25f},
     {{0, 99.75f}, {31, 231.75f}, {96, 10.0f}, {127, 3.0f}, {128, 16.25f}},
     -111.1875f},
    // The same with fifth bits of the weights 0, 31, 96 and 128. 16.5 * 0.25 * (23*10 + 31*2) - 15.75 * 33.25.
    {OR_QUANT_Q5_K,
     0x00,
     {{0, 0x00},
      {1, 0x38},
      {3, 0x34},
      {4, 0xE1},
      {7, 0x02},
      {8, 0xBF},
      {12, 0x95},
      {15, 0x10},
      {16, 0x19},
      {47, 0x01},
      {48, 0xF7},
      {79, 0x0F},
      {80, 0xA0},
      {111, 0x30},
      {112, 0x01}},
     {-15.75f, -15.75f, 0, 0, 0, 0, 0, 0, -10.25f, -10.25f, 0, 0, 0, 0, -0.25f, -0.25f},
     {{0, 363.75f}, {31, 495.75f}, {96, 26.0f}, {127, 3.0f}, {128, 440.25f}},
     680.8125f},
    // Scale 0.5, minimum 0.25. Scales and minima of groups 0: 3 and 15, 1: 1 and 0, 7: 15 and 2, 8: 0 and 1,
    // 15: 10 and 0. Weights 0 and 31: 3, 2; 127: 3; 240 and 255: 1, 2. 1.5 * 0.25 * 3*10 - 3.75 * 31.5 +
    // 0.5 * 0.25 * 2*2.
    {OR_QUANT_Q2_K,
     0x00,
     {{0, 0xF3},
      {1, 0x01},
      {7, 0x2F},
      {8, 0x10},
      {15, 0x0A},
      {16, 0x03},
      {47, 0xC2},
      {64, 0x40},
      {79, 0x80},
      {81, 0x38},
      {83, 0x34}},
     {-3.75f, 0, 0, 0, 0, 0, 0, -0.5f, -0.25f, 0, 0, 0, 0, 0, 0, 0},
     {{0, 0.75f}, {31, 1.0f}, {127, 22.0f}, {240, 5.0f}, {255, 10.0f}},
     -106.375f},
    // Scale 0.5. Scales of groups 0: 1 + 32, 7: 15 + 16, 8: 3 + 48, all others 0, less 32. Third bits of
    // weights 0, 1, 127, 128 and 255, without which 4 is taken off; lower ones 0: 3, 2: 2, 127: 3, 128: 1,
    // 255: 2. 0.5 * 0.25 * (3*10 + 2*30 - 4*127 + 4) + -16 * 0.25 * -4*7.
    {OR_QUANT_Q3_K,
     0x00,
     {{0, 0x11},
      {1, 0x01},
      {31, 0x88},
      {32, 0x03},
      {34, 0x02},
      {63, 0xC0},
      {64, 0x01},
      {95, 0x80},
      {96, 0x31},
      {103, 0x0F},
      {104, 0x32},
      {107, 0x04},
      {109, 0x38}},
     {-2.0f, 64, 64, 64, 64, 64, 64, 2.0f, -38.0f, 64, 64, 64, 64, 64, 64, 64},
     {{0, 1.5f}, {1, 0.0f}, {2, -1.0f}, {127, -1.5f}, {128, 9.5f}, {255, -32.0f}},
     60.25f},
    // Scale 0.5. Scales of groups 0: 2, 3: -1, 4: -128, 7: 127, 8: 1, 15: 4. Weights 0: 5 + 48, 15: 15,
    // 63: 1 + 16, 64: 15 + 48, 127: 8 + 32, 128: 1, 255: 12 + 16, less 32. 0.25 * (21*10 - 32*116).
    {OR_QUANT_Q6_K,
     0x00,
     {{0, 0xF5},
      {15, 0x0F},
      {63, 0x81},
      {64, 0x01},
      {127, 0xC0},
      {128, 0x33},
      {159, 0x84},
      {191, 0x40},
      {192, 0x02},
      {195, 0xFF},
      {196, 0x80},
      {199, 0x7F},
      {200, 0x01},
      {207, 0x04},
      {209, 0x38}},
     {-32.0f, -0.0f, -0.0f, 16.0f, 2048.0f, -0.0f, -0.0f, -2032.0f, -16.0f, -0.0f, -0.0f, -0.0f,
      -0.0f, -0.0f, -0.0f, -64.0f},
     {{0, 21.0f},
      {15, -17.0f},
      {63, 7.5f},
      {64, -1984.0f},
      {127, 508.0f},
      {128, -15.5f},
      {255, -8.0f}},
     -875.5f},
    // Scale 0.5. Scales of blocks 0: 3 + 32, 1: 1 + 16, 7: 15 + 48, all others 0, less 32. Weights 0: 113, 16: 1, 31: 13,
    // 255: -10, all others -127. 1.5 * 0.25 * (113*10 - 127*(20 - 30 + 127 - 1 + 5) + 13*2).
    {OR_QUANT_IQ4_XS,
     0x00,
     {{0, 0x00},
      {1, 0x38},
      {2, 0x06},
      {3, 0xC0},
      {4, 0x13},
      {7, 0xF0},
      {8, 0x8F},
      {23, 0x90},
      {135, 0x70}},
     {-190.5f, -190.5f, 952.5f, 952.5f, 2032, 2032, 2032, 2032, 2032, 2032, 2032, 2032, 2032, 2032,
      -1968.5f, -1968.5f},
     {{0, 169.5f}, {16, 1.5f}, {31, 19.5f}, {255, -155.0f}},
     -5329.125f},
    // Scale 2^(129 - 128). Weights 0: 12, 16: -1, 1: a nought with a minus, 3: -12, 30: 3, 31: 6. 2 * 0.25 * (12*10 -
    // 12*127 + 3*5 + 6*2).
    {OR_QUANT_MXFP4,
     0x00,
     {{0, 0x81}, {1, 0x97}, {2, 0x08}, {4, 0x0F}, {15, 0x30}, {16, 0x50}},
     {0},
     {{0, 24.0f}, {16, -2.0f}, {3, -24.0f}, {30, 6.0f}, {31, 12.0f}},
     -688.5f},
    // Scale 0.5. Scales of blocks 0: 2 * 2 + 1, 7: 2 * 15 + 1, all others 1. Places of weights 0 to 3: 44 + 256, which is
    // 3, 5, 3, 7; 28 to 31: 255 + 256, 1, 1, 15, 15; 252 to 255: 1, which is 3, 1, 1, 1; all others 1. Minus: 1, 3, 31,
    // 255. 2.5 * 0.25 * (3*10 - 5*20 - 3*30 - 7*127 - 1 + 15*5 - 15*2).
    {OR_QUANT_IQ3_S,
     0x00,
     {{0, 0x00},
      {1, 0x38},
      {2, 0x2C},
      {9, 0xFF},
      {65, 0x01},
      {66, 0x81},
      {74, 0x0A},
      {77, 0x80},
      {105, 0x80},
      {106, 0x02},
      {109, 0xF0}},
     {2.5f, 2.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 15.5f,
      15.5f},
     {{0, 7.5f},
      {1, -12.5f},
      {2, 7.5f},
      {3, -17.5f},
      {30, 37.5f},
      {31, -37.5f},
      {252, 46.5f},
      {255, -15.5f}},
     -628.125f},
    // Scale 0.5. Scales of blocks 0: (2 * 3 + 1) / 2, 7: (2 * 15 + 1) / 2, all others 1/2. Place of weights 0 to 3: 255,
    // which is 2, 14, 26, 31; 252 to 255: 1, which is 10, 2, 2, 2; all others 2. Minus: 1 and so 7, 24 and 30. 1.75 * 0.25
    // * (2*10 - 14*20 - 26*30 + 31*127 - 2 - 2*5 + 2*2).
    {OR_QUANT_IQ3_XXS,
     0x00,
     {{0, 0x00}, {1, 0x38}, {2, 0xFF}, {65, 0x01}, {66, 0x02}, {68, 0x20}, {69, 0x38}, {97, 0xF0}},
     {3.5f, 3.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 15.5f,
      15.5f},
     {{1, -24.5f}, {2, 45.5f}, {3, 54.25f}, {7, -3.5f}, {24, -3.5f}, {30, -3.5f}, {252, 77.5f}},
     1263.9375f},
    // Scale 0.5. Scales of groups 0: (2 * 1 + 1) / 8, 1: (2 * 4 + 1) / 8, 14: (2 * 15 + 1) / 8, all others 1/8. Place of
    // weights 0 to 7: 5 + 768, which is 8, 8, 25, 43, 8, 8, 43, 25; 24 to 31: 255 + 768, all 43; all others 8. Minus: 3, 6,
    // 31. 0.1875 * 0.25 * (8*10 + 8*20 - 25*30 - 43*127 - 8) + 0.5625 * 0.25 * (43*5 - 43*2).
    {OR_QUANT_IQ2_S,
     0x00,
     {{0, 0x00},
      {1, 0x38},
      {2, 0x05},
      {5, 0xFF},
      {34, 0x48},
      {37, 0x80},
      {66, 0xC3},
      {74, 0x41},
      {81, 0x0F}},
     {1.5f, 4.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 15.5f,
      0.5f},
     {{2, 4.6875f},
      {3, -8.0625f},
      {6, -8.0625f},
      {7, 4.6875f},
      {24, 24.1875f},
      {25, 24.1875f},
      {26, 24.1875f},
      {27, 24.1875f},
      {28, 24.1875f},
      {29, 24.1875f},
      {30, 24.1875f},
      {31, -24.1875f}},
     -262.125f},
    // The same scales. Place of weights 0 to 7: 1, which is 43, 8, 8 ...; 24 to 31: 511, all 43; all others 8. Minus: 0 and
    // so 7, 29 and 30. 0.1875 * 0.25 * (-43*10 + 8*20 - 8*30 + 8*127 - 8) + 0.5625 * 0.25 * (-43*5 + 43*2).
    {OR_QUANT_IQ2_XS,
     0x00,
     {{0, 0x00}, {1, 0x38}, {2, 0x01}, {3, 0x02}, {8, 0xFF}, {9, 0xC1}, {66, 0x41}, {73, 0x0F}},
     {1.5f, 4.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 15.5f,
      0.5f},
     {{0, -8.0625f},
      {7, -1.5f},
      {24, 24.1875f},
      {25, 24.1875f},
      {26, 24.1875f},
      {27, 24.1875f},
      {28, 24.1875f},
      {29, -24.1875f},
      {30, -24.1875f},
      {31, 24.1875f}},
     5.203125f},
    // Scale 0.5. Scales of blocks 0: (2 * 2 + 1) / 8, 7: (2 * 15 + 1) / 8, all others 1/8. Place of weights 0 to 7: 255,
    // which is 8, 25, 8, 8, 25, 43, 43, 43; 24 to 31: 1, which is 43, 8, 8 ...; all others 8. Minus: 3 and so 7, 30 and so
    // 31. 0.3125 * 0.25 * (8*10 + 25*20 - 8*30 - 8*127 - 25 - 8*5 - 8*2).
    {OR_QUANT_IQ2_XXS,
     0x00,
     {{0, 0x00}, {1, 0x38}, {2, 0xFF}, {5, 0x01}, {6, 0x08}, {9, 0x28}, {65, 0xF0}},
     {2.5f, 2.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 15.5f,
      15.5f},
     {{1, 7.8125f},
      {3, -2.5f},
      {4, 7.8125f},
      {5, 13.4375f},
      {6, 13.4375f},
      {7, -13.4375f},
      {24, 13.4375f},
      {30, -2.5f},
      {31, -2.5f}},
     -59.140625f},
};

static const by_hand_t *find_by_hand(or_quant_t type)
{
    for (size_t i = 0; i < sizeof by_hand / sizeof by_hand[0]; i++) {
        if (by_hand[i].type == type) {
            return &by_hand[i];
        }
    }
    fail_msg("%s has no vector", or_quant_name(type));
    return NULL;
}

static void fill_row(const by_hand_t *h, uint8_t row[FILE_BYTES])
{
    memset(row, h->fill, FILE_BYTES);
    for (size_t i = 0; i < 32 && (i == 0 || h->bytes[i].at > 0); i++) {
        row[h->bytes[i].at] = h->bytes[i].byte;
    }
}

static void fill_values(const by_hand_t *h, float values[UNIT_MAX])
{
    for (size_t i = 0; i < UNIT_MAX; i++) {
        values[i] = h->groups[i / 16];
    }
    for (size_t i = 0; i < 32 && (i == 0 || h->values[i].at > 0); i++) {
        values[h->values[i].at] = h->values[i].value;
    }
}

static uint32_t unit_weights(or_quant_t type)
{
    return or_quant_unit_blocks(type) * OR_QUANT_BLOCK;
}

static void values_are_those_written_by_hand(void **state)
{
    (void)state;
    for (or_quant_t type = 0; type < OR_QUANT_TYPES; type++) {
        const by_hand_t *h = find_by_hand(type);
        uint8_t row[FILE_BYTES];
        float expected[UNIT_MAX], out[UNIT_MAX + 1];
        fill_row(h, row);
        fill_values(h, expected);
        memset(out, 0xAA, sizeof out);
        or_quant_decode(type, row, 1, out);
        for (size_t i = 0; i < unit_weights(type); i++) {
            assert_same(out[i], expected[i], or_quant_name(type), i);
        }
        assert_int_equal(test_bits(out[unit_weights(type)]), 0xAAAAAAAAu);
    }
}

// In lane 5; the other lanes are zeros.
static void products_are_those_written_by_hand(void **state)
{
    (void)state;
    enum { LANE = 5 };
    for (size_t i = 0; i < test_table_count * OR_QUANT_TYPES; i++) {
        const or_kernels_t *table = test_tables[i / OR_QUANT_TYPES];
        const by_hand_t *h = find_by_hand((or_quant_t)(i % OR_QUANT_TYPES));
        uint8_t rows[LANE + 1][FILE_BYTES] = {0};
        fill_row(h, rows[LANE]);
        uint8_t *panel = malloc(or_quant_unit_bytes(h->type));
        assert_non_null(panel);
        or_quant_pack(h->type, rows, FILE_BYTES, LANE + 1, 1, panel);
        or_q8_block_t x;
        float y[OR_PANEL];
        table->quantize_row(activations, 1, &x);
        const or_quant_panels_t w = {.type = h->type, .panels = panel, .count = 1, .blocks = 1};
        table->matmul_quants(&w, &x, 1, 1, y, OR_PANEL);
        for (size_t lane = 0; lane < OR_PANEL; lane++) {
            assert_same(y[lane], lane == LANE ? h->y : 0.0f, or_quant_name(h->type), lane);
        }
        free(panel);
    }
}

// ---- sizes ----

static void sizes_are_those_of_gguf(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t file_bytes, blocks;
    } sizes[OR_QUANT_TYPES] = {
        [OR_QUANT_Q8_0] = {"Q8_0", 34, 1},       [OR_QUANT_Q4_0] = {"Q4_0", 18, 1},
        [OR_QUANT_IQ4_NL] = {"IQ4_NL", 18, 1},   [OR_QUANT_Q5_0] = {"Q5_0", 22, 1},
        [OR_QUANT_Q4_1] = {"Q4_1", 20, 1},       [OR_QUANT_Q5_1] = {"Q5_1", 24, 1},
        [OR_QUANT_Q4_K] = {"Q4_K", 144, 8},      [OR_QUANT_Q5_K] = {"Q5_K", 176, 8},
        [OR_QUANT_Q2_K] = {"Q2_K", 84, 8},       [OR_QUANT_Q3_K] = {"Q3_K", 110, 8},
        [OR_QUANT_Q6_K] = {"Q6_K", 210, 8},      [OR_QUANT_IQ4_XS] = {"IQ4_XS", 136, 8},
        [OR_QUANT_MXFP4] = {"MXFP4", 17, 1},     [OR_QUANT_IQ3_S] = {"IQ3_S", 110, 8},
        [OR_QUANT_IQ3_XXS] = {"IQ3_XXS", 98, 8}, [OR_QUANT_IQ2_S] = {"IQ2_S", 82, 8},
        [OR_QUANT_IQ2_XS] = {"IQ2_XS", 74, 8},   [OR_QUANT_IQ2_XXS] = {"IQ2_XXS", 66, 8},
    };
    for (or_quant_t type = 0; type < OR_QUANT_TYPES; type++) {
        assert_string_equal(or_quant_name(type), sizes[type].name);
        assert_int_equal(or_quant_file_bytes(type), sizes[type].file_bytes);
        assert_int_equal(or_quant_unit_blocks(type), sizes[type].blocks);
        // Panels are at most a sixth larger: where six bits become bytes. Those of IQ3 and IQ2 hold what files have as
        // places in lists: 4.3 and 3.6 bits a weight.
        size_t packed = or_quant_unit_bytes(type);
        size_t file = (size_t)OR_PANEL * sizes[type].file_bytes;
        size_t most = type == OR_QUANT_IQ3_S || type == OR_QUANT_IQ3_XXS ? (size_t)OR_PANEL * 138
                      : type >= OR_QUANT_IQ2_S                           ? (size_t)OR_PANEL * 114
                                                                         : file + file / 6;
        assert_true(packed >= file && packed <= most);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_written_by_hand),
        cmocka_unit_test(products_are_those_written_by_hand),
        cmocka_unit_test(sizes_are_those_of_gguf),
    };
    return cmocka_run_group_tests(tests, test_find_tables, NULL);
}
