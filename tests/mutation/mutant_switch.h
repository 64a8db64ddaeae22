// What stands where a source is mutated: both forms, and a switch that says which one is taken.
//
// PACKHOUSE_MUTANT is the number of the mutant that is switched on in a process; none is without
// it. With PACKHOUSE_MUTANT_REACHED, each switch that is asked is noted there, with the test that
// runs then; with PACKHOUSE_MUTANT_ONCE too, only with the first. mutations.py writes the switches,
// see mutant_builds.py.

#ifndef PACKHOUSE_TESTS_MUTATION_MUTANT_SWITCH_H_
#define PACKHOUSE_TESTS_MUTATION_MUTANT_SWITCH_H_

namespace packhouse_mutant {

inline constexpr int kMostMutants = 1 << 16;

// Of each mutant: 0 until it is asked, then kOff or kOn; it stays 0 while it is noted what is
// reached. Where both forms come to the same, none is asked: a test that meets only such a case
// cannot see the mutant.
inline constexpr unsigned char kOff = 1;
inline constexpr unsigned char kOn = 2;
extern unsigned char states[kMostMutants];

bool Ask(int number);

// Whether a mutant is switched on. Thread-safe.
inline bool Is(int number) {
  const unsigned char state = __atomic_load_n(&states[number], __ATOMIC_RELAXED);
  return state == 0 ? Ask(number) : state == kOn;
}

// `a < Less<7>() < b` is a < b, and a <= b where mutant 7 is on: as near to its neighbours as the
// operator itself.
template <class A, class Operator>
struct Half {
  const A& a;
};

// What an operator makes of its sides: the mutant's, if it is on.
template <class Before, class After>
Before Either(int number, Before before, const After& after) {
  if constexpr (requires { static_cast<bool>(before == after); }) {
    if (static_cast<bool>(before == after)) return before;
  }
  if (Is(number)) return static_cast<Before>(after);
  return before;
}

#define PACKHOUSE_MUTANT_OPERATOR(name, before, after)                          \
  template <int kNumber>                                                        \
  struct name {};                                                               \
  template <class A, int kNumber>                                               \
  Half<A, name<kNumber>> operator before(const A& a, name<kNumber> /*which*/) { \
    return {a};                                                                 \
  }                                                                             \
  template <class A, int kNumber, class B>                                      \
  auto operator before(Half<A, name<kNumber>> half, const B& b) {               \
    return Either(kNumber, half.a before b, half.a after b);                    \
  }

PACKHOUSE_MUTANT_OPERATOR(Less, <, <=)
PACKHOUSE_MUTANT_OPERATOR(LessOrEqual, <=, <)
PACKHOUSE_MUTANT_OPERATOR(Greater, >, >=)
PACKHOUSE_MUTANT_OPERATOR(GreaterOrEqual, >=, >)
PACKHOUSE_MUTANT_OPERATOR(Equal, ==, !=)
PACKHOUSE_MUTANT_OPERATOR(NotEqual, !=, ==)
PACKHOUSE_MUTANT_OPERATOR(Plus, +, -)
PACKHOUSE_MUTANT_OPERATOR(Minus, -, +)
PACKHOUSE_MUTANT_OPERATOR(Times, *, +)
PACKHOUSE_MUTANT_OPERATOR(Over, /, *)
PACKHOUSE_MUTANT_OPERATOR(Modulo, %, /)

}  // namespace packhouse_mutant

#define PH_MUTANT_RETURN_IF_ERROR(number, ...)                              \
  do {                                                                      \
    absl::Status ph_status = (__VA_ARGS__);                                 \
    if (!ph_status.ok() && !packhouse_mutant::Is(number)) return ph_status; \
  } while (false)

#endif  // PACKHOUSE_TESTS_MUTATION_MUTANT_SWITCH_H_
