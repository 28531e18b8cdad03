// generate_options - the command line of `outrider generate`, and the request it makes.
#pragma once

#include "common/base/options/options.h"
#include "launch/cluster/cluster_models.h"
#include "proto/keys/keys.h"
#include "proto/wire/parameters.h"

typedef struct {
    or_cluster_models_t models; // of a local cluster
    char *connect;
    or_key_options_t keys; // to connect with
    bool padding;
    char *owner;
    uint32_t busy_wait_s, reconnect_wait_s;
    char *prompt, *file;
    int32_t predict; // -1: until an end token or the context
    or_parameters_t parameters;
    or_option_list_t logit_bias;
    or_option_list_t stop;
    char *seed; // a number or "random"
    bool ignore_end, special;
    bool json, verbose, display_prompt;
    char *log_level;
} or_generate_config_t;

extern const or_option_t or_generate_options[];
extern const or_option_program_t or_generate_program;

or_generate_config_t or_generate_config_default(void);

// Make the request that the options ask for. Its arrays belong to it (or_generate_request_free) or to `config`,
// which must outlive it. A seed that nobody chose is drawn here. OR_ERR_INVALID names the option; OR_ERR_IO if
// the prompt's file cannot be read.
or_status_t or_generate_request_make(const or_generate_config_t *config,
                                     or_generate_request_t *request);
void or_generate_request_free(or_generate_request_t *request);
// Does this text ask for a seed that is drawn?
bool or_generate_seed_is_drawn(const char *text);
// Read a number, or draw one for "random". It is below 2^63, so that every JSON reader can take it back.
// OR_ERR_INVALID.
or_status_t or_generate_seed_parse(const char *text, uint64_t *seed);
