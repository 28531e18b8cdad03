// Vocabularies and maps between them: what a drafter sends and keeps of them.
#include "common/base/log/log.h"
#include "drafter/drafter_internal.h"

static or_status_t pack_vocabulary(or_drafter_t *drafter)
{
    if (drafter->vocabulary.packed != NULL) {
        return OR_OK;
    }
    if (drafter->config.gguf == NULL) {
        return or_fail(OR_ERR_NOT_FOUND, "this drafter has no file to send its vocabulary from");
    }
    uint8_t *packed;
    size_t packed_bytes, unpacked_bytes;
    or_status_t status =
        or_vocab_pack(drafter->config.gguf, &packed, &packed_bytes, &unpacked_bytes);
    if (status == OR_OK) {
        drafter->vocabulary =
            (or_vocabulary_t){or_vocab_hash(drafter->shared.vocab), (uint32_t)unpacked_bytes,
                              packed, (uint32_t)packed_bytes};
    }
    return status;
}

void or_drafter_on_vocab_request(or_drafter_t *drafter, or_session_id_t id, uint64_t hash)
{
    if (hash != or_vocab_hash(drafter->shared.vocab)) {
        or_edge_send_error(&drafter->edge, id, 0, OR_WIRE_INVALID, 0,
                           "this drafter has another vocabulary than the one asked for");
        return;
    }
    if (pack_vocabulary(drafter) != OR_OK) {
        or_edge_send_error(&drafter->edge, id, 0, OR_WIRE_FAILED, 0, or_error_text());
        return;
    }
    const or_message_t message = {
        .type = OR_MSG_VOCABULARY, .session = id, .body.vocabulary = drafter->vocabulary};
    or_edge_send(&drafter->edge, &message);
}

void or_drafter_on_vocab_map(or_drafter_t *drafter, or_session_id_t id, const or_vocab_map_t *map)
{
    or_status_t status = or_maps_put(&drafter->maps, drafter->shared.vocab, map);
    if (status == OR_OK) {
        return;
    }
    or_wire_error_t code = status == OR_ERR_MISMATCH  ? OR_WIRE_NEED_MAP
                           : status == OR_ERR_INVALID ? OR_WIRE_INVALID
                                                      : OR_WIRE_BUSY;
    or_edge_warn(&drafter->edge, id, "vocabulary map refused", or_error_text());
    or_edge_send_error(&drafter->edge, id, 0, code, 0, or_error_text());
}

void or_drafter_on_vocabulary(or_drafter_t *drafter, or_session_id_t id,
                              const or_vocabulary_t *vocabulary)
{
    or_status_t status = or_targets_put(&drafter->targets, drafter->shared.vocab, vocabulary);
    if (status == OR_OK) {
        or_edge_send_error(&drafter->edge, id, 0, OR_WIRE_UNKNOWN_SESSION, 0,
                           "the target's vocabulary is here: open the session again");
        return;
    }
    or_wire_error_t code = status == OR_ERR_FULL ? OR_WIRE_BUSY : OR_WIRE_REFUSED;
    or_edge_warn(&drafter->edge, id, "vocabulary refused", or_error_text());
    or_edge_send_error(&drafter->edge, id, 0, code, 0, or_error_text());
}
