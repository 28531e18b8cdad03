// journal_writer - the threads that do a journal's disk work, so that no text waits for the disk.
//
//     hub ──submit──▶ queue ──▶ writer: write(2), in order ──▶ done ──▶ hub          told of by a descriptor
//                                  └─▶ names ──▶ syncer: fdatasync(2) every two seconds      nobody waits for it
//
// Bytes that were written survive the death of the process; those that were synced, that of the machine.
// The queue has no bound of its own: whoever submits has one work a text, and counts the bytes. All calls are one
// thread's, and none waits for the disk but wait and stop.
#pragma once

#include "coordinator/journal/journal_disk.h"

typedef struct or_journal_writer or_journal_writer_t;

// Borrows the folder. OR_ERR_NO_MEMORY, OR_ERR_IO.
or_status_t or_journal_writer_start(int folder, or_journal_writer_t **writer_p);
// Do what is queued and end. False: the disk does not answer (5 s), and what was submitted, the folder and the threads
// are left as they are, for the end of the process.
bool or_journal_writer_stop(or_journal_writer_t **writer_p);

// Borrows the work until or_journal_writer_next gives it back.
void or_journal_writer_submit(or_journal_writer_t *writer, or_journal_work_t *work);
// The next work that is done, in the order of submission; NULL: none is.
or_journal_work_t *or_journal_writer_next(or_journal_writer_t *writer);
// Readable when something is done since next gave NULL.
int or_journal_writer_fd(const or_journal_writer_t *writer);
// Until all that was submitted is done, at most so long.
void or_journal_writer_wait(or_journal_writer_t *writer, uint32_t ms);
