// listen - a listening socket of the system for an endpoint of ours.
#pragma once

#include "common/base/status.h"

// Listen at tcp://ADDRESS:PORT (an address, the name of a network interface, or * for all; the port may be * or 0: any
// free one) or ipc://PATH. Neither blocks nor outlives exec. `bound` receives the endpoint as it really is, cut to
// capacity. A path that nobody listens at any more is taken over. OR_ERR_IO with the sentence of
// or_endpoint_fail_listening.
or_status_t or_listen(const char *endpoint, int *fd_p, char *bound, size_t capacity);
// Close it; a path is removed.
void or_listen_end(int fd);
