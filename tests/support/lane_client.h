// A client of lanes that says what a test tells it to, true or not (docs/lane.md).
#ifndef PACKHOUSE_TESTS_SUPPORT_LANE_CLIENT_H_
#define PACKHOUSE_TESTS_SUPPORT_LANE_CLIENT_H_

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// Descriptors of this process.
inline size_t NumDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

class LaneClient {
 public:
  struct Message {
    uint32_t slot = 0;
    uint32_t offset = 0;
    uint64_t size = 0;

    bool is_by_grpc() const { return slot == UINT32_MAX; }
  };

  // Connects and says nothing.
  explicit LaneClient(const std::string& path) {
    socket_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      Close();
    }
  }
  ~LaneClient() {
    Close();
    Unmap();
  }
  LaneClient(LaneClient&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)),
        memory_(std::exchange(other.memory_, nullptr)),
        num_slots_(other.num_slots_),
        slot_bytes_(other.slot_bytes_),
        num_before_(other.num_before_),
        seals_(other.seals_),
        can_cut_(other.can_cut_) {}
  LaneClient& operator=(LaneClient&&) = delete;

  bool is_connected() const { return socket_ >= 0; }
  int socket() const { return socket_; }
  void Close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }

  bool Say(absl::string_view message) const {
    return ::send(socket_, message.data(), message.size(), MSG_NOSIGNAL) >= 0;
  }
  bool Release(const std::vector<uint32_t>& slots) const {
    return Say({reinterpret_cast<const char*>(slots.data()), slots.size() * sizeof(uint32_t)});
  }

  // Shows a token, and maps what comes for it. False if the server closes the connection.
  bool Open(absl::string_view token) { return Show(token) && IsAnswered(); }
  bool Show(absl::string_view token) const { return Say(absl::StrCat("PHL1", token)); }
  bool IsAnswered() {
    std::array<char, 24> bytes;
    iovec part = {bytes.data(), bytes.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
    msghdr header = {};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    if (::recvmsg(socket_, &header, MSG_CMSG_CLOEXEC) != static_cast<ssize_t>(bytes.size())) {
      return false;
    }
    const cmsghdr* const passed = CMSG_FIRSTHDR(&header);
    if (passed == nullptr) return false;
    int file = -1;
    std::memcpy(&file, CMSG_DATA(passed), sizeof(file));
    std::memcpy(&num_slots_, bytes.data() + 4, sizeof(num_slots_));
    std::memcpy(&slot_bytes_, bytes.data() + 8, sizeof(slot_bytes_));
    std::memcpy(&num_before_, bytes.data() + 16, sizeof(num_before_));
    seals_ = ::fcntl(file, F_GET_SEALS);
    can_cut_ = ::ftruncate(file, 0) == 0 ||
               ::ftruncate(file, static_cast<off_t>(2 * num_slots_ * slot_bytes_)) == 0;
    void* const data =
        ::mmap(nullptr, num_slots_ * slot_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (data == MAP_FAILED) return false;
    memory_ = static_cast<char*>(data);
    return absl::string_view(bytes.data(), 4) == "PHL1";
  }
  void Unmap() {
    if (memory_ != nullptr) ::munmap(std::exchange(memory_, nullptr), num_slots_ * slot_bytes_);
  }

  // Waits for the next message; nullopt at the end.
  std::optional<Message> Read() const {
    std::array<char, 17> bytes;
    if (::recv(socket_, bytes.data(), bytes.size(), 0) != 16) return std::nullopt;
    Message message;
    std::memcpy(&message.slot, bytes.data(), sizeof(message.slot));
    std::memcpy(&message.offset, bytes.data() + 4, sizeof(message.offset));
    std::memcpy(&message.size, bytes.data() + 8, sizeof(message.size));
    return message;
  }
  // Whether Read() would not wait.
  bool HasMessage() const {
    pollfd ready = {socket_, POLLIN, 0};
    return ::poll(&ready, 1, 0) > 0;
  }
  // Waits until the server has closed the connection.
  bool IsLeft() const {
    while (Read()) {
    }
    return true;
  }

  char* slot(uint32_t number) const { return memory_ + number * slot_bytes_; }
  absl::string_view Bytes(const Message& message) const {
    return {slot(message.slot) + message.offset, message.size};
  }
  uint32_t num_slots() const { return num_slots_; }
  uint64_t slot_bytes() const { return slot_bytes_; }
  uint64_t num_before() const { return num_before_; }
  int seals() const { return seals_; }
  // Whether it could make the memory shorter or longer.
  bool can_cut() const { return can_cut_; }

 private:
  int socket_ = -1;
  char* memory_ = nullptr;
  uint32_t num_slots_ = 0;
  uint64_t slot_bytes_ = 0;
  uint64_t num_before_ = 0;
  int seals_ = 0;
  bool can_cut_ = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_LANE_CLIENT_H_
