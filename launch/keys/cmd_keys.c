// outrider keys - who may connect to a coordinator, and who we are when we do.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/commands.h"
#include "launch/keys/keys_options.h"
#include "proto/keys/key_grant.h"
#include "proto/keys/line_file.h"
#include "proto/net/endpoint.h"

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

static int run_new(int argc, char **argv)
{
    new_config_t config = {0};
    int code;
    if (!or_command_begin(&new_program, argc, argv, &config, NULL, &code)) {
        return code;
    }
    or_keys_use_folder(config.keys);
    or_status_t status = make(&config);
    return or_command_end(&new_program, &config, NULL, status, OR_EXIT_FAILURE);
}

static const or_command_t new_command = {
    "new", run_new, "make this machine's key, or a coordinator's, and say what to do next"};

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
    const char *endpoint = words->items[0];
    if (strpbrk(endpoint, " \t\r\n") != NULL) { // it becomes a word of a line
        return or_fail(OR_ERR_INVALID, "'%s' is not an endpoint: it has spaces", endpoint);
    }
    or_status_t status = or_endpoint_check(endpoint, false);
    return status == OR_OK ? or_key_check(words->items[1]) : status;
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

static int run_trust(int argc, char **argv)
{
    trust_config_t config = {0};
    or_option_list_t words = {0};
    int code;
    if (!or_command_begin(&trust_program, argc, argv, &config, &words, &code)) {
        return code;
    }
    code = OR_EXIT_USAGE;
    or_status_t status = check_trust(&words);
    if (status == OR_OK) {
        or_keys_use_folder(config.keys);
        code = OR_EXIT_FAILURE;
        status = trust(words.items[0], words.items[1]);
    }
    return or_command_end(&trust_program, &config, &words, status, code);
}

static const or_command_t trust_command = {"trust", run_trust, "remember a coordinator's key"};

// ---- authorize ----

typedef struct {
    char *name, *owner, *roles, *keys, *authorized;
    bool trusted;
    uint32_t sessions, tokens_per_minute, nodes;
} authorize_config_t;

static const or_option_t authorize_table[] = {
    {"name", NULL, OR_OPTION_STRING, offsetof(authorize_config_t, name), "NAME",
     "what to call it; the key's first letters if not given"},
    {"owner", NULL, OR_OPTION_STRING, offsetof(authorize_config_t, owner), "OWNER",
     "whose texts it asks for, drafts and so reads, and no others; its name if not given"},
    {"roles", NULL, OR_OPTION_STRING, offsetof(authorize_config_t, roles), "ROLES",
     "client, drafter, verifier, with commas between them"},
    {"trusted", NULL, OR_OPTION_FLAG, offsetof(authorize_config_t, trusted), NULL,
     "as a drafter it is believed what it drew, for the rules that need that (sps, recursive ...)"},
    {"sessions", NULL, OR_OPTION_UINT32, offsetof(authorize_config_t, sessions), "N",
     "requests at a time, at most; 0: no limit of its own"},
    {"tokens-per-minute", NULL, OR_OPTION_UINT32, offsetof(authorize_config_t, tokens_per_minute),
     "N", "a text that is faster waits; 0: no limit"},
    {"nodes", NULL, OR_OPTION_UINT32, offsetof(authorize_config_t, nodes), "N",
     "guesses a round, at most; 0: no limit of its own"},
    OR_KEYS_AUTHORIZED_OPTION(authorize_config_t, authorized),
    OR_KEYS_FOLDER_OPTION(authorize_config_t, keys),
    {0}};

static const or_option_program_t authorize_program = {
    .program = "outrider keys authorize",
    .summary = "let a key connect to this machine's coordinator; what it was allowed before is "
               "replaced",
    .usage = "KEY [options]",
    .table = authorize_table,
    .examples =
        "A coordinator that runs notices within a second. Keys need single quotes in a shell.\n\n"
        "Example:\n"
        "  outrider keys authorize 'rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7' --name laptop "
        "--owner ada --sessions 4",
};

static or_status_t copy_name(const char *option, const char *text, const char *usual,
                             char name[OR_KEY_NAME_BYTES])
{
    const char *chosen = text != NULL ? text : usual;
    if (snprintf(name, OR_KEY_NAME_BYTES, "%s", chosen) >= OR_KEY_NAME_BYTES) {
        return or_fail(OR_ERR_INVALID, "%s: at most %d bytes", option, OR_KEY_NAME_BYTES - 1);
    }
    return OR_OK;
}

// The grant that the command line describes.
static or_status_t describe(const authorize_config_t *config, const or_option_list_t *words,
                            or_key_grant_t *grant)
{
    char short_key[9];
    if (words->count != 1) {
        return or_fail(OR_ERR_INVALID, "one key is needed, as `outrider keys new` on its machine "
                                       "prints it: outrider keys authorize 'KEY'");
    }
    or_status_t status = or_key_check(words->items[0]);
    if (status != OR_OK) {
        return status;
    }
    *grant = (or_key_grant_t){.trusted = config->trusted,
                              .sessions_max = config->sessions,
                              .tokens_per_minute = config->tokens_per_minute,
                              .nodes_max = config->nodes};
    memcpy(grant->key, words->items[0], sizeof grant->key);
    or_key_short(grant->key, short_key);
    status = copy_name("--name", config->name, short_key, grant->name);
    if (status == OR_OK) {
        status = copy_name("--owner", config->owner, grant->name, grant->owner);
    }
    if (status == OR_OK) {
        status = or_fail_context(or_key_roles_parse(config->roles, &grant->roles), "--roles");
    }
    return status == OR_OK ? or_key_grant_check(grant) : status;
}

