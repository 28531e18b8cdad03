#include "coordinator/session/session.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/decode/methods.h"
#include "common/decode/sampling/noise.h"
#include "common/decode/token_tree.h"
#include "coordinator/session/name_hash.h"
#include "coordinator/session/session_internal.h"

// Labels no choice index reaches: "drafter" (the first one's; the others' follow it), and "choice" (the second's, with
// its index; the first has the seed itself).
#define DRAFT_LABEL UINT64_C(0x6472616674657200)
#define CHOICE_LABEL UINT64_C(0x63686f6963650000)

// Has anything printable been committed before the completion?
static bool prompt_is_blank(const or_vocab_t *vocab, const or_csession_t *session)
{
    for (uint32_t i = 0; i < session->prompt_length; i++) {
        if (or_vocab_widths(vocab)[session->log.tokens[i]] > 0) {
            return false;
        }
    }
    return true;
}

// Room for as many trees as there may be drafters, and for merging them.
static or_status_t make_seats(or_csession_t *session)
{
    uint32_t seats = or_csession_seats_max(session);
    uint32_t nodes = session->terms.open.draft_nodes;
    or_status_t status = OR_OK;
    for (uint32_t i = 0; status == OR_OK && i < seats; i++) {
        session->seats[i].nudge_ns = OR_TIME_NEVER;
        status = or_token_tree_create(nodes, &session->seats[i].tree);
    }
    return status == OR_OK && seats > 1 ? or_merge_create(seats, nodes, &session->merge) : status;
}

// The pool holds what a drafter may have on the way, twice.
static or_status_t make_policy(const or_generate_request_t *request, or_csession_t *session)
{
    const or_open_session_t *open = &session->terms.open;
    uint32_t ahead = open->draft_ahead;
    bool automatic = request->draft_policy == OR_POLICY_AUTO && !session->plain;
    const or_policy_terms_of_session_t terms = {
        .kind = automatic ? OR_POLICY_AUTO : OR_POLICY_FIXED,
        .most = {.nodes = open->draft_nodes, .depth = open->draft_depth, .ahead = ahead},
        .lookup = automatic && or_accept_rule_takes_any_guess(open->accept_rule),
        .late_is_good = ahead > 0,
    };
    or_policy_init(&session->policy, &terms);
    if (terms.lookup) {
        session->lookup_guesses = calloc(open->draft_nodes, sizeof *session->lookup_guesses);
        if (session->lookup_guesses == NULL) {
            return or_fail(OR_ERR_NO_MEMORY, "no memory for a session");
        }
    }
    if (ahead == 0) {
        return OR_OK;
    }
    or_status_t status = or_guesses_create(2 * (ahead + 1) * open->draft_nodes, &session->guesses);
    if (status == OR_OK) {
        or_guesses_clear(session->guesses, &session->log);
    }
    return status;
}

// What the user cannot break a log line with.
static void take_label(or_csession_t *session, const char *label)
{
    uint32_t count = 0;
    for (; label != NULL && label[count] != '\0' && count < OR_LABEL_BYTES - 1; count++) {
        bool printable = label[count] >= ' ' && label[count] <= '~';
        session->label[count] = printable ? label[count] : '?';
    }
    session->label[count] = '\0';
}

static void take_numbers(const or_generate_request_t *request, or_csession_t *session)
{
    session->request = request->request;
    session->plain = request->plain;
    session->measured = request->measured;
    session->max_tokens = request->max_tokens;
    session->seed = request->has_seed ? request->seed : or_rng_system_seed();
    session->key_seed = request->choice > 0
                            ? or_rng_key(session->seed, CHOICE_LABEL + request->choice).value
                            : session->seed;
    session->round = 1;
    session->abandoned_ns = OR_TIME_NEVER;
    session->reopen_ns = OR_TIME_NEVER;
    or_annotations_init(&session->annotations, request->details, request->logprobs);
    take_label(session, request->label);
}

