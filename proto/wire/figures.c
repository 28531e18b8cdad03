#include "proto/wire/figures.h"

#include <string.h>

#define ROW(of, prefix, before, type_, member, traits_, line_, kind_, metric_, unit_, help_)       \
    {                                                                                              \
        .name = #member, .offset = offsetof(of, member),                                           \
        .type = _Generic(((of *)NULL)->member, uint32_t                                            \
                         : OR_FIGURE_U32, uint64_t                                                 \
                         : OR_FIGURE_U64, float                                                    \
                         : OR_FIGURE_F32),                                                         \
        .traits = (traits_), .line = (line_), .kind = OR_METRIC_##kind_, .metric = prefix metric_, \
        .help = before help_, .unit = (unit_)                                                      \
    }

const or_figure_t or_stats_rows[] = {
#define X(type, member, number, ...) ROW(or_stats_t, "", "", type, member, __VA_ARGS__),
    OR_STATS_FIGURES(X)
#undef X
};

const or_figure_t or_peer_rows[] = {
#define X(type, member, number, ...) ROW(or_peer_figures_t, "peer_", "", type, member, __VA_ARGS__),
    OR_PEER_FIGURES(X)
#undef X
};

const or_figure_t or_session_rows[] = {
#define X(type, member, number, ...)                                                               \
    ROW(or_policy_terms_t, "policy_", "Mean of live sessions: ", type, member, __VA_ARGS__),
    OR_SESSION_FIGURES(X)
#undef X
};

static const void *place_of(const or_figure_t *row, const void *of)
{
    return (const char *)of + row->offset;
}

uint64_t or_figure_count(const or_figure_t *row, const void *of)
{
    switch (row->type) {
    case OR_FIGURE_U32:
        return *(const uint32_t *)place_of(row, of);
    case OR_FIGURE_U64:
        return *(const uint64_t *)place_of(row, of);
    default:
        return 0;
    }
}

double or_figure_number(const or_figure_t *row, const void *of)
{
    return row->type == OR_FIGURE_F32 ? (double)*(const float *)place_of(row, of)
                                      : (double)or_figure_count(row, of);
}

const or_figure_t *or_figure_find(const or_figure_t *rows, uint32_t count, const char *name,
                                  size_t length)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strncmp(rows[i].name, name, length) == 0 && rows[i].name[length] == '\0') {
            return &rows[i];
        }
    }
    return NULL;
}

// ---- what an owner may see ----

bool or_stats_is_own(const char *owner, const char *whose)
{
    return owner == NULL || strcmp(owner, whose != NULL ? whose : "") == 0;
}

static void copy_public(const or_figure_t *rows, uint32_t count, const void *from, void *to)
{
    for (uint32_t i = 0; i < count; i++) {
        if ((rows[i].traits & OR_PUBLIC) != 0) {
            size_t bytes = rows[i].type == OR_FIGURE_U64 ? sizeof(uint64_t) : sizeof(uint32_t);
            memcpy((char *)to + rows[i].offset, place_of(&rows[i], from), bytes);
        }
    }
}

or_stats_t or_stats_for_owner(const or_stats_t *stats, const char *owner)
{
    if (owner == NULL) {
        return *stats;
    }
    or_stats_t shown = {.model = stats->model,
                        .choice = "",
                        .policies = stats->policies,
                        .policy_count = stats->policy_count,
                        .peers = stats->peers,
                        .peer_count = stats->peer_count};
    copy_public(or_stats_rows, OR_STATS_ROWS, stats, &shown);
    for (uint32_t i = 0; i < stats->policy_count; i++) {
        shown.sessions += or_stats_is_own(owner, stats->policies[i].owner);
    }
    return shown;
}

or_peer_figures_t or_peer_for_owner(const or_peer_figures_t *peer, const char *owner)
{
    if (or_stats_is_own(owner, peer->owner)) {
        return *peer;
    }
    or_peer_figures_t shown = {.role = peer->role,
                               .model = peer->model,
                               .owner = peer->owner,
                               .state = "shared",
                               .trusted = peer->trusted};
    copy_public(or_peer_rows, OR_PEER_ROWS, peer, &shown);
    return shown;
}
