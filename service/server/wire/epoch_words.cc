#include "service/server/wire/epoch_words.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/making.h"
#include "service/engine/jobs/ledger_event.h"
#include "service/server/wire/wire_loader.h"
#include "service/server/wire/wire_memory.h"
#include "service/server/wire/wire_tuning.h"

namespace packhouse {

namespace {

// The reader of a kind that the spec asks for. UNIMPLEMENTED naming the field.
absl::StatusOr<const EpochKindReader*> ReaderOf(absl::string_view kind, const EpochKinds* kinds) {
  std::string why_not = "this server has no such epochs";
  if (kinds != nullptr) {
    for (const EpochKindReader* const reader : kinds->readers) {
      if (reader->name() == kind) return reader;
    }
    for (const auto& [name, why] : kinds->absent) {
      if (name == kind) why_not = why;
    }
  }
  return absl::UnimplementedError(absl::StrCat("epoch.", kind, ": ", why_not));
}

}  // namespace

absl::StatusOr<EpochRequest> OpenEpochRequest(const v1::EpochSpec& spec,
                                              const DatasetStore& datasets, const EpochKinds* kinds,
                                              MemoryBudget* working, MemoryHold& memory,
                                              const MeasuredModels* models, bool at_once) {
  std::vector<absl::string_view> asked;
  if (spec.has_samples()) asked.push_back("samples");
  if (spec.join_parts()) asked.push_back("join_parts");
  if (!asked.empty()) {
    PH_ASSIGN_OR_RETURN(const EpochKindReader* const first, ReaderOf(asked[0], kinds));
    PH_ASSIGN_OR_RETURN(EpochRequest request,
                        first->Open({spec, datasets, working, memory, models, at_once}));
    for (size_t i = 1; i < asked.size(); ++i) {
      PH_ASSIGN_OR_RETURN(const EpochKindReader* const other, ReaderOf(asked[i], kinds));
      other->AddTo(request);
    }
    return request;
  }
  PH_ASSIGN_OR_RETURN(const DatasetInfo info, datasets.Get(spec.dataset()));
  PH_ASSIGN_OR_RETURN(memory,
                      Making(working, nullptr).Hold("a subset and weights", BytesOfRequest(spec)));
  PH_ASSIGN_OR_RETURN(EpochRequest request, EpochRequestFromWire(spec, *info.schema));
  TakeMeasured(info.schema->sizes(), models, request);
  return request;
}

void TakeMeasured(const SizeSchema& schema, const MeasuredModels* models, EpochRequest& request) {
  // Nothing is kept of an evaluation, and its ranks would get other limits after a report.
  if (request.key.job.empty()) return;
  for (RankGroupRequest& rank_group : request.rank_groups) {
    if (!rank_group.device || rank_group.device->measured_as.empty()) continue;
    auto measured = AsMeasured(*rank_group.device, schema, models);
    // If nothing fits any more, an epoch that is open goes on nevertheless.
    if (!measured.ok() || (measured->measured_bytes == nullptr &&
                           measured->fixed_cost == rank_group.device->fixed_cost)) {
      continue;
    }
    rank_group.measured = *std::move(measured);
  }
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
