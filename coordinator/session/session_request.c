// A request, checked, becomes a session: its terms, its prompt, and room for its rounds.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/inline.h"
#include "common/decode/methods.h"
#include "common/decode/sampling/noise.h"
#include "common/decode/shape.h"
#include "common/decode/token_tree.h"
#include "coordinator/budget/usefulness.h"
#include "coordinator/session/name_hash.h"
#include "coordinator/session/session.h"
#include "proto/wire/parameters.h"

// Labels that no choice's index reaches: "private", and "choice", to which the index of a choice is added. (The first
// choice has the seed itself.)
#define PRIVATE_LABEL UINT64_C(0x7072697661746500)
#define CHOICE_LABEL UINT64_C(0x63686f6963650000)

// ---- terms ----

static float or_else(float asked, float usual)
{
    return asked != 0 ? asked : usual;
}

// Rules that are not lossless must be asked for twice.
static or_status_t check_lossy(const or_generate_request_t *request)
{
    if (or_accept_rule_is_lossy(request->accept_rule) && !request->allow_lossy) {
        return or_fail(OR_ERR_INVALID,
                       "--accept %s does not sample the target's distribution: allow that with "
                       "--allow-lossy, or use --accept coupled",
                       or_accept_rule_name(request->accept_rule));
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

static or_status_t check_drafting(const or_generate_request_t *request, uint32_t method)
{
    if (method != OR_DRAFT_NONE && (request->draft_nodes == 0 || request->draft_depth == 0)) {
        return or_fail(OR_ERR_INVALID,
                       "a drafter needs at least one node and one level: ask for plain decoding "
                       "(--plain) instead");
    }
    if (request->has_draft_temperature && !(request->draft_temperature > 0)) {
        return or_fail(
            OR_ERR_INVALID,
            "--draft-temp must be above 0: drafting needs a distribution to spread over");
    }
    if (or_draft_policy_name(request->draft_policy) == NULL) {
        return or_fail(OR_ERR_INVALID, "--draft-policy %u is not known here: use fixed or auto",
                       request->draft_policy);
    }
    return OR_OK;
}

// They are looked for at every token, and kept as long as the text is.
static or_status_t check_stop_strings(const or_generate_request_t *request)
{
    if (request->stop_count > OR_STOP_STRINGS_MAX) {
        return or_fail(OR_ERR_INVALID, "%u stop strings are over %u", request->stop_count,
                       OR_STOP_STRINGS_MAX);
    }
    for (uint32_t i = 0; i < request->stop_count; i++) {
        if (request->stop[i].length > OR_STOP_BYTES_MAX) {
            return or_fail(OR_ERR_INVALID, "a stop string of %zu bytes is over %u",
                           (size_t)request->stop[i].length, OR_STOP_BYTES_MAX);
        }
    }
    return OR_OK;
}

static or_status_t check_request(const or_vocab_t *vocab, const or_generate_request_t *request,
                                 uint32_t method)
{
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
    if (status == OR_OK && request->logprobs > OR_LOGPROBS_MAX + 1) {
        status =
            or_fail(OR_ERR_INVALID, "logprobs of the %u best tokens were asked for: %u at most",
                    request->logprobs - 1, OR_LOGPROBS_MAX);
    }
    if (status == OR_OK) {
        status = check_stop_strings(request);
    }
    if (status == OR_OK && request->thinking > OR_THINKING_HIGH) {
        status = or_fail(OR_ERR_INVALID, "%u is no way of thinking: %u at most", request->thinking,
                         (unsigned)OR_THINKING_HIGH);
    }
    if (status == OR_OK) {
        status = or_parameters_check(request);
    }
    return status == OR_OK ? check_drafting(request, method) : status;
}

// The tokens that end the text.
static uint32_t list_stops(const or_vocab_t *vocab, const or_generate_request_t *request,
                           uint32_t stops[OR_STOP_IDS_MAX])
{
    uint32_t count = 0;
    for (uint32_t id = 0;
         !request->ignore_end && id < or_vocab_size(vocab) && count < OR_STOP_IDS_MAX; id++) {
        if (or_vocab_is_end(vocab, (int32_t)id)) {
            stops[count++] = id;
        }
    }
    return count;
}

static float draft_temperature(const or_generate_request_t *request)
{
    if (request->has_draft_temperature) {
        return request->draft_temperature;
    }
    return request->sampling.temperature > 0 ? request->sampling.temperature : 1.0F;
}

// Make the biases of a text: those of the request, and -INFINITY for each token that the model's file suppresses, as in
// transformers' generate. All of them are part of the target distribution, of plain and of drafted texts. *bias_p is malloc'd.
static or_status_t make_biases(const or_vocab_t *vocab, const or_sampling_t *sampling,
                               or_logit_bias_t **bias_p, uint32_t *count_p)
{
    const uint32_t own = sampling->bias_count, suppressed = or_vocab_suppressed_count(vocab);
    *bias_p = NULL;
    *count_p = own + suppressed;
    if (suppressed > OR_BIASES_MAX - own) {
        return or_fail(OR_ERR_INVALID,
                       "%u logit biases and %u tokens that the model suppresses are over %u", own,
                       suppressed, OR_BIASES_MAX);
    }
    or_logit_bias_t *bias = calloc(*count_p + 1, sizeof *bias);
    if (bias == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %u logit biases", *count_p);
    }
    if (own > 0) {
        memcpy(bias, sampling->bias, own * sizeof *bias);
    }
    uint32_t count = own;
    for (uint32_t id = 0; count < *count_p; id++) {
        if (or_vocab_is_suppressed(vocab, (int32_t)id)) {
            bias[count++] = (or_logit_bias_t){(int32_t)id, -INFINITY};
        }
    }
    *bias_p = bias;
    return OR_OK;
}

static or_status_t make_terms(const or_vocab_t *vocab, const char *owner,
                              const or_generate_request_t *request, or_csession_t *session)
{
    or_logit_bias_t *bias = NULL;
    or_sampling_t sampling = request->sampling;
    uint32_t method = request->plain ? OR_DRAFT_NONE : request->draft_method;
    uint32_t stops[OR_STOP_IDS_MAX];
    or_shape_t shape;
    or_status_t status = check_request(vocab, request, method);
    if (status == OR_OK) {
        status = take_shape(request, (or_draft_method_t)method, &shape);
    }
    if (status == OR_OK) {
        status = make_biases(vocab, &request->sampling, &bias, &sampling.bias_count);
    }
    sampling.bias = bias;
    if (status != OR_OK) {
        return status;
    }
    bool coupled = request->accept_rule == OR_ACCEPT_COUPLED;
    const or_open_session_t open = {
        .sampling = sampling,
        .stop_ids = stops,
        .stop_count = list_stops(vocab, request, stops),
        .accept_rule = request->accept_rule,
        .draft_method = method,
        .draft_nodes = shape.count > 0 ? or_shape_nodes(&shape, method, request->draft_depth)
                                       : request->draft_nodes,
        .draft_depth = shape.count > 0 ? or_shape_levels(&shape, method, request->draft_depth)
                                       : request->draft_depth,
        .draft_shape = shape.widths,
        .draft_shape_count = shape.count,
        .distribution_entries = request->distribution_entries > 0 ? request->distribution_entries
                                                                  : OR_DISTRIBUTION_ENTRIES,
        .lenience = or_else(request->lenience, 2),
        .typical_epsilon = or_else(request->typical_epsilon, 0.09F),
        .typical_delta = or_else(request->typical_delta, 0.3F),
        .draft_threshold = request->draft_threshold,
        .draft_calibrated = request->draft_calibrated,
        .draft_temperature = draft_temperature(request),
        .noise_key = coupled ? or_noise_key(session->seed, request->choice).value : 0,
        .private_key = or_rng_key(session->key_seed, PRIVATE_LABEL).value,
        .prompt_length = session->prompt_length,
        .logprobs = request->logprobs,
        .vocab_method = request->vocab_method,
        .outside_ids = outside_ids(request),
        .owner = owner,
        .draft_ahead = or_methods_go_ahead(method, request->accept_rule)
                           ? or_min_u32(request->draft_ahead, OR_AHEAD_MAX)
                           : 0,
    };
    status = or_terms_copy(&open, &session->terms);
    free(bias);
    return status;
}

// ---- prompt ----

static or_status_t check_tokens(const or_vocab_t *vocab, const int32_t *tokens, size_t count)
{
    if (count == 0) {
        return or_fail(OR_ERR_INVALID,
                       "the prompt is empty and this model has no begin token to start from");
    }
    for (size_t i = 0; i < count; i++) {
        if ((uint32_t)tokens[i] >= or_vocab_size(vocab)) {
            return or_fail(OR_ERR_INVALID, "prompt token %u is not in the vocabulary of %u",
                           (uint32_t)tokens[i], or_vocab_size(vocab));
        }
    }
    return OR_OK;
}

// Render a conversation by the model's own template.
static or_status_t render(const or_session_target_t *target, const or_generate_request_t *request,
                          int32_t **ids, size_t *count)
{
    if (request->prompt_token_count > 0 || request->prompt_bytes > 0) {
        return or_fail(OR_ERR_INVALID, "a request has a prompt or a conversation, not both");
    }
    if (target->chat == NULL) {
        return or_fail(OR_ERR_UNSUPPORTED, "%s", target->chat_trouble);
    }
    or_chat_turn_t *turns = calloc(request->message_count, sizeof *turns);
    if (turns == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a conversation of %u turns",
                       request->message_count);
    }
    for (uint32_t i = 0; i < request->message_count; i++) {
        const or_chat_message_t *message = &request->messages[i];
        turns[i] = (or_chat_turn_t){.role = message->role,
                                    .content = (const char *)message->content,
                                    .length = message->content_bytes};
    }
    or_status_t status = or_chat_tokenize(target->chat, target->vocab, request->thinking, turns,
                                          request->message_count, ids, count);
    free(turns);
    return status;
}

static or_status_t cut(const or_vocab_t *vocab, const or_generate_request_t *request, int32_t **ids,
                       size_t *count)
{
    unsigned flags = OR_TOKENIZE_WHOLE | (or_vocab_adds_bos(vocab) ? OR_TOKENIZE_BOS : 0U) |
                     (request->special ? OR_TOKENIZE_SPECIAL : 0U);
    return or_tokenize(vocab, (const char *)request->prompt, request->prompt_bytes, flags, ids,
                       count);
}

static or_status_t take_prompt(const or_session_target_t *target,
                               const or_generate_request_t *request, or_csession_t *session)
{
    int32_t *ids = NULL;
    size_t count = request->prompt_token_count;
    const int32_t *prompt = (const int32_t *)request->prompt_tokens;
    or_status_t status = OR_OK;
    if (request->message_count > 0) {
        status = render(target, request, &ids, &count);
    } else if (count == 0) {
        status = cut(target->vocab, request, &ids, &count);
    }
    if (status != OR_OK) {
        return status;
    }
    prompt = ids != NULL ? ids : prompt;
    status = check_tokens(target->vocab, prompt, count);
    if (status == OR_OK) {
        status = or_token_log_append(&session->log, prompt, (uint32_t)count);
        session->prompt_length = session->log.length;
    }
    free(ids);
    return status;
}

// The family that reads the answer's thoughts; NULL: the answer is text. A conversation's own family reads its answer.
static or_status_t take_reader(const or_session_target_t *target,
                               const or_generate_request_t *request, const or_chat_t **chat_p)
{
    *chat_p = request->message_count > 0 ? target->chat : NULL;
    if (request->reader == NULL || request->reader[0] == '\0') {
        return OR_OK;
    }
    if (request->message_count > 0) {
        return or_fail(OR_ERR_INVALID, "a request names a reader or has a conversation, not both");
    }
    return or_chat_by_name(request->reader, chat_p) == OR_OK
               ? OR_OK
               : or_fail(OR_ERR_INVALID, "the chat template that a request names to read its "
                                         "answer is not known here");
}

// The format in which the answer may call tools; NULL: none.
static or_status_t take_calls(const or_generate_request_t *request, const or_chat_t *reader,
                              const or_chat_tools_t **tools_p)
{
    *tools_p = NULL;
    if (request->calls == NULL || request->calls[0] == '\0') {
        return OR_OK;
    }
    *tools_p = reader != NULL ? or_chat_tools_by_name(request->calls) : NULL;
    return *tools_p != NULL ? OR_OK
                            : or_fail(OR_ERR_INVALID,
                                      "the format that a request names to read calls of tools is "
                                      "not known here, or it names no chat template");
}

// ---- the session ----

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
    uint32_t seats = or_seats_max(session);
    uint32_t nodes = session->terms.open.draft_nodes;
    or_status_t status = OR_OK;
    for (uint32_t i = 0; status == OR_OK && i < seats; i++) {
        session->drafters.seats[i].nudge_ns = OR_TIME_NEVER;
        status = or_token_tree_create(nodes, &session->drafters.seats[i].tree);
    }
    return status == OR_OK && seats > 1 ? or_merge_create(seats, nodes, &session->drafters.merge)
                                        : status;
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
        .whole_trees = !or_usefulness_can_cut(open->draft_method, open->accept_rule),
    };
    or_policy_init(&session->budget.policy, &terms);
    if (terms.lookup) {
        session->budget.lookup_guesses =
            calloc(open->draft_nodes, sizeof *session->budget.lookup_guesses);
        if (session->budget.lookup_guesses == NULL) {
            return or_fail(OR_ERR_NO_MEMORY, "no memory for a session");
        }
    }
    if (ahead == 0) {
        return OR_OK;
    }
    or_status_t status =
        or_guesses_create(2 * (ahead + 1) * open->draft_nodes, &session->budget.guesses);
    if (status == OR_OK) {
        or_guesses_clear(session->budget.guesses, &session->log);
    }
    return status;
}

