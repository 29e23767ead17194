// file_list.h on a temporary folder.
#include "samovar/file_list.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "check.h"

using namespace samovar;

namespace {

void write(const std::string& path, const std::string& text) {
    FILE* file = std::fopen(path.c_str(), "w");
    check(file != nullptr, "cannot write " + path);
    std::fputs(text.c_str(), file);
    std::fclose(file);
}

void paths_come_in_the_order_of_their_bytes(const std::string& root) {
    check(mkdir((root + "/a").c_str(), 0700) == 0, "mkdir");
    write(root + "/a/z", "1");
    write(root + "/a-b", "22");
    write(root + "/a0", "333");
    check(symlink("a0", (root + "/link").c_str()) == 0 && symlink("a", (root + "/folder").c_str()) == 0, "symlink");
    const FileList list = list_files(root);
    check(list.names == "a-ba/za0link", "the names are " + list.names);
    check(list.ends == std::vector<int64_t>({3, 6, 8, 12}), "the ends of the names");
    check(list.stamps.size() == 4 * NUM_STAMPS, "four stamps per file");
    check(list.stamps[0] == 2 && list.stamps[NUM_STAMPS] == 1 && list.stamps[3 * NUM_STAMPS] == 3, "the sizes");
    check(list.odd == std::vector<std::string>({"folder"}), "a link to a folder is odd");
}

void a_missing_folder_is_an_error(const std::string& root) {
    try {
        list_files(root + "/none");
    } catch (const std::system_error&) {
        return;
    }
    check(false, "no error for a missing folder");
}

}  // namespace

int main() {
    std::string root = (std::filesystem::temp_directory_path() / "samovar-file-list-XXXXXX").string();
    check(mkdtemp(root.data()) != nullptr, "mkdtemp");
    paths_come_in_the_order_of_their_bytes(root);
    a_missing_folder_is_an_error(root);
    for (const char* name : {"/a/z", "/a-b", "/a0", "/link", "/folder"}) unlink((root + name).c_str());
    rmdir((root + "/a").c_str());
    rmdir(root.c_str());
    return 0;
}
