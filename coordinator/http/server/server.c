#include "coordinator/http/server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log/log.h"
#include "coordinator/http/server/server_internal.h"

#define PEM_BYTES_MAX (1u << 20)
// Bytes that are read of a refused request's body, so that its connection can be kept.
#define TAKEN_ALL_THE_SAME 65536u
#define EVENTS_AT_A_TIME 64
#define CIPHERS "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

or_http_server_config_t or_http_server_config_default(void)
{
    return (or_http_server_config_t){
        .address = "127.0.0.1:8080",
        .body_bytes_max = (size_t)4 << 20,
        .header_bytes_max = 16u << 10,
        .connections_max = 4096,
        .request_timeout_s = 30,
        .stream_bytes_max = (size_t)4 << 20,
    };
}

// ---- what the library tells us ----

static void on_log(void *context, const char *format, va_list arguments)
{
    or_http_server_t *server = context;
    vsnprintf(server->trouble, sizeof server->trouble, format, arguments);
    server->trouble[strcspn(server->trouble, "\n")] = '\0';
    or_log(OR_LOG_DEBUG, "http: %s", server->trouble);
}

static void on_connection(void *context, struct MHD_Connection *mhd, void **connection_p,
                          enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *connection_p = or_http_connection_open(context, mhd);
    } else {
        or_http_connection_close((or_http_connection_t **)connection_p);
    }
}

// Return true if a refusal is sent at once. It is best sent when all of the request has been read, because the
// connection can be kept then. But not if that is a lot or of unknown length, or if the client has asked first.
static bool is_said_at_once(const or_http_call_t *call)
{
    // Many clients read no answer before they have sent everything.
    size_t most = call->status == 413 ? OR_HTTP_DISCARDED_MAX : TAKEN_ALL_THE_SAME;
    const char *length = or_http_call_header(call, "Content-Length");
    return call->last || or_http_call_header(call, "Expect") != NULL ||
           (length != NULL && strtoull(length, NULL, 10) > most);
}

static enum MHD_Result begin(struct MHD_Connection *mhd, const char *method, const char *path,
                             const char *version, void **call_p)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    or_http_connection_t *connection = info != NULL ? info->socket_context : NULL;
    or_http_call_t *call =
        connection != NULL ? or_http_call_create(connection, method, path) : NULL;
    if (call == NULL) {
        return MHD_NO;
    }
    *call_p = call;
    or_http_connection_expect(connection); // as long again for the body
    or_http_door_check(call, method, version);
    connection->known = connection->known || call->status == 0;
    return call->status != 0 && is_said_at_once(call) ? or_http_call_queue(call) : MHD_YES;
}

// The library asks four times: with the headers, with parts of the body, when all is here, and again when we have said
// that there is an answer.
static enum MHD_Result on_request(void *context, struct MHD_Connection *mhd, const char *path,
                                  const char *method, const char *version, const char *part,
                                  size_t *part_bytes, void **call_p)
{
    (void)context;
    or_http_call_t *call = *call_p;
    if (call == NULL) {
        return begin(mhd, method, path, version, call_p);
    }
    if (*part_bytes > 0) {
        size_t count = *part_bytes;
        *part_bytes = 0;
        return or_http_call_take(call, part, count) ? MHD_YES : MHD_NO;
    }
    if (!call->whole) {
        call->whole = true;
        or_http_connection_answer(call->connection);
        or_http_queue_add(call);
    }
    if (call->gone) {
        return MHD_NO;
    }
    if (call->status != 0) {
        return or_http_call_queue(call);
    }
    or_http_connection_suspend(call->connection);
    return MHD_YES;
}

static void log_answer(const or_http_call_t *call, bool complete, double seconds)
{
    char path[128];
    size_t length = 0;
    for (; call->path[length] != '\0' && length < sizeof path - 1; length++) {
        char c = call->path[length];
        path[length] = c > 0x20 && c < 0x7f ? c : '?';
    }
    path[length] = '\0';
    or_log(OR_LOG_DEBUG, "http: request %s %s %s status %u%s in %.3f s", call->id, call->method,
           path, call->queued ? call->status : 0, complete ? "" : " cut", seconds);
}

static void on_over(void *context, struct MHD_Connection *mhd, void **call_p,
                    enum MHD_RequestTerminationCode why)
{
    (void)mhd;
    or_http_server_t *server = context;
    or_http_call_t *call = *call_p;
    if (call == NULL) {
        return;
    }
    bool complete = why == MHD_REQUEST_TERMINATED_COMPLETED_OK && call->queued && !call->gone;
    double seconds =
        (double)(or_clock_now(or_clock_monotonic()) - call->began_ns) / (double)OR_NS_PER_S;
    if (or_log_shows(OR_LOG_DEBUG)) {
        log_answer(call, complete, seconds);
    }
    if (call->queued && server->config.answered != NULL) {
        server->config.answered(server->config.context, call->path, call->status, seconds);
    }
    if (call->handed && call->data != NULL) {
        server->config.over(server->config.context, call, complete);
    }
    or_http_connection_finish(call->connection);
    or_http_queue_leave(call);
    or_http_tasks_leave(call);
    or_http_call_destroy((or_http_call_t **)call_p);
}

