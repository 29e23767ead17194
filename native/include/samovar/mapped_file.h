// Files in memory that are cut short by someone else: reading past the new end of a mapped file raises SIGBUS, and the
// process dies with two words. With a mapping of this kind, it says which file was cut, and exits with code 1.
// Signals that have another cause go to the handler that was there before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace samovar {

class MappedFile {
public:
    // Private and writable: changes stay in this process. `name` is for the message, and to find the file's size then.
    // Throws std::system_error.
    MappedFile(int descriptor, size_t size, const std::string& name);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    uint8_t* data() const noexcept { return data_; }
    size_t size() const noexcept { return size_; }

private:
    struct Entry;
    friend struct Watch;
    uint8_t* data_;
    size_t size_;
    Entry* entry_;
};

}  // namespace samovar
