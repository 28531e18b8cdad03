#include "proto/net/endpoint.h"

#include <errno.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zmq.h>

#include "common/base/log/log.h"

or_status_t or_endpoint_check(const char *endpoint, bool listening)
{
    static const char tcp[] = "tcp://", ipc[] = "ipc://";
    const char *host =
        strncmp(endpoint, tcp, sizeof tcp - 1) == 0 ? endpoint + sizeof tcp - 1 : NULL;
    const char *colon = host != NULL ? strrchr(host, ':') : NULL;
    if (strncmp(endpoint, ipc, sizeof ipc - 1) == 0 && endpoint[sizeof ipc - 1] != '\0') {
        return OR_OK;
    }
    if (colon == NULL || colon == host) {
        return or_fail(OR_ERR_INVALID,
                       "%s is not an endpoint (expected tcp://%s:PORT or ipc://PATH)", endpoint,
                       listening ? "ADDRESS" : "HOST");
    }
    if (*host != '[' && strchr(host, ':') != colon && strchr(host, ';') == NULL) {
        return or_fail(OR_ERR_INVALID, "%s: an IPv6 address goes into brackets: tcp://[%.*s]%s",
                       endpoint, (int)(colon - host), host, colon);
    }
    const char *port = colon + 1;
    if (listening && strcmp(port, "*") == 0) {
        return OR_OK;
    }
    size_t digits = strspn(port, "0123456789");
    long number = digits > 0 && digits < 10 && port[digits] == '\0' ? strtol(port, NULL, 10) : -1;
    if (number < (listening ? 0 : 1) || number > UINT16_MAX) {
        return or_fail(OR_ERR_INVALID, "%s: the port is not a number from %s", endpoint,
                       listening ? "0 to 65535, or * for any free one" : "1 to 65535");
    }
    return OR_OK;
}

bool or_endpoint_is_ipv6(const char *endpoint)
{
    static const char bracket[] = "tcp://[";
    return strncmp(endpoint, bracket, sizeof bracket - 1) == 0;
}

// Return 0 if the host has an address of this family, else getaddrinfo's error.
static int look_up(const char *host, int family)
{
    const struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int error = getaddrinfo(host, NULL, &hints, &found);
    if (error == 0) {
        freeaddrinfo(found);
    }
    return error;
}

or_status_t or_endpoint_look_up(const char *endpoint, bool *ipv6)
{
    char host[256];
    *ipv6 = or_endpoint_is_ipv6(endpoint);
    if (sscanf(endpoint, "tcp://%255[^:[]:", host) != 1) {
        return OR_OK; // a path, or an address in brackets
    }
    int error = look_up(host, AF_INET);
    if (error == 0) {
        return OR_OK;
    }
    if (look_up(host, AF_INET6) == 0) {
        *ipv6 = true;
        return OR_OK;
    }
    if (error == EAI_NONAME) {
        return or_fail(OR_ERR_INVALID, "cannot connect to %s: there is no host '%s'", endpoint,
                       host);
    }
    or_log(OR_LOG_WARN, "cannot look up '%s' for now: %s", host, gai_strerror(error));
    return OR_OK;
}

or_status_t or_endpoint_fail_listening(const char *endpoint, int error)
{
    switch (error) {
    case EADDRINUSE:
        return or_fail(OR_ERR_IO,
                       "cannot listen on %s: address already in use (another coordinator? choose "
                       "another port with --listen)",
                       endpoint);
    case EACCES:
        return or_fail(OR_ERR_IO,
                       "cannot listen on %s: permission denied (ports below 1024 need privileges)",
                       endpoint);
    case EAFNOSUPPORT:
        return or_fail(OR_ERR_IO, "cannot listen on %s: this machine has no IPv6", endpoint);
    case ENODEV:
    case EADDRNOTAVAIL:
        return or_fail(OR_ERR_IO, "cannot listen on %s: this machine has no such address",
                       endpoint);
    case EINVAL:
    case EPROTONOSUPPORT:
        return or_fail(OR_ERR_IO,
                       "cannot listen on %s: not an endpoint (expected tcp://ADDRESS:PORT or "
                       "ipc://PATH)",
                       endpoint);
    default:
        return or_fail(OR_ERR_IO, "cannot listen on %s: %s", endpoint, zmq_strerror(error));
    }
}
