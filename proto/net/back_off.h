// back_off - how long whoever is told that its peer is busy waits before it sends everything again.
//
//     told to come back after 1 ms, over and over:  250  500  1000  2000  4000  8000  10000  10000 ms
//
// A peer's word is a least, so that none that says little has whole texts sent to it as fast as they go.
#pragma once

#include <stdint.h>

#define OR_BACK_OFF_LEAST_MS 250u
#define OR_BACK_OFF_MOST_MS 10000u // a peer may ask for more

// The next pause, where the last one was so long (0: there was none) and the peer asks for `told_ms`.
static inline uint32_t or_back_off_ms(uint32_t last_ms, uint32_t told_ms)
{
    uint32_t least = last_ms < OR_BACK_OFF_LEAST_MS / 2  ? OR_BACK_OFF_LEAST_MS
                     : last_ms < OR_BACK_OFF_MOST_MS / 2 ? 2 * last_ms
                                                         : OR_BACK_OFF_MOST_MS;
    return told_ms > least ? told_ms : least;
}
