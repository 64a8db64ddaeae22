// How the laws of a failing disk are asked of a store.
#ifndef PACKHOUSE_TESTS_FAILING_DISK_DISK_LAWS_H_
#define PACKHOUSE_TESTS_FAILING_DISK_DISK_LAWS_H_

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "service/base/disk_file.h"
#include "tests/support/failing_calls.h"
#include "tests/support/failing_disk.h"
#include "tests/support/failing_steps.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {

// What the things of a store may be like, each in a word or some, by what was answered. A thing
// that nobody has made is "".
class AnsweredStates {
 public:
  // A call was answered with `ended`; `next` says what the call makes of a state, nullopt if it
  // cannot be done.
  void After(const std::string& thing, const absl::Status& ended,
             absl::FunctionRef<std::optional<std::string>(const std::string& before)> next) {
    std::set<std::string>& states = Of(thing);
    std::set<std::string> after;
    for (const std::string& state : states) {
      if (auto done = next(state)) after.insert(*std::move(done));
    }
    if (ended.ok()) {
      EXPECT_FALSE(after.empty()) << thing << ": answered with OK, and it cannot be";
      states = std::move(after);
    } else if (DiskOutcomeIsUnknown(ended)) {
      states.insert(after.begin(), after.end());
    }
  }
  void Expect(const std::string& thing, const std::string& found) {
    const std::set<std::string>& states = Of(thing);
    EXPECT_TRUE(states.contains(found))
        << thing << " is '" << found << "', and not one of " << testing::PrintToString(states);
  }
  // It is known from now on.
  void ExpectAndSettle(const std::string& thing, const std::string& found) {
    Expect(thing, found);
    Of(thing) = {found};
  }
  std::vector<std::string> things() const {
    std::vector<std::string> names;
    for (const auto& [name, states] : states_) names.push_back(name);
    return names;
  }
  size_t num_there() const {
    return std::count_if(states_.begin(), states_.end(),
                         [](const auto& each) { return !each.second.begin()->empty(); });
  }

 private:
  std::set<std::string>& Of(const std::string& thing) {
    return states_.try_emplace(thing, std::set<std::string>{""}).first->second;
  }

  std::map<std::string, std::set<std::string>> states_;
};

// The first part of a test that asks what became of one change: a folder in which everything fails
// in turn. `attempt` opens what it needs, makes its change and closes; `is_done` and `is_not_done`
// look at the folder afterwards, without failures. The laws: OK is done, an error is not done, a
// change of unknown outcome is one of the two; and then the same call works.
struct DiskChange {
  std::function<void(const std::string& folder)> prepare = [](const std::string&) {};
  std::function<absl::Status(const std::string& folder)> attempt;
  // Adds failures, with why, if the folder is not as it says.
  std::function<std::string(const std::string& folder)> state;
  std::string before;
  std::string after;
  // What the same call may answer if it is done already.
  absl::StatusCode again = absl::StatusCode::kOk;
  // LMDB does not make a call again that was interrupted.
  bool is_in_lmdb = false;
};

// A folder of its own, in which the change is tried.
class DiskChangeWorld final : public StepsWorld {
 public:
  explicit DiskChangeWorld(const DiskChange& change) : change_(change) {
    std::filesystem::create_directory(folder_);
    change_.prepare(folder_);
  }
  absl::Status Attempt() override { return change_.attempt(folder_); }
  std::string State() override { return change_.state(folder_); }
  std::string folder() const override { return folder_; }

 private:
  const DiskChange& change_;
  const TemporaryFolder above_{TemporaryFolder::InMemory()};
  const std::string folder_ = above_.path() + "/it";
};

// Of the steps that a life has, which are of `kinds`: every `stride`th, and the first of each kind.
inline std::vector<uint64_t> StepsToTry(const std::vector<std::string>& kinds, uint64_t stride) {
  std::set<std::string> seen;
  std::vector<uint64_t> steps;
  for (uint64_t step = 0; step < kinds.size(); ++step) {
    if (seen.insert(kinds[step]).second || step % stride == 0) steps.push_back(step);
  }
  return steps;
}

inline void ExpectThreeOutcomes(const DiskChange& change) {
  StepsOptions options;
  options.most_steps = FailingThing::kNone;
  options.again = change.again;
  for (const DiskFault& fault : DiskFaults()) {
    if (change.is_in_lmdb && fault.error == EINTR) continue;
    SCOPED_TRACE(testing::Message() << fault);
    FailingDisk disk(fault);
    {
      DiskChangeWorld world(change);
      EXPECT_EQ(world.State(), change.before);
      EXPECT_TRUE(world.Attempt().ok());
      EXPECT_EQ(world.State(), change.after);
    }
    ExpectDoneOrNot([&] { return std::make_unique<DiskChangeWorld>(change); }, disk, options);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_FAILING_DISK_DISK_LAWS_H_
