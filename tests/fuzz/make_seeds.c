// Goal: the seeds reach every branch quickly, because a fuzzer needs long to guess a magic
// number or a key's name.
// Method: make_seeds FOLDER writes FOLDER/<target>/<name>. Files and messages are made by the
// helpers of the unit tests, so that they follow the formats.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/gguf/gguf_test_file.h"
#include "coordinator/journal/journal_file.h"
#include "proto/wire/message_test_random.h"
#include "tests/fuzz/fuzz.h"

#define MESSAGES_OF_A_TYPE 3
#define MESSAGE_BYTES_MAX 4096

static const char *folder;

static void make_folder(const char *path)
{
    int made = mkdir(path, 0777);
    assert(made == 0 || errno == EEXIST);
}

static void write_seed(const char *target, const char *name, const void *bytes, size_t count)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, target);
    make_folder(path);
    snprintf(path, sizeof path, "%s/%s/%s", folder, target, name);
    FILE *file = fopen(path, "wb");
    assert(file != NULL);
    size_t wrote = fwrite(bytes, 1, count, file);
    int closed = fclose(file);
    assert(wrote == count && closed == 0);
}

// ---- texts and short arrays ----

#define SEED(target, name, text)                                                                   \
    {                                                                                              \
        target, name, text, sizeof text - 1                                                        \
    }

