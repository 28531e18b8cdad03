// Goal: frames stay as they are from release to release.
// Method: fixed messages (message_test_golden) against the frames that the first codec made of them: XXH64 of the frames of the kinds
// ZERO, HOLLOW and LARGE, and the whole frame of the kind DISTINCT, which must also be read as that message. A new field adds bytes to
// its message's frames, and the other bytes stay in their order.
#include "proto/wire/message.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "proto/wire/message_test_random.h"
#include "tests/support/test_support.h"

typedef struct {
    or_message_type_t type;
    uint64_t zero, hollow, large;
    const char *distinct; // hexadecimal
} golden_frames_t;

static const golden_frames_t golden_frames[] = {
    {OR_MSG_HELLO, UINT64_C(0xb459a85b998fe588), UINT64_C(0xb459a85b998fe588),
     UINT64_C(0xdf782d4165234bc5),
     "080210031a6908fa8e0b12087968726373626d6b1a13666b76756365766d6f6b617770706d6e776d6d212a030e"
     "000000000028fab196a001320274753a13686f67686e637a61716369736f70766d696b6e40d3f692b00748c635"
     "50a802591760df8da800000061fb034f77d1c50806"},
    {OR_MSG_WELCOME, UINT64_C(0x23649f8615f0c3cd), UINT64_C(0x23649f8615f0c3cd),
     UINT64_C(0x500aed18767852a0),
     "08021004224c0a087968726373626d6b10d77b18c635212a030e00000000002a13686f67686e637a6171636973"
     "6f70766d696b6e30013a0274754213666b76756365766d6f6b617770706d6e776d6d48a101"},
    {OR_MSG_OPEN_SESSION, UINT64_C(0x1d933ff7ee4cd42b), UINT64_C(0x1d933ff7ee4cd42b),
     UINT64_C(0x9718a377bab81655),
     "080210052afb010a440dbe20160110e0b0f6c5011d6c2f030025b91318b02d5503000035d5c7d9013d1a000000"
     "40aa88bbd60b4a0b08d88c91d7081521bf0f064a0b08a09eecd10615a7336b0d1207dfff80e10ef90e1a024676"
     "20f59edbd10c28a792c6f00330ada5acf40538d2d80b45459b26e3499307e08716bb6f7e510500000000000000"
     "58dff3b0cd0860f16a69f8e475ba0f0000007209dbed89f80beca4840278aca4b9b0028501020000008d01722b"
     "7600950159c23d009d01270d0000a00101a801c7dff88101b101db0b3a69d8299800b90157e26c1fd20d0000c0"
     "0188be01ca0113686f67686e637a61716369736f70766d696b6ed001eabed9fb03"},
    {OR_MSG_PREFIX, UINT64_C(0x5cd4b48f6a58691a), UINT64_C(0x5cd4b48f6a58691a),
     UINT64_C(0x7a5e975a339acc71),
     "08021006323d088fb2751205fb8f0ebc57192f82955e0000000020b5b505280130940338fa8cc1f60b40014885"
     "e7899302502658ada5acf40560d2d80b68eabed9fb03"},
    {OR_MSG_DRAFT_TREE, UINT64_C(0xdb296616a79baa74), UINT64_C(0xdb296616a79baa74),
     UINT64_C(0x2e449547b58e8388),
     "080210073a880108b5b5051087e0f0a1900318ddebf90421ce3e2600000000002a05fb8f0ebc573209f29ecaf7"
     "0cf8c6ae063a07d5ddab0eb4b80a42058c18c6ac034a130a05fb8f0ebc57120ae8abdedb018b9bdaab084a180a"
     "0a96f39ffc06bc94bad70e120abaeaced30adfc6e6880150d8a10258a8cfb9d1026210df7cb0592d0000000000"
     "0000000000006819"},
    {OR_MSG_VERDICT, UINT64_C(0x9ff929e2a13da747), UINT64_C(0x9ff929e2a13da747),
     UINT64_C(0xfb0204441cf50656),
     "0802100842b20108b5b50510ddebf9041a0563cf859b0920132a0af09cc68909dbc5c9d101322008a0d5a10115"
     "79fafd021a0a92fadcaa01b1adfbec0122084f37705d4a4c5acb321a08c88dd80b154de4a50e1a0444bbec0122"
     "08a6ebc0346c770100322108d1d981c70c15040000001a0ac4859fcc01be8b82c80b220892c300001b00000038"
     "efecb6d00140d39de8b10748daad0e512f82955e000000005a02ac5460ada5acf40568d2d80b70eabed9fb0378"
     "94ffcd8109"},
    {OR_MSG_CANCEL, UINT64_C(0xa49e884edfbf046a), UINT64_C(0xa49e884edfbf046a),
     UINT64_C(0x3864585ccdeade04), "080210094a150a136263747174666267617a746e75766465636c6c"},
    {OR_MSG_VOCAB_MAP, UINT64_C(0x0f37122517b89460), UINT64_C(0x0f37122517b89460),
     UINT64_C(0xa43ff0b709d69a2e),
     "0802100a522009e9a9b0740000000011ec3c625be637b8c61a0308d60121db0b3a69d8299800"},
    {OR_MSG_PSI_REQUEST, UINT64_C(0xe8b5c5ca715165a8), UINT64_C(0xe8b5c5ca715165a8),
     UINT64_C(0xf9440ff9fb0940d5),
     "0802100b5a1f08b5b50510ddebf90419ce3e2600000000002205fb8f0ebc5728b4db9ee606"},
    {OR_MSG_PSI_REPLY, UINT64_C(0x791fae1218df38db), UINT64_C(0x791fae1218df38db),
     UINT64_C(0xf1c811afc3e7a964),
     "0802100c622308b5b50510b4db9ee6061a05fb8f0ebc572210df7cb0592d0000000000000000000000"},
    {OR_MSG_KV_EVICTED, UINT64_C(0xbacbc85813cb2c7b), UINT64_C(0xbacbc85813cb2c7b),
     UINT64_C(0xd47b6b7bdae1d73c), "0802100d6a0308d753"},
    {OR_MSG_STATS, UINT64_C(0x25c3b5cb50c0bec2), UINT64_C(0x25c3b5cb50c0bec2),
     UINT64_C(0x81297b29061e96f0),
     "0802100e72bc0608a98489be011090ccd5e593ef860a1885e78993a203209e89f0b79108280130b6a29a"
     "e40c38aafef90140b7c1f2c43e48a8cfb9d182b7195099d6ad85fe1058dbeee28f98036085f0a3b91368"
     "83cf0170d9d9e18abeb6db9e01780a8001bcb7e3990e880101900199af019801b290c3a402a001a2edc4"
     "c409a80194c698b708b001a101b801b2f1f0d10cc001d1abc104c801cba801d001bcfd838be78cefac2a"
     "da01027475e0018cdfd1a6929705ea01860108be011213686f67686e637a61716369736f70766d696b6e"
     "20f69fc5f00f2890ccd5e50330fc9a033893bcd8c30f459b9f5fe14d20000000557ae5732e5d16e54203"
     "65ad8e4a006d49d06740753d2a0b007da93f0f8c8501598e2e0f8d019d96b401950108e50e649d01d2f3"
     "e863a20103667561a801b4de98ac04b001bda518b8018de9a679ea017d08b2efc3cb93faa20f12066c6e"
     "6f75727a180120b1a0a3f50d28b89a0130e6b2fdbf0d381545d698d2744df066370255e2b88b065d545c"
     "6ad865d104f3766d4198ce28757e9e14107d530300008d012c1d000095014431d7049d01bb05c005a201"
     "1170636768746a69786f6674646561756d77b001f5d60ab801c8d51bf0018994eff404f801f98af8f3ec"
     "e5468002c5c8a1fa8bebc9d9028802efdf9ea3d3f9ee7f92027508fa8e0b120274751a13686f67686e63"
     "7a61716369736f70766d696b6e220c766b6274716e64696a636975280130b6a29ae40c3d9b9f5fe140b0"
     "e8fbb2bea6f9ff0c4890ccd5e593ef860a5085e78993a20358fde38cab14609e89f0b7910868a8cfb9d1"
     "82b719700a78aafef9018001f0c884f3349202700888a8a9ae01120f6977766379737767687172686c71"
     "761a066c6e6f75727a220e62646d686c646e666c6c6e736d7a30b7e4b8dd073dd698d27440a39ac9a201"
     "48b89a0150b2f68ad517588b8cf8d2f79e0560a3ddd8b6a6da0168d8a5e5e1a8c4bd6570c5cc0a7885fc"
     "d3ca0780016b9a022808f0c884f33410d78ce1fdc2c3061a126c7a6a6c75716d667a7a6d717366746773"
     "7220be012a017a9a022f086b10f2f2eb021a0870636a6b756e726720b2efc3cb93faa20f2a1363717875"
     "68746670766c6377796972797a646ea2020863636e7a6b746a73a80282caecb7f81db00203"},
    {OR_MSG_ERROR, UINT64_C(0xc4344c460255b11d), UINT64_C(0xc4344c460255b11d),
     UINT64_C(0xc64fafe8d56890ca), "0802100f7a1308a6cbf9a60612017a18ddc00320b5b5052805"},
    {OR_MSG_GENERATE_REQUEST, UINT64_C(0x7a6e588b093325c0), UINT64_C(0x7a6e588b093325c0),
     UINT64_C(0xd0c4e8d6b485a90f),
     "080210108201b302080912020b691a0aef83a2800994d7f5d60620b9082a440dbe20160110e0b0f6c5011d6c2f"
     "030025b91318b02d5503000035d5c7d9013d1a00000040aa88bbd60b4a0b08d88c91d7081521bf0f064a0b08a0"
     "9eecd10615a7336b0d30ff8dbf02420266b94202528050a792c6f00358f59edbd10c60ada5acf40568d2d80b75"
     "459b26e3880101920109dbed89f80beca484029801aca4b9b002ad0102000000b501722b7600bd0159c23d00c5"
     "01270d0000c80101d001c7dff88101d801eabed9fb03ea0113686f67686e637a61716369736f70766d696b6ef2"
     "0103667561f801f16a8002018802c6ebbdab0d9202160a1061716c6c6e76756d6879616f726c776a1202df8e92"
     "02140a0e6d6970646a6161726467747766731202a080980201a002adb6860caa0203656b6db202056574797376"},
    {OR_MSG_GENERATE_DELTA, UINT64_C(0xb6b97b3225a4455c), UINT64_C(0x21aa6e2e33867280),
     UINT64_C(0xd6363dfb981866f0),
     "080210118a01ee0608091092f099d60a1a05fb8f0ebc572202000228efecb6d0013213757075706e6a736e6464"
     "6e7a6662747962656838a1db2040ff8dbf024a13666b76756365766d6f6b617770706d6e776d6d52d20308b4de"
     "98ac0410f3f1b7ad0118fcb4d2998c02200c2885e78993a203301238aebcddda0740d8a10248b5f7e2f589fd01"
     "50a2d61058f4ebd897f6fea42560b7c1f2c43e68e4bdcdf6b6f89cf00170daad0e7a4bf2d1a2c3179e96f7cdbe"
     "9888b710060fd2a79ef485fc0397a7b3b28e09d1b2f895bc3f4707fb893796a2afb7ecf2db15cca7c8d4a0d92e"
     "d1b994dbb5e1e5fe24c5b706d5befb870590eb0282014008dde2972ba4a0e7333300e1d880a5a0dc0f01deeccb"
     "d0e3f504eac2870a90caa5b80100c6e3a0c9b901d2b8ccfdf2d6e48202cddbcbe587c57bdf897585981e8a014a"
     "afe3f68bdbf7a7fe02f3bc0199eabaee8e05b10201fb908b08989ee5618b09d9b915e22484ccbf9f04bcb4d7f9"
     "919d3a83d2e589f0f1d7370495aaf1cdc4bffd10eebfb2f8a0a6b0f00a920150f7e6e1019addc68af934a7c701"
     "fef8fee41ba4f3ede8fbfcfce81fc2eabb9f05d8bdc9d315efe699b6c8fe0cd49d858295d6eb1a02dfe7cbb38a"
     "79b2e50f86cfcdb1b69b9033ea0cb10dd0eaaddad0019801bb04a001efe7ebe3ef8dc70ca80198d2fe83948902"
     "b001f195b801b801e8db02c00102c801abb3e5ab84b9883dd001c5c8a1fa8bebc9d902d801eacdd402e001b686"
     "c109e801d594c4b10ef001d9085888efd3a0f6be17620479647a756a0b74646b616170786c626f65720c716a62"
     "6d6f6b75786e65636378ddc003820102a6bf8a0107616c647965776b92010214369a012008a0d5a1011579fafd"
     "021a0a92fadcaa01b1adfbec0122084f37705d4a4c5acb9a011a08c88dd80b154de4a50e1a0444bbec012208a6"
     "ebc0346c770100a201119dfb9cc1ba9bd725e9b6909e8989f1db60aa01880108b5b5051087e0f0a1900318ddeb"
     "f90421ce3e2600000000002a05fb8f0ebc573209f29ecaf70cf8c6ae063a07d5ddab0eb4b80a42058c18c6ac03"
     "4a130a05fb8f0ebc57120ae8abdedb018b9bdaab084a180a0a96f39ffc06bc94bad70e120abaeaced30adfc6e6"
     "880150d8a10258a8cfb9d1026210df7cb0592d00000000000000000000006819b2010acedea6fb04f28fc7d201"
     "ba010df9e1a789d2a85587f8a290b602c2010cc7f8dfb9e5fbd1d02b90d801"},
    {OR_MSG_RESUME, UINT64_C(0x35a8760f5fa4f7f7), UINT64_C(0x35a8760f5fa4f7f7),
     UINT64_C(0xdbace91898ed3eae),
     "0802101292012908091092f099d60a1a02a6bf2088efd3a0f6be172a13686f67686e637a61716369736f70766d"
     "696b6e"},
    {OR_MSG_HEARTBEAT, UINT64_C(0x9b0a6bcf42907ac3), UINT64_C(0x9b0a6bcf42907ac3),
     UINT64_C(0x002c4d539c5db138), "080210139a010c08d0c8e8f90910b19193f80a"},
    {OR_MSG_VOCAB_REQUEST, UINT64_C(0x57d51fc0dda48f24), UINT64_C(0x57d51fc0dda48f24),
     UINT64_C(0xb163a372a742fd62), "08021014a20109092f82955e00000000"},
    {OR_MSG_VOCABULARY, UINT64_C(0x504cfaa94e39f26a), UINT64_C(0x504cfaa94e39f26a),
     UINT64_C(0x0c5f599586148525), "08021015aa0113092f82955e0000000010c0a083d10b1a022d5f"},
    {OR_MSG_STATS_REQUEST, UINT64_C(0x7ec5b8b51b381862), UINT64_C(0x7ec5b8b51b381862),
     UINT64_C(0xe5b1d8a10572c400), "08021016b20105080110813a"},
    {OR_MSG_METRICS, UINT64_C(0xee668fd0cf9835e3), UINT64_C(0xee668fd0cf9835e3),
     UINT64_C(0x2e4be44c5eb4759f), "08021017ba01040a020002"},
};

