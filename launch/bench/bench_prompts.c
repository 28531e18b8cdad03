#include "launch/bench/bench_prompts.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "launch/generate/input.h"

#define UNNAMED "unnamed" // the category of prompts that have none

// The demonstration models tell tales.
static const char *const own_prompts[] = {
    "Once upon a time there was a miller who had",
    "It was a dark night, and the old woman",
    "There was once a king who",
    "The little boy went into the forest and",
    "\"Who are you?\" said the fox to the",
    "In the morning the youngest daughter",
};
#define OWN_COUNT (sizeof own_prompts / sizeof *own_prompts)

// MT-Bench's questions are the survey's task "multi-turn conversation".
static const char *const conversation[] = {"writing", "roleplay",   "reasoning", "math",
                                           "coding",  "extraction", "stem",      "humanities"};

static const char *survey_task(const char *category)
{
    for (size_t i = 0; i < sizeof conversation / sizeof *conversation; i++) {
        if (strcmp(conversation[i], category) == 0) {
            return "conversation";
        }
    }
    return category;
}

static or_status_t find_category(or_bench_prompts_t *prompts, const char *name, uint32_t *index)
{
    for (uint32_t i = 0; i < prompts->category_count; i++) {
        if (strcmp(prompts->categories[i], name) == 0) {
            *index = i;
            return OR_OK;
        }
    }
    if (strlen(name) >= OR_BENCH_CATEGORY_BYTES) {
        return or_fail(OR_ERR_INVALID, "the category '%s' is longer than %u bytes", name,
                       OR_BENCH_CATEGORY_BYTES - 1);
    }
    if (prompts->category_count == OR_BENCH_CATEGORIES_MAX) {
        return or_fail(OR_ERR_INVALID, "more than %u categories", OR_BENCH_CATEGORIES_MAX);
    }
    strcpy(prompts->categories[prompts->category_count], name);
    *index = prompts->category_count++;
    return OR_OK;
}

static or_status_t add(or_bench_prompts_t *prompts, const char *text, size_t bytes,
                       const char *category, uint32_t line)
{
    or_bench_prompt_t prompt = {.bytes = (uint32_t)bytes, .line = line};
    or_status_t status = find_category(prompts, category, &prompt.category);
    if (status != OR_OK) {
        return status;
    }
    or_bench_prompt_t *larger =
        reallocarray(prompts->items, prompts->count + 1, sizeof *prompts->items);
    if (larger == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for the prompts");
    }
    prompts->items = larger;
    prompt.text = malloc(bytes + 1);
    if (prompt.text == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a prompt");
    }
    for (uint32_t i = 0; i < prompts->count; i++) {
        prompt.turn += prompts->items[i].category == prompt.category;
    }
    memcpy(prompt.text, text, bytes);
    prompt.text[bytes] = '\0';
    prompts->items[prompts->count++] = prompt;
    return OR_OK;
}

static or_status_t add_object(const json_t *object, const or_bench_prompts_choice_t *choice,
                              uint32_t line, or_bench_prompts_t *prompts)
{
    const json_t *turns = json_object_get(object, "turns");
    const json_t *text =
        turns != NULL ? json_array_get(turns, 0) : json_object_get(object, "prompt");
    const json_t *named = json_object_get(object, "category");
    const char *category = json_is_string(named) ? json_string_value(named) : UNNAMED;
    if (!json_is_object(object) || !json_is_string(text)) {
        return or_fail(OR_ERR_INVALID, "no text in \"turns\" or \"prompt\"");
    }
    if (json_string_length(text) == 0) {
        return or_fail(OR_ERR_INVALID, "the prompt is empty");
    }
    if (named != NULL && !json_is_string(named)) {
        return or_fail(OR_ERR_INVALID, "\"category\" is not a text");
    }
    if (choice->only != NULL && !or_input_has_word(choice->only, category)) {
        return OR_OK;
    }
    return add(prompts, json_string_value(text), json_string_length(text),
               choice->survey_tasks ? survey_task(category) : category, line);
}

