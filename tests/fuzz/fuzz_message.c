// Goal: no frame crashes the codec, and an accepted frame has one meaning.
// Method: decode the input; if that works, encode it and decode that. The two messages must not
// differ in any field, and a second encoding must not differ in any byte.
#include "proto/wire/message.h"

#include <stdlib.h>
#include <string.h>

#include "proto/wire/message_test_random.h"
#include "tests/fuzz/fuzz.h"

static void encode(const or_message_t *message, uint8_t **frame_p, size_t *bytes)
{
    or_status_t status = or_message_encode(message, frame_p, bytes);
    assert(status == OR_OK);
}

static void assert_comes_back(const or_message_t *message)
{
    uint8_t *frame, *again;
    size_t bytes, again_bytes;
    or_message_t back;
    encode(message, &frame, &bytes);
    or_status_t status = or_message_decode(frame, bytes, &back);
    assert(status == OR_OK);
    assert(back.version == message->version);
    assert(message_difference(message, &back) == NULL);
    encode(&back, &again, &again_bytes);
    assert(bytes == again_bytes && memcmp(frame, again, bytes) == 0);
    or_message_fini(&back);
    free(again);
    free(frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    or_message_t message;
    or_status_t status = or_message_decode(data, size, &message);
    if (status == OR_OK) {
        assert_comes_back(&message);
    } else {
        assert(status == OR_ERR_FORMAT || status == OR_ERR_MISMATCH || status == OR_ERR_NO_MEMORY);
        assert(message.owned == NULL && or_error_text()[0] != '\0');
    }
    or_message_fini(&message);
    return 0;
}