static const struct {
    const char *target, *name, *bytes;
    size_t count;
} written[] = {
    SEED("api", "completion",
         "{\"model\": \"tales\", \"prompt\": [\"ab\", \"ba\"], \"max_tokens\": 16, \"n\": 2, "
         "\"seed\": 7, \"stop\": [\"a\"], \"logit_bias\": {\"5\": -100}, \"logprobs\": 2, "
         "\"stream\": true, \"stream_options\": {\"include_usage\": true}, \"top_k\": -1}"),
    SEED("api", "chat",
         "{\"messages\": [{\"role\": \"system\", \"content\": \"a\"}, {\"role\": \"user\", "
         "\"content\": [{\"type\": \"text\", \"text\": \"b\"}]}], \"logprobs\": true, "
         "\"top_logprobs\": 2, \"draft\": {\"method\": \"rsd-c\", \"accept\": \"recursive\", "
         "\"shape\": \"4x2x1\", \"details\": true}, \"tool_choice\": \"none\"}"),
    SEED(
        "api", "tools",
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
        "\"tool_calls\": [{\"id\": \"123456789\", \"type\": \"function\", \"function\": {\"name\": "
        "\"f\", \"arguments\": \"{\\\"a\\\": [1.5e3]}\"}}]}, {\"role\": \"tool\", "
        "\"tool_call_id\": "
        "\"123456789\", \"content\": \"b\"}], \"tools\": [{\"type\": \"function\", \"function\": "
        "{\"name\": \"f\", \"parameters\": {\"a\": {\"type\": \"\\u00e9\"}}}}]}"),
    SEED("api", "call",
         "a <tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, {}]}}\n</tool_call>"),
    SEED("api", "calls", "[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{\"a\": \"\\ud83d\\ude00\"}"),
    SEED("api", "tokens", "{\"prompt\": [1, 6, 7], \"echo\": true, \"draft\": false}"),
    SEED("api", "place",
         "AAECAwQFBgcICQoLDA0ODxUAAABYAAAAAAAAAFAAAAAAAAAAXDofAAAAAADAhv1qAAAAABI0VngB"),
    SEED("options", "words",
         "-p\nOnce\n-n\n-1\n--temp=0.5\n--top-k\n40\n--plain\n--no-json\n-r\nThe end\n--stop=.\n"
         "--logit-bias\n15043+1.5\n--logit-bias=7-inf\n-s\n42\n--\n-x"),
    SEED("options", "sources",
         "-f\nprompt.txt\n--config\nx.json\n=\nPROMPT=a\nTEMP=0\nSTOP=b\nSEED=random\n=\n"
         "{\"prompt\": \"c\", \"temp\": 1e0, \"stop\": [\"d\", \"e\", 1, true], \"plain\": false, "
         "\"predict\": -1}"),
    SEED("options", "config",
         "--config=x\n=\n\n=\n{\"model\": \"m\", \"model-draft\": \"\\u00e9\", \"ctx-size\": "
         "4294967295, \"top-p\": 0.95, \"nothing\": null}"),
    SEED("options", "methods",
         "-p\nx\n--draft-method\nchain\n--accept\ngreedy\n--temp\n0\n--draft-nodes\n8"),
    SEED("options", "unknown", "--promt\nx\n-tmep\n--no-temp\n=\nCONFIG=x"),
    SEED("options", "help", "--temp\n2\n--help"),
    SEED("tokenizer", "spaces", "\0\0 a  ab   b\n\nab "),
    SEED("tokenizer", "no_space", "\1\1ababab\xC3\xA9 e\xCC\x81\xF0\x9F\x98\x80"),
    SEED("tokenizer", "marked", "\0\0<u>a<u>  b<s>a<s><|x|>\xE2\x96\x81u\xE2\x96\x81"),
    SEED("tokenizer", "special", "\3\1<s>ab</s> ab<|x|><|x|> "),
    SEED("tokenizer", "ill_formed", "\1\0\xC3(\xA9\xF0\x9F\x98\xFF\xED\xA0\x80\xC0\x80"),
    SEED("tokenizer", "lines", "\0\2 a  ab\n\n\nab\n a\nb<u>\n\n"),
    SEED("tokenizer", "words",
         "\0\3It's 12345 o'clock, don't\tyou\r\n\r\n  think? \xC3\x89T\xC3\x89 "),
    // The bytes are rule, vocabulary, distributions (count + 128, then token and weight), nodes (token, back,
    // distribution, order).
    SEED("draws", "chain", "\4\12\2\202\1\377\0\200\0\0\3\0\202\2\7\5\1\3\1\0\0\5\1\1\0"),
    SEED("draws", "siblings", "\6\12\1\203\1\7\2\7\3\0\1\1\0\0\2\2\0\1\3\3\0\2"),
    SEED("draws", "repeated", "\5\12\1\202\1\7\2\0\1\1\0\0\1\2\0\1\2\3\0\2\1\3\0\0"),
    SEED("safetensors", "two",
         "\x98\0\0\0\0\0\0\0{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\","
         "\"shape\":[1]"
         ",\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"BF16\",\"shape\":[2,1],\"data_offsets\":[4,8]"
         "}}"
         "           01234567"),
    SEED("imatrix", "legacy",
         "\2\0\0\0\1\0\0\0a\2\0\0\0\2\0\0\0\0\0\200?\0\0\0@\1\0\0\0b\1\0\0\0\1\0\0\0\0\0\200?"
         "\3\0\0\0\1\0\0\0x"),
    SEED(
        "checkpoint", "characters",
        "{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 9, \"hidden_size\": 8, "
        "\"intermediate_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
        "\"max_position_embeddings\": 8, \"rms_norm_eps\": 1e-5, \"rope_parameters\": "
        "{\"rope_type\": \"llama3\", \"rope_theta\": 1e4, \"factor\": 8.0, \"low_freq_factor\": 1, "
        "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 4}}\nNEXT FILE\n"
        "{\"added_tokens\": [{\"id\": 0, \"content\": \"<s>\", \"special\": true}, {\"id\": 8, "
        "\"content\": \"\xE2\x96\x81\xE2\x96\x81\"}], \"normalizer\": {\"type\": \"Replace\", "
        "\"pattern\": {\"String\": \" \"}, \"content\": \"\xE2\x96\x81\"}, \"post_processor\": "
        "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<s>\"}}]}, "
        "\"model\": {\"type\": \"BPE\", \"unk_token\": \"<u>\", \"byte_fallback\": true, "
        "\"vocab\": "
        "{\"<s>\": 0, \"<u>\": 1, \"<0x0A>\": 2, \"a\": 3, \"aa\": 4, \"aaa\": 5, \"b\": 6, "
        "\"ab\": 7}, \"merges\": [[\"a\", \"b\"], \"aa a\", \"a aa\", \"a a\"]}}\nNEXT FILE\n"
        "{\"bos_token\": {\"content\": \"<s>\"}, \"add_bos_token\": true, \"chat_template\": "
        "[{\"name\": \"default\", \"template\": \"x\"}]}\nNEXT FILE\n{\"eos_token_id\": [3, 6, "
        "7]}"),
    SEED(
        "checkpoint", "bytes",
        "{\"architectures\": [\"Gemma3ForCausalLM\"], \"vocab_size\": 9, \"hidden_size\": 8, "
        "\"intermediate_size\": 8, \"num_hidden_layers\": 6, \"num_attention_heads\": 2, "
        "\"num_key_value_heads\": 1, \"query_pre_attn_scalar\": 8, \"sliding_window\": 4, "
        "\"max_position_embeddings\": 8, \"rms_norm_eps\": 1e-5, \"rope_parameters\": "
        "{\"full_attention\": {\"rope_type\": \"yarn\", \"rope_theta\": 1e6, \"factor\": 8.0, "
        "\"attention_factor\": 2, \"beta_fast\": 3}, \"sliding_attention\": {\"rope_theta\": 1e4}}}"
        "\nNEXT FILE\n{\"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\": {\"type\": "
        "\"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\", \"individual_digits\": true}, "
        "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}]}, \"model\": {\"vocab\": {\"a\": "
        "0, "
        "\"b\": 1, \"ab\": 2}, \"merges\": [\"a b\"]}}"),
    SEED("checkpoint", "others",
         "{\"architectures\": [\"Phi3ForCausalLM\"], \"vocab_size\": 3, \"hidden_size\": 8, "
         "\"intermediate_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
         "\"original_max_position_embeddings\": 4, \"max_position_embeddings\": 8, "
         "\"rms_norm_eps\": "
         "1e-5, \"layer_types\": [\"sliding_attention\"], \"sliding_window\": 4, \"rope_scaling\": "
         "{\"type\": \"longrope\", \"long_factor\": [1, 2], \"short_factor\": [1, 1]}}\nNEXT FILE\n"
         "{\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"\xE2\x96\x81\", "
         "\"prepend_scheme\": \"first\", \"split\": false}, \"model\": {\"byte_fallback\": true, "
         "\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [\"a b\"]}}"),
    SEED(
        "checkpoint", "lines",
        "{\"architectures\": [\"Gemma4ForConditionalGeneration\"], \"text_config\": "
        "{\"vocab_size\": 9, \"hidden_size\": 8, \"intermediate_size\": 8, \"num_hidden_layers\": "
        "2, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 4, "
        "\"global_head_dim\": 8, \"max_position_embeddings\": 8, \"rms_norm_eps\": 1e-6, "
        "\"enable_moe_block\": true, \"num_experts\": 4, \"top_k_experts\": 2, "
        "\"moe_intermediate_size\": 4, \"hidden_size_per_layer_input\": 0, \"sliding_window\": 4, "
        "\"final_logit_softcapping\": 30, "
        "\"layer_types\": [\"sliding_attention\", \"full_attention\"], \"rope_parameters\": "
        "{\"full_attention\": {\"rope_type\": \"proportional\", \"rope_theta\": 1e6, "
        "\"partial_rotary_factor\": 0.25}, \"sliding_attention\": {\"rope_theta\": 1e4}}}}"
        "\nNEXT FILE\n"
        "{\"added_tokens\": [{\"id\": 8, \"content\": \"<t>\"}], \"normalizer\": {\"type\": "
        "\"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"\xE2\x96\x81\"}, \"model\": "
        "{\"type\": \"BPE\", \"unk_token\": \"<u>\", \"byte_fallback\": true, \"vocab\": "
        "{\"<u>\": 0, \"a\": 1, \"b\": 2, \"ab\": 3, \"\\n\": 4, \"\\n\\n\": 5, "
        "\"\\n\\n\\n\": 6, \"aab\": 7}, \"merges\": [[\"\\n\", \"\\n\"], [\"\\n\", "
        "\"\\n\\n\"], [\"\\n\\n\", \"\\n\"], [\"a\", \"b\"], [\"a\", \"ab\"]]}}"),
    SEED("checkpoint", "ranks",
         "{\"architectures\": [\"Glm4MoeLiteForCausalLM\"], \"vocab_size\": 9, \"hidden_size\": 8, "
         "\"intermediate_size\": 8, \"moe_intermediate_size\": 8, \"n_routed_experts\": 4, "
         "\"n_shared_experts\": 1, \"num_experts_per_tok\": 2, \"n_group\": 1, \"topk_group\": 1, "
         "\"routed_scaling_factor\": 1.8, \"kv_lora_rank\": 8, \"q_lora_rank\": 8, "
         "\"qk_nope_head_dim\": 8, \"qk_rope_head_dim\": 4, \"v_head_dim\": 8, "
         "\"mlp_layer_types\": [\"dense\", \"sparse\"], \"num_hidden_layers\": 2, "
         "\"num_attention_heads\": 2, \"max_position_embeddings\": 8, \"rms_norm_eps\": 1e-5, "
         "\"quantization_config\": {\"quant_method\": \"fp8\", \"weight_block_size\": [4, 4]}}"
         "\nNEXT FILE\nYQ== 0\nYg== 1\nYWI= 2\nYWJi 3\n\nNEXT FILE\n"
         "{\"tokenizer_class\": \"TikTokenTokenizer\", \"bos_token\": \"[BOS]\", "
         "\"added_tokens_decoder\": {\"4\": {\"content\": \"[BOS]\", \"special\": true}}}"),
    SEED("checkpoint", "merges",
         "{\"architectures\": [\"OPTForCausalLM\"], \"vocab_size\": 5, \"hidden_size\": 8, "
         "\"ffn_dim\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
         "\"max_position_embeddings\": 8}"
         "\nNEXT FILE\n#version: 0.2\na b\n\nNEXT FILE\n"
         "{\"tokenizer_class\": \"GPT2Tokenizer\", \"bos_token\": {\"content\": \"</s>\"}, "
         "\"add_bos_token\": true}\nNEXT FILE\n"
         "{\"</s>\": 3, \"a\": 0, \"b\": 1, \"ab\": 2}"),
    SEED(
        "checkpoint", "falcon",
        "{\"architectures\": [\"FalconForCausalLM\"], \"vocab_size\": 9, \"hidden_size\": 8, "
        "\"num_hidden_layers\": 1, \"num_attention_heads\": 2}\nNEXT FILE\n"
        "{\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": "
        "\"Punctuation\", \"behavior\": \"Contiguous\"}, {\"type\": \"ByteLevel\"}, {\"type\": "
        "\"Digits\"}, {\"type\": \"Split\", \"pattern\": {\"Regex\": \"[0-9][0-9][0-9]\"}, "
        "\"behavior\": \"Isolated\"}]}, \"model\": {\"ignore_merges\": true, \"vocab\": {\"a\": 0, "
        "\"1\": 1, \"11\": 2, \"aa\": 3}, \"merges\": [\"1 1\", \"a a\"]}}"),
    SEED("grant", "all",
         "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7 name=laptop owner=ada roles=client,drafter "
         "trusted=no sessions=4 tokens-per-minute=6000 nodes=64"),
    SEED("grant", "key", "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"),
    // The bytes are a recipe and edits: which, of what, and its numbers (fuzz_family.c).
    SEED("family", "plain", "\0"),
    SEED("family", "quantised", "\21\5\10"),
    SEED("family", "super-blocks", "\16\10\1\0\25\5\14"),
    SEED("family", "without", "\22\6\5\6\6\6\7"),
    SEED("family", "narrower", "\14\10\3\1\16"),
    SEED("family", "numbers", "\12\11\0\2\11\16\42\0\6\37"),
    SEED("tree", "chain", "\1\40\12\0\1\1\2\1\3\1\4\1"),
    SEED("tree", "branches", "\1\40\12\0\1\1\2\1\3\2\4\4\5\1\6\6"),
    SEED("tree", "repeated", "\1\40\12\1\1\1\1\2\1\3"),
    SEED("tree", "wide", "\1\40\377\377\377\377\177\0\377\0\0\0\200\1\1\377\1\0\0\0"),
};

