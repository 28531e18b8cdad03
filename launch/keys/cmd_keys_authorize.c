// outrider keys authorize, revoke - who may connect to the coordinator, and as what.
#include <stdio.h>
#include <string.h>

#include "launch/commands.h"
#include "launch/keys/keys_options.h"
#include "proto/keys/key_grant.h"

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

int or_command_keys_authorize(int argc, char **argv)
{
    char roles[] = "client,drafter";
    authorize_config_t config = {.roles = roles};
    or_option_list_t words = {0};
    or_options_next_t next;
    or_key_grant_t grant;
    or_status_t status = or_options_parse(&authorize_program, argc, argv, &config, &words, &next);
    if (status != OR_OK || next == OR_OPTIONS_EXIT) {
        return status == OR_OK ? OR_EXIT_OK : or_command_fail("keys authorize", OR_EXIT_USAGE);
    }
    int code = OR_EXIT_USAGE;
    status = describe(&config, &words, &grant);
    if (status == OR_OK) {
        or_keys_use_folder(config.keys);
        code = OR_EXIT_FAILURE;
        status = authorize(&config, &grant);
    }
    or_options_free(&authorize_program, &config, &words);
    return status == OR_OK ? OR_EXIT_OK : or_command_fail("keys authorize", code);
}

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

static or_status_t revoke(const char *file, const char *key_or_name)
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

int or_command_keys_revoke(int argc, char **argv)
{
    revoke_config_t config = {0};
    or_option_list_t words = {0};
    or_options_next_t next;
    or_status_t status = or_options_parse(&revoke_program, argc, argv, &config, &words, &next);
    if (status != OR_OK || next == OR_OPTIONS_EXIT) {
        return status == OR_OK ? OR_EXIT_OK : or_command_fail("keys revoke", OR_EXIT_USAGE);
    }
    int code = OR_EXIT_FAILURE;
    or_keys_use_folder(config.keys);
    if (words.count == 1) {
        status = revoke(config.authorized, words.items[0]);
    } else {
        code = OR_EXIT_USAGE;
        status =
            or_fail(OR_ERR_INVALID, "one key or name is needed: outrider keys revoke KEY|NAME");
    }
    or_options_free(&revoke_program, &config, &words);
    return status == OR_OK ? OR_EXIT_OK : or_command_fail("keys revoke", code);
}
