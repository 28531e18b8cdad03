// Goal: only who may comes in: with a key where keys are asked for, from this machine where they are not, and never by
// way of somebody else's page in a browser.
// Method: a server for each setting, and requests as browsers, programs and attackers make them.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "coordinator/http/server/server_test_support.h"

#define KEY "sk-outrider-0123456789"
#define HOST "Host: localhost\r\n"
#define BODY "Content-Length: 2\r\n\r\n{}"
#define LARGE_BYTES 40000
#define LONG_MS 60000

static world_t *world_with(or_api_keys_t *keys, const char *cors_origin)
{
    world_t *world = calloc(1, sizeof *world);
    world->config = world_config();
    world->config.keys = keys;
    world->config.cors_origin = cors_origin;
    world_open(world);
    return world;
}

static void world_free(world_t *world)
{
    world_close(world);
    free(world);
}

static void assert_status(world_t *world, const char *status, const char *request)
{
    char start[32];
    snprintf(start, sizeof start, "HTTP/1.1 %s", status);
    const char *answer = ask(world, request);
    if (strncmp(answer, start, strlen(start)) != 0) {
        fail_msg("%s to '%s', not %s", answer, request, status);
    }
}

static void keys_are_asked_for(void **state)
{
    (void)state;
    or_api_keys_t *keys = NULL;
    assert_int_equal(or_api_keys_one(KEY, &keys), OR_OK);
    world_t *world = world_with(keys, NULL);
    client_t *client = client_open(world);
    client_ask(world, client, "GET /echo HTTP/1.1\r\n" HOST "\r\n", "\"invalid_api_key\"");
    assert_non_null(strstr(client->text, "HTTP/1.1 401"));
    assert_non_null(strstr(client->text, "WWW-Authenticate: Basic realm=\"outrider\""));
    assert_non_null(strstr(client->text, "WWW-Authenticate: Bearer realm=\"outrider\""));
    assert_non_null(strstr(client->text, "\"type\":\"authentication_error\""));
    // The same connection, with a body that is refused too, and then with keys.
    client_ask(world, client, "POST /echo HTTP/1.1\r\n" HOST BODY, "\"invalid_api_key\"");
    client_ask(world, client,
               "GET /echo HTTP/1.1\r\n" HOST "Authorization: Bearer " KEY "x\r\n\r\n",
               "\"invalid_api_key\"");
    assert_null(strstr(client->text, KEY));
    client_ask(world, client, "GET /echo HTTP/1.1\r\n" HOST "Authorization: Bearer " KEY "\r\n\r\n",
               "GET /echo q= owner= ");
    client_ask(world, client,
               "GET /echo HTTP/1.1\r\n" HOST
               "Authorization: Basic bWU6c2stb3V0cmlkZXItMDEyMzQ1Njc4OQ==\r\n\r\n",
               "GET /echo q= owner= ");
    client_close(&client);
    assert_int_equal(world->handed, 2);
    // Everything needs one but a browser's question, which comes without.
    assert_status(world, "401", "GET / HTTP/1.1\r\n" HOST "\r\n");
    assert_status(world, "401", "GET /health HTTP/1.1\r\n" HOST "\r\n");
    assert_status(world, "401", "HEAD /metrics HTTP/1.1\r\n" HOST "\r\n");
    assert_status(world, "204", "OPTIONS /echo HTTP/1.1\r\n" HOST "\r\n");
    // A large body is not even read.
    assert_status(world, "401", "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 9000000\r\n\r\n{}");
    world_free(world);
    or_api_keys_destroy(&keys);
}

// A server whose only key is in a file of its own.
static world_t *world_with_file(char *path)
{
    or_api_keys_t *keys = NULL;
    int fd = mkstemp(path);
    dprintf(fd, "%s alice\n", KEY);
    close(fd);
    assert_int_equal(or_api_keys_read(path, &keys), OR_OK);
    return world_with(keys, NULL);
}

static void revoke_key(world_t *world, const char *path)
{
    bool changed;
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(or_api_keys_refresh(world->config.keys, &changed), OR_ERR_AGAIN);
    assert_int_equal(or_api_keys_refresh(world->config.keys, &changed), OR_OK);
}

