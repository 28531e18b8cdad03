// Goal: the tables of figures are sound, JSON has each row once and in order, and an owner is shown what is public and
// nothing else.
// Method: walk the tables; fill the structs with a number of its own for each row, and look for it.
#include <stdio.h>
#include <string.h>

#include "proto/wire/figures.h"
#include "proto/wire/message.h"
#include "proto/wire/stats_json.h"
#include "tests/support/test_support.h"

static const struct {
    const or_figure_t *rows;
    uint32_t count;
} tables[] = {{or_stats_rows, OR_STATS_ROWS},
              {or_peer_rows, OR_PEER_ROWS},
              {or_session_rows, OR_SESSION_ROWS}};

static bool ends_in(const char *text, const char *end)
{
    size_t length = strlen(text), wanted = strlen(end);
    return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

static void rows_are_sound(void **state)
{
    (void)state;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        for (uint32_t i = 0; i < tables[t].count; i++) {
            const or_figure_t *row = &tables[t].rows[i];
            assert_in_range(row->line, 0, tables[t].count); // else its metric is never declared
            assert_true((row->kind == OR_METRIC_NONE) == (row->line == 0));
            assert_true((row->kind == OR_METRIC_COUNTER) == ends_in(row->metric, "_total"));
            assert_true((row->traits & OR_IN_SECONDS) == 0 || ends_in(row->name, "_ms"));
            for (uint32_t j = 0; j < i; j++) {
                assert_string_not_equal(row->name, tables[t].rows[j].name);
                assert_true(row->line == 0 || row->line != tables[t].rows[j].line);
            }
        }
    }
}

// Give the row's member a number that no other row has; returns it.
static uint32_t fill(const or_figure_t *row, void *of, uint32_t number)
{
    char *place = (char *)of + row->offset;
    const uint64_t wide = number;
    const float real = (float)number;
    if (row->type == OR_FIGURE_F32) {
        memcpy(place, &real, sizeof real);
    } else {
        memcpy(place, &wide, row->type == OR_FIGURE_U64 ? sizeof wide : sizeof number);
    }
    return number;
}

static void fill_all(const or_figure_t *rows, uint32_t count, void *of)
{
    for (uint32_t i = 0; i < count; i++) {
        fill(&rows[i], of, 1000 + i);
    }
}

// Check that the last `count` members of an object are the rows, in their order.
static void assert_rows(json_t *object, const or_figure_t *rows, uint32_t count)
{
    size_t before = json_object_size(object) - count, at = 0;
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        if (at++ < before) {
            continue;
        }
        uint32_t i = (uint32_t)(at - 1 - before);
        bool seconds = (rows[i].traits & OR_IN_SECONDS) != 0;
        size_t length = strlen(rows[i].name) - (seconds ? 2 : 0);
        assert_memory_equal(name, rows[i].name, length);
        assert_string_equal(name + length, seconds ? "s" : "");
        double difference = json_number_value(value) - (1000 + i) * (seconds ? 1e-3 : 1);
        assert_true(difference < 1e-9 && difference > -1e-9);
    }
}

static void json_has_every_row_in_order(void **state)
{
    (void)state;
    or_peer_figures_t peer = {.role = OR_ROLE_DRAFTER, .owner = "alice"};
    or_policy_terms_t session = {.owner = "alice"};
    or_stats_t stats = {.policies = &session, .policy_count = 1, .peers = &peer, .peer_count = 1};
    fill_all(or_stats_rows, OR_STATS_ROWS, &stats);
    fill_all(or_peer_rows, OR_PEER_ROWS, &peer);
    fill_all(or_session_rows, OR_SESSION_ROWS, &session);
    json_t *json = or_stats_json(&stats, "", 0);
    assert_rows(json_object_get(json, "figures"), or_stats_rows, OR_STATS_ROWS);
    assert_rows(json_array_get(json_object_get(json, "peers"), 0), or_peer_rows, OR_PEER_ROWS);
    assert_rows(json_array_get(json_object_get(json, "sessions"), 0), or_session_rows,
                OR_SESSION_ROWS);
    json_decref(json);
}

// The members of the table's public rows, in its order.
static const char *list_public(const or_figure_t *rows, uint32_t count)
{
    static char names[256];
    names[0] = '\0';
    for (uint32_t i = 0; i < count; i++) {
        if ((rows[i].traits & OR_PUBLIC) != 0) {
            size_t used = strlen(names);
            snprintf(names + used, sizeof names - used, "%s ", rows[i].name);
        }
    }
    return names;
}

// Public figures say nothing of other owners: whoever adds a name here has thought about that.
static void few_figures_are_public(void **state)
{
    (void)state;
    assert_string_equal(list_public(or_stats_rows, OR_STATS_ROWS),
                        "page_positions page_bytes ranks stages waiting drafters verifiers ");
    assert_string_equal(list_public(or_peer_rows, OR_PEER_ROWS), "connected_ms number ");
}

static void an_owner_is_shown_what_is_public(void **state)
{
    (void)state;
    const or_policy_terms_t sessions[] = {{.owner = "alice"}, {.owner = "bob"}, {.owner = "bob"}};
    or_peer_figures_t peer = {.owner = "alice", .state = "late"};
    or_stats_t stats = {.policies = sessions, .policy_count = 3, .peers = &peer, .peer_count = 1};
    fill_all(or_stats_rows, OR_STATS_ROWS, &stats);
    fill_all(or_peer_rows, OR_PEER_ROWS, &peer);
    stats.choice = "guesses: 90 tokens/s";
    assert_string_equal(or_stats_for_owner(&stats, NULL).choice, stats.choice);
    const or_stats_t shown = or_stats_for_owner(&stats, "bob");
    assert_string_equal(shown.choice, ""); // it tells how busy others are
    for (uint32_t i = 0; i < OR_STATS_ROWS; i++) {
        const or_figure_t *row = &or_stats_rows[i];
        bool listed = strcmp(row->name, "sessions") == 0; // bob's, of those in the list
        uint32_t expected = listed ? 2 : (row->traits & OR_PUBLIC) != 0 ? 1000 + i : 0;
        assert_int_equal(or_figure_count(row, &shown), expected);
    }
    const or_peer_figures_t shared = or_peer_for_owner(&peer, "bob");
    assert_string_equal(shared.state, "shared");
    for (uint32_t i = 0; i < OR_PEER_ROWS; i++) {
        bool public = (or_peer_rows[i].traits & OR_PUBLIC) != 0;
        assert_int_equal((int)or_figure_number(&or_peer_rows[i], &shared), public ? 1000 + i : 0);
    }
    const or_peer_figures_t own = or_peer_for_owner(&peer, "alice");
    assert_memory_equal(&own, &peer, sizeof own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_sound),
        cmocka_unit_test(json_has_every_row_in_order),
        cmocka_unit_test(few_figures_are_public),
        cmocka_unit_test(an_owner_is_shown_what_is_public),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
