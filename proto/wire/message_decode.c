// Messages from frames. protobuf-c unpacks into the message's arena and the plain structs point into that tree;
// only arrays of structs are copied. What a body is made of is in message_session.c, message_round.c,
// message_generate.c and message_stats.c; the short ones are here.
#include "proto/wire/message.h"

#include <string.h>

#include "common/base/version.h"
#include "proto/wire/message_codec.h"

// What a frame may cost. protobuf-c needs 40 to 80 bytes to scan a field and about 60 for a nested
// struct, so an honest frame stays under 64 times its size; a frame made of empty fields does not,
// and is refused.
#define COST_PER_BYTE 64u
#define COST_CONSTANT (64u << 10)

static void *allocate(void *arena, size_t bytes)
{
    return or_message_arena_take(arena, 1, bytes);
}

static void release(void *arena, void *pointer)
{
    (void)arena; // freed with the whole arena
    (void)pointer;
}

static void get_hello(const Outrider__Hello *from, or_hello_t *to)
{
    to->role = (or_role_t)from->role;
    to->software = from->software;
    to->arith_id = from->arith_id;
    to->vocab_hash = from->vocab_hash;
    to->vocab_size = from->vocab_size;
    to->model_hash = from->model_hash;
    to->model = from->model;
    to->owner = from->owner;
    to->context_max = from->context_max;
    to->nodes_max = from->nodes_max;
    to->sessions_max = from->sessions_max;
}

static void get_welcome(const Outrider__Welcome *from, or_welcome_t *to)
{
    to->software = from->software;
    to->heartbeat_ms = from->heartbeat_ms;
    to->nodes_max = from->nodes_max;
    to->vocab_hash = from->vocab_hash;
    to->owner = from->owner;
    to->trusted = from->trusted != 0;
    to->model = from->model;
    to->arith_id = from->arith_id;
    to->drafters = from->drafters;
}

static void get_error(const Outrider__Error *from, or_error_t *to)
{
    to->code = from->code;
    to->text = from->text;
    to->retry_ms = from->retry_ms;
    to->round = from->round;
    to->length = from->length;
}

static or_status_t get_body(const Outrider__Envelope *envelope, or_message_arena_t *arena,
                            or_message_t *message)
{
    switch (envelope->body_case) {
    case OUTRIDER__ENVELOPE__BODY_HELLO:
        get_hello(envelope->hello, &message->body.hello);
        return OR_OK;
    case OUTRIDER__ENVELOPE__BODY_WELCOME:
        get_welcome(envelope->welcome, &message->body.welcome);
        return OR_OK;
    case OUTRIDER__ENVELOPE__BODY_OPEN_SESSION:
        return or_message_get_open_session(envelope->open_session, arena,
                                           &message->body.open_session);
    case OUTRIDER__ENVELOPE__BODY_PREFIX:
        return or_message_get_prefix(envelope->prefix, &message->body.prefix);
    case OUTRIDER__ENVELOPE__BODY_DRAFT_TREE:
        return or_message_get_draft_tree(envelope->draft_tree, arena, &message->body.draft_tree);
    case OUTRIDER__ENVELOPE__BODY_VERDICT:
        return or_message_get_verdict(envelope->verdict, arena, &message->body.verdict);
    case OUTRIDER__ENVELOPE__BODY_CANCEL:
        message->body.cancel =
            (or_cancel_t){.reason = envelope->cancel->reason, .keep = envelope->cancel->keep != 0};
        return OR_OK;
    case OUTRIDER__ENVELOPE__BODY_VOCAB_MAP:
        return or_message_get_vocab_map(envelope->vocab_map, &message->body.vocab_map);
    case OUTRIDER__ENVELOPE__BODY_PSI_REQUEST:
        return or_message_get_psi_request(envelope->psi_request, &message->body.psi_request);
    case OUTRIDER__ENVELOPE__BODY_PSI_REPLY:
        return or_message_get_psi_reply(envelope->psi_reply, &message->body.psi_reply);
    case OUTRIDER__ENVELOPE__BODY_KV_EVICTED:
        message->body.kv_evicted.kept_length = envelope->kv_evicted->kept_length;
        return OR_OK;
    case OUTRIDER__ENVELOPE__BODY_STATS:
        return or_message_get_stats(envelope->stats, arena, &message->body.stats);
    case OUTRIDER__ENVELOPE__BODY_STATS_REQUEST:
        message->body.stats_request =
            (or_stats_request_t){.metrics = envelope->stats_request->metrics != 0,
                                 .events_after = envelope->stats_request->events_after};
        return OR_OK;
    case OUTRIDER__ENVELOPE__BODY_METRICS:
        message->body.metrics = (or_metrics_text_t){.text = envelope->metrics->text.data,
                                                    .bytes = (uint32_t)envelope->metrics->text.len};
        return OR_OK;
    case OUTRIDER__ENVELOPE__BODY_ERROR:
        get_error(envelope->error, &message->body.error);
        return OR_OK;
    case OUTRIDER__ENVELOPE__BODY_GENERATE_REQUEST:
        return or_message_get_generate_request(envelope->generate_request, arena,
                                               &message->body.generate_request);
    case OUTRIDER__ENVELOPE__BODY_GENERATE_DELTA:
        return or_message_get_generate_delta(envelope->generate_delta, arena,
                                             &message->body.generate_delta);
    case OUTRIDER__ENVELOPE__BODY_RESUME:
        or_message_get_resume(envelope->resume, &message->body.resume);
        return OR_OK;
    case OUTRIDER__ENVELOPE__BODY_HEARTBEAT:
        message->body.heartbeat = (or_heartbeat_t){.reply = envelope->heartbeat->reply,
                                                   .answer = envelope->heartbeat->answer};
        return OR_OK;
    case OUTRIDER__ENVELOPE__BODY_VOCAB_REQUEST:
        message->body.vocab_request.hash = envelope->vocab_request->hash;
        return OR_OK;
    case OUTRIDER__ENVELOPE__BODY_VOCABULARY:
        or_message_get_vocabulary(envelope->vocabulary, &message->body.vocabulary);
        return OR_OK;
    default:
        return or_fail(OR_ERR_FORMAT,
                       "unknown message type: the peer may be newer than this program (%s)",
                       OR_VERSION);
    }
}

