// What a client is told of its text: the tokens it has not heard of yet, what is known of them, and the end.
#include <stdlib.h>
#include <string.h>

#include "coordinator/coordinator_internal.h"

// Of one delta. With the 20 best tokens of each that is 1 MB; a frame holds 16.
#define PIECE_TOKENS 4096u
#define PIECE_BYTES ((size_t)1 << 20)

// What was judged in the round that has just ended, for who wants to see it.
static bool has_tree(const or_csession_t *session)
{
    return session->judged != NULL && session->annotations.details && session->tree_count > 0;
}

static void put_judged(const or_csession_t *session, or_draft_tree_t *tree,
                       or_generate_delta_t *delta)
{
    const or_verdict_t *verdict = session->judged;
    *tree = (or_draft_tree_t){.round = verdict->round,
                              .base_length = verdict->base_length,
                              .tokens = session->tree_tokens,
                              .back = session->tree_back,
                              .count = session->tree_count};
    delta->tree = tree;
    delta->tree_accepted = verdict->accepted;
    delta->tree_accepted_count = verdict->accepted_count;
}

// The last tree whose tokens could not be told at once.
static void put_held(const or_csession_t *session, or_draft_tree_t *tree,
                     or_generate_delta_t *delta)
{
    const or_told_tree_t *held = &session->held_tree;
    *tree = (or_draft_tree_t){.round = held->round,
                              .base_length = held->base_length,
                              .tokens = held->words,
                              .back = held->words + OR_TREE_NODES_MAX,
                              .count = held->count};
    delta->tree = tree;
    delta->tree_accepted = held->words + 2 * (size_t)OR_TREE_NODES_MAX;
    delta->tree_accepted_count = held->accepted_count;
}

// The next round overwrites it. Without memory there is one picture less.
static void hold_tree(or_csession_t *session)
{
    or_told_tree_t *held = &session->held_tree;
    const or_verdict_t *verdict = session->judged;
    if (held->words == NULL) {
        held->words = malloc(3 * (size_t)OR_TREE_NODES_MAX * sizeof *held->words);
    }
    if (held->words == NULL || verdict->accepted_count > OR_TREE_NODES_MAX) {
        return;
    }
    held->round = verdict->round;
    held->base_length = verdict->base_length;
    held->count = session->tree_count;
    held->accepted_count = verdict->accepted_count;
    memcpy(held->words, session->tree_tokens, held->count * sizeof *held->words);
    memcpy(held->words + OR_TREE_NODES_MAX, session->tree_back, held->count * sizeof *held->words);
    memcpy(held->words + 2 * (size_t)OR_TREE_NODES_MAX, verdict->accepted,
           held->accepted_count * sizeof *held->words);
}

// `count` tokens from what was told last, the text up to `text_end`, and the end if it is `over`. Where the client says that
// it has more than was written there is nothing to point at.
static or_generate_delta_t make_delta(const or_csession_t *session, uint32_t count, size_t text_end,
                                      const char *note, bool over)
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
        .finish = over ? session->finish : OR_FINISH_NONE,
        .error = over ? session->error : "",
        .error_code = over ? session->error_code : 0,
        .retry_ms = over ? session->busy_ms : 0,
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

static bool has_failed_at_once(const or_csession_t *session)
{
    return session->finish == OR_FINISH_ERROR && session->error_code != OR_WIRE_BUSY &&
           or_csession_written(session) == 0;
}

// Where the piece ends that begins with what was not told yet. Of a token whose end is known, the text goes with it.
static or_extent_t piece_of(const or_csession_t *session, const or_extent_t *all)
{
    uint32_t left = all->tokens - session->sent_tokens;
    size_t text_left = all->text - session->sent_text;
    or_extent_t piece = {session->sent_tokens + (left < PIECE_TOKENS ? left : PIECE_TOKENS),
                         session->sent_text + (text_left < PIECE_BYTES ? text_left : PIECE_BYTES),
                         false};
    if (session->annotations.details && left > PIECE_TOKENS &&
        piece.tokens <= session->annotations.count) {
        size_t end = (size_t)session->annotations.ends[piece.tokens - 1];
        end = end > session->sent_text ? end : session->sent_text;
        piece.text = end < piece.text ? end : piece.text;
    }
    return piece;
}

// All but the last piece of what is to be told: a frame holds only so much.
static void tell_pieces(or_coordinator_t *c, or_csession_t *session, const or_extent_t *all)
{
    while (all->tokens - session->sent_tokens > PIECE_TOKENS ||
           all->text - session->sent_text > PIECE_BYTES) {
        const or_extent_t piece = piece_of(session, all);
        const or_message_t message = {
            .type = OR_MSG_GENERATE_DELTA,
            .session = session->id,
            .body.generate_delta = make_delta(session, piece.tokens - session->sent_tokens,
                                              piece.text, session->note, false),
        };
        session->sent_tokens = piece.tokens;
        session->sent_text = piece.text;
        or_coordinator_send(c, session->client, &message);
    }
}

// Of what may be told, what was not told yet.
static void tell(or_coordinator_t *c, or_csession_t *session, const or_extent_t *may)
{
    // A client may have more than we: it hears no word of what is written for the second time.
    uint32_t tokens = may->tokens > session->sent_tokens ? may->tokens : session->sent_tokens;
    size_t text_end = may->text > session->sent_text ? may->text : session->sent_text;
    tell_pieces(c, session, &(or_extent_t){.tokens = tokens, .text = text_end});
    char why[256];
    or_draft_tree_t tree;
    or_waiting_why(c, session, why, sizeof why);
    or_message_t message = {
        .type = OR_MSG_GENERATE_DELTA,
        .session = session->id,
        .body.generate_delta = make_delta(session, tokens - session->sent_tokens, text_end,
                                          why[0] != '\0' ? why : session->note, may->over),
    };
    if (has_tree(session)) {
        put_judged(session, &tree, &message.body.generate_delta);
    } else if (session->held_tree.count > 0 && !or_coordinator_journal_holds(c, session)) {
        put_held(session, &tree, &message.body.generate_delta);
    }
    if (message.body.generate_delta.tree != NULL) {
        session->held_tree.count = 0;
    }
    session->sent_tokens = tokens;
    session->sent_text = text_end;
    session->sent_end = may->over;
    or_coordinator_send(c, session->client, &message);
}

void or_coordinator_tell_client(or_coordinator_t *c, or_csession_t *session)
{
    if (session->client.value == 0) {
        return; // it is away: it will say what it has
    }
    if (or_coordinator_journal_holds(c, session) && !session->journal.begun) {
        return; // what it knows of, the next coordinator knows of, too
    }
    const or_extent_t may = or_coordinator_journal_extent(c, session);
    tell(c, session, &may);
    if (may.over && has_failed_at_once(session)) {
        session->deadline_ns = 0; // nothing is lost with it: it keeps no place from others
    }
}

void or_coordinator_tell_news(or_coordinator_t *c, or_csession_t *session)
{
    if (!or_coordinator_journal_holds(c, session)) {
        or_coordinator_tell_client(c, session);
    } else if (has_tree(session)) {
        hold_tree(session);
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
