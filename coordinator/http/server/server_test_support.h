// server_test_support - an HTTP server, its handler and its clients in one thread: whoever waits lets the server have its
// turns meanwhile.
//
//     /echo    answers at once: method, path, owner and body
//     /busy    the same, after some milliseconds
//     /later   is kept in `kept`, for the test to answer
//     /stream  an event stream, kept in `kept`
//     /page    HTML
//     /task    a task, which says how many bytes there were and on which thread it was; /tasks: one that leads to another
//
// Anything else is 404.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/http/server/server.h"
#include "tests/support/test_support.h"

#define TEXT_BYTES ((size_t)1 << 14)

typedef struct {
    or_http_server_t *server;
    or_http_server_config_t config;
    or_http_call_t *kept; // the last one; NULL when it is over
    unsigned handed, finished, cut, answered;
    unsigned tasks_begun, tasks_answered, tasks_dropped;
    _Atomic int64_t tasks_until_ms; // work takes until then
    int task_nice;                  // of the thread of the last one that was not worked on at once
    unsigned status;                // of the last answer
} world_t;

// Starts a server at a free port of loopback, unless `config.address` says otherwise (or_http_server_config_default and
// what the test has changed in it).
void world_open(world_t *world);
void world_close(world_t *world);
or_http_server_config_t world_config(void);
// Keys as a file with these lines gives them.
or_api_keys_t *world_keys(const char *lines);
unsigned world_port(const world_t *world);
// Tasks take until so many milliseconds from now.
void world_task_until(world_t *world, int ms);
// Turns for so long.
void world_spin(world_t *world, int ms);
// Turns until the counter has this value; fails after so long.
void world_wait(world_t *world, const unsigned *counter, unsigned value, int ms);

typedef struct {
    int fd;
    char text[TEXT_BYTES]; // what came, NUL behind it
    size_t bytes;
    bool closed; // by the server
} client_t;

client_t *client_open(world_t *world);
void client_close(client_t **client_p);
// All of it, or until the server has closed.
void client_send(world_t *world, client_t *client, const char *text);
void client_send_bytes(world_t *world, client_t *client, const char *bytes, size_t count);
// Until this is in what came, which is returned. Fails after 5 s.
const char *client_wait(world_t *world, client_t *client, const char *needle);
// Has the server closed the connection within this time?
bool client_sees_end(world_t *world, client_t *client, int ms);
// Until the server has closed the connection.
void client_wait_closed(world_t *world, client_t *client, int ms);
// Sends and waits for an answer that has the needle.
const char *client_ask(world_t *world, client_t *client, const char *request, const char *needle);
void client_forget(client_t *client);
// A whole exchange over a connection of its own; what came is in static storage.
const char *ask(world_t *world, const char *request);
