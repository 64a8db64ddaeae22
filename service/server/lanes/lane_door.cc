#include "service/server/lanes/lane_door.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/out_of_memory.h"
#include "service/base/short_slices.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// Before the token.
constexpr absl::string_view kHello = "PHL1";
// Numbers of what is waited for; connections have those above.
constexpr uint64_t kStop = 0;
constexpr uint64_t kListener = 1;
// How soon it accepts again after it had no descriptor left.
constexpr int kRetryMs = 10;

bool Watch(int poll, int operation, int socket, uint32_t events, uint64_t id) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = id;
  return ::epoll_ctl(poll, operation, socket, &event) == 0;
}

}  // namespace

LaneDoor::LaneDoor(ListeningSockets sockets, MemoryBudget* memory)
    : sockets_(std::move(sockets)),
      path_(sockets_.address().substr(absl::string_view("unix:").size())),
      memory_(memory),
      lanes_memory_(memory == nullptr ? UINT64_MAX : memory->bound() / 4 * 3),
      next_id_(kListener + 1) {}

absl::StatusOr<std::unique_ptr<LaneDoor>> LaneDoor::Open(const std::string& address,
                                                         MemoryBudget* memory) {
  PH_ASSIGN_OR_RETURN(ListeningSockets sockets,
                      ListeningSockets::Open(address, SocketAccess::kUmask, SocketKind::kMessages));
  auto door = std::unique_ptr<LaneDoor>(new LaneDoor(std::move(sockets), memory));
  door->poll_ = ::epoll_create1(EPOLL_CLOEXEC);
  door->stop_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (door->poll_ < 0 || door->stop_ < 0 ||
      !Watch(door->poll_, EPOLL_CTL_ADD, door->stop_, EPOLLIN, kStop) ||
      !Watch(door->poll_, EPOLL_CTL_ADD, door->sockets_.sockets().front(), EPOLLIN, kListener)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot wait at '", address, "': ", std::strerror(errno)));
  }
  door->thread_ = Thread([door = door.get()] { door->Run(); });
  return door;
}

