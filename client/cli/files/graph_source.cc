#include "client/cli/files/graph_source.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "client/cli/files/npz_graphs.h"
#include "client/cpp/little_endian.h"
#include "client/graph/files/npz_archive.h"

namespace packhouse::client {
namespace {

// Bounds the memory of an expanded histogram to some gigabytes.
constexpr uint64_t kMaxGraphs = uint64_t{1} << 28;

class SizesSource final : public GraphSource {
 public:
  explicit SizesSource(GraphSizes sizes) : sizes_(std::move(sizes)) {
    schema_.mutable_components()->Add(sizes_.components.begin(), sizes_.components.end());
  }

  const v1::GraphSchema& schema() const override { return schema_; }
  bool is_grouped() const override { return false; }
  uint64_t num_graphs() const override { return sizes_.num_rows; }
  uint64_t GraphBytes(uint64_t /*graph*/) const override {
    return sizes_.components.size() * sizeof(uint32_t);
  }

  std::string fingerprint() const override {
    Fingerprint fingerprint;
    for (const std::string& component : sizes_.components) fingerprint.Add(component);
    for (const uint32_t value : sizes_.values) fingerprint.Add(value);
    return fingerprint.Hex();
  }

  absl::StatusOr<SourceChunk> Next(uint64_t count) override {
    const std::size_t width = sizes_.components.size();
    SourceChunk chunk;
    v1::SizeTable& table = *chunk.graphs.mutable_sizes();
    table.set_num_graphs(count);
    table.set_first_id(next_);
    AppendLittleEndian(absl::MakeConstSpan(sizes_.values).subspan(next_ * width, count * width),
                       *table.mutable_counts());
    next_ += count;
    return chunk;
  }

 private:
  const GraphSizes sizes_;
  v1::GraphSchema schema_;
  uint64_t next_ = 0;
};

// Whether `python3 -m packhouse ingest` reads the file, and this program does not.
bool IsForPython(absl::string_view path) {
  for (const absl::string_view ending : {".parquet", ".arrow", ".feather", ".ipc", ".pt"}) {
    if (absl::EndsWithIgnoreCase(path, ending)) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GraphSource>> MakeSizesSource(GraphSizes sizes) {
  absl::StatusOr<GraphSizes> expanded = ExpandHistogram(std::move(sizes), kMaxGraphs);
  if (!expanded.ok()) return expanded.status();
  return std::make_unique<SizesSource>(*std::move(expanded));
}

absl::StatusOr<std::unique_ptr<GraphSource>> OpenGraphSource(const std::string& path,
                                                             const std::string& groups) {
  // First: a .pt file is a zip archive, too.
  if (IsForPython(path)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": is read by the Python client: python3 -m packhouse ingest '", path, "' ..."));
  }
  if (path != "-" && IsZipArchive(path)) return NpzGraphs::Open(path, groups);
  absl::StatusOr<GraphSizes> sizes = path == "-" ? ReadSizesStdin() : ReadSizesFile(path);
  if (!sizes.ok()) return sizes.status();
  if (!groups.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": --groups '", groups, "' names an array, but these are sizes only"));
  }
  absl::StatusOr<std::unique_ptr<GraphSource>> source = MakeSizesSource(*std::move(sizes));
  if (!source.ok()) {
    return absl::Status(source.status().code(),
                        absl::StrCat(path, ": ", source.status().message()));
  }
  return source;
}

}  // namespace packhouse::client
