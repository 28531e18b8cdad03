#include "coordinator/session.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/decode/methods.h"
#include "common/decode/noise.h"
#include "common/decode/shape.h"
#include "common/decode/token_tree.h"

// Labels no choice index reaches: "private", "drafter" (the first one's; the others' follow it).
#define PRIVATE_LABEL UINT64_C(0x7072697661746500)
#define DRAFT_LABEL UINT64_C(0x6472616674657200)

static float or_else(float asked, float usual)
{
    return asked != 0 ? asked : usual;
}

// Rules that are not lossless must be asked for twice, and their numbers make sense.
static or_status_t check_lossy(const or_generate_request_t *request)
{
    if (or_accept_rule_is_lossy(request->accept_rule) && !request->allow_lossy) {
        return or_fail(OR_ERR_INVALID,
                       "--accept %s does not sample the target's law: allow that with "
                       "--allow-lossy, or use --accept coupled",
                       or_accept_rule_name(request->accept_rule));
    }
    const struct {
        const char *option;
        float value, least, most;
    } numbers[] = {{"--lenience", or_else(request->lenience, 1), 1, 1e6F},
                   {"--typical-epsilon", request->typical_epsilon, 0, 1},
                   {"--typical-delta", request->typical_delta, 0, 1e6F},
                   {"--draft-threshold", request->draft_threshold, 0, 1}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (!(numbers[i].value >= numbers[i].least && numbers[i].value <= numbers[i].most)) {
            return or_fail(OR_ERR_INVALID, "%s: %g is not between %g and %g", numbers[i].option,
                           (double)numbers[i].value, (double)numbers[i].least,
                           (double)numbers[i].most);
        }
    }
    return OR_OK;
}

// The shape of its trees, if one was asked for.
static or_status_t take_shape(const or_generate_request_t *request, or_draft_method_t method,
                              or_shape_t *shape)
{
    *shape = (or_shape_t){0};
    if (request->draft_shape_count == 0 || method == OR_DRAFT_NONE) {
        return OR_OK;
    }
    or_status_t status = or_shape_set(request->draft_shape, request->draft_shape_count, shape);
    return status == OR_OK ? or_shape_check(shape, method, request->draft_depth) : status;
}

// Ids beyond the vocabulary that guesses may have.
static uint32_t outside_ids(const or_generate_request_t *request)
{
    if (request->accept_rule == OR_ACCEPT_SLRS) {
        return 1; // a text that begins with no token
    }
    return request->vocab_method == OR_VOCAB_UNION ? OR_OUTSIDE_IDS_MAX : 0;
}

// Rules that ask nothing of a guess, wherever it comes from. (typical takes other tokens with other trees.)
static bool takes_any_guess(uint32_t rule)
{
    return rule == OR_ACCEPT_COUPLED || rule == OR_ACCEPT_GREEDY || rule == OR_ACCEPT_NAIVE;
}

