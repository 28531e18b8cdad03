#include "coordinator/clients/stream.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/hub.h"

// The bounds of one delta. With the 20 best tokens of each that is 1 MB; a frame holds 16.
#define PIECE_TOKENS 4096u
#define PIECE_BYTES ((size_t)1 << 20)

// Is there a tree that was judged in the round that has just ended, for a client that wants to see it?
static bool has_tree(const or_csession_t *session)
{
    return session->stream.judged != NULL && session->annotations.details &&
           session->tree.count > 0;
}

static void put_judged(const or_csession_t *session, or_draft_tree_t *tree,
                       or_generate_delta_t *delta)
{
    const or_verdict_t *verdict = session->stream.judged;
    *tree = (or_draft_tree_t){.round = verdict->round,
                              .base_length = verdict->base_length,
                              .tokens = session->tree.tokens,
                              .back = session->tree.back,
                              .count = session->tree.count};
    delta->tree = tree;
    delta->tree_accepted = verdict->accepted;
    delta->tree_accepted_count = verdict->accepted_count;
}

// The last tree whose tokens could not be told at once.
static void put_held(const or_csession_t *session, or_draft_tree_t *tree,
                     or_generate_delta_t *delta)
{
    const or_told_tree_t *held = &session->stream.held_tree;
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
    or_told_tree_t *held = &session->stream.held_tree;
    const or_verdict_t *verdict = session->stream.judged;
    if (held->words == NULL) {
        held->words = malloc(3 * (size_t)OR_TREE_NODES_MAX * sizeof *held->words);
    }
    if (held->words == NULL || verdict->accepted_count > OR_TREE_NODES_MAX) {
        return;
    }
    held->round = verdict->round;
    held->base_length = verdict->base_length;
    held->count = session->tree.count;
    held->accepted_count = verdict->accepted_count;
    if (held->count > 0) { // a plain round has no tree
        const size_t bytes = held->count * sizeof *held->words;
        memcpy(held->words, session->tree.tokens, bytes);
        memcpy(held->words + OR_TREE_NODES_MAX, session->tree.back, bytes);
    }
    if (held->accepted_count > 0) {
        memcpy(held->words + 2 * (size_t)OR_TREE_NODES_MAX, verdict->accepted,
               held->accepted_count * sizeof *held->words);
    }
}

// `count` tokens from what was told last, the text up to `text_end`, and the end if it is `over`. Where the client says that
// it has more than was written there is nothing to point at.
static or_generate_delta_t make_delta(const or_csession_t *session, uint32_t count, size_t text_end,
                                      const char *note, bool over)
{
    bool first = session->stream.told.tokens == 0;
    const uint32_t *written = (const uint32_t *)session->log.tokens + session->prompt_length;
    const uint8_t *text = (const uint8_t *)session->text.bytes;
    size_t text_bytes = text_end - session->stream.told.text;
    or_generate_delta_t delta = {
        .request = session->request,
        .offset = session->stream.told.tokens,
        .tokens = count > 0 ? written + session->stream.told.tokens : NULL,
        .count = count,
        .text = text_bytes > 0 ? text + session->stream.told.text : NULL,
        .text_bytes = (uint32_t)text_bytes,
        .text_offset = session->stream.told.text,
        .part_changes = session->text.changes,
        .part_change_count = session->text.change_count,
        .call_changes = session->text.call_changes,
        .call_change_count = session->text.call_change_count,
        .finish = over ? session->finish : OR_FINISH_NONE,
        .error = over ? session->error : "",
        .error_code = over ? session->error_code : 0,
        .retry_ms = over ? session->queue.busy_ms : 0,
        .seed = session->seed,
        .arith_id = session->arith_id,
        .stats = session->stats,
        .note = note,
        .advice = session->advice,
        .vocab_map = session->drafters.vocab_map,
        .vocab_why = session->drafters.vocab_why,
        .token = first ? session->token : NULL,
        .token_bytes = first ? sizeof session->token : 0,
    };
    or_annotations_put(&session->annotations, session->stream.told.tokens, count, &delta);
    return delta;
}

