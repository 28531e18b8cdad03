#include "common/text/vocab/vocab_pair.h"

#include <stdlib.h>
#include <string.h>

#include "common/text/tokenizer.h"
#include "common/text/vocab/vocab_internal.h"

static or_status_t no_memory(void)
{
    return or_fail(OR_ERR_NO_MEMORY, "no memory for the map between two vocabularies");
}

// Join the sorted keys: equal keys are the same token, and no key occurs twice in a vocabulary.
static void join(or_vocab_pair_t *pair, const keyed_t *draft, const keyed_t *target)
{
    uint32_t drafts = or_vocab_size(pair->draft);
    uint32_t targets = or_vocab_size(pair->target);
    for (uint32_t d = 0, t = 0; d < drafts && t < targets;) {
        if (draft[d].key != target[t].key) {
            draft[d].key < target[t].key ? d++ : t++;
            continue;
        }
        pair->to_target[draft[d].id] = (int32_t)target[t].id;
        pair->to_draft[target[t].id] = (int32_t)draft[d].id;
        pair->shared++;
        d++;
        t++;
    }
}

static or_status_t fill_maps(or_vocab_pair_t *pair)
{
    uint32_t drafts = or_vocab_size(pair->draft);
    uint32_t targets = or_vocab_size(pair->target);
    keyed_t *draft = malloc(drafts * sizeof *draft);
    keyed_t *target = malloc(targets * sizeof *target);
    pair->to_target = malloc(drafts * sizeof *pair->to_target);
    pair->to_draft = malloc(targets * sizeof *pair->to_draft);
    or_status_t status = OR_OK;
    if (draft == NULL || target == NULL || pair->to_target == NULL || pair->to_draft == NULL) {
        status = no_memory();
        goto done;
    }
    memset(pair->to_target, 0xFF, drafts * sizeof *pair->to_target); // all OR_TOKEN_NONE
    memset(pair->to_draft, 0xFF, targets * sizeof *pair->to_draft);
    or_vocab_sort_keys(pair->draft, draft);
    or_vocab_sort_keys(pair->target, target);
    join(pair, draft, target);
done:
    free(target);
    free(draft);
    return status;
}

// Is every token that text can become on the map?
static bool covers_text(const or_vocab_t *vocab, const int32_t *map)
{
    for (uint32_t id = 0; id < or_vocab_size(vocab); id++) {
        or_token_kind_t kind = or_vocab_kind(vocab, (int32_t)id);
        bool from_text = kind != OR_TOKEN_UNUSED && kind != OR_TOKEN_SPECIAL;
        if (from_text && map[id] == OR_TOKEN_NONE) {
            return false;
        }
    }
    return true;
}

or_status_t or_vocab_pair_create(const or_vocab_t *draft, const or_vocab_t *target,
                                 or_vocab_pair_t **pair_p)
{
    or_vocab_pair_t *pair = calloc(1, sizeof *pair);
    if (pair == NULL) {
        return no_memory();
    }
    pair->draft = draft;
    pair->target = target;
    or_status_t status = fill_maps(pair);
    if (status != OR_OK) {
        or_vocab_pair_destroy(&pair);
        return status;
    }
    pair->same = or_vocab_hash(draft) == or_vocab_hash(target);
    pair->bijective = covers_text(draft, pair->to_target) && covers_text(target, pair->to_draft);
    *pair_p = pair;
    return OR_OK;
}

void or_vocab_pair_destroy(or_vocab_pair_t **pair_p)
{
    if (*pair_p != NULL) {
        free((*pair_p)->to_draft);
        free((*pair_p)->to_target);
        free(*pair_p);
        *pair_p = NULL;
    }
}

// ---- figures of a text ----

static double share(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

static double share_of_vocabulary(const or_vocab_t *vocab, const int32_t *map)
{
    uint32_t used = 0, shared = 0;
    for (uint32_t id = 0; id < or_vocab_size(vocab); id++) {
        bool counts = or_vocab_kind(vocab, (int32_t)id) != OR_TOKEN_UNUSED;
        used += counts;
        shared += counts && map[id] != OR_TOKEN_NONE;
    }
    return share(shared, used);
}

// Tokenise a text; *injective says whether the tokens print it again.
static or_status_t tokenize(const or_vocab_t *vocab, const char *text, size_t length, int32_t **ids,
                            size_t *count, bool *injective)
{
    char *back = NULL;
    size_t back_length;
    or_status_t status = or_tokenize(vocab, text, length, 0, ids, count);
    if (status != OR_OK) {
        return status;
    }
    status = or_detokenize(vocab, *ids, *count, &back, &back_length);
    if (status != OR_OK) {
        free(*ids);
        return status;
    }
    *injective = back_length == length && memcmp(back, text, length) == 0;
    free(back);
    return OR_OK;
}

static void weigh(const or_vocab_pair_t *pair, const int32_t *ids, size_t count,
                  or_vocab_figures_t *figures)
{
    const uint32_t *widths = or_vocab_widths(pair->target);
    uint64_t bytes = 0, shared = 0, shared_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += widths[ids[i]];
        if (pair->to_draft[ids[i]] != OR_TOKEN_NONE) {
            shared++;
            shared_bytes += widths[ids[i]];
        }
    }
    figures->shared_of_text = share(shared, count);
    figures->shared_of_bytes = share(shared_bytes, bytes);
}