static void write_texts(void)
{
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        write_seed(written[i].target, written[i].name, written[i].bytes, written[i].count);
    }
}

// ---- messages ----

// Write random messages of every type. Long ones would only slow the fuzzer down.
static void write_messages(void)
{
    uint64_t state = 1;
    for (uint32_t type = OR_RANDOM_TYPE_FIRST; type <= OR_RANDOM_TYPE_LAST; type++) {
        for (int i = 0; i < MESSAGES_OF_A_TYPE;) {
            or_message_t message;
            uint8_t *frame;
            size_t bytes;
            char name[64];
            message_test_random(&state, (or_message_type_t)type, &message);
            or_status_t status = or_message_encode(&message, &frame, &bytes);
            assert(status == OR_OK);
            message_test_random_free();
            if (bytes <= MESSAGE_BYTES_MAX) {
                snprintf(name, sizeof name, "%s_%d", or_message_type_name(type), i++);
                write_seed("message", name, frame, bytes);
            }
            free(frame);
        }
    }
}

// ---- GGUF files ----

enum { VOCAB = 6, HEADS = 2, KV_HEADS = 1 };

static const char *const pieces[VOCAB] = {"<unk>", "<s>", "</s>", "\xE2\x96\x81", "a", "<0x41>"};
static const int32_t types[VOCAB] = {2, 3, 3, 1, 1, 6};

