#include "coordinator/peers/conduct.h"

#include <math.h>

#include "common/base/clock.h"
#include "proto/wire/message.h"

// A drafter sends one message a round and session. 64 sessions that are judged together take a pass
// of 5 ms or more on the smallest model there is: 64 x 200 = 12,800 a second; what has waited during
// a hiccup of a second may come at once.
#define MESSAGES_PER_S 16384.0
#define MESSAGES_BURST 16384.0

// A drawn tree of 64 nodes takes about 10 KB (32 tokens and their weights a node): 64 sessions with 50
// rounds a second send 32 MB. The largest frame, a vocabulary, must fit the bucket.
#define BYTES_PER_S (64u << 20)
#define BYTES_BURST (64u << 20)
_Static_assert(OR_FRAME_BYTES_MAX < BYTES_BURST, "the largest frame fits the bucket");

// A client asks for a text anew when it was told to come back, half a second later at the earliest, and
// repeats what got no answer every two seconds. One that runs 256 at once asks for all of them at the
// start, and again; with short texts it soon asks for the next ones. To take or refuse 500 costs some
// ten milliseconds.
#define REQUESTS_PER_S 500.0
#define REQUESTS_BURST 1024.0

// Pages of figures are drawn anew once a second, and a question without an answer is repeated after a second. An answer
// looks through all texts and peers, some 30 to 100 us.
#define QUESTIONS_PER_S 8.0
#define QUESTIONS_BURST 32.0

// Offences that a bad network brings about within a minute stay far below the bound.
#define HALF_LIFE_S 60.0

static const struct {
    double points;
    const char *name;
} offences[] = {
    // Dropped before it was read: cheap. A thousand are a flood, not a hiccup.
    [OR_OFFENCE_FLOOD] = {1, "more frames than any drafter needs to send"},
    // Transports deliver frames whole or not at all, so no network makes these.
    [OR_OFFENCE_MALFORMED] = {100, "frames that make no sense"},
    [OR_OFFENCE_BAD_TREE] = {100, "trees that were not asked for or make no sense"},
    // A drafter that forgot a session and was told of it again may draft a round anew.
    [OR_OFFENCE_TWO_TREES] = {20, "different trees for one round"},
    // Every message that was on the way while a drafter was out of step may cost it one.
    [OR_OFFENCE_WRONG_HASH] = {5, "trees on a text that is not the session's"},
    [OR_OFFENCE_NAGGING] = {2, "asking for the text again and again"},
    // After a coordinator's restart: one for each session of its predecessor.
    [OR_OFFENCE_NO_SESSION] = {2, "messages about sessions that never were"},
};

const char *or_offence_name(or_offence_t offence)
{
    return offences[offence].name;
}

double or_offences_after(double points, int64_t ns)
{
    return points > 0 ? points * exp2(-(double)ns / OR_NS_PER_S / HALF_LIFE_S) : 0;
}

double or_offence_points(or_offence_t offence)
{
    return offences[offence].points;
}

void or_conduct_init(or_conduct_t *conduct, int64_t now_ns)
{
    *conduct = (or_conduct_t){.messages = MESSAGES_BURST,
                              .bytes = BYTES_BURST,
                              .requests = REQUESTS_BURST,
                              .questions = QUESTIONS_BURST,
                              .at_ns = now_ns};
}

// Buckets fill, offences are forgotten.
static void bring_up_to(or_conduct_t *conduct, int64_t now_ns)
{
    double seconds = (double)(now_ns - conduct->at_ns) / (double)OR_NS_PER_S;
    conduct->messages = fmin(conduct->messages + seconds * MESSAGES_PER_S, MESSAGES_BURST);
    conduct->bytes = fmin(conduct->bytes + seconds * BYTES_PER_S, BYTES_BURST);
    conduct->requests = fmin(conduct->requests + seconds * REQUESTS_PER_S, REQUESTS_BURST);
    conduct->questions = fmin(conduct->questions + seconds * QUESTIONS_PER_S, QUESTIONS_BURST);
    conduct->points = or_offences_after(conduct->points, now_ns - conduct->at_ns);
    conduct->at_ns = now_ns;
}

bool or_conduct_allows(or_conduct_t *conduct, size_t bytes, int64_t now_ns)
{
    bring_up_to(conduct, now_ns);
    if (conduct->messages < 1 || conduct->bytes < (double)bytes) {
        return false;
    }
    conduct->messages -= 1;
    conduct->bytes -= (double)bytes;
    return true;
}

bool or_conduct_allows_request(or_conduct_t *conduct, int64_t now_ns)
{
    bring_up_to(conduct, now_ns);
    if (conduct->requests < 1) {
        return false;
    }
    conduct->requests -= 1;
    return true;
}

bool or_conduct_allows_question(or_conduct_t *conduct, int64_t now_ns)
{
    bring_up_to(conduct, now_ns);
    if (conduct->questions < 1) {
        return false;
    }
    conduct->questions -= 1;
    return true;
}
