#include "client/cpp/lane_reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace packhouse::client {
namespace {

constexpr absl::string_view kMagic = "PHL1";
// Instead of a slot.
constexpr uint32_t kByGrpc = UINT32_MAX;
// The server answers from a thread that does nothing else.
constexpr absl::Duration kLongestAnswer = absl::Seconds(5);
constexpr uint64_t kAlignment = 64;

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

// The answer to the token, and the descriptor that comes with it; -1: none.
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
  if (received == 0) return absl::UnavailableError("lane: the server does not know the token");
  const cmsghdr* const control_message = CMSG_FIRSTHDR(&header);
  if (control_message != nullptr && control_message->cmsg_type == SCM_RIGHTS) {
    std::memcpy(&passed, CMSG_DATA(control_message), sizeof(passed));
  }
  return std::string(bytes.data(), static_cast<size_t>(received));
}

}  // namespace

// The mapping and the socket, as long as the reader or any slot lives.
class LaneReader::Memory {
 public:
  Memory(int socket, char* data, uint32_t num_slots, uint64_t slot_bytes)
      : socket_(socket), data_(data), num_slots_(num_slots), slot_bytes_(slot_bytes) {}
  ~Memory() {
    ::munmap(data_, num_slots_ * slot_bytes_);
    ::close(socket_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  int socket() const { return socket_; }
  uint32_t num_slots() const { return num_slots_; }
  uint64_t slot_bytes() const { return slot_bytes_; }
  const char* slot(uint32_t number) const { return data_ + number * slot_bytes_; }
  bool is_forked() const { return ::getpid() != process_; }

  // One more slot is held; how many there are.
  uint32_t Hold() {
    const absl::MutexLock lock(&mutex_);
    return ++num_held_;
  }
  // Several releases share a message: waking the server for one slot takes longer than filling it.
  void Release(uint32_t slot) {
    const absl::MutexLock lock(&mutex_);
    --num_held_;
    released_.push_back(slot);
    if (is_waiting_ || released_.size() >= num_slots_ / 4) SendReleases();
  }
  // While the reader waits, every release is sent at once: the server may wait for it.
  void BeginWait() {
    const absl::MutexLock lock(&mutex_);
    is_waiting_ = true;
    SendReleases();
  }
  void EndWait() {
    const absl::MutexLock lock(&mutex_);
    is_waiting_ = false;
  }

 private:
  void SendReleases() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (released_.empty()) return;
    // It fails only if the server has closed the lane, or this reader has.
    (void)::send(socket_, released_.data(), released_.size() * sizeof(uint32_t),
                 MSG_DONTWAIT | MSG_NOSIGNAL);
    released_.clear();
  }

  const int socket_;
  char* const data_;
  const uint32_t num_slots_;
  const uint64_t slot_bytes_;
  const pid_t process_ = ::getpid();

  absl::Mutex mutex_;
  uint32_t num_held_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<uint32_t> released_ ABSL_GUARDED_BY(mutex_);  // And the server does not know.
  bool is_waiting_ ABSL_GUARDED_BY(mutex_) = false;
};

class LaneReader::Slot {
 public:
  Slot(std::shared_ptr<Memory> memory, uint32_t number)
      : memory_(std::move(memory)), number_(number) {}
  ~Slot() {
    if (!memory_->is_forked()) memory_->Release(number_);
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

 private:
  const std::shared_ptr<Memory> memory_;
  const uint32_t number_;
};

absl::StatusOr<std::unique_ptr<LaneReader>> LaneReader::Open(const v1::Lane& offer,
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
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (socket.number < 0) return Failed("no socket");
  if (::connect(socket.number, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("lane: cannot connect to '", path,
                     "', so the server is on another host: ", std::strerror(errno)));
  }
  SetPatience(socket.number, kLongestAnswer);
  const std::string hello = absl::StrCat(kMagic, offer.token());
  if (::send(socket.number, hello.data(), hello.size(), MSG_NOSIGNAL) < 0) {
    return Failed("cannot show the token");
  }
  Descriptor file(-1);
  const absl::StatusOr<std::string> answer = ReceiveAnswer(socket.number, file.number);
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
  return std::unique_ptr<LaneReader>(new LaneReader(
      std::make_shared<Memory>(socket.Release(), static_cast<char*>(data), num_slots, slot_bytes),
      num_before));
}

LaneReader::~LaneReader() {
  if (!memory_->is_forked()) Cancel();
}

void LaneReader::Cancel() { ::shutdown(memory_->socket(), SHUT_RDWR); }

LaneMessage LaneReader::Take() {
  LaneMessage message;
  std::array<char, 16> bytes;
  ssize_t received = ::recv(memory_->socket(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  // ECONNRESET: a server that was killed, and had not read all releases. It is said once, before
  // messages that are there still.
  if (received < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNRESET)) {
    memory_->BeginWait();
    do {
      received = ::recv(memory_->socket(), bytes.data(), bytes.size(), 0);
    } while (received < 0 && (errno == EINTR || errno == ECONNRESET));
    memory_->EndWait();
  }
  if (received < 0 && errno == EAGAIN) {
    message.kind = LaneMessage::Kind::kQuiet;
    return message;
  }
  if (received != static_cast<ssize_t>(bytes.size())) return message;
  const char* from = bytes.data();
  const auto number = Get<uint32_t>(from);
  const auto offset = Get<uint32_t>(from);
  const auto size = Get<uint64_t>(from);
  if (number == kByGrpc) {
    message.kind = LaneMessage::Kind::kByGrpc;
    return message;
  }
  if (number >= memory_->num_slots() || offset > memory_->slot_bytes() ||
      size > memory_->slot_bytes() - offset) {
    return message;
  }
  message.kind = LaneMessage::Kind::kBatch;
  message.response = absl::string_view(memory_->slot(number) + offset, size);
  const uint32_t num_held = memory_->Hold();
  auto slot = std::make_shared<const Slot>(memory_, number);
  if (num_held + 2 <= memory_->num_slots()) {
    message.owner = std::move(slot);
    return message;
  }
  // At the same place of a cache line, so that tensors stay aligned.
  const auto copy = std::make_shared_for_overwrite<char[]>(size + 2 * kAlignment);
  char* begin = copy.get();
  begin += (kAlignment - reinterpret_cast<uintptr_t>(begin) % kAlignment) % kAlignment;
  begin += offset % kAlignment;
  std::memcpy(begin, message.response.data(), size);
  message.response = absl::string_view(begin, size);
  message.owner = copy;
  return message;
}

}  // namespace packhouse::client