static void put_vocabulary(test_gguf_t *file)
{
    test_gguf_put_string_entry(file, "tokenizer.ggml.model", "llama");
    test_gguf_put_array_key(file, "tokenizer.ggml.tokens", OR_GGUF_STRING, VOCAB);
    for (size_t i = 0; i < VOCAB; i++) {
        test_gguf_put_string(file, pieces[i]);
    }
    test_gguf_put_array_key(file, "tokenizer.ggml.scores", OR_GGUF_F32, VOCAB);
    test_gguf_put(file, (float[VOCAB]){0, 0, 0, -1, -2, 0}, VOCAB * sizeof(float));
    test_gguf_put_array_key(file, "tokenizer.ggml.token_type", OR_GGUF_I32, VOCAB);
    test_gguf_put(file, types, sizeof types);
    test_gguf_put_u32_entry(file, "tokenizer.ggml.bos_token_id", 1);
    test_gguf_put_u32_entry(file, "tokenizer.ggml.eos_token_id", 2);
    test_gguf_put_u32_entry(file, "tokenizer.ggml.unknown_token_id", 0);
    test_gguf_put_bool_entry(file, "tokenizer.ggml.add_bos_token", true);
    test_gguf_put_bool_entry(file, "tokenizer.ggml.add_space_prefix", true);
}
enum { VOCABULARY_ENTRIES = 9 };

