// What a client is told of its text: the tokens it has not heard of yet, what is known of them, and the end.
#include "coordinator/coordinator_internal.h"

// What was judged in the round that has just ended, for who wants to see it.
static void put_tree(const or_csession_t *session, or_draft_tree_t *tree,
                     or_generate_delta_t *delta)
{
    const or_verdict_t *verdict = session->judged;
    if (verdict == NULL || !session->annotations.details || session->tree_count == 0) {
        return;
    }
    *tree = (or_draft_tree_t){.round = verdict->round,
                              .base_length = verdict->base_length,
                              .tokens = session->tree_tokens,
                              .back = session->tree_back,
                              .count = session->tree_count};
    delta->tree = tree;
    delta->tree_accepted = verdict->accepted;
    delta->tree_accepted_count = verdict->accepted_count;
}

// `count` tokens from what was told last, and the text up to `text_end`. Where the client says that it has more than was
// written there is nothing to point at.
static or_generate_delta_t make_delta(const or_csession_t *session, uint32_t count, size_t text_end,
                                      const char *note)
{
    bool first = session->sent_tokens == 0;
    const uint32_t *written = (const uint32_t *)session->log.tokens + session->prompt_length;
    const uint8_t *text = (const uint8_t *)session->text.bytes;
    size_t text_bytes = text_end - session->sent_text;
    or_generate_delta_t delta = {
        .request = session->request,
        .offset = session->sent_tokens,
        .tokens = count > 0 ? written + session->sent_tokens : NULL,
        .count = count,
        .text = text_bytes > 0 ? text + session->sent_text : NULL,
        .text_bytes = (uint32_t)text_bytes,
        .text_offset = session->sent_text,
        .finish = session->finish,
        .error = session->error,
        .error_code = session->error_code,
        .retry_ms = session->busy_ms,
        .seed = session->seed,
        .arith_id = session->arith_id,
        .stats = session->stats,
        .note = note,
        .advice = session->advice,
        .vocab_map = session->vocab_map,
        .vocab_why = session->vocab_why,
        .token = first ? session->token : NULL,
        .token_bytes = first ? sizeof session->token : 0,
    };
    or_annotations_put(&session->annotations, session->sent_tokens, count, &delta);
    return delta;
}

void or_coordinator_tell_client(or_coordinator_t *c, or_csession_t *session)
{
    if (session->client.value == 0) {
        return; // it is away: it will say what it has
    }
    // A client may have more than we: it hears no word of what is written for the second time.
    uint32_t written = or_csession_written(session);
    written = written > session->sent_tokens ? written : session->sent_tokens;
    size_t text_end =
        session->text.released > session->sent_text ? session->text.released : session->sent_text;
    char why[256];
    or_draft_tree_t tree;
    or_waiting_why(c, session, why, sizeof why);
    or_message_t message = {
        .type = OR_MSG_GENERATE_DELTA,
        .session = session->id,
        .body.generate_delta = make_delta(session, written - session->sent_tokens, text_end,
                                          why[0] != '\0' ? why : session->note),
    };
    put_tree(session, &tree, &message.body.generate_delta);
    session->sent_tokens = written;
    session->sent_text = text_end;
    or_coordinator_send(c, session->client, &message);
    if (session->finish == OR_FINISH_ERROR && session->error_code != OR_WIRE_BUSY &&
        or_csession_written(session) == 0) {
        session->deadline_ns = 0; // nothing is lost with it: it keeps no place from others
    }
}

void or_coordinator_tell_failure(or_coordinator_t *c, or_peer_t client, uint64_t request,
                                 or_wire_error_t code, uint32_t retry_ms, const char *text)
{
    const or_message_t message = {
        .type = OR_MSG_GENERATE_DELTA,
        .body.generate_delta = {.request = request,
                                .finish = OR_FINISH_ERROR,
                                .error = text,
                                .error_code = code,
                                .retry_ms = retry_ms,
                                .arith_id = ""},
    };
    or_coordinator_send(c, client, &message);
}
