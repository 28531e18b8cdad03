// outrider keys new, trust - a pair of our own, and the keys of coordinators we connect to.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/commands.h"
#include "launch/keys/keys_options.h"
#include "proto/keys/line_file.h"

// ---- new ----

typedef struct {
    char *name, *keys;
    bool coordinator;
} new_config_t;

static const or_option_t new_table[] = {
    {"name", NULL, OR_OPTION_STRING, offsetof(new_config_t, name), "NAME",
     "what the coordinator's list should call this machine; its host name if not given"},
    {"coordinator", NULL, OR_OPTION_FLAG, offsetof(new_config_t, coordinator), NULL,
     "a coordinator's key (coordinator.key), not ours to connect with (identity.key)"},
    OR_KEYS_FOLDER_OPTION(new_config_t, keys),
    {0}};

static const or_option_program_t new_program = {
    .program = "outrider keys new",
    .summary = "make this machine's key, or a coordinator's, and say what to do next",
    .usage = "[options]",
    .table = new_table,
    .examples =
        "A key that is there already stays, and is shown again. Nothing secret is printed.\n\n"
        "Examples:\n"
        "  outrider keys new --name laptop\n"
        "  outrider keys new --coordinator",
};

static void print_next(const new_config_t *config, const char *public_key)
{
    char host[256] = "";
    if (config->coordinator) {
        printf("On each machine that is to connect:\n\n"
               "  outrider keys trust tcp://HOST:PORT '%s'\n\n",
               public_key);
        return;
    }
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') {
        snprintf(host, sizeof host, "laptop");
    }
    printf("On the coordinator's machine:\n\n"
           "  outrider keys authorize '%s' --name %s\n\n",
           public_key, config->name != NULL ? config->name : host);
}

static or_status_t make(const new_config_t *config)
{
    char path[OR_KEYS_PATH_BYTES];
    or_key_pair_t pair;
    bool created;
    const char *file = config->coordinator ? "coordinator.key" : "identity.key";
    const char *comment = config->coordinator ? "this coordinator's key; keep it secret"
                                              : "who we are for coordinators; keep it secret";
    or_status_t status = or_keys_path(file, path, sizeof path);
    if (status == OR_OK) {
        status = or_key_file_obtain(path, comment, &pair, &created);
    }
    if (status != OR_OK) {
        return status;
    }
    printf("%s %s\npublic key %s\n\n", path, created ? "is made" : "was there already",
           pair.public_key);
    print_next(config, pair.public_key);
    or_key_pair_wipe(&pair);
    return OR_OK;
}

int or_command_keys_new(int argc, char **argv)
{
    new_config_t config = {0};
    or_options_next_t next;
    or_status_t status = or_options_parse(&new_program, argc, argv, &config, NULL, &next);
    if (status != OR_OK || next == OR_OPTIONS_EXIT) {
        return status == OR_OK ? OR_EXIT_OK : or_command_fail("keys new", OR_EXIT_USAGE);
    }
    or_keys_use_folder(config.keys);
    status = make(&config);
    or_options_free(&new_program, &config, NULL);
    return status == OR_OK ? OR_EXIT_OK : or_command_fail("keys new", OR_EXIT_FAILURE);
}

// ---- trust ----

typedef struct {
    char *keys;
} trust_config_t;

static const or_option_t trust_table[] = {OR_KEYS_FOLDER_OPTION(trust_config_t, keys), {0}};

static const or_option_program_t trust_program = {
    .program = "outrider keys trust",
    .summary =
        "remember the public key of the coordinator at an endpoint: nobody else can answer there",
    .usage = "ENDPOINT KEY [options]",
    .table = trust_table,
    .examples =
        "The endpoint is what --connect will be given, to the letter. Keys need single quotes in "
        "a shell.\n\n"
        "Example:\n"
        "  outrider keys trust tcp://gpu.example.org:5577 "
        "'rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7'",
};

static or_status_t check_trust(const or_option_list_t *words)
{
    if (words->count != 2) {
        return or_fail(OR_ERR_INVALID, "an endpoint and a key are needed: outrider keys trust "
                                       "tcp://HOST:PORT 'KEY'");
    }
    if (strstr(words->items[0], "://") == NULL || strpbrk(words->items[0], " \t\r\n") != NULL) {
        return or_fail(OR_ERR_INVALID, "'%s' is no endpoint, as tcp://HOST:PORT is",
                       words->items[0]);
    }
    return or_key_check(words->items[1]);
}

// The line of the endpoint, in place of the one it had.
static or_status_t write_server(const char *path, const char *endpoint, const char *key)
{
    char line[OR_KEYS_PATH_BYTES];
    char *text = NULL, *edited = NULL;
    if (snprintf(line, sizeof line, "%s %s", endpoint, key) >= (int)sizeof line) {
        return or_fail(OR_ERR_INVALID, "the endpoint is too long");
    }
    or_status_t status = or_line_file_read(path, &text, NULL);
    if (status == OR_OK) {
        status = or_line_replace(text, endpoint, line, &edited);
    }
    if (status == OR_OK) {
        status = or_line_file_write(path, edited);
    }
    free(edited);
    free(text);
    return status;
}

static or_status_t trust(const char *endpoint, const char *key)
{
    char path[OR_KEYS_PATH_BYTES];
    int lock;
    or_status_t status = or_keys_path("servers", path, sizeof path);
    if (status == OR_OK) {
        status = or_line_file_lock(path, &lock);
    }
    if (status != OR_OK) {
        return status;
    }
    status = write_server(path, endpoint, key);
    close(lock);
    if (status == OR_OK) {
        printf("%s is trusted with the key %s\n", endpoint, key);
    }
    return status;
}

int or_command_keys_trust(int argc, char **argv)
{
    trust_config_t config = {0};
    or_option_list_t words = {0};
    or_options_next_t next;
    or_status_t status = or_options_parse(&trust_program, argc, argv, &config, &words, &next);
    if (status != OR_OK || next == OR_OPTIONS_EXIT) {
        return status == OR_OK ? OR_EXIT_OK : or_command_fail("keys trust", OR_EXIT_USAGE);
    }
    int code = OR_EXIT_USAGE;
    status = check_trust(&words);
    if (status == OR_OK) {
        or_keys_use_folder(config.keys);
        code = OR_EXIT_FAILURE;
        status = trust(words.items[0], words.items[1]);
    }
    or_options_free(&trust_program, &config, &words);
    return status == OR_OK ? OR_EXIT_OK : or_command_fail("keys trust", code);
}
