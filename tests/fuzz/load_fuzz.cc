// Any sequence of bytes as the life of a data set: created, appended to, sealed, loaded by workers
// that acknowledge what they get. Whatever comes in: no crash, and if an epoch opens, every graph
// of it is in exactly one batch or counted as too large.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "packhouse/v1/dataset.pb.h"
#include "packhouse/v1/loader.pb.h"
#include "service/engine/jobs/loader.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/services/append_handler.h"
#include "service/server/services/load_source.h"
#include "service/server/wire/wire_datasets.h"
#include "service/server/wire/wire_loader.h"
#include "service/wings/tfgnn/tfgnn_format.h"
#include "tests/datasets/memory_dataset_store.h"
#include "tests/delivery/all_jobs.h"
#include "tests/fuzz/message_stream.h"
#include "tests/ledger/ledger_logs.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/unwatched_streams.h"

namespace {

namespace v1 = packhouse::v1;

// Appends until a message is empty or malformed.
void AppendAll(packhouse::DatasetStore& store, packhouse::MessageStream& messages) {
  packhouse::AppendHandler handler(&store, nullptr, nullptr, nullptr, nullptr,
                                   packhouse::TfgnnFormat());
  while (const auto bytes = messages.Next()) {
    auto request = std::make_unique<v1::AppendRequest>();
    if (bytes->empty() || !request->ParseFromString(*bytes)) return;
    // Graphs without any byte of their own would make the fuzzer slow, not the service wrong.
    if (request->graphs().sizes().num_graphs() > 1000) continue;
    if (!handler.Accept(std::move(request)).ok()) return;
    while (true) {
      const auto response = handler.Next();
      if (!response.ok() || !*response) break;
    }
  }
}

void Load(const v1::LoadRequest& request, const packhouse::DatasetInfo& info,
          packhouse::AllJobs& loader) {
  // Searches and samples of any size are slow, not wrong.
  for (const v1::RankGroup& rank_group : request.epoch().rank_groups()) {
    if (rank_group.has_device_profile() || rank_group.num_ranks() > 64) return;
  }
  if (request.epoch().draw().num_graphs() > 10000 || request.ranked().num_ranks() > 64) return;
  auto epoch = packhouse::EpochRequestFromWire(request.epoch(), *info.schema);
  if (!epoch.ok()) return;
  auto join = packhouse::JoinRequestFromWire(request, *epoch, request.cursor());
  const auto max_in_flight = packhouse::MaxInFlightFromWire(request.max_in_flight());
  if (!join.ok() || !max_in_flight.ok()) return;
  const bool everything = !epoch->subset && !epoch->draw;
  const packhouse::EpochKey key = epoch->key;
  auto session = loader.Load(*std::move(epoch), *std::move(join), *max_in_flight, [] {});
  if (!session.ok()) {
    if (session.status().code() == absl::StatusCode::kInternal) std::abort();
    return;
  }
  const packhouse::EpochPlan& plan =
      static_cast<const packhouse::PreparedEpoch&>((*session)->epoch()).plan();
  if (everything && plan.num_graphs() + plan.num_oversize() != info.num_graphs) std::abort();
  uint64_t graphs = 0;
  for (uint64_t i = 0; i < (*session)->epoch().identity().num_batches(); ++i) {
    graphs += (*session)->epoch().NumGraphs(i);
  }
  if (graphs != plan.num_graphs()) std::abort();
  const packhouse::LoadStart start = (*session)->start();
  packhouse::SimulatedClock clock;
  packhouse::UnwatchedStreams observers;
  packhouse::LoadSource source(
      &clock, loader.job(key.job), *std::move(session),
      observers.ForStream(info.schema->sizes(), {}), [](absl::Time) {}, [] {});
  for (uint64_t steps = start.num_steps_done;;) {
    const auto reply = source.Next();
    if (!reply.ok()) {
      if (reply.status().code() == absl::StatusCode::kInternal) std::abort();
      return;
    }
    if (!*reply) return;
    const v1::LoadResponse response = packhouse::ToMessage(**reply);
    if (response.has_end_of_epoch() && steps != start.num_steps) std::abort();
    if (!response.has_batch()) continue;
    ++steps;
    if (!loader
             .Acknowledge(key, start.session, start.join.generation,
                          {response.batch().batch().id()}, clock.Now())
             .ok()) {
      std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  packhouse::MessageStream messages(data, size);
  const auto bytes = messages.Next();
  v1::CreateDatasetRequest create;
  if (!bytes || !create.ParseFromString(*bytes)) return 0;
  const auto created = packhouse::NewDatasetFromWire(create, packhouse::TfgnnFormat());
  if (!created.ok()) return 0;
  packhouse::MemoryDatasetStore store(uint64_t{1} << 24);
  if (!store.Create(created->name, created->schema, created->options).ok()) return 0;
  AppendAll(store, messages);
  if (!store.Seal(created->name).ok()) std::abort();
  const packhouse::DatasetInfo info = store.Get(created->name).value();

  packhouse::EpochBounds bounds;
  bounds.max_batch_bytes = 1 << 16;
  bounds.max_graphs_per_batch = 1000;
  bounds.framing = &packhouse::WireFraming();
  packhouse::EpochCatalog catalog(&store, bounds);
  packhouse::FailingLog log;
  packhouse::LogsOfJobs logs(&log);
  packhouse::JobsOptions options;
  options.max_log_records = 16;
  auto loader = packhouse::AllJobs::Open(&catalog, &logs, options).value();
  while (const auto load = messages.Next()) {
    v1::LoadRequest request;
    if (!request.ParseFromString(*load)) continue;
    request.mutable_epoch()->set_dataset(info.name);
    Load(request, info, *loader);
  }
  // What is in the log is enough to go on.
  loader = nullptr;
  if (!packhouse::AllJobs::Open(&catalog, &logs, options).ok()) std::abort();
  return 0;
}
