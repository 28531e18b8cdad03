// endpoint - where a hub listens and an edge connects, as ZeroMQ writes it: tcp://HOST:PORT, ipc://PATH; an
// IPv6 address in brackets.
#pragma once

#include <stdbool.h>

#include "common/base/status.h"

// Only what reaches another process, and ports as they are: ZeroMQ would take a port modulo 65536. A port
// to listen on may be * or 0, any free one. OR_ERR_INVALID.
or_status_t or_endpoint_check(const char *endpoint, bool listening);
// Is its host an IPv6 address? [::] is every address of this machine, those of IPv4 too.
bool or_endpoint_is_ipv6(const char *endpoint);
// ZeroMQ looks names up in the background, where nobody hears that there is no such name. OR_ERR_INVALID;
// a look-up that fails for now is logged and no error. *ipv6: it takes IPv6 to connect there; a name that has
// addresses of both kinds is used by IPv4, since that is what listens on localhost.
or_status_t or_endpoint_look_up(const char *endpoint, bool *ipv6);
// The sentence for an errno of zmq_bind. OR_ERR_IO.
or_status_t or_endpoint_fail_listening(const char *endpoint, int error);
