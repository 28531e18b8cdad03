// Whether a coordinator can listen here, and whether the one that runs fits us.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/version.h"
#include "launch/doctor/doctor.h"
#include "launch/doctor/doctor_probe.h"
#include "proto/net/endpoint.h"
#include "proto/zmq/channel_zmq.h"

#define BEATS 10           // an even number
#define COMMAND_BYTES 4352 // a path and some words

// ---- ports ----

// An address to listen on as one to connect to: that of all interfaces is this machine's own.
static void connectable(const char *endpoint, char *reached, size_t capacity)
{
    static const char *const any[] = {"tcp://*:", "tcp://0.0.0.0:"};
    for (size_t i = 0; i < sizeof any / sizeof *any; i++) {
        if (strncmp(endpoint, any[i], strlen(any[i])) == 0) {
            snprintf(reached, capacity, "tcp://127.0.0.1:%s", endpoint + strlen(any[i]));
            return;
        }
    }
    snprintf(reached, capacity, "%s", endpoint);
}

static bool takes_any_port(const char *endpoint)
{
    const char *port = strrchr(endpoint, ':');
    return port != NULL && (strcmp(port, ":*") == 0 || strcmp(port, ":0") == 0);
}

static void check_free(or_doctor_t *doctor, const char *endpoint)
{
    or_channel_t *channel = NULL;
    const or_channel_listen_t listen = {.endpoint = endpoint};
    if (or_channel_zmq_bind(&listen, 1, NULL, NULL, 0, &channel) == OR_OK) {
        or_doctor_say(doctor, OR_CHECK_OK, "listen", NULL, "%s is free", endpoint);
        or_channel_destroy(&channel);
    } else {
        or_doctor_say_error(doctor, "listen",
                            "give --listen an address of this machine and a free port, e.g. "
                            "tcp://127.0.0.1:*");
    }
}

bool or_doctor_check_port(or_doctor_t *doctor, const char *endpoint, char *reached, size_t capacity)
{
    or_probe_t probe;
    or_doctor_begin_group(doctor, "ports");
    if (takes_any_port(endpoint)) {
        check_free(doctor, endpoint);
        return false;
    }
    // Looked at before it is bound: binding to a path takes it from whoever listens there.
    connectable(endpoint, reached, capacity);
    or_status_t status = or_probe_open(reached, NULL, "", &probe);
    or_probe_close(&probe);
    if (probe.keyed) {
        or_doctor_say(doctor, OR_CHECK_OK, "listen", NULL,
                      "%s is in use: a coordinator runs there that encrypts; --connect looks at it",
                      endpoint);
        return false;
    }
    switch (status) {
    case OR_OK:
    case OR_ERR_MISMATCH:
        or_doctor_say(doctor, OR_CHECK_OK, "listen", NULL, "%s is in use: a coordinator runs there",
                      endpoint);
        return true;
    case OR_ERR_TIMEOUT:
    case OR_ERR_FORMAT:
        or_doctor_say(doctor, OR_CHECK_FAIL, "listen",
                      "end that program, or choose another port with --listen, e.g. "
                      "tcp://127.0.0.1:*",
                      "%s is in use by another program", endpoint);
        return false;
    default:
        check_free(doctor, endpoint);
        return false;
    }
}

// ---- the coordinator ----

// "FILE" in a command to type.
static const char *file_of(const or_doctor_model_t *model, const char *otherwise)
{
    return model->path != NULL && model->given ? model->path : otherwise;
}

static void check_software(or_doctor_t *doctor, const or_probe_t *probe, const char *endpoint)
{
    bool same = strcmp(probe->software, "outrider " OR_VERSION) == 0;
    or_doctor_say(doctor, same ? OR_CHECK_OK : OR_CHECK_WARN, "connection",
                  same ? NULL : "install the same release here and there",
                  "a coordinator answers at %s: %s, protocol %u%s", endpoint, probe->software,
                  OR_PROTOCOL_VERSION, same ? "" : "; this is outrider " OR_VERSION);
}

static void check_encryption(or_doctor_t *doctor, const or_probe_t *probe,
                             const or_connect_keys_t *keys)
{
    char server[9];
    if (keys->encrypted) {
        or_key_short(keys->server_key, server);
        or_doctor_say(doctor, OR_CHECK_OK, "encryption", NULL,
                      "on; the coordinator has proved to have the key %s...", server);
    } else if (probe->loopback) {
        or_doctor_say(doctor, OR_CHECK_OK, "encryption", NULL,
                      "not needed: the connection stays on this machine");
    } else {
        or_doctor_say(doctor, OR_CHECK_WARN, "encryption",
                      "leave out --encrypt off, here and there",
                      "none: whoever is on the way can read and change what is sent");
    }
}

static void check_trust(or_doctor_t *doctor, const or_probe_t *probe)
{
    if (probe->trusted) {
        or_doctor_say(doctor, OR_CHECK_OK, "trust", NULL,
                      "drafters from here may use every acceptance rule");
    } else {
        or_doctor_say(
            doctor, OR_CHECK_WARN, "trust",
            "leave --accept at coupled, or take greedy or naive; drafters on the "
            "coordinator's machine are trusted, and keys it authorised with --trusted",
            "drafters from here may not use the rules that believe their distributions (sps, "
            "multi-round, recursive)");
    }
}