static or_status_t make_room(or_csession_t *session)
{
    session->tree_tokens = calloc(OR_TREE_NODES_MAX, sizeof *session->tree_tokens);
    session->tree_back = calloc(OR_TREE_NODES_MAX, sizeof *session->tree_back);
    session->tree_psi = calloc(OR_TREE_NODES_MAX, sizeof *session->tree_psi);
    return session->tree_tokens != NULL && session->tree_back != NULL && session->tree_psi != NULL
               ? or_token_log_init(&session->log, 1024)
               : or_fail(OR_ERR_NO_MEMORY, "no memory for a session");
}

or_status_t or_csession_create(const or_session_target_t *target, or_session_id_t id,
                               or_peer_t client, const char *owner,
                               const or_generate_request_t *request, or_csession_t **session_p)
{
    or_csession_t *session = calloc(1, sizeof *session);
    if (session == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a session");
    }
    session->id = id;
    session->vocab = target->vocab;
    session->client = client;
    take_numbers(request, session);
    or_status_t status = make_room(session);
    if (status == OR_OK) {
        status = or_csession_take_prompt(target, request, session);
    }
    if (status == OR_OK) {
        status = or_csession_make_terms(target->vocab, owner, request, session);
    }
    if (status == OR_OK) {
        status = make_seats(session);
    }
    if (status == OR_OK) {
        status = make_policy(request, session);
    }
    if (status == OR_OK) {
        status = or_completion_init(&session->text, target->vocab,
                                    prompt_is_blank(target->vocab, session), request->stop,
                                    request->stop_count);
    }
    if (status != OR_OK) {
        or_csession_destroy(&session);
        return status;
    }
    session->owner_hash = or_name_hash(owner);
    session->stats.prompt_tokens = session->prompt_length;
    *session_p = session;
    return OR_OK;
}

void or_csession_destroy(or_csession_t **session_p)
{
    or_csession_t *session = *session_p;
    if (session == NULL) {
        return;
    }
    or_hold_close(&session->request_hold);
    or_hold_close(&session->answer_hold);
    or_annotations_fini(&session->annotations);
    or_completion_fini(&session->text);
    or_token_log_fini(&session->log);
    or_terms_fini(&session->terms);
    or_csession_drop_rounds(session);
    free(session->held_tree.words);
    free(session);
    *session_p = NULL;
}

void or_csession_drop_draws(or_csession_t *session)
{
    or_draws_store_fini(&session->tree_draws);
    for (uint32_t i = 0; i < OR_SEATS_MAX; i++) {
        or_draws_store_fini(&session->seats[i].draws);
    }
}

static void free_array(void *array_p)
{
    void **array = array_p;
    free(*array);
    *array = NULL;
}

void or_csession_drop_rounds(or_csession_t *session)
{
    or_csession_drop_draws(session);
    for (uint32_t i = 0; i < OR_SEATS_MAX; i++) {
        or_token_tree_destroy(&session->seats[i].tree);
        or_translator_destroy(&session->seats[i].translator);
    }
    or_merge_destroy(&session->merge);
    or_guesses_destroy(&session->guesses);
    free_array(&session->tree_tokens);
    free_array(&session->tree_back);
    free_array(&session->tree_psi);
    free_array(&session->lookup_guesses);
    session->tree_count = 0;
}

// A guess in a tree, in a pool or in a lookup, with what stands beside it: about.
#define GUESS_BYTES 64

// What only rounds need, but for distributions.
static size_t round_bytes(const or_csession_t *session)
{
    const or_open_session_t *open = &session->terms.open;
    if (session->tree_tokens == NULL) {
        return 0; // dropped
    }
    uint32_t pooled = session->guesses != NULL ? 2 * (open->draft_ahead + 1) : 0;
    size_t guesses = (size_t)open->draft_nodes * (or_csession_seats_max(session) + pooled + 1);
    size_t room = OR_TREE_NODES_MAX * (sizeof *session->tree_tokens + sizeof *session->tree_back +
                                       sizeof *session->tree_psi);
    return room + guesses * GUESS_BYTES;
}

