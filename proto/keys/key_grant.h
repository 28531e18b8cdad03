// key_grant - one line of an `authorized` file, as text and as a grant (keyring.h says what it
// looks like).
#pragma once

#include "proto/keys/keyring.h"

#define OR_KEY_GRANT_BYTES 512 // holds any grant as a line

// Return true if the line has content: it is neither empty nor a comment. (No key begins with "#": as the first of
// five letters that would be more than 32 bits hold.)
bool or_key_grant_is_there(const char *line);

// Parse the grant on a line. `unknown` receives the first unknown name on it, cut to capacity; "" if there is none.
// OR_ERR_INVALID says what is wrong, without the line's number.
or_status_t or_key_grant_parse(const char *line, or_key_grant_t *grant, char *unknown,
                               size_t capacity);
// Parse the words behind the key on such a line (name=value with blanks between them), which are cut up, into a grant
// that has its defaults.
or_status_t or_key_grant_take_words(char *words, or_key_grant_t *grant, char *unknown,
                                    size_t capacity);
// Check a grant that came from elsewhere in the same way. OR_ERR_INVALID.
or_status_t or_key_grant_check(const or_key_grant_t *grant);
// Write the grant as a line, without its end.
void or_key_grant_format(const or_key_grant_t *grant, char text[OR_KEY_GRANT_BYTES]);
