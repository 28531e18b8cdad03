// Frames from messages. What a body is made of is in message_session.c, message_round.c, message_generate.c and
// message_stats.c; the short ones are here.
#include "proto/wire/message.h"

#include <stdlib.h>

#include "common/base/version.h"
#include "proto/wire/message_codec.h"

// Room for the one body a message has.
typedef union {
    Outrider__Hello hello;
    Outrider__Welcome welcome;
    Outrider__OpenSession open_session;
    Outrider__Prefix prefix;
    Outrider__DraftTree draft_tree;
    Outrider__Verdict verdict;
    Outrider__Cancel cancel;
    Outrider__VocabMap vocab_map;
    Outrider__PsiRequest psi_request;
    Outrider__PsiReply psi_reply;
    Outrider__KvEvicted kv_evicted;
    Outrider__Stats stats;
    Outrider__Error error;
    Outrider__GenerateRequest generate_request;
    Outrider__GenerateDelta generate_delta;
    Outrider__Resume resume;
    Outrider__Heartbeat heartbeat;
    Outrider__VocabRequest vocab_request;
    Outrider__Vocabulary vocabulary;
    Outrider__StatsRequest stats_request;
    Outrider__Metrics metrics;
} body_t;

static void put_hello(const or_hello_t *from, Outrider__Hello *to)
{
    outrider__hello__init(to);
    to->role = (Outrider__Role)from->role;
    to->software = (char *)from->software;
    to->arith_id = (char *)from->arith_id;
    to->vocab_hash = from->vocab_hash;
    to->vocab_size = from->vocab_size;
    to->model_hash = from->model_hash;
    to->model = (char *)from->model;
    to->owner = (char *)from->owner;
    to->context_max = from->context_max;
    to->nodes_max = from->nodes_max;
    to->sessions_max = from->sessions_max;
}

static void put_welcome(const or_welcome_t *from, Outrider__Welcome *to)
{
    outrider__welcome__init(to);
    to->software = (char *)from->software;
    to->heartbeat_ms = from->heartbeat_ms;
    to->nodes_max = from->nodes_max;
    to->vocab_hash = from->vocab_hash;
    to->owner = (char *)from->owner;
    to->trusted = from->trusted;
    to->model = (char *)from->model;
    to->arith_id = (char *)from->arith_id;
    to->drafters = from->drafters;
}

static void put_error(const or_error_t *from, Outrider__Error *to)
{
    outrider__error__init(to);
    to->code = from->code;
    to->text = (char *)from->text;
    to->retry_ms = from->retry_ms;
    to->round = from->round;
    to->length = from->length;
}

