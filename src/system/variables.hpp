// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The environment variables that ccoll reads: the one table of them and of their valid values, and
/// the one place that reads them. docs/environment.md is this table for people.

#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace ccoll {

/// Upper limit on copies of an algorithm's lanes in a setting.
inline constexpr int kMaxLanes = 1024;

/// The values that a variable may have, if its text alone can show that one is wrong.
struct Values {
  std::span<const std::string_view> words = {};
  /// Whole numbers are valid if `most` is at least `least`.
  long least = 0;
  long most = -1;
  /// A time, in seconds with fractions, is valid if `longest` is not zero: from `shortest` to
  /// `longest`, or `endless`, which stands for no limit.
  std::chrono::milliseconds shortest{0};
  std::chrono::milliseconds longest{0};
  std::string_view endless = {};
  /// Whether several of the words are valid, with commas between them, and `^` first for all but
  /// these.
  bool is_list = false;
};

struct Variable {
  std::string_view name;
  std::string_view otherwise;  ///< the value if it is not set
  std::string_view meaning;
  Values values = {};
};

/// The variables of one source: ccoll's own, or another program's that ccoll reads.
struct VariableGroup {
  std::string_view title;
  std::span<const Variable> variables;
};

std::span<const VariableGroup> variable_groups();
bool is_known_variable(std::string_view name);
/// The valid values of `name`, which must be in the table.
Values values_of(std::string_view name);
/// Whether `text` is valid for `name`, which takes one of some words, or several.
Status check_word(std::string_view name, std::string_view text);

/// The value of `name`, which must be in the table; nullopt if it is not set or empty.
std::optional<std::string> read_variable(const std::string& name);
/// The same for a variable with words, a number or a time; fails if its value is not valid.
Result<std::optional<std::string>> read_word(const std::string& name);
Result<std::optional<long>> read_number(const std::string& name);
/// kNoLimit (core/deadline.hpp) if there is no limit. Fractions of a millisecond are rounded up.
Result<std::optional<std::chrono::milliseconds>> read_time(const std::string& name);

/// Values for variables that the environment does not set, such as settings in another library's
/// words. Set them before any other part of ccoll begins in this process. `sources` has what
/// failures call these variables, such as the name in those words.
void set_fallbacks(std::map<std::string, std::string> values,
                   std::map<std::string, std::string> sources);
/// How a failure calls `name`: by that name, or by the source of its fallback.
std::string set_as(const std::string& name);

/// The environment's variables that begin with `prefix`, by name, without empty ones.
std::map<std::string, std::string> variables_that_begin_with(std::string_view prefix);

/// Whether all variables that are set have valid values. A program that starts ranks calls it, so
/// that not every rank has to report it.
Status check_variables();

/// The remarks on names of a whole environment that begin with CCOLL_ and are not in the table,
/// each with the variable that may be meant.
std::vector<std::string> unknown_variables(std::span<const std::string> names);

/// Logs the remarks on this process's environment as warnings, only at the first call.
void warn_of_unknown_variables();

}  // namespace ccoll
