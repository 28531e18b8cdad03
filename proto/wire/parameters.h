// parameters - what a request may ask of sampling and drafting: one row a parameter, which everybody reads.
//
//     command line, environment, --config ──┐
//     JSON of an HTTP request ──────────────┤──▶ or_parameters_t ── settle ──▶ or_generate_request_t ──▶ wire
//     help, manual pages, /parameters ◀─ rows                                 ◀── or_parameters_check ── a peer's
//
// A row is an option (common/base/options/options.h): its name on a command line and in JSON, its type, bounds,
// choices and help. Most rows fill a field of the request itself. Those that depend on others, or may be absent,
// fill a field of or_parameters_t, and or_parameters_settle makes of them what the request has.
// docs/extending.md says how to add one. Not locked: no state.
#pragma once

#include "common/base/options/options.h"
#include "common/decode/methods.h"
#include "common/decode/shape.h"
#include "proto/wire/message.h"

typedef struct {
    or_generate_request_t
        request;              // first: rows of its fields have the offsets that they have in it
    char *method, *accept;    // names; NULL: what suits the others
    char *vocab_map, *policy; // names
    char *shape;              // as "4x2x1"; NULL: the method's own
    int32_t ahead;            // OR_AHEAD_USUAL: not given
    float temperature;        // of drafting; -1: not given
} or_parameters_t;

#define OR_AHEAD_USUAL (-1)
#define OR_NODES_USUAL 0u // draft_nodes: not given
#define OR_AHEAD_MAX 8u   // rounds that a drafter works ahead

// The rows, for tables of options (OR_OPTION_PART) and for readers of JSON. Each ends with a zeroed row.
extern const or_option_t or_sampling_parameters[], or_drafting_parameters[];
// The row whose parameter has this name in JSON; NULL: there is none.
const or_option_t *or_parameter_of_field(const char *field);
// The naming (common/decode/methods.h) for who writes JSON: "draft.accept" for "--accept".
const char *or_name_field(const char *option);

// Return the values that are used where nothing is asked for. Its strings are literals.
or_parameters_t or_parameters_default(void);

// Make a request of the values that do not depend on the method: numbers, policy, ahead and vocabulary map.
// OR_ERR_INVALID; *option is the one that is wrong. It may be NULL.
or_status_t or_parameters_values(const or_parameters_t *asked, or_naming_t name,
                                 or_generate_request_t *request, const char **option);
// The same with method, rule and shape, and check that all go together. The request borrows its shape from
// `shape`. OR_ERR_INVALID; *option is the one that is wrong, NULL where several do not go together.
or_status_t or_parameters_settle(const or_parameters_t *asked, or_naming_t name,
                                 or_generate_request_t *request, or_shape_t *shape,
                                 const char **option);

// Check the numbers of a request that a peer sent by their rows. 0 is always allowed: it stands for the usual.
// OR_ERR_INVALID.
or_status_t or_parameters_check(const or_generate_request_t *request);
