// session_internal - how a request becomes a session's prompt and terms (session_request.c), for session.c.
#pragma once

#include "coordinator/session/session.h"

// The prompt's tokens into the log: as they came, of a text, or of a conversation. OR_ERR_INVALID, OR_ERR_UNSUPPORTED,
// OR_ERR_NO_MEMORY, with a sentence for the client.
or_status_t or_csession_take_prompt(const or_session_target_t *target,
                                    const or_generate_request_t *request, or_csession_t *session);
// session->terms: what the verifier is told, which is the request, checked, with every default filled in. The prompt must
// be there, and the seed. Errors as above.
or_status_t or_csession_make_terms(const or_vocab_t *vocab, const char *owner,
                                   const or_generate_request_t *request, or_csession_t *session);
