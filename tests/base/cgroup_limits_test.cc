#include "service/base/cgroup_limits.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::Eq;
using ::testing::Optional;

class CgroupLimitsTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = folder_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  const TemporaryFolder folder_;
};

TEST_F(CgroupLimitsTest, WithoutCgroupsThereIsNoLimit) {
  const CgroupLimits limits = ReadCgroupLimits(folder_.path());
  EXPECT_EQ(limits.memory_bytes, std::nullopt);
  EXPECT_EQ(limits.processors, std::nullopt);
  EXPECT_EQ(NumProcessors(limits), std::max(1U, std::thread::hardware_concurrency()));
}

// As Docker and Kubernetes show it in a namespace of its own.
TEST_F(CgroupLimitsTest, Version2InAContainer) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "2147483648\n");
  Write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  const CgroupLimits limits = ReadCgroupLimits(folder_.path());
  EXPECT_THAT(limits.memory_bytes, Optional(Eq(uint64_t{2} << 30)));
  EXPECT_THAT(limits.processors, Optional(Eq(0.5)));
  EXPECT_EQ(NumProcessors(limits), 1);
}

// As systemd has it for a service in a slice: the least counts.
TEST_F(CgroupLimitsTest, LimitsAboveCount) {
  Write("/proc/self/cgroup", "0::/a.slice/b.service\n");
  Write("/sys/fs/cgroup/a.slice/b.service/memory.max", "max\n");
  Write("/sys/fs/cgroup/a.slice/b.service/cpu.max", "max 100000\n");
  Write("/sys/fs/cgroup/a.slice/memory.max", "1000000\n");
  Write("/sys/fs/cgroup/a.slice/cpu.max", "150000 100000\n");
  const CgroupLimits limits = ReadCgroupLimits(folder_.path());
  EXPECT_THAT(limits.memory_bytes, Optional(Eq(1'000'000)));
  EXPECT_THAT(limits.processors, Optional(Eq(1.5)));
}

TEST_F(CgroupLimitsTest, Version1) {
  Write("/proc/self/cgroup", "4:memory:/docker/x\n3:cpuset:/\n2:cpu,cpuacct:/docker/x\n0::/\n");
  // In the container, its own cgroup is where the root's would be.
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "3000000\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  CgroupLimits limits = ReadCgroupLimits(folder_.path());
  EXPECT_THAT(limits.memory_bytes, Optional(Eq(3'000'000)));
  EXPECT_THAT(limits.processors, Optional(Eq(2)));
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  limits = ReadCgroupLimits(folder_.path());
  EXPECT_EQ(limits.memory_bytes, std::nullopt);
  EXPECT_EQ(limits.processors, std::nullopt);
}

TEST_F(CgroupLimitsTest, NonsenseIsNoLimit) {
  Write("/proc/self/cgroup", "0::/a\nx\n:\n");
  Write("/sys/fs/cgroup/a/memory.max", "much\n");
  Write("/sys/fs/cgroup/a/cpu.max", "1 0\n");
  const CgroupLimits limits = ReadCgroupLimits(folder_.path());
  EXPECT_EQ(limits.memory_bytes, std::nullopt);
  EXPECT_EQ(limits.processors, std::nullopt);
  for (const char* const none :
       {"100 x\n", "x 100\n", "0 100\n", "-1 100\n", "100 -1\n", "100\n", "100 100 100\n", "\n"}) {
    Write("/sys/fs/cgroup/a/cpu.max", none);
    EXPECT_EQ(ReadCgroupLimits(folder_.path()).processors, std::nullopt) << none;
  }
}

// Of several limits the least counts, wherever it is; a path without a beginning is one, too.
TEST_F(CgroupLimitsTest, TheLeastCounts) {
  Write("/proc/self/cgroup", "0::/a/b\n0::c\n");
  Write("/sys/fs/cgroup/a/b/memory.max", "1000\n");
  Write("/sys/fs/cgroup/a/memory.max", "2000\n");
  Write("/sys/fs/cgroup/memory.max", "3000\n");
  Write("/sys/fs/cgroup/a/b/cpu.max", "300 100\n");
  Write("/sys/fs/cgroup/a/cpu.max", "200 100\n");
  Write("/sys/fs/cgroup/cpu.max", "250 100\n");
  CgroupLimits limits = ReadCgroupLimits(folder_.path());
  EXPECT_THAT(limits.memory_bytes, Optional(Eq(1000)));
  EXPECT_THAT(limits.processors, Optional(Eq(2)));
  // Parts of processors are rounded up, never to none and never above what there is.
  const unsigned all = std::max(1U, std::thread::hardware_concurrency());
  for (const auto& [share, number] :
       std::vector<std::pair<double, unsigned>>{{1e-9, 1},
                                                {1, 1},
                                                {1.01, std::min(2U, all)},
                                                {all, all},
                                                {all + 0.5, all},
                                                {1e9, all}}) {
    limits.processors = share;
    EXPECT_EQ(NumProcessors(limits), number) << share;
  }
}

}  // namespace
}  // namespace packhouse