static void free_with_file(world_t *world, const char *path)
{
    or_api_keys_t *keys = world->config.keys;
    world_free(world);
    or_api_keys_destroy(&keys);
    unlink(path);
}

static void a_key_that_is_revoked_meanwhile_opens_nothing(void **state)
{
    (void)state;
    char path[] = "/tmp/outrider_api_keys_XXXXXX";
    world_t *world = world_with_file(path);
    client_t *client = client_open(world);
    client_send(world, client,
                "POST /echo HTTP/1.1\r\n" HOST "Authorization: Bearer " KEY "\r\n"
                "Content-Length: 4\r\n\r\n12");
    world_spin(world, 20);
    revoke_key(world, path);
    client_ask(world, client, "34", "\"invalid_api_key\"");
    assert_int_equal(world->handed, 0);
    client_close(&client);
    free_with_file(world, path);
}

static void nor_does_one_that_is_revoked_during_a_task(void **state)
{
    (void)state;
    char path[] = "/tmp/outrider_api_keys_XXXXXX", body[LARGE_BYTES];
    world_t *world = world_with_file(path);
    client_t *client = client_open(world);
    memset(body, 'x', sizeof body);
    world_task_until(world, LONG_MS);
    client_send(world, client,
                "POST /task HTTP/1.1\r\n" HOST "Authorization: Bearer " KEY "\r\n"
                "Content-Length: 40000\r\n\r\n");
    client_send_bytes(world, client, body, sizeof body);
    world_wait(world, &world->handed, 1, 1000);
    revoke_key(world, path);
    world_task_until(world, 0);
    client_wait(world, client, "\"invalid_api_key\"");
    assert_int_equal(world->tasks_answered, 0);
    assert_int_equal(world->tasks_dropped, 1);
    client_close(&client);
    free_with_file(world, path);
}

static void owners_are_told_to_the_handler(void **state)
{
    (void)state;
    or_api_keys_t *keys = world_keys(KEY " alice\n");
    world_t *world = world_with(keys, NULL);
    assert_non_null(
        strstr(ask(world, "GET /echo HTTP/1.1\r\n" HOST "Authorization: bearer " KEY "\r\n\r\n"),
               "owner=alice"));
    world_free(world);
    or_api_keys_destroy(&keys);
}