static void put_float_entry(test_gguf_t *file, const char *key, float value)
{
    test_gguf_put_key(file, key, OR_GGUF_F32);
    test_gguf_put(file, &value, sizeof value);
}

static void put_shape(test_gguf_t *file, const char *architecture, uint32_t width)
{
    const struct {
        const char *suffix;
        uint32_t value;
    } numbers[] = {{"context_length", 40},
                   {"block_count", 1},
                   {"embedding_length", width},
                   {"feed_forward_length", width},
                   {"attention.head_count", HEADS},
                   {"attention.head_count_kv", KV_HEADS},
                   {"rope.dimension_count", width / HEADS}};
    char key[96];
    test_gguf_put_string_entry(file, "general.architecture", architecture);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        snprintf(key, sizeof key, "%s.%s", architecture, numbers[i].suffix);
        test_gguf_put_u32_entry(file, key, numbers[i].value);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", architecture);
    put_float_entry(file, key, 1e-5F);
    snprintf(key, sizeof key, "%s.rope.freq_base", architecture);
    put_float_entry(file, key, 10000.0F);
}
enum { SHAPE_ENTRIES = 10 };

// Put the tensors of one layer: matrices of one type, vectors F32. The data may be anything.
static void put_tensors(test_gguf_t *file, uint32_t width, uint32_t type, bool bias)
{
    const uint32_t kv = width / HEADS * KV_HEADS;
    const struct {
        const char *name;
        uint32_t rows; // 0: a vector
        uint32_t columns;
    } tensors[] = {{"token_embd.weight", VOCAB, width},
                   {"output_norm.weight", 0, width},
                   {"blk.0.attn_norm.weight", 0, width},
                   {"blk.0.attn_q.weight", width, width},
                   {"blk.0.attn_k.weight", kv, width},
                   {"blk.0.attn_v.weight", kv, width},
                   {"blk.0.attn_output.weight", width, width},
                   {"blk.0.ffn_norm.weight", 0, width},
                   {"blk.0.ffn_gate.weight", width, width},
                   {"blk.0.ffn_up.weight", width, width},
                   {"blk.0.ffn_down.weight", width, width},
                   {"blk.0.attn_q.bias", 0, width},
                   {"blk.0.attn_k.bias", 0, kv},
                   {"blk.0.attn_v.bias", 0, kv}};
    size_t count = sizeof tensors / sizeof *tensors - (bias ? 0 : 3);
    size_t offset = 0;
    for (size_t i = 0; i < count; i++) {
        bool vector = tensors[i].rows == 0;
        uint32_t rows = vector ? 1 : tensors[i].rows;
        or_tensor_block_t block = or_gguf_tensor_block(vector ? OR_TENSOR_F32 : type);
        test_gguf_put_tensor(file, tensors[i].name, tensors[i].columns, rows,
                             vector ? OR_TENSOR_F32 : type, offset);
        size_t bytes = (size_t)tensors[i].columns * rows / block.elements * block.bytes;
        offset += (bytes + 31) / 32 * 32;
    }
    test_gguf_pad(file, 32);
    while (offset > 0) {
        offset--;
        test_gguf_put(file, "\x3C", 1); // near 1 as half, small as float: never NaN
    }
}

