// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The variables of the environment that ccoll reads: the one table of them, of what each may be,
/// and the one place that asks the system for their values. docs/environment.md is this table for
/// people.

#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace ccoll {

/// The most copies of an algorithm's lanes that may be asked for.
inline constexpr int kMaxLanes = 1024;

/// The values a variable may have, where that can be told of its text alone.
struct Values {
  std::span<const std::string_view> words = {};
  /// Or whole numbers, where `most` is not less.
  long least = 0;
  long most = -1;
  /// Or a time, which is written in seconds with fractions, where `longest` is not zero: from
  /// `shortest` to that, or `endless`, which stands for no limit.
  std::chrono::milliseconds shortest{0};
  std::chrono::milliseconds longest{0};
  std::string_view endless = {};
  /// Whether it may be several of the words, with commas between them, and `^` before them for all
  /// but these.
  bool is_list = false;
};

struct Variable {
  std::string_view name;
  std::string_view otherwise;  ///< what holds where it is not set
  std::string_view meaning;
  Values values = {};
};

/// Those of one source: ccoll's own, or another program's that ccoll reads.
struct VariableGroup {
  std::string_view title;
  std::span<const Variable> variables;
};

std::span<const VariableGroup> variable_groups();
bool is_known_variable(std::string_view name);
/// The values that `name`, which is in the table, may have.
Values values_of(std::string_view name);
/// Whether `name`, which is one of some words, or several of them, may be `text`.
Status check_word(std::string_view name, std::string_view text);

/// The value of `name`, which is in the table; nullopt where it is not set or empty.
std::optional<std::string> read_variable(const std::string& name);
/// The same of one that is one of some words, a number or a time; fails where it is something else.
Result<std::optional<std::string>> read_word(const std::string& name);
Result<std::optional<long>> read_number(const std::string& name);
/// kNoLimit (core/deadline.hpp) where there is to be none. What is finer than milliseconds is
/// rounded up.
Result<std::optional<std::chrono::milliseconds>> read_time(const std::string& name);

/// Values of variables that the environment does not set, from elsewhere: what it says in another
/// library's words. For who sets them before anything of ccoll begins in this process.
void set_fallbacks(std::map<std::string, std::string> values);

/// The environment's variables of another library, by name, without those that are empty.
std::map<std::string, std::string> variables_that_begin_with(std::string_view prefix);

/// Whether all that are set are what they may be: for who starts ranks, so that not each of these
/// has to tell it.
Status check_variables();

/// The remarks on names of a whole environment that begin with CCOLL_ and are not in the
/// table, each with the variable that may have been meant.
std::vector<std::string> unknown_variables(std::span<const std::string> names);

/// Logs that of this process's environment as warnings, once however often it is called.
void warn_of_unknown_variables();

}  // namespace ccoll
