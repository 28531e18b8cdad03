// cuda_peers.h without NCCL: all ranks, threads or processes of one host, have a socket to rank 0, which takes what
// each gives and hands all of it to everyone.
//
//     rank 1 ──own──▶ rank 0 ──all──▶ rank 1
//     rank 2 ──own──▶        ──all──▶ rank 2
//
// Whoever leaves closes his sockets, and so the others find out. A GPU works on whether or not somebody waits for it,
// and others wait for it: a gathering is done when it is asked for.
#include "kernels/cuda/cuda_peers.h"

#include <errno.h>
#include <new>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

#include "tests/emulator/emulated_internal.hpp"

#define OUT_OF_MEMORY 2 // CUDA's
#define SYSTEM_FAILED (OR_CUDA_PEERS + 2)
#define ENOUGH 8 // ranks

struct or_cuda_peers {
    or_cuda_t *cuda;
    uint32_t rank;
    uint32_t size;
    std::vector<int> sockets; // rank 0: to each rank, the first to none; others: to rank 0
};

// The address where rank 0 listens, which the system chose.
typedef struct {
    int listener;
    socklen_t length;
    struct sockaddr_un name;
} address_t;
static_assert(sizeof(address_t) <= OR_CUDA_PEERS_ID, "it travels as an id");

int or_cuda_peers_name(char name[OR_CUDA_PEERS_NAME])
{
    snprintf(name, OR_CUDA_PEERS_NAME, "NCCL, emulated");
    return OR_CUDA_OK;
}

const char *or_cuda_peers_text(int status)
{
    return status == OR_CUDA_PEERS_LOST ? "another rank is gone"
                                        : "no socket to the other ranks' emulated GPUs";
}

// ---- sockets ----

static bool send_all(int socket, const void *from, size_t bytes)
{
    const char *at = (const char *)from;
    while (bytes > 0) {
        ssize_t some = send(socket, at, bytes, MSG_NOSIGNAL);
        if (some < 0 && errno != EINTR) {
            return false;
        }
        at += some > 0 ? some : 0;
        bytes -= some > 0 ? (size_t)some : 0;
    }
    return true;
}

static bool receive_all(int socket, void *to, size_t bytes)
{
    char *at = (char *)to;
    while (bytes > 0) {
        ssize_t some = recv(socket, at, bytes, 0);
        if (some == 0 || (some < 0 && errno != EINTR)) {
            return false;
        }
        at += some > 0 ? some : 0;
        bytes -= some > 0 ? (size_t)some : 0;
    }
    return true;
}

static void close_all(or_cuda_peers_t *peers)
{
    for (int &socket : peers->sockets) {
        if (socket >= 0) {
            close(socket);
        }
        socket = -1;
    }
}

// ---- joining ----

int or_cuda_peers_id(uint8_t id[OR_CUDA_PEERS_ID])
{
    address_t address = {};
    address.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.name.sun_family = AF_UNIX;
    address.length = sizeof address.name;
    struct sockaddr *name = (struct sockaddr *)&address.name;
    if (address.listener < 0 || bind(address.listener, name, sizeof(sa_family_t)) != 0 ||
        getsockname(address.listener, name, &address.length) != 0 ||
        listen(address.listener, ENOUGH) != 0) {
        return SYSTEM_FAILED;
    }
    memcpy(id, &address, sizeof address);
    return OR_CUDA_OK;
}

// Rank 0: one socket for every other, which says who it is; when all are there they are told.
static bool receive_others(or_cuda_peers_t *peers, const address_t &address)
{
    bool well = true;
    for (uint32_t i = 1; well && i < peers->size; i++) {
        uint32_t rank = 0;
        int socket = accept4(address.listener, nullptr, nullptr, SOCK_CLOEXEC);
        well = socket >= 0 && receive_all(socket, &rank, sizeof rank) && rank < peers->size;
        peers->sockets[well ? rank : i] = socket;
    }
    close(address.listener);
    for (uint32_t i = 1; well && i < peers->size; i++) {
        well = send_all(peers->sockets[i], &i, sizeof i);
    }
    return well;
}

static bool go_to_first(or_cuda_peers_t *peers, const address_t &address)
{
    uint32_t rank = peers->rank;
    int first = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    peers->sockets[0] = first;
    return first >= 0 && connect(first, (const sockaddr *)&address.name, address.length) == 0 &&
           send_all(first, &rank, sizeof rank) && receive_all(first, &rank, sizeof rank);
}

int or_cuda_peers_join(or_cuda_t *cuda, const uint8_t id[OR_CUDA_PEERS_ID], uint32_t rank,
                       uint32_t size, or_cuda_peers_t **peers_p)
{
    or_cuda_peers_t *peers = new (std::nothrow)
        or_cuda_peers_t{cuda, rank, size, std::vector<int>(rank == 0 ? size : 1, -1)};
    if (!peers) {
        return OUT_OF_MEMORY;
    }
    address_t address;
    memcpy(&address, id, sizeof address);
    if (!(rank == 0 ? receive_others(peers, address) : go_to_first(peers, address))) {
        or_cuda_peers_leave(&peers);
        return SYSTEM_FAILED;
    }
    *peers_p = peers;
    return OR_CUDA_OK;
}

void or_cuda_peers_leave(or_cuda_peers_t **peers_p)
{
    if (*peers_p) {
        (void)or_cuda_wait((*peers_p)->cuda);
        close_all(*peers_p);
        delete *peers_p;
        *peers_p = nullptr;
    }
}

// ---- gathering ----

static bool collect(const or_cuda_peers_t *peers, const float *from, float *to, size_t floats)
{
    bool well = true;
    memcpy(to, from, floats * sizeof *from);
    for (uint32_t i = 1; well && i < peers->size; i++) {
        well = receive_all(peers->sockets[i], to + i * floats, floats * sizeof *to);
    }
    for (uint32_t i = 1; well && i < peers->size; i++) {
        well = send_all(peers->sockets[i], to, peers->size * floats * sizeof *to);
    }
    return well;
}

static void meet(or_cuda_peers_t *peers, const float *from, float *to, size_t floats)
{
    const int first = peers->sockets[0];
    if (!(peers->rank == 0 ? collect(peers, from, to, floats)
                           : send_all(first, from, floats * sizeof *from) &&
                                 receive_all(first, to, peers->size * floats * sizeof *to))) {
        close_all(peers); // so that nobody waits for this rank
        or_emulated_break(peers->cuda, OR_CUDA_PEERS_LOST);
    }
}

static void check_floats(const float *at, size_t count)
{
    or_emulated_check_pointer("or_cuda_peers_gather", at);
    or_emulated_check_pointer("or_cuda_peers_gather", at + count);
}

int or_cuda_peers_gather(or_cuda_peers_t *peers, const float *from, float *to, size_t floats)
{
    check_floats(from, floats);
    check_floats(to, peers->size * floats);
    if (from < to + peers->size * floats && to < from + floats) {
        or_emulated_end("or_cuda_peers_gather", "what is given lies within what is gathered");
    }
    return or_emulated_ask_meeting(peers->cuda, [=] {
        or_emulated_write(to, peers->size * floats * sizeof *to,
                          [=] { meet(peers, from, to, floats); });
    });
}
