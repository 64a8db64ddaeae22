// Whether nobody waits any more for a plan or an epoch.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_CANCELLATION_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_CANCELLATION_H_

#include <cstddef>
#include <functional>
#include <type_traits>
#include <utility>

namespace packhouse {

// Asked now and then by the thread that makes it, and by threads that wait for another to make it.
// Both may take long to answer, since makers may have to wait for their turn; so do not ask under a
// lock. By default somebody waits. A single function that gives bool serves both.
class Cancellation {
 public:
  using Ask = std::function<bool()>;

  Cancellation() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): as of functions.
  Cancellation(std::nullptr_t) {}
  // NOLINTNEXTLINE(google-explicit-constructor): any function will do.
  Cancellation(Ask ask) : making_(std::move(ask)), waiting_(making_) {}
  template <typename Function,
            typename = std::enable_if_t<!std::is_same_v<std::decay_t<Function>, Cancellation> &&
                                        std::is_invocable_r_v<bool, Function&>>>
  // NOLINTNEXTLINE(google-explicit-constructor): any function will do.
  Cancellation(Function&& ask) : Cancellation(Ask(std::forward<Function>(ask))) {}
  Cancellation(Ask making, Ask waiting)
      : making_(std::move(making)), waiting_(std::move(waiting)) {}

  // May be empty.
  const Ask& while_making() const { return making_; }

  bool WhileWaiting() const { return waiting_ && waiting_(); }

 private:
  Ask making_;
  Ask waiting_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_CANCELLATION_H_
