// writer - one text after another, on a cluster of our own or on a coordinator that runs already.
//
//     open ── write ── write ── ... ── close
//
// What `outrider generate` and `outrider chat` share. It says on standard error who writes, and why nothing comes; Ctrl-C ends
// the text that is being written. Main thread, with or_interrupt_watch.
#pragma once

#include "launch/cluster/http_options.h"
#include "launch/generate/generate_options.h"
#include "launch/generate/report.h"

typedef struct or_writer or_writer_t;

// Takes a delta that is in the report already. Anything but OR_OK ends the text.
typedef or_status_t (*or_writer_take_t)(void *context, const or_generate_delta_t *delta);

// Start the cluster, unless --connect names one that runs. Borrows `config`, which or_generate_request_make has checked,
// until close; `http` (NULL: none) is what the cluster's coordinator is told, borrowed too. Fails as or_cluster_start does.
or_status_t or_writer_open(const or_generate_config_t *config, const or_http_options_t *http,
                           or_writer_t **writer_p);
// The children have nothing to save: at most half a second. NULL is fine.
void or_writer_close(or_writer_t **writer_p);

// Write one text. `report` must be zeroed, and is the caller's to fini whatever comes. A first interrupt since `interrupts` (what or_interrupt_count
// was) asks for the end of the text, whose finish is CANCELLED then; a second one does not wait for it. OR_ERR_INVALID with the coordinator's
// sentence if it refuses the request, OR_ERR_FULL if it is busy; else as or_requests_next, or_cluster_check and `take` do.
or_status_t or_writer_write(or_writer_t *writer, const or_generate_request_t *request,
                            int interrupts, or_writer_take_t take, void *context,
                            or_report_t *report);
