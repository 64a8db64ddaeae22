#include "service/base/cgroup_limits.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace packhouse {
namespace {

// Version 1 says so if there is none: the most bytes, in whole pages.
constexpr uint64_t kUnlimitedBytes = uint64_t{1} << 62;

// Files of /proc and /sys have no size. Empty if it cannot be read.
std::string ReadSmall(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<uint64_t> BytesIn(const std::string& path) {
  uint64_t bytes = 0;
  if (!absl::SimpleAtoi(ReadSmall(path), &bytes) || bytes >= kUnlimitedBytes) return std::nullopt;
  return bytes;
}

std::optional<double> ShareOf(absl::string_view quota, absl::string_view period) {
  double used = 0;
  double of = 0;
  if (!absl::SimpleAtod(quota, &used) || !absl::SimpleAtod(period, &of) || used <= 0 || of <= 0) {
    return std::nullopt;
  }
  return used / of;
}

// "150000 100000", or "max 100000".
std::optional<double> ProcessorsIn(const std::string& path) {
  const std::string text = ReadSmall(path);
  const std::vector<absl::string_view> words =
      absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  return words.size() == 2 ? ShareOf(words[0], words[1]) : std::nullopt;
}

template <typename Number>
void Lower(const std::optional<Number>& found, std::optional<Number>& least) {
  if (found && (!least || *found < *least)) least = found;
}

// Calls `visit` with the folder of a cgroup and of all above it.
template <typename Visit>
void ForEachAbove(const std::string& mount, absl::string_view cgroup, const Visit& visit) {
  std::string path(cgroup == "/" ? "" : cgroup);
  for (;;) {
    visit(absl::StrCat(mount, path));
    if (path.empty()) return;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

}  // namespace

CgroupLimits ReadCgroupLimits(const std::string& root) {
  CgroupLimits limits;
  const std::string mounts = absl::StrCat(root, "/sys/fs/cgroup");
  // Lines such as "0::/a/b" (version 2) and "4:cpu,cpuacct:/a/b" (version 1).
  const std::string cgroups = ReadSmall(absl::StrCat(root, "/proc/self/cgroup"));
  for (const absl::string_view line : absl::StrSplit(cgroups, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    if (parts[1].empty()) {
      ForEachAbove(mounts, parts[2], [&](const std::string& folder) {
        Lower(BytesIn(folder + "/memory.max"), limits.memory_bytes);
        Lower(ProcessorsIn(folder + "/cpu.max"), limits.processors);
      });
    } else if (absl::c_linear_search(controllers, "memory")) {
      ForEachAbove(absl::StrCat(mounts, "/memory"), parts[2], [&](const std::string& folder) {
        Lower(BytesIn(folder + "/memory.limit_in_bytes"), limits.memory_bytes);
      });
    } else if (absl::c_linear_search(controllers, "cpu")) {
      ForEachAbove(absl::StrCat(mounts, "/cpu"), parts[2], [&](const std::string& folder) {
        Lower(ShareOf(ReadSmall(folder + "/cpu.cfs_quota_us"),
                      ReadSmall(folder + "/cpu.cfs_period_us")),
              limits.processors);
      });
    }
  }
  return limits;
}

unsigned NumProcessors(const CgroupLimits& limits) {
  const unsigned all = std::max(1U, std::thread::hardware_concurrency());
  if (!limits.processors || *limits.processors >= all) return all;
  return std::max(1U, static_cast<unsigned>(std::ceil(*limits.processors)));
}

}  // namespace packhouse