// Keep of the label what cannot break a line of the log.
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
    session->target.abandoned_ns = OR_TIME_NEVER;
    session->target.reopen_ns = OR_TIME_NEVER;
    or_annotations_init(&session->annotations, request->details, request->logprobs);
    take_label(session, request->label);
}

static or_status_t make_room(or_csession_t *session)
{
    session->tree.tokens = calloc(OR_TREE_NODES_MAX, sizeof *session->tree.tokens);
    session->tree.back = calloc(OR_TREE_NODES_MAX, sizeof *session->tree.back);
    session->tree.psi = calloc(OR_TREE_NODES_MAX, sizeof *session->tree.psi);
    return session->tree.tokens != NULL && session->tree.back != NULL && session->tree.psi != NULL
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
    session->marked = target->marked;
    session->client = client;
    take_numbers(request, session);
    const or_chat_t *reader = NULL;
    const or_chat_tools_t *tools = NULL;
    or_status_t status = make_room(session);
    if (status == OR_OK) {
        status = take_reader(target, request, &reader);
    }
    if (status == OR_OK) {
        status = take_calls(request, reader, &tools);
    }
    if (status == OR_OK) {
        status = take_prompt(target, request, session);
    }
    if (status == OR_OK) {
        status = make_terms(target->vocab, owner, request, session);
    }
    if (status == OR_OK) {
        status = make_seats(session);
    }
    if (status == OR_OK) {
        status = make_policy(request, session);
    }
    if (status == OR_OK) {
        status = or_completion_init(&session->text, target->vocab, reader, tools, request->thinking,
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
