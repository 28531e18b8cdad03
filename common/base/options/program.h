// program - the first and last steps of every main.
#pragma once

// Open /dev/null on those of the descriptors 0, 1 and 2 that came closed. A pipe or socket of ours that
// got such a number would be taken for standard input or output. Before anything else is opened. Large
// blocks come from the system and go back to it: what calloc gives stays untouched until it is used (a
// session's slots, most of which never are).
void or_program_begin(void);

// Give memory that was freed back to the system, if it is much. Takes milliseconds; any thread.
void or_program_trim(void);

// Flush standard output. `code`, or 1 with a sentence on standard error if all went well (0) except
// that what was printed got lost.
int or_program_end(int code);
