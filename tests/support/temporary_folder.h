// A folder that goes with its owner.
#ifndef PACKHOUSE_TESTS_SUPPORT_TEMPORARY_FOLDER_H_
#define PACKHOUSE_TESTS_SUPPORT_TEMPORARY_FOLDER_H_

#include <cstdlib>
#include <filesystem>
#include <string>

namespace packhouse {

class TemporaryFolder {
 public:
  TemporaryFolder() : TemporaryFolder(std::filesystem::temp_directory_path()) {}
  explicit TemporaryFolder(const std::filesystem::path& parent) {
    path_ = (parent / "packhouse-XXXXXX").string();
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

  // Where there is a file system in memory, its folder: for many small files whose loss in a crash
  // is not what is tested.
  static std::filesystem::path InMemory() {
    std::error_code ignored;
    const std::filesystem::path shared = "/dev/shm";
    return std::filesystem::is_directory(shared, ignored) ? shared
                                                          : std::filesystem::temp_directory_path();
  }

 private:
  std::string path_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_TEMPORARY_FOLDER_H_
