#include "service/server/wire/epoch_words.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/mixture_name.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/making.h"
#include "service/engine/jobs/ledger_event.h"
#include "service/server/wire/wire_loader.h"
#include "service/server/wire/wire_memory.h"
#include "service/server/wire/wire_tuning.h"
#include "service/wings/graphs/services/wire_sampling.h"
#include "service/wings/partition/epochs/parts_schema.h"

namespace packhouse {

absl::StatusOr<EpochRequest> OpenEpochRequest(const v1::EpochSpec& spec,
                                              const DatasetStore& datasets,
                                              const SourceGraphStore* graphs, MemoryBudget* working,
                                              MemoryHold& memory, const MeasuredModels* models,
                                              bool at_once) {
  if (spec.has_samples()) {
    PH_ASSIGN_OR_RETURN(auto source, OpenSubGraphs(spec.samples().sub_graphs(), graphs, at_once));
    PH_ASSIGN_OR_RETURN(EpochRequest request,
                        SampledRequestFromWire(spec, std::move(source), working));
    request.join_parts = spec.join_parts();
    return request;
  }
  if (spec.join_parts() && IsMixture(spec.dataset())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "epoch.join_parts: not together with mixture '",
        spec.dataset().substr(0, DatasetStore::kMaxNameLength), "': load one data set"));
  }
  PH_ASSIGN_OR_RETURN(const DatasetInfo info, datasets.Get(spec.dataset()));
  PH_ASSIGN_OR_RETURN(memory,
                      Making(working, nullptr).Hold("a subset and weights", BytesOfRequest(spec)));
  if (!spec.join_parts()) {
    PH_ASSIGN_OR_RETURN(EpochRequest request, EpochRequestFromWire(spec, *info.schema));
    for (RankGroupRequest& rank_group : request.rank_groups) {
      if (!rank_group.device || rank_group.device->measured_as.empty()) continue;
      // Nothing is kept of an evaluation, and its ranks would get other limits after a report.
      if (spec.job().empty()) continue;
      auto measured = AsMeasured(*rank_group.device, info.schema->sizes(), models);
      // If nothing fits any more, an epoch that is open goes on nevertheless.
      if (!measured.ok() || (measured->measured_bytes == nullptr &&
                             measured->fixed_cost == rank_group.device->fixed_cost)) {
        continue;
      }
      rank_group.measured = *std::move(measured);
    }
    return request;
  }
  PH_ASSIGN_OR_RETURN(const PartsSchema parts, PartsSchema::Of(*info.schema));
  PH_ASSIGN_OR_RETURN(EpochRequest request, EpochRequestFromWire(spec, parts.joined()));
  request.join_parts = true;
  return request;
}

std::string WordsOf(const v1::EpochSpec& spec) {
  // A long list is not copied in vain; the job's name is short.
  if (spec.ByteSizeLong() > 2 * kMaxWordsBytes) return "";
  v1::EpochSpec words = spec;
  words.clear_job();
  words.clear_epoch();
  std::string bytes = words.SerializeAsString();
  return bytes.size() <= kMaxWordsBytes ? bytes : "";
}

absl::StatusOr<v1::EpochSpec> SpecOfWords(absl::string_view words, const EpochKey& key) {
  v1::EpochSpec spec;
  if (!spec.ParseFromArray(words.data(), static_cast<int>(words.size()))) {
    return absl::InvalidArgumentError("words: are no EpochSpec");
  }
  spec.set_job(key.job);
  spec.set_epoch(key.epoch);
  return spec;
}

}  // namespace packhouse
