// SPDX-License-Identifier: Apache-2.0
#include "show/real/expression.hpp"

#include <charconv>
#include <cmath>

namespace ccoll::show {

namespace {

constexpr int kDeepest = 100;

/// Evaluates while parsing: sum, product and factor are the grammar's three levels.
class Evaluation {
 public:
  Evaluation(std::string_view text, double r, double i, double n)
      : text_(text), r_(r), i_(i), n_(n) {}

  Result<double> run() {
    auto value = sum();
    if (value && peek() != '\0') return expected("an operator or the end");
    return value;
  }

 private:
  Result<double> sum() {
    auto left = product();
    while (left && (peek() == '+' || peek() == '-')) {
      const char op = take();
      const auto right = product();
      if (!right) return right;
      *left = op == '+' ? *left + *right : *left - *right;
    }
    return left;
  }

  Result<double> product() {
    auto left = factor();
    while (left && (peek() == '*' || peek() == '/' || peek() == '%')) {
      const std::size_t where = at_;
      const char op = take();
      const auto right = factor();
      if (!right) return right;
      if (op != '*' && *right == 0)
        return fail(ErrorKind::invalid_argument,
                    "'{}', column {}: division by 0 where r is {}, i is {} and n is {}", text_,
                    where + 1, r_, i_, n_);
      *left = op == '*' ? *left * *right : op == '/' ? *left / *right : std::fmod(*left, *right);
    }
    return left;
  }

  Result<double> factor() {
    if (++depth_ > kDeepest)
      return fail(ErrorKind::invalid_argument, "'{}': nested more than {} deep", text_, kDeepest);
    const auto value = nested_factor();
    --depth_;
    return value;
  }

  Result<double> nested_factor() {
    switch (peek()) {
      case '-': {
        take();
        const auto value = factor();
        return value ? Result<double>(-*value) : value;
      }
      case '(': {
        take();
        const auto value = sum();
        if (value && peek() != ')') return expected("a ')'");
        take();
        return value;
      }
      case 'r':
        take();
        return r_;
      case 'i':
        take();
        return i_;
      case 'n':
        take();
        return n_;
      default:
        return number();
    }
  }

  Result<double> number() {
    double value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc() || end == begin || !std::isfinite(value))
      return expected("a number, r (the rank), i (the element), n (how many ranks), - or (");
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }

  /// The next non-blank character; 0 at the end.
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') at_++;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  char take() { return at_ < text_.size() ? text_[at_++] : '\0'; }
  tl::unexpected<Failure> expected(std::string_view what) {
    const char found = peek();
    return fail(ErrorKind::invalid_argument, "'{}', column {}: found {}, expected {}", text_,
                at_ + 1, found == '\0' ? "the end" : fmt::format("'{}'", found), what);
  }

  const std::string_view text_;
  const double r_, i_, n_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Result<double> evaluate(std::string_view text, std::uint64_t r, std::uint64_t i, std::uint64_t n) {
  return Evaluation(text, static_cast<double>(r), static_cast<double>(i), static_cast<double>(n))
      .run();
}

}  // namespace ccoll::show