or_status_t or_vocab_pair_measure(const or_vocab_pair_t *pair, const char *text, size_t length,
                                  or_vocab_figures_t *figures)
{
    or_vocab_figures_t found = {0};
    int32_t *ids = NULL;
    size_t count;
    or_status_t status = tokenize(pair->draft, text, length, &ids, &count, &found.draft_injective);
    if (status != OR_OK) {
        return status;
    }
    found.draft_tokens = (uint32_t)count;
    free(ids);
    status = tokenize(pair->target, text, length, &ids, &count, &found.target_injective);
    if (status != OR_OK) {
        return status;
    }
    found.target_tokens = (uint32_t)count;
    found.shared_of_target = share_of_vocabulary(pair->target, pair->to_draft);
    weigh(pair, ids, count, &found);
    free(ids);
    *figures = found;
    return OR_OK;
}

// The sample is mostly English, as most texts are. Then come code, numbers, layout, and scripts
// that take bytes rather than tokens in a small vocabulary.
const char or_vocab_sample_text[] =
    "Once there was a clockmaker who lived at the edge of a small town by the sea. Every morning "
    "she opened the shutters, swept the floor and wound the old clocks one after the other, and "
    "every evening she wrote down which of them had lost a minute. \"Time does not run away,\" she "
    "told the children who came to watch. \"It walks, and it waits for those who look.\"\n"
    "\n"
    "One day a boy brought her a watch that had stopped. He had found it in the sand, he said, and "
    "it wasn't his, but nobody in the village knew whose it was. She turned it over, held it to "
    "her ear and smiled. \"It's only tired,\" she said. \"Come back tomorrow, and we'll see what "
    "it "
    "remembers.\" The boy ran home through the rain, and he was very happy.\n"
    "\n"
    "The question of how much energy a city needs has no simple answer. Between 1990 and 2020 "
    "consumption in the region grew by 37.5 %, while the population increased from 412,000 to "
    "just over half a million people. According to the report, most of the difference is due to "
    "transport; heating, on the other hand, has become considerably more efficient. The authors "
    "recommend that local governments (1) measure first, (2) publish what they find, and (3) "
    "invest where a euro saves the most.\n"
    "\n"
    "## How to build\n"
    "\n"
    "    cmake -S . -B build && cmake --build build -j 8\n"
    "\n"
    "- `--verbose` prints each command; see https://example.org/docs?page=2#build.\n"
    "- Errors go to *standard error*, results to **standard output**.\n"
    "\n"
    "```c\n"
    "static size_t count_words(const char *text, size_t length)\n"
    "{\n"
    "    size_t words = 0;\n"
    "    for (size_t i = 0; i < length; i++) {\n"
    "        if (text[i] != ' ' && (i == 0 || text[i - 1] == ' ')) {\n"
    "            words++;\n"
    "        }\n"
    "    }\n"
    "    return words; // 0x7F, 1e-6, \"\\n\"\n"
    "}\n"
    "```\n"
    "\n"
    "def area(points):\n"
    "\treturn 0.5 * abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(points, points[1:])))\n"
    "\n"
    "{\"name\": \"Ada\", \"tags\": [\"x\", \"y\"], \"active\": true, \"score\": -12.75}\n"
    "\n"
    "In der kleinen Stadt am Fluß war es früh am Morgen still. Où est la bibliothèque, "
    "s'il vous plaît ? El niño comió una manzana en el jardín. Zażółć gęślą jaźń.\n"
    "Каждое утро она открывала ставни и заводила старые часы.\n"
    "Η θάλασσα ήταν ήρεμη. היום יורד גשם. كان الجو جميلا. "
    "आज मौसम अच्छा है।\n"
    "每天早上，她都打开窗户。 雨の日には本を読みます。 오늘은 날씨가 좋습니다.\n"
    "Thanks! 🙂 👩‍🚀 → ½ × 3 ≈ 1.5 €\r\n";
