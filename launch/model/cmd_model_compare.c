// outrider model compare - what the vocabularies of a target and a draft model have in common.
//
//     {"target": {"size", "unpadded", "tokenizer", "hash", "tokens", "injective"}, "draft": ...,
//      "same", "bijective", "shared": {"tokens", "of_target", "of_text", "of_bytes"},
//      "choices": [{"temp", "vocab_map", "why"}, ...],
//      "text_bytes", "load_s", "compare_s"}
//
// `tokens` and `injective` are about the sample text; shares are fractions of 1. Where `vocab_map`
// is null there is no way, and `why` says what to do.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "launch/commands.h"
#include "launch/generate/input.h"
#include "launch/generate/output.h"
#include "launch/model/convert/cached.h"
#include "proto/session/vocab_choice.h"

typedef struct {
    char *file;
    bool json;
} config_t;

static const or_option_t table[] = {
    {"file", "f", OR_OPTION_STRING, offsetof(config_t, file), "FILE",
     "text to compare them on (- for standard input); if not given, a page of English, code and "
     "other scripts"},
    {"json", NULL, OR_OPTION_FLAG, offsetof(config_t, json), NULL, "one line of JSON"},
    {0}};

static const or_option_program_t program = {
    .program = "outrider model compare",
    .summary = "what two models' vocabularies share, and which --vocab-map suits the pair",
    .usage = "TARGET DRAFT [options]",
    .table = table,
    .examples = "Example:\n"
                "  outrider model compare launch/models/tales-6m-f16.gguf "
                "launch/models/tales-bpe-1m-f16.gguf",
};

// The method that --vocab-map auto chooses under the default rule.
typedef struct {
    float temperature;
    const char *method; // NULL: there is no way
    char why[512];
} choice_t;

// The facts that text and JSON show.
typedef struct {
    const or_vocab_pair_t *pair;
    or_vocab_figures_t figures;
    size_t text_bytes;
    choice_t greedy, sampling;
    double load_s, compare_s;
} facts_t;

static double now_s(void)
{
    return (double)or_clock_now(or_clock_monotonic()) / (double)OR_NS_PER_S;
}

// ---- output ----

static void print_vocabulary(const char *role, const or_vocab_t *vocab, uint32_t tokens,
                             bool injective)
{
    printf("%-7s %" PRIu32 " tokens, ", role, or_vocab_unpadded_size(vocab));
    if (or_vocab_size(vocab) != or_vocab_unpadded_size(vocab)) {
        printf("padded to %" PRIu32 ", ", or_vocab_size(vocab));
    }
    printf("tokenizer %s, content hash %016" PRIx64 "; the text is %" PRIu32 " tokens, which %s\n",
           or_vocab_model(vocab), or_vocab_hash(vocab), tokens,
           injective ? "give it back unchanged" : "do not give it back unchanged");
}

static void print_choice(const choice_t *choice)
{
    printf("%-16s", choice->temperature > 0 ? "temperature > 0" : "temperature 0");
    if (choice->method != NULL) {
        printf("--vocab-map %s: ", choice->method);
    }
    printf("%s\n", choice->why);
}

static void print_text(const facts_t *facts)
{
    const or_vocab_pair_t *pair = facts->pair;
    const or_vocab_figures_t *figures = &facts->figures;
    print_vocabulary("target", pair->target, figures->target_tokens, figures->target_injective);
    print_vocabulary("draft", pair->draft, figures->draft_tokens, figures->draft_injective);
    printf("same    %s\n", pair->same        ? "yes"
                           : pair->bijective ? "all text, but under other ids"
                                             : "no");
    printf("shared  %" PRIu32 " tokens: %.1f %% of the target's vocabulary; of the text %.1f %% of "
           "the target's tokens and %.1f %% of the bytes\n\n",
           pair->shared, 100 * figures->shared_of_target, 100 * figures->shared_of_text,
           100 * figures->shared_of_bytes);
    print_choice(&facts->greedy);
    print_choice(&facts->sampling);
    printf("\n%.3f s to load both, %.3f s to compare them on %zu bytes of text\n", facts->load_s,
           facts->compare_s, facts->text_bytes);
}

static json_t *json_vocabulary(const or_vocab_t *vocab, uint32_t tokens, bool injective)
{
    char hash[32];
    snprintf(hash, sizeof hash, "%016" PRIx64, or_vocab_hash(vocab));
    return json_pack("{s:I, s:I, s:s, s:s, s:I, s:b}", "size", (json_int_t)or_vocab_size(vocab),
                     "unpadded", (json_int_t)or_vocab_unpadded_size(vocab), "tokenizer",
                     or_vocab_model(vocab), "hash", hash, "tokens", (json_int_t)tokens, "injective",
                     injective);
}

static json_t *json_shared(const facts_t *facts)
{
    const or_vocab_figures_t *figures = &facts->figures;
    return json_pack("{s:I, s:f, s:f, s:f}", "tokens", (json_int_t)facts->pair->shared, "of_target",
                     figures->shared_of_target, "of_text", figures->shared_of_text, "of_bytes",
                     figures->shared_of_bytes);
}