static void write_model(const char *name, const char *architecture, uint32_t width, uint32_t type)
{
    bool bias = strcmp(architecture, "qwen2") == 0;
    test_gguf_t file;
    test_gguf_init(&file, 3, bias ? 14 : 11, SHAPE_ENTRIES + VOCABULARY_ENTRIES);
    put_shape(&file, architecture, width);
    put_vocabulary(&file);
    put_tensors(&file, width, type, bias);
    write_seed("gguf", name, file.bytes, file.count);
    test_gguf_fini(&file);
}

// Write a vocabulary alone. It serves gguf because in a file of mostly weights most changes are
// to weights. For vocab it is an untouched packet.
static void write_vocabulary_seed(const char *name, const test_gguf_t *file)
{
    test_gguf_t packet = {.fd = -1};
    write_seed("gguf", name, file->bytes, file->count);
    test_gguf_put(&packet, "\0\0\0", 3);
    test_gguf_put(&packet, file->bytes, file->count);
    write_seed("vocab", name, packet.bytes, packet.count);
    test_gguf_fini(&packet);
}

static void write_vocabulary(void)
{
    test_gguf_t file;
    test_gguf_init(&file, 3, 0, VOCABULARY_ENTRIES);
    put_vocabulary(&file);
    write_vocabulary_seed("vocabulary", &file);
    test_gguf_fini(&file);
}

static void write_byte_level_vocabulary(void)
{
    static const char *const tokens[] = {"a", "b", "ab", "\304\240", "\304\240ab", "<|end|>"};
    static const char *const merges[] = {"a b", "\304\240 ab"};
    test_gguf_t file;
    test_gguf_init(&file, 2, 0, 6);
    test_gguf_put_string_entry(&file, "tokenizer.ggml.model", "gpt2");
    test_gguf_put_string_entry(&file, "tokenizer.ggml.pre", "llama-bpe");
    test_gguf_put_array_key(&file, "tokenizer.ggml.tokens", OR_GGUF_STRING, 6);
    for (size_t i = 0; i < 6; i++) {
        test_gguf_put_string(&file, tokens[i]);
    }
    test_gguf_put_array_key(&file, "tokenizer.ggml.token_type", OR_GGUF_I32, 6);
    test_gguf_put(&file, (int32_t[6]){1, 1, 1, 1, 1, 3}, 6 * sizeof(int32_t));
    test_gguf_put_array_key(&file, "tokenizer.ggml.merges", OR_GGUF_STRING, 2);
    test_gguf_put_string(&file, merges[0]);
    test_gguf_put_string(&file, merges[1]);
    test_gguf_put_u32_entry(&file, "tokenizer.ggml.eos_token_id", 5);
    write_vocabulary_seed("byte_level", &file);
    test_gguf_fini(&file);
}

static void write_line_vocabulary(void)
{
    static const char *const tokens[] = {"a", "b", "ab", "\n", "\n\n", "<|end|>", "<u>"};
    static const char *const merges[] = {"a b", "\n \n"};
    enum { TOKENS = sizeof tokens / sizeof *tokens };
    test_gguf_t file;
    test_gguf_init(&file, 3, 0, 6);
    test_gguf_put_string_entry(&file, "tokenizer.ggml.model", "gemma4");
    test_gguf_put_array_key(&file, "tokenizer.ggml.tokens", OR_GGUF_STRING, TOKENS);
    for (size_t i = 0; i < TOKENS; i++) {
        test_gguf_put_string(&file, tokens[i]);
    }
    test_gguf_put_array_key(&file, "tokenizer.ggml.scores", OR_GGUF_F32, TOKENS);
    test_gguf_put(&file, (float[TOKENS]){0}, TOKENS * sizeof(float));
    test_gguf_put_array_key(&file, "tokenizer.ggml.token_type", OR_GGUF_I32, TOKENS);
    test_gguf_put(&file, (int32_t[TOKENS]){1, 1, 1, 1, 1, 3, 2}, TOKENS * sizeof(int32_t));
    test_gguf_put_array_key(&file, "tokenizer.ggml.merges", OR_GGUF_STRING, 2);
    test_gguf_put_string(&file, merges[0]);
    test_gguf_put_string(&file, merges[1]);
    test_gguf_put_u32_entry(&file, "tokenizer.ggml.unknown_token_id", TOKENS - 1);
    write_vocabulary_seed("lines", &file);
    test_gguf_fini(&file);
}

