// What belongs to the sealed source graphs that servers share, and is deleted with them: folders of
// files that never change, each made by one server.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_SHARED_COMPANIONS_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_SHARED_COMPANIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// SourceGraphInfo::name and id.
struct CompanionGraph {
  std::string name;
  uint64_t id = 0;
};

struct SharedCompanion {
  CompanionGraph graph;
  std::string name;
  // What it is, in the words of those who make it.
  std::string state;
  // HOST:PORT of the server that works at it, or did last; and whether that one is there now.
  std::string server;
  bool server_lives = false;
  // What that server has told last.
  std::string progress;
  // Whether its files are there, for ever; and their bytes in the store.
  bool is_whole = false;
  uint64_t num_bytes = 0;
  // Of its last change. What was told is none.
  uint64_t revision = 0;
};

struct CompanionFile {
  std::string path;  // Below its folder.
  uint64_t num_bytes = 0;
  uint32_t crc32c = 0;
};

struct CompanionContents {
  std::vector<CompanionFile> files;
  // What is asked of it most often: read without the files.
  std::string summary;
};

// Some bytes of a file, as long as the owner lives.
struct OwnedBytes {
  absl::string_view bytes;
  uint64_t num_bytes = 0;  // Of the whole file.
  std::shared_ptr<const void> owner;
};

// A companion is claimed by the server that makes it, by a change that names that server; it is
// whole by one change more, or not at all. Each change says of which revision it is: so of all
// who would change a companion, one does, and what a server sends late changes nothing.
//
// Thread-safe. Errors of all: NOT_FOUND if there is no such companion, or no such graph; DATA_LOSS
// naming what is damaged; UNAVAILABLE, which may mean that it is not known whether a change
// happened; CANCELLED for a caller (base/caller.h) that is gone.
class SharedCompanions {
 public:
  virtual ~SharedCompanions() = default;

  // HOST:PORT of this server.
  virtual const std::string& server() const = 0;
  // A folder on this machine's disk for what this server makes of any graph. It may not be there.
  virtual const std::string& folder() const = 0;

  virtual absl::StatusOr<SharedCompanion> Find(const CompanionGraph& graph,
                                               absl::string_view name) const = 0;
  // In ascending order of names; of all graphs: also of those that were deleted just now, and
  // without what was told.
  virtual absl::StatusOr<std::vector<SharedCompanion>> List(const CompanionGraph& graph) const = 0;
  virtual absl::StatusOr<std::vector<SharedCompanion>> ListAll() const = 0;

  // Makes `wanted.state` and `wanted.server` those of the companion that has the revision
  // `wanted.revision`; 0: of one that is not there. Gives its revision. ABORTED if it is another
  // one's, or is whole.
  virtual absl::StatusOr<uint64_t> Put(const SharedCompanion& wanted) = 0;
  // For those who find it. Tries once. ABORTED and NOT_FOUND as Put(): the claim is lost.
  virtual absl::Status Tell(const SharedCompanion& claimed, absl::string_view progress) = 0;
  // The companion has these files, which are in `folder`, and `claimed.state`. A call that was
  // stopped is gone on with by the next one of that revision. Errors as Put(); RESOURCE_EXHAUSTED
  // for more than the store may have; DATA_LOSS naming a file that is not as `contents` says;
  // CANCELLED if `goes_on` says no; those of the disk.
  virtual absl::Status Upload(const SharedCompanion& claimed, const std::string& folder,
                              const CompanionContents& contents,
                              absl::FunctionRef<bool()> goes_on) = 0;
  virtual absl::Status Delete(const CompanionGraph& graph, absl::string_view name) = 0;
  // Deletes those of graphs that were deleted.
  virtual absl::Status RemoveGone() = 0;

  // Of one that is whole.
  virtual absl::StatusOr<CompanionContents> ContentsOf(const SharedCompanion& companion) const = 0;
  // Bytes of a file of its contents, as far as it has them. RESOURCE_EXHAUSTED if this machine has
  // no room for them. Both wait for the store unless they are here. NOT_FOUND also for a path that
  // is none of the contents.
  virtual absl::StatusOr<OwnedBytes> Map(const SharedCompanion& companion, absl::string_view path,
                                         uint64_t offset, uint64_t max_bytes) const = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_SHARED_COMPANIONS_H_
