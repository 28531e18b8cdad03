// chat_options - the command line of `outrider chat`: that of `outrider generate` without the options of a single
// prompt, and those of a conversation.
#pragma once

#include "launch/generate/generate_options.h"

typedef struct {
    or_generate_config_t generate;
    char *system;        // NULL: none
    char *chat_template; // NULL: the model's own; or a family's name, or "none"
    char *thinking;      // NULL: as the template does it; or a name (common/text/chat/chat.h)
    bool colour;
} or_chat_config_t;

extern const or_option_program_t or_chat_program;

or_chat_config_t or_chat_config_default(void);
// Check the options. OR_ERR_INVALID for a template that makes no sense.
or_status_t or_chat_config_check(const or_chat_config_t *config);
// Does the conversation have no template (--chat-template none)?
bool or_chat_config_is_plain(const or_chat_config_t *config);
