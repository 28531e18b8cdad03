#include "proto/net/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <zmq.h>

#include "common/base/log/log.h"

#define TCP "tcp://"
#define IPC "ipc://"
#define WAITING_MAX 128 // connections that the system keeps until they are accepted

typedef struct {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un path;
    };
    socklen_t bytes;
} address_t;

// ---- endpoints ----

or_status_t or_endpoint_check(const char *endpoint, bool listening)
{
    const char *host = strncmp(endpoint, TCP, strlen(TCP)) == 0 ? endpoint + strlen(TCP) : NULL;
    const char *colon = host != NULL ? strrchr(host, ':') : NULL;
    if (strncmp(endpoint, IPC, strlen(IPC)) == 0 && endpoint[strlen(IPC)] != '\0') {
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

// Return true if its host is an IPv6 address. [::] stands for every address of this machine, those of IPv4 too.
static bool is_ipv6(const char *endpoint)
{
    return strncmp(endpoint, TCP "[", strlen(TCP "[")) == 0;
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
    *ipv6 = is_ipv6(endpoint);
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

// Fail with the sentence for an errno of listening.
static or_status_t fail_listening(const char *endpoint, int error)
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

// ---- listening ----

static void set_port(address_t *address, const char *port)
{
    uint16_t number = htons((uint16_t)strtoul(port, NULL, 10)); // 0 for *
    if (address->any.sa_family == AF_INET6) {
        address->v6.sin6_port = number;
    } else {
        address->v4.sin_port = number;
    }
}

static bool take_address(const struct sockaddr *from, int family, address_t *address)
{
    if (from == NULL || from->sa_family != family) {
        return false;
    }
    address->bytes = family == AF_INET6 ? sizeof address->v6 : sizeof address->v4;
    memcpy(&address->any, from, address->bytes);
    return true;
}

// Find the address of a network interface by its name.
static bool find_interface(const char *name, int family, address_t *address)
{
    struct ifaddrs *all;
    bool found = false;
    if (getifaddrs(&all) != 0) {
        return false;
    }
    for (const struct ifaddrs *each = all; each != NULL && !found; each = each->ifa_next) {
        found = strcmp(each->ifa_name, name) == 0 && take_address(each->ifa_addr, family, address);
    }
    freeifaddrs(all);
    return found;
}

static bool find_host(const char *host, int family, address_t *address)
{
    const struct addrinfo hints = {
        .ai_family = family, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_PASSIVE};
    struct addrinfo *found = NULL;
    if (getaddrinfo(strcmp(host, "*") == 0 ? NULL : host, "0", &hints, &found) != 0) {
        return find_interface(host, family, address);
    }
    bool taken = take_address(found->ai_addr, family, address);
    freeaddrinfo(found);
    return taken;
}

// Find the address of a TCP endpoint; return 0 or an errno.
static int find_tcp(const char *endpoint, address_t *address)
{
    const char *host = endpoint + strlen(TCP), *colon = strrchr(host, ':');
    char name[256];
    bool v6 = is_ipv6(endpoint);
    size_t length = (size_t)(colon - host);
    if (v6 && length >= 2 && host[length - 1] == ']') {
        host++;
        length -= 2;
    }
    if (length >= sizeof name) {
        return ENODEV;
    }
    snprintf(name, sizeof name, "%.*s", (int)length, host);
    if (!find_host(name, v6 ? AF_INET6 : AF_INET, address)) {
        return ENODEV;
    }
    set_port(address, colon + 1);
    return 0;
}

static int find_path(const char *endpoint, address_t *address)
{
    const char *path = endpoint + strlen(IPC);
    size_t length = strlen(path);
    if (length >= sizeof address->path.sun_path) {
        return ENAMETOOLONG;
    }
    address->path = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->path.sun_path, path, length);
    address->bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
    if (path[0] == '@') { // a name that is no file
        address->path.sun_path[0] = '\0';
        address->bytes--;
    }
    return 0;
}

static bool is_file(const address_t *address)
{
    return address->any.sa_family == AF_UNIX && address->path.sun_path[0] != '\0';
}

// Remove a path that a killed process left behind; a living listener would answer there.
static void remove_left_path(const address_t *address)
{
    struct stat found;
    if (stat(address->path.sun_path, &found) != 0 || !S_ISSOCK(found.st_mode)) {
        return;
    }
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe >= 0 && connect(probe, &address->any, address->bytes) != 0 && errno == ECONNREFUSED) {
        unlink(address->path.sun_path);
    }
    if (probe >= 0) {
        close(probe);
    }
}

static int open_at(const address_t *address, int *fd_p)
{
    const int on = 1, off = 0;
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return errno;
    }
    if (address->any.sa_family != AF_UNIX) {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    }
    if (address->any.sa_family == AF_INET6) { // [::] listens for IPv4 as well
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    if (is_file(address)) {
        remove_left_path(address);
    }
    if (bind(fd, &address->any, address->bytes) != 0 || listen(fd, WAITING_MAX) != 0) {
        int error = errno;
        close(fd);
        return error;
    }
    *fd_p = fd;
    return 0;
}

static void tell_bound(const char *endpoint, int fd, char *bound, size_t capacity)
{
    address_t address = {.bytes = sizeof address.path};
    char text[INET6_ADDRSTRLEN] = "";
    if (strncmp(endpoint, TCP, strlen(TCP)) != 0 ||
        getsockname(fd, &address.any, &address.bytes) != 0) {
        snprintf(bound, capacity, "%s", endpoint);
    } else if (address.any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &address.v6.sin6_addr, text, sizeof text);
        snprintf(bound, capacity, TCP "[%s]:%u", text, ntohs(address.v6.sin6_port));
    } else {
        inet_ntop(AF_INET, &address.v4.sin_addr, text, sizeof text);
        snprintf(bound, capacity, TCP "%s:%u", text, ntohs(address.v4.sin_port));
    }
}

or_status_t or_listen(const char *endpoint, int *fd_p, char *bound, size_t capacity)
{
    address_t address = {.bytes = 0};
    or_status_t status = or_endpoint_check(endpoint, true);
    if (status != OR_OK) {
        return status;
    }
    int error = strncmp(endpoint, TCP, strlen(TCP)) == 0 ? find_tcp(endpoint, &address)
                                                         : find_path(endpoint, &address);
    if (error == 0) {
        error = open_at(&address, fd_p);
    }
    if (error != 0) {
        return fail_listening(endpoint, error);
    }
    tell_bound(endpoint, *fd_p, bound, capacity);
    return OR_OK;
}

void or_listen_end(int fd)
{
    address_t address = {.bytes = sizeof address.path};
    if (getsockname(fd, &address.any, &address.bytes) == 0 && is_file(&address) &&
        address.bytes > offsetof(struct sockaddr_un, sun_path)) {
        unlink(address.path.sun_path);
    }
    close(fd);
}
