#include "service/base/listening_sockets.h"

#include <dlfcn.h>
#include <netdb.h>

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

// A name that this program alone knows, of these addresses in this order.
constexpr absl::string_view kTwoAddresses = "two.invalid";
constexpr const char* kAddresses[] = {"127.0.0.1", "127.0.0.2"};

int FindAddresses(const char* host, const char* service, const addrinfo* hints, addrinfo** found) {
  using Function = int(const char*, const char*, const addrinfo*, addrinfo**);
  static auto* const next = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  if (host != kTwoAddresses) return next(host, service, hints, found);
  for (const char* const address : kAddresses) {
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

}  // namespace
}  // namespace packhouse

// In the place of the C library's.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  return packhouse::FindAddresses(host, service, hints, found);
}
