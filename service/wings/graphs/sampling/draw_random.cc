#include "service/wings/graphs/sampling/draw_random.h"

#include <cmath>

namespace packhouse {

double PortableLog(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);  // In [0.5, 1).
  if (mantissa < 0.70710678118654752) {
    mantissa *= 2;
    --exponent;
  }
  // log(m) = 2 atanh(t), |t| < 0.1716; the first term left out is below 1e-18.
  const double t = (mantissa - 1) / (mantissa + 1);
  const double square = t * t;
  double sum = 0;
  for (int n = 21; n >= 1; n -= 2) sum = sum * square + 1.0 / n;
  return 2 * t * sum + exponent * 0.69314718055994531;
}

double Exponential(SeededRandom& random) {
  // In (0, 1), in steps of 2^-53.
  const double uniform =
      (static_cast<double>(random.Next() >> 11) + 0.5) * (1.0 / 9007199254740992.0);
  return -PortableLog(uniform);
}

}  // namespace packhouse
