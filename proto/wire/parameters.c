#include "proto/wire/parameters.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/decode/token_tree.h"

#define AT(field) offsetof(or_parameters_t, field)
#define AHEAD_OF_AUTO                                                                              \
    4u // rounds that policy auto goes ahead at most where nothing is said; fixed does not

#define NODES 16u
#define NODES_OF_AUTO 64u // trees that grow guess by guess: policy auto finds how many of them pay

static_assert(offsetof(or_parameters_t, request) == 0,
              "rows of a request's fields are found in it");

// ---- the rows ----

static const char *policy_names(void)
{
    return "fixed, auto";
}

const or_option_t or_sampling_parameters[] = {
    {"temp", NULL, OR_OPTION_FLOAT, AT(request.sampling.temperature), "T",
     "temperature; 0 takes the best token", .bounds = {0, INFINITY}, .field = "temperature",
     .field_bounds = {0, 2}},
    {"top-k", NULL, OR_OPTION_UINT32, AT(request.sampling.top_k), "K",
     "the K best tokens only; 0: off", .field = "top_k", .field_bounds = {-1, INT32_MAX}},
    {"top-p", NULL, OR_OPTION_FLOAT, AT(request.sampling.top_p), "P",
     "the fewest tokens whose probabilities reach P; 1: off", .bounds = {0, 1}, .field = "top_p"},
    {"min-p", NULL, OR_OPTION_FLOAT, AT(request.sampling.min_p), "P",
     "tokens of at least P times the best one's probability; 0: off", .bounds = {0, 1},
     .field = "min_p"},
    {"repeat-penalty", NULL, OR_OPTION_FLOAT, AT(request.sampling.repeat_penalty), "X",
     "make tokens seen lately less likely; 1: off", .bounds = {0, INFINITY, .above = true},
     .field = "repetition_penalty", .field_bounds = {0.01, 100}},
    {"presence-penalty", NULL, OR_OPTION_FLOAT, AT(request.sampling.presence_penalty), "X",
     "subtracted from the logit of a token seen lately; 0: off", .field = "presence_penalty",
     .field_bounds = {-2, 2}},
    {"frequency-penalty", NULL, OR_OPTION_FLOAT, AT(request.sampling.frequency_penalty), "X",
     "subtracted as often as it was seen; 0: off", .field = "frequency_penalty",
     .field_bounds = {-2, 2}},
    {"repeat-last-n", NULL, OR_OPTION_INT32, AT(request.sampling.repeat_last_n), "N",
     "how far back 'lately' reaches; 0: off, -1: all", .bounds = {-1, INT32_MAX},
     .field = "repeat_last_n"},
    {0}};

