// padding - frames of a few sizes, so that an eavesdropper who sees only lengths learns little. The sizes of trees
// and verdicts, round after round, tell how predictable a text is, and so which text it is.
//
//     frame   | Envelope ........ | padding field of zeros |
//             └─ n bytes ─────────┴─ up to the next class ─┘    128, 256, 512, ... 64 KiB, then whole 64 KiB
//
// The zeros are the Envelope's last field, which a decoder skips. Timing is not hidden.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define OR_PADDING_LEAST 128u
#define OR_PADDING_STEP (64u << 10)

// Return the class of a frame of `bytes` bytes: the least one that holds it with its padding field, which takes at
// least 3 bytes. A frame that has exactly the size of a class stays as it is. At most OR_FRAME_BYTES_MAX.
size_t or_padding_class(size_t bytes);

// Make *frame_p (from malloc, as or_message_encode gives it) as long as its class. OR_ERR_NO_MEMORY leaves it.
or_status_t or_padding_apply(uint8_t **frame_p, size_t *bytes);
