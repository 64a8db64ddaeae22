// Second names of files of source graphs: what a snapshot copies while the store goes on.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_LINKED_GRAPHS_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_LINKED_GRAPHS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// A file that has a second name as long as its LinkedGraphs lives. Its bytes do not change,
// whatever becomes of the graph. A second name takes no space; but space of a graph that is deleted
// meanwhile is not given back before.
struct LinkedFile {
  std::string path;  // Relative to the store's folder, as it is there.
  std::string link;
  // Only the beginning is the file's content; the rest is being written.
  uint64_t num_bytes = 0;
};

// Movable; thread-compatible. The links are in a folder of the store, which is removed in the end,
// or when the store is opened again.
class LinkedGraphs {
 public:
  static absl::StatusOr<LinkedGraphs> Begin(const std::string& store_folder);
  LinkedGraphs(LinkedGraphs&& other) noexcept;
  LinkedGraphs& operator=(LinkedGraphs&&) = delete;
  ~LinkedGraphs();

  // In the order in which they were linked.
  const std::vector<LinkedFile>& files() const { return files_; }

  // The file `name` of `folder`, as `path`/`name`; its first bytes, or all.
  absl::Status LinkFile(const std::string& folder, absl::string_view path, absl::string_view name,
                        std::optional<uint64_t> num_bytes = std::nullopt);
  // All files in a folder and below. A folder that is missing is empty. Left out are names that
  // begin with a point, and names that end in ".partial" or ".unfinished", with what is in them:
  // such files are being written. Of a folder that is moved away meanwhile nothing is left. Files
  // may say what is in the folders beside them: all of a folder is linked anew if what is directly
  // in it has changed meanwhile. UNAVAILABLE if that has happened a hundred times.
  absl::Status LinkFolder(const std::string& folder, const std::string& path);

 private:
  explicit LinkedGraphs(std::string folder) : folder_(std::move(folder)) {}
  // Once; false if something has changed meanwhile.
  absl::StatusOr<bool> TryLinkFolder(const std::string& folder, const std::string& path);

  std::string folder_;
  std::vector<LinkedFile> files_;
  uint64_t next_link_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_LINKED_GRAPHS_H_
