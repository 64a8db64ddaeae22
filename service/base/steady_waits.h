// Timed waits that a step of the machine's wall clock does not touch.
//
// The abseil of Debian 12 waits until a time of CLOCK_REALTIME: if that clock is set back by an
// hour, a wait of a second takes an hour and a second, and so do gRPC's, whose timers wait by
// abseil. Wherever this file is linked in, all waits of absl::Mutex, absl::CondVar,
// absl::Notification and gRPC end after the time that was left when they began, by CLOCK_MONOTONIC.
//
// For it to be linked in, a program calls WaitSteadily(); SystemClock does. tests/structure refuses
// wall times in waits (steady_time_test.py); tests/end_to_end/clock_steps_test.py steps the clock.
#ifndef PACKHOUSE_SERVICE_BASE_STEADY_WAITS_H_
#define PACKHOUSE_SERVICE_BASE_STEADY_WAITS_H_

#include "absl/time/time.h"

namespace packhouse {

// Does nothing more.
void WaitSteadily();

// Now, by a clock that never steps and begins anywhere: differences are times that have passed.
absl::Time SteadyTime();

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_STEADY_WAITS_H_
