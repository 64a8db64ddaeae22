// System calls on files as steps that fail; for programs that link failing_calls.cc.
#ifndef PACKHOUSE_TESTS_SUPPORT_FAILING_DISK_H_
#define PACKHOUSE_TESTS_SUPPORT_FAILING_DISK_H_

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "service/base/disk_file.h"
#include "tests/support/failing_calls.h"
#include "tests/support/failing_steps.h"

namespace packhouse {

// How the disk fails, and whether the machine loses its power afterwards.
struct DiskFault {
  int error;
  bool lasts;
  bool loses_power;
};

inline std::ostream& operator<<(std::ostream& out, const DiskFault& fault) {
  return out << std::strerror(fault.error) << (fault.lasts ? ", from then on" : ", once")
             << (fault.loses_power ? ", power lost" : "");
}

inline const std::vector<DiskFault>& DiskFaults() {
  static const auto* const faults = new std::vector<DiskFault>{
      {EIO, false, false},   {EIO, false, true},     {EIO, true, false},
      {EIO, true, true},     {ENOSPC, false, false}, {ENOSPC, true, true},
      {EMFILE, false, true}, {EMFILE, true, false},  {EINTR, false, false}};
  return *faults;
}

// The disk of a world's folder. A world whose files stay open must not lose its power.
class FailingDisk final : public FailingThing {
 public:
  explicit FailingDisk(const DiskFault& fault) : fault_(fault) {}

  void Begin(uint64_t step, const StepsWorld& world) override {
    calls_.reset();
    calls_.emplace(world.folder(), FailingCalls::Failure{step, fault_.error, fault_.lasts});
  }
  bool End() override {
    calls_->Stop();
    return calls_->has_failed();
  }
  uint64_t num_steps() const override { return calls_->num_steps(); }
  std::vector<std::string> kinds() const override { return calls_->kinds(); }
  std::string what() const override { return calls_->what(); }
  void AfterEnd() override {
    if (fault_.loses_power) calls_->LosePower();
  }
  bool IsUnknown(const absl::Status& ended) const override {
    return DiskOutcomeIsUnknown(ended) || absl::StrContains(ended.message(), "it is not known");
  }
  // An interruption is no failure.
  bool is_survived() const override { return fault_.error == EINTR; }

 private:
  const DiskFault fault_;
  std::optional<FailingCalls> calls_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_FAILING_DISK_H_
