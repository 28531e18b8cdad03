#include "proto/zmq_backlog.h"

#include <dirent.h>
#include <inttypes.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <malloc.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/base/log.h"
#include "proto/message.h"

#define LOOK_NS 10000000
#define DESCRIPTORS_MAX 65536
#define EACH_MAX (OR_FRAME_BYTES_MAX + (1u << 20)) // of one connection
#define ALL_MAX (128u << 20)
// Below this in all nothing is amiss, and the memory in use is learned anew every so many looks.
#define QUIET_BYTES (1u << 20)
#define QUIET_LOOKS 16
#define QUIET_STEP (1u << 20)
// Memory beyond the bytes that arrived: who has such a backlog then is cut.
#define EXCESS_MAX (64u << 20)
#define SUSPECT_BYTES (64u << 10)
#define CURVE_BYTES 33 // around a frame: "\7MESSAGE", nonce, authenticator, flags

// A descriptor as it was last seen.
typedef struct {
    uint64_t cookie; // of the connection; descriptors are used again
    uint64_t base;   // of `taken`, where this connection began
    uint64_t seen;   // `taken` at the last look
    uint64_t backlog;
    uint64_t look; // when it was last there
} place_t;

struct or_zmq_backlog {
    pthread_t thread;
    _Atomic bool stopped;
    _Atomic uint64_t taken[DESCRIPTORS_MAX]; // by the hub, in bytes on the wire
    // The thread's.
    place_t *places; // DESCRIPTORS_MAX
    uint16_t ports[OR_ZMQ_BACKLOG_PORTS];
    size_t port_count;
    DIR *descriptors;
    uint64_t look, total;
    size_t quiet_memory;
    bool trim_due; // what a cut has freed is given back when it is quiet
    int largest;   // descriptor
};

void or_zmq_backlog_take(or_zmq_backlog_t *backlog, zmq_msg_t *frame, bool encrypted)
{
    int fd = zmq_msg_get(frame, ZMQ_SRCFD);
    if (fd < 0 || fd >= DESCRIPTORS_MAX) {
        return;
    }
    size_t bytes = zmq_msg_size(frame) + (encrypted ? CURVE_BYTES : 0);
    bytes += bytes > UINT8_MAX ? 9 : 2;
    atomic_fetch_add_explicit(&backlog->taken[fd], bytes, memory_order_relaxed);
}

static bool is_ours(const or_zmq_backlog_t *backlog, int fd)
{
    struct sockaddr_in6 address; // the port is where IPv4 has it
    socklen_t bytes = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &bytes) != 0 ||
        (address.sin6_family != AF_INET && address.sin6_family != AF_INET6)) {
        return false;
    }
    for (size_t i = 0; i < backlog->port_count; i++) {
        if (backlog->ports[i] == ntohs(address.sin6_port)) {
            return true;
        }
    }
    return false;
}

static uint64_t cookie_of(int fd)
{
    uint64_t cookie = 0;
    socklen_t bytes = sizeof cookie;
    return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &bytes) == 0 ? cookie : 0;
}

// What libzmq has read from this connection; false if it is none.
static bool read_of(int fd, uint64_t *read_p)
{
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;
    int unread = 0;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
        ioctl(fd, SIOCINQ, &unread) != 0) { // a listener has no queue
        return false;
    }
    uint64_t waiting = (uint64_t)unread;
    *read_p = info.tcpi_bytes_received > waiting ? info.tcpi_bytes_received - waiting : 0;
    return true;
}

static void look_at(or_zmq_backlog_t *backlog, int fd)
{
    place_t *place = &backlog->places[fd];
    uint64_t cookie = cookie_of(fd), bytes;
    if (cookie == 0 || !is_ours(backlog, fd) || !read_of(fd, &bytes)) {
        return;
    }
    if (place->cookie != cookie) {
        *place = (place_t){.cookie = cookie, .base = place->seen};
    }
    place->seen = atomic_load_explicit(&backlog->taken[fd], memory_order_relaxed);
    // Late frames of a connection that had this descriptor before count for nothing here.
    uint64_t taken = place->seen - place->base;
    place->base += taken > bytes ? taken - bytes : 0;
    place->backlog = taken < bytes ? bytes - taken : 0;
    place->look = backlog->look;
    backlog->total += place->backlog;
    if (backlog->largest < 0 || place->backlog > backlog->places[backlog->largest].backlog) {
        backlog->largest = fd;
    }
}

