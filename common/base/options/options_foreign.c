// Options of llama.cpp, vLLM and SGLang: other names of ours, and those that are not here, with what to do instead.
#include <string.h>

#include "common/base/options/options_internal.h"

// The words stand beside each other with spaces between them, as they are typed.
typedef struct {
    const char *words;
    const char *
        answer; // names of our options, of which a program has the first or the next; or a sentence
} row_t;

static const row_t names[] = {
    {"--n-predict --predict", "predict max-tokens"},
    {"--temperature", "temp"},
    {"--n-gpu-layers", "gpu-layers"},
    {"--n-gpu-layers-draft --spec-draft-ngl", "gpu-layers-draft"},
    {"--spec-draft-model", "model-draft"},
    {"--spec-draft-device", "device-draft"},
    {"--spec-draft-threads", "threads-draft"},
    {"--spec-draft-cpu-range", "cpu-range-draft"},
    {"--spec-draft-cpu-strict", "cpu-strict-draft"},
    {"--spec-draft-poll", "poll-draft"},
    {"--draft --draft-n --draft-max --spec-draft-n-max", "draft-nodes nodes"},
    {"-l", "logit-bias"},
    {"-sp", "special"},
    {"--reverse-prompt", "stop"},
    {"-sys --system-prompt", "system"},
    {"-co", "color"},
    {"--log-verbose", "verbose"},
    {"--ssl-cert-file --ssl-certfile", "http-cert"},
    {"--ssl-key-file --ssl-keyfile", "http-key"},
    {"--usage", "help"},
};

#define CACHE                                                                                      \
    "texts share the cache of the beginnings that they have in common by themselves; "             \
    "--kv-cache-size SIZE says how large it is"
#define ON_CPU                                                                                     \
    "--gpu-layers N says how many layers have their weights in the GPU's memory; all passes run "  \
    "there"

