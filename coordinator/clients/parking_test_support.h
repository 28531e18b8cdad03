// parking_test_support - a target whose words tell their place in the text, and clients that keep what they
// were told. So a token that comes twice or never fails the test.
#pragma once

#include "coordinator/coordinator_test_support.h"

#define SILENCE_MS 11000
#define RESUME_MS (60u * 1000)
#define WANTED 40

// A client, and what it has.
typedef struct {
    edge_t edge;
    uint64_t request;
    or_session_id_t session;
    uint8_t token[OR_SESSION_TOKEN_BYTES];
    uint32_t tokens[256];
    uint32_t count;
    uint64_t text_bytes;
    uint8_t text[1024];                    // as much of it as there is room for
    uint64_t changes[OR_PART_CHANGES_MAX]; // of parts, as its last delta has them
    uint32_t change_count;
    uint32_t finish, error_code;
    char error[512];
    uint64_t resumes; // as its last delta says
    uint32_t resumed_tokens;
    uint64_t seed; // 0: not told yet
} client_t;

// For cmocka; RESUME_MS for clients that are away.
int parking_setup(void **state);
int parking_setup_sized(void **state, uint32_t sessions_max, uint32_t waiting_max);

// Two keys of owner "a" in the world's keyring, for clients with so many texts at a time each (0: any number).
extern or_key_pair_t two_keys[2];
void authorize_two_keys(world_t *w, uint32_t sessions_max);
// The coordinator ends, and one with the world's configuration as it is now takes its place.
void begin_anew(world_t *w);

// A verifier, and who asks for figures.
void join_target(world_t *w);
const or_stats_t *ask_stats(world_t *w);

void enter(world_t *w, client_t *client, const char *owner);
// The same with a key that it has proved to have.
void enter_as(world_t *w, client_t *client, const char *public_key);
void run_hearing(world_t *w, client_t *client, uint32_t ms);
void ask_for(world_t *w, client_t *client, uint64_t id, uint32_t wanted);
// A text that stands still somewhere in the middle.
void ask_for_a_part(world_t *w, client_t *client, uint64_t id);
// Another connection of who has `before`: the rest, please.
void resume(world_t *w, client_t *client, const client_t *before);
void send_cancel(world_t *w, client_t *client, or_session_id_t session);

// All words are there, each at its place.
void assert_whole(const client_t *client);
void assert_unknown(const client_t *client);
