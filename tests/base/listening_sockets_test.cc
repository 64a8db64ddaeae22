#include "service/base/listening_sockets.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/execution.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

// A name that this program alone knows, of these addresses in this order.
constexpr absl::string_view kTwoAddresses = "two.invalid";
constexpr const char* kAddresses[] = {"127.0.0.1", "127.0.0.2"};
// Others. No machine has the second address of them (RFC 5737).
const std::map<std::string, std::vector<const char*>>& OwnNames() {
  static const auto& names = *new std::map<std::string, std::vector<const char*>>{
      {std::string(kTwoAddresses), {kAddresses[0], kAddresses[1]}},
      {"twice.invalid", {"127.0.0.1", "127.0.0.1"}},
      {"part.invalid", {"192.0.2.1", "127.0.0.1"}},
      {"away.invalid", {"192.0.2.1"}},
      {"none.invalid", {}}};
  return names;
}

int FindAddresses(const char* host, const char* service, const addrinfo* hints, addrinfo** found) {
  using Function = int(const char*, const char*, const addrinfo*, addrinfo**);
  static auto* const next = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const auto own = OwnNames().find(host);
  if (own == OwnNames().end()) return next(host, service, hints, found);
  if (own->second.empty()) return EAI_NONAME;
  for (const char* const address : own->second) {
    if (const int error = next(address, service, hints, found); error != 0) return error;
    while (*found != nullptr) found = &(*found)->ai_next;
  }
  return 0;
}

size_t NumDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

absl::string_view PortOf(absl::string_view address) {
  return address.substr(address.rfind(':') + 1);
}

// A server that tries again and again must not run out of descriptors.
TEST(ListeningSocketsTest, WhatIsRefusedLeavesNoSocket) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  PH_ASSERT_OK_AND_ASSIGN(const ListeningSockets first, ListeningSockets::Open("127.0.0.1:0"));
  const size_t before = NumDescriptors();
  for (const std::string& address :
       {first.address(), absl::StrCat("unix:", folder.path(), "/none/socket")}) {
    EXPECT_THAT(ListeningSockets::Open(address),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr(address)));
    EXPECT_EQ(NumDescriptors(), before) << address;
  }
}

TEST(ListeningSocketsTest, ANameHasAllOfItsAddressesOrNone) {
  for (const char* const taken_address : kAddresses) {
    PH_ASSERT_OK_AND_ASSIGN(const ListeningSockets taken,
                            ListeningSockets::Open(absl::StrCat(taken_address, ":0")));
    const size_t before = NumDescriptors();
    const std::string address = absl::StrCat(kTwoAddresses, ":", PortOf(taken.address()));
    EXPECT_THAT(
        ListeningSockets::Open(address),
        StatusIs(absl::StatusCode::kUnavailable,
                 HasSubstr(absl::StrCat("cannot listen on '", address, "': Address already"))));
    EXPECT_EQ(NumDescriptors(), before);
  }
  PH_ASSERT_OK_AND_ASSIGN(const ListeningSockets both,
                          ListeningSockets::Open(absl::StrCat(kTwoAddresses, ":0")));
  EXPECT_EQ(both.sockets().size(), 2U);
}

int OptionOf(int socket, int level, int option) {
  int value = -1;
  socklen_t size = sizeof(value);
  EXPECT_EQ(::getsockopt(socket, level, option, &value, &size), 0);
  return value;
}

