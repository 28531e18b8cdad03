// log_queue - lines on their way to standard error, written by a thread of their own.
//
//     or_log ──line──▶ [ 256 KiB ] ──writer thread──▶ standard error: pipe, socket, file or terminal
//                        full: lines are dropped and counted
//
// Who logs never waits for whoever reads standard error: O_NONBLOCK would do that, too, but belongs to the open file,
// which other processes share. Lines leave in the order in which they came, each whole in one write of at most PIPE_BUF
// bytes, so that those of several processes on one pipe do not mix. When a line finds no room it is dropped, and so are
// all further ones until the queue is written; then a line says how many, exactly where they are missing.
//
// Thread safe. The thread starts with the first line, takes no signals, and does not survive fork: a child has an empty
// queue and starts a thread of its own. At exit what is queued is still written, with the patience of or_log_flush;
// _exit and abort lose it unless or_log_flush is called before.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OR_LOG_LINE_BYTES 4096u             // the longest line with its newline; PIPE_BUF on Linux
#define OR_LOG_QUEUE_BYTES (256u * 1024)    // of lines that wait
#define OR_LOG_FLUSH_NS INT64_C(1000000000) // how long a flush waits

// Queue a line (copied): `bytes` is at most OR_LOG_LINE_BYTES and the last one is the only newline. Never waits for
// standard error, unless the system has no thread for us: then the line is written at once.
void or_log_queue_put(const char *line, size_t bytes);

// Wait until all lines queued so far are written, but not longer than OR_LOG_FLUSH_NS. False if some are not.
bool or_log_queue_flush(void);

// For log.c's settings, which the writer thread reads when it says how many lines were dropped.
void or_log_queue_lock(void);
void or_log_queue_unlock(void);

// In log.c: the line that says it, into `line`; returns its bytes. Called with the lock held.
size_t or_log_compose_dropped(uint64_t lines, char line[OR_LOG_LINE_BYTES]);