const or_option_t or_drafting_parameters[] = {
    {"draft-method", NULL, OR_OPTION_STRING, AT(method), "NAME",
     "{}, or none (as --plain); if not given, what suits --accept", .choices = or_draft_method_list,
     .field = "draft.method"},
    {"accept", NULL, OR_OPTION_STRING, AT(accept), "NAME",
     "acceptance rule: coupled; greedy at temperature 0; naive; sps, block, kseq, otm, "
     "multi-round, recursive or traversal, which believe what the drafter says it drew and take "
     "trusted drafters only; slrs with --vocab-map slrs; typical, lenient with --allow-lossy; if "
     "not given, coupled",
     .choices = or_accept_rule_list, .field = "draft.accept"},
    {"vocab-map", NULL, OR_OPTION_STRING, AT(vocab_map), "NAME",
     "a drafter of another vocabulary: tli (draft what both have), slem (by way of the text), slrs "
     "(its rejection rule), union (the papers' baseline), same (none such), or auto; see outrider "
     "model compare",
     .choices = or_vocab_method_list, .field = "draft.vocab_map"},
    {"draft-nodes", NULL, OR_OPTION_UINT32, AT(request.draft_nodes), "N",
     "most guesses a round; 0: 16, or 64 where policy auto chooses how many (methods coupled and "
     "topk)",
     .bounds = {1, OR_TREE_NODES_MAX, .has_other = true, .other = OR_NODES_USUAL},
     .field = "draft.nodes", .field_bounds = {1, OR_TREE_NODES_MAX}},
    {"draft-depth", NULL, OR_OPTION_UINT32, AT(request.draft_depth), "N", "most guesses in a row",
     .bounds = {1, INFINITY}, .field = "draft.depth", .field_bounds = {1, OR_TREE_NODES_MAX}},
    {"draft-policy", NULL, OR_OPTION_STRING, AT(policy), "NAME",
     "auto: as much of what was asked for as the link, the load and the text make worth its time, "
     "or "
     "none; fixed: wait for all of it, in every round",
     .choices = policy_names, .field = "draft.policy"},
    {"draft-ahead", NULL, OR_OPTION_INT32, AT(ahead), "N",
     "draft on while rounds are in flight: 1 has the next tree ready, 2 to 8 send guesses for so "
     "many rounds (methods coupled and topk); -1: 4, or 0 with --draft-policy fixed",
     .bounds = {0, OR_AHEAD_MAX, .has_other = true, .other = OR_AHEAD_USUAL},
     .field = "draft.ahead", .field_bounds = {0, OR_AHEAD_MAX}},
    {"draft-shape", NULL, OR_OPTION_STRING, AT(shape), "SHAPE",
     "mcsd, rsd-c: children by level, as 4x2x1; rsd-s, kseq, multi: width x length, as 4x4; "
     "instead of --draft-nodes and --draft-depth",
     .field = "draft.shape"},
    {"distribution-entries", NULL, OR_OPTION_UINT32, AT(request.distribution_entries), "K",
     "rules that believe draws: tokens of a drafter's distribution that are drawn from and sent",
     .bounds = {1, OR_DISTRIBUTION_ENTRIES_MAX}, .field = "draft.distribution_entries"},
    {"draft-threshold", NULL, OR_OPTION_FLOAT, AT(request.draft_threshold), "P",
     "dyspec-t: keep guesses likelier to be reached than P; 0: what suits the number of nodes",
     .bounds = {0, 1}, .field = "draft.threshold"},
    {"draft-calibrated", NULL, OR_OPTION_FLAG, AT(request.draft_calibrated), NULL,
     "dyspec, dyspec-t: grow by measured acceptance, not by the drafter's probabilities",
     .field = "draft.calibrated"},
    {"allow-lossy", NULL, OR_OPTION_FLAG, AT(request.allow_lossy), NULL,
     "rules that do not sample the target's distribution may be asked for"},
    {"lenience", NULL, OR_OPTION_FLOAT, AT(request.lenience), "L",
     "lenient: how much likelier than the target the drafter may be; 0: the usual, 2",
     .bounds = {1, 1e6, .has_other = true}},
    {"typical-epsilon", NULL, OR_OPTION_FLOAT, AT(request.typical_epsilon), "E",
     "typical: tokens of more than this probability pass; 0: the usual, 0.09", .bounds = {0, 1}},
    {"typical-delta", NULL, OR_OPTION_FLOAT, AT(request.typical_delta), "D",
     "typical: less is enough where the target is unsure; 0: the usual, 0.3", .bounds = {0, 1e6}},
    {"draft-temp", NULL, OR_OPTION_FLOAT, AT(temperature), "T",
     "the drafter's temperature; -1: as --temp, or 1 where that is 0",
     .bounds = {0, INFINITY, .above = true, .has_other = true, .other = -1},
     .field = "draft.temperature", .field_bounds = {0, 100, .above = true}},
    {"plain", NULL, OR_OPTION_FLAG, AT(request.plain), NULL, "no drafter at all"},
    {0}};

static const or_option_t *const tables[] = {or_sampling_parameters, or_drafting_parameters};
#define TABLES (sizeof tables / sizeof *tables)