static void put_part(test_gguf_t *file, uint32_t number, const char *tensor)
{
    test_gguf_init(file, 3, 1, 3);
    test_gguf_put_u32_entry(file, "split.no", number);
    test_gguf_put_u32_entry(file, "split.count", 2);
    test_gguf_put_u32_entry(file, "split.tensors.count", 2);
    test_gguf_put_tensor(file, tensor, 2, 1, OR_TENSOR_F32, 0);
    test_gguf_pad(file, 32);
    test_gguf_put_u64(file, 0); // the tensor's two floats
}

static void write_split_model(void)
{
    test_gguf_t first, second;
    put_part(&first, 0, "a");
    put_part(&second, 1, "b");
    test_gguf_put(&first, "\nNEXT PART\n", strlen("\nNEXT PART\n"));
    test_gguf_put(&first, second.bytes, second.count);
    write_seed("gguf", "split", first.bytes, first.count);
    test_gguf_fini(&second);
    test_gguf_fini(&first);
}

// Write an importance matrix of one tensor with two experts.
static void write_importance(void)
{
    test_gguf_t file;
    test_gguf_init(&file, 3, 2, 2);
    test_gguf_put_string_entry(&file, "general.type", "imatrix");
    test_gguf_put_array_key(&file, "imatrix.datasets", OR_GGUF_STRING, 1);
    test_gguf_put_string(&file, "x");
    test_gguf_put_tensor(&file, "a.in_sum2", 2, 2, OR_TENSOR_F32, 0);
    test_gguf_put_tensor(&file, "a.counts", 1, 2, OR_TENSOR_F32, 32);
    test_gguf_pad(&file, 32);
    test_gguf_put(&file, (float[8]){1, 2, 3, 4}, 8 * sizeof(float));
    test_gguf_put(&file, (float[2]){1, 0}, 2 * sizeof(float));
    write_seed("imatrix", "gguf", file.bytes, file.count);
    test_gguf_fini(&file);
}

// Write a journal. The fuzzer fills in the checksums.
static void write_journal(void)
{
    static const uint8_t frame[] = "a request's frame";
    static const int32_t ids[] = {5, 6, 7, 8, 9};
    const or_journal_time_t time = {.at_ns = 5, .boot = "boot"};
    const or_journal_entry_t entry = {
        .owner = "ada", .key = "", .request = frame, .request_bytes = sizeof frame};
    or_journal_buffer_t buffer = {0};
    bool good = or_journal_add_begin(&buffer, &entry) == OR_OK &&
                or_journal_add_tokens(&buffer, 2, ids, 5) == OR_OK &&
                or_journal_add_taken(&buffer, "canonical") == OR_OK &&
                or_journal_add_tokens(&buffer, 3, ids, 1) == OR_OK;
    assert(good);
    write_seed("journal", "going_on", buffer.bytes, buffer.count);
    good = or_journal_add_ended(&buffer, OR_FINISH_STOP, &time) == OR_OK &&
           or_journal_add_expires(&buffer, &time) == OR_OK;
    assert(good);
    write_seed("journal", "ended", buffer.bytes, buffer.count);
    or_journal_buffer_fini(&buffer);
}

// ---- the hub: acts by their place in fuzz_hub.c's table, each with the edge and what it reads ----

enum { COME, GENERATE, DRAFT, JUDGE, WAIT, RESUME = 6, LEAVE, CANCEL, CUT, RESTART };
enum { CLIENT, DRAFTER, VERIFIER };

typedef struct {
    uint8_t bytes[512];
    size_t count;
} acts_t;

// Put an act and `zeros` more bytes, which stand for fitting values. The last one lets a
// millisecond pass.
static void put_act(acts_t *acts, const char *bytes, size_t count, size_t zeros)
{
    assert(acts->count + count + zeros <= sizeof acts->bytes);
    memcpy(acts->bytes + acts->count, bytes, count);
    acts->count += count + zeros;
}

