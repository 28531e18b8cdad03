// A session's rows in a pass: a part of its prefix, its root, its tree.
#include "verifier/session_internal.h"

uint32_t or_vsession_prefill_left(const or_vsession_t *session)
{
    bool judging = session->question.state != OR_QUESTION_NONE; // its root has run
    uint32_t needed = session->log.length > 0 && !judging ? session->log.length - 1 : 0;
    uint32_t cached = or_kv_sequence_length(session->kv);
    return cached < needed ? needed - cached : 0;
}

bool or_vsession_has_work(const or_vsession_t *session)
{
    if (session->waiting) {
        return session->question.state == OR_QUESTION_NONE;
    }
    return or_vsession_prefill_left(session) > 0 && !session->parked;
}

uint32_t or_vsession_evict(or_vsession_t *session, uint32_t length)
{
    // The root's row is dropped in any case, so that a waiting judgement knows that its slots are gone.
    uint32_t prefix = session->log.length > 0 ? session->log.length - 1 : 0;
    or_kv_sequence_truncate(session->kv, length < prefix ? length : prefix);
    session->parked = !session->waiting;
    return or_kv_sequence_length(session->kv);
}

void or_vsession_put_prefix(const or_vsession_t *session, uint32_t count, or_model_row_t *rows)
{
    const int32_t *tokens = session->log.tokens + or_kv_sequence_length(session->kv);
    for (uint32_t i = 0; i < count; i++) {
        rows[i] = (or_model_row_t){session->kv, tokens[i], OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    }
}

// Number the rows. A repeated sibling has the first one's row, and a token that the target does not have has none.
void or_vsession_number_rows(or_vsession_t *session, uint32_t vocab_size)
{
    const or_token_tree_t *tree = session->tree;
    const int32_t *tokens = or_token_tree_tokens(tree);
    session->row_of[0] = 0;
    session->tree_rows = 1;
    session->tree_depth = 0;
    for (uint32_t i = 1; i <= or_token_tree_count(tree); i++) {
        if ((uint32_t)tokens[i] >= vocab_size) {
            session->row_of[i] = OR_ROW_NONE;
            continue;
        }
        uint32_t first = or_token_tree_find_child(tree, or_token_tree_parents(tree)[i], tokens[i]);
        session->row_of[i] = first != i ? session->row_of[first] : session->tree_rows++;
        uint32_t depth = or_token_tree_depths(tree)[i];
        session->tree_depth = depth > session->tree_depth ? depth : session->tree_depth;
    }
}

// Write the rows of root and tree. Node i's slot is i - 1; the root is a prefix row.
void or_vsession_put_tree(const or_vsession_t *session, or_model_row_t *rows)
{
    const int32_t *tokens = or_token_tree_tokens(session->tree);
    const uint32_t *parents = or_token_tree_parents(session->tree);
    uint32_t count = 0;
    rows[count++] = (or_model_row_t){session->kv, tokens[0], OR_KV_NO_SLOT, OR_KV_NO_SLOT};
    for (uint32_t i = 1; i <= or_token_tree_count(session->tree); i++) {
        if (session->row_of[i] == count) { // not the row of a sibling before it
            uint32_t parent_slot = parents[i] == 0 ? OR_KV_NO_SLOT : parents[i] - 1;
            rows[count++] = (or_model_row_t){session->kv, tokens[i], i - 1, parent_slot};
        }
    }
}
