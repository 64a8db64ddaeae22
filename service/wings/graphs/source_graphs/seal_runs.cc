#include "service/wings/graphs/source_graphs/seal_runs.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/execution.h"
#include "service/base/out_of_memory.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr uint64_t kReports = 100;

using Wakes = std::vector<std::shared_ptr<const std::function<void()>>>;

void RunAll(const Wakes& wakes) {
  for (const auto& wake : wakes) Wake(*wake);
}

}  // namespace

SealRuns::Watch::~Watch() {
  absl::MutexLock lock(&run_->mutex);
  std::erase(run_->wakes, wake_);
}

SealRuns::State SealRuns::Watch::state() const {
  absl::MutexLock lock(&run_->mutex);
  return run_->state;
}

SealRuns::~SealRuns() {
  stops_ = true;
  absl::MutexLock lock(&mutex_);
  const auto all_over = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return runs_.empty(); };
  mutex_.Await(absl::Condition(&all_over));
}

absl::StatusOr<std::unique_ptr<SealRuns::Watch>> SealRuns::Start(const ClientId& client,
                                                                 absl::string_view name,
                                                                 const SealOptions& options,
                                                                 std::function<void()> wake) {
  PH_ASSIGN_OR_RETURN(const SourceGraphInfo info, graphs_->Get(name));
  auto run = std::make_shared<Run>();
  run->name = info.name;
  run->id = info.id;
  run->options = options;
  bool begins = true;
  if (info.state == SourceGraphState::kSealed) {
    absl::MutexLock lock(&run->mutex);
    run->state.result = info;
    begins = false;
  } else {
    absl::MutexLock lock(&mutex_);
    const auto [found, is_new] = runs_.try_emplace(info.id, run);
    run = found->second;
    begins = is_new;
  }
  if (run->options.duplicates != options.duplicates) {
    return absl::FailedPreconditionError(
        absl::StrCat("source graph ", Quoted(name),
                     ": is being sealed with another rule for nodes that were appended twice"));
  }
  std::unique_ptr<Watch> watch;
  const auto begin = [&] {
    watch.reset(new Watch(run, std::make_shared<const std::function<void()>>(std::move(wake))));
    {
      absl::MutexLock lock(&run->mutex);
      run->wakes.push_back(watch->wake_);
    }
    if (!begins) return;
    executor_(client, run->name,
              [this, run](const std::function<bool()>& is_cancelled) { Seal(*run, is_cancelled); });
  };
  if (!RunWithinMemory(begin)) {
    if (begins) End(*run, OutOfMemory());
    return OutOfMemory();
  }
  return watch;
}

void SealRuns::Seal(Run& run, const std::function<bool()>& is_cancelled) {
  absl::StatusOr<SourceGraphInfo> result = OutOfMemory();
  RunWithinMemory([&] {
    // The name may belong to another graph by now.
    result = graphs_->Get(run.name);
    if (result.ok() && result->id != run.id) {
      result =
          absl::NotFoundError(absl::StrCat("source graph ", Quoted(run.name), ": was deleted"));
    }
    if (!result.ok()) return;
    result = graphs_->Seal({run.name, run.id}, run.options, [&](const SourceGraphProgress& now) {
      RunWithinMemory([&] { Tell(run, now); });
      return !stops_ && !is_cancelled();
    });
    if (absl::IsCancelled(result.status())) {
      result = absl::UnavailableError(
          absl::StrCat("source graph ", Quoted(run.name), ": is open again, as the server ends"));
    }
  });
  End(run, std::move(result));
}

void SealRuns::Tell(Run& run, const SourceGraphProgress& now) {
  Wakes wakes;
  {
    absl::MutexLock lock(&run.mutex);
    if (now.done - run.state.progress.done <= now.total / kReports) return;
    wakes = run.wakes;
    run.state.progress = now;
  }
  RunAll(wakes);
}

void SealRuns::End(Run& run, absl::StatusOr<SourceGraphInfo> result) {
  {
    // Who has heard the result may begin another run. Afterwards nothing of this may be used.
    absl::MutexLock lock(&mutex_);
    runs_.erase(run.id);
  }
  Wakes wakes;
  {
    absl::MutexLock lock(&run.mutex);
    run.state.result = std::move(result);
    wakes.swap(run.wakes);
  }
  RunAll(wakes);
}

}  // namespace packhouse