// May guesses for one round serve another? Those that are the best ones, not drawn, may.
static bool pools_guesses(uint32_t method, uint32_t rule)
{
    return takes_any_guess(rule) && (method == OR_DRAFT_COUPLED || method == OR_DRAFT_TOPK);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// What the verifier is told: the request, checked, with every default filled in.
static or_status_t make_terms(const or_vocab_t *vocab, const char *owner,
                              const or_generate_request_t *request, or_csession_t *session)
{
    uint32_t method = request->plain ? OR_DRAFT_NONE : request->draft_method;
    or_status_t status = or_sampling_check(&request->sampling, or_vocab_size(vocab));
    if (status == OR_OK) {
        status = or_methods_check(method, request->accept_rule, request->sampling.temperature);
    }
    if (status == OR_OK) {
        status = or_vocab_method_check(request->vocab_method, request->accept_rule);
    }
    if (status == OR_OK) {
        status = check_lossy(request);
    }
    if (status != OR_OK) {
        return status;
    }
    if (method != OR_DRAFT_NONE && (request->draft_nodes == 0 || request->draft_depth == 0)) {
        return or_fail(OR_ERR_INVALID,
                       "a drafter needs at least one node and one level: ask for plain decoding "
                       "(--plain) instead");
    }
    if (request->draft_nodes > OR_TREE_NODES_MAX) {
        return or_fail(OR_ERR_INVALID, "a draft tree has at most %u nodes, not %u",
                       OR_TREE_NODES_MAX, request->draft_nodes);
    }
    or_shape_t shape;
    status = take_shape(request, (or_draft_method_t)method, &shape);
    if (status == OR_OK && request->law_entries > OR_LAW_ENTRIES_MAX) {
        status = or_fail(OR_ERR_INVALID, "--law-entries: %u is over %u", request->law_entries,
                         OR_LAW_ENTRIES_MAX);
    }
    if (status != OR_OK) {
        return status;
    }
    uint32_t stops[16];
    uint32_t stop_count = 0;
    for (uint32_t id = 0; !request->ignore_end && id < or_vocab_size(vocab) && stop_count < 16;
         id++) {
        if (or_vocab_is_end(vocab, (int32_t)id)) {
            stops[stop_count++] = id;
        }
    }
    float temperature = request->sampling.temperature;
    bool coupled = request->accept_rule == OR_ACCEPT_COUPLED;
    const or_open_session_t open = {
        .sampling = request->sampling,
        .stop_ids = stops,
        .stop_count = stop_count,
        .accept_rule = request->accept_rule,
        .draft_method = method,
        .draft_nodes = shape.count > 0 ? or_shape_nodes(&shape, method, request->draft_depth)
                                       : request->draft_nodes,
        .draft_depth = shape.count > 0 ? or_shape_levels(&shape, method, request->draft_depth)
                                       : request->draft_depth,
        .draft_shape = shape.widths,
        .draft_shape_count = shape.count,
        .law_entries = request->law_entries > 0 ? request->law_entries : OR_LAW_ENTRIES,
        .lenience = or_else(request->lenience, 2),
        .typical_epsilon = or_else(request->typical_epsilon, 0.09F),
        .typical_delta = or_else(request->typical_delta, 0.3F),
        .draft_threshold = request->draft_threshold,
        .draft_calibrated = request->draft_calibrated,
        .draft_temperature = request->has_draft_temperature ? request->draft_temperature
                             : temperature > 0              ? temperature
                                                            : 1.0F,
        .noise_key = coupled ? or_noise_key(session->seed, 0).value : 0,
        .private_key = or_rng_key(session->seed, PRIVATE_LABEL).value,
        .prompt_length = session->prompt_length,
        .vocab_method = request->vocab_method,
        .outside_ids = outside_ids(request),
        .owner = owner,
        .draft_ahead = pools_guesses(method, request->accept_rule)
                           ? least(request->draft_ahead, OR_DRAFT_AHEAD_MAX)
                           : 0,
    };
    if (!(open.draft_temperature > 0)) {
        return or_fail(OR_ERR_INVALID,
                       "--draft-temp must be above 0: drafting needs a law to spread over");
    }
    if (or_draft_policy_name(request->draft_policy) == NULL) {
        return or_fail(OR_ERR_INVALID, "--draft-policy %u is not known here: use fixed or auto",
                       request->draft_policy);
    }
    return or_terms_copy(&open, &session->terms);
}

static or_status_t take_prompt(const or_vocab_t *vocab, const or_generate_request_t *request,
                               or_csession_t *session)
{
    int32_t *ids = NULL;
    size_t count = request->prompt_token_count;
    const int32_t *prompt = (const int32_t *)request->prompt_tokens;
    if (count == 0) {
        unsigned flags = (or_vocab_adds_bos(vocab) ? OR_TOKENIZE_BOS : 0U) |
                         (request->special ? OR_TOKENIZE_SPECIAL : 0U);
        or_status_t status = or_tokenize(vocab, (const char *)request->prompt,
                                         request->prompt_bytes, flags, &ids, &count);
        if (status != OR_OK) {
            return status;
        }
        prompt = ids;
    }
    or_status_t status = OR_OK;
    if (count == 0) {
        status = or_fail(OR_ERR_INVALID,
                         "the prompt is empty and this model has no begin token to start from");
    }
    for (size_t i = 0; status == OR_OK && i < count; i++) {
        if ((uint32_t)prompt[i] >= or_vocab_size(vocab)) {
            status = or_fail(OR_ERR_INVALID, "prompt token %u is not in the vocabulary of %u",
                             (uint32_t)prompt[i], or_vocab_size(vocab));
        }
    }
    if (status == OR_OK) {
        status = or_token_log_append(&session->log, prompt, (uint32_t)count);
        session->prompt_length = session->log.length;
    }
    free(ids);
    return status;
}

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
        .lookup = automatic && takes_any_guess(open->accept_rule),
        .late_is_good = ahead > 0,
    };
    or_policy_init(&session->policy, &terms);
    if (ahead == 0) {
        return OR_OK;
    }
    or_status_t status = or_guesses_create(2 * (ahead + 1) * open->draft_nodes, &session->guesses);
    if (status == OR_OK) {
        or_guesses_clear(session->guesses, &session->log);
    }
    return status;
}