static size_t draws_bytes(const or_csession_t *session)
{
    size_t bytes = or_draws_store_bytes(&session->tree_draws);
    for (uint32_t i = 0; i < OR_SEATS_MAX; i++) {
        bytes += or_draws_store_bytes(&session->seats[i].draws);
    }
    return bytes;
}

size_t or_csession_request_bytes(const or_csession_t *session)
{
    const or_open_session_t *open = &session->terms.open;
    return sizeof *session + round_bytes(session) + or_completion_stop_bytes(&session->text) +
           session->prompt_length * sizeof *session->log.tokens +
           open->sampling.bias_count * sizeof *open->sampling.bias;
}

size_t or_csession_answer_bytes(const or_csession_t *session)
{
    size_t tokens = session->log.capacity - session->prompt_length;
    return tokens * sizeof *session->log.tokens + session->text.capacity +
           or_annotations_bytes(&session->annotations) + draws_bytes(session);
}

uint32_t or_csession_seats_max(const or_csession_t *session)
{
    return session->terms.open.draft_method == OR_DRAFT_MULTI ? OR_SEATS_MAX : 1;
}

or_seat_t *or_csession_seat(or_csession_t *session, or_peer_t drafter)
{
    for (uint32_t i = 0; i < session->seat_count; i++) {
        if (drafter.value != 0 && session->seats[i].peer.value == drafter.value) {
            return &session->seats[i];
        }
    }
    return NULL;
}

uint64_t or_csession_draft_key(const or_csession_t *session, uint32_t n)
{
    return or_rng_key(session->key_seed, DRAFT_LABEL + n).value;
}

const char *or_csession_owner(const or_csession_t *session)
{
    return session->terms.open.owner;
}

uint32_t or_csession_written(const or_csession_t *session)
{
    return session->log.length - session->prompt_length;
}

bool or_csession_is_live(const or_csession_t *session)
{
    return session->phase == OR_PHASE_TREE || session->phase == OR_PHASE_VERDICT;
}

int64_t or_csession_due(const or_csession_t *session)
{
    bool paced = session->phase == OR_PHASE_WAITING && session->paced_ns != 0 &&
                 session->paced_ns < session->deadline_ns;
    return paced ? session->paced_ns : session->deadline_ns;
}

or_status_t or_csession_check_verdict(const or_csession_t *session, const or_verdict_t *verdict,
                                      uint32_t vocab_size)
{
    if (verdict->base_length != session->log.length || verdict->next >= vocab_size) {
        return or_fail(OR_ERR_MISMATCH, "a verdict on %u tokens, we hold %u", verdict->base_length,
                       session->log.length);
    }
    uint64_t hash = session->log.hash;
    uint32_t parent = 0;
    for (uint32_t i = 0; i < verdict->accepted_count; i++) {
        uint32_t node = verdict->accepted[i];
        if (node == 0 || node > session->tree_count ||
            node - session->tree_back[node - 1] != parent) {
            return or_fail(OR_ERR_MISMATCH, "a verdict whose path is not in the tree");
        }
        hash = or_prefix_hash(hash, &session->tree_tokens[node - 1], 1);
        parent = node;
    }
    hash = or_prefix_hash(hash, &verdict->next, 1);
    if (hash != verdict->hash) {
        return or_fail(OR_ERR_MISMATCH, "a verdict whose prefix hash is not ours");
    }
    return or_annotations_check(session->terms.open.logprobs, verdict, session->tree_tokens,
                                vocab_size);
}

static bool is_stop_id(const or_csession_t *session, uint32_t token)
{
    const or_open_session_t *open = &session->terms.open;
    for (uint32_t i = 0; i < open->stop_count; i++) {
        if (open->stop_ids[i] == token) {
            return true;
        }
    }
    return false;
}

