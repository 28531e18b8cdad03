// The "draft" of a request: how guesses are made and judged, by the names of the command's options.
#include <stdio.h>
#include <string.h>

#include "common/decode/shape.h"
#include "common/decode/token_tree.h"
#include "coordinator/http/api/api_request_internal.h"

#define NODES_USUAL 16u
#define DEPTH_USUAL 16u
#define AHEAD_AUTO 4u // what policy auto goes ahead at most where nothing is said
#define AHEAD_MAX 8

// ---- sentences ----

// The option that `text` begins with, as a body says it; *length is that of the option. NULL: there is none.
static const char *field_of(const char *text, size_t *length)
{
    static const struct {
        const char *option, *field;
    } names[] = {{"--accept", "draft.accept"},      {"--draft-method", "draft.method"},
                 {"--draft-nodes", "draft.nodes"},  {"--draft-depth", "draft.depth"},
                 {"--draft-shape", "draft.shape"},  {"--temp", "temperature"},
                 {"--vocab-map", "draft.vocab_map"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        *length = strlen(names[i].option);
        if (strncmp(text, names[i].option, *length) == 0) {
            return names[i].field;
        }
    }
    return NULL;
}

// Refuse with the last error, which speaks of the command's options: here they are fields.
static bool refuse_with_error(or_api_problem_t *problem, const char *param)
{
    char message[sizeof problem->message] = "";
    const char *at = or_error_text();
    for (size_t put = 0; *at != '\0' && put + 1 < sizeof message; put = strlen(message)) {
        size_t length;
        const char *field = field_of(at, &length);
        if (field == NULL) {
            message[put] = *at++;
        } else {
            snprintf(message + put, sizeof message - put, "%s", field);
            at += length;
        }
    }
    return or_api_refuse(problem, 400, NULL, param, "'%s': %s", param, message);
}

// ---- its fields ----

static const char *word(const json_t *value)
{
    const char *text = json_string_value(value);
    return text != NULL && strlen(text) == json_string_length(value) ? text : NULL;
}

// Any name; what it may be is known by those who know the names, who are asked when all is there.
static bool read_name(const char **name, const char *param, const json_t *value,
                      or_api_problem_t *problem)
{
    *name = word(value);
    return *name != NULL || or_api_refuse(problem, 400, NULL, param, "'%s' must be a name.", param);
}

static bool read_method(void *into, const char *param, const json_t *value,
                        or_api_problem_t *problem)
{
    return read_name(&((or_api_reading_t *)into)->method, param, value, problem);
}

static bool read_accept(void *into, const char *param, const json_t *value,
                        or_api_problem_t *problem)
{
    return read_name(&((or_api_reading_t *)into)->accept, param, value, problem);
}

static bool read_shape(void *into, const char *param, const json_t *value,
                       or_api_problem_t *problem)
{
    return read_name(&((or_api_reading_t *)into)->shape, param, value, problem);
}

static bool read_vocab_map(void *into, const char *param, const json_t *value,
                           or_api_problem_t *problem)
{
    or_api_reading_t *reading = into;
    const char *name;
    or_vocab_method_t method;
    if (!read_name(&name, param, value, problem)) {
        return false;
    }
    if (or_vocab_method_parse(name, &method) != OR_OK) {
        return refuse_with_error(problem, param);
    }
    reading->made.generate.vocab_method = method;
    return true;
}

static bool read_policy(void *into, const char *param, const json_t *value,
                        or_api_problem_t *problem)
{
    or_api_reading_t *reading = into;
    for (uint32_t kind = 0; or_draft_policy_name(kind) != NULL; kind++) {
        if (or_api_is_word(value, or_draft_policy_name(kind))) {
            reading->made.generate.draft_policy = kind;
            return true;
        }
    }
    return or_api_refuse(problem, 400, NULL, param, "'%s' must be fixed or auto.", param);
}

static bool read_ahead(void *into, const char *param, const json_t *value,
                       or_api_problem_t *problem)
{
    or_api_reading_t *reading = into;
    json_int_t ahead = json_integer_value(value);
    if (!json_is_integer(value) || ahead < 0 || ahead > AHEAD_MAX) {
        return or_api_refuse(problem, 400, NULL, param, "'%s' must be a whole number from 0 to %d.",
                             param, AHEAD_MAX);
    }
    reading->made.generate.draft_ahead = (uint32_t)ahead;
    reading->ahead_given = true;
    return true;
}

static bool read_temperature(void *into, const char *param, const json_t *value,
                             or_api_problem_t *problem)
{
    or_generate_request_t *generate = &((or_api_reading_t *)into)->made.generate;
    double temperature = json_number_value(value);
    if (!json_is_number(value) || !(temperature > 0 && temperature <= 100)) {
        return or_api_refuse(problem, 400, NULL, param, "'%s' must be a number above 0, up to 100.",
                             param);
    }
    generate->has_draft_temperature = true;
    generate->draft_temperature = (float)temperature;
    return true;
}

#define AT(field) offsetof(or_api_reading_t, made.generate.field)

static const or_api_field_t fields[] = {
    {"method", OR_API_OWN, .read = read_method},
    {"accept", OR_API_OWN, .read = read_accept},
    {"nodes", OR_API_COUNT, .offset = AT(draft_nodes), .least = 1, .most = OR_TREE_NODES_MAX},
    {"depth", OR_API_COUNT, .offset = AT(draft_depth), .least = 1, .most = OR_TREE_NODES_MAX},
    {"shape", OR_API_OWN, .read = read_shape},
    {"temperature", OR_API_OWN, .read = read_temperature},
    {"ahead", OR_API_OWN, .read = read_ahead},
    {"policy", OR_API_OWN, .read = read_policy},
    {"vocab_map", OR_API_OWN, .read = read_vocab_map},
    {"distribution_entries", OR_API_COUNT, .offset = AT(distribution_entries), .least = 1,
     .most = OR_DISTRIBUTION_ENTRIES_MAX},
    {"details", OR_API_FLAG, .offset = offsetof(or_api_reading_t, made.details)},
    {0}};

bool or_api_read_draft(void *into, const char *param, const json_t *value,
                       or_api_problem_t *problem)
{
    or_api_reading_t *reading = into;
    if (json_is_boolean(value) || or_api_is_word(value, "off")) {
        reading->made.generate.plain = !json_is_true(value);
        return true;
    }
    if (!json_is_object(value)) {
        return or_api_refuse(problem, 400, NULL, param,
                             "'%s' must be an object of settings, or false for none.", param);
    }
    return or_api_object_read(value, param, fields, into, problem);
}

// ---- all together ----

static or_status_t settle_rule(const or_api_reading_t *reading, or_generate_request_t *generate)
{
    or_accept_rule_t rule =
        generate->vocab_method == OR_VOCAB_SLRS ? OR_ACCEPT_SLRS : OR_ACCEPT_COUPLED;
    or_draft_method_t method;
    or_status_t status =
        reading->accept != NULL ? or_accept_rule_parse(reading->accept, &rule) : OR_OK;
    if (status != OR_OK) {
        return status;
    }
    method = or_accept_rule_usual_method(rule);
    status = reading->method != NULL ? or_draft_method_parse(reading->method, &method) : OR_OK;
    if (status != OR_OK) {
        return status;
    }
    generate->accept_rule = rule;
    generate->draft_method = method;
    generate->plain = generate->plain || method == OR_DRAFT_NONE;
    status = or_vocab_method_check(generate->vocab_method, rule);
    return status == OR_OK ? or_methods_check(method, rule, generate->sampling.temperature)
                           : status;
}

static bool settle_shape(or_api_reading_t *reading, or_api_problem_t *problem)
{
    or_generate_request_t *generate = &reading->made.generate;
    or_shape_t shape;
    if (reading->shape == NULL || generate->plain) {
        return true;
    }
    or_status_t status = or_shape_parse(reading->shape, &shape);
    if (status == OR_OK) {
        status = or_shape_check(&shape, (or_draft_method_t)generate->draft_method,
                                generate->draft_depth);
    }
    if (status != OR_OK) {
        return refuse_with_error(problem, "draft.shape");
    }
    uint32_t *widths = or_api_keep(&reading->made, shape.count, sizeof *widths, problem);
    if (widths != NULL) {
        memcpy(widths, shape.widths, shape.count * sizeof *widths);
        generate->draft_shape = widths;
        generate->draft_shape_count = shape.count;
    }
    return widths != NULL;
}

// Guesses that are drawn, and rules that believe how, are for one text alone.
static bool may_go_ahead(const or_generate_request_t *generate)
{
    uint32_t method = generate->draft_method, rule = generate->accept_rule;
    return (method == OR_DRAFT_COUPLED || method == OR_DRAFT_TOPK) &&
           (rule == OR_ACCEPT_COUPLED || rule == OR_ACCEPT_GREEDY || rule == OR_ACCEPT_NAIVE);
}

static bool settle_ahead(or_api_reading_t *reading, or_api_problem_t *problem)
{
    or_generate_request_t *generate = &reading->made.generate;
    if (!reading->ahead_given) {
        generate->draft_ahead = generate->draft_policy == OR_POLICY_AUTO ? AHEAD_AUTO : 0;
    } else if (generate->draft_ahead > 0 && !generate->plain && !may_go_ahead(generate)) {
        return or_api_refuse(problem, 400, NULL, "draft.ahead",
                             "'draft.ahead' goes with the methods coupled and topk under the rules "
                             "coupled, greedy and naive only: leave it out.");
    }
    return true;
}

bool or_api_settle_draft(or_api_reading_t *reading, or_api_problem_t *problem)
{
    or_generate_request_t *generate = &reading->made.generate;
    generate->draft_nodes = generate->draft_nodes > 0 ? generate->draft_nodes : NODES_USUAL;
    generate->draft_depth = generate->draft_depth > 0 ? generate->draft_depth : DEPTH_USUAL;
    generate->details = reading->made.details;
    if (settle_rule(reading, generate) != OR_OK) {
        return refuse_with_error(problem, "draft");
    }
    if (or_accept_rule_is_lossy(generate->accept_rule)) {
        return or_api_refuse(
            problem, 400, NULL, "draft.accept",
            "'draft.accept': %s does not sample the target's distribution, and over HTTP "
            "nothing else is offered: use coupled.",
            reading->accept);
    }
    return settle_shape(reading, problem) && settle_ahead(reading, problem);
}
