#include "coordinator/vocab/translator.h"

#include <stdlib.h>
#include <string.h>

#include "common/decode/token_tree.h"
#include "coordinator/vocab/slem.h"
#include "coordinator/vocab/vocab_trees.h"

struct or_translator {
    const or_known_vocab_t *known;
    or_vocab_method_t method;
    or_shadow_t *shadow;
    or_vocab_trees_t *maps; // same, tli, union
    or_slem_t *slem;        // slem; and its trees, as drafted and as translated
    or_token_tree_t *drafted, *tree;
    uint32_t tokens[OR_TREE_NODES_MAX], back[OR_TREE_NODES_MAX];
    uint32_t *stop_ids;
    or_logit_bias_t *bias;
};

or_status_t or_translator_create(const or_known_vocab_t *known, or_vocab_method_t method,
                                 uint32_t nodes_max, or_translator_t **translator_p)
{
    or_translator_t *translator = calloc(1, sizeof *translator);
    if (translator == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory to translate for a drafter");
    }
    translator->known = known;
    translator->method = method;
    or_status_t status = or_shadow_create(known->pair, &translator->shadow);
    if (status == OR_OK && method == OR_VOCAB_SLEM) {
        status = or_slem_create(known->pair, &translator->slem);
        if (status == OR_OK) {
            status = or_token_tree_create(nodes_max, &translator->drafted);
        }
        if (status == OR_OK) {
            status = or_token_tree_create(nodes_max, &translator->tree);
        }
    } else if (status == OR_OK) {
        status = or_vocab_trees_create(&translator->maps);
    }
    if (status != OR_OK) {
        or_translator_destroy(&translator);
        return status;
    }
    *translator_p = translator;
    return OR_OK;
}

void or_translator_destroy(or_translator_t **translator_p)
{
    or_translator_t *translator = *translator_p;
    if (translator == NULL) {
        return;
    }
    or_shadow_destroy(&translator->shadow);
    or_vocab_trees_destroy(&translator->maps);
    or_slem_destroy(&translator->slem);
    or_token_tree_destroy(&translator->drafted);
    or_token_tree_destroy(&translator->tree);
    free(translator->stop_ids);
    free(translator->bias);
    free(translator);
    *translator_p = NULL;
}

// The lists, without what the drafter has no token for.
static void translate_lists(or_translator_t *translator, or_open_session_t *open)
{
    const int32_t *to_draft = translator->known->pair->to_draft;
    uint32_t stops = 0;
    uint32_t biases = 0;
    for (uint32_t i = 0; i < open->stop_count; i++) {
        int32_t id = to_draft[open->stop_ids[i]];
        if (id != OR_TOKEN_NONE) {
            translator->stop_ids[stops++] = (uint32_t)id;
        }
    }
    for (uint32_t i = 0; i < open->sampling.bias_count; i++) {
        const or_logit_bias_t *bias = &open->sampling.bias[i];
        if (to_draft[bias->id] != OR_TOKEN_NONE) {
            translator->bias[biases++] = (or_logit_bias_t){to_draft[bias->id], bias->bias};
        }
    }
    open->stop_ids = translator->stop_ids;
    open->stop_count = stops;
    open->sampling.bias = translator->bias;
    open->sampling.bias_count = biases;
}

// Does the drafter have to keep to tokens that the target has? Where all of both are shared there may
// still be padding.
static bool is_restricted(const or_translator_t *translator)
{
    return translator->method == OR_VOCAB_TLI || translator->method == OR_VOCAB_SAME;
}