or_status_t or_csession_create(const or_vocab_t *vocab, or_session_id_t id, or_peer_t client,
                               const char *owner, const or_generate_request_t *request,
                               or_csession_t **session_p)
{
    or_csession_t *session = calloc(1, sizeof *session);
    if (session == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a session");
    }
    session->id = id;
    session->vocab = vocab;
    session->client = client;
    session->request = request->request;
    session->plain = request->plain;
    session->max_tokens = request->max_tokens;
    session->seed = request->has_seed ? request->seed : or_rng_system_seed();
    session->round = 1;
    session->abandoned_ns = OR_TIME_NEVER;
    session->reopen_ns = OR_TIME_NEVER;
    session->tree_tokens = calloc(OR_TREE_NODES_MAX, sizeof *session->tree_tokens);
    session->tree_back = calloc(OR_TREE_NODES_MAX, sizeof *session->tree_back);
    session->tree_psi = calloc(OR_TREE_NODES_MAX, sizeof *session->tree_psi);
    or_status_t status =
        session->tree_tokens != NULL && session->tree_back != NULL && session->tree_psi != NULL
            ? or_token_log_init(&session->log, 1024)
            : or_fail(OR_ERR_NO_MEMORY, "no memory for a session");
    if (status == OR_OK) {
        status = take_prompt(vocab, request, session);
    }
    if (status == OR_OK) {
        status = make_terms(vocab, owner, request, session);
    }
    if (status == OR_OK) {
        status = make_seats(session);
    }
    if (status == OR_OK) {
        status = make_policy(request, session);
    }
    if (status == OR_OK) {
        status = or_completion_init(&session->text, vocab, prompt_is_blank(vocab, session),
                                    request->stop, request->stop_count);
    }
    if (status != OR_OK) {
        or_csession_destroy(&session);
        return status;
    }
    session->owner_hash = or_owner_hash(owner);
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
    or_completion_fini(&session->text);
    or_token_log_fini(&session->log);
    or_terms_fini(&session->terms);
    or_draws_store_fini(&session->tree_draws);
    for (uint32_t i = 0; i < OR_SEATS_MAX; i++) {
        or_token_tree_destroy(&session->seats[i].tree);
        or_translator_destroy(&session->seats[i].translator);
        or_draws_store_fini(&session->seats[i].draws);
    }
    or_merge_destroy(&session->merge);
    or_guesses_destroy(&session->guesses);
    free(session->tree_tokens);
    free(session->tree_back);
    free(session->tree_psi);
    free(session);
    *session_p = NULL;
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
    return or_rng_key(session->seed, DRAFT_LABEL + n).value;
}

const char *or_csession_owner(const or_csession_t *session)
{
    return session->terms.open.owner;
}

// FNV-1a, 64 bits.
uint64_t or_owner_hash(const char *owner)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *at = owner; *at != '\0'; at++) {
        hash = (hash ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
    }
    return hash;
}

uint32_t or_csession_written(const or_csession_t *session)
{
    return session->log.length - session->prompt_length;
}

bool or_csession_is_live(const or_csession_t *session)
{
    return session->phase == OR_PHASE_TREE || session->phase == OR_PHASE_VERDICT;
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
    return OR_OK;
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

static or_status_t commit_token(or_csession_t *session, uint32_t token, uint32_t context_max)
{
    int32_t id = (int32_t)token;
    bool stopped = false;
    session->place = or_noise_advance(session->place, or_vocab_widths(session->vocab)[id]);
    or_status_t status = or_token_log_append(&session->log, &id, 1);
    if (status == OR_OK) {
        status = or_completion_push(&session->text, id, &stopped);
    }
    if (status != OR_OK) {
        return status;
    }
    if (stopped || is_stop_id(session, token)) {
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
        uint32_t token = last ? verdict->next : session->tree_tokens[verdict->accepted[i] - 1];
        or_status_t status = commit_token(session, token, context_max);
        if (status != OR_OK) {
            return status;
        }
        session->stats.accepted += last ? 0 : 1;
    }
    session->stats.completion_tokens = or_csession_written(session);
    return session->finish != OR_FINISH_NONE ? or_completion_finish(&session->text) : OR_OK;
}

or_status_t or_csession_restore(or_csession_t *session, const int32_t *tokens, uint32_t count,
                                uint32_t finish)
{
    for (uint32_t i = 0; i < count && session->finish == OR_FINISH_NONE; i++) {
        if ((uint32_t)tokens[i] >= or_vocab_size(session->vocab)) {
            return or_fail(OR_ERR_INVALID, "token %u is not in the vocabulary",
                           (uint32_t)tokens[i]);
        }
        // Where the context ended it, `finish` says so.
        or_status_t status = commit_token(session, (uint32_t)tokens[i], UINT32_MAX);
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
    return session->finish != OR_FINISH_NONE ? or_completion_finish(&session->text) : OR_OK;
}

void or_csession_fail(or_csession_t *session, or_wire_error_t code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(session->error, sizeof session->error, format, args);
    va_end(args);
    session->error_code = code;
    session->finish = OR_FINISH_ERROR;
    if (or_completion_finish(&session->text) != OR_OK) {
        session->text.released = session->text.length;
    }
}