static const or_option_t *find(const char *text, bool field)
{
    for (size_t i = 0; i < TABLES; i++) {
        for (const or_option_t *row = tables[i]; row->name != NULL; row++) {
            const char *known = field ? row->field : row->name;
            if (known != NULL && strcmp(known, text) == 0) {
                return row;
            }
        }
    }
    return NULL;
}

const or_option_t *or_parameter_of_field(const char *field)
{
    return find(field, true);
}

const char *or_name_field(const char *option)
{
    const or_option_t *row = find(option + strlen("--"), false);
    return row != NULL ? row->field : NULL;
}

or_parameters_t or_parameters_default(void)
{
    return (or_parameters_t){.request = {.sampling = or_sampling_default(),
                                         .draft_nodes = OR_NODES_USUAL,
                                         .draft_depth = 16,
                                         .distribution_entries = OR_DISTRIBUTION_ENTRIES},
                             .vocab_map = (char *)"auto",
                             .policy = (char *)"auto",
                             .ahead = OR_AHEAD_USUAL,
                             .temperature = -1};
}

// ---- settling ----

static or_status_t settle_policy(const or_parameters_t *asked, or_naming_t name,
                                 or_generate_request_t *request)
{
    uint32_t kind = 0;
    while (or_draft_policy_name(kind) != NULL &&
           strcmp(or_draft_policy_name(kind), asked->policy) != 0) {
        kind++;
    }
    request->draft_policy = kind;
    return or_draft_policy_name(kind) != NULL
               ? OR_OK
               : or_fail(OR_ERR_INVALID, "%s: '%s' is neither fixed nor auto",
                         name("--draft-policy"), asked->policy);
}

or_status_t or_parameters_values(const or_parameters_t *asked, or_naming_t name,
                                 or_generate_request_t *request, const char **option)
{
    const char *wrong = "--vocab-map";
    or_vocab_method_t vocab_method;
    or_generate_request_t made = asked->request;
    or_status_t status = or_vocab_method_parse(asked->vocab_map, &vocab_method);
    if (status == OR_OK) {
        wrong = "--draft-policy";
        status = settle_policy(asked, name, &made);
    }
    if (status != OR_OK) {
        *(option != NULL ? option : &wrong) = wrong;
        return status;
    }
    made.vocab_method = vocab_method;
    made.draft_ahead = asked->ahead != OR_AHEAD_USUAL        ? (uint32_t)asked->ahead
                       : made.draft_policy == OR_POLICY_AUTO ? AHEAD_OF_AUTO
                                                             : 0;
    made.draft_nodes = made.draft_nodes == OR_NODES_USUAL ? NODES : made.draft_nodes;
    made.has_draft_temperature = asked->temperature >= 0;
    made.draft_temperature = made.has_draft_temperature ? asked->temperature : 0;
    *request = made;
    return OR_OK;
}

static or_status_t settle_methods(const or_parameters_t *asked, or_naming_t name,
                                  or_generate_request_t *request)
{
    or_accept_rule_t rule =
        request->vocab_method == OR_VOCAB_SLRS ? OR_ACCEPT_SLRS : OR_ACCEPT_COUPLED;
    or_draft_method_t method = OR_DRAFT_NONE;
    or_status_t status = asked->accept != NULL ? or_accept_rule_parse(asked->accept, &rule) : OR_OK;
    if (status == OR_OK) {
        status = or_vocab_method_check_as(name, request->vocab_method, rule);
    }
    if (status == OR_OK) {
        method = or_accept_rule_usual_method(rule);
        status = asked->method != NULL ? or_draft_method_parse(asked->method, &method) : OR_OK;
    }
    if (status == OR_OK) {
        status = or_methods_check_as(name, method, rule, request->sampling.temperature);
    }
    if (status == OR_OK) {
        request->accept_rule = rule;
        request->draft_method = method;
        request->plain = request->plain || method == OR_DRAFT_NONE;
        bool chooses = request->draft_policy == OR_POLICY_AUTO && or_methods_go_ahead(method, rule);
        bool usual = asked->request.draft_nodes == OR_NODES_USUAL;
        request->draft_nodes = usual && chooses ? NODES_OF_AUTO : request->draft_nodes;
    }
    return status;
}