// The descriptor may be another's by now: a copy of it is looked at and shut down.
static void cut(or_zmq_backlog_t *backlog, int fd)
{
    place_t *place = &backlog->places[fd];
    int copy = dup(fd);
    if (copy >= 0 && cookie_of(copy) == place->cookie) {
        or_log(OR_LOG_DEBUG, "a connection is cut: %" PRIu64 " bytes of it wait", place->backlog);
        shutdown(copy, SHUT_RDWR);
    }
    if (copy >= 0) {
        close(copy);
    }
    backlog->total -= place->backlog;
    place->backlog = 0;
}

static void cut_above(or_zmq_backlog_t *backlog, uint64_t bytes)
{
    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++) {
        const place_t *place = &backlog->places[fd];
        if (place->look == backlog->look && place->backlog > bytes) {
            cut(backlog, fd);
        }
    }
}

static size_t memory_in_use(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

// Upwards in small steps: what connections left that were just cut or closed is not the usual.
static void learn_memory(or_zmq_backlog_t *backlog)
{
    if (backlog->trim_due) {
        malloc_trim(0);
        backlog->trim_due = false;
    }
    size_t now = memory_in_use(), most = backlog->quiet_memory + QUIET_STEP;
    backlog->quiet_memory = now < most ? now : most;
}

static void judge(or_zmq_backlog_t *backlog)
{
    if (backlog->total < QUIET_BYTES) {
        if (backlog->look % QUIET_LOOKS == 0) {
            learn_memory(backlog);
        }
        return;
    }
    if (memory_in_use() > backlog->quiet_memory + backlog->total + EXCESS_MAX) {
        cut_above(backlog, SUSPECT_BYTES);
        backlog->trim_due = true;
    } else if (backlog->places[backlog->largest].backlog > EACH_MAX) {
        cut_above(backlog, EACH_MAX);
    } else if (backlog->total > ALL_MAX) {
        cut(backlog, backlog->largest);
    }
}

static void look(or_zmq_backlog_t *backlog)
{
    const struct dirent *entry;
    backlog->look++;
    backlog->total = 0;
    backlog->largest = -1;
    rewinddir(backlog->descriptors);
    while ((entry = readdir(backlog->descriptors)) != NULL) {
        long fd = entry->d_name[0] == '.' ? -1 : strtol(entry->d_name, NULL, 10);
        if (fd >= 0 && fd < DESCRIPTORS_MAX) {
            look_at(backlog, (int)fd);
        }
    }
    judge(backlog);
}

static void *watch(void *context)
{
    or_zmq_backlog_t *backlog = context;
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    while (!atomic_load(&backlog->stopped)) {
        look(backlog);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

// Signals are for the owner's thread.
static int start(or_zmq_backlog_t *backlog)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&backlog->thread, NULL, watch, backlog);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

static void release(or_zmq_backlog_t *backlog)
{
    if (backlog->descriptors != NULL) {
        closedir(backlog->descriptors);
    }
    free(backlog->places);
    free(backlog);
}

or_status_t or_zmq_backlog_create(const uint16_t *ports, size_t count, or_zmq_backlog_t **backlog_p)
{
    or_zmq_backlog_t *backlog = calloc(1, sizeof *backlog);
    place_t *places = calloc(DESCRIPTORS_MAX, sizeof *places);
    if (backlog == NULL || places == NULL) {
        free(backlog);
        free(places);
        return or_fail(OR_ERR_NO_MEMORY, "no memory to watch connections");
    }
    backlog->places = places;
    backlog->quiet_memory = memory_in_use();
    backlog->port_count = count < OR_ZMQ_BACKLOG_PORTS ? count : OR_ZMQ_BACKLOG_PORTS;
    memcpy(backlog->ports, ports, backlog->port_count * sizeof *ports);
    backlog->descriptors = opendir("/proc/self/fd");
    if (backlog->descriptors == NULL || start(backlog) != 0) {
        release(backlog);
        return or_fail(OR_ERR_IO, "cannot watch connections: no /proc, or no thread to be had");
    }
    *backlog_p = backlog;
    return OR_OK;
}

void or_zmq_backlog_destroy(or_zmq_backlog_t **backlog_p)
{
    or_zmq_backlog_t *backlog = *backlog_p;
    if (backlog != NULL) {
        atomic_store(&backlog->stopped, true);
        pthread_join(backlog->thread, NULL);
        release(backlog);
        *backlog_p = NULL;
    }
}
