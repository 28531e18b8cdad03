// The memory of emulated devices, and which of it kernels have written: what an early launch may not touch before
// or_await_before, since on a GPU the kernels in front of it may still write there, or read what it overwrites.
//
//     fresh     a device's memory has pages of its own. Kernels read it; the first that writes there faults once, and
//               its launch is noted. Copies go through or_emulated_write, as no kernel overtakes them
//     written   kernels read and write it, but while a launch does what it does before or_await_before it is hidden
//
// Pinned memory, which the host may use meanwhile, is the host's own.
#include "tests/emulator/emulated_internal.hpp"

#include <map>
#include <mutex>
#include <set>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

#define ALIGNMENT ((size_t)256) // of or_cuda_alloc
#define PLACES 8u               // where memory begins in its first page, by turns
#define GARBAGE 0xA5            // in new memory

typedef struct {
    size_t bytes;
    const or_cuda *owner;
    char *pages; // NULL: it is pinned
    size_t pages_bytes;
    const char *writer; // the launch that wrote there first; NULL: none did
} memory_t;

// The memory of all devices, which are one, by address.
static std::map<char *, memory_t> memory;
static std::mutex memory_lock;
static uint64_t changes;      // how often memory became written, or written memory was given back
static const or_cuda *hidden; // whose written memory is

// ---- pages ----

static size_t page_size(void)
{
    static const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    return bytes;
}

static size_t up_to_page(size_t bytes)
{
    return (bytes + page_size() - 1) / page_size() * page_size();
}

static void protect(char *first, char *end, int protection)
{
    if (first != end && mprotect(first, (size_t)(end - first), protection) != 0) {
        or_emulated_end("mprotect", "%zu bytes at %p cannot be protected", (size_t)(end - first),
                        (void *)first);
    }
}

// Return memory that is aligned as CUDA's and no better, between bytes that AddressSanitizer takes for nobody's.
static char *map_pages(size_t bytes, memory_t *mapped)
{
    static size_t count;
    const size_t place = ALIGNMENT * (1 + 2 * (count++ % PLACES));
    mapped->pages_bytes = up_to_page(place + bytes + ALIGNMENT);
    void *pages = mmap(nullptr, mapped->pages_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
        return nullptr;
    }
    mapped->pages = (char *)pages;
    char *at = mapped->pages + place;
    ASAN_POISON_MEMORY_REGION(mapped->pages, place);
    ASAN_POISON_MEMORY_REGION(at + bytes, mapped->pages_bytes - place - bytes);
    return at;
}

static void unmap_pages(const memory_t &mapped)
{
    ASAN_UNPOISON_MEMORY_REGION(mapped.pages, mapped.pages_bytes);
    (void)munmap(mapped.pages, mapped.pages_bytes);
}

// ---- taking and giving ----

void *or_emulated_take_memory(const or_cuda *owner, size_t bytes, bool pinned)
{
    memory_t taken = {bytes, owner, nullptr, 0, nullptr};
    void *at = nullptr;
    std::lock_guard<std::mutex> lock(memory_lock);
    if (!pinned) {
        at = map_pages(bytes, &taken);
    } else if (posix_memalign(&at, ALIGNMENT, bytes) != 0) {
        at = nullptr;
    }
    if (at) {
        memset(at, GARBAGE, bytes);
        protect(taken.pages, taken.pages + taken.pages_bytes, PROT_READ);
        memory[(char *)at] = taken;
    }
    return at;
}

bool or_emulated_give_memory(void *at)
{
    std::lock_guard<std::mutex> lock(memory_lock);
    auto found = memory.find((char *)at);
    if (found == memory.end()) {
        return false;
    }
    if (found->second.pages) {
        unmap_pages(found->second);
    } else {
        free(at);
    }
    changes += found->second.writer ? 1 : 0;
    memory.erase(found);
    return true;
}

uint64_t or_emulated_memory_used(void)
{
    std::lock_guard<std::mutex> lock(memory_lock);
    uint64_t used = 0;
    for (const auto &entry : memory) {
        used += entry.second.pages ? entry.second.bytes : 0;
    }
    return used;
}

size_t or_emulated_memory_of(const or_cuda *owner)
{
    std::lock_guard<std::mutex> lock(memory_lock);
    for (const auto &entry : memory) {
        if (entry.second.owner == owner) {
            return entry.second.bytes;
        }
    }
    return 0;
}

// ---- looking at addresses ----

