#include "coordinator/http/front.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/log/log.h"
#include "coordinator/http/api/api.h"
#include "proto/zmq/channel_zmq.h"

#define SLOTS 8192u                   // texts at a time, those that wait for their turn included
#define DELTAS_A_TURN 256u            // before the sockets are looked after again
#define PAUSE_MS 100                  // before a coordinator that is silent is called again
#define FAREWELL_NS (OR_NS_PER_S / 4) // for the last words to streams

#define KEY_VARIABLE "OUTRIDER_API_KEY" // not an option: command lines are everybody's to read
#define BODY_BYTES_MIN 1024u
#define BODY_BYTES_MAX (1u << 30)

struct or_front {
    or_http_server_t *server;
    or_requests_t *requests;
    or_api_t *api;
    int stop_fd; // an eventfd
    int wake_fd; // an epoll of the server's and of that
    atomic_bool stopping;
    bool running;
    pthread_t thread;
};

// ---- the thread ----

// Whatever the coordinator has said. False: nothing more can be had from it now.
static bool take_deltas(or_front_t *front, int64_t due)
{
    uint32_t slot;
    or_message_t message;
    or_status_t status = or_requests_next(front->requests, due, &slot, &message);
    for (uint32_t i = 0; status == OR_OK && i < DELTAS_A_TURN; i++) {
        or_api_take(front->api, slot, &message);
        or_message_fini(&message);
        status = or_requests_next(front->requests, 0, &slot, &message);
    }
    if (status == OR_OK) {
        or_api_take(front->api, slot, &message);
        or_message_fini(&message);
    }
    return status == OR_OK || status == OR_ERR_AGAIN;
}

// The coordinator is in this process: it is late, not gone.
static void pause_for_hub(const or_front_t *front)
{
    struct epoll_event event;
    or_log(OR_LOG_DEBUG, "http: %s", or_error_text());
    (void)epoll_wait(front->wake_fd, &event, 1, PAUSE_MS);
}

static int64_t turn(or_front_t *front)
{
    int64_t server_due = or_http_server_turn(front->server);
    int64_t api_due = or_api_turn(front->api);
    return server_due < api_due ? server_due : api_due;
}

static void say_farewell(or_front_t *front)
{
    const or_clock_t *clock = or_clock_monotonic();
    int64_t end_ns = or_clock_now(clock) + FAREWELL_NS;
    struct epoll_event event;
    or_api_stop(front->api);
    while (or_clock_now(clock) < end_ns) {
        or_http_server_turn(front->server);
        (void)epoll_wait(or_http_server_fd(front->server), &event, 1, 10);
    }
}

static void *run(void *context)
{
    or_front_t *front = context;
    while (!atomic_load(&front->stopping)) {
        if (!take_deltas(front, turn(front))) {
            pause_for_hub(front);
        }
    }
    say_farewell(front);
    return NULL;
}

// ---- life ----

static or_status_t watch(int epoll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0
               ? OR_OK
               : or_fail(OR_ERR_IO, "http: cannot watch a descriptor: %s", strerror(errno));
}

static or_status_t open_wakes(or_front_t *front)
{
    front->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    front->wake_fd = epoll_create1(EPOLL_CLOEXEC);
    if (front->stop_fd < 0 || front->wake_fd < 0) {
        return or_fail(OR_ERR_IO, "http: no descriptors: %s", strerror(errno));
    }
    return watch(front->wake_fd, front->stop_fd);
}

static or_status_t open_requests(or_front_t *front, or_channel_t *hub)
{
    or_channel_t *channel;
    or_status_t status = or_channel_zmq_connect_inside(hub, front->wake_fd, &channel);
    const or_requests_config_t texts = {.no_padding = true};
    return status == OR_OK
               ? or_requests_create(channel, or_clock_monotonic(), &texts, SLOTS, &front->requests)
               : status;
}

static or_status_t open_server(or_front_t *front, const or_http_server_config_t *config)
{
    or_http_server_config_t full = *config;
    full.handle = or_api_handle;
    full.over = or_api_over;
    full.answered = or_api_answered;
    full.context = front->api;
    or_status_t status = or_http_server_create(&full, &front->server);
    return status == OR_OK ? watch(front->wake_fd, or_http_server_fd(front->server)) : status;
}

// Signals are the main thread's.
static or_status_t start_thread(or_front_t *front)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&front->thread, NULL, run, front);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    front->running = error == 0;
    return error == 0 ? OR_OK : or_fail(OR_ERR_IO, "http: no thread: %s", strerror(error));
}

// End open streams and join the thread.
static void stop_front(or_front_t **front_p)
{
    or_front_t *front = *front_p;
    if (front == NULL) {
        return;
    }
    if (front->running) {
        const uint64_t one = 1;
        atomic_store(&front->stopping, true);
        (void)!write(front->stop_fd, &one, sizeof one);
        pthread_join(front->thread, NULL);
    }
    or_http_server_destroy(&front->server); // says `over`: the API is still there
    or_api_destroy(&front->api);
    or_requests_destroy(&front->requests);
    if (front->wake_fd >= 0) {
        close(front->wake_fd);
    }
    if (front->stop_fd >= 0) {
        close(front->stop_fd);
    }
    free(front);
    *front_p = NULL;
}

