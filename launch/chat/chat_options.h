// chat_options - the command line of `outrider chat`: that of `outrider generate` without what belongs to a single prompt, and
// a conversation's own.
#pragma once

#include "launch/generate/generate_options.h"

typedef struct {
    or_generate_config_t generate; // first: its rows are taken over as they are
    char *system;                  // NULL: none
    char *chat_template;           // NULL: the model's own; or a family's name, or "none"
    bool colour;
} or_chat_config_t;

const or_option_program_t *or_chat_program(void);
or_chat_config_t or_chat_config_default(void);
// OR_ERR_INVALID for a template that makes no sense.
or_status_t or_chat_config_check(const or_chat_config_t *config);
// --chat-template none: no template at all.
bool or_chat_config_is_plain(const or_chat_config_t *config);
