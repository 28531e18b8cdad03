#include "tests/support/wiretap.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test_support.h"

#define PAIRS 64
#define CHUNK 65536
#define LOOK_MS 5

// Two connections that belong together: 0 is the edge's, 1 the hub's. -1: none.
typedef struct {
    int fd[2];
    uint8_t *held; // a chunk for the hub that waits for the next
    size_t held_bytes;
} pair_t;

typedef struct {
    uint8_t *data;
    size_t bytes;
} record_t;

struct wiretap {
    int listener;
    uint16_t port, target_port;
    pthread_t thread;
    pthread_mutex_t lock; // of `records`
    record_t records[2];
    atomic_bool over, swap, cut;
    atomic_bool flip[2];
    atomic_int connections;
    pair_t pairs[PAIRS]; // the thread's
};

static struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void send_all(int fd, const uint8_t *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t sent = send(fd, data, bytes, MSG_NOSIGNAL);
        if (sent <= 0) {
            return; // closed: the next read says so
        }
        data += sent;
        bytes -= (size_t)sent;
    }
}

static void drop(pair_t *pair)
{
    for (int side = 0; side < 2; side++) {
        if (pair->fd[side] >= 0) {
            close(pair->fd[side]);
        }
        pair->fd[side] = -1;
    }
    free(pair->held);
    pair->held = NULL;
}

static void accept_one(wiretap_t *tap)
{
    struct sockaddr_in target = loopback(tap->target_port);
    int edge = accept(tap->listener, NULL, NULL);
    int hub = socket(AF_INET, SOCK_STREAM, 0);
    bool reached = connect(hub, (struct sockaddr *)&target, sizeof target) == 0;
    atomic_fetch_add(&tap->connections, 1);
    for (int i = 0; reached && i < PAIRS; i++) {
        if (tap->pairs[i].fd[0] < 0) {
            tap->pairs[i] = (pair_t){.fd = {edge, hub}};
            return;
        }
    }
    close(edge);
    close(hub);
}

static void record(wiretap_t *tap, int back, const uint8_t *data, size_t bytes)
{
    record_t *kept = &tap->records[back];
    pthread_mutex_lock(&tap->lock);
    kept->data = realloc(kept->data, kept->bytes + bytes);
    memcpy(kept->data + kept->bytes, data, bytes);
    kept->bytes += bytes;
    pthread_mutex_unlock(&tap->lock);
}

static void pass_to_hub(wiretap_t *tap, pair_t *pair, uint8_t *data, size_t bytes)
{
    if (atomic_exchange(&tap->swap, false)) {
        pair->held = malloc(bytes);
        pair->held_bytes = bytes;
        memcpy(pair->held, data, bytes);
        return;
    }
    send_all(pair->fd[1], data, bytes);
    if (pair->held != NULL) {
        send_all(pair->fd[1], pair->held, pair->held_bytes);
        free(pair->held);
        pair->held = NULL;
    }
}

// Forward what came in from one side to the other.
static void forward(wiretap_t *tap, pair_t *pair, int from)
{
    uint8_t data[CHUNK];
    ssize_t bytes = recv(pair->fd[from], data, sizeof data, MSG_DONTWAIT);
    if (bytes <= 0) {
        drop(pair);
        return;
    }
    record(tap, from, data, (size_t)bytes);
    if (atomic_exchange(&tap->flip[from], false)) {
        data[bytes / 2] ^= 1;
    }
    if (from == 0) {
        pass_to_hub(tap, pair, data, (size_t)bytes);
    } else {
        send_all(pair->fd[0], data, (size_t)bytes);
    }
}

static void *work(void *argument)
{
    wiretap_t *tap = argument;
    while (!atomic_load(&tap->over)) {
        struct pollfd items[1 + 2 * PAIRS] = {{.fd = tap->listener, .events = POLLIN}};
        bool cut = atomic_exchange(&tap->cut, false);
        for (int i = 0; i < PAIRS; i++) {
            if (cut) {
                drop(&tap->pairs[i]);
            }
            for (int side = 0; side < 2; side++) {
                items[1 + 2 * i + side] =
                    (struct pollfd){.fd = tap->pairs[i].fd[side], .events = POLLIN};
            }
        }
        poll(items, 1 + 2 * PAIRS, LOOK_MS);
        for (int i = 0; i < 2 * PAIRS; i++) {
            pair_t *pair = &tap->pairs[i / 2];
            if (items[1 + i].revents != 0 && pair->fd[i % 2] == items[1 + i].fd) {
                forward(tap, pair, i % 2);
            }
        }
        if (items[0].revents != 0) {
            accept_one(tap);
        }
    }
    return NULL;
}

wiretap_t *wiretap_open(uint16_t target_port)
{
    wiretap_t *tap = calloc(1, sizeof *tap);
    struct sockaddr_in address = loopback(0);
    socklen_t bytes = sizeof address;
    assert_non_null(tap);
    tap->target_port = target_port;
    for (int i = 0; i < PAIRS; i++) {
        tap->pairs[i] = (pair_t){.fd = {-1, -1}};
    }
    tap->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(tap->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(tap->listener, PAIRS), 0);
    assert_int_equal(getsockname(tap->listener, (struct sockaddr *)&address, &bytes), 0);
    tap->port = ntohs(address.sin_port);
    assert_int_equal(pthread_mutex_init(&tap->lock, NULL), 0);
    assert_int_equal(pthread_create(&tap->thread, NULL, work, tap), 0);
    return tap;
}

void wiretap_close(wiretap_t **tap_p)
{
    wiretap_t *tap = *tap_p;
    if (tap == NULL) {
        return;
    }
    atomic_store(&tap->over, true);
    pthread_join(tap->thread, NULL);
    for (int i = 0; i < PAIRS; i++) {
        drop(&tap->pairs[i]);
    }
    close(tap->listener);
    pthread_mutex_destroy(&tap->lock);
    free(tap->records[0].data);
    free(tap->records[1].data);
    free(tap);
    *tap_p = NULL;
}

uint16_t wiretap_port(const wiretap_t *tap)
{
    return tap->port;
}

uint8_t *wiretap_recorded(wiretap_t *tap, bool back, size_t *bytes)
{
    pthread_mutex_lock(&tap->lock);
    const record_t *kept = &tap->records[back];
    uint8_t *copy = malloc(kept->bytes + 1);
    assert_non_null(copy);
    if (kept->bytes > 0) {
        memcpy(copy, kept->data, kept->bytes);
    }
    *bytes = kept->bytes;
    pthread_mutex_unlock(&tap->lock);
    return copy;
}

void wiretap_flip(wiretap_t *tap, bool back)
{
    atomic_store(&tap->flip[back], true);
}

void wiretap_swap(wiretap_t *tap)
{
    atomic_store(&tap->swap, true);
}

void wiretap_cut(wiretap_t *tap)
{
    atomic_store(&tap->cut, true);
}

int wiretap_connections(wiretap_t *tap)
{
    return atomic_load(&tap->connections);
}
