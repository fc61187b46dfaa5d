// SPDX-License-Identifier: Apache-2.0
// Collectives whose blocks differ in size. A side with a block for each rank is a list of arrays,
// or one array and the number of elements for each rank.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <numeric>

#include "docs/v_forms.hpp"
#include "module.hpp"

namespace ccoll::python {
namespace {

using nb::handle;
using Text = std::string_view;
using Counts = std::optional<std::vector<std::int64_t>>;

template <typename AnyBlock>
std::vector<AnyBlock> cut(const AnyBlock& whole, const Counts& counts, int parts) {
  std::vector<AnyBlock> blocks;
  if (parts > 1 && whole.count % 2 != 0)
    refuse("blocks: the elements end with half a complex number");
  // Blocks begin where rows do.
  const auto row = whole.row_length;
  auto* at = static_cast<const std::byte*>(whole.data);
  for (const auto count : checked_counts(whole.count / static_cast<std::size_t>(parts), *counts)) {
    const auto elems = count * static_cast<std::size_t>(parts);
    if (row > 0 && elems % row != 0)
      refuse("blocks: " + std::to_string(count) +
             " elements of an array with gaps between its rows: expected whole rows of " +
             std::to_string(row / static_cast<std::size_t>(parts)));
    auto& block = blocks.emplace_back();
    block = whole;
    block.count = elems;
    if constexpr (std::is_same_v<AnyBlock, Block>)
      block.data = const_cast<std::byte*>(at);
    else
      block.data = at;
    at += (row > 0 ? elems / row * whole.stride : elems) * size_of(whole.type);
  }
  return blocks;
}

/// The blocks of `object`, which are read or written.
template <typename AnyBlock>
std::vector<AnyBlock> blocks_of(Arguments& arguments, handle object, const Counts& counts,
                                const char* name) {
  const auto add = [&](handle each, const char* as) -> AnyBlock {
    if constexpr (std::is_same_v<AnyBlock, Block>)
      return arguments.write(each, as);
    else
      return arguments.read(each, as);
  };
  if (!is_list(object)) {
    if (!counts)
      refuse(std::string(arguments.call()) + ": " + name +
             " is not a list: expected a list with an array for each rank, or the counts of one "
             "array");
    const AnyBlock whole = add(object, name);
    return cut(whole, counts, arguments.parts());
  }
  if (counts)
    refuse(std::string(arguments.call()) +
           ": counts are given for a list of arrays: expected None");
  std::vector<AnyBlock> blocks;
  std::size_t at = 0;
  for (const handle each : nb::borrow<nb::sequence>(object))
    blocks.push_back(add(each, (std::string(name) + "[" + std::to_string(at++) + "]").c_str()));
  return blocks;
}

/// The caller's list, or a new array for `counts` elements in all.
Output outputs_for(const char* call, handle out, handle like, const Counts& counts) {
  if (!out.is_none()) return {nb::borrow(out), nb::none()};
  if (!counts)
    refuse(std::string(call) +
           ": out is None: expected the arrays, or the counts of one new array");
  std::size_t all = 0;
  for (const auto count : *counts) all += count < 0 ? 0 : static_cast<std::size_t>(count);
  return output_for(out, like, Form::flat, 1, all);
}

/// An array of the same kind as those of `object`.
nb::object first_of(handle object) {
  return is_list(object) ? nb::object(nb::borrow(object)[0]) : nb::borrow(object);
}

template <Mode mode>
nb::object all_gather_v(Comm& self, handle x, handle out, Counts counts, Seconds timeout,
                        Text algorithm, Text label) {
  Arguments arguments("all_gather_v");
  const auto options = call_options(timeout, algorithm, label);
  const auto in = arguments.read(x, "x");
  auto output = outputs_for("all_gather_v", out, x, counts);
  const auto to = blocks_of<Block>(arguments, output.array, counts, "out");
  const auto in_stream = arguments.in_stream(options);
  auto work = self.begin([&](auto& on) { return on.all_gather_v_async(in, to, in_stream); });
  return answer<mode>(self, std::move(work), std::move(arguments), outcome_of(std::move(output)));
}

template <Mode mode>
nb::object reduce_scatter_v(Comm& self, handle x, handle out, handle op, Counts counts,
                            Seconds timeout, Text algorithm, Text label) {
  Arguments arguments("reduce_scatter_v");
  const auto options = call_options(timeout, algorithm, label);
  const auto in = blocks_of<ConstBlock>(arguments, x, counts, "x");
  const auto rank = static_cast<std::size_t>(self.open()->rank());
  Counts own;
  if (rank < in.size())
    own = std::vector{static_cast<std::int64_t>(in[rank].count) / arguments.parts()};
  if (out.is_none() && is_list(x) && nb::len(nb::borrow(x)) == 0)
    refuse("reduce_scatter_v: x is an empty list");
  auto output = outputs_for("reduce_scatter_v", out, first_of(x), own);
  const auto to = arguments.write(output.array, "out");
  const auto reduction = reduction_of(op, arguments);
  const auto in_stream = arguments.in_stream(options);
  auto work =
      self.begin([&](auto& on) { return on.reduce_scatter_v_async(in, to, reduction, in_stream); });
  return answer<mode>(self, std::move(work), std::move(arguments), outcome_of(std::move(output)));
}

template <Mode mode>
nb::object all_to_all_v(Comm& self, handle x, handle out, Counts counts, Counts out_counts,
                        Seconds timeout, Text algorithm, Text label) {
  Arguments arguments("all_to_all_v");
  const auto options = call_options(timeout, algorithm, label);
  const auto in = blocks_of<ConstBlock>(arguments, x, counts, "x");
  if (out.is_none() && is_list(x) && nb::len(nb::borrow(x)) == 0)
    refuse("all_to_all_v: x is an empty list");
  auto output = outputs_for("all_to_all_v", out, first_of(x), out_counts);
  const auto to = blocks_of<Block>(arguments, output.array, out_counts, "out");
  const auto in_stream = arguments.in_stream(options);
  auto work = self.begin([&](auto& on) { return on.all_to_all_v_async(in, to, in_stream); });
  return answer<mode>(self, std::move(work), std::move(arguments), outcome_of(std::move(output)));
}

template <Mode mode>
nb::object gather_v(Comm& self, handle x, handle out, int root, Counts counts, Seconds timeout,
                    Text algorithm, Text label) {
  Arguments arguments("gather_v");
  const auto options = call_options(timeout, algorithm, label);
  const auto in = arguments.read(x, "x");
  Output output{nb::none(), nb::none()};
  std::vector<Block> to;
  if (self.open()->rank() == root) {
    output = outputs_for("gather_v", out, x, counts);
    to = blocks_of<Block>(arguments, output.array, counts, "out");
  }
  const auto in_stream = arguments.in_stream(options);
  auto work = self.begin([&](auto& on) { return on.gather_v_async(in, to, root, in_stream); });
  return answer<mode>(self, std::move(work), std::move(arguments), outcome_of(std::move(output)));
}

template <Mode mode>
nb::object scatter_v(Comm& self, handle x, handle out, int root, Counts counts, Seconds timeout,
                     Text algorithm, Text label) {
  Arguments arguments("scatter_v");
  const auto options = call_options(timeout, algorithm, label);
  const auto to = arguments.write(out, "out");
  std::vector<ConstBlock> in;
  if (self.open()->rank() == root) in = blocks_of<ConstBlock>(arguments, x, counts, "x");
  const auto in_stream = arguments.in_stream(options);
  auto work = self.begin([&](auto& on) { return on.scatter_v_async(in, to, root, in_stream); });
  return answer<mode>(self, std::move(work), std::move(arguments), {.value = nb::borrow(out)});
}

}  // namespace

void bind_v_forms(Class& communicator) {
  using namespace nb::literals;
  const auto both = [&](const char* name, auto blocking, auto async, const char* doc,
                        auto... arguments) {
    define_both(communicator, name, blocking, async, doc, docs::kAsyncV, arguments...,
                "timeout"_a = nb::none(), "algorithm"_a = "", "label"_a = "");
  };
  const auto x = "x"_a.none();  // None gets an error that names the argument
  const auto out = "out"_a.none() = nb::none();
  const auto op = "op"_a.none() = nb::none();
  const auto root = "root"_a = 0;
  const auto counts = "counts"_a = nb::none();
  const nb::kw_only named;
  both("all_gather_v", all_gather_v<Mode::blocking>, all_gather_v<Mode::async>, docs::kAllGatherV,
       x, out, named, counts);
  both("reduce_scatter_v", reduce_scatter_v<Mode::blocking>, reduce_scatter_v<Mode::async>,
       docs::kReduceScatterV, x, out, op, named, counts);
  both("all_to_all_v", all_to_all_v<Mode::blocking>, all_to_all_v<Mode::async>, docs::kAllToAllV, x,
       out, named, counts, "out_counts"_a = nb::none());
  both("gather_v", gather_v<Mode::blocking>, gather_v<Mode::async>, docs::kGatherV, x, out, root,
       named, counts);
  both("scatter_v", scatter_v<Mode::blocking>, scatter_v<Mode::async>, docs::kScatterV, x,
       "out"_a.none(), root, named, counts);
}

}  // namespace ccoll::python