// ---- begin and end ----

static or_status_t read_pem(const char *option, const char *path, char **text_p)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return or_fail(OR_ERR_IO, "%s %s: %m", option, path);
    }
    char *text = calloc(1, PEM_BYTES_MAX + 1);
    size_t bytes = text != NULL ? fread(text, 1, PEM_BYTES_MAX, file) : 0;
    fclose(file);
    if (text == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for %s", path);
    }
    *text_p = text;
    return strstr(text, "-----BEGIN ") != NULL && bytes < PEM_BYTES_MAX
               ? OR_OK
               : or_fail(OR_ERR_INVALID, "%s %s is no PEM file", option, path);
}

static or_status_t read_secret_pem(const char *option, const char *path, char **text_p)
{
    struct stat found;
    if (stat(path, &found) == 0 && (found.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return or_fail(OR_ERR_INVALID, "%s %s is a private key that others can read: chmod 600 %s",
                       option, path, path);
    }
    return read_pem(option, path, text_p);
}

static or_status_t check_cors(const char *origin)
{
    const char *authority = origin != NULL ? strstr(origin, "://") : NULL;
    if (origin == NULL || strcmp(origin, "*") == 0 ||
        (authority != NULL && authority[3] != '\0' && strpbrk(authority + 3, "/ ,") == NULL)) {
        return OR_OK;
    }
    return or_fail(OR_ERR_INVALID,
                   "--http-cors %s is no origin; write * or one as https://chat.example.org",
                   origin);
}

static or_status_t take_config(or_http_server_t *server, const or_http_server_config_t *config)
{
    server->config = *config;
    if ((config->cert_file == NULL) != (config->key_file == NULL)) {
        return or_fail(OR_ERR_INVALID, "--http-cert and --http-key belong together");
    }
    or_status_t status = check_cors(config->cors_origin);
    if (status == OR_OK && config->cert_file != NULL) {
        status = read_pem("--http-cert", config->cert_file, &server->cert);
    }
    if (status == OR_OK && config->key_file != NULL) {
        status = read_secret_pem("--http-key", config->key_file, &server->key);
    }
    if (status == OR_OK && config->cors_origin != NULL) {
        server->config.cors_origin = server->cors_origin = strdup(config->cors_origin);
        if (server->cors_origin == NULL) {
            status = or_fail(OR_ERR_NO_MEMORY, "no memory for the HTTP server");
        }
    }
    return status;
}

// One client alone cannot take all connections; on loopback there is one client.
static unsigned connections_of_one(const or_http_server_t *server)
{
    return server->loopback ? 0 : (server->config.connections_max + 1) / 2;
}

static or_status_t start(or_http_server_t *server, int listen_fd)
{
    const or_http_server_config_t *config = &server->config;
    // Twice the headers: they cost more here than on the wire, and those that are a little too large are refused by us, with a
    // sentence. Any stranger may have it filled.
    size_t memory = 2 * (size_t)config->header_bytes_max + 8192;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, server->cert},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, server->key},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)CIPHERS},
        {MHD_OPTION_END, 0, NULL},
    };
    struct MHD_OptionItem no_tls[] = {{MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    server->daemon = MHD_start_daemon(
        flags | (server->cert != NULL ? MHD_USE_TLS : 0), 0, NULL, NULL, on_request, server,
        MHD_OPTION_EXTERNAL_LOGGER, on_log, server, MHD_OPTION_LISTEN_SOCKET, listen_fd,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_NOTIFY_COMPLETED, on_over,
        server, MHD_OPTION_CONNECTION_MEMORY_LIMIT, memory, MHD_OPTION_CONNECTION_LIMIT,
        config->connections_max, MHD_OPTION_PER_IP_CONNECTION_LIMIT, connections_of_one(server),
        MHD_OPTION_CONNECTION_TIMEOUT, config->request_timeout_s, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_ARRAY, server->cert != NULL ? tls : no_tls, MHD_OPTION_END);
    if (server->daemon == NULL) { // and it has closed the socket
        return or_fail(OR_ERR_INVALID, "cannot serve HTTP%s at %s: %s",
                       server->cert != NULL ? "S with this --http-cert and --http-key" : "",
                       server->address, server->trouble);
    }
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct epoll_event event = {.events = EPOLLIN};
    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (server->epoll_fd < 0 || info == NULL ||
        epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, info->epoll_fd, &event) != 0) {
        return or_fail(OR_ERR_IO, "cannot watch the HTTP server's sockets: %m");
    }
    return or_http_tasks_start(server);
}