TEST(ListeningSocketsTest, APortIsOneOfTheAddressesThatThereAre) {
  PH_ASSERT_OK_AND_ASSIGN(const ListeningSockets one, ListeningSockets::Open("127.0.0.1:0"));
  ASSERT_EQ(one.sockets().size(), 1U);
  EXPECT_EQ(one.address(), absl::StrCat("127.0.0.1:", PortOf(one.address())));
  EXPECT_NE(PortOf(one.address()), "0");
  const int socket = one.sockets()[0];
  EXPECT_NE(OptionOf(socket, SOL_SOCKET, SO_REUSEADDR), 0);
  EXPECT_NE(OptionOf(socket, IPPROTO_TCP, TCP_NODELAY), 0);
  EXPECT_EQ(OptionOf(socket, IPPROTO_TCP, TCP_USER_TIMEOUT), 20'000);
  EXPECT_NE(OptionOf(socket, SOL_SOCKET, SO_ACCEPTCONN), 0);
  EXPECT_NE(::fcntl(socket, F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl(socket, F_GETFD) & FD_CLOEXEC, 0);
  for (const char* const name : {"twice.invalid:0", "part.invalid:0"}) {
    PH_ASSERT_OK_AND_ASSIGN(const ListeningSockets named, ListeningSockets::Open(name));
    EXPECT_EQ(named.sockets().size(), 1U) << name;
    EXPECT_NE(PortOf(named.address()), "0");
  }
  const auto refused = [](const std::string& address, absl::string_view why) {
    EXPECT_THAT(
        ListeningSockets::Open(address),
        StatusIs(absl::StatusCode::kUnavailable,
                 testing::StartsWith(absl::StrCat("cannot listen on '", address, "': ", why))));
  };
  refused("nowhere", "the port is missing");
  refused("none.invalid:1", "the host is not known: ");
  refused("away.invalid:0", "Cannot assign requested address");
  // All addresses are those of IPv4, too.
  PH_ASSERT_OK_AND_ASSIGN(const ListeningSockets all, ListeningSockets::Open("0.0.0.0:0"));
  EXPECT_EQ(all.sockets().size(), 1U);
  EXPECT_EQ(all.address(), absl::StrCat("0.0.0.0:", PortOf(all.address())));
  refused(absl::StrCat("127.0.0.1:", PortOf(all.address())), "Address already in use");
  if (const auto local = ListeningSockets::Open("[::1]:0"); local.ok()) {
    EXPECT_EQ(local->address(), absl::StrCat("[::1]:", PortOf(local->address())));
    EXPECT_EQ(OptionOf(all.sockets()[0], SOL_SOCKET, SO_DOMAIN), AF_INET6);
  }
}

class UnixSocketsTest : public ::testing::Test {
 protected:
  absl::StatusOr<ListeningSockets> Open(SocketAccess access = SocketAccess::kUmask,
                                        SocketKind kind = SocketKind::kStream) const {
    return ListeningSockets::Open(address_, access, kind);
  }
  mode_t Mode() const {
    struct stat there = {};
    return ::lstat(path_.c_str(), &there) == 0 ? there.st_mode & 0777U : 0;
  }

  const TemporaryFolder folder_{TemporaryFolder::InMemory()};
  const std::string path_ = folder_.path() + "/socket";
  const std::string address_ = "unix:" + path_;
};

TEST_F(UnixSocketsTest, AreOfTheirKindAndForTheirUsers) {
  const mode_t before = ::umask(027);
  for (const auto& [kind, type] : {std::pair(SocketKind::kStream, SOCK_STREAM),
                                   std::pair(SocketKind::kMessages, SOCK_SEQPACKET)}) {
    for (const auto& [access, mode] :
         {std::pair(SocketAccess::kUmask, 0750U), std::pair(SocketAccess::kOwner, 0600U)}) {
      PH_ASSERT_OK_AND_ASSIGN(const ListeningSockets opened, Open(access, kind));
      ASSERT_EQ(opened.sockets().size(), 1U);
      EXPECT_EQ(opened.address(), address_);
      EXPECT_EQ(OptionOf(opened.sockets()[0], SOL_SOCKET, SO_TYPE), type);
      EXPECT_NE(::fcntl(opened.sockets()[0], F_GETFL) & O_NONBLOCK, 0);
      EXPECT_EQ(Mode(), mode);
      EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kUnavailable,
                                   absl::StrCat("cannot listen on '", address_,
                                                "': another process listens there")));
    }
    EXPECT_FALSE(std::filesystem::exists(path_));
  }
  ::umask(before);
}

TEST_F(UnixSocketsTest, WhatIsLeftBehindIsReplacedAndNothingElse) {
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  path_.copy(name.sun_path, path_.size());
  const int old = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(old, reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
  ::close(old);
  EXPECT_THAT(Open(), IsOk());
  std::ofstream(path_) << "mine";
  EXPECT_THAT(Open(),
              StatusIs(absl::StatusCode::kUnavailable,
                       absl::StrCat("cannot listen on '", address_, "': Address already in use")));
  EXPECT_EQ(std::filesystem::file_size(path_), 4U);
  std::filesystem::remove(path_);
  // Whose path is another's by now leaves it alone.
  PH_ASSERT_OK_AND_ASSIGN(ListeningSockets first, Open());
  std::filesystem::rename(path_, path_ + ".old");
  PH_ASSERT_OK_AND_ASSIGN(ListeningSockets second, Open());
  first.Close();
  EXPECT_THAT(first.sockets(), testing::IsEmpty());
  EXPECT_TRUE(std::filesystem::exists(path_));
  // It moves with its path.
  std::optional<ListeningSockets> moved(std::move(second));
  second.Close();
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("another process")));
  EXPECT_EQ(moved->address(), address_);
  moved.reset();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(UnixSocketsTest, APathHasABound) {
  const auto open = [&](size_t bytes) {
    const std::string path =
        absl::StrCat(folder_.path(), "/", std::string(bytes - folder_.path().size() - 1, 'x'));
    return ListeningSockets::Open("unix:" + path).status();
  };
  EXPECT_THAT(open(107), IsOk());
  EXPECT_THAT(open(108), StatusIs(absl::StatusCode::kUnavailable,
                                  HasSubstr("its path has 108 bytes, at most 107")));
}

// In which nobody waits.
class CountedPauses final : public Execution {
 public:
  CountedPauses() { Enter(this); }
  ~CountedPauses() override { Enter(nullptr); }
  int count() const { return count_; }

  std::unique_ptr<Begun> Begin(std::function<void()> /*work*/) override { return nullptr; }
  void Pause(absl::Duration /*length*/) override { ++count_; }
  bool Block(std::atomic<int32_t>& /*wakes*/, bool /*is_timed*/) override { return false; }

 private:
  int count_ = 0;
};

// Of two servers that start together one waits for the other; and not for ever.
TEST_F(UnixSocketsTest, AFolderThatOthersLockIsAwaitedForASecond) {
  const int locked = ::open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(locked, LOCK_EX), 0);
  {
    const CountedPauses pauses;
    EXPECT_THAT(Open(), IsOk());
    EXPECT_EQ(pauses.count(), 100);
  }
  ::close(locked);
  const CountedPauses pauses;
  const size_t before = NumDescriptors();
  EXPECT_THAT(Open(), IsOk());
  EXPECT_EQ(pauses.count(), 0);
  EXPECT_EQ(NumDescriptors(), before);
}

}  // namespace
}  // namespace packhouse

// In the place of the C library's.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  return packhouse::FindAddresses(host, service, hints, found);
}
