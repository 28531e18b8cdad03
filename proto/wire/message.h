// message - everything that travels, as plain C structs, and the codec to frames (outrider.proto).
//
// Encoding borrows what the struct points to. Decoding gives a message that owns its arrays and strings until
// or_message_fini. A decoded message is well formed: lengths that must agree do, and limits are kept. Its meaning is
// unchecked, so ids, rounds and indices are the receiver's to judge. Strings are zero-terminated, and after decoding never
// NULL. Not locked; a message belongs to one thread.
//
// A new field is a member here or in a header below, a field of outrider.proto, and a row of message_tables.c. A new
// statistic is a row of figures.h and a field of outrider.proto.
#pragma once

#include <stdint.h>

#include "common/base/status.h"
#include "proto/wire/figures.h"
#include "proto/wire/message_generate.h"
#include "proto/wire/message_session.h"

#define OR_FRAME_BYTES_MAX (16u << 20) // a longer frame is refused unread
#define OR_WIRE_TOKENS_MAX (1u << 20)  // most entries of any array

// ---- questions for figures ----

// A client's request for Stats, or for Metrics.
typedef struct {
    bool metrics;
    uint64_t events_after; // the number of the last event that the client has
} or_stats_request_t;

// Everything that the coordinator counts, in Prometheus' text format, for clients that may see all owners' texts.
typedef struct {
    const uint8_t *text;
    uint32_t bytes;
} or_metrics_text_t;

// ---- errors ----

// Codes of Error messages; numbers are the wire's.
typedef enum {
    OR_WIRE_INVALID = 1,         // the message made no sense
    OR_WIRE_VERSION = 2,         // another protocol version
    OR_WIRE_UNKNOWN_SESSION = 3, // open it (again)
    OR_WIRE_NEED_PREFIX = 4,     // prefix hash or length differs; the sender has `length` tokens
    OR_WIRE_BUSY = 5,            // come back after retry_ms
    OR_WIRE_REFUSED = 6,         // not allowed or not compatible: do not retry
    OR_WIRE_FAILED = 7,          // the work failed
    OR_WIRE_CONTEXT = 8,         // does not fit the context
    OR_WIRE_NEED_MAP = 9, // send the VocabMap that the session was opened with, then open again
    OR_WIRE_LIMIT = 10,   // the owner has used up its limit here: the text ends where it is
} or_wire_error_t;

typedef struct {
    uint32_t code; // or_wire_error_t
    const char *text;
    uint32_t retry_ms;
    uint64_t round; // the one that it concerns; 0: none
    uint32_t length;
} or_error_t;

// ---- frames ----

// Numbered as the oneof's fields in outrider.proto.
typedef enum {
    OR_MSG_HELLO = 3,
    OR_MSG_WELCOME,
    OR_MSG_OPEN_SESSION,
    OR_MSG_PREFIX,
    OR_MSG_DRAFT_TREE,
    OR_MSG_VERDICT,
    OR_MSG_CANCEL,
    OR_MSG_VOCAB_MAP,
    OR_MSG_PSI_REQUEST,
    OR_MSG_PSI_REPLY,
    OR_MSG_KV_EVICTED,
    OR_MSG_STATS,
    OR_MSG_ERROR,
    OR_MSG_GENERATE_REQUEST,
    OR_MSG_GENERATE_DELTA,
    OR_MSG_RESUME,
    OR_MSG_HEARTBEAT,
    OR_MSG_VOCAB_REQUEST,
    OR_MSG_VOCABULARY,
    OR_MSG_STATS_REQUEST,
    OR_MSG_METRICS,
} or_message_type_t;
const char *or_message_type_name(uint32_t type);

typedef struct {
    or_message_type_t type;
    uint32_t version; // set by decode; encode sends OR_PROTOCOL_VERSION for 0
    or_session_id_t session;
    union {
        or_hello_t hello;
        or_welcome_t welcome;
        or_open_session_t open_session;
        or_prefix_t prefix;
        or_draft_tree_t draft_tree;
        or_verdict_t verdict;
        or_cancel_t cancel;
        or_vocab_map_t vocab_map;
        or_psi_request_t psi_request;
        or_psi_reply_t psi_reply;
        or_kv_evicted_t kv_evicted;
        or_stats_t stats;
        or_stats_request_t stats_request;
        or_metrics_text_t metrics;
        or_error_t error;
        or_generate_request_t generate_request;
        or_generate_delta_t generate_delta;
        or_resume_t resume;
        or_heartbeat_t heartbeat;
        or_vocab_request_t vocab_request;
        or_vocabulary_t vocabulary;
    } body;
    void *owned; // decode's allocation; NULL in messages built by hand
} or_message_t;

// Encode a message. *frame_p is malloc'd, and the caller frees it. OR_ERR_INVALID if it would be over OR_FRAME_BYTES_MAX;
// OR_ERR_NO_MEMORY.
or_status_t or_message_encode(const or_message_t *message, uint8_t **frame_p, size_t *bytes);

// Decode a frame. OR_ERR_FORMAT: it is not ours, or malformed, or breaks a limit. OR_ERR_MISMATCH: it has another protocol
// version; the error names both, and message->version is set. OR_ERR_NO_MEMORY: the system has less than the frame may
// cost, and the frame may be a good one. On any failure nothing is owned. Only an Error is read whatever its version, so
// that two releases can tell each other why they do not talk.
or_status_t or_message_decode(const uint8_t *frame, size_t bytes, or_message_t *message);

// Free the memory that decode took. Safe on a zeroed or hand-built message.
void or_message_fini(or_message_t *message);

// The rolling prefix hash of docs/design.md section 5: H(0) = 0, and H(i + 1) = XXH64(little-endian id, seed H(i)).
uint64_t or_prefix_hash(uint64_t hash, const uint32_t *tokens, uint32_t count);
