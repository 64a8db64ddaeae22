#include "client/cpp/lane_slots.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace packhouse::client {
namespace {

constexpr absl::string_view kMagic = "PHL1";
// The server answers from a thread that does nothing else.
constexpr absl::Duration kLongestAnswer = absl::Seconds(5);
// How often it may close a connection whose token it has not read, for others that knock.
constexpr int kMostTries = 16;

template <typename T>
T Get(const char*& from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  from += sizeof(value);
  return value;
}

// Closes a descriptor.
struct Descriptor {
  explicit Descriptor(int of) : number(of) {}
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int Release() { return std::exchange(number, -1); }
  void Reset(int other) {
    if (number >= 0) ::close(number);
    number = other;
  }

  int number;
};

absl::Status Failed(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat("lane: ", what, ": ", std::strerror(errno)));
}

// How long a receive waits; infinite: for ever.
void SetPatience(int socket, absl::Duration patience) {
  const timeval time = patience == absl::InfiniteDuration() ? timeval{} : absl::ToTimeval(patience);
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
}

// The answer to the token, and the descriptor that comes with it; -1: none. After an error errno
// says why, or is 0 at the end of the file.
absl::StatusOr<std::string> ReceiveAnswer(int socket, int& passed) {
  std::array<char, 25> bytes;
  iovec part = {bytes.data(), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control;
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t received = 0;
  do {
    received = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0) return Failed("the server does not answer");
  errno = 0;
  if (received == 0) return absl::NotFoundError("lane: the server does not know the token");
  const cmsghdr* const control_message = CMSG_FIRSTHDR(&header);
  if (control_message != nullptr && control_message->cmsg_type == SCM_RIGHTS) {
    std::memcpy(&passed, CMSG_DATA(control_message), sizeof(passed));
  }
  return std::string(bytes.data(), static_cast<size_t>(received));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LaneSlots>> LaneSlots::Open(const v1::Lane& offer,
                                                           absl::Duration quiet) {
  const std::string& path = offer.socket_path();
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::FailedPreconditionError(
        absl::StrCat("lane: the server offers none: ",
                     offer.refusal().empty() ? "it does not know of lanes" : offer.refusal()));
  }
  path.copy(address.sun_path, path.size());
  const std::string hello = absl::StrCat(kMagic, offer.token());
  Descriptor socket(-1);
  Descriptor file(-1);
  absl::StatusOr<std::string> answer = std::string();
  bool is_unread = true;
  for (int i = 0; is_unread && i < kMostTries; ++i) {
    socket.Reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (socket.number < 0) return Failed("no socket");
    if (::connect(socket.number, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
        0) {
      if (i > 0) return Failed("the server has gone");
      if (errno == ECONNREFUSED) {
        return Failed(absl::StrCat("the server has gone, or is on another host: '", path, "'"));
      }
      return absl::FailedPreconditionError(
          absl::StrCat("lane: cannot connect to '", path,
                       "', so the server is on another host: ", std::strerror(errno)));
    }
    SetPatience(socket.number, kLongestAnswer);
    answer = ::send(socket.number, hello.data(), hello.size(), MSG_NOSIGNAL) < 0
                 ? Failed("cannot show the token")
                 : ReceiveAnswer(socket.number, file.number);
    // Of a token that was read and is not known, it says the end of the file.
    is_unread = !answer.ok() && (errno == EPIPE || errno == ECONNRESET);
  }
  if (!answer.ok()) return answer.status();
  if (answer->size() != 24 || answer->substr(0, kMagic.size()) != kMagic || file.number < 0) {
    return absl::UnavailableError("lane: the server answers otherwise than this client knows");
  }
  const char* from = answer->data() + kMagic.size();
  const auto num_slots = Get<uint32_t>(from);
  const auto slot_bytes = Get<uint64_t>(from);
  const auto num_before = Get<uint64_t>(from);
  // Otherwise reading it could end this process.
  struct stat there = {};
  if (::fstat(file.number, &there) != 0 || num_slots == 0 || slot_bytes == 0 ||
      static_cast<uint64_t>(there.st_size) / num_slots < slot_bytes ||
      (::fcntl(file.number, F_GET_SEALS) & F_SEAL_SHRINK) == 0) {
    return absl::UnavailableError("lane: the server's memory is not as it says");
  }
  void* const data =
      ::mmap(nullptr, num_slots * slot_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.number, 0);
  if (data == MAP_FAILED) return Failed("cannot map its memory");
  SetPatience(socket.number, quiet);
  return std::unique_ptr<LaneSlots>(
      new LaneSlots(socket.Release(), static_cast<char*>(data), num_slots, slot_bytes, num_before));
}

LaneSlots::~LaneSlots() {
  ::munmap(data_, num_slots_ * slot_bytes_);
  ::close(socket_);
}

std::optional<LaneSlots::Message> LaneSlots::Receive(bool waits) const {
  std::array<char, 16> bytes;
  const ssize_t received = ::recv(socket_, bytes.data(), bytes.size(), waits ? 0 : MSG_DONTWAIT);
  if (received != static_cast<ssize_t>(bytes.size())) {
    if (received >= 0) errno = 0;
    return std::nullopt;
  }
  const char* from = bytes.data();
  Message message;
  message.slot = Get<uint32_t>(from);
  message.offset = Get<uint32_t>(from);
  message.size = Get<uint64_t>(from);
  return message;
}

void LaneSlots::Cancel() const { ::shutdown(socket_, SHUT_RDWR); }

}  // namespace packhouse::client
