#include "samovar/mapped_file.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <system_error>

namespace samovar {

// What the handler knows of a mapping. Entries are never freed, only used again: the handler may read them at any time.
struct MappedFile::Entry {
    std::atomic<uintptr_t> begin{0}, end{0};
    std::atomic<char*> name{nullptr};
    Entry* next = nullptr;
};

struct Watch {
    static std::mutex mutex;
    static std::atomic<MappedFile::Entry*> first;
    static struct sigaction before;
    static bool is_installed;
    static std::atomic_flag is_reported;

    static MappedFile::Entry* enter(uintptr_t begin, size_t size, const std::string& name);
    static void leave(MappedFile::Entry* entry) noexcept;
    static void install();
    static void handle(int signal, siginfo_t* info, void* context);
};

std::mutex Watch::mutex;
std::atomic<MappedFile::Entry*> Watch::first{nullptr};
struct sigaction Watch::before;
bool Watch::is_installed = false;
std::atomic_flag Watch::is_reported = ATOMIC_FLAG_INIT;

namespace {

void say(const char* text) {
    size_t left = std::strlen(text);
    while (left > 0) {
        const ssize_t written = write(STDERR_FILENO, text, left);
        if (written <= 0) return;
        text += written;
        left -= static_cast<size_t>(written);
    }
}

}  // namespace

// Calls only functions that are safe in a signal handler.
void Watch::handle(int signal, siginfo_t* info, void*) {
    const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
    for (const MappedFile::Entry* entry = first.load(); entry != nullptr; entry = entry->next) {
        const uintptr_t begin = entry->begin.load(), end = entry->end.load();
        if (address < begin || address >= end) continue;
        if (is_reported.test_and_set())  // several threads meet the cut at once: the first reports it and ends the process
            for (;;) pause();
        const char* name = entry->name.load();
        struct stat now;
        const bool is_whole = stat(name, &now) == 0 && static_cast<uintptr_t>(now.st_size) >= end - begin;
        say("Error: ");
        say(name);
        say(is_whole ? ": the disk failed while the file was read\n"
                     : ": the file was truncated while it was read. Restore it from a copy, and start again\n");
        _exit(1);
    }
    sigaction(signal, &before, nullptr);  // not ours: the instruction runs again and meets the earlier handler
}

void Watch::install() {
    if (is_installed) return;
    struct sigaction action;
    std::memset(&action, 0, sizeof action);
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    is_installed = sigaction(SIGBUS, &action, &before) == 0;
}

MappedFile::Entry* Watch::enter(uintptr_t begin, size_t size, const std::string& name) {
    std::unique_ptr<char[]> copy(new char[name.size() + 1]);
    std::memcpy(copy.get(), name.c_str(), name.size() + 1);
    std::lock_guard<std::mutex> guard(mutex);
    install();
    MappedFile::Entry* entry = first.load();
    while (entry != nullptr && entry->end.load() != 0) entry = entry->next;
    if (entry == nullptr) {
        entry = new MappedFile::Entry;
        entry->next = first.load();
        first.store(entry);
    }
    entry->name.store(copy.release());
    entry->begin.store(begin);
    entry->end.store(begin + size);
    return entry;
}

void Watch::leave(MappedFile::Entry* entry) noexcept {
    std::lock_guard<std::mutex> guard(mutex);
    entry->end.store(0);
    delete[] entry->name.exchange(nullptr);
}

MappedFile::MappedFile(int descriptor, size_t size, const std::string& name) : size_(size) {
    void* found = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor, 0);
    if (found == MAP_FAILED) throw std::system_error(errno, std::generic_category(), name);
    data_ = static_cast<uint8_t*>(found);
    try {
        entry_ = Watch::enter(reinterpret_cast<uintptr_t>(data_), size, name);
    } catch (...) {
        munmap(data_, size_);
        throw;
    }
}

MappedFile::~MappedFile() {
    munmap(data_, size_);
    Watch::leave(entry_);
}

}  // namespace samovar