static json_t *json_choice(const choice_t *choice)
{
    return json_pack("{s:f, s:s?, s:s}", "temp", (double)choice->temperature, "vocab_map",
                     choice->method, "why", choice->why);
}

static or_status_t print_json(const facts_t *facts)
{
    const or_vocab_pair_t *pair = facts->pair;
    const or_vocab_figures_t *figures = &facts->figures;
    json_t *root = json_pack(
        "{s:o, s:o, s:b, s:b, s:o, s:[o, o], s:I, s:f, s:f}", "target",
        json_vocabulary(pair->target, figures->target_tokens, figures->target_injective), "draft",
        json_vocabulary(pair->draft, figures->draft_tokens, figures->draft_injective), "same",
        pair->same, "bijective", pair->bijective, "shared", json_shared(facts), "choices",
        json_choice(&facts->greedy), json_choice(&facts->sampling), "text_bytes",
        (json_int_t)facts->text_bytes, "load_s", facts->load_s, "compare_s", facts->compare_s);
    return or_output_json(root, 6);
}

// ---- the comparison ----

static void choose(facts_t *facts, float temperature, choice_t *choice)
{
    or_vocab_method_t method;
    choice->temperature = temperature;
    if (or_vocab_choose(facts->pair, &facts->figures, OR_ACCEPT_COUPLED, temperature, &method,
                        choice->why, sizeof choice->why) == OR_OK) {
        choice->method = or_vocab_method_name(method);
    } else {
        snprintf(choice->why, sizeof choice->why, "%s", or_error_text());
    }
}

static or_status_t compare(const config_t *config, const or_vocab_t *target,
                           const or_vocab_t *draft, const char *text, facts_t *facts)
{
    or_vocab_pair_t *pair = NULL;
    double start = now_s();
    or_status_t status = or_vocab_pair_create(draft, target, &pair);
    if (status == OR_OK) {
        status = or_vocab_pair_measure(pair, text, facts->text_bytes, &facts->figures);
    }
    if (status != OR_OK) {
        goto done;
    }
    facts->pair = pair;
    choose(facts, 0, &facts->greedy);
    choose(facts, 1, &facts->sampling);
    facts->compare_s = now_s() - start;
    if (config->json) {
        status = print_json(facts);
    } else {
        print_text(facts);
    }
done:
    or_vocab_pair_destroy(&pair);
    return status;
}

static or_status_t load(const char *path, or_vocab_t **vocab_p)
{
    or_gguf_t *gguf = NULL;
    or_status_t status = or_gguf_open(path, &gguf);
    if (status == OR_OK) {
        status = or_vocab_load(gguf, vocab_p);
    }
    or_gguf_close(&gguf);
    return status;
}

// Read the text to compare on. *text_p is malloc'd.
static or_status_t read_text(const config_t *config, char **text_p, size_t *length)
{
    if (config->file == NULL) {
        *text_p = strdup(or_vocab_sample_text);
        *length = strlen(or_vocab_sample_text);
        return *text_p != NULL ? OR_OK : or_fail(OR_ERR_NO_MEMORY, "no memory for the text");
    }
    or_status_t status = or_input_read(config->file, text_p, length);
    if (status == OR_OK && *length == 0) {
        free(*text_p);
        *text_p = NULL;
        status = or_fail(OR_ERR_INVALID, "%s is empty; give a text like those to be generated",
                         config->file);
    }
    return status;
}

static or_status_t compare_files(const config_t *config, const char *target_path,
                                 const char *draft_path)
{
    or_vocab_t *target = NULL;
    or_vocab_t *draft = NULL;
    char *text = NULL;
    facts_t facts = {0};
    or_status_t status = read_text(config, &text, &facts.text_bytes);
    double start = now_s();
    if (status == OR_OK) {
        status = load(target_path, &target);
    }
    if (status == OR_OK) {
        status = load(draft_path, &draft);
    }
    facts.load_s = now_s() - start;
    if (status == OR_OK) {
        status = compare(config, target, draft, text, &facts);
    }
    or_vocab_destroy(&draft);
    or_vocab_destroy(&target);
    free(text);
    return status;
}

static int run(int argc, char **argv)
{
    config_t config = {0};
    or_option_list_t words = {0};
    or_status_t status;
    int code;
    if (!or_command_begin(&program, argc, argv, &config, &words, &code)) {
        return code;
    }
    code = OR_EXIT_FAILURE;
    if (words.count != 2) {
        status = or_fail(OR_ERR_INVALID, "give two files: the target and the draft model");
        code = OR_EXIT_USAGE;
    } else {
        char *target = NULL, *draft = NULL;
        status = or_checkpoint_find_file(words.items[0], &target);
        status = status != OR_OK ? status : or_checkpoint_find_file(words.items[1], &draft);
        status = status != OR_OK ? status : compare_files(&config, target, draft);
        free(draft);
        free(target);
    }
    return or_command_end(&program, &config, &words, status, code);
}

const or_command_t or_model_compare_command = {"compare", run,
                                               "TARGET DRAFT [-f TEXTFILE] [--json]"};
