// api_json - JSON that is whole, or none.
//
// libjansson leaves out what it has no memory for: an entry of a list, a member of an object, with a result that hardly anybody can
// look at each time. So all that it allocates comes through here, a failure is noted for the thread that met it, and or_api_dump
// gives no text of what was made since the dump before. Of several objects that are made before the first of them is dumped,
// none may be used once one's dump has failed.
#pragma once

#include <jansson.h>
#include <stdbool.h>

// Once, before other threads use libjansson.
void or_api_json_init(void);
// This thread had no memory for a part of what it is making.
void or_api_json_note_failure(void);
// Was that so since this thread last asked, or dumped something?
bool or_api_json_has_failed(void);

// One line without spaces; malloc'd. NULL: no memory, for the text or for a part of the object. Takes the object, which may be NULL.
char *or_api_dump(json_t *object);