static or_status_t check_lossy(const or_generate_request_t *request, or_naming_t name)
{
    const char *rule = or_accept_rule_name(request->accept_rule), *allow = name("--allow-lossy");
    if (!or_accept_rule_is_lossy(request->accept_rule) || request->allow_lossy) {
        return OR_OK;
    }
    if (allow == NULL) {
        return or_fail(OR_ERR_INVALID,
                       "%s does not sample the target's distribution, and over HTTP nothing else "
                       "is offered: use coupled.",
                       rule);
    }
    return or_fail(OR_ERR_INVALID,
                   "%s %s does not sample the target's distribution: allow that with %s, or use %s "
                   "coupled",
                   name("--accept"), rule, allow, name("--accept"));
}

static or_status_t settle_shape(const or_parameters_t *asked, or_naming_t name,
                                or_generate_request_t *request, or_shape_t *shape)
{
    *shape = (or_shape_t){0};
    if (asked->shape == NULL || request->plain) {
        return OR_OK;
    }
    or_status_t status = or_shape_parse(asked->shape, shape);
    if (status == OR_OK) {
        status = or_shape_check_as(name, shape, (or_draft_method_t)request->draft_method,
                                   request->draft_depth);
    }
    request->draft_shape = shape->widths;
    request->draft_shape_count = shape->count;
    return status;
}

// A value that was asked for by name must be possible. The coordinator leaves out what comes by itself.
static or_status_t check_ahead(const or_parameters_t *asked, or_naming_t name,
                               const or_generate_request_t *request)
{
    if (asked->ahead <= 0 || request->plain ||
        or_methods_go_ahead(request->draft_method, request->accept_rule)) {
        return OR_OK;
    }
    bool looks_up = !or_draft_method_has(request->draft_method, OR_DRAFT_ASKS_MODEL);
    return or_fail(OR_ERR_INVALID,
                   "%s: guesses of %s for %s %s: leave it out, or use %s coupled or topk with %s "
                   "coupled, greedy or naive",
                   name("--draft-ahead"), or_draft_method_name(request->draft_method),
                   or_accept_rule_name(request->accept_rule),
                   looks_up ? "are looked up in no time, which leaves nothing to do ahead"
                            : "are drawn for one text alone",
                   name("--draft-method"), name("--accept"));
}

or_status_t or_parameters_settle(const or_parameters_t *asked, or_naming_t name,
                                 or_generate_request_t *request, or_shape_t *shape,
                                 const char **option)
{
    const char *wrong = NULL;
    or_generate_request_t made;
    or_status_t status = or_parameters_values(asked, name, &made, &wrong);
    if (status == OR_OK) {
        status = settle_methods(asked, name, &made);
    }
    if (status == OR_OK) {
        wrong = "--accept";
        status = check_lossy(&made, name);
    }
    if (status == OR_OK) {
        wrong = "--draft-shape";
        status = settle_shape(asked, name, &made, shape);
    }
    if (status == OR_OK) {
        wrong = "--draft-ahead";
        status = check_ahead(asked, name, &made);
    }
    if (status == OR_OK) {
        *request = made;
    } else if (option != NULL) {
        *option = wrong;
    }
    return status;
}

// ---- a peer's ----

or_status_t or_parameters_check(const or_generate_request_t *request)
{
    for (size_t i = 0; i < TABLES; i++) {
        for (const or_option_t *row = tables[i]; row->name != NULL; row++) {
            double number;
            char option[64];
            if (row->offset >= sizeof *request || !or_option_number(row, request, &number) ||
                number == 0) {
                continue;
            }
            snprintf(option, sizeof option, "--%s", row->name);
            or_status_t status = or_bounds_check(&row->bounds, option, number);
            if (status != OR_OK) {
                return status;
            }
        }
    }
    return OR_OK;
}
