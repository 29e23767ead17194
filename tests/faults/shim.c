// Loaded before the C library (LD_PRELOAD): one chosen system call below one folder fails, or does only a part. Nothing
// happens before `samovar_fault` is called, so a process can load everything first.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum Call { WRITE, FSYNC, RENAME, LINK, MKDIR, CREATE, REMOVE, READ, OPEN, NUM_CALLS };
enum Mode { ONCE, FROM_THEN_ON, SHORT, OFTEN };  // SHORT: every call does half of its work; OFTEN: every third fails

static atomic_long counts[NUM_CALLS];
static int wanted_call = -1, wanted_errno, mode;
static long wanted_number;
static char root[PATH_MAX];
static atomic_int is_armed;

void samovar_fault(int call, long number, int error_number, int how, const char* folder) {
    wanted_call = call;
    wanted_number = number;
    wanted_errno = error_number;
    mode = how;
    snprintf(root, sizeof root, "%s/", folder);
    for (int i = 0; i < NUM_CALLS; ++i) atomic_store(&counts[i], 0);
    atomic_store(&is_armed, 1);
}

long samovar_calls(int call) { return atomic_load(&counts[call]); }

static int starts_with_root(const char* path) { return strncmp(path, root, strlen(root)) == 0; }

static int is_path_below(int folder, const char* path) {
    char whole[2 * PATH_MAX];
    if (path[0] == '/') return starts_with_root(path);
    char base[PATH_MAX];
    if (folder == AT_FDCWD) {
        if (getcwd(base, sizeof base) == NULL) return 0;
    } else {
        char name[64];
        snprintf(name, sizeof name, "/proc/self/fd/%d", folder);
        const ssize_t size = readlink(name, base, sizeof base - 1);
        if (size < 0) return 0;
        base[size] = 0;
    }
    snprintf(whole, sizeof whole, "%s/%s", base, path);
    return starts_with_root(whole);
}

static int is_file_below(int descriptor) {
    char name[64], path[PATH_MAX];
    snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
    const ssize_t size = readlink(name, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return starts_with_root(path) || strncmp(path, root, strlen(root) - 1) == 0;
}

// Whether this call is the one to change.
static int is_hit(enum Call call) {
    const long number = atomic_fetch_add(&counts[call], 1) + 1;
    if ((int)call != wanted_call) return 0;
    if (mode == ONCE) return number == wanted_number;
    if (mode == OFTEN) return number % 3 == 0;
    return number >= wanted_number;
}

static int fails(enum Call call) {
    if (mode == SHORT || !is_hit(call)) return 0;
    errno = wanted_errno;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define IS_ARMED atomic_load(&is_armed)

static size_t how_many(enum Call call, int descriptor, size_t size) {  // 0: fail
    if (!IS_ARMED || !is_file_below(descriptor) || !is_hit(call)) return size;
    if (mode == SHORT) return size > 1 ? size / 2 : size;
    errno = wanted_errno;
    return 0;
}

ssize_t write(int descriptor, const void* data, size_t size) {
    if (size == 0) return REAL(write)(descriptor, data, size);
    const size_t part = how_many(WRITE, descriptor, size);
    return part == 0 ? -1 : REAL(write)(descriptor, data, part);
}

ssize_t pwrite64(int descriptor, const void* data, size_t size, off64_t offset) {
    if (size == 0) return REAL(pwrite64)(descriptor, data, size, offset);
    const size_t part = how_many(WRITE, descriptor, size);
    return part == 0 ? -1 : REAL(pwrite64)(descriptor, data, part, offset);
}

ssize_t read(int descriptor, void* data, size_t size) {
    if (size == 0) return REAL(read)(descriptor, data, size);
    const size_t part = how_many(READ, descriptor, size);
    return part == 0 ? -1 : REAL(read)(descriptor, data, part);
}

ssize_t pread64(int descriptor, void* data, size_t size, off64_t offset) {
    if (size == 0) return REAL(pread64)(descriptor, data, size, offset);
    const size_t part = how_many(READ, descriptor, size);
    return part == 0 ? -1 : REAL(pread64)(descriptor, data, part, offset);
}

int fsync(int descriptor) {
    if (IS_ARMED && is_file_below(descriptor) && fails(FSYNC)) return -1;
    return REAL(fsync)(descriptor);
}

int fdatasync(int descriptor) {
    if (IS_ARMED && is_file_below(descriptor) && fails(FSYNC)) return -1;
    return REAL(fdatasync)(descriptor);
}

int rename(const char* old, const char* new) {
    if (IS_ARMED && is_path_below(AT_FDCWD, new) && fails(RENAME)) return -1;
    return REAL(rename)(old, new);
}

int renameat(int old_folder, const char* old, int new_folder, const char* new) {
    if (IS_ARMED && is_path_below(new_folder, new) && fails(RENAME)) return -1;
    return REAL(renameat)(old_folder, old, new_folder, new);
}

int link(const char* old, const char* new) {
    if (IS_ARMED && is_path_below(AT_FDCWD, new) && fails(LINK)) return -1;
    return REAL(link)(old, new);
}

int linkat(int old_folder, const char* old, int new_folder, const char* new, int flags) {
    if (IS_ARMED && is_path_below(new_folder, new) && fails(LINK)) return -1;
    return REAL(linkat)(old_folder, old, new_folder, new, flags);
}

int mkdir(const char* path, mode_t permissions) {
    if (IS_ARMED && is_path_below(AT_FDCWD, path) && fails(MKDIR)) return -1;
    return REAL(mkdir)(path, permissions);
}

int mkdirat(int folder, const char* path, mode_t permissions) {
    if (IS_ARMED && is_path_below(folder, path) && fails(MKDIR)) return -1;
    return REAL(mkdirat)(folder, path, permissions);
}

int unlink(const char* path) {
    if (IS_ARMED && is_path_below(AT_FDCWD, path) && fails(REMOVE)) return -1;
    return REAL(unlink)(path);
}

int unlinkat(int folder, const char* path, int flags) {
    if (IS_ARMED && is_path_below(folder, path) && fails(REMOVE)) return -1;
    return REAL(unlinkat)(folder, path, flags);
}

#define OPENING(name, folder, ...)                                                        \
    mode_t permissions = 0;                                                               \
    if (flags & (O_CREAT | __O_TMPFILE)) {                                                \
        va_list rest;                                                                     \
        va_start(rest, flags);                                                            \
        permissions = va_arg(rest, mode_t);                                               \
        va_end(rest);                                                                     \
    }                                                                                     \
    const enum Call call = flags & O_CREAT ? CREATE : OPEN;                               \
    if (IS_ARMED && is_path_below(folder, path) && fails(call)) return -1;                \
    return REAL(name)(__VA_ARGS__, flags, permissions)

int open(const char* path, int flags, ...) { OPENING(open, AT_FDCWD, path); }
int open64(const char* path, int flags, ...) { OPENING(open64, AT_FDCWD, path); }
int openat(int folder, const char* path, int flags, ...) { OPENING(openat, folder, folder, path); }
int openat64(int folder, const char* path, int flags, ...) { OPENING(openat64, folder, folder, path); }