static bool has_failed_at_once(const or_csession_t *session)
{
    return session->finish == OR_FINISH_ERROR && session->error_code != OR_WIRE_BUSY &&
           or_csession_written(session) == 0;
}

// The end of the piece that begins with what was not told yet. A token whose end is known has its text in the same piece.
static or_extent_t piece_of(const or_csession_t *session, const or_extent_t *all)
{
    uint32_t left = all->tokens - session->stream.told.tokens;
    size_t text_left = all->text - session->stream.told.text;
    or_extent_t piece = {
        session->stream.told.tokens + (left < PIECE_TOKENS ? left : PIECE_TOKENS),
        session->stream.told.text + (text_left < PIECE_BYTES ? text_left : PIECE_BYTES), false};
    if (session->annotations.details && left > PIECE_TOKENS &&
        piece.tokens <= session->annotations.count) {
        size_t end = (size_t)session->annotations.ends[piece.tokens - 1];
        end = end > session->stream.told.text ? end : session->stream.told.text;
        piece.text = end < piece.text ? end : piece.text;
    }
    return piece;
}

// All but the last piece of what is to be told: a frame holds only so much.
static void tell_pieces(or_coordinator_t *c, or_csession_t *session, const or_extent_t *all)
{
    while (all->tokens - session->stream.told.tokens > PIECE_TOKENS ||
           all->text - session->stream.told.text > PIECE_BYTES) {
        const or_extent_t piece = piece_of(session, all);
        const or_message_t message = {
            .type = OR_MSG_GENERATE_DELTA,
            .session = session->id,
            .body.generate_delta = make_delta(session, piece.tokens - session->stream.told.tokens,
                                              piece.text, session->note, false),
        };
        session->stream.told.tokens = piece.tokens;
        session->stream.told.text = piece.text;
        or_peers_send(c, session->client, &message);
    }
}

// Tell what may be told and was not told yet.
static void tell(or_coordinator_t *c, or_csession_t *session, const or_extent_t *may,
                 const char *why)
{
    // A client may have more than we: it hears no word of what is written for the second time.
    uint32_t tokens =
        may->tokens > session->stream.told.tokens ? may->tokens : session->stream.told.tokens;
    size_t text_end = may->text > session->stream.told.text ? may->text : session->stream.told.text;
    tell_pieces(c, session, &(or_extent_t){.tokens = tokens, .text = text_end});
    or_draft_tree_t tree;
    or_message_t message = {
        .type = OR_MSG_GENERATE_DELTA,
        .session = session->id,
        .body.generate_delta =
            make_delta(session, tokens - session->stream.told.tokens, text_end,
                       why != NULL && why[0] != '\0' ? why : session->note, may->over),
    };
    if (has_tree(session)) {
        put_judged(session, &tree, &message.body.generate_delta);
    } else if (session->stream.held_tree.count > 0 && !or_journaling_holds(c, session)) {
        put_held(session, &tree, &message.body.generate_delta);
    }
    if (message.body.generate_delta.tree != NULL) {
        session->stream.held_tree.count = 0;
    }
    session->stream.told.tokens = tokens;
    session->stream.told.text = text_end;
    session->stream.told.over = may->over;
    or_peers_send(c, session->client, &message);
}

void or_stream_tell(or_coordinator_t *c, or_csession_t *session, const char *why)
{
    if (session->client.value == 0) {
        return; // it is away: it will say what it has
    }
    if (or_journaling_holds(c, session) && !session->journal.begun) {
        return; // what it knows of, the next coordinator knows of, too
    }
    const or_extent_t may = or_journaling_extent(c, session);
    tell(c, session, &may, why);
    if (may.over && has_failed_at_once(session)) {
        or_csession_wait_until(session,
                               0); // nothing is lost with it: it keeps no place from others
    }
}

void or_stream_tell_news(or_coordinator_t *c, or_csession_t *session)
{
    if (!or_journaling_holds(c, session)) {
        or_stream_tell(c, session, NULL);
    } else if (has_tree(session)) {
        hold_tree(session);
    }
}