static or_status_t get_message(const Outrider__Envelope *envelope, or_message_arena_t *arena,
                               or_message_t *message)
{
    if (envelope->version == 0) {
        return or_fail(OR_ERR_FORMAT, "a frame without a protocol version is not Outrider's");
    }
    message->type = (or_message_type_t)envelope->body_case;
    message->version = envelope->version;
    message->session.value = envelope->session;
    if (envelope->version != OR_PROTOCOL_VERSION && message->type != OR_MSG_ERROR) {
        return or_fail(OR_ERR_MISMATCH,
                       "the peer speaks protocol %u, this is %u: install the same release on both "
                       "sides",
                       envelope->version, OR_PROTOCOL_VERSION);
    }
    return get_body(envelope, arena, message);
}

or_status_t or_message_decode(const uint8_t *frame, size_t bytes, or_message_t *message)
{
    memset(message, 0, sizeof *message);
    if (bytes > OR_FRAME_BYTES_MAX) {
        return or_fail(OR_ERR_FORMAT, "a frame of %zu bytes is over the limit of %u bytes", bytes,
                       OR_FRAME_BYTES_MAX);
    }
    or_message_arena_t arena;
    or_message_arena_init(&arena, COST_CONSTANT + COST_PER_BYTE * bytes);
    ProtobufCAllocator allocator = {allocate, release, &arena};
    Outrider__Envelope *envelope = outrider__envelope__unpack(&allocator, bytes, frame);
    or_status_t status =
        envelope != NULL
            ? get_message(envelope, &arena, message)
            : or_fail(OR_ERR_FORMAT, "a frame of %zu bytes is not a well-formed message", bytes);
    if (status != OR_OK && arena.system_refused) { // the frame is not to blame
        status = or_fail(OR_ERR_NO_MEMORY, "no memory to read a frame of %zu bytes", bytes);
    }
    if (status != OR_OK) {
        memset(&message->body, 0, sizeof message->body); // it may point into the arena
        or_message_blocks_free(arena.blocks);
        return status;
    }
    message->owned = arena.blocks;
    return OR_OK;
}

void or_message_fini(or_message_t *message)
{
    or_message_blocks_free(message->owned);
    memset(message, 0, sizeof *message);
}
