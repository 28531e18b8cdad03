// readiness - says whether the verifier serves. A file is there while it does (Kubernetes, scripts, our own
// launcher), and systemd is notified (sd_notify(3): datagrams to $NOTIFY_SOCKET; READY=1 once, STATUS= at each
// change, STOPPING=1 at the end).
#pragma once

#include <stdbool.h>

typedef struct {
    const char *path; // borrowed; NULL: no file
    bool ready;
    bool told; // READY=1
} or_readiness_t;

// Begin, before slow work: a file left behind by a killed process is removed. A file that cannot be written or
// removed is warned of.
void or_readiness_init(or_readiness_t *readiness, const char *path);
// Say whether the verifier serves, as often as you like: only changes are told.
void or_readiness_set(or_readiness_t *readiness, bool ready);
void or_readiness_fini(or_readiness_t *readiness);