static or_status_t put_body(const or_message_t *message, body_t *to, or_message_scratch_t *scratch)
{
    switch (message->type) {
    case OR_MSG_HELLO:
        put_hello(&message->body.hello, &to->hello);
        return OR_OK;
    case OR_MSG_WELCOME:
        put_welcome(&message->body.welcome, &to->welcome);
        return OR_OK;
    case OR_MSG_OPEN_SESSION:
        return or_message_put_open_session(&message->body.open_session, &to->open_session, scratch);
    case OR_MSG_PREFIX:
        or_message_put_prefix(&message->body.prefix, &to->prefix);
        return OR_OK;
    case OR_MSG_DRAFT_TREE:
        return or_message_put_draft_tree(&message->body.draft_tree, &to->draft_tree, scratch);
    case OR_MSG_VERDICT:
        return or_message_put_verdict(&message->body.verdict, &to->verdict, scratch);
    case OR_MSG_CANCEL:
        outrider__cancel__init(&to->cancel);
        to->cancel.reason = (char *)message->body.cancel.reason;
        to->cancel.keep = message->body.cancel.keep;
        return OR_OK;
    case OR_MSG_VOCAB_MAP:
        return or_message_put_vocab_map(&message->body.vocab_map, &to->vocab_map, scratch);
    case OR_MSG_PSI_REQUEST:
        or_message_put_psi_request(&message->body.psi_request, &to->psi_request);
        return OR_OK;
    case OR_MSG_PSI_REPLY:
        or_message_put_psi_reply(&message->body.psi_reply, &to->psi_reply);
        return OR_OK;
    case OR_MSG_KV_EVICTED:
        outrider__kv_evicted__init(&to->kv_evicted);
        to->kv_evicted.kept_length = message->body.kv_evicted.kept_length;
        return OR_OK;
    case OR_MSG_STATS:
        return or_message_put_stats(&message->body.stats, &to->stats, scratch);
    case OR_MSG_STATS_REQUEST:
        outrider__stats_request__init(&to->stats_request);
        to->stats_request.metrics = message->body.stats_request.metrics;
        to->stats_request.events_after = message->body.stats_request.events_after;
        return OR_OK;
    case OR_MSG_METRICS:
        outrider__metrics__init(&to->metrics);
        to->metrics.text =
            or_message_borrow_bytes(message->body.metrics.text, message->body.metrics.bytes);
        return OR_OK;
    case OR_MSG_VOCAB_REQUEST:
        outrider__vocab_request__init(&to->vocab_request);
        to->vocab_request.hash = message->body.vocab_request.hash;
        return OR_OK;
    case OR_MSG_VOCABULARY:
        or_message_put_vocabulary(&message->body.vocabulary, &to->vocabulary);
        return OR_OK;
    case OR_MSG_ERROR:
        put_error(&message->body.error, &to->error);
        return OR_OK;
    case OR_MSG_GENERATE_REQUEST:
        return or_message_put_generate_request(&message->body.generate_request,
                                               &to->generate_request, scratch);
    case OR_MSG_GENERATE_DELTA:
        return or_message_put_generate_delta(&message->body.generate_delta, &to->generate_delta,
                                             scratch);
    case OR_MSG_RESUME:
        or_message_put_resume(&message->body.resume, &to->resume);
        return OR_OK;
    case OR_MSG_HEARTBEAT:
        outrider__heartbeat__init(&to->heartbeat);
        to->heartbeat.reply = message->body.heartbeat.reply;
        to->heartbeat.answer = message->body.heartbeat.answer;
        return OR_OK;
    }
    return or_fail(OR_ERR_INVALID, "cannot encode a message of unknown type %u",
                   (unsigned)message->type);
}

static or_status_t pack(const or_message_t *message, const Outrider__Envelope *envelope,
                        uint8_t **frame_p, size_t *bytes)
{
    size_t size = outrider__envelope__get_packed_size(envelope);
    if (size > OR_FRAME_BYTES_MAX) {
        return or_fail(OR_ERR_INVALID, "a %s message of %zu bytes is over the limit of %u bytes",
                       or_message_type_name(message->type), size, OR_FRAME_BYTES_MAX);
    }
    uint8_t *frame = malloc(size);
    if (frame == NULL) {
        return or_message_fail_memory();
    }
    *bytes = outrider__envelope__pack(envelope, frame);
    *frame_p = frame;
    return OR_OK;
}

or_status_t or_message_encode(const or_message_t *message, uint8_t **frame_p, size_t *bytes)
{
    body_t body;
    or_message_scratch_t scratch;
    or_message_arena_init(&scratch.arena, SIZE_MAX);
    or_status_t status = put_body(message, &body, &scratch);
    if (status == OR_OK) {
        Outrider__Envelope envelope = OUTRIDER__ENVELOPE__INIT;
        envelope.version = message->version != 0 ? message->version : OR_PROTOCOL_VERSION;
        envelope.session = message->session.value;
        // Our type numbers are the oneof's, and the members of the oneof share one pointer.
        envelope.body_case = (Outrider__Envelope__BodyCase)message->type;
        envelope.hello = &body.hello;
        status = pack(message, &envelope, frame_p, bytes);
    }
    or_message_blocks_free(scratch.arena.blocks);
    return status;
}
