#include "proto/zmq/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/net/endpoint.h"

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
    bool v6 = or_endpoint_is_ipv6(endpoint);
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
        return or_endpoint_fail_listening(endpoint, error);
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
