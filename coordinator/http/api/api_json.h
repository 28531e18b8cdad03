// api_json - JSON that is whole, or none.
//
// libjansson leaves out what it has no memory for: an entry of a list, a member of an object, with a result that hardly anybody
// can look at each time. So all that it allocates comes through here, and a failure is noted for the thread that met it. Then
// or_api_dump gives no text of what was made since the dump before. Of several objects that are made before the first of them
// is dumped, none may be used once one's dump has failed.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

// Call it once, before other threads use libjansson.
void or_api_json_init(void);
// Note that this thread had no memory for a part of what it is making.
void or_api_json_note_failure(void);
// Was that so since this thread last asked, or dumped something?
bool or_api_json_has_failed(void);

// Make one line without spaces, malloc'd. Takes the object, which may be NULL. NULL: there was no memory for the text,
// or for a part of the object.
char *or_api_dump(json_t *object);

// JSON text that grows: an answer costs its own bytes until it is whole, not those of objects. A text that has failed
// for want of memory takes nothing more; its user looks at `failed` at the end. One thread.
typedef struct {
    char *bytes; // NUL behind them; NULL: none yet
    size_t count, capacity;
    bool failed;
} or_api_text_t;

void or_api_text_fini(or_api_text_t *text);
void or_api_text_add(or_api_text_t *text, const char *bytes, size_t count);
void or_api_text_say(or_api_text_t *text, const char *words);
// Add the members of an object, or the entries of an array, without their brackets; behind a comma if there are some
// before them. Takes `more`, of which NULL means a failure.
void or_api_text_join(or_api_text_t *text, json_t *more);
