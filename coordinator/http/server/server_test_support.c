#include "coordinator/http/server/server_test_support.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/clock.h"

#define PATIENCE_MS 5000
#define BUSY_MS 6

static int64_t now_ms(void)
{
    return or_clock_now(or_clock_monotonic()) / OR_NS_PER_MS;
}

// ---- the server's side ----

static void echo(or_http_call_t *call)
{
    char answer[4096];
    size_t bytes;
    const uint8_t *body = or_http_call_body(call, &bytes);
    const char *query = or_http_call_query(call, "q");
    int length = snprintf(answer, sizeof answer, "%s %s q=%s owner=%s body=%zu:%.*s",
                          or_http_call_method(call), or_http_call_path(call),
                          query != NULL ? query : "", or_http_call_owner(call), bytes,
                          bytes < 1000 ? (int)bytes : 0, (const char *)body);
    or_http_reply(call, 200, "text/plain", answer, (size_t)length);
}

// ---- tasks ----

typedef struct {
    world_t *world;
    pthread_t thread; // where it was begun
    bool aside, leads_on;
    size_t bytes;
} task_t;

void world_task_until(world_t *world, int ms)
{
    atomic_store(&world->tasks_until_ms, now_ms() + ms);
}

static void work(void *data, const uint8_t *body, size_t bytes)
{
    task_t *task = data;
    task->aside = !pthread_equal(pthread_self(), task->thread);
    for (size_t i = 0; i < bytes; i++) {
        task->bytes += body[i] == 'x';
    }
    if (task->aside) {
        task->world->task_nice = getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid));
    }
    while (task->aside && now_ms() < atomic_load(&task->world->tasks_until_ms)) {
        usleep(1000);
    }
}

static void drop(void *data)
{
    task_t *task = data;
    task->world->tasks_dropped++;
    free(task);
}

static void begin_task(world_t *world, or_http_call_t *call, bool leads_on);

static void reply_task(void *context, or_http_call_t *call, void *data)
{
    world_t *world = context;
    const task_t *task = data;
    char answer[64];
    if (task->leads_on) {
        begin_task(world, call, false);
        return;
    }
    int length = snprintf(answer, sizeof answer, "%zu bytes, %s", task->bytes,
                          task->aside ? "on another thread" : "at once");
    world->tasks_answered++;
    or_http_reply(call, 200, "text/plain", answer, (size_t)length);
}

static void begin_task(world_t *world, or_http_call_t *call, bool leads_on)
{
    static const or_http_task_t what = {work, reply_task, drop};
    task_t *task = calloc(1, sizeof *task);
    assert_non_null(task);
    *task = (task_t){.world = world, .thread = pthread_self(), .leads_on = leads_on};
    world->tasks_begun++;
    or_http_call_begin(call, &what, task);
}

// ---- requests ----

static void handle(void *context, or_http_call_t *call)
{
    world_t *world = context;
    const char *path = or_http_call_path(call);
    world->handed++;
    or_http_call_set_data(call, world);
    if (strcmp(path, "/echo") == 0) {
        echo(call);
    } else if (strcmp(path, "/busy") == 0) {
        for (int64_t end = now_ms() + BUSY_MS; now_ms() <= end;) {
        }
        echo(call);
    } else if (strcmp(path, "/later") == 0) {
        world->kept = call;
    } else if (strcmp(path, "/stream") == 0) {
        world->kept = call;
        or_http_begin_stream(call, 200, "text/event-stream");
    } else if (strncmp(path, "/task", 5) == 0) {
        begin_task(world, call, strcmp(path, "/tasks") == 0);
    } else if (strcmp(path, "/page") == 0) {
        or_http_reply(call, 200, "text/html", "<p>", 3);
    } else {
        or_http_reply_error(call, 404, NULL, "not_found", "there is no %s", path);
    }
}

static void over(void *context, or_http_call_t *call, bool complete)
{
    world_t *world = context;
    assert_ptr_equal(or_http_call_data(call), world);
    world->finished += complete;
    world->cut += !complete;
    if (world->kept == call) {
        world->kept = NULL;
    }
}

static void answered(void *context, const char *path, unsigned status, double seconds)
{
    world_t *world = context;
    assert_non_null(path);
    assert_true(seconds >= 0);
    world->answered++;
    world->status = status;
}

or_http_server_config_t world_config(void)
{
    or_http_server_config_t config = or_http_server_config_default();
    config.address = "127.0.0.1:0";
    return config;
}