static void without_keys_only_loopback_is_served(void **state)
{
    (void)state;
    world_t *world = world_with(NULL, NULL);
    assert_status(world, "200", "GET /echo HTTP/1.1\r\nHost: localhost:8080\r\n\r\n");
    assert_status(world, "200", "GET /echo HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n");
    assert_status(world, "200", "GET /echo HTTP/1.1\r\nHost: 127.8.9.1\r\n\r\n");
    assert_status(world, "200", "GET /echo HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n");
    assert_status(world, "200", "GET /echo HTTP/1.1\r\nHost: LOCALHOST\r\n\r\n");
    assert_status(world, "200", "GET /echo HTTP/1.0\r\n\r\n");
    assert_status(world, "403", "GET /echo HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert_status(world, "403", "GET /echo HTTP/1.1\r\nHost: localhost.evil.example:80\r\n\r\n");
    assert_status(world, "403", "GET /echo HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n");
    assert_status(world, "403", "GET /echo HTTP/1.1\r\nHost: 192.168.0.1\r\n\r\n");
    assert_status(world, "403", "GET /echo HTTP/1.1\r\nHost: [::2]\r\n\r\n");
    assert_status(world, "403", "OPTIONS /echo HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    world_free(world);
}

static void pages_from_elsewhere_may_not_act(void **state)
{
    (void)state;
    world_t *world = world_with(NULL, NULL);
    assert_status(world, "200", "POST /echo HTTP/1.1\r\n" HOST BODY);
    assert_status(world, "200", "POST /echo HTTP/1.1\r\n" HOST "Origin: http://localhost\r\n" BODY);
    assert_status(world, "403",
                  "POST /echo HTTP/1.1\r\n" HOST "Origin: http://evil.example\r\n" BODY);
    assert_status(world, "403", "POST /echo HTTP/1.1\r\n" HOST "Origin: null\r\n" BODY);
    assert_status(world, "403",
                  "POST /echo HTTP/1.1\r\n" HOST "Origin: http://localhost:1\r\n" BODY);
    const char *answer =
        ask(world, "OPTIONS /echo HTTP/1.1\r\n" HOST "Origin: http://evil.example\r\n"
                   "Access-Control-Request-Method: POST\r\n\r\n");
    assert_non_null(strstr(answer, "HTTP/1.1 403"));
    assert_null(strstr(answer, "Access-Control-Allow"));
    world_free(world);
}

static void pages_that_are_allowed_may(void **state)
{
    (void)state;
    world_t *world = world_with(NULL, "https://chat.example");
    const char *answer =
        ask(world, "OPTIONS /echo HTTP/1.1\r\n" HOST "Origin: https://chat.example\r\n"
                   "Access-Control-Request-Method: POST\r\n\r\n");
    assert_non_null(strstr(answer, "HTTP/1.1 204"));
    assert_non_null(strstr(answer, "Access-Control-Allow-Origin: https://chat.example\r\n"));
    assert_non_null(strstr(answer, "Access-Control-Allow-Headers: Authorization, Content-Type, "
                                   "Last-Event-ID, X-Request-Id\r\n"));
    assert_non_null(strstr(answer, "Access-Control-Allow-Methods: GET, HEAD, POST, OPTIONS\r\n"));
    answer = ask(world, "POST /echo HTTP/1.1\r\n" HOST "Origin: https://chat.example\r\n" BODY);
    assert_non_null(strstr(answer, "HTTP/1.1 200"));
    assert_non_null(strstr(answer, "Vary: Origin\r\n"));
    assert_non_null(strstr(answer, "Access-Control-Allow-Origin: https://chat.example\r\n"));
    assert_status(world, "403",
                  "POST /echo HTTP/1.1\r\n" HOST "Origin: https://chat.example.evil\r\n" BODY);
    world_free(world);
    world = world_with(NULL, "*");
    answer = ask(world, "POST /echo HTTP/1.1\r\n" HOST "Origin: https://any.example\r\n" BODY);
    assert_non_null(strstr(answer, "Access-Control-Allow-Origin: *\r\n"));
    world_free(world);
}

// ---- begin ----

static void assert_refused(or_http_server_config_t config, or_status_t status, const char *because)
{
    or_http_server_t *server = NULL;
    assert_int_equal(or_http_server_create(&config, &server), status);
    assert_null(server);
    if (strstr(or_error_text(), because) == NULL) {
        fail_msg("'%s' does not say '%s'", or_error_text(), because);
    }
}

static void settings_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    static const char *const no_addresses[] = {
        "",         "8080",           ":8080",           "localhost:",
        "::1:8080", "127.0.0.1:http", "127.0.0.1:65536", "[::1]8080"};
    or_http_server_config_t config = world_config();
    for (unsigned i = 0; i < sizeof no_addresses / sizeof *no_addresses; i++) {
        config.address = no_addresses[i];
        assert_refused(config, OR_ERR_INVALID, "--http ");
    }
    config.address = "0.0.0.0:0";
    assert_refused(config, OR_ERR_INVALID, "--api-key-file");
    config = world_config();
    config.cert_file = "/nowhere";
    assert_refused(config, OR_ERR_INVALID, "belong together");
    config.key_file = "/nowhere";
    assert_refused(config, OR_ERR_IO, "--http-cert /nowhere");
    config.cert_file = config.key_file = "/proc/self/status";
    assert_refused(config, OR_ERR_INVALID, "is no PEM file");
    config = world_config();
    config.cors_origin = "chat.example/";
    assert_refused(config, OR_ERR_INVALID, "--http-cors");
    world_t *world = world_with(NULL, NULL);
    config = world_config();
    config.address = or_http_server_address(world->server);
    assert_refused(config, OR_ERR_IO, "choose another port");
    world_free(world);
}

static void loopback_is_told_from_the_rest(void **state)
{
    (void)state;
    assert_true(or_http_address_is_loopback("127.0.0.1:8080"));
    assert_true(or_http_address_is_loopback("127.255.0.9:0"));
    assert_true(or_http_address_is_loopback("localhost:80"));
    assert_true(or_http_address_is_loopback("[::1]:8080"));
    assert_false(or_http_address_is_loopback("0.0.0.0:8080"));
    assert_false(or_http_address_is_loopback("[::]:8080"));
    assert_false(or_http_address_is_loopback("128.0.0.1:8080"));
    assert_false(or_http_address_is_loopback("localhost.example:80"));
    assert_false(or_http_address_is_loopback("127.0.0.1"));
}

// ---- TLS ----

// Return the output of a shell command that runs while the server has its turns.
static const char *run(world_t *world, const char *command)
{
    static char text[TEXT_BYTES];
    size_t bytes = 0;
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    fcntl(fileno(pipe), F_SETFL, O_NONBLOCK);
    ssize_t count = -1;
    while (count != 0 && bytes < sizeof text - 1) {
        count = read(fileno(pipe), text + bytes, sizeof text - 1 - bytes);
        bytes += count > 0 ? (size_t)count : 0;
        world_spin(world, 2);
    }
    text[bytes] = '\0';
    pclose(pipe);
    return text;
}

static bool make_certificate(const char *folder)
{
    char command[512];
    snprintf(command, sizeof command,
             "cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
             "-days 2 -subj /CN=localhost -keyout key.pem -out cert.pem 2>/dev/null && "
             "openssl genpkey -algorithm ed25519 -out other.pem 2>/dev/null",
             folder);
    return system(command) == 0;
}

static void tls_is_spoken(void **state)
{
    (void)state;
    char folder[] = "/tmp/outrider_tls_XXXXXX", cert[64], key[64], other[64], command[512];
    assert_non_null(mkdtemp(folder));
    snprintf(cert, sizeof cert, "%s/cert.pem", folder);
    snprintf(key, sizeof key, "%s/key.pem", folder);
    snprintf(other, sizeof other, "%s/other.pem", folder);
    if (!make_certificate(folder)) {
        skip(); // there is no openssl command here
    }
    world_t *world = calloc(1, sizeof *world);
    world->config = world_config();
    world->config.cert_file = cert;
    world->config.key_file = other;
    assert_refused(world->config, OR_ERR_INVALID, "with this --http-cert and --http-key");
    world->config.key_file = key;
    chmod(key, 0640);
    assert_refused(world->config, OR_ERR_INVALID, "chmod 600 ");
    chmod(key, 0604);
    assert_refused(world->config, OR_ERR_INVALID, "that others can read");
    chmod(key, 0600);
    world_open(world);
    snprintf(command, sizeof command,
             "(printf 'POST /echo HTTP/1.1\\r\\n" HOST
             "Connection: close\\r\\nContent-Length: 6\\r\\n"
             "\\r\\nsecret'; sleep 1) | timeout 5 openssl s_client -quiet -connect %s 2>/dev/null",
             or_http_server_address(world->server));
    assert_non_null(strstr(run(world, command), "body=6:secret"));
    // Plain HTTP gets nowhere.
    assert_null(strstr(ask(world, "GET /echo HTTP/1.1\r\n" HOST "\r\n"), "/echo"));
    // A stream whose client is gone ends.
    unsigned cut = world->cut;
    snprintf(command, sizeof command,
             "(printf 'GET /stream HTTP/1.1\\r\\n" HOST "\\r\\n'; sleep 1) | "
             "timeout 0.5 openssl s_client -quiet -connect %s 2>/dev/null",
             or_http_server_address(world->server));
    assert_non_null(strstr(run(world, command), "text/event-stream"));
    world_wait(world, &world->cut, cut + 1, 900);
    world_free(world);
    unlink(cert);
    unlink(key);
    unlink(other);
    rmdir(folder);
}

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_asked_for),
        cmocka_unit_test(a_key_that_is_revoked_meanwhile_opens_nothing),
        cmocka_unit_test(nor_does_one_that_is_revoked_during_a_task),
        cmocka_unit_test(owners_are_told_to_the_handler),
        cmocka_unit_test(without_keys_only_loopback_is_served),
        cmocka_unit_test(pages_from_elsewhere_may_not_act),
        cmocka_unit_test(pages_that_are_allowed_may),
        cmocka_unit_test(settings_that_make_no_sense_are_refused),
        cmocka_unit_test(loopback_is_told_from_the_rest),
        cmocka_unit_test(tls_is_spoken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
