#include "tests/fuzz/fuzz.h"

uint8_t fuzz_byte(fuzz_input_t *input)
{
    if (input->left == 0) {
        return 0;
    }
    input->left--;
    return *input->at++;
}

uint32_t fuzz_number(fuzz_input_t *input)
{
    uint32_t number = fuzz_byte(input);
    if (number < UINT8_MAX) {
        return number;
    }
    number = 0;
    for (unsigned shift = 0; shift < 32; shift += 8) {
        number |= (uint32_t)fuzz_byte(input) << shift;
    }
    return number;
}