or_api_keys_t *world_keys(const char *lines)
{
    or_api_keys_t *keys = NULL;
    char path[] = "/tmp/outrider_api_keys_XXXXXX";
    int fd = mkstemp(path);
    dprintf(fd, "%s", lines);
    close(fd);
    assert_int_equal(or_api_keys_read(path, &keys), OR_OK);
    unlink(path);
    return keys;
}

void world_open(world_t *world)
{
    world->config.handle = handle;
    world->config.over = over;
    world->config.answered = answered;
    world->config.context = world;
    if (or_http_server_create(&world->config, &world->server) != OR_OK) {
        fail_msg("%s", or_error_text());
    }
}

void world_close(world_t *world)
{
    or_http_server_destroy(&world->server);
    assert_null(world->server);
}

unsigned world_port(const world_t *world)
{
    return (unsigned)atoi(strrchr(or_http_server_address(world->server), ':') + 1);
}

// One turn, and a wait of a moment for the next unless there is work.
static void turn(world_t *world)
{
    int64_t next_ns = or_http_server_turn(world->server);
    int64_t wait_ms = (next_ns - or_clock_now(or_clock_monotonic())) / OR_NS_PER_MS;
    struct pollfd poll_fd = {.fd = or_http_server_fd(world->server), .events = POLLIN};
    poll(&poll_fd, 1, wait_ms <= 0 ? 0 : 1);
}

void world_spin(world_t *world, int ms)
{
    for (int64_t end = now_ms() + ms; now_ms() < end;) {
        turn(world);
    }
}

void world_wait(world_t *world, const unsigned *counter, unsigned value, int ms)
{
    int64_t end = now_ms() + ms;
    while (*counter != value) {
        if (now_ms() > end) {
            fail_msg("the counter is %u after %d ms, not %u", *counter, ms, value);
        }
        turn(world);
    }
}

// ---- the client's side ----

client_t *client_open(world_t *world)
{
    client_t *client = calloc(1, sizeof *client);
    assert_non_null(client);
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)world_port(world)),
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    assert_true(client->fd >= 0);
    int rc = connect(client->fd, (struct sockaddr *)&address, sizeof address);
    assert_true(rc == 0 || errno == EINPROGRESS);
    return client;
}

void client_close(client_t **client_p)
{
    close((*client_p)->fd);
    free(*client_p);
    *client_p = NULL;
}

static void receive(client_t *client)
{
    ssize_t count =
        recv(client->fd, client->text + client->bytes, TEXT_BYTES - 1 - client->bytes, 0);
    if (count > 0) {
        client->bytes += (size_t)count;
        client->text[client->bytes] = '\0';
    } else if (count == 0 || (errno != EAGAIN && errno != ENOTCONN)) {
        client->closed = true;
    }
}

void client_send_bytes(world_t *world, client_t *client, const char *bytes, size_t count)
{
    for (size_t sent = 0; sent < count;) {
        ssize_t part = send(client->fd, bytes + sent, count - sent, MSG_NOSIGNAL);
        if (part < 0 && errno != EAGAIN && errno != ENOTCONN) {
            return;
        }
        sent += part > 0 ? (size_t)part : 0;
        turn(world);
    }
}

void client_send(world_t *world, client_t *client, const char *text)
{
    client_send_bytes(world, client, text, strlen(text));
}

const char *client_wait(world_t *world, client_t *client, const char *needle)
{
    for (int64_t end = now_ms() + PATIENCE_MS; strstr(client->text, needle) == NULL;) {
        if (now_ms() > end || client->closed) {
            fail_msg("no '%s' in '%.2000s'%s", needle, client->text,
                     client->closed ? " (closed)" : "");
        }
        turn(world);
        receive(client);
    }
    return client->text;
}

bool client_sees_end(world_t *world, client_t *client, int ms)
{
    for (int64_t end = now_ms() + ms; !client->closed && now_ms() <= end;) {
        turn(world);
        receive(client);
    }
    return client->closed;
}

void client_wait_closed(world_t *world, client_t *client, int ms)
{
    if (!client_sees_end(world, client, ms)) {
        fail_msg("not closed after %d ms; '%.500s' came", ms, client->text);
    }
}

void client_forget(client_t *client)
{
    client->bytes = 0;
    client->text[0] = '\0';
}

const char *client_ask(world_t *world, client_t *client, const char *request, const char *needle)
{
    client_forget(client);
    client_send(world, client, request);
    return client_wait(world, client, needle);
}

const char *ask(world_t *world, const char *request)
{
    static char answer[TEXT_BYTES];
    client_t *client = client_open(world);
    client_send(world, client, request);
    shutdown(client->fd, SHUT_WR);
    client_wait_closed(world, client, PATIENCE_MS);
    memcpy(answer, client->text, client->bytes + 1);
    client_close(&client);
    return answer;
}
