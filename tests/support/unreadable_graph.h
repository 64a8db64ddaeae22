// A source graph of which some things cannot be read.
#ifndef PACKHOUSE_TESTS_SUPPORT_UNREADABLE_GRAPH_H_
#define PACKHOUSE_TESTS_SUPPORT_UNREADABLE_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/checksum.h"
#include "service/wings/graphs/source_graphs/checked_array.h"
#include "service/wings/graphs/source_graphs/source_graph.h"

namespace packhouse {

// Which are unreadable is said before anything is read.
class UnreadableGraph final : public SourceGraph {
 public:
  explicit UnreadableGraph(std::unique_ptr<const SourceGraph> graph) : graph_(std::move(graph)) {}

  void RefuseBySource(size_t set, absl::Status why) { by_source_[set] = std::move(why); }
  void RefuseByTarget(size_t set, absl::Status why) { by_target_[set] = std::move(why); }
  // Fixed rows only.
  void DamageNodeColumn(size_t set, size_t column) {
    const SourceColumn of = graph_->NodeColumn(set, column);
    Damage(absl::StrCat("node ", set, " ", column), of.data, num_nodes(set) * of.row_bytes);
  }
  void DamageEdgeColumn(size_t set, size_t column) {
    const SourceColumn of = graph_->EdgeColumn(set, column);
    Damage(absl::StrCat("edge ", set, " ", column), of.data, num_edges(set) * of.row_bytes);
  }
  void DamageIds(size_t set) {
    const SourceColumn of = graph_->NodeIds(set);
    const uint64_t steps = of.offsets.empty() ? num_nodes(set) : of.offsets.back();
    Damage(absl::StrCat("ids ", set), of.data, steps * of.row_bytes);
  }
  // Number n was row n.
  void DamageNodeRows(size_t set) { DamageRows(absl::StrCat("node rows ", set), num_nodes(set)); }
  void DamageEdgeRows(size_t set) { DamageRows(absl::StrCat("edge rows ", set), num_edges(set)); }
  // What is told of the damage of an array.
  static std::string DamageOf(absl::string_view array, uint64_t bytes) {
    return absl::StrCat("graph is damaged: array ", array, ": bytes 0 to ", bytes,
                        " fail their checksum; nothing of it is served until it is deleted, or "
                        "comes from a snapshot");
  }

  const SourceGraphSchema& schema() const override { return graph_->schema(); }
  uint64_t version() const override { return graph_->version(); }
  uint64_t num_nodes(size_t set) const override { return graph_->num_nodes(set); }
  uint64_t num_edges(size_t set) const override { return graph_->num_edges(set); }
  absl::StatusOr<Adjacency> BySource(size_t set) const override {
    const auto found = by_source_.find(set);
    return found == by_source_.end() ? graph_->BySource(set) : found->second;
  }
  absl::StatusOr<Adjacency> ByTarget(size_t set) const override {
    const auto found = by_target_.find(set);
    return found == by_target_.end() ? graph_->ByTarget(set) : found->second;
  }
  SourceColumn NodeColumn(size_t set, size_t column) const override {
    return Checked(absl::StrCat("node ", set, " ", column), graph_->NodeColumn(set, column));
  }
  SourceColumn EdgeColumn(size_t set, size_t column) const override {
    return Checked(absl::StrCat("edge ", set, " ", column), graph_->EdgeColumn(set, column));
  }
  SourceColumn NodeIds(size_t set) const override {
    return Checked(absl::StrCat("ids ", set), graph_->NodeIds(set));
  }
  bool integer_ids(size_t set) const override { return graph_->integer_ids(set); }
  ImportedRows NodeRows(size_t set) const override {
    return RowsOf(absl::StrCat("node rows ", set), graph_->NodeRows(set));
  }
  ImportedRows EdgeRows(size_t set) const override {
    return RowsOf(absl::StrCat("edge rows ", set), graph_->EdgeRows(set));
  }

 private:
  struct Array {
    absl::string_view bytes;
    std::unique_ptr<const ArrayChecks> checks;
  };

  void Damage(const std::string& name, const char* data, uint64_t size) {
    Array& array = arrays_[name];
    array.bytes = absl::string_view(data, size);
    array.checks = std::make_unique<const ArrayChecks>(
        name, std::vector<uint32_t>{Crc32c(array.bytes) + 1}, &of_graph_);
  }
  void DamageRows(const std::string& name, uint64_t count) {
    std::vector<uint64_t>& rows = rows_[name];
    rows.resize(count);
    std::iota(rows.begin(), rows.end(), uint64_t{0});
    Damage(name, reinterpret_cast<const char*>(rows.data()), count * sizeof(uint64_t));
  }
  ImportedRows RowsOf(const std::string& name, const ImportedRows& otherwise) const {
    const auto found = rows_.find(name);
    if (found == rows_.end()) return otherwise;
    SourceColumn numbers;
    numbers.data = reinterpret_cast<const char*>(found->second.data());
    numbers.row_bytes = sizeof(uint64_t);
    return ImportedRows(Checked(name, numbers));
  }
  SourceColumn Checked(const std::string& name, SourceColumn column) const {
    const auto found = arrays_.find(name);
    if (found != arrays_.end()) {
      column.checked_data = CheckedArray(found->second.bytes, found->second.checks.get());
    }
    return column;
  }

  const std::unique_ptr<const SourceGraph> graph_;
  GraphChecks of_graph_{"graph"};
  std::map<std::string, Array> arrays_;
  std::map<std::string, std::vector<uint64_t>> rows_;
  std::map<size_t, absl::Status> by_source_;
  std::map<size_t, absl::Status> by_target_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_UNREADABLE_GRAPH_H_
