#include "coordinator/http/api/api_event_id.h"

#include <sodium.h>
#include <string.h>
#include <xxhash.h>

#define BINARY_BYTES (OR_SESSION_TOKEN_BYTES + 4 + 8 + 8 + 8 + 8 + 4 + 1)
#define VARIANT sodium_base64_VARIANT_URLSAFE_NO_PADDING

static uint8_t *put(uint8_t *at, uint64_t number, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        *at++ = (uint8_t)(number >> (8 * i));
    }
    return at;
}

static const uint8_t *get(const uint8_t *at, uint64_t *number, unsigned bytes)
{
    *number = 0;
    for (unsigned i = 0; i < bytes; i++) {
        *number |= (uint64_t)*at++ << (8 * i);
    }
    return at;
}

uint32_t or_api_event_request(bool chat, const uint8_t *body, size_t bytes)
{
    return (uint32_t)XXH64(body, bytes, chat);
}

void or_api_event_id_format(const or_api_event_id_t *id, char text[OR_API_EVENT_ID_BYTES])
{
    uint8_t binary[BINARY_BYTES];
    memcpy(binary, id->secret, sizeof id->secret);
    uint8_t *at = put(binary + sizeof id->secret, id->tokens, 4);
    at = put(at, id->text_bytes, 8);
    at = put(at, id->characters, 8);
    at = put(at, id->number, 8);
    at = put(at, (uint64_t)id->created, 8);
    at = put(at, id->request, 4);
    put(at, id->said, 1);
    sodium_bin2base64(text, OR_API_EVENT_ID_BYTES, binary, sizeof binary, VARIANT);
}

// No text is so long: sums of these numbers stay far from where they overflow.
static bool is_plausible(const or_api_event_id_t *id)
{
    return id->tokens <= INT32_MAX && id->text_bytes <= UINT32_MAX &&
           id->characters <= UINT32_MAX && id->created >= 0 && id->created <= UINT32_MAX;
}

bool or_api_event_id_parse(const char *text, or_api_event_id_t *id)
{
    uint8_t binary[BINARY_BYTES];
    size_t bytes;
    uint64_t tokens, created, request, said;
    if (strlen(text) != OR_API_EVENT_ID_BYTES - 1 ||
        sodium_base642bin(binary, sizeof binary, text, OR_API_EVENT_ID_BYTES - 1, NULL, &bytes,
                          NULL, VARIANT) != 0 ||
        bytes != sizeof binary) {
        return false;
    }
    memcpy(id->secret, binary, sizeof id->secret);
    const uint8_t *at = get(binary + sizeof id->secret, &tokens, 4);
    at = get(at, &id->text_bytes, 8);
    at = get(at, &id->characters, 8);
    at = get(at, &id->number, 8);
    at = get(at, &created, 8);
    at = get(at, &request, 4);
    get(at, &said, 1);
    id->tokens = (uint32_t)tokens;
    id->created = (int64_t)created;
    id->request = (uint32_t)request;
    id->said = (uint8_t)said;
    return is_plausible(id);
}