void LaneDoor::Stop() {
  if (thread_.is_begun()) {
    const uint64_t one = 1;
    while (::write(stop_, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
    thread_.Join();
  }
  sockets_.Close();
}

LaneDoor::~LaneDoor() {
  Stop();
  for (const auto& [id, socket] : silent_) ::close(socket);
  if (stop_ >= 0) ::close(stop_);
  if (poll_ >= 0) ::close(poll_);
}

absl::StatusOr<std::shared_ptr<Lane>> LaneDoor::Offer(const LaneSize& size,
                                                      std::function<void()> wake, LaneWay way) {
  const bool is_to_client = way == LaneWay::kToClient;
  LaneCounts& counts = is_to_client ? counts_ : counts_to_server_;
  Lane::Holds holds;
  if (memory_ != nullptr) {
    // What a client has filled is copied, one slot at a time.
    const uint64_t bytes = size.bytes() + (is_to_client ? 0 : size.slot_bytes);
    MemoryBudget* of = &lanes_memory_;
    for (MemoryHold& hold : holds) {
      absl::StatusOr<MemoryHold> held = of->Hold("a lane", bytes);
      if (!held.ok()) {
        ++counts.num_refused;
        return held.status();
      }
      hold = *std::move(held);
      of = memory_;
    }
  }
  absl::StatusOr<SharedMemory> memory =
      SharedMemory::Create(size.bytes(), {.label = "packhouse-lane", .is_sealed = true});
  std::string token(kTokenBytes, '\0');
  if (!memory.ok() || ::getentropy(token.data(), token.size()) != 0) {
    ++counts.num_refused;
    if (!memory.ok()) return memory.status();
    return absl::ResourceExhaustedError("the system has no random bytes");
  }
  const std::shared_ptr<Lane> lane(new Lane(this, &counts, way, size, *std::move(memory),
                                            std::move(holds), token, std::move(wake)));
  const absl::MutexLock lock(&mutex_);
  by_token_.insert_or_assign(std::move(token), lane);
  return lane;
}

void LaneDoor::Leave(const std::string& token, uint64_t id, int socket) {
  if (socket >= 0) Watch(poll_, EPOLL_CTL_DEL, socket, 0, id);
  const absl::MutexLock lock(&mutex_);
  by_token_.erase(token);
  by_id_.erase(id);
}

void LaneDoor::Arm(int socket, uint64_t id, uint32_t event) {
  Watch(poll_, EPOLL_CTL_MOD, socket, event | EPOLLONESHOT, id);
}

void LaneDoor::Run() {
  AskForShortSlices();
  std::array<epoll_event, 64> events;
  for (;;) {
    const int num = ::epoll_wait(poll_, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < num; ++i) {
      const uint64_t id = events[static_cast<size_t>(i)].data.u64;
      if (id == kStop) return;
      if (id == kListener) {
        AcceptAll();
      } else if (const auto silent = silent_.find(id); silent != silent_.end()) {
        const int socket = silent->second;
        silent_.erase(silent);
        ReadToken(id, socket);
      } else {
        WakeLane(id);
      }
    }
  }
}

void LaneDoor::AcceptAll() {
  for (;;) {
    const int socket =
        ::accept4(sockets_.sockets().front(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      pollfd stop = {stop_, POLLIN, 0};
      // Otherwise the listener would be ready again at once.
      if (errno != EAGAIN) ::poll(&stop, 1, kRetryMs);
      return;
    }
    if (silent_.size() == kMostSilent) {
      const auto [oldest, its_socket] = *silent_.begin();
      silent_.erase(silent_.begin());
      // It may have shown its token meanwhile.
      ReadToken(oldest, its_socket);
    }
    const uint64_t id = next_id_++;
    if (!RunWithinMemory([&] { silent_.emplace(id, socket); })) {
      ::close(socket);
    } else if (!Watch(poll_, EPOLL_CTL_ADD, socket, EPOLLIN, id)) {
      silent_.erase(id);
      ::close(socket);
    }
  }
}

void LaneDoor::ReadToken(uint64_t id, int socket) {
  std::array<char, kHello.size() + kTokenBytes + 1> received;
  const ssize_t bytes = ::recv(socket, received.data(), received.size(), MSG_DONTWAIT);
  const absl::string_view hello(received.data(), static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
  std::shared_ptr<Lane> lane;
  // From here on it tells of releases only when it is armed, and of its end once.
  if (hello.size() == kHello.size() + kTokenBytes && hello.substr(0, kHello.size()) == kHello &&
      Watch(poll_, EPOLL_CTL_MOD, socket, EPOLLONESHOT, id)) {
    RunWithinMemory([&] { lane = Claim(hello.substr(kHello.size()), id); });
  }
  if (lane == nullptr) {
    ::close(socket);
  } else {
    lane->Open(socket, id);
  }
}

std::shared_ptr<Lane> LaneDoor::Claim(absl::string_view token, uint64_t id) {
  const absl::MutexLock lock(&mutex_);
  const auto found = by_token_.find(token);
  if (found == by_token_.end()) return nullptr;
  std::shared_ptr<Lane> lane = found->second.lock();
  if (lane != nullptr) by_id_.insert_or_assign(id, lane);
  by_token_.erase(found);
  return lane;
}

void LaneDoor::WakeLane(uint64_t id) {
  std::shared_ptr<Lane> lane;
  {
    const absl::MutexLock lock(&mutex_);
    if (const auto found = by_id_.find(id); found != by_id_.end()) lane = found->second.lock();
  }
  if (lane == nullptr || RunWithinMemory([&] { lane->wake_(); })) return;
  // Tries again a little later.
  pollfd stop = {stop_, POLLIN, 0};
  ::poll(&stop, 1, kRetryMs);
  lane->AwaitAgain();
}

}  // namespace packhouse
