// A walk in depth. A folder sorts as its name with '/', so that whole paths come in the order of their bytes.
#include "samovar/file_list.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>

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

class Walk {
public:
    explicit Walk(const std::string& root) : root_(root) { enter(open_folder(AT_FDCWD, root.c_str(), root), ""); }

    FileList found;

private:
    void enter(Folder folder, const std::string& prefix) {
        const int descriptor = dirfd(folder.get());
        for (const std::string& name : read_names(folder.get(), prefix)) {
            const bool is_folder = name.back() == '/';
            if (!is_folder) {
                add(descriptor, name, prefix);
                continue;
            }
            const std::string bare = name.substr(0, name.size() - 1);
            enter(open_folder(descriptor, bare.c_str(), root_ + "/" + prefix + bare), prefix + name);
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
        struct stat status;  // some file systems do not say
        return fstatat(parent, entry.d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
    }

    void add(int parent, const std::string& name, const std::string& prefix) {
        struct stat status;
        if (fstatat(parent, name.c_str(), &status, 0) != 0 || !S_ISREG(status.st_mode)) {
            found.odd.push_back(prefix + name);
            return;
        }
        found.names += prefix;
        found.names += name;
        found.ends.push_back(static_cast<int64_t>(found.names.size()));
        found.stamps.insert(found.stamps.end(), {int64_t{status.st_size}, nanoseconds(status.st_mtim),
                                                 nanoseconds(status.st_ctim), static_cast<int64_t>(status.st_ino)});
    }

    const std::string& root_;
};

}  // namespace

FileList list_files(const std::string& root) { return std::move(Walk(root).found); }

}  // namespace samovar
