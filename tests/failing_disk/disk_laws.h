// How the laws of a failing disk are asked of a store.
#ifndef PACKHOUSE_TESTS_FAILING_DISK_DISK_LAWS_H_
#define PACKHOUSE_TESTS_FAILING_DISK_DISK_LAWS_H_

#include <algorithm>
#include <cerrno>
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
#include "tests/support/temporary_folder.h"

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
};

inline void ExpectThreeOutcomes(const DiskChange& change) {
  for (const DiskFault& fault : DiskFaults()) {
    uint64_t num_steps = 0;
    ForEachStep([&](uint64_t step) {
      const TemporaryFolder above(TemporaryFolder::InMemory());
      const std::string folder = above.path() + "/it";
      std::filesystem::create_directory(folder);
      change.prepare(folder);
      FailingCalls calls(folder, FailingCalls::Failure{step, fault.error, fault.lasts});
      const absl::Status ended = change.attempt(folder);
      calls.Stop();
      num_steps = step;
      SCOPED_TRACE(testing::Message() << fault << ", step " << step << ": " << calls.what()
                                      << "; it ended with " << ended);
      if (fault.loses_power) calls.LosePower();
      const std::string found = change.state(folder);
      if (ended.ok()) {
        EXPECT_EQ(found, change.after);
      } else if (DiskOutcomeIsUnknown(ended)) {
        EXPECT_TRUE(found == change.before || found == change.after) << found;
      } else {
        EXPECT_EQ(found, change.before);
      }
      // An interruption is no failure.
      if (fault.error == EINTR) {
        EXPECT_TRUE(ended.ok());
      }
      const absl::Status again = change.attempt(folder);
      EXPECT_TRUE(again.ok() || (found == change.after && again.code() == change.again)) << again;
      EXPECT_EQ(change.state(folder), change.after);
      return calls.has_failed() && !testing::Test::HasFailure();
    });
    // Without a step, nothing was tried.
    EXPECT_GT(num_steps, 0U) << fault;
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_FAILING_DISK_DISK_LAWS_H_
