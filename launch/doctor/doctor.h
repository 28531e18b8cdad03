// doctor - what `outrider doctor` looks at, and how it says what it found.
//
//     installation
//       ok    kernels            avx2 (ref avx2 can run here)
//       warn  mpirun             not found
//             -> install it (Debian: openmpi-bin) to run the target on several ranks
//
// A line is printed as soon as it is known, or kept for the one line of JSON. A check never ends
// the others, and none waits without a limit. Signals are left alone, so that Ctrl-C ends it at
// once, whatever it waits for. Main thread only.
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "common/base/cpus.h"
#include "common/base/status.h"
#include "proto/keys/keys.h"

typedef enum { OR_CHECK_OK, OR_CHECK_WARN, OR_CHECK_FAIL } or_check_state_t;

typedef struct {
    json_t *checks;    // owned; NULL: lines of text
    const char *group; // of the checks that follow
    unsigned counts[OR_CHECK_FAIL + 1];
} or_doctor_t;

// A model as the checks see it.
typedef struct {
    const char *role;    // "target", "draft"
    const char *path;    // borrowed; NULL: there is none
    bool given;          // named by the user, so what a coordinator has must fit it
    uint64_t memory;     // bytes for its weights, one context's cache and a pass; 0: not known
    uint64_t pass_bytes; // or_model_pass_bytes
    uint64_t vocab_hash; // 0: not known
    uint32_t vocab_size;
} or_doctor_model_t;

// A coordinator that was found.
typedef struct {
    const char *endpoint;         // borrowed
    const or_key_options_t *keys; // who we are there, and who it is; borrowed
    bool answers;                 // and fits
    bool has_verifier;
} or_doctor_hub_t;

// OR_ERR_NO_MEMORY.
or_status_t or_doctor_init(or_doctor_t *doctor, bool json);
// Print the summary, and what to do or to type now, and free what is owned. OR_ERR_NO_MEMORY.
or_status_t or_doctor_finish(or_doctor_t *doctor, const char *advice);

void or_doctor_begin_group(or_doctor_t *doctor, const char *group);
// Report one check. `advice` says what to do where it is not ok; else it is NULL. What files and peers say is made printable.
void or_doctor_say(or_doctor_t *doctor, or_check_state_t state, const char *name,
                   const char *advice, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
// Report or_error_text() as a failed check.
void or_doctor_say_error(or_doctor_t *doctor, const char *name, const char *advice);

typedef struct {
    char text[24];
} or_doctor_bytes_t;
// Write a number of bytes as "2.1 GiB".
or_doctor_bytes_t or_doctor_bytes(uint64_t bytes);

// ---- what is looked at ----

// `connects`: to a coordinator elsewhere, so that not every program is needed here.
void or_doctor_check_installation(or_doctor_t *doctor, bool connects);

// Check in which memory nodes threads on these CPUs would run. `root` is the folder of the system's files (numa_nodes.h).
// Where models run `on_gpu` it does not matter.
void or_doctor_check_numa(or_doctor_t *doctor, const char *root, const or_cpus_t *cpus,
                          bool on_gpu);

// Check the two models (paths may be NULL), alone and as a pair, and fill in what is learned.
void or_doctor_check_models(or_doctor_t *doctor, or_doctor_model_t *target,
                            or_doctor_model_t *draft);

// Can a coordinator listen there? True if one does already: `reached` is then how to connect to it.
bool or_doctor_check_port(or_doctor_t *doctor, const char *endpoint, char *reached,
                          size_t capacity);

// Check the coordinator at hub->endpoint, and how these models fit it.
void or_doctor_check_coordinator(or_doctor_t *doctor, const or_doctor_model_t *target,
                                 const or_doctor_model_t *draft, or_doctor_hub_t *hub);
