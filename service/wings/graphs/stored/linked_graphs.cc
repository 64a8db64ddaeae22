#include "service/wings/graphs/stored/linked_graphs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/disk_file.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/stored/source_graph_names.h"

namespace packhouse {
namespace {

constexpr int kMaxTries = 100;

bool IsBeingWritten(const std::string& name) {
  return absl::StartsWith(name, ".") || absl::EndsWith(name, ".partial") ||
         absl::EndsWith(name, ".unfinished");
}

// Those that are linked, ascending.
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (!IsBeingWritten(name)) names.push_back(std::move(name));
  }
  if (error) return DiskStatus(error.value(), "cannot list", folder);
  std::sort(names.begin(), names.end());
  return names;
}

// What a name means now; 0: nothing.
uint64_t InodeOf(const std::string& path) {
  struct stat state = {};
  return ::stat(path.c_str(), &state) == 0 ? state.st_ino : 0;
}

}  // namespace

absl::StatusOr<LinkedGraphs> LinkedGraphs::Begin(const std::string& store_folder) {
  // Several may be taken at once.
  static std::atomic<uint64_t> next = 0;
  const std::string folder =
      absl::StrCat(store_folder, "/snapshot-", next.fetch_add(1), kUnfinishedFolder);
  PH_RETURN_IF_ERROR(RemoveAll(folder));
  PH_RETURN_IF_ERROR(MakeFolder(folder));
  return LinkedGraphs(folder);
}

LinkedGraphs::LinkedGraphs(LinkedGraphs&& other) noexcept
    : folder_(std::exchange(other.folder_, "")),
      files_(std::move(other.files_)),
      next_link_(other.next_link_) {}

LinkedGraphs::~LinkedGraphs() {
  if (!folder_.empty()) RemoveAll(folder_).IgnoreError();
}

absl::Status LinkedGraphs::LinkFile(const std::string& folder, absl::string_view path,
                                    absl::string_view name, std::optional<uint64_t> num_bytes) {
  const std::string from = absl::StrCat(folder, "/", name);
  LinkedFile file;
  file.path = absl::StrCat(path, "/", name);
  file.link = absl::StrCat(folder_, "/", next_link_++);
  if (::link(from.c_str(), file.link.c_str()) != 0) {
    return DiskStatus(errno, "cannot give a second name to", from);
  }
  struct stat state = {};
  if (::stat(file.link.c_str(), &state) != 0) {
    return DiskStatus(errno, "cannot read the size of", from);
  }
  file.num_bytes = num_bytes.value_or(static_cast<uint64_t>(state.st_size));
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::StatusOr<bool> LinkedGraphs::TryLinkFolder(const std::string& folder,
                                                 const std::string& path) {
  PH_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(folder));
  std::vector<std::pair<std::string, std::string>> linked;  // Names and links of files.
  std::error_code error;
  for (const std::string& name : names) {
    const std::string inner = absl::StrCat(folder, "/", name);
    if (std::filesystem::is_directory(inner, error)) {
      PH_RETURN_IF_ERROR(LinkFolder(inner, absl::StrCat(path, "/", name)));
      continue;
    }
    const absl::Status status = LinkFile(folder, path, name);
    // Small files may be removed by themselves.
    if (absl::IsNotFound(status)) return false;
    PH_RETURN_IF_ERROR(status);
    linked.emplace_back(inner, files_.back().link);
  }
  // A link keeps its inode from being another file's.
  for (const auto& [inner, link] : linked) {
    if (InodeOf(inner) != InodeOf(link)) return false;
  }
  PH_ASSIGN_OR_RETURN(const std::vector<std::string> names_now, NamesIn(folder));
  return names_now == names;
}

absl::Status LinkedGraphs::LinkFolder(const std::string& folder, const std::string& path) {
  const uint64_t inode = InodeOf(folder);
  if (inode == 0) return absl::OkStatus();
  const size_t num_before = files_.size();
  for (int i = 0; i < kMaxTries; ++i) {
    const absl::StatusOr<bool> is_linked = TryLinkFolder(folder, path);
    if (InodeOf(folder) != inode) {
      files_.resize(num_before);
      return absl::OkStatus();
    }
    PH_RETURN_IF_ERROR(is_linked.status());
    if (*is_linked) return absl::OkStatus();
    files_.resize(num_before);
  }
  return absl::UnavailableError(absl::StrCat(
      folder, " changes again and again while it is linked; take the snapshot once more"));
}

}  // namespace packhouse
