#include "proto/net/patience.h"

#include "common/base/log/log.h"
#include "proto/net/link.h"
#include "proto/zmq/channel_zmq.h"

#define CONNECT_PATIENCE_NS (10 * OR_NS_PER_S) // for the first Welcome
#define SILENCE_PATIENCE_S 5                   // for a lost coordinator, at least
#define CALL_NS                                                                                    \
    (2 * OR_NS_PER_S) // for calling a lost coordinator, however late its loss was noticed
#define CROWD_NS (200 * OR_NS_PER_MS) // in which several Welcomes count as one
#define WARN_NS (10 * OR_NS_PER_S)    // between two warnings
#define HEARTBEAT_MAX_MS 60000u       // the longest that the link believes
// A server that answers a greeting by closing the connection may be starting or ending. It is hopeless only if that lasts
// longer: a key that was authorised just now is let in within a second.
#define TROUBLE_NS (3 * OR_NS_PER_S / 2)

void or_patience_init(or_patience_t *patience, or_channel_t *channel, const or_clock_t *clock,
                      const char *endpoint, uint32_t wait_s)
{
    int64_t now = or_clock_now(clock);
    *patience = (or_patience_t){.channel = channel,
                                .clock = clock,
                                .endpoint = endpoint,
                                .wait_s = wait_s > SILENCE_PATIENCE_S ? wait_s : SILENCE_PATIENCE_S,
                                .heartbeat_ms = OR_LINK_HEARTBEAT_MS,
                                .welcomed_ns = now - CROWD_NS,
                                .lost_ns = now,
                                .trouble_ns = OR_TIME_NEVER,
                                .give_up_at_ns = now + CONNECT_PATIENCE_NS,
                                .warn_at_ns = OR_TIME_NEVER};
}

bool or_patience_welcome(or_patience_t *patience, const or_welcome_t *welcome)
{
    int64_t now = or_clock_now(patience->clock);
    patience->welcomed = true;
    patience->give_up_at_ns = patience->warn_at_ns = patience->trouble_ns = OR_TIME_NEVER;
    if (welcome->heartbeat_ms != 0) {
        patience->heartbeat_ms =
            welcome->heartbeat_ms < HEARTBEAT_MAX_MS ? welcome->heartbeat_ms : HEARTBEAT_MAX_MS;
    }
    if (now - patience->welcomed_ns < CROWD_NS) {
        return false;
    }
    patience->welcomed_ns = now;
    return true;
}

// Rounded, so that 5.9 s do not read as 5.
static int seconds(int64_t ns)
{
    return (int)((ns + OR_NS_PER_S / 2) / OR_NS_PER_S);
}

static void warn_again(or_patience_t *patience)
{
    int64_t now = or_clock_now(patience->clock);
    const char *trouble = or_channel_zmq_trouble(patience->channel);
    or_log(OR_LOG_WARN,
           "no word from the coordinator at %s for %d s%s%s; trying to reach it for %d s more",
           patience->endpoint, seconds(now - patience->lost_ns), trouble[0] != '\0' ? ": " : "",
           trouble, seconds(patience->give_up_at_ns - now));
    patience->warn_at_ns = now + WARN_NS;
}

// The coordinator was last heard `ago_ns` ago. It may come back, or this machine may at another address.
static void lose(or_patience_t *patience, int64_t ago_ns)
{
    int64_t now = or_clock_now(patience->clock);
    if (patience->give_up_at_ns != OR_TIME_NEVER) {
        return; // it never was there, or is waited for already
    }
    patience->lost_ns = now - ago_ns;
    patience->give_up_at_ns = patience->lost_ns + patience->wait_s * OR_NS_PER_S;
    if (patience->give_up_at_ns < now + CALL_NS) {
        patience->give_up_at_ns = now + CALL_NS;
    }
    if (ago_ns > 0) {
        warn_again(patience);
        return;
    }
    or_log(OR_LOG_WARN,
           "the connection to the coordinator at %s is lost; trying to reach it for %d s",
           patience->endpoint, seconds(patience->give_up_at_ns - now));
    patience->warn_at_ns = now + WARN_NS;
}

void or_patience_lose(or_patience_t *patience)
{
    if (patience->endpoint != NULL) {
        lose(patience, (int64_t)patience->heartbeat_ms * OR_LINK_SILENCE * OR_NS_PER_MS);
    } else {
        patience->give_up_at_ns = or_clock_now(patience->clock) + SILENCE_PATIENCE_S * OR_NS_PER_S;
    }
}

static or_status_t give_up(const or_patience_t *patience, bool begun)
{
    if (patience->endpoint == NULL) {
        return patience->welcomed
                   ? or_fail(OR_ERR_UNREACHABLE, "the coordinator has been silent for %d s",
                             SILENCE_PATIENCE_S)
                   : or_fail(OR_ERR_TIMEOUT, "no coordinator answers; is it running, and is the "
                                             "endpoint right?");
    }
    const char *trouble = or_channel_zmq_trouble(patience->channel);
    if (begun) {
        return or_fail(OR_ERR_UNREACHABLE, "the coordinator at %s has been silent for %d s%s%s",
                       patience->endpoint,
                       seconds(or_clock_now(patience->clock) - patience->lost_ns),
                       trouble[0] != '\0' ? ": " : "", trouble);
    }
    if (trouble[0] != '\0') {
        return or_fail(OR_ERR_TIMEOUT, "no coordinator answers: %s", trouble);
    }
    return or_fail(OR_ERR_TIMEOUT,
                   "no coordinator answers at %s; is it running, and is the endpoint right?",
                   patience->endpoint);
}

// Note since when connecting to a lost coordinator meets trouble.
static void watch_trouble(or_patience_t *patience, int64_t now)
{
    if (patience->give_up_at_ns == OR_TIME_NEVER ||
        or_channel_zmq_trouble(patience->channel)[0] == '\0') {
        patience->trouble_ns = OR_TIME_NEVER;
    } else if (patience->trouble_ns == OR_TIME_NEVER) {
        patience->trouble_ns = now;
    }
}

// Is there trouble that waiting does not mend? With a first connection it is given a little time. In the middle of a text only
// a coordinator that refuses our key will refuse it again; any other may be coming back.
static bool is_hopeless(const or_patience_t *patience, bool begun, int64_t now)
{
    bool first = !begun && !patience->welcomed;
    return patience->trouble_ns != OR_TIME_NEVER && now - patience->trouble_ns >= TROUBLE_NS &&
           (first || or_channel_zmq_is_refused(patience->channel));
}

// A connection that ends says at once what silence says after a while.
static void watch_connection(or_patience_t *patience)
{
    uint64_t connection = or_channel_connection(patience->channel);
    if (patience->connection != 0 && connection == 0) {
        lose(patience, 0);
    }
    patience->connection = connection;
}

or_status_t or_patience_check(or_patience_t *patience, bool begun)
{
    int64_t now = or_clock_now(patience->clock);
    if (patience->endpoint != NULL) {
        watch_connection(patience);
        watch_trouble(patience, now);
    }
    if (now >= patience->give_up_at_ns || is_hopeless(patience, begun, now)) {
        return give_up(patience, begun);
    }
    if (now >= patience->warn_at_ns) {
        warn_again(patience);
    }
    return OR_OK;
}
