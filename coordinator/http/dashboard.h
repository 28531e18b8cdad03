// dashboard - the files of the page at `/` (coordinator/http/dashboard/), which are part of the program: they are embedded
// when it is built, and the page asks nobody else for anything.
//
//     /  /style.css  /app.js  ...  ──▶ bytes, content type, etag
//
// A browser that sends the etag back (If-None-Match) may be answered 304; the files change with the program only. Any
// thread.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *path;         // "/app.js"; the page itself is "/"
    const char *content_type; // with its charset
    const char *etag;         // quoted, as the header has it
    const uint8_t *bytes;
    size_t count;
} or_dashboard_file_t;

// NULL: the dashboard has no such file. `path` is compared as it is, without a query. Lives as long as the program.
const or_dashboard_file_t *or_dashboard_file(const char *path);