static or_status_t listen_and_start(or_http_server_t *server, const char *address)
{
    int listen_fd;
    or_status_t status = or_http_listen(address, &listen_fd, server->address,
                                        sizeof server->address, &server->loopback);
    if (status != OR_OK) {
        return status;
    }
    if (!server->loopback && server->config.keys == NULL) {
        close(listen_fd);
        return or_fail(
            OR_ERR_INVALID,
            "--http %s can be reached from other machines, so it needs API keys: give it "
            "--api-key-file or OUTRIDER_API_KEY, or listen at 127.0.0.1",
            address);
    }
    return start(server, listen_fd);
}

or_status_t or_http_server_create(const or_http_server_config_t *config,
                                  or_http_server_t **server_p)
{
    or_http_server_t *server = calloc(1, sizeof *server);
    if (server == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the HTTP server");
    }
    server->epoll_fd = -1;
    TAILQ_INIT(&server->expecting);
    TAILQ_INIT(&server->answering);
    TAILQ_INIT(&server->ending);
    TAILQ_INIT(&server->waiting);
    or_status_t status = take_config(server, config);
    if (status == OR_OK) {
        server->config.connections_max = or_http_descriptors_allow(config->connections_max);
        status = listen_and_start(server, config->address);
    }
    if (status != OR_OK) {
        or_http_server_destroy(&server);
        return status;
    }
    *server_p = server;
    return OR_OK;
}

void or_http_server_destroy(or_http_server_t **server_p)
{
    or_http_server_t *server = *server_p;
    if (server == NULL) {
        return;
    }
    or_http_connection_t *connection;
    TAILQ_FOREACH(connection, &server->answering, links)
    {
        or_http_connection_resume(connection); // the library ends none that sleeps
    }
    if (server->daemon != NULL) {
        MHD_stop_daemon(server->daemon);
    }
    or_http_tasks_end(server);
    if (server->epoll_fd >= 0) {
        close(server->epoll_fd);
    }
    if (server->key != NULL) {
        explicit_bzero(server->key, strlen(server->key));
    }
    free(server->key);
    free(server->cert);
    free(server->cors_origin);
    free(server);
    *server_p = NULL;
}

// ---- turns ----

// Once a turn: what finds no place among these events, or happens again at once, waits for the next one.
static void notice_hang_ups(or_http_server_t *server)
{
    struct epoll_event events[EVENTS_AT_A_TIME];
    int count = epoll_wait(server->epoll_fd, events, EVENTS_AT_A_TIME, 0);
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr != NULL) { // not the library's own
            or_http_connection_notice(events[i].data.ptr, events[i].events);
        }
    }
}

static void cut_the_late(or_http_server_t *server, int64_t now_ns)
{
    or_http_connection_t *first = TAILQ_FIRST(&server->expecting);
    while (first != NULL && first->patience_ns <= now_ns) {
        or_http_connection_cut(first);
        or_http_connection_expect(
            first); // to the end of the list, where the library's end finds it
        first = TAILQ_FIRST(&server->expecting);
    }
}

static int64_t next_turn(or_http_server_t *server)
{
    int64_t next_ns = OR_TIME_NEVER;
    unsigned long long wait_ms;
    if (or_http_queue_is_ready(server)) {
        return or_clock_now(or_clock_monotonic());
    }
    if (MHD_get_timeout(server->daemon, &wait_ms) == MHD_YES) {
        next_ns = or_clock_now(or_clock_monotonic()) + (int64_t)wait_ms * OR_NS_PER_MS;
    }
    const or_http_connection_t *first = TAILQ_FIRST(&server->expecting);
    const or_http_connection_t *ending = TAILQ_FIRST(&server->ending);
    if (ending != NULL && ending->look_ns < next_ns) {
        next_ns = ending->look_ns;
    }
    return first != NULL && first->patience_ns < next_ns ? first->patience_ns : next_ns;
}

int64_t or_http_server_turn(or_http_server_t *server)
{
    int64_t now_ns = or_clock_now(or_clock_monotonic());
    notice_hang_ups(server);
    or_http_connections_look(server, now_ns);
    cut_the_late(server, now_ns);
    or_http_tasks_turn(server);
    or_http_queue_turn(server);
    MHD_run(server->daemon);
    return next_turn(server);
}

const char *or_http_server_address(const or_http_server_t *server)
{
    return server->address;
}

int or_http_server_fd(const or_http_server_t *server)
{
    return server->epoll_fd;
}
