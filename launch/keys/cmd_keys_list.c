// outrider keys list - our keys, who may connect here, and the coordinators we know.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/commands.h"
#include "launch/generate/output.h"
#include "launch/keys/keys_options.h"
#include "proto/keys/line_file.h"

#define BLANKS " \t\r\n"

typedef struct {
    char *keys, *authorized;
    bool json;
} config_t;

static const or_option_t table[] = {
    {"json", NULL, OR_OPTION_FLAG, offsetof(config_t, json), NULL, "one JSON object on one line"},
    OR_KEYS_AUTHORIZED_OPTION(config_t, authorized),
    OR_KEYS_FOLDER_OPTION(config_t, keys),
    {0}};

static const or_option_program_t program = {
    .program = "outrider keys list",
    .summary = "our keys, who may connect here, and the coordinators we know; nothing secret",
    .usage = "[options]",
    .table = table,
};

void or_keys_use_folder(const char *folder)
{
    if (folder != NULL) {
        setenv("OUTRIDER_KEYS", folder, 1);
    }
}

or_status_t or_keys_open_authorized(const char *file, or_keyring_t **keyring_p)
{
    char path[OR_KEYS_PATH_BYTES];
    or_status_t status = OR_OK;
    if (file == NULL) {
        status = or_keys_path("authorized", path, sizeof path);
    }
    return status == OR_OK ? or_keyring_open(file != NULL ? file : path, keyring_p) : status;
}

// All that is shown.
typedef struct {
    char folder[OR_KEYS_PATH_BYTES];
    char identity[OR_KEY_BYTES], coordinator[OR_KEY_BYTES]; // public; "": there is none
    or_keyring_t *keyring;
    char *servers; // the file's text
} facts_t;

// ---- gathering ----

// The public key in this file of the folder; one that is not there is "".
static or_status_t read_public(const char *name, char public_key[OR_KEY_BYTES])
{
    char path[OR_KEYS_PATH_BYTES];
    or_key_pair_t pair;
    public_key[0] = '\0';
    or_status_t status = or_keys_path(name, path, sizeof path);
    if (status == OR_OK) {
        status = or_key_file_read(path, &pair);
    }
    if (status == OR_OK) {
        memcpy(public_key, pair.public_key, OR_KEY_BYTES);
        or_key_pair_wipe(&pair);
    }
    return status == OR_ERR_NOT_FOUND ? OR_OK : status;
}

static or_status_t gather(const config_t *config, facts_t *facts)
{
    char servers[OR_KEYS_PATH_BYTES];
    or_status_t status = or_keys_folder(facts->folder, sizeof facts->folder);
    if (status == OR_OK) {
        status = read_public("identity.key", facts->identity);
    }
    if (status == OR_OK) {
        status = read_public("coordinator.key", facts->coordinator);
    }
    if (status == OR_OK) {
        status = or_keys_open_authorized(config->authorized, &facts->keyring);
    }
    if (status == OR_OK) {
        status = or_keys_path("servers", servers, sizeof servers);
    }
    return status == OR_OK ? or_line_file_read(servers, &facts->servers, NULL) : status;
}

static void release(facts_t *facts)
{
    or_keyring_close(&facts->keyring);
    free(facts->servers);
}

// The next server of *text: two words of a line, cut out of it; false at the end.
static bool next_server(char **text, char **endpoint, char **key)
{
    char *line, *rest;
    while ((line = strsep(text, "\n")) != NULL) {
        *endpoint = strtok_r(line, BLANKS, &rest);
        *key = *endpoint != NULL ? strtok_r(NULL, BLANKS, &rest) : NULL;
        if (*key != NULL && or_key_check(*key) == OR_OK) {
            return true;
        }
    }
    return false;
}

// ---- text ----

// Return the key, or how to make one if it is "".
static const char *key_or_how(const char *key, const char *how)
{
    return key[0] != '\0' ? key : how;
}

static void print_limit(uint32_t limit)
{
    if (limit > 0) {
        printf(" %9" PRIu32, limit);
    } else {
        printf(" %9s", "-");
    }
}

