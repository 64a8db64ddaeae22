// What a streaming call stands between, held by a test: a connection, a pool, and work by a script.
#ifndef PACKHOUSE_TESTS_WIRE_SCRIPTED_CALL_H_
#define PACKHOUSE_TESTS_WIRE_SCRIPTED_CALL_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "gtest/gtest.h"
#include "service/access/job_pool.h"
#include "service/base/clock.h"
#include "service/server/calls/call_headers.h"
#include "service/server/calls/call_link.h"
#include "service/server/calls/call_work.h"
#include "service/server/calls/request_bytes.h"
#include "tests/support/random.h"

namespace packhouse {

// Counts what is unsent, and calls. Thread-safe.
class UnsentObserver final : public RpcObserver {
 public:
  void OnStarted(Method) override { ++num_open_; }
  void OnFinished(Method, absl::StatusCode, absl::Duration) override { --num_open_; }
  void OnPlanned(absl::Duration, double) override {}
  void OnUnsent(Method, int64_t responses, int64_t bytes) override {
    responses_ += responses;
    bytes_ += bytes;
  }
  int64_t num_open() const { return num_open_; }
  int64_t responses() const { return responses_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::atomic<int64_t> num_open_ = 0;
  std::atomic<int64_t> responses_ = 0;
  std::atomic<int64_t> bytes_ = 0;
};

// Runs jobs when the test says so.
class ManualPool final : public JobPool {
 public:
  void Submit(const ClientId& /*client*/, std::function<void()> job) override {
    jobs_.push_back(std::move(job));
  }
  bool empty() const { return jobs_.empty(); }
  void RunOne() {
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    job();
  }

 private:
  std::deque<std::function<void()>> jobs_;
};

// A response that says its number and is of the given size, without as much memory.
inline MessagePieces NumberedResponse(uint64_t number, size_t bytes) {
  static const std::string* const filling = new std::string(size_t{1} << 20, 'x');
  MessagePieces pieces;
  pieces.head = absl::StrCat(number);
  pieces.framed_tensors = absl::string_view(*filling).substr(0, bytes);
  return pieces;
}

// How many there are is known to the test: none may be left at the end.
class TextRequest final : public RequestBytes {
 public:
  TextRequest(std::string text, std::atomic<int>* num_alive)
      : text_(std::move(text)), num_alive_(num_alive) {
    ++*num_alive_;
  }
  ~TextRequest() override { --*num_alive_; }
  TextRequest(const TextRequest&) = delete;
  TextRequest& operator=(const TextRequest&) = delete;

  size_t size() const override { return text_.size(); }
  void Read(absl::FunctionRef<void(google::protobuf::io::ZeroCopyInputStream& stream)> read)
      const override {
    google::protobuf::io::ArrayInputStream stream(text_.data(), static_cast<int>(text_.size()));
    read(stream);
  }
  const std::string& text() const { return text_; }

 private:
  const std::string text_;
  std::atomic<int>* const num_alive_;
};

class NoHeaders final : public CallHeaders {
 public:
  bool Has(const std::string& /*key*/) const override { return false; }
  void Add(const std::string& /*key*/, const std::string& /*value*/) override {}
  void AddTrailing(const std::string& /*key*/, const std::string& /*value*/) override {}
};

// Begins what it is asked, and has the test end it. Fails the test if it is asked what it must not
// be. Thread-safe.
class ScriptedLink final : public CallLink {
 public:
  struct State {
    bool is_reading = false;
    bool is_writing = false;
    bool is_cancelled = false;
    std::optional<absl::Status> status;  // What it finished with.
  };

  void StartRead() override {
    absl::MutexLock lock(&mutex_);
    EXPECT_FALSE(state_.status) << "a read after the end";
    EXPECT_FALSE(state_.is_reading) << "two reads at a time";
    state_.is_reading = true;
  }
  void StartWrite(MessagePieces response) override {
    {
      absl::MutexLock lock(&mutex_);
      EXPECT_FALSE(state_.status) << "a write after the end";
      EXPECT_FALSE(state_.is_writing) << "two writes at a time";
      state_.is_writing = true;
      sent_.push_back(std::move(response.head));
    }
    while_sending();
  }
  void Finish(const absl::Status& status) override {
    while_finishing();
    absl::MutexLock lock(&mutex_);
    EXPECT_FALSE(state_.status) << "it ends twice";
    EXPECT_FALSE(state_.is_writing) << "it ends while a write is on its way";
    state_.status = status;
  }
  void Cancel() override {
    absl::MutexLock lock(&mutex_);
    EXPECT_FALSE(state_.status) << "cancelled after the end";
    state_.is_cancelled = true;
  }

  // Called in each StartWrite(), without any lock: a link may send before it returns. To be set
  // before the call begins.
  std::function<void()> while_sending = [] {};
  // The same in Finish(), of which the call's lock is held.
  std::function<void()> while_finishing = [] {};

  State state() const {
    absl::MutexLock lock(&mutex_);
    return state_;
  }
  // The heads of all responses.
  std::vector<std::string> sent() const {
    absl::MutexLock lock(&mutex_);
    return sent_;
  }
  // Whether one was on its way, which the test must tell the call of.
  bool EndRead() { return End(&State::is_reading); }
  bool EndWrite() { return End(&State::is_writing); }
  bool EndCancel() { return End(&State::is_cancelled); }
  // Waits for `what`, or for the end: then false.
  bool Await(bool State::*what) const {
    const auto has_come = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return state_.status || state_.*what;
    };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&has_come));
    return !state_.status;
  }

 private:
  bool End(bool State::*what) {
    absl::MutexLock lock(&mutex_);
    return std::exchange(state_.*what, false);
  }

  mutable absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> sent_ ABSL_GUARDED_BY(mutex_);
};