static void put_come(acts_t *acts, char role, char owner)
{
    put_act(acts, (char[]){COME, role, role, owner}, 4, role == CLIENT ? 5 : 7);
}

// Put a request for a text by `pair`, plain or drafted.
static void put_generate(acts_t *acts, char request, char pair, char plain)
{
    put_act(acts, (char[]){GENERATE, CLIENT, request, 0, 0, pair}, 6, 12);
    put_act(acts, (char[]){plain, 0}, 2, 13);
}

static void put_round(acts_t *acts, bool drafted, bool drawn)
{
    if (drafted) {
        put_act(acts, (char[]){DRAFT, DRAFTER, 0, 0, 0, 0, 0, 0, 3}, 9, 8);
        put_act(acts, (char[]){drawn ? -1 : 0}, 1, drawn ? 20 : 1);
    }
    put_act(acts, (char[]){JUDGE, VERIFIER, 0, 0, 2}, 5, 12);
}

static void put_peers(acts_t *acts, char flags)
{
    *acts = (acts_t){.bytes = {(uint8_t)flags}, .count = 1};
    put_come(acts, VERIFIER, 2);
    put_come(acts, DRAFTER, 2);
    put_come(acts, CLIENT, 0);
}

static void write_hub_text(const char *name, char pair, bool plain, bool drawn)
{
    acts_t acts;
    put_peers(&acts, 0);
    put_generate(&acts, 1, pair, plain);
    for (int round = 0; round < 4; round++) {
        put_round(&acts, !plain, drawn);
    }
    write_seed("hub", name, acts.bytes, acts.count);
}

// Write a client that is cut off, one that comes back, and a coordinator that dies.
static void write_hub_resume(const char *name, char flags, char between)
{
    acts_t acts;
    put_peers(&acts, flags);
    put_generate(&acts, 1, 0, 1);
    put_generate(&acts, 2, 0, 1);
    put_round(&acts, false, false);
    put_act(&acts, (char[]){between, CLIENT}, 2, between == CANCEL ? 4 : 2);
    put_act(&acts, (char[]){WAIT, 0, 5}, 3, 1);
    put_come(&acts, CLIENT, 0);
    put_act(&acts, (char[]){RESUME, CLIENT}, 2, 8);
    put_round(&acts, false, false);
    write_seed("hub", name, acts.bytes, acts.count);
}

// Write a client that has more of a text than the hub, and a text that is drafted ahead.
static void write_hub_ahead(void)
{
    acts_t acts;
    put_peers(&acts, 0);
    put_generate(&acts, 1, 0, 1);
    put_round(&acts, false, false);
    put_act(&acts, (char[]){RESUME, CLIENT, 0, 0, 0, -128, -128, -1, 0, 64}, 10, 4);
    put_round(&acts, false, false);
    write_seed("hub", "has_more", acts.bytes, acts.count);
    put_peers(&acts, 0);
    put_act(&acts, (char[]){GENERATE, CLIENT, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1}, 13, 20);
    put_round(&acts, true, false);
    put_round(&acts, true, false);
    put_act(&acts, (char[]){DRAFT, DRAFTER, 0, 0, 0, 0, 0, -64, 2}, 9, 8); // on another text
    write_seed("hub", "ahead", acts.bytes, acts.count);
}

static void write_hub(void)
{
    write_hub_text("plain", 0, true, false);
    write_hub_text("coupled", 0, false, false);
    write_hub_text("drawn", 1, false, true);
    write_hub_text("several", 3, false, false);
    write_hub_resume("left", 0, LEAVE);
    write_hub_resume("cut", 1, CUT);
    write_hub_resume("cancelled", 12, CANCEL);
    write_hub_resume("restarted", 12, RESTART);
    write_hub_ahead();
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_seeds FOLDER\n");
        return 2;
    }
    folder = argv[1];
    make_folder(folder);
    write_texts();
    write_messages();
    write_model("llama_f32", "llama", 8, OR_TENSOR_F32);
    write_model("llama_f16", "llama", 8, OR_TENSOR_F16);
    write_model("llama_q4_0", "llama", 32, OR_TENSOR_Q4_0);
    write_model("qwen2_q8_0", "qwen2", 32, OR_TENSOR_Q8_0);
    write_vocabulary();
    write_byte_level_vocabulary();
    write_line_vocabulary();
    write_split_model();
    write_importance();
    write_journal();
    write_hub();
    return 0;
}
