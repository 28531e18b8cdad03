// endpoint - where a hub listens and an edge connects, as ZeroMQ writes it: tcp://HOST:PORT or ipc://PATH. An IPv6
// address stands in brackets.
#pragma once

#include <stdbool.h>

#include "common/base/status.h"

// Check an endpoint: it must reach another process, and its port must be one. (ZeroMQ would take a port modulo
// 65536.) A port to listen on may be * or 0, which is any free one. OR_ERR_INVALID.
or_status_t or_endpoint_check(const char *endpoint, bool listening);
// Look the host's name up. ZeroMQ does that in the background, where no one hears that there is no such name.
// OR_ERR_INVALID; a look-up that fails for now is logged and no error. *ipv6: connecting there takes IPv6. A name
// with addresses of both kinds is used by IPv4, which is what listens on localhost.
or_status_t or_endpoint_look_up(const char *endpoint, bool *ipv6);
// Listen at tcp://ADDRESS:PORT or ipc://PATH. ADDRESS is an address, the name of a network interface, or * for all;
// the port may be * or 0, which is any free one. The socket neither blocks nor outlives exec. `bound` receives the
// endpoint as it really is, cut to capacity. A path without a listener is taken over. OR_ERR_IO.
or_status_t or_listen(const char *endpoint, int *fd_p, char *bound, size_t capacity);
// Close the socket, and remove its path.
void or_listen_end(int fd);