static void print_grant(const or_key_grant_t *grant)
{
    char roles[32];
    or_key_roles_name(grant->roles, roles);
    printf("  %-40s  %-12s %-12s %-23s %-7s", grant->key, grant->name, grant->owner, roles,
           grant->trusted ? "yes" : "no");
    print_limit(grant->sessions_max);
    print_limit(grant->tokens_per_minute);
    print_limit(grant->nodes_max);
    putchar('\n');
}

static void print_text(facts_t *facts)
{
    char *rest = facts->servers, *endpoint, *key;
    printf("keys in %s\n\n  identity     %s\n  coordinator  %s\n", facts->folder,
           key_or_how(facts->identity, "none yet (outrider keys new)"),
           key_or_how(facts->coordinator, "none yet (outrider keys new --coordinator)"));
    printf("\nmay connect to this machine's coordinator\n\n");
    if (or_keyring_count(facts->keyring) > 0) {
        printf("  %-40s  %-12s %-12s %-23s %-7s %9s %9s %9s\n", "key", "name", "owner", "roles",
               "trusted", "sessions", "tokens/m", "nodes");
    } else {
        printf("  nobody (outrider keys authorize KEY)\n");
    }
    for (uint32_t i = 0; i < or_keyring_count(facts->keyring); i++) {
        print_grant(or_keyring_at(facts->keyring, i));
    }
    printf("\ncoordinators known here\n\n");
    bool any = false;
    while (next_server(&rest, &endpoint, &key)) {
        printf("  %-40s  %s\n", key, endpoint);
        any = true;
    }
    if (!any) {
        printf("  none (outrider keys trust ENDPOINT KEY)\n");
    }
}

// ---- JSON ----

static json_t *json_key(const char *key)
{
    return key[0] != '\0' ? json_string(key) : json_null();
}

static json_t *json_grant(const or_key_grant_t *grant)
{
    char roles[32];
    or_key_roles_name(grant->roles, roles);
    return json_pack("{s:s, s:s, s:s, s:s, s:b, s:I, s:I, s:I}", "key", grant->key, "name",
                     grant->name, "owner", grant->owner, "roles", roles, "trusted",
                     (int)grant->trusted, "sessions", (json_int_t)grant->sessions_max,
                     "tokens_per_minute", (json_int_t)grant->tokens_per_minute, "nodes",
                     (json_int_t)grant->nodes_max);
}

static or_status_t print_json(facts_t *facts)
{
    char *rest = facts->servers, *endpoint, *key;
    json_t *authorized = json_array(), *servers = json_array();
    for (uint32_t i = 0; i < or_keyring_count(facts->keyring); i++) {
        json_array_append_new(authorized, json_grant(or_keyring_at(facts->keyring, i)));
    }
    while (next_server(&rest, &endpoint, &key)) {
        json_array_append_new(servers, json_pack("{s:s, s:s}", "endpoint", endpoint, "key", key));
    }
    json_t *root = json_pack("{s:s, s:o, s:o, s:o, s:o}", "folder", facts->folder, "identity",
                             json_key(facts->identity), "coordinator", json_key(facts->coordinator),
                             "authorized", authorized, "servers", servers);
    return or_output_json(root, OR_OUTPUT_DIGITS);
}

static int run(int argc, char **argv)
{
    config_t config = {0};
    facts_t facts = {0};
    int code;
    if (!or_command_begin(&program, argc, argv, &config, NULL, &code)) {
        return code;
    }
    or_keys_use_folder(config.keys);
    or_status_t status = gather(&config, &facts);
    if (status == OR_OK && config.json) {
        status = print_json(&facts);
    } else if (status == OR_OK) {
        print_text(&facts);
    }
    release(&facts);
    return or_command_end(&program, &config, NULL, status, OR_EXIT_FAILURE);
}

const or_command_t or_keys_list_command = {
    "list", run, "our keys, who may connect here, and the coordinators we know"};
