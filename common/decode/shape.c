#include "common/decode/shape.h"

#include <stdlib.h>

#include "common/base/inline.h"

// Width x length, rather than widths by level.
static bool is_beam(or_draft_method_t method)
{
    return or_draft_method_has(method, OR_DRAFT_BEAM);
}

static bool has_shapes(or_draft_method_t method)
{
    return or_draft_method_has(method, OR_DRAFT_BRANCHES | OR_DRAFT_BEAM);
}

or_status_t or_shape_parse(const char *text, or_shape_t *shape)
{
    or_shape_t parsed = {0};
    const char *at = text;
    for (;;) {
        char *end;
        bool digit = *at >= '1' && *at <= '9';
        unsigned long width = strtoul(at, &end, 10);
        if (!digit || width > OR_TREE_NODES_MAX || (*end != '\0' && *end != 'x') ||
            parsed.count == OR_SHAPE_LEVELS_MAX) {
            return or_fail(OR_ERR_INVALID,
                           "'%s' is not a tree shape: widths from the root down, as 4x2x1", text);
        }
        parsed.widths[parsed.count++] = (uint32_t)width;
        if (*end == '\0') {
            *shape = parsed;
            return OR_OK;
        }
        at = end + 1;
    }
}

or_status_t or_shape_set(const uint32_t *widths, uint32_t count, or_shape_t *shape)
{
    if (count > OR_SHAPE_LEVELS_MAX) {
        return or_fail(OR_ERR_INVALID, "a tree shape of %u levels: at most %u are possible", count,
                       OR_SHAPE_LEVELS_MAX);
    }
    *shape = (or_shape_t){.count = count};
    for (uint32_t i = 0; i < count; i++) {
        shape->widths[i] = widths[i];
    }
    return OR_OK;
}

uint32_t or_shape_levels(const or_shape_t *shape, or_draft_method_t method, uint32_t depth)
{
    if (is_beam(method)) {
        return shape->count > 1 ? shape->widths[1] : depth;
    }
    return shape->count;
}

// The result has no bound: a peer's widths may multiply to anything.
static uint64_t count_nodes(const or_shape_t *shape, or_draft_method_t method, uint32_t depth)
{
    if (is_beam(method)) {
        return shape->widths[0] * (uint64_t)or_shape_levels(shape, method, depth);
    }
    uint64_t nodes = 0;
    uint64_t level = 1;
    for (uint32_t i = 0; i < shape->count && nodes <= OR_TREE_NODES_MAX; i++) {
        level *= shape->widths[i];
        nodes += level;
    }
    return nodes;
}

or_status_t or_shape_check(const or_shape_t *shape, or_draft_method_t method, uint32_t depth)
{
    return or_shape_check_as(or_name_option, shape, method, depth);
}

or_status_t or_shape_check_as(or_naming_t name, const or_shape_t *shape, or_draft_method_t method,
                              uint32_t depth)
{
    const char *option = name("--draft-shape");
    if (!has_shapes(method)) {
        return or_fail(OR_ERR_INVALID,
                       "%s is for mcsd, rsd-c, rsd-s, kseq and multi: method %s takes %s and %s",
                       option, or_draft_method_name(method), name("--draft-nodes"),
                       name("--draft-depth"));
    }
    if (is_beam(method) && (shape->count < 1 || shape->count > 2)) {
        return or_fail(OR_ERR_INVALID, "%s of %s is a width, or width x length: not %u numbers",
                       option, or_draft_method_name(method), shape->count);
    }
    for (uint32_t i = 0; i < shape->count; i++) {
        if (shape->widths[i] == 0) {
            return or_fail(OR_ERR_INVALID, "%s: a level of width 0", option);
        }
    }
    if (count_nodes(shape, method, depth) > OR_TREE_NODES_MAX) {
        return or_fail(OR_ERR_INVALID, "%s: that is more than %u nodes", option, OR_TREE_NODES_MAX);
    }
    return OR_OK;
}

uint32_t or_shape_nodes(const or_shape_t *shape, or_draft_method_t method, uint32_t depth)
{
    return (uint32_t)count_nodes(shape, method, depth);
}

// A bush at the top and chains below: wide where a guess is likeliest to be reached.
static or_shape_t branching(uint32_t nodes, uint32_t depth)
{
    or_shape_t shape = {0};
    uint32_t width = 1;
    while ((width + 1) * (width + 1) <= nodes) {
        width++;
    }
    uint32_t levels = or_min_u32(or_min_u32(nodes / width, depth), OR_SHAPE_LEVELS_MAX);
    for (uint32_t level = 0; level < levels; level++) {
        shape.widths[shape.count++] = level == 0 ? width : 1;
    }
    return shape;
}

// A beam that is as wide as it is long, unless the depth ends it.
static or_shape_t beam(uint32_t nodes, uint32_t depth)
{
    uint32_t length = 1;
    while ((length + 1) * (length + 1) <= nodes && length < depth) {
        length++;
    }
    return (or_shape_t){.count = 2, .widths = {nodes / length, length}};
}

or_shape_t or_shape_usual(or_draft_method_t method, uint32_t nodes, uint32_t depth)
{
    if (!has_shapes(method)) {
        return (or_shape_t){0};
    }
    return is_beam(method) ? beam(nodes, depth) : branching(nodes, depth);
}
