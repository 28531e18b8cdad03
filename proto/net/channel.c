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

or_status_t or_channel_receive(or_channel_t *channel, or_peer_t *from, const uint8_t **frame,
                               size_t *bytes)
{
    return channel->ops->receive(channel, from, frame, bytes);
}

or_status_t or_channel_wait(or_channel_t *channel, int64_t timeout_ns)
{
    return channel->ops->wait(channel, timeout_ns);
}

void or_channel_forget(or_channel_t *channel, or_peer_t peer)
{
    channel->ops->forget(channel, peer);
}

void or_channel_set_urgent(or_channel_t *channel, or_peer_t peer, bool urgent)
{
    if (channel->ops->set_urgent != NULL) {
        channel->ops->set_urgent(channel, peer, urgent);
    }
}

void or_channel_hold(or_channel_t *channel, int64_t until_ns)
{
    if (channel->ops->hold != NULL) {
        channel->ops->hold(channel, until_ns);
    }
}

bool or_channel_is_local(const or_channel_t *channel, or_peer_t peer)
{
    return channel->ops->is_local(channel, peer);
}

bool or_channel_is_inside(const or_channel_t *channel, or_peer_t peer)
{
    return channel->ops->is_inside(channel, peer);
}

const char *or_channel_key_of(const or_channel_t *channel, or_peer_t peer)
{
    return channel->ops->key_of(channel, peer);
}

uint64_t or_channel_connection(const or_channel_t *channel)
{
    return channel->ops->connection(channel);
}

void or_channel_destroy(or_channel_t **channel_p)
{
    if (*channel_p != NULL) {
        (*channel_p)->ops->destroy(*channel_p);
        *channel_p = NULL;
    }
}