static void check_verifier(or_doctor_t *doctor, const or_probe_t *probe, const char *endpoint,
                           const or_doctor_model_t *target)
{
    char advice[COMMAND_BYTES];
    if (probe->model[0] == '\0') {
        snprintf(advice, sizeof advice, "start one: outrider-verifier -m %s --connect %s",
                 file_of(target, "TARGET.gguf"), endpoint);
        or_doctor_say(doctor, OR_CHECK_WARN, "verifier", advice,
                      "none is connected: requests wait for one");
        return;
    }
    bool same = strcmp(probe->arith_id, OR_ARITH_ID) == 0;
    or_doctor_say(
        doctor, same ? OR_CHECK_OK : OR_CHECK_WARN, "verifier",
        same ? NULL
             : "its texts are its own: compare them with those of verifiers that have the same "
               "--arith, -ctk and -ctv, and the same release",
        "%s, arithmetic %s%s, trees of up to %" PRIu32 " nodes", probe->model, probe->arith_id,
        same ? "" : " where ours is " OR_ARITH_ID, probe->nodes_max);
}

static void check_drafters(or_doctor_t *doctor, const or_probe_t *probe, const char *endpoint,
                           const or_doctor_model_t *draft)
{
    char advice[COMMAND_BYTES];
    snprintf(advice, sizeof advice, "start one: outrider-drafter -m %s --connect %s",
             file_of(draft, "DRAFT.gguf"), endpoint);
    if (probe->drafters == 0) {
        or_doctor_say(doctor, OR_CHECK_WARN, "drafters", advice,
                      "none is connected: texts are decoded plainly");
    } else {
        or_doctor_say(doctor, OR_CHECK_OK, "drafters", NULL, "%" PRIu32 " connected",
                      probe->drafters);
    }
}

// Would the coordinator take this file? A drafter's vocabulary may be any.
static void check_fit(or_doctor_t *doctor, const or_probe_t *probe, const or_doctor_model_t *model,
                      or_check_state_t misfit, const char *advice)
{
    if (!model->given || model->vocab_hash == 0) {
        return;
    }
    bool fits = model->vocab_hash == probe->vocab_hash;
    or_doctor_say(doctor, fits ? OR_CHECK_OK : misfit, model->role, fits ? NULL : advice,
                  "%s has %s vocabulary as the coordinator's target (%016" PRIx64 ")",
                  basename(model->path), fits ? "the same" : "not the same", probe->vocab_hash);
}

// Other weights under another name: text from there is not what this file would write.
static void check_target_name(or_doctor_t *doctor, const or_probe_t *probe,
                              const or_doctor_model_t *target)
{
    if (target->given && target->path != NULL && probe->model[0] != '\0' &&
        strcmp(basename(target->path), probe->model) != 0) {
        or_doctor_say(doctor, OR_CHECK_WARN, "target name",
                      "make sure that both are the same file: a coordinator takes no verifier with "
                      "other weights",
                      "the verifier runs %s, -m names %s", probe->model, basename(target->path));
    }
}

static void check_round_trips(or_doctor_t *doctor, or_probe_t *probe)
{
    int64_t trips_ns[BEATS];
    if (or_probe_round_trips(probe, trips_ns, BEATS) != OR_OK) {
        or_doctor_say_error(doctor, "round trip",
                            "look at the coordinator's log and at the network: it answered before");
        return;
    }
    // The median of an even number is the mean of the two in the middle.
    const int64_t *middle_ns = &trips_ns[BEATS / 2];
    double median_ms = (double)(middle_ns[-1] + middle_ns[0]) / 2 / OR_NS_PER_MS;
    or_doctor_say(doctor, OR_CHECK_OK, "round trip", NULL,
                  "median %.2f ms, longest %.2f ms, of %d heartbeats", median_ms,
                  (double)trips_ns[BEATS - 1] / OR_NS_PER_MS, BEATS);
}

static const char *advise_connection(or_status_t status)
{
    switch (status) {
    case OR_ERR_INVALID:
        return "give --connect the coordinator's endpoint, e.g. tcp://HOST:5577";
    case OR_ERR_UNREACHABLE:
        return "start it (outrider-coordinator -m TARGET.gguf --listen ENDPOINT), and see that "
               "firewalls let its port through";
    case OR_ERR_MISMATCH:
        return "install the same release here and there";
    default:
        return "see that the port is the coordinator's (its log says `listening on`), that it is "
               "not stopped, and that it lets our key in (outrider keys list here and there)";
    }
}

void or_doctor_check_coordinator(or_doctor_t *doctor, const or_doctor_model_t *target,
                                 const or_doctor_model_t *draft, or_doctor_hub_t *hub)
{
    or_probe_t probe;
    or_connect_keys_t keys;
    or_doctor_begin_group(doctor, "coordinator");
    or_status_t status = or_endpoint_check(hub->endpoint, false);
    if (status != OR_OK) {
        or_doctor_say_error(doctor, "connection", advise_connection(status));
        return;
    }
    status = or_keys_for_connecting(hub->endpoint, hub->keys, &keys);
    if (status != OR_OK) {
        or_doctor_say_error(doctor, "keys", "see outrider keys --help");
        return;
    }
    status = or_probe_open(hub->endpoint, &keys, "", &probe);
    or_key_pair_wipe(&keys.own);
    if (status != OR_OK) {
        or_doctor_say_error(doctor, "connection", advise_connection(status));
        or_probe_close(&probe);
        return;
    }
    hub->answers = true;
    hub->has_verifier = probe.model[0] != '\0';
    check_software(doctor, &probe, hub->endpoint);
    check_encryption(doctor, &probe, &keys);
    check_trust(doctor, &probe);
    check_verifier(doctor, &probe, hub->endpoint, target);
    check_drafters(doctor, &probe, hub->endpoint, draft);
    check_fit(doctor, &probe, target, OR_CHECK_FAIL,
              "start coordinator and verifier with this file, or name theirs");
    check_target_name(doctor, &probe, target);
    check_fit(doctor, &probe, draft, OR_CHECK_WARN,
              "it is translated: see `outrider model compare TARGET DRAFT` for what that costs");
    check_round_trips(doctor, &probe);
    or_probe_close(&probe);
}