static or_status_t authorize(const authorize_config_t *config, const or_key_grant_t *grant)
{
    char roles[32];
    or_keyring_t *keyring = NULL;
    or_status_t status = or_keys_open_authorized(config->authorized, &keyring);
    if (status != OR_OK) {
        return status;
    }
    bool known = or_keyring_find(keyring, grant->key) != NULL;
    status = or_keyring_authorize(keyring, grant);
    if (status == OR_OK) {
        or_key_roles_name(grant->roles, roles);
        printf("%s %s connect as %s for the owner %s%s\n", grant->name,
               known ? "may, from now on," : "may", roles, grant->owner,
               grant->trusted ? ", trusted" : "");
    }
    or_keyring_close(&keyring);
    return status;
}

static int run_authorize(int argc, char **argv)
{
    char roles[] = "client,drafter";
    authorize_config_t config = {.roles = roles};
    or_option_list_t words = {0};
    or_key_grant_t grant;
    int code;
    if (!or_command_begin(&authorize_program, argc, argv, &config, &words, &code)) {
        return code;
    }
    code = OR_EXIT_USAGE;
    or_status_t status = describe(&config, &words, &grant);
    if (status == OR_OK) {
        or_keys_use_folder(config.keys);
        code = OR_EXIT_FAILURE;
        status = authorize(&config, &grant);
    }
    return or_command_end(&authorize_program, &config, &words, status, code);
}

static const or_command_t authorize_command = {"authorize", run_authorize,
                                               "let a key connect to this machine's coordinator"};

// ---- revoke ----

typedef struct {
    char *keys, *authorized;
} revoke_config_t;

static const or_option_t revoke_table[] = {OR_KEYS_AUTHORIZED_OPTION(revoke_config_t, authorized),
                                           OR_KEYS_FOLDER_OPTION(revoke_config_t, keys),
                                           {0}};

static const or_option_program_t revoke_program = {
    .program = "outrider keys revoke",
    .summary =
        "let a key connect no more; a coordinator that runs cuts it off within a second, and "
        "its texts end",
    .usage = "KEY|NAME [options]",
    .table = revoke_table,
    .examples = "Example:\n"
                "  outrider keys revoke laptop",
};

static or_status_t revoke_key(const char *file, const char *key_or_name)
{
    or_keyring_t *keyring = NULL;
    or_status_t status = or_keys_open_authorized(file, &keyring);
    if (status == OR_OK) {
        status = or_keyring_revoke(keyring, key_or_name);
    }
    if (status == OR_OK) {
        printf("%s may not connect any more\n", key_or_name);
    }
    or_keyring_close(&keyring);
    return status;
}

static int run_revoke(int argc, char **argv)
{
    revoke_config_t config = {0};
    or_option_list_t words = {0};
    or_status_t status;
    int code;
    if (!or_command_begin(&revoke_program, argc, argv, &config, &words, &code)) {
        return code;
    }
    code = OR_EXIT_FAILURE;
    or_keys_use_folder(config.keys);
    if (words.count == 1) {
        status = revoke_key(config.authorized, words.items[0]);
    } else {
        code = OR_EXIT_USAGE;
        status =
            or_fail(OR_ERR_INVALID, "one key or name is needed: outrider keys revoke KEY|NAME");
    }
    return or_command_end(&revoke_program, &config, &words, status, code);
}

static const or_command_t revoke_command = {"revoke", run_revoke,
                                            "let it no more: at once, also where it is connected"};

// ---- all of them ----

static const or_command_t *const commands[] = {
    &new_command, &or_keys_list_command, &authorize_command, &revoke_command, &trust_command, NULL};

static const or_option_program_t program = {
    .program = "outrider keys",
    .summary = "who may connect to a coordinator, and who we are when we do",
    .usage = "COMMAND [options]",
    .examples =
        "Each says more with --help. Keys lie in $OUTRIDER_KEYS or ~/.config/outrider. To pair a "
        "laptop with a\nserver (outrider up --listen tcp://0.0.0.0:5577):\n\n"
        "  server$ outrider keys new --coordinator      prints KEY1\n"
        "  laptop$ outrider keys trust tcp://SERVER:5577 'KEY1'\n"
        "  laptop$ outrider keys new                    prints KEY2\n"
        "  server$ outrider keys authorize 'KEY2' --name laptop\n"
        "  laptop$ outrider generate --connect tcp://SERVER:5577 -p \"Once upon a time\"",
};

static void print_help(FILE *out)
{
    or_command_print_list(out, &program, commands);
    fprintf(out, "\n%s\n", program.examples);
}

static int run(int argc, char **argv)
{
    int code = or_command_dispatch(&program, commands, print_help, argc, argv);
    return code >= 0 ? code : or_command_fail_unknown(&program, commands, argv[1]);
}

const or_command_t or_keys_command = {
    "keys", run, "who may connect to a coordinator, and who we are when we do"};
