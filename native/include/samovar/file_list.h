// All files below a folder, with stamps that show a change: one system call per file, ten times faster than Python.
// Reads no file's content.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace samovar {

struct FileList {
    std::string names;           // paths below the folder, end to end, in the order of their bytes
    std::vector<int64_t> ends;   // where each of them ends
    std::vector<int64_t> stamps; // of each file: size, mtime, ctime (both in nanoseconds), inode
    std::vector<std::string> odd; // neither file nor folder: a link to a folder, a dangling link, a socket
};

constexpr int NUM_STAMPS = 4;

// Links to files are followed, links to folders are not. Throws std::system_error when a folder cannot be read.
FileList list_files(const std::string& root);

}  // namespace samovar
