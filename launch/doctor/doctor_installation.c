// This file checks what this machine and this build can do.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/cpus.h"
#include "common/base/memory.h"
#include "common/base/version.h"
#include "common/model/cpu/weights.h" // its kernels
#include "common/model/gpu/gpu_choice.h"
#include "launch/cluster/paths.h"
#include "launch/cluster/process.h"
#include "launch/doctor/doctor.h"

#define PROGRAM_PATIENCE_NS (5 * OR_NS_PER_S) // for a program to print its version
#define RANKS_TRIED "4"                       // by mpirun
#define LOOK_NS (5 * OR_NS_PER_MS)
#define MEMORY_LOW (UINT64_C(256) << 20) // less than this and even small models are at risk

static void check_kernels(or_doctor_t *doctor)
{
    const or_kernels_t *kernels = or_kernels_pick();
    const char *wish = getenv("OUTRIDER_KERNELS");
    if (kernels == NULL) {
        or_doctor_say(doctor, OR_CHECK_FAIL, "kernels",
                      "unset OUTRIDER_KERNELS, or set it to one that can run here",
                      "OUTRIDER_KERNELS names '%s', which cannot run here; there are: %s", wish,
                      or_kernels_names());
        return;
    }
    or_doctor_say(doctor, OR_CHECK_OK, "kernels", NULL, "%s%s (can run here: %s)", kernels->name,
                  wish != NULL && *wish != '\0' ? ", by OUTRIDER_KERNELS" : "", or_kernels_names());
}

// No GPU can be used, for this reason: as it should be where there is none.
static void say_no_gpu(or_doctor_t *doctor, const char *why)
{
    if (!or_gpu_is_fitted(OR_GPU_DEVICES)) {
        or_doctor_say(doctor, OR_CHECK_OK, "gpu", NULL, "none, models run on the CPU: %s", why);
        return;
    }
    or_doctor_say(doctor, OR_CHECK_WARN, "gpu",
                  or_gpu_functions() == NULL
                      ? "build it where nvcc is (cmake --preset cuda) to run models on the GPU"
                      : "see to NVIDIA's driver (nvidia-smi) to run models on the GPU",
                  "one of NVIDIA's is here, but models run on the CPU: %s", why);
}

// Return whether models run on one.
static bool check_gpus(or_doctor_t *doctor)
{
    const or_gpu_functions_t *functions = or_gpu_functions();
    const or_gpu_options_t usual = or_gpu_options_default();
    or_gpu_place_t place = {0};
    const char *why;
    char name[24];
    uint32_t count = or_gpu_count(functions, &why);
    if (count == 0) {
        say_no_gpu(doctor, why);
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        bool usable = or_gpu_is_usable(functions, i);
        snprintf(name, sizeof name, "gpu CUDA%" PRIu32, i);
        or_doctor_say(doctor, usable ? OR_CHECK_OK : OR_CHECK_WARN, name,
                      usable ? NULL : "nothing runs there: do not name it with --device", "%s",
                      or_gpu_describe(functions, i).text);
    }
    if (or_gpu_place_choose(&usual, functions, &place) == OR_OK && place.on_gpu) {
        or_doctor_say(doctor, OR_CHECK_OK, "--device auto", NULL, "takes CUDA%" PRIu32,
                      place.gpu.index);
    } else {
        or_doctor_say(doctor, OR_CHECK_WARN, "--device auto",
                      "a GPU of compute capability 8.0 or above is needed, and a driver for it",
                      "takes the CPU: %s", place.why_not);
    }
    return place.on_gpu;
}

static void check_processor(or_doctor_t *doctor, const or_cpus_t *cpus)
{
    or_doctor_say(doctor, OR_CHECK_OK, "processor", NULL, "%" PRIu32 " of %ld cores may be used",
                  or_cpus_count(cpus), sysconf(_SC_NPROCESSORS_ONLN));
}

static void check_memory(or_doctor_t *doctor)
{
    uint64_t available = or_memory_available();
    uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    bool low = available < MEMORY_LOW;
    or_doctor_say(doctor, low ? OR_CHECK_WARN : OR_CHECK_OK, "memory",
                  low ? "end other programs before models are loaded" : NULL, "%s available of %s",
                  or_doctor_bytes(available).text, or_doctor_bytes(all).text);
}

// Run the program at `path` to its end; `words` are its last. OR_ERR_TIMEOUT; OR_ERR_IO if it fails.
static or_status_t run(const char *name, const char *path, const char *const *args, char *words,
                       size_t capacity)
{
    const struct timespec pause = {0, LOOK_NS};
    or_process_t process = OR_PROCESS_NONE;
    char end[512];
    int wait_status = 0;
    or_status_t status = or_process_start_at(&process, name, path, args, false, false);
    if (status != OR_OK) {
        return status;
    }
    int64_t deadline = or_clock_now(or_clock_monotonic()) + PROGRAM_PATIENCE_NS;
    bool ended = false;
    while (!ended && or_clock_now(or_clock_monotonic()) < deadline) {
        nanosleep(&pause, NULL);
        ended = or_process_ended(&process, &wait_status);
    }
    if (!ended) {
        status = or_fail(OR_ERR_TIMEOUT, "%s %s did not end within %d s", name, args[0],
                         (int)(PROGRAM_PATIENCE_NS / OR_NS_PER_S));
    } else if (wait_status != 0) {
        or_process_describe_end(&process, wait_status, end, sizeof end);
        status = or_fail(OR_ERR_IO, "%s", end);
    } else {
        or_process_last_words(&process, words, capacity);
    }
    or_process_stop_all(&process, 1, 0);
    return status;
}