static const row_t advice[] = {
    // models
    {"-hf -hfr --hf-repo -hff --hf-file -hft --hf-token -mu --model-url -dr --docker-repo "
     "--offline -cl --cache-list --spec-draft-hf -hfd -hfrd --hf-repo-draft --gpt-oss-20b-default "
     "--gpt-oss-120b-default --vision-gemma-4b-default --vision-gemma-12b-default --download-dir "
     "--revision --load-format --trust-remote-code",
     "nothing is downloaded: -m takes a GGUF file, or a folder with a checkpoint as Hugging "
     "Face publishes it"},
    {"--models-dir --models-preset --models-max --models-autoload --no-models-autoload",
     "a coordinator serves one target: start one for each, with outrider up --listen and --http"},
    {"--model-path", "it is -m/--model FILE"},
    {"--tokenizer --tokenizer-path --tokenizer-mode",
     "the tokenizer is in the model's file; outrider model convert puts a checkpoint's there"},
    {"--override-kv", "a model is computed as its file says; write another file"},
    {"--check-tensors", "outrider doctor -m FILE checks a model"},
    {"--lora --lora-scaled --lora-init-without-apply --enable-lora --lora-modules --lora-paths",
     "adapters are not read: merge it into its model, then use outrider model convert"},
    {"--control-vector --control-vector-scaled --control-vector-layer-range",
     "control vectors are not read"},
    {"--quantization -q --dtype",
     "outrider model quantize writes a model with its weights in another type"},
    // memory
    {"--mlock --mmap --no-mmap -dio --direct-io -ndio --no-direct-io -lm --load-mode -lzm "
     "--lazy-mode --repack -nr --no-repack --no-host --cpu-offload-gb --swap-space",
     "outrider model pack writes weights that programs map and share; --weights-memory SIZE "
     "says how much of them stays in memory"},
    {"-fit --fit -fitt --fit-target -fitc --fit-ctx --gpu-memory-utilization "
     "--mem-fraction-static",
     "caches and layers take what memory there is; --kv-cache-size, --gpu-layers and "
     "--weights-memory say how much"},
    {"-kvo --kv-offload -nkvo --no-kv-offload --op-offload --no-op-offload", ON_CPU},
    {"-ot --override-tensor -cmoe --cpu-moe -ncmoe --n-cpu-moe --moe-cache-mib -ncffn --n-cpu-ffn "
     "-otd --spec-draft-override-tensor --override-tensor-draft -cmoed --spec-draft-cpu-moe "
     "--cpu-moe-draft -ncmoed --spec-draft-n-cpu-moe --spec-draft-ncmoe --n-cpu-moe-draft",
     ON_CPU},
    {"-sm --split-mode -ts --tensor-split -mg --main-gpu --rpc -tp --tp --tp-size "
     "--tensor-parallel-size -pp --pp-size --pipeline-parallel-size",
     "--np N splits the target over N processes with a GPU each, --pp N its layers into stages, "
     "and --device NAME chooses a GPU"},
    {"--data-parallel-size -dp --dp --dp-size",
     "start several coordinators, each with a verifier, and balance between them"},
    {"--max-model-len --context-length", "--ctx-size N is the context"},
    {"-cd --ctx-size-draft", "it is the target's: --ctx-size N"},
    {"-dt --defrag-thold -kvu --kv-unified -no-kvu --no-kv-unified --kv-unified-per-slot -cram "
     "--cache-ram --cache-reuse --cache-prompt --no-cache-prompt --cache-idle-slots "
     "--no-cache-idle-slots -ctxcp --ctx-checkpoints --swa-checkpoints -cms --checkpoint-min-step "
     "--slot-save-path -sps --slot-prompt-similarity --enable-prefix-caching "
     "--no-enable-prefix-caching --disable-radix-cache --block-size",
     CACHE},
    {"--swa-full", "--window-slack N says how much more than its window a layer keeps"},
    {"--kv-cache-dtype", "it is --cache-type-k TYPE and --cache-type-v TYPE"},
    {"-ctkd --cache-type-k-draft --spec-draft-type-k -ctvd --cache-type-v-draft "
     "--spec-draft-type-v",
     "the target's have options, --cache-type-k and --cache-type-v; the drafter's not"},
    // computing
    {"-tb --threads-batch", "prompts have the same threads as tokens: -t/--threads N"},
    {"-tbd --threads-batch-draft --spec-draft-threads-batch",
     "prompts have the same threads as tokens: -td/--threads-draft N"},
    {"-C --cpu-mask -Cb --cpu-mask-batch -Crb --cpu-range-batch --cpu-strict-batch --poll-batch "
     "--numa",
     "--cpu-range LO-HI says on which CPUs it runs, the same for prompts and tokens"},
    {"-Cd --cpu-mask-draft --spec-draft-cpu-mask -Cbd --cpu-mask-batch-draft "
     "--spec-draft-cpu-mask-batch -Crbd --cpu-range-batch-draft --cpu-strict-batch-draft "
     "--spec-draft-cpu-strict-batch --poll-batch-draft --spec-draft-poll-batch",
     "--cpu-range-draft LO-HI says on which CPUs the draft model runs"},
    {"--prio --prio-batch --prio-draft --prio-batch-draft --spec-draft-prio "
     "--spec-draft-prio-batch",
     "start it with the system's nice or chrt"},
    {"-fa --flash-attn --attention-backend",
     "attention has one kernel on each device, which keeps no table of scores"},
    {"--enforce-eager --warmup --no-warmup", "there is nothing to turn off"},
    {"-b --batch-size -ub --ubatch-size --max-num-batched-tokens --chunked-prefill-size "
     "--enable-chunked-prefill --no-enable-chunked-prefill",
     "the verifier chooses the rows of a pass; outrider-verifier --batch-size N, or the "
     "variable OUTRIDER_BATCH_SIZE, bounds them"},
    {"--rope-scaling --rope-scale --rope-freq-base --rope-freq-scale --yarn-orig-ctx "
     "--yarn-ext-factor --yarn-attn-factor --yarn-beta-slow --yarn-beta-fast",
     "positions are computed as the model's file says"},
    // text
    {"--keep --context-shift --no-context-shift",
     "a text ends where the context is full; --ctx-size N makes it larger"},
    {"-e --escape --no-escape",
     "a prompt is taken as it is: the shell's $'...' writes a newline for \\n"},
    {"-bf --binary-file", "it is -f/--file FILE, which takes any bytes"},
    {"-sysf --system-prompt-file", "outrider chat --system \"$(cat FILE)\" reads it"},
    {"-cnv --conversation -no-cnv --no-conversation -i --interactive -if --interactive-first -st "
     "--single-turn -mli --multiline-input --in-prefix --in-suffix --in-prefix-bos --simple-io",
     "outrider chat is the conversation, and outrider generate writes one text"},
    {"-sys --system-prompt", "outrider chat --system TEXT has it"},
    {"-co --color", "outrider chat has --color; a text alone is written as it is"},
    {"-o --output --output-file --output-format", "the text goes to standard output: > FILE"},
    {"--server-base", "it is --connect ENDPOINT, where outrider up runs"},
    {"--perf --no-perf --show-timings --no-show-timings --verbose-prompt -ptc --print-token-count",
     "--verbose says where the time went, and outrider tokenize what the tokens are"},
    {"--prompt-cache --prompt-cache-all --prompt-cache-ro", CACHE},
    // sampling
    {"--samplers --sampler-seq --sampling-seq --top-nsigma --top-n-sigma --xtc-probability "
     "--xtc-threshold --typical --typical-p --dry-multiplier --dry-base --dry-allowed-length "
     "--dry-penalty-last-n --dry-sequence-breaker --adaptive-target --adaptive-decay "
     "--dynatemp-range --dynatemp-exp --mirostat --mirostat-lr --mirostat-ent -bs "
     "--backend-sampling --spec-draft-backend-sampling --no-spec-draft-backend-sampling "
     "--generation-config --override-generation-config --sampling-defaults",
     "the distribution is shaped by --temp, --top-k, --top-p, --min-p, the penalties and "
     "--logit-bias alone"},
    {"--grammar --grammar-file -j --json-schema -jf --json-schema-file --guided-decoding-backend "
     "--structured-outputs-config --grammar-backend",
     "texts cannot be bound to a grammar or a schema"},
    {"--random-seed", "each request has its own: -s/--seed N"},
    // drafting
    {"--draft-min --draft-n-min --spec-draft-n-min",
     "--draft-policy auto, the default, measures how many guesses are worth their time, none "
     "among them"},
    {"--draft-p-min --spec-draft-p-min --draft-p-split --spec-draft-p-split",
     "--draft-method dyspec-t with --draft-threshold P drops unlikely guesses, and "
     "--draft-policy auto those that do not pay"},
    {"--spec-type --spec-default --speculative-config --speculative-model "
     "--num-speculative-tokens --speculative-algorithm --speculative-draft-model-path "
     "--speculative-num-steps --speculative-eagle-topk --speculative-num-draft-tokens",
     "--model-draft FILE names the draft model, --draft-method how it drafts, and --draft-nodes "
     "N how many guesses a round has"},
    {"-lcs --lookup-cache-static -lcd --lookup-cache-dynamic --spec-ngram-mod-n-min "
     "--spec-ngram-mod-n-max --spec-ngram-mod-n-match --spec-ngram-simple-size-n "
     "--spec-ngram-simple-size-m --spec-ngram-simple-min-hits --spec-ngram-map-k-size-n "
     "--spec-ngram-map-k-size-m --spec-ngram-map-k-min-hits --spec-ngram-map-k4v-size-n "
     "--spec-ngram-map-k4v-size-m --spec-ngram-map-k4v-min-hits",
     "--draft-method ngram looks guesses up in the text itself, and needs no model"},
    // serving
    {"--host --port", "outrider up --http HOST:PORT says where the API listens"},
    {"--reuse-port --path --api-prefix --root-path -to --timeout --sse-ping-interval "
     "--threads-http --metrics --enable-metrics --props --slots --no-slots --ui --webui --no-ui "
     "--no-webui --ui-config --webui-config --ui-config-file --webui-config-file --tags "
     "--sleep-idle-seconds --prefill-assistant --no-prefill-assistant -cb --cont-batching -nocb "
     "--no-cont-batching --cors-methods --cors-headers --cors-credentials --no-cors-credentials",
     "outrider up always serves the API, metrics and a dashboard, many texts in a pass, and "
     "this cannot be chosen"},
    {"--cors-origins --allowed-origins",
     "outrider up --http-cors ORIGIN says whose pages may use it"},
    {"--ssl-cert-file --ssl-certfile --ssl-key-file --ssl-keyfile",
     "outrider up --http-cert FILE --http-key FILE serves HTTPS"},
    {"--api-key",
     "outrider up --api-key-file FILE has the keys, or the variable OUTRIDER_API_KEY a single "
     "one"},
    {"-a --alias --served-model-name", "the API calls the model by its file's name"},
    {"-np --parallel --max-num-seqs --max-running-requests",
     "outrider up --sessions-max N says how many requests are served at a time"},
    {"--schedule-policy --scheduling-policy",
     "the owner with the fewest texts at work is served next; --owner-sessions-max N bounds "
     "each"},
    {"--tools --tools-runtime --mcp-servers-config --mcp-servers-json -ag --agent -no-ag "
     "--no-agent --ui-mcp-proxy --webui-mcp-proxy --no-ui-mcp-proxy --no-webui-mcp-proxy "
     "--tool-call-parser --enable-auto-tool-choice",
     "tools and their calls are not served"},
    {"--jinja --no-jinja --chat-template-file --chat-template-kwargs --skip-chat-parsing "
     "--no-skip-chat-parsing",
     "conversations become prompts as the model's file says; --chat-template NAME names a "
     "family"},
    {"--reasoning-format --reasoning-parser -rea --reasoning --reasoning-effort "
     "--reasoning-budget --reasoning-budget-message --reasoning-preserve --no-reasoning-preserve",
     "outrider chat --thinking HOW, or a request's reasoning_effort, says how"},
    {"-mm --mmproj -mmu --mmproj-url --mmproj-auto --no-mmproj --no-mmproj-auto --mmproj-offload "
     "--no-mmproj-offload -mmdev --mmproj-device --image --audio --video --image-min-tokens "
     "--image-max-tokens --mtmd-batch-max-tokens --video-fps --video-timestamp-interval "
     "--video-ffmpeg-dir --media-path -mv --model-vocoder --tts-use-guide-tokens",
     "models of text alone are served"},
    {"--embedding --embeddings --rerank --reranking --pooling --embd-normalize "
     "--embd-output-format --embd-separator --spm-infill --task --is-embedding",
     "texts are written, and nothing else is computed of them"},
    // logs
    {"--log-disable --log-file --log-jsonl --no-log-jsonl --log-colors -lv --verbosity "
     "--log-verbosity --log-prefix --no-log-prefix --log-timestamps --no-log-timestamps "
     "--log-prompts-dir --disable-log-requests --disable-log-stats --enable-log-requests",
     "--log-level LEVEL says how much is logged, to standard error"},
    {"--completion-bash", "an installed package has completions for bash and zsh"},
};

// Is the word one of those of a row?
static bool has_word(const char *words, const char *word, size_t length)
{
    while (*words != '\0') {
        size_t next = strcspn(words, " ");
        if (next == length && memcmp(words, word, length) == 0) {
            return true;
        }
        words += next + (words[next] == ' ');
    }
    return false;
}

static const char *find_answer(const row_t *rows, size_t count, const char *word, size_t length)
{
    for (size_t i = 0; i < count; i++) {
        if (has_word(rows[i].words, word, length)) {
            return rows[i].answer;
        }
    }
    return NULL;
}

const char *or_options_other_names(const char *word, size_t length)
{
    return find_answer(names, sizeof names / sizeof *names, word, length);
}

const char *or_options_advice(const char *word, size_t length)
{
    return find_answer(advice, sizeof advice / sizeof *advice, word, length);
}
