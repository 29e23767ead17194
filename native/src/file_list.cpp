// A depth-first walk. A folder sorts as its name with '/', so that whole paths come in the order of their bytes.
#include "samovar/file_list.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>
#include <thread>

#include "samovar/team.h"

namespace samovar {

namespace {

struct CloseFolder {
    void operator()(DIR* folder) const { closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

[[noreturn]] void fail(const std::string& path) { throw std::system_error(errno, std::generic_category(), path); }

Folder open_folder(int parent, const char* name, const std::string& path) {
    const int descriptor = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) fail(path);
    DIR* folder = fdopendir(descriptor);
    if (folder == nullptr) {
        close(descriptor);
        fail(path);
    }
    return Folder(folder);
}

int64_t nanoseconds(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

// Neighbours in the list that are in one folder.
struct Block {
    std::string folder;
    size_t first;
    size_t last;
};

constexpr size_t MOST_IN_BLOCK = 2048;
constexpr int64_t NO_FILE = -1;  // as a size

// First the names, by one thread; then the stamps of the files, block by block, by all threads.
class Walk {
public:
    explicit Walk(const std::string& root) : root_(root) {
        Folder folder = open_folder(AT_FDCWD, root.c_str(), root);
        const int descriptor = dirfd(folder.get());
        enter(folder.get(), "");
        found_.stamps.resize(found_.ends.size() * NUM_STAMPS);
        run_tasks(blocks_.size(), std::max(1u, std::thread::hardware_concurrency()),
                  [&](size_t number) { stamp_block(descriptor, blocks_[number]); });
    }

    FileList take() {
        FileList list;
        for (size_t number = 0; number < found_.ends.size(); ++number) {
            const int64_t* stamps = &found_.stamps[number * NUM_STAMPS];
            if (stamps[0] == NO_FILE) list.odd.push_back(name_of(number));
        }
        if (list.odd.empty()) return std::move(found_);
        for (size_t number = 0; number < found_.ends.size(); ++number) {
            const int64_t* stamps = &found_.stamps[number * NUM_STAMPS];
            if (stamps[0] == NO_FILE) continue;
            list.names += name_of(number);
            list.ends.push_back(static_cast<int64_t>(list.names.size()));
            list.stamps.insert(list.stamps.end(), stamps, stamps + NUM_STAMPS);
        }
        return list;
    }

private:
    void enter(DIR* folder, const std::string& prefix) {
        for (const std::string& name : read_names(folder, prefix)) {
            if (name.back() != '/') {
                add(name, prefix);
                continue;
            }
            const std::string bare = name.substr(0, name.size() - 1);
            const Folder inner = open_folder(dirfd(folder), bare.c_str(), root_ + "/" + prefix + bare);
            enter(inner.get(), prefix + name);
        }
    }

    std::vector<std::string> read_names(DIR* folder, const std::string& prefix) {
        std::vector<std::string> names;
        errno = 0;
        while (const dirent* entry = readdir(folder)) {
            std::string name = entry->d_name;
            if (name == "." || name == "..") continue;
            if (is_folder(dirfd(folder), *entry)) name += '/';
            names.push_back(std::move(name));
            errno = 0;
        }
        if (errno != 0) fail(root_ + "/" + prefix);
        std::sort(names.begin(), names.end());
        return names;
    }

    static bool is_folder(int parent, const dirent& entry) {
        if (entry.d_type != DT_UNKNOWN) return entry.d_type == DT_DIR;
        struct stat status;  // some file systems do not report the type
        return fstatat(parent, entry.d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
    }

    void add(const std::string& name, const std::string& prefix) {
        const size_t number = found_.ends.size();
        const bool goes_on = !blocks_.empty() && blocks_.back().folder == prefix &&
                             number - blocks_.back().first < MOST_IN_BLOCK;
        if (!goes_on) blocks_.push_back({prefix, number, number});
        blocks_.back().last = number + 1;
        found_.names += prefix;
        found_.names += name;
        found_.ends.push_back(static_cast<int64_t>(found_.names.size()));
    }

    std::string name_of(size_t number) const {
        const size_t start = number == 0 ? 0 : static_cast<size_t>(found_.ends[number - 1]);
        return found_.names.substr(start, static_cast<size_t>(found_.ends[number]) - start);
    }

    void stamp_block(int root, const Block& block) {
        const char* place = block.folder.empty() ? "." : block.folder.c_str();
        const int folder = openat(root, place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (size_t file = block.first; file < block.last; ++file) {
            const std::string name = name_of(file).substr(block.folder.size());
            stamp(folder, name.c_str(), &found_.stamps[file * NUM_STAMPS]);
        }
        if (folder >= 0) close(folder);
    }

    static void stamp(int folder, const char* name, int64_t* stamps) {
        struct stat status;
        if (fstatat(folder, name, &status, 0) != 0 || !S_ISREG(status.st_mode)) {
            stamps[0] = NO_FILE;
            return;
        }
        stamps[0] = int64_t{status.st_size};
        stamps[1] = nanoseconds(status.st_mtim);
        stamps[2] = nanoseconds(status.st_ctim);
        stamps[3] = static_cast<int64_t>(status.st_ino);
    }

    const std::string& root_;
    FileList found_;
    std::vector<Block> blocks_;
};

}  // namespace

FileList list_files(const std::string& root) { return Walk(root).take(); }

}  // namespace samovar
