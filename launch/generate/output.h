// output - a text as it grows, on standard output.
#pragma once

#include "common/base/status.h"

// At once and whole. Not by stdio, for which a signal in the middle of writing to a terminal is an error; what stdio holds back
// of standard output must be flushed before. OR_ERR_IO.
or_status_t or_output_write(const char *text, size_t bytes);
