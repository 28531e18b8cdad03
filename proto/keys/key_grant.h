// key_grant - one line of an `authorized` file, as text and as a grant (keyring.h says what it
// looks like).
#pragma once

#include "proto/keys/keyring.h"

#define OR_KEY_GRANT_BYTES 512 // holds any grant as a line

// Does the line say anything? Not if it is empty or a comment: no key begins with "#", which as the
// first of five letters is more than 32 bits hold.
bool or_key_grant_is_there(const char *line);

// What the line grants. `unknown` receives the first name on it that is not known here, cut to
// capacity; "" if there is none. OR_ERR_INVALID says what is wrong with it, without its number.
or_status_t or_key_grant_parse(const char *line, or_key_grant_t *grant, char *unknown,
                               size_t capacity);
// The same of what follows the key on such a line, which is cut up: name=value with blanks between them, into what
// `grant` says already.
or_status_t or_key_grant_take_words(char *words, or_key_grant_t *grant, char *unknown,
                                    size_t capacity);
// A grant that came from elsewhere: the same checks. OR_ERR_INVALID.
or_status_t or_key_grant_check(const or_key_grant_t *grant);
// As a line, without its end.
void or_key_grant_format(const or_key_grant_t *grant, char text[OR_KEY_GRANT_BYTES]);