static or_status_t start_front(const or_front_config_t *config,
                               const or_http_server_config_t *server, or_front_t **front_p)
{
    const or_api_config_t api = {.model = config->model_name,
                                 .vocab = config->vocab,
                                 .chat_trouble = config->chat != NULL ? NULL : config->chat_trouble,
                                 .chat = config->chat,
                                 .tools = config->tools,
                                 .clock = or_clock_monotonic(),
                                 .slots = SLOTS,
                                 .keys = server->keys,
                                 .ledger = config->ledger};
    or_front_t *front = calloc(1, sizeof *front);
    if (front == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the HTTP face");
    }
    front->stop_fd = front->wake_fd = -1;
    or_status_t status = open_wakes(front);
    if (status == OR_OK) {
        status = open_requests(front, config->hub);
    }
    if (status == OR_OK) {
        status = or_api_create(&api, front->requests, &front->api);
    }
    if (status == OR_OK) {
        status = open_server(front, server);
    }
    if (status == OR_OK) {
        status = start_thread(front);
    }
    if (status != OR_OK) {
        stop_front(&front);
        return status;
    }
    *front_p = front;
    return OR_OK;
}

const char *or_front_address(const or_front_t *front)
{
    return or_http_server_address(front->server);
}

// ---- options ----

or_front_options_t or_front_options_default(void)
{
    static char none[] = "none";
    return (or_front_options_t){.address = none,
                                .body_bytes_max = or_http_server_config_default().body_bytes_max};
}

// Does the user want the usual address, if nobody has it?
static bool is_auto(const or_front_options_t *options)
{
    return strcmp(options->address, "auto") == 0;
}

// "off" says the same.
static bool is_off(const or_front_options_t *options)
{
    return strcmp(options->address, "none") == 0 || strcmp(options->address, "off") == 0;
}

// The single API key of the environment; NULL: there is none.
static const char *key_of_environment(void)
{
    const char *key = getenv(KEY_VARIABLE);
    return key != NULL && key[0] != '\0' ? key : NULL;
}

or_status_t or_front_options_check(const or_front_options_t *options)
{
    if ((options->cert_file == NULL) != (options->key_file == NULL)) {
        return or_fail(OR_ERR_INVALID, "--http-cert and --http-key: HTTPS needs both");
    }
    if (options->api_key_file != NULL && key_of_environment() != NULL) {
        return or_fail(OR_ERR_INVALID, "--api-key-file and " KEY_VARIABLE
                                       ": give the keys in one of them, not in both");
    }
    if (options->body_bytes_max < BODY_BYTES_MIN || options->body_bytes_max > BODY_BYTES_MAX) {
        return or_fail(OR_ERR_INVALID, "--http-body-max is not between %u and %u bytes",
                       BODY_BYTES_MIN, BODY_BYTES_MAX);
    }
    const or_chat_t *chat;
    return options->chat_template != NULL ? or_chat_by_name(options->chat_template, &chat) : OR_OK;
}

or_status_t or_front_options_chat(const or_front_options_t *options, const or_gguf_t *gguf,
                                  const or_chat_t **chat_p, char *trouble, size_t capacity)
{
    if (options->chat_template != NULL) {
        return or_chat_by_name(options->chat_template, chat_p);
    }
    *chat_p = NULL;
    if (or_chat_of_model(gguf, chat_p) != OR_OK) { // texts that are no conversations go on
        *chat_p = NULL;
        snprintf(trouble, capacity, "%s", or_error_text());
    }
    return OR_OK;
}

// ---- the service ----

static or_status_t read_keys(const or_front_options_t *options, or_api_keys_t **keys_p)
{
    if (options->api_key_file != NULL) {
        return or_api_keys_read(options->api_key_file, keys_p);
    }
    const char *key = key_of_environment();
    return key != NULL ? or_api_keys_one(key, keys_p) : OR_OK;
}

or_status_t or_front_service_start(const or_front_options_t *options,
                                   const or_front_config_t *config, or_front_service_t *service)
{
    *service = (or_front_service_t){0};
    if (is_off(options)) {
        return OR_OK;
    }
    or_status_t status = read_keys(options, &service->keys);
    if (status == OR_OK) {
        or_http_server_config_t server = or_http_server_config_default();
        server.address = is_auto(options) ? server.address : options->address;
        server.cert_file = options->cert_file;
        server.key_file = options->key_file;
        server.cors_origin = options->cors_origin;
        server.keys = service->keys;
        server.ledger = config->ledger;
        server.body_bytes_max = (size_t)options->body_bytes_max;
        status = start_front(config, &server, &service->front);
    }
    if (status == OR_ERR_IO && is_auto(options) && options->cert_file == NULL &&
        options->api_key_file == NULL) { // somebody has it, and nobody asked for it by name
        or_log(OR_LOG_WARN,
               "%s: no HTTP here; --http HOST:PORT names another address, port 0 for any free one",
               or_error_text());
        or_api_keys_destroy(&service->keys);
        return OR_OK;
    }
    if (status == OR_OK) {
        or_log(OR_LOG_INFO, "http on %s://%s%s", options->cert_file != NULL ? "https" : "http",
               or_front_address(service->front), service->keys != NULL ? ", with API keys" : "");
    }
    return status;
}

void or_front_service_stop(or_front_service_t *service)
{
    stop_front(&service->front);
    or_api_keys_destroy(&service->keys);
}
