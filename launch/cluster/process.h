// process - one child process: started, watched, ended by id and reaped.
//
// A child dies with us (PR_SET_PDEATHSIG). It sits in a process group of its own, so that Ctrl-C reaches us alone and we end
// it in order. It reads nothing, and writes its log to our standard error or to a memory file that or_process_describe_end
// quotes. Main thread only.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "common/base/status.h"

#define OR_PROCESS_ARGS_MAX 64

typedef struct {
    const char *name; // borrowed: "outrider-verifier"
    pid_t pid;        // 0: not running
    int log_fd;       // what it has written; -1 if that went to our standard error
} or_process_t;

#define OR_PROCESS_NONE ((or_process_t){NULL, 0, -1})

// Start the program `name` next to our own with `args` (NULL-terminated, without the name).
// `keep_fd` (-1: none) stays open in it. OR_ERR_NOT_FOUND, OR_ERR_IO.
or_status_t or_process_start(or_process_t *process, const char *name, const char *const *args,
                             bool show_log, int keep_fd);

// The same for the program at `path`, which messages call `name`. `kept`: it cleans up on its first SIGTERM and gives up
// cleaning at the next, as mpirun does. The kernel tells a child of our death once for each of our threads, so a process of one
// thread stands between, whose id is process->pid. It passes one SIGTERM on, kills what does not end within 2 s of it, and
// ends as the program did.
or_status_t or_process_start_at(or_process_t *process, const char *name, const char *path,
                                const char *const *args, bool show_log, bool kept);

// True once it has ended; it is reaped and *wait_status is waitpid's. False while it runs or if it
// never did.
bool or_process_ended(or_process_t *process, int *wait_status);

// Write "outrider-verifier was killed by signal 9 (Killed); its last words: ..." into `text`.
void or_process_describe_end(const or_process_t *process, int wait_status, char *text,
                             size_t capacity);
// Copy its first line about an error or a killed rank, else its last line, without time, level and role; "" if nothing was
// kept. The last line alone would not do: MPI and others print noise behind the cause.
void or_process_last_words(const or_process_t *process, char *text, size_t capacity);
// Copy the first line of its log that has these words, likewise; "" if there is none so far, or not in the log's beginning.
void or_process_line(const or_process_t *process, const char *words, char *text, size_t capacity);

// End all of them: SIGTERM; after `patience_ns`, which is logged (debug), or at once when the user's second
// Ctrl-C comes, SIGKILL; reap, and close their logs. Those that do not run are left out.
void or_process_stop_all(or_process_t *processes, size_t count, int64_t patience_ns);