or_status_t or_csession_end_text(or_csession_t *session)
{
    or_status_t status = or_completion_finish(&session->text);
    if (status == OR_OK) {
        or_annotations_finish(&session->annotations, session->text.length);
    }
    return status;
}

// A token of the text, an accepted guess or not; `logprob` NULL if it is not known.
typedef struct {
    uint32_t id;
    bool guessed;
    const or_token_logprob_t *logprob;
} token_t;

static or_status_t commit_token(or_csession_t *session, const token_t *token, uint32_t context_max)
{
    int32_t id = (int32_t)token->id;
    bool stopped = false;
    session->place = or_noise_advance(session->place, or_vocab_widths(session->vocab)[id]);
    or_status_t status = or_token_log_append(&session->log, &id, 1);
    if (status == OR_OK) {
        status = or_completion_push(&session->text, id, &stopped);
    }
    if (status == OR_OK) {
        status = or_annotations_add(&session->annotations, token->guessed, session->text.length,
                                    token->logprob);
    }
    if (status != OR_OK) {
        return status;
    }
    if (stopped || is_stop_id(session, token->id)) {
        session->finish = OR_FINISH_STOP;
    } else if (session->max_tokens > 0 && or_csession_written(session) >= session->max_tokens) {
        session->finish = OR_FINISH_LENGTH;
    } else if (session->log.length >= context_max) {
        session->finish = OR_FINISH_LENGTH;
    }
    return OR_OK;
}

or_status_t or_csession_commit(or_csession_t *session, const or_verdict_t *verdict,
                               uint32_t context_max)
{
    for (uint32_t i = 0; i <= verdict->accepted_count && session->finish == OR_FINISH_NONE; i++) {
        bool last = i == verdict->accepted_count;
        const token_t token = {
            .id = last ? verdict->next : session->tree_tokens[verdict->accepted[i] - 1],
            .guessed = !last,
            .logprob = verdict->logprob_count > 0 ? &verdict->logprobs[i] : NULL,
        };
        or_status_t status = commit_token(session, &token, context_max);
        if (status != OR_OK) {
            return status;
        }
        session->stats.accepted += last ? 0 : 1;
    }
    session->stats.completion_tokens = or_csession_written(session);
    return session->finish != OR_FINISH_NONE ? or_csession_end_text(session) : OR_OK;
}

or_status_t or_csession_restore(or_csession_t *session, const int32_t *tokens, uint32_t count,
                                uint32_t finish)
{
    for (uint32_t i = 0; i < count && session->finish == OR_FINISH_NONE; i++) {
        const token_t token = {.id = (uint32_t)tokens[i]};
        if (token.id >= or_vocab_size(session->vocab)) {
            return or_fail(OR_ERR_INVALID, "token %u is not in the vocabulary", token.id);
        }
        // Where the context ended it, `finish` says so.
        or_status_t status = commit_token(session, &token, UINT32_MAX);
        if (status != OR_OK) {
            return status;
        }
    }
    session->stats.completion_tokens = or_csession_written(session);
    if (finish == OR_FINISH_ERROR) {
        or_csession_fail(session, OR_WIRE_FAILED,
                         "the text ended with an error before the coordinator was restarted");
        return OR_OK;
    }
    session->finish = session->finish != OR_FINISH_NONE ? session->finish : finish;
    return session->finish != OR_FINISH_NONE ? or_csession_end_text(session) : OR_OK;
}

void or_csession_fail(or_csession_t *session, or_wire_error_t code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(session->error, sizeof session->error, format, args);
    va_end(args);
    session->error_code = code;
    session->finish = OR_FINISH_ERROR;
    if (or_csession_end_text(session) != OR_OK) {
        session->text.released = session->text.length;
    }
}

or_log_subject_t or_csession_subject(const or_csession_t *session)
{
    return (or_log_subject_t){.session = session->id.value, .request = session->label};
}