// Copy what `<name> --version` prints, without the name.
static or_status_t ask_version(const char *name, char *version, size_t capacity)
{
    static const char *const args[] = {"--version", NULL};
    char path[OR_PATH_BYTES], words[256] = "";
    or_status_t status = or_paths_program(name, path);
    if (status == OR_OK) {
        status = run(name, path, args, words, sizeof words);
    }
    if (status == OR_OK) {
        size_t own = strlen(name);
        bool named = strncmp(words, name, own) == 0 && words[own] == ' ';
        snprintf(version, capacity, "%s", named ? words + own + 1 : words);
    }
    return status;
}

static void check_program(or_doctor_t *doctor, const char *name, const char *program,
                          const char *own_version, bool needed)
{
    char version[256];
    or_status_t status = ask_version(program, version, sizeof version);
    if (status == OR_ERR_NOT_FOUND && !needed) {
        or_doctor_say(doctor, OR_CHECK_WARN, name,
                      "nothing, unless this machine is to run it: then build all programs", "%s",
                      or_error_text());
    } else if (status != OR_OK) {
        or_doctor_say_error(doctor, name,
                            "build all programs again: cmake --build --preset release");
    } else if (strcmp(version, own_version) != 0) {
        or_doctor_say(doctor, OR_CHECK_FAIL, name, "install or build all programs from one release",
                      "%s is %s, this command is %s", program, version, own_version);
    } else {
        or_doctor_say(doctor, OR_CHECK_OK, name, NULL, "%s of the same version", program);
    }
}

// The version is in the first of several lines; `timeout` limits the wait: a broken MPI installation may
// hang.
static bool ask_mpirun(char *line, int capacity)
{
    FILE *pipe = popen("timeout 5 mpirun --version 2>/dev/null", "re");
    bool answers = pipe != NULL && fgets(line, capacity, pipe) != NULL;
    if (pipe != NULL) {
        pclose(pipe);
    }
    if (answers) {
        line[strcspn(line, "\n")] = '\0';
    }
    return answers;
}

// Do several processes start on this machine? They need not be ours to tell.
static or_status_t start_ranks(const char *mpirun)
{
    static const char *const args[] = {"-np",  RANKS_TRIED, "--oversubscribe", "--bind-to", "none",
                                       "true", NULL};
    char words[256];
    return run("mpirun", mpirun, args, words, sizeof words);
}

static void check_mpirun(or_doctor_t *doctor)
{
    char version[128] = "", path[OR_PATH_BYTES];
    if (or_mpirun_find(path) != OR_OK) {
        or_doctor_say(doctor, OR_CHECK_WARN, "mpirun",
                      "install it (Debian: openmpi-bin) if the target is to run on several ranks; "
                      "nothing else needs it",
                      "not found");
        return;
    }
    if (!ask_mpirun(version, sizeof version)) {
        or_doctor_say(doctor, OR_CHECK_WARN, "mpirun", "install openmpi-bin again",
                      "%s --version says nothing within 5 s", path);
    } else if (start_ranks(path) != OR_OK) {
        or_doctor_say(doctor, OR_CHECK_WARN, "mpirun",
                      "try mpirun -np " RANKS_TRIED " true by hand; without it the target runs on "
                      "one rank only",
                      "%s starts no ranks: %s", version, or_error_text());
    } else {
        or_doctor_say(doctor, OR_CHECK_OK, "mpirun", NULL, "%s; " RANKS_TRIED " ranks start",
                      version);
    }
}

// MPI and sockets of the ipc kind live there.
static void check_temp_folder(or_doctor_t *doctor)
{
    char path[OR_PATH_BYTES];
    const char *folder = getenv("TMPDIR");
    folder = folder != NULL && *folder != '\0' ? folder : "/tmp";
    snprintf(path, sizeof path, "%s/outrider-doctor-XXXXXX", folder);
    int fd = mkstemp(path);
    if (fd < 0) {
        or_doctor_say(doctor, OR_CHECK_FAIL, "temp folder",
                      "set TMPDIR to a folder that you can write to", "cannot write to %s: %s",
                      folder, strerror(errno));
        return;
    }
    unlink(path);
    close(fd);
    or_doctor_say(doctor, OR_CHECK_OK, "temp folder", NULL, "%s can be written to", folder);
}

void or_doctor_check_installation(or_doctor_t *doctor, bool connects)
{
    static const char *const roles[] = {"coordinator", "verifier", "drafter"};
    char own_version[128], program[64];
    const or_cpus_t cpus = or_cpus_allowed();
    snprintf(own_version, sizeof own_version, "%s (protocol %u, arithmetic %s)", OR_VERSION,
             OR_PROTOCOL_VERSION, OR_ARITH_ID);
    or_doctor_begin_group(doctor, "installation");
    or_doctor_say(doctor, OR_CHECK_OK, "version", NULL, "outrider %s", own_version);
    check_kernels(doctor);
    check_processor(doctor, &cpus);
    bool on_gpu = check_gpus(doctor);
    check_memory(doctor);
    or_doctor_check_numa(doctor, "", &cpus, on_gpu);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        snprintf(program, sizeof program, "outrider-%s", roles[i]);
        check_program(doctor, roles[i], program, own_version, !connects);
    }
    check_mpirun(doctor);
    check_temp_folder(doctor);
}
