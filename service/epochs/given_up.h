// Whether nobody waits any more for what is made.
#ifndef PACKHOUSE_SERVICE_EPOCHS_GIVEN_UP_H_
#define PACKHOUSE_SERVICE_EPOCHS_GIVEN_UP_H_

#include <functional>
#include <type_traits>
#include <utility>

namespace packhouse {

// Asked now and then by who makes it, and by who waits until another has made it. Either may take
// its time to answer, so that nobody asks under a lock: makers may be made to wait for their turn.
// By default somebody waits. A function that gives bool is asked by both.
class GivenUp {
 public:
  using Ask = std::function<bool()>;

  GivenUp() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): any function will do.
  GivenUp(Ask ask) : making_(std::move(ask)), waiting_(making_) {}
  template <typename Function,
            typename = std::enable_if_t<!std::is_same_v<std::decay_t<Function>, GivenUp> &&
                                        std::is_invocable_r_v<bool, Function&>>>
  // NOLINTNEXTLINE(google-explicit-constructor): any function will do.
  GivenUp(Function&& ask) : GivenUp(Ask(std::forward<Function>(ask))) {}
  GivenUp(Ask making, Ask waiting) : making_(std::move(making)), waiting_(std::move(waiting)) {}

  // May be empty.
  const Ask& while_making() const { return making_; }

  bool WhileWaiting() const { return waiting_ && waiting_(); }

 private:
  Ask making_;
  Ask waiting_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_EPOCHS_GIVEN_UP_H_
