// The contests of the rows of a pass: what judgements will need of them. They are announced before the first row is
// asked for, so that one question may do for the trees of several sessions.
#include "common/model/model_draws.h"
#include "verifier/session_internal.h"

// Return true if the judgement needs no more of a row than the token that wins there.
static bool only_the_winner_counts(const or_vsession_t *session)
{
    const or_open_session_t *open = &session->terms.open;
    bool wins = open->accept_rule == OR_ACCEPT_COUPLED || open->accept_rule == OR_ACCEPT_NAIVE ||
                open->accept_rule == OR_ACCEPT_GREEDY;
    return wins && session->logprobs == NULL && or_sampling_is_plain(&open->sampling);
}

or_rng_key_t or_vsession_noise_key(const or_vsession_t *session)
{
    const or_open_session_t *open = &session->terms.open;
    bool shared = open->accept_rule == OR_ACCEPT_COUPLED;
    return (or_rng_key_t){shared ? open->noise_key : open->private_key};
}

void or_vsession_put_contests(const or_vsession_t *session, or_judge_t *judge, uint32_t first_row)
{
    if (!or_model_has_contenders(judge->model) || !only_the_winner_counts(session)) {
        return;
    }
    const or_token_tree_t *tree = session->tree;
    const uint32_t *parents = or_token_tree_parents(tree);
    const uint32_t *widths = or_vocab_widths(judge->vocab);
    or_contest_t contest = {.sampling = &session->terms.open.sampling,
                            .key = or_vsession_noise_key(session),
                            .place = session->place,
                            .noisy = session->terms.open.accept_rule != OR_ACCEPT_GREEDY};
    or_noise_place_t places[OR_TREE_NODES_MAX + 1] = {session->place};
    or_head_set_contest(judge->head, first_row, &contest);
    for (uint32_t i = 1; i <= or_token_tree_count(tree); i++) {
        if (session->row_of[i] != OR_ROW_NONE) { // and so nothing stands on it
            uint32_t width = widths[or_token_tree_tokens(tree)[i]];
            places[i] = contest.place = or_noise_advance(places[parents[i]], width);
            or_head_set_contest(judge->head, first_row + session->row_of[i], &contest);
        }
    }
}
