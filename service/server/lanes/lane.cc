#include "service/server/lanes/lane.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/status_macros.h"
#include "service/server/lanes/lane_door.h"

namespace packhouse {
namespace {

constexpr char kMagic[] = {'P', 'H', 'L', '1'};
// Instead of a slot: the next response is on gRPC.
constexpr uint32_t kByGrpc = UINT32_MAX;

// Little-endian.
template <typename T>
void Put(T value, char*& to) {
  std::memcpy(to, &value, sizeof(value));
  to += sizeof(value);
}

// One message with a descriptor. False with errno.
bool SendDescriptor(int socket, absl::string_view message, int descriptor) {
  iovec part = {const_cast<char*>(message.data()), message.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* const passed = CMSG_FIRSTHDR(&header);
  passed->cmsg_level = SOL_SOCKET;
  passed->cmsg_type = SCM_RIGHTS;
  passed->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(passed), &descriptor, sizeof(descriptor));
  return ::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(message.size());
}

// Closes it so that the client still reads all that was sent. What this side had left unread would
// reset the connection, and a client takes that for its end.
void CloseInOrder(int socket) {
  ::shutdown(socket, SHUT_RD);
  char bytes;
  ssize_t received;
  do {
    received = ::recv(socket, &bytes, sizeof(bytes), MSG_DONTWAIT);
  } while (received > 0 || (received < 0 && errno == EINTR));
  ::close(socket);
}

absl::Status Closed(absl::string_view why) {
  return absl::UnavailableError(
      absl::StrCat("the client has closed its lane (", why, "); load again"));
}

}  // namespace

LaneSize LaneSize::For(uint64_t batch_bytes) {
  // About what two processors' caches hold.
  constexpr uint64_t kUsualBytes = uint64_t{16} << 20;
  constexpr uint64_t kFewest = 4;
  constexpr uint64_t kMost = 16;
  LaneSize size;
  size.slot_bytes = std::clamp<uint64_t>(batch_bytes, 1, kMostBytes / kFewest);
  size.slot_bytes = (size.slot_bytes + kSlotUnit - 1) / kSlotUnit * kSlotUnit;
  size.num_slots =
      static_cast<uint32_t>(std::clamp<uint64_t>(kUsualBytes / size.slot_bytes, kFewest, kMost));
  return size;
}

Lane::Lane(LaneDoor* door, LaneCounts* counts, LaneWay way, const LaneSize& size,
           SharedMemory memory, Holds holds, std::string token, std::function<void()> wake)
    : door_(door),
      counts_(counts),
      way_(way),
      size_(size),
      token_(std::move(token)),
      wake_(std::move(wake)),
      holds_(std::move(holds)),
      memory_(std::move(memory)),
      ring_(size.num_slots),
      // So that a message that is too long shows.
      received_((size.num_slots + 1) * sizeof(uint32_t)) {
  ++counts_->num_offered;
}

Lane::~Lane() {
  const absl::MutexLock lock(&mutex_);
  door_->Leave(token_, id_, socket_);
  if (socket_ >= 0) {
    CloseInOrder(socket_);
    --counts_->num_open;
  }
  counts_->num_slots_sent -= ring_.num_sent();
  --counts_->num_offered;
}

void Lane::Open(int socket, uint64_t id) {
  const absl::MutexLock lock(&mutex_);
  std::array<char, 24> answer;
  char* to = answer.data();
  for (const char c : kMagic) Put(c, to);
  Put(size_.num_slots, to);
  Put(size_.slot_bytes, to);
  Put(num_by_grpc_, to);
  socket_ = socket;
  id_ = id;
  ++counts_->num_open;
  *open_flag_ = true;
  if (!SendDescriptor(socket, {answer.data(), answer.size()}, memory_.file())) {
    broken_ = Closed(std::strerror(errno));
  }
  memory_.CloseFile();
  if (way_ == LaneWay::kToClient) return;
  while (const std::optional<uint32_t> slot = ring_.Take()) GiveToFillLocked(*slot).IgnoreError();
}

absl::StatusOr<bool> Lane::IsOpen() {
  const absl::MutexLock lock(&mutex_);
  if (socket_ < 0) return false;
  ReadReleasesLocked();
  if (!broken_.ok()) return broken_;
  return true;
}

void Lane::ReadReleasesLocked() {
  const uint32_t before = ring_.num_sent();
  while (broken_.ok()) {
    // Without room for descriptors: those that the client passes are dropped by the system.
    const ssize_t bytes = ::recv(socket_, received_.data(), received_.size(), MSG_DONTWAIT);
    if (bytes > 0) {
      broken_ = ring_.Release({received_.data(), static_cast<size_t>(bytes)});
    } else if (bytes == 0) {
      broken_ = Closed("end of file");
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      broken_ = Closed(std::strerror(errno));
    }
  }
  counts_->num_slots_sent -= before - ring_.num_sent();
}

std::optional<uint32_t> Lane::TakeSlot() {
  const absl::MutexLock lock(&mutex_);
  return ring_.Take();
}

void Lane::GiveBack(uint32_t slot) {
  const absl::MutexLock lock(&mutex_);
  ring_.GiveBack(slot);
}

absl::Status Lane::Send(uint32_t slot, uint32_t offset, uint64_t size) {
  const absl::MutexLock lock(&mutex_);
  // Before the client can release it.
  ring_.Send(slot);
  ++counts_->num_slots_sent;
  ++counts_->num_batches;
  return SendLocked(slot, offset, size);
}

absl::Status Lane::SendByGrpc() {
  const absl::MutexLock lock(&mutex_);
  if (socket_ >= 0) return SendLocked(kByGrpc, 0, 0);
  ++num_by_grpc_;
  return absl::OkStatus();
}

absl::Status Lane::TakeFilled(uint32_t slot) {
  const absl::MutexLock lock(&mutex_);
  PH_RETURN_IF_ERROR(ring_.TakeBack(slot));
  --counts_->num_slots_sent;
  return absl::OkStatus();
}

absl::Status Lane::GiveToFill(uint32_t slot) {
  const absl::MutexLock lock(&mutex_);
  return GiveToFillLocked(slot);
}

absl::Status Lane::GiveToFillLocked(uint32_t slot) {
  // Before the client can name it.
  ring_.Send(slot);
  ++counts_->num_slots_sent;
  return SendLocked(slot, 0, 0);
}

bool Lane::HasRoom() {
  const absl::MutexLock lock(&mutex_);
  pollfd room = {socket_, POLLOUT, 0};
  // Also of a connection that has ended: sending says so.
  return socket_ < 0 || ::poll(&room, 1, 0) != 0;
}

absl::Status Lane::SendLocked(uint32_t slot, uint32_t offset, uint64_t size) {
  std::array<char, 16> message;
  char* to = message.data();
  Put(slot, to);
  Put(offset, to);
  Put(size, to);
  // Its buffer takes hundreds of messages: a client that leaves so many does not read.
  if (::send(socket_, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    broken_ = Closed(std::strerror(errno));
    return broken_;
  }
  return absl::OkStatus();
}

void Lane::AwaitRelease() { Await(EPOLLIN); }

void Lane::AwaitRoom() { Await(EPOLLOUT); }

void Lane::Await(uint32_t event) {
  const absl::MutexLock lock(&mutex_);
  awaited_ = event;
  if (socket_ >= 0) door_->Arm(socket_, id_, event);
}

void Lane::AwaitAgain() {
  const absl::MutexLock lock(&mutex_);
  if (socket_ >= 0) door_->Arm(socket_, id_, awaited_);
}

}  // namespace packhouse
