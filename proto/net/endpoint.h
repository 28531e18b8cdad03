// endpoint - where a hub listens and an edge connects, as ZeroMQ writes it: tcp://HOST:PORT or ipc://PATH. An IPv6
// address stands in brackets.
#pragma once

#include <stdbool.h>

#include "common/base/status.h"

// Check an endpoint: it must reach another process, and its port must be one. (ZeroMQ would take a port modulo
// 65536.) A port to listen on may be * or 0, which is any free one. OR_ERR_INVALID.
or_status_t or_endpoint_check(const char *endpoint, bool listening);
// Return true if its host is an IPv6 address. [::] stands for every address of this machine, those of IPv4 too.
bool or_endpoint_is_ipv6(const char *endpoint);
// Look the host's name up. ZeroMQ does that in the background, where no one hears that there is no such name.
// OR_ERR_INVALID; a look-up that fails for now is logged and no error. *ipv6: connecting there takes IPv6. A name
// with addresses of both kinds is used by IPv4, which is what listens on localhost.
or_status_t or_endpoint_look_up(const char *endpoint, bool *ipv6);
// Fail with the sentence for an errno of zmq_bind. OR_ERR_IO.
or_status_t or_endpoint_fail_listening(const char *endpoint, int error);
