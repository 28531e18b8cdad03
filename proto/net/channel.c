#include "proto/net/channel.h"

#include "proto/wire/message.h"

or_status_t or_channel_send(or_channel_t *channel, or_peer_t to, const uint8_t *frame, size_t bytes)
{
    if (bytes > OR_FRAME_BYTES_MAX) {
        return or_fail(OR_ERR_INVALID, "a frame of %zu bytes is over the limit of %u bytes", bytes,
                       OR_FRAME_BYTES_MAX);
    }
    return channel->ops->send(channel, to, frame, bytes);
}
