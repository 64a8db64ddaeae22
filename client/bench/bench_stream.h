// Streams that the benchmark reads as fast as they come, with the times of their messages.
#ifndef PACKHOUSE_CLIENT_BENCH_BENCH_STREAM_H_
#define PACKHOUSE_CLIENT_BENCH_BENCH_STREAM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/client_callback.h"

namespace packhouse::client {

// A message that counts.
struct Arrival {
  // The time of a clock that never goes back.
  int64_t nanos;
  uint32_t bytes;
  uint32_t graphs;
};

// The present time, as in Arrival.
int64_t MonotonicNanos();
inline constexpr double kNanosPerMillisecond = 1e6;

// Use: Start, Cancel, Wait; then read the arrivals.
class BenchStream {
 public:
  virtual ~BenchStream() = default;

  virtual void Start() = 0;
  // Whether a message that counts has come. Any thread may call it.
  bool has_begun() const { return has_begun_.load(std::memory_order_acquire); }
  virtual bool has_ended() = 0;
  virtual void Cancel() = 0;
  // Waits for the end. Errors: the reason why the stream ended, unless it was Cancel.
  virtual absl::Status Wait() = 0;

  const std::vector<Arrival>& arrivals() const { return arrivals_; }
  // Times from the beginning of each epoch to its first batch; empty if there are no epochs.
  const std::vector<int64_t>& opening_nanos() const { return opening_nanos_; }

 protected:
  BenchStream() { arrivals_.reserve(std::size_t{1} << 12); }
  // Called by one thread at a time.
  void Record(uint64_t bytes, uint64_t graphs);
  void RecordOpening(int64_t nanos) { opening_nanos_.push_back(nanos); }

 private:
  std::vector<Arrival> arrivals_;
  std::vector<int64_t> opening_nanos_;
  std::atomic<bool> has_begun_ = false;
};

// One that a thread reads by calls that block.
class BlockingStream : public BenchStream {
 public:
  void Start() override;
  bool has_ended() override;
  void Cancel() override;
  absl::Status Wait() override;

 protected:
  // The destructor of a kind calls it.
  void Leave();

 private:
  // Reads until it ends, or CancelReading() is called, by any thread; why it ended.
  virtual absl::Status Read() = 0;
  virtual void CancelReading() = 0;
  void Run();

  std::thread thread_;
  absl::Mutex mutex_;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> status_ ABSL_GUARDED_BY(mutex_);
};

// The graphs of a received message; nullopt if the message does not count.
using MessageReader =
    std::function<absl::StatusOr<std::optional<uint64_t>>(const grpc::ByteBuffer& message)>;

// For messages that count and have no graphs.
absl::StatusOr<std::optional<uint64_t>> CountNothing(const grpc::ByteBuffer& message);

// One call of bytes: a first message, then a cycle of others, as fast as possible.
class CycleStream final : public BenchStream,
                          private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // `cycle` begins at `first_of_cycle` and must outlive the stream. It may be null: then there is
  // only the first request.
  CycleStream(std::shared_ptr<grpc::Channel> channel, std::string method,
              const grpc::ByteBuffer& first, const std::vector<grpc::ByteBuffer>* cycle,
              std::size_t first_of_cycle, MessageReader reader);

  void Start() override;
  bool has_ended() override;
  void Cancel() override;
  absl::Status Wait() override;

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  grpc::GenericStub stub_;
  const std::string method_;
  const grpc::ByteBuffer first_;
  const std::vector<grpc::ByteBuffer>* const cycle_;
  const MessageReader reader_;
  grpc::ClientContext context_;
  // Used by the reader and the writer.
  grpc::ByteBuffer response_;
  absl::Status read_status_;
  std::size_t next_;

  absl::Mutex mutex_;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_BENCH_STREAM_H_
