// outrider doctor - looks at installation, models, ports and coordinator, and says what to do next.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log/log.h"
#include "launch/cluster/choose.h"
#include "launch/commands.h"
#include "launch/doctor/doctor.h"
#include "launch/model/convert/cached.h"

#define ENDPOINT_BYTES 1024
#define NEXT_BYTES 9216 // two paths and some words

typedef struct {
    char *model, *draft_model, *connect, *listen;
    or_key_options_t keys;
    bool json;
} config_t;

static const or_option_t table[] = {
    {"model", "m", OR_OPTION_STRING, offsetof(config_t, model), "FILE",
     "target model (GGUF); the demonstration pair if neither model is given"},
    {"model-draft", "md", OR_OPTION_STRING, offsetof(config_t, draft_model), "FILE",
     "draft model; any vocabulary will do"},
    {"connect", NULL, OR_OPTION_STRING, offsetof(config_t, connect), "ENDPOINT",
     "a coordinator to look at; else the one at --listen, if one runs there"},
    {"listen", NULL, OR_OPTION_STRING, offsetof(config_t, listen), "ENDPOINT",
     "where a coordinator is to listen; tcp://127.0.0.1:5577 if --connect is not given either"},
    OR_KEY_OPTIONS(config_t, keys),
    {"json", NULL, OR_OPTION_FLAG, offsetof(config_t, json), NULL, "one line of JSON at the end"},
    {0}};

static const or_option_program_t program = {
    .program = "outrider doctor",
    .summary = "check installation, models, ports and a coordinator, and say what to do next",
    .usage = "[options]",
    .table = table,
    .examples = "Examples:\n"
                "  outrider doctor\n"
                "  outrider doctor -m target.gguf -md draft.gguf\n"
                "  outrider doctor -md draft.gguf --connect tcp://10.0.0.1:5577",
};

// Convert a checkpoint. What is no folder is left to the check of the file; a folder that is no checkpoint has failed.
static void resolve(or_doctor_t *doctor, const char *name, char **path)
{
    if (or_checkpoint_resolve(path) == OR_OK) {
        return;
    }
    or_doctor_begin_group(doctor, "models");
    or_doctor_say(doctor, OR_CHECK_FAIL, name, "see docs/models.md", "%s", or_error_text());
    free(*path);
    *path = NULL;
}

// Return whether there is a model to look at. The demonstration pair, where it is; a machine without it is fine.
static bool choose_models(or_doctor_t *doctor, config_t *config)
{
    if (config->model != NULL || config->draft_model != NULL) {
        resolve(doctor, "target file", &config->model);
        resolve(doctor, "draft file", &config->draft_model);
        return config->model != NULL || config->draft_model != NULL;
    }
    if (or_models_choose(&config->model, &config->draft_model, OR_DRAFT_MODEL_NEEDED) == OR_OK) {
        return true;
    }
    or_doctor_begin_group(doctor, "models");
    or_doctor_say(doctor, OR_CHECK_WARN, "demonstration", "name models with -m and -md", "%s",
                  or_error_text());
    return false;
}

// Choose what the user should do now, given that nothing failed.
static void choose_next(const or_doctor_model_t *target, const or_doctor_model_t *draft,
                        const or_doctor_hub_t *hub, char *next, size_t capacity)
{
    static const char prompt[] = "-p \"Once upon a time\" -n 64";
    if (hub->answers && !hub->has_verifier) {
        snprintf(next, capacity, "outrider-verifier -m %s --connect %s",
                 target->given ? target->path : "TARGET.gguf", hub->endpoint);
    } else if (hub->answers) {
        snprintf(next, capacity, "outrider generate --connect %s %s", hub->endpoint, prompt);
    } else if (target->given) {
        snprintf(next, capacity, "outrider generate -m %s%s%s %s", target->path,
                 draft->path != NULL ? " -md " : "", draft->path != NULL ? draft->path : "",
                 prompt);
    } else if (draft->given) {
        snprintf(next, capacity, "outrider-drafter -m %s --connect ENDPOINT", draft->path);
    } else if (target->path != NULL) {
        snprintf(next, capacity, "outrider generate %s", prompt);
    } else {
        snprintf(next, capacity, "outrider generate -m TARGET.gguf -md DRAFT.gguf %s", prompt);
    }
}

static or_status_t examine(config_t *config, bool *healthy)
{
    char reached[ENDPOINT_BYTES], next[NEXT_BYTES];
    or_doctor_t doctor;
    bool given = config->model != NULL || config->draft_model != NULL;
    or_doctor_hub_t hub = {.endpoint = config->connect, .keys = &config->keys};
    or_status_t status = or_doctor_init(&doctor, config->json);
    if (status != OR_OK) {
        return status;
    }
    or_doctor_check_installation(&doctor, config->connect != NULL);
    bool chosen = choose_models(&doctor, config);
    or_doctor_model_t target = {.role = "target", .path = config->model};
    or_doctor_model_t draft = {.role = "draft", .path = config->draft_model};
    target.given = given && target.path != NULL;
    draft.given = given && draft.path != NULL;
    if (chosen) {
        or_doctor_check_models(&doctor, &target, &draft);
    }
    // A user who only connects need not listen.
    if (config->listen != NULL || config->connect == NULL) {
        const char *listen = config->listen != NULL ? config->listen : "tcp://127.0.0.1:5577";
        bool runs = or_doctor_check_port(&doctor, listen, reached, sizeof reached);
        if (runs && hub.endpoint == NULL) {
            hub.endpoint = reached;
        }
    }
    if (hub.endpoint != NULL) {
        or_doctor_check_coordinator(&doctor, &target, &draft, &hub);
    }
    *healthy = doctor.counts[OR_CHECK_FAIL] == 0;
    if (*healthy) {
        choose_next(&target, &draft, &hub, next, sizeof next);
    } else {
        snprintf(next, sizeof next, "mend what failed, then run outrider doctor again");
    }
    return or_doctor_finish(&doctor, next);
}

static int run(int argc, char **argv)
{
    config_t config = {0};
    int code;
    bool healthy = false;
    if (!or_command_begin(&program, argc, argv, &config, NULL, &code)) {
        return code;
    }
    or_log_init("doctor", OR_LOG_ERROR); // what goes wrong is in the checks
    or_status_t status = examine(&config, &healthy);
    code = or_command_end(&program, &config, NULL, status, OR_EXIT_FAILURE);
    return code == OR_EXIT_OK && !healthy ? OR_EXIT_FAILURE : code;
}

const or_command_t or_doctor_command = {
    "doctor", run, "check installation, models, ports and a coordinator, and say what to do next"};
