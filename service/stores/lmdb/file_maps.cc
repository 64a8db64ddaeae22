#include "service/stores/lmdb/file_maps.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace packhouse {

std::vector<MappedFile> FindMaps(const std::string& path) {
  std::error_code error;
  const std::string absolute = std::filesystem::canonical(path, error).string();
  struct stat file = {};
  const bool has_inode = ::stat(path.c_str(), &file) == 0;
  std::vector<MappedFile> found;
  std::ifstream maps("/proc/self/maps");
  const std::string inode_word = absl::StrCat(" ", file.st_ino, " ");
  for (std::string line; std::getline(maps, line);) {
    // A process may have thousands.
    if (!absl::StrContains(line, inode_word) && (error || !absl::EndsWith(line, absolute)))
      continue;
    uintptr_t begin = 0;
    uintptr_t end = 0;
    unsigned major_number = 0;
    unsigned minor_number = 0;
    unsigned long long inode = 0;
    int name = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %*s %*s %x:%x %llu %n", &begin, &end,
                    &major_number, &minor_number, &inode, &name) < 5) {
      continue;
    }
    const bool is_inode = has_inode && inode == file.st_ino && major_number == major(file.st_dev) &&
                          minor_number == minor(file.st_dev);
    if (is_inode || (!error && line.substr(name) == absolute)) {
      found.push_back({reinterpret_cast<const void*>(begin), end - begin});
    }
  }
  return found;
}

}  // namespace packhouse
