// A store over another one, for those that change some of it.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_SOURCE_GRAPHS_OVER_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_SOURCE_GRAPHS_OVER_H_

#include <memory>
#include <optional>

#include "service/wings/graphs/source_graphs/source_graph_store.h"

namespace packhouse {

// Everything is the other store's, which must outlive this.
class SourceGraphsOver : public SourceGraphStore {
 public:
  absl::StatusOr<SourceGraphInfo> Create(absl::string_view name, const SourceGraphSchema& schema,
                                         const SourceGraphOptions& options) override {
    return store_->Create(name, schema, options);
  }
  absl::StatusOr<SourceAppendResult> Append(
      const Target& target, const SourceGraphChunk& chunk,
      const std::optional<ProducerSequence>& producer) override {
    return store_->Append(target, chunk, producer);
  }
  absl::StatusOr<ProducerHistory> GetProducer(const Target& target,
                                              absl::string_view producer) const final {
    return store_->GetProducer(target, producer);
  }
  absl::StatusOr<SourceGraphInfo> Seal(
      const Target& target, const SealOptions& options,
      absl::FunctionRef<bool(const SourceGraphProgress&)> progress) override {
    return store_->Seal(target, options, progress);
  }
  absl::StatusOr<SourceGraphInfo> Get(absl::string_view name) const final {
    return store_->Get(name);
  }
  absl::StatusOr<SourceGraphList> List(size_t page_size, absl::string_view token) const final {
    return store_->List(page_size, token);
  }
  absl::Status Delete(const Target& target) override { return store_->Delete(target); }
  absl::StatusOr<SourceGraphVerifyReport> Verify(
      absl::string_view name,
      absl::FunctionRef<bool(const SourceGraphProgress&)> progress) const final {
    return store_->Verify(name, progress);
  }
  absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> Open(
      absl::string_view name) const override {
    return store_->Open(name);
  }
  absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> OpenIfHere(
      absl::string_view name) const override {
    return store_->OpenIfHere(name);
  }

 protected:
  explicit SourceGraphsOver(SourceGraphStore* store) : store_(store) {}

  SourceGraphStore* const store_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_SOURCE_GRAPHS_OVER_H_