static void assert_frame_hash(golden_t which, or_message_type_t type, uint64_t expected)
{
    or_message_t message;
    uint8_t *frame;
    size_t bytes;
    message_test_golden(which, type, &message);
    assert_int_equal(or_message_encode(&message, &frame, &bytes), OR_OK);
    if (XXH64(frame, bytes, 0) != expected) {
        fail_msg("the frame of a %s has changed: kind %d, %zu bytes, now 0x%016llx",
                 or_message_type_name(type), (int)which, bytes,
                 (unsigned long long)XXH64(frame, bytes, 0));
    }
    message_test_random_free();
    free(frame);
}

static size_t read_hex(const char *text, uint8_t *bytes, size_t capacity)
{
    size_t count = 0;
    for (; *text != '\0'; text += 2) {
        const char digits[3] = {text[0], text[1], '\0'};
        assert_true(count < capacity);
        bytes[count++] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return count;
}

static void assert_same_frame(or_message_type_t type, const uint8_t *frame, size_t bytes,
                              const uint8_t *expected, size_t expected_bytes)
{
    if (bytes == expected_bytes && memcmp(frame, expected, bytes) == 0) {
        return;
    }
    for (size_t i = 0; i < bytes; i++) {
        print_error("%02x%s", frame[i], i + 1 == bytes ? "\n" : "");
    }
    fail_msg("the frame of a %s has changed: kind %d, now the bytes above",
             or_message_type_name(type), (int)GOLDEN_DISTINCT);
}

static void assert_golden_frame(const golden_frames_t *golden)
{
    uint8_t expected[1024], *frame;
    size_t bytes, expected_bytes = read_hex(golden->distinct, expected, sizeof expected);
    or_message_t message, back;
    message_test_golden(GOLDEN_DISTINCT, golden->type, &message);
    assert_int_equal(or_message_encode(&message, &frame, &bytes), OR_OK);
    assert_same_frame(golden->type, frame, bytes, expected, expected_bytes);
    assert_int_equal(or_message_decode(expected, expected_bytes, &back), OR_OK);
    assert_null(message_difference(&message, &back));
    or_message_fini(&back);
    message_test_random_free();
    free(frame);
}

static void golden_frames_stay_as_they_are(void **context)
{
    (void)context;
    for (size_t i = 0; i < sizeof golden_frames / sizeof *golden_frames; i++) {
        const golden_frames_t *golden = &golden_frames[i];
        assert_int_equal(golden->type, OR_RANDOM_TYPE_FIRST + i);
        assert_frame_hash(GOLDEN_ZERO, golden->type, golden->zero);
        assert_frame_hash(GOLDEN_HOLLOW, golden->type, golden->hollow);
        assert_frame_hash(GOLDEN_LARGE, golden->type, golden->large);
        assert_golden_frame(golden);
    }
    assert_int_equal(golden_frames[sizeof golden_frames / sizeof *golden_frames - 1].type,
                     OR_RANDOM_TYPE_LAST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_frames_stay_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
