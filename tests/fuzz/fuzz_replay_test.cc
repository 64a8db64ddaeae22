// Each fuzz target over its seeds, and over changes of them that are the same in every run: what
// libFuzzer searches for hours (`make fuzz`), as a test that takes seconds and compiles nothing
// twice. A target ends the process where its law does not hold. Its input is then in the file
// crash-TARGET beside the seeds, for a debugger or for the target's program of libFuzzer.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "service/base/seeded_random.h"

#define FUZZ_TARGET(name) extern "C" int name(const uint8_t* data, size_t size);
#include "fuzz_targets.inc"
#undef FUZZ_TARGET

namespace packhouse {
namespace {

constexpr size_t kMaxBytes = 4096;
constexpr int kNumChanged = 10'000;
// Above what any target needs: what a length only claims is not allocated.
[[maybe_unused]] constexpr rlim_t kMaxMemory = rlim_t{4} << 30;

struct Target {
  const char* name;
  int (*run)(const uint8_t* data, size_t size);

  friend void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }
};

#define FUZZ_TARGET(name) Target{#name, &(name)},
constexpr Target kTargets[] = {
#include "fuzz_targets.inc"
};
#undef FUZZ_TARGET

constexpr std::array kFatal = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV};

// What runs now. A handler of signals reads it, so nothing in it changes while a target runs.
struct Running {
  std::string file;
  std::string input;
  std::array<struct sigaction, std::size(kFatal)> before;
} running;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

// Keeps the input, and leaves the rest to who handled the signal before.
void KeepInput(int signal) {
  for (size_t i = 0; i < kFatal.size(); ++i) {
    if (kFatal[i] == signal) ::sigaction(signal, &running.before[i], nullptr);
  }
  const int file = ::open(running.file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file >= 0 && ::write(file, running.input.data(), running.input.size()) >= 0) {
    constexpr char kTold[] = "\nThe input is kept in ";
    (void)!::write(STDERR_FILENO, kTold, sizeof(kTold) - 1);
    (void)!::write(STDERR_FILENO, running.file.data(), running.file.size());
    (void)!::write(STDERR_FILENO, "\n", 1);
  }
  ::raise(signal);
}

// Draws inputs that are nearly seeds.
class Changes {
 public:
  explicit Changes(const std::vector<std::string>* seeds) : seeds_(seeds) {}

  std::string Next() {
    std::string bytes = Seed();
    for (uint64_t left = 1 + random_.Below(4); left > 0; --left) Change(bytes);
    if (bytes.size() > kMaxBytes) bytes.resize(kMaxBytes);
    return bytes;
  }

 private:
  const std::string& Seed() { return (*seeds_)[random_.Below(seeds_->size())]; }

  // Zero, the largest of some width, or beside these.
  uint64_t Extreme() {
    constexpr int kWidths[] = {0, 7, 8, 15, 16, 31, 32, 63};
    return (uint64_t{1} << kWidths[random_.Below(std::size(kWidths))]) - random_.Below(3);
  }
  std::string Number() {
    uint64_t value = Extreme();
    std::string bytes;
    if (random_.Below(2) == 0) {
      for (uint64_t width = uint64_t{1} << random_.Below(4); width > 0; --width, value >>= 8) {
        bytes.push_back(static_cast<char>(value));
      }
      return bytes;
    }
    // As protobuf writes it.
    for (; value >= 128; value >>= 7) bytes.push_back(static_cast<char>(value | 128));
    bytes.push_back(static_cast<char>(value));
    return bytes;
  }
  std::string Run() {
    const std::string& seed = Seed();
    const size_t at = random_.Below(seed.size() + 1);
    return seed.substr(at, random_.Below(33));
  }

  void Change(std::string& bytes) {
    const size_t at = random_.Below(bytes.size() + 1);
    switch (random_.Below(8)) {
      case 0:
      case 1:
        if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << random_.Below(8)));
        break;
      case 2:
        if (at < bytes.size()) bytes[at] = static_cast<char>(random_.Below(256));
        break;
      case 3: {
        const std::string number = Number();
        bytes.replace(at, number.size(), number);
        break;
      }
      case 4:
        bytes.insert(at, Run());
        break;
      case 5: {
        const std::string run = Run();
        bytes.replace(at, run.size(), run);
        break;
      }
      case 6:
        bytes.erase(at, 1 + random_.Below(16));
        break;
      default:
        bytes.resize(at);
    }
  }

  const std::vector<std::string>* seeds_;
  SeededRandom random_{1};
};

// In the order of their names.
std::vector<std::string> SeedsIn(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> seeds;
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

class FuzzReplayTest : public testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    running.file = std::string(PACKHOUSE_SEEDS "/crash-") + GetParam().name;
    struct sigaction action = {};
    action.sa_handler = &KeepInput;
    for (size_t i = 0; i < kFatal.size(); ++i) {
      ASSERT_EQ(::sigaction(kFatal[i], &action, &running.before[i]), 0);
    }
#ifdef PACKHOUSE_LIMITS_MEMORY
    const rlimit limit = {kMaxMemory, kMaxMemory};
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
#endif
  }
  void TearDown() override {
    for (size_t i = 0; i < kFatal.size(); ++i) {
      ::sigaction(kFatal[i], &running.before[i], nullptr);
    }
  }

  static void Run(std::string input) {
    running.input = std::move(input);
    // Alone, as libFuzzer gives it: what reads behind it is seen by AddressSanitizer.
    const size_t size = running.input.size();
    const auto bytes = std::make_unique<uint8_t[]>(size);
    std::copy(running.input.begin(), running.input.end(), bytes.get());
    EXPECT_EQ(GetParam().run(bytes.get(), size), 0);
  }
};

TEST_P(FuzzReplayTest, HoldsForSeedsAndForWhatIsNearlyOne) {
  const auto seeds = SeedsIn(std::string(PACKHOUSE_SEEDS "/") + GetParam().name + "-corpus");
  ASSERT_FALSE(seeds.empty()) << "make_seeds.cc has no seeds for " << GetParam().name;
  Run("");
  for (const std::string& seed : seeds) Run(seed);
  Changes changes(&seeds);
  for (int i = 0; i < kNumChanged; ++i) Run(changes.Next());
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzReplayTest, testing::ValuesIn(kTargets),
                         [](const auto& target) { return std::string(target.param.name); });

}  // namespace
}  // namespace packhouse
