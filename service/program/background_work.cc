#include "service/program/background_work.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/base/execution.h"
#include "service/base/out_of_memory.h"
#include "service/base/steady_waits.h"
#include "service/program/wing.h"

namespace packhouse {
namespace {

void StartSweeping(Sweeping work, EventLog& log) {
  Repeating::ForEver(work.period, [kind = work.kind, sweep = std::move(work.sweep), &log] {
    std::vector<Expired> expired;
    const absl::Status swept = sweep(expired);
    for (const Expired& each : expired) {
      log.Log(LogLevel::kInfo, "expired",
              {{kind, each.name}, {"unused_ms", each.unused}, {"bytes", each.num_bytes}});
    }
    if (!swept.ok()) {
      log.Log(LogLevel::kWarning, "cannot expire",
              {{"kind", kind}, LogField::Message(swept.message())});
    }
  });
}

// Each minute, or if that takes long, less than a twentieth of the time.
void StartSavingHistograms(rpc::Server& server, LimitedLog& log) {
  const auto took = std::make_shared<absl::Duration>();
  Repeating::ForEver([took] { return std::max(absl::Minutes(1), 20 * *took); },
                     [took, &server, &log] {
                       const absl::Time start = SteadyTime();
                       SaveHistograms(server, log);
                       *took = SteadyTime() - start;
                     });
}

}  // namespace

void StartBackgroundWork(const Options& options, rpc::Server& server, const ServedStores& stores,
                         Membership* membership, EventLog& log, LimitedLog& limited_log) {
  // So that clients that watch it hear of a full disk or a lost lease within a second.
  Repeating::ForEver(absl::Seconds(1), [&server] { server.RefreshHealth(); });
  if (stores.shared() != nullptr) stores.shared()->StartSweeping(log);
  if (RetainedDatasets* const retained = stores.retained_datasets(); retained != nullptr) {
    StartSweeping({"dataset", options.dataset_retention.Period(),
                   [retained, &server](std::vector<Expired>& expired) {
                     const absl::Status swept = retained->Sweep(expired);
                     if (!expired.empty()) server.ForgetGone();
                     return swept;
                   }},
                  log);
  }
  for (const auto& wing : options.wings) {
    if (auto sweeping = wing->SweepUnused(server)) StartSweeping(*std::move(sweeping), log);
  }
  if (!options.histogram_retention.is_for_ever()) {
    StartSweeping({"histogram", options.histogram_retention.Period(),
                   [&server, &options, membership](std::vector<Expired>& expired) {
                     if (membership != nullptr) return membership->SweepHistograms(expired);
                     expired = server.DeleteUnusedHistograms(options.histogram_retention);
                     return absl::OkStatus();
                   }},
                  log);
  }
  if (server.models_expire()) {
    StartSweeping(
        {"model", options.model_retention.Period(),
         [&server](std::vector<Expired>& expired) { return server.DeleteUnusedModels(expired); }},
        log);
  }
  // What other servers have deleted is let go here too, within a minute.
  Repeating::ForEver(absl::Minutes(1), [&server] { server.ForgetGone(); });
  if (stores.may_save()) StartSavingHistograms(server, limited_log);
}

bool SaveHistograms(rpc::Server& server, LimitedLog& log) {
  bool is_saved = false;
  RunWithinMemory([&] {
    const absl::Status saved = server.SaveHistograms();
    is_saved = saved.ok();
    if (!saved.ok()) {
      log.Log("histograms", LogLevel::kWarning, "cannot save named histograms",
              {LogField::Message(saved.message())});
    }
  });
  return is_saved;
}

}  // namespace packhouse
