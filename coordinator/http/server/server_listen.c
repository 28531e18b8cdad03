// server_listen - the address of the HTTP face: its parts, whether others reach it, and the socket there.
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/log/log.h"
#include "coordinator/http/server/server_internal.h"

#define HOST_BYTES 256
#define PORT_BYTES 8
#define HTTP_SHARE                                                                                 \
    2 // of all descriptors one of so many; proto/zmq/relay/zmq_relay.h has three eighths for its own

// Split "HOST:PORT" or "[HOST]:PORT" in two.
static or_status_t split(const char *address, char *host, char *port)
{
    bool bracketed = address[0] == '[';
    const char *begin = address + bracketed;
    const char *end = bracketed ? strchr(begin, ']') : strrchr(begin, ':');
    const char *colon = bracketed && end != NULL ? end + 1 : end;
    if (end == NULL || end == begin || *colon != ':' || (size_t)(end - begin) >= HOST_BYTES ||
        (!bracketed && memchr(begin, ':', (size_t)(end - begin)) != NULL)) {
        return or_fail(OR_ERR_INVALID,
                       "--http %s is no address; write HOST:PORT, as 127.0.0.1:8080 or [::1]:8080",
                       address);
    }
    size_t digits = strspn(colon + 1, "0123456789");
    if (digits == 0 || colon[1 + digits] != '\0' || digits > 5 || atoi(colon + 1) > 65535) {
        return or_fail(OR_ERR_INVALID,
                       "--http %s: the port is a number from 0 (any free one) to 65535", address);
    }
    snprintf(host, HOST_BYTES, "%.*s", (int)(end - begin), begin);
    snprintf(port, PORT_BYTES, "%s", colon + 1);
    return OR_OK;
}

static bool is_loopback_v4(const struct in_addr *address)
{
    return ntohl(address->s_addr) >> 24 == 127;
}

static bool is_loopback_v6(const struct in6_addr *address)
{
    return IN6_IS_ADDR_LOOPBACK(address);
}

bool or_http_address_is_loopback(const char *address)
{
    char host[HOST_BYTES], port[PORT_BYTES];
    struct in_addr v4;
    struct in6_addr v6;
    if (split(address, host, port) != OR_OK) {
        return false;
    }
    return strcmp(host, "localhost") == 0 ||
           (inet_pton(AF_INET, host, &v4) == 1 && is_loopback_v4(&v4)) ||
           (inet_pton(AF_INET6, host, &v6) == 1 && is_loopback_v6(&v6));
}

// Write the address as it really is, once it is bound.
static void describe(int fd, char *bound, size_t bound_bytes, bool *loopback)
{
    struct sockaddr_storage address = {0};
    socklen_t bytes = sizeof address;
    char host[INET6_ADDRSTRLEN] = "?";
    getsockname(fd, (struct sockaddr *)&address, &bytes);
    if (address.ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address;
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
        snprintf(bound, bound_bytes, "[%s]:%u", host, ntohs(v6->sin6_port));
        *loopback = is_loopback_v6(&v6->sin6_addr);
    } else {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address;
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
        snprintf(bound, bound_bytes, "%s:%u", host, ntohs(v4->sin_port));
        *loopback = is_loopback_v4(&v4->sin_addr);
    }
}

static int listen_at(const struct addrinfo *at)
{
    int one = 1;
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0) {
        return fd;
    }
    int why = errno;
    if (fd >= 0) {
        close(fd);
    }
    errno = why;
    return -1;
}

or_status_t or_http_listen(const char *address, int *fd_p, char *bound, size_t bound_bytes,
                           bool *loopback)
{
    char host[HOST_BYTES], port[PORT_BYTES];
    or_status_t status = split(address, host, port);
    if (status != OR_OK) {
        return status;
    }
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    int trouble = getaddrinfo(host, port, &hints, &found);
    if (trouble != 0) {
        return or_fail(OR_ERR_INVALID, "--http %s: %s", address, gai_strerror(trouble));
    }
    int fd = -1;
    for (const struct addrinfo *at = found; fd < 0 && at != NULL; at = at->ai_next) {
        fd = listen_at(at);
    }
    int why = errno;
    freeaddrinfo(found);
    if (fd < 0) {
        return or_fail(OR_ERR_IO, "cannot listen at --http %s: %s%s", address, strerror(why),
                       why == EADDRINUSE ? "; choose another port" : "");
    }
    describe(fd, bound, bound_bytes, loopback);
    *fd_p = fd;
    return OR_OK;
}

uint32_t or_http_descriptors_allow(uint32_t connections_max)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)connections_max * HTTP_SHARE;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) {
        return connections_max;
    }
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur >= wanted) {
        return connections_max;
    }
    rlim_t allowed = limit.rlim_cur / HTTP_SHARE;
    or_log(OR_LOG_WARN,
           "http: the system allows %llu open files, so %llu connections at a time instead of %u",
           (unsigned long long)limit.rlim_cur, (unsigned long long)allowed, connections_max);
    return (uint32_t)allowed;
}