or_status_t or_translator_open(or_translator_t *translator, const or_vocab_t *target,
                               or_open_session_t *open)
{
    free(translator->stop_ids);
    free(translator->bias);
    translator->stop_ids = malloc((open->stop_count + 1) * sizeof *translator->stop_ids);
    translator->bias = malloc((open->sampling.bias_count + 1) * sizeof *translator->bias);
    if (translator->stop_ids == NULL || translator->bias == NULL) {
        return or_fail(OR_ERR_NO_MEMORY, "no memory for a session's terms");
    }
    translate_lists(translator, open);
    open->vocab_method = translator->method;
    open->map_hash = is_restricted(translator) ? translator->known->map_hash : 0;
    open->target_hash = translator->method == OR_VOCAB_SLRS ? or_vocab_hash(target) : 0;
    open->outside_ids = 0;
    return OR_OK;
}

or_status_t or_translator_follow(or_translator_t *translator, const or_token_log_t *log,
                                 uint32_t *changed)
{
    return or_shadow_follow(translator->shadow, log->tokens, log->length, changed);
}

const or_token_log_t *or_translator_log(const or_translator_t *translator)
{
    return or_shadow_log(translator->shadow);
}

// Translate a tree by way of the text.
static or_status_t retokenise(or_translator_t *translator, const or_token_log_t *log,
                              uint32_t nodes_max, uint32_t depth_max, const or_draft_tree_t *from,
                              or_draft_tree_t *to)
{
    const or_token_log_t *held = or_shadow_log(translator->shadow);
    or_status_t status = or_token_tree_set(translator->drafted, held->tokens[held->length - 1],
                                           (const int32_t *)from->tokens, from->back, from->count,
                                           or_vocab_size(translator->known->vocab), false);
    if (status == OR_ERR_FULL) {
        return or_fail(OR_ERR_INVALID, "a tree of %u nodes is larger than was asked for",
                       from->count);
    }
    if (status == OR_OK) {
        status = or_slem_translate(translator->slem, log->tokens, log->length, translator->drafted,
                                   nodes_max, depth_max, translator->tree);
    }
    if (status != OR_OK) {
        return status;
    }
    or_token_tree_to_wire(translator->tree, (int32_t *)translator->tokens, translator->back);
    *to = *from;
    to->tokens = translator->tokens;
    to->back = translator->back;
    to->count = or_token_tree_count(translator->tree);
    return OR_OK;
}

or_status_t or_translator_tree(or_translator_t *translator, uint32_t rule,
                               const or_token_log_t *log, uint32_t nodes_max, uint32_t depth_max,
                               const or_draft_tree_t *from, or_draft_tree_t *to)
{
    switch (translator->method) {
    case OR_VOCAB_SLEM:
        return retokenise(translator, log, nodes_max, depth_max, from, to);
    case OR_VOCAB_SLRS:
        *to = *from; // the drafter guessed the target's own tokens
        return OR_OK;
    default:
        return or_vocab_map_tree(translator->maps, translator->known->pair, translator->method,
                                 rule, from, to);
    }
}

// Return how far the drafter's tree foresaw the shadow's new tokens, of a text that was re-tokenised.
static void judge_text(const or_translator_t *translator, uint32_t length, uint32_t changed,
                       or_prefix_t *prefix)
{
    const or_token_log_t *held = or_shadow_log(translator->shadow);
    uint32_t node = 0;
    uint32_t foreseen = 0;
    if (changed < length || held->length == length) {
        return;
    }
    while (length + foreseen < held->length) {
        node = or_token_tree_find_child(translator->drafted, node, held->tokens[length + foreseen]);
        if (node == 0) {
            break;
        }
        foreseen++;
    }
    // The last token is what came after those before it.
    prefix->accepted = length + foreseen < held->length ? foreseen : foreseen - 1;
    prefix->next = held->tokens[length + prefix->accepted];
    prefix->judged = true;
}

void or_translator_judge(const or_translator_t *translator, uint32_t accepted, uint32_t next,
                         uint32_t length, uint32_t changed, or_prefix_t *prefix)
{
    if (translator->method == OR_VOCAB_SLEM) {
        judge_text(translator, length, changed, prefix);
    } else if (translator->method != OR_VOCAB_SLRS) {
        prefix->judged = true;
        prefix->accepted = accepted;
        prefix->next = translator->known->pair->to_draft[next];
    }
}