// Return the memory in which at .. at + bytes lies, or NULL. The caller holds the lock.
static memory_t *find(const void *at, size_t bytes)
{
    auto after = memory.upper_bound((char *)at);
    if (after == memory.begin()) {
        return nullptr;
    }
    auto &[first, found] = *std::prev(after);
    return (size_t)((const char *)at - first) + bytes <= found.bytes ? &found : nullptr;
}

// Return the same, or memory of no bytes.
static memory_t look_up(const void *at, size_t bytes)
{
    std::lock_guard<std::mutex> lock(memory_lock);
    const memory_t *found = find(at, bytes);
    return found ? *found : memory_t{};
}

bool or_emulated_is_memory(const void *at, size_t bytes)
{
    return look_up(at, bytes).bytes > 0;
}

bool or_emulated_is_pinned(const void *at, size_t bytes)
{
    const memory_t found = look_up(at, bytes);
    return found.bytes > 0 && !found.pages;
}

// One behind the last byte is where an array of none may be.
void or_emulated_check_pointer(const char *call, const void *pointer)
{
    if (pointer && !or_emulated_is_memory(pointer, 0)) {
        or_emulated_end(call, "a pointer, %p, that is not to device memory", pointer);
    }
}

// ---- writing ----

void or_emulated_write(void *to, size_t bytes, const std::function<void()> &write)
{
    const memory_t found = look_up(to, bytes);
    if (!found.pages || found.writer) {
        write();
        return;
    }
    char *first = found.pages + (size_t)((char *)to - found.pages) / page_size() * page_size();
    char *end = found.pages + up_to_page((size_t)((char *)to - found.pages) + bytes);
    protect(first, end, PROT_READ | PROT_WRITE);
    write();
    protect(first, end, PROT_READ);
}

static void protect_written(const or_cuda *owner, int protection)
{
    char *first = nullptr, *end = nullptr;
    for (const auto &entry : memory) {
        const memory_t &m = entry.second;
        if (!m.writer || m.owner != owner) {
            continue;
        }
        if (m.pages != end) {
            protect(first, end, protection);
            first = m.pages;
        }
        end = m.pages + m.pages_bytes;
    }
    protect(first, end, protection);
}

void or_emulated_hide_written(const or_cuda *owner)
{
    std::lock_guard<std::mutex> lock(memory_lock);
    protect_written(owner, PROT_NONE);
    hidden = owner;
}

void or_emulated_show_written(void)
{
    std::lock_guard<std::mutex> lock(memory_lock);
    protect_written(hidden, PROT_READ | PROT_WRITE);
    hidden = nullptr;
}

// Is it the address of memory that a kernel may have written, and of which kind? 0: it is not.
static uint64_t written_kind(const or_cuda *owner, uint64_t address)
{
    enum { NO_WRITTEN_MEMORY, SHOWN, HIDDEN };
    const memory_t *found = find((const void *)address, 0);
    if (!found || (found->pages && !found->writer)) {
        return NO_WRITTEN_MEMORY;
    }
    return found->pages && found->owner == owner ? HIDDEN : SHOWN;
}

// What pointers in memory lead to is not looked at: a table of them that the host fills anew is taken for what it was.
bool or_emulated_is_new(const or_cuda *owner, const or_emulated_launch_t &launch)
{
    static std::set<std::vector<uint64_t>> known;
    std::lock_guard<std::mutex> lock(memory_lock);
    std::vector<uint64_t> words = {launch.grid.x,  launch.grid.y,  launch.grid.z, launch.block.x,
                                   launch.block.y, launch.block.z, launch.shared, changes};
    for (uint64_t word : launch.kernel) {
        const uint64_t kind = written_kind(owner, word);
        words.push_back(kind ? kind : word);
    }
    return known.insert(std::move(words)).second;
}

or_emulated_touch_t or_emulated_touch(const void *at, const char *call, const char **writer)
{
    std::lock_guard<std::mutex> lock(memory_lock);
    memory_t *found = find(at, 1);
    if (!found || !found->pages || (found->writer && !hidden)) {
        return OR_EMULATED_TOUCHES_NOTHING;
    }
    *writer = found->writer;
    if (hidden) {
        return found->writer ? OR_EMULATED_TOUCHES_WRITTEN : OR_EMULATED_WRITES_EARLY;
    }
    found->writer = call;
    changes++;
    protect(found->pages, found->pages + found->pages_bytes, PROT_READ | PROT_WRITE);
    return OR_EMULATED_WRITES_FIRST;
}