static or_status_t add_line(const char *bytes, size_t length,
                            const or_bench_prompts_choice_t *choice, uint32_t line,
                            or_bench_prompts_t *prompts)
{
    json_error_t error;
    if (strspn(bytes, " \t\r") >= length) {
        return OR_OK; // an empty line
    }
    json_t *object = json_loadb(bytes, length, 0, &error);
    or_status_t status = object != NULL
                             ? add_object(object, choice, line, prompts)
                             : or_fail(OR_ERR_INVALID, "not a JSON object: %s", error.text);
    json_decref(object);
    return or_fail_context(status, "%s, line %u", choice->path, line);
}

static or_status_t add_lines(const char *bytes, size_t length,
                             const or_bench_prompts_choice_t *choice, or_bench_prompts_t *prompts)
{
    uint32_t line = 0;
    or_status_t status = OR_OK;
    for (size_t at = 0; at < length && status == OR_OK;) {
        const char *newline = memchr(bytes + at, '\n', length - at);
        size_t end = newline != NULL ? (size_t)(newline - bytes) : length;
        status = add_line(bytes + at, end - at, choice, ++line, prompts);
        at = end + 1;
    }
    return status;
}

// No prompt was chosen: name the categories that there are.
static or_status_t fail_empty(const char *bytes, size_t length,
                              const or_bench_prompts_choice_t *choice)
{
    const or_bench_prompts_choice_t any = {.path = choice->path};
    or_bench_prompts_t all = {0};
    char names[512] = "";
    size_t used = 0;
    if (choice->only == NULL || add_lines(bytes, length, &any, &all) != OR_OK || all.count == 0) {
        or_bench_prompts_fini(&all);
        return or_fail(OR_ERR_INVALID, "%s holds no prompts", choice->path);
    }
    for (uint32_t i = 0; i < all.category_count && used < sizeof names; i++) {
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                                 all.categories[i]);
    }
    or_bench_prompts_fini(&all);
    return or_fail(OR_ERR_INVALID, "%s holds no prompts of these --categories; it has %s",
                   choice->path, names);
}

static or_status_t read_file(const or_bench_prompts_choice_t *choice, or_bench_prompts_t *prompts)
{
    char *bytes;
    size_t length;
    or_status_t status = or_input_read(choice->path, &bytes, &length);
    if (status != OR_OK) {
        return status;
    }
    status = add_lines(bytes, length, choice, prompts);
    if (status == OR_OK && prompts->count == 0) {
        status = fail_empty(bytes, length, choice);
    }
    free(bytes);
    return status;
}

static or_status_t use_own(or_bench_prompts_t *prompts)
{
    or_status_t status = OR_OK;
    for (uint32_t i = 0; i < OWN_COUNT && status == OR_OK; i++) {
        status = add(prompts, own_prompts[i], strlen(own_prompts[i]), UNNAMED, i + 1);
    }
    return status;
}

// The n-th prompt of a category comes before the (n+1)-th of any: so a small number of prompts
// still has some of each.
static int by_turn(const void *a, const void *b)
{
    const or_bench_prompt_t *x = a;
    const or_bench_prompt_t *y = b;
    if (x->turn != y->turn) {
        return x->turn < y->turn ? -1 : 1;
    }
    return x->line < y->line ? -1 : 1;
}

static void take_in_turn(or_bench_prompts_t *prompts, uint32_t limit)
{
    qsort(prompts->items, prompts->count, sizeof *prompts->items, by_turn);
    for (uint32_t i = limit; i < prompts->count; i++) {
        free(prompts->items[i].text);
    }
    prompts->count = limit;
}

or_status_t or_bench_prompts_read(const or_bench_prompts_choice_t *choice,
                                  or_bench_prompts_t *prompts)
{
    or_bench_prompts_t made = {0};
    or_status_t status = choice->path != NULL ? read_file(choice, &made) : use_own(&made);
    if (status == OR_OK && choice->only != NULL && choice->path == NULL) {
        status = or_fail(OR_ERR_INVALID, "--categories are those of a --prompts file");
    }
    if (status != OR_OK) {
        or_bench_prompts_fini(&made);
        return status;
    }
    if (choice->limit > 0 && choice->limit < made.count) {
        take_in_turn(&made, choice->limit);
    }
    *prompts = made;
    return OR_OK;
}

void or_bench_prompts_fini(or_bench_prompts_t *prompts)
{
    for (uint32_t i = 0; i < prompts->count; i++) {
        free(prompts->items[i].text);
    }
    free(prompts->items);
    *prompts = (or_bench_prompts_t){0};
}
