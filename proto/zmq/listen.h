// listen - a listening socket of the operating system for one of our endpoints.
#pragma once

#include "common/base/status.h"

// Listen at tcp://ADDRESS:PORT or ipc://PATH. ADDRESS is an address, the name of a network interface, or * for all;
// the port may be * or 0, which is any free one. The socket neither blocks nor outlives exec. `bound` receives the
// endpoint as it really is, cut to capacity. A path without a listener is taken over. OR_ERR_IO with the sentence of
// or_endpoint_fail_listening.
or_status_t or_listen(const char *endpoint, int *fd_p, char *bound, size_t capacity);
// Close the socket, and remove its path.
void or_listen_end(int fd);