// What work does and how far it is; outlives it. The counts may be read by any thread.
struct Script {
  bool takes_requests = false;
  bool may_block = false;
  size_t max_bytes = 1000;  // Of a response.
  uint64_t seed = 0;
  // Called by each of the work's functions, without any lock.
  std::function<void()> meanwhile = [] {};
  // In percent of calls.
  uint64_t error = 0;
  uint64_t no_memory = 0;
  uint64_t no_room = 0;
  uint64_t busy = 0;
  // That a request has to be planned on another thread.
  uint64_t plans = 0;

  // Without requests: how many responses there are so far, and whether there will be no more.
  std::atomic<uint64_t> produced = 0;
  std::atomic<bool> is_complete = false;

  std::atomic<uint64_t> given = 0;
  std::atomic<uint64_t> owed = 0;  // By the requests that were accepted, now or later.
  std::atomic<uint64_t> accepted = 0;
  std::atomic<bool> has_failed = false;  // It ends with an error of the work.
  std::atomic<bool> is_waiting_for_room = false;
  std::atomic<bool> is_planning = false;
  std::atomic<bool> is_gone = false;
  absl::Time due = absl::InfiniteFuture();  // When it owes more, of itself. The work's own.
};

// A request "n" is owed n responses, "n d" these and one more after d milliseconds.
class ScriptedWork final : public CallWork {
 public:
  ScriptedWork(const Clock* clock, Script* script)
      : clock_(clock), script_(script), random_(script->seed) {}
  ~ScriptedWork() override {
    Enter();
    script_->is_gone = true;
  }
  ScriptedWork(const ScriptedWork&) = delete;
  ScriptedWork& operator=(const ScriptedWork&) = delete;

  bool takes_requests() const override { return script_->takes_requests; }
  bool MayBlock() const override { return script_->may_block; }
  Need need() const override { return need_; }
  absl::Time NextDeadline() const override { return script_->due; }

  absl::StatusOr<std::optional<MessagePieces>> Next() override {
    const Visit visit(this);
    script_->meanwhile();
    Fail();
    if (Happens(script_->error)) return Error();
    if (clock_->Now() >= script_->due) GiveDue();
    if (script_->is_planning) {
      need_ = Need::kWake;
      return std::nullopt;
    }
    // Asked for first: what comes afterwards is told by a wake-up.
    const bool is_complete = script_->is_complete;
    if (script_->given < (script_->takes_requests ? script_->owed : script_->produced)) {
      return NumberedResponse(script_->given++, random_.Below(script_->max_bytes));
    }
    need_ = script_->takes_requests ? Need::kRequest : is_complete ? Need::kNothing : Need::kWake;
    if (Happens(script_->busy)) need_ = Need::kTurn;
    return std::nullopt;
  }

  absl::Status Accept(std::unique_ptr<RequestBytes>& bytes) override {
    const Visit visit(this);
    EXPECT_FALSE(script_->is_planning) << "a request meanwhile";
    script_->meanwhile();
    Fail();
    script_->is_waiting_for_room = Happens(script_->no_room);
    if (script_->is_waiting_for_room) return absl::ResourceExhaustedError("no room");
    const std::unique_ptr<RequestBytes> request = std::move(bytes);
    if (Happens(script_->error)) return Error();
    const std::string& text = static_cast<const TextRequest&>(*request).text();
    GiveDue();
    uint64_t owed = 0;
    EXPECT_TRUE(absl::SimpleAtoi(text.substr(0, text.find(' ')), &owed));
    script_->owed += owed;
    if (const size_t space = text.find(' '); space != std::string::npos) {
      int64_t milliseconds = 0;
      EXPECT_TRUE(absl::SimpleAtoi(text.substr(space), &milliseconds));
      script_->due = clock_->Now() + absl::Milliseconds(milliseconds);
    }
    ++script_->accepted;
    script_->is_planning = Happens(script_->plans);
    return absl::OkStatus();
  }

  void Close() override {
    const Visit visit(this);
    EXPECT_FALSE(std::exchange(is_closed_, true)) << "closed twice";
    script_->meanwhile();
    Fail();
    GiveDue();
    script_->is_complete = true;
    // Some work begins only when no more requests will come.
    script_->is_planning = script_->takes_requests && Happens(script_->plans);
  }

 private:
  // Touches what is guarded by nothing: for ThreadSanitizer and for calls within calls.
  void Enter() { EXPECT_FALSE(std::exchange(is_inside_, true)) << "two threads at work"; }
  class Visit {
   public:
    explicit Visit(ScriptedWork* work) : work_(work) { work_->Enter(); }
    ~Visit() { work_->is_inside_ = false; }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    ScriptedWork* const work_;
  };

  bool Happens(uint64_t percent) { return random_.Below(100) < percent; }
  void Fail() {
    if (!Happens(script_->no_memory)) return;
    script_->has_failed = true;
    throw std::bad_alloc();
  }
  absl::Status Error() {
    script_->has_failed = true;
    return absl::DataLossError("as the script says");
  }
  void GiveDue() {
    if (std::exchange(script_->due, absl::InfiniteFuture()) != absl::InfiniteFuture()) {
      ++script_->owed;
    }
  }

  const Clock* const clock_;
  Script* const script_;
  Random random_;
  Need need_ = Need::kTurn;
  bool is_inside_ = false;
  bool is_closed_ = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_WIRE_SCRIPTED_CALL_H_
