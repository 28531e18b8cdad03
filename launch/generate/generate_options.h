// generate_options - the command line of `outrider generate`, and the request it makes.
#pragma once

#include "common/base/options/options.h"
#include "launch/cluster/target_options.h"
#include "proto/keys/keys.h"
#include "proto/wire/message.h"

typedef struct {
    char *model, *draft_model;
    or_option_list_t multi_models;
    char *acceptance_file;
    char *connect;
    or_key_options_t keys; // to connect with
    bool padding;
    char *owner;
    uint32_t busy_wait_s, reconnect_wait_s;
    char *prompt, *file;
    int32_t predict; // -1: until an end token or the context
    uint32_t context, threads, draft_threads;
    or_target_options_t target;
    or_sampling_t sampling;
    or_option_list_t logit_bias;
    or_option_list_t stop;
    char *seed; // a number or "random"
    bool ignore_end, special;
    char *draft_method; // NULL: the rule's usual one
    char *accept;       // NULL: coupled, or what --vocab-map needs
    char *vocab_map;
    char *draft_shape; // NULL: the method's own
    uint32_t draft_nodes, draft_depth, distribution_entries;
    char *draft_policy;
    int32_t draft_ahead; // OR_DRAFT_AHEAD_USUAL: not given
    bool allow_lossy, draft_calibrated;
    float lenience, typical_epsilon, typical_delta, draft_threshold; // 0: the usual
    float draft_temperature;                                         // -1: not given
    bool plain, json, verbose, display_prompt;
    char *log_level;
} or_generate_config_t;

extern const or_option_program_t or_generate_program;

or_generate_config_t or_generate_config_default(void);

// What the options ask for. Arrays belong to the request (or_generate_request_free) or to `config`,
// which must outlive it. A seed nobody chose is drawn here. OR_ERR_INVALID names the option;
// OR_ERR_IO if the prompt's file cannot be read.
or_status_t or_generate_request_make(const or_generate_config_t *config,
                                     or_generate_request_t *request);
bool or_generate_seed_is_drawn(const char *text);
// A number, or "random" for one that is drawn here. Below 2^63, so that every JSON reader can take it back. OR_ERR_INVALID.
or_status_t or_generate_seed_parse(const char *text, uint64_t *seed);
void or_generate_request_free(or_generate_request_t *request);
