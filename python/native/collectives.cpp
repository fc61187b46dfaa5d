// SPDX-License-Identifier: Apache-2.0
// Collectives whose blocks have one size, and calls on lists of arrays.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>

#include "docs/collectives.hpp"
#include "module.hpp"

namespace ccoll::python {
namespace {

using nb::handle;
using Text = std::string_view;

/// A call in place reads the memory on the root, and writes it elsewhere.
Block writable(const ConstBlock& block) {
  return {const_cast<void*>(block.data), block.count, block.type, block.row_length, block.stride};
}

/// The arrays of a list, each with its result.
struct Pairs {
  std::vector<BufferPair> blocks;
  nb::list results;
  nb::list finishes;
  bool any_finish = false;

  Outcome outcome() {
    if (!any_finish) return {.value = std::move(results)};
    return {.value = nb::make_tuple(results, finishes), .finish = helpers().finish_all};
  }
};

Pairs pairs_of(Arguments& arguments, handle inputs, handle outs, Form form, int size) {
  Pairs pairs;
  const nb::object given = nb::borrow(inputs);
  const std::size_t count = nb::len(given);
  if (!outs.is_none() && (!is_list(outs) || nb::len(nb::borrow(outs)) != count))
    refuse(std::string(arguments.call()) + ": x is a list of " + std::to_string(count) +
           " arrays: expected out to be a list of as many, or None");
  for (std::size_t i = 0; i < count; i++) {
    const nb::object input = given[i];
    const nb::object out = outs.is_none() ? nb::none() : nb::object(nb::borrow(outs)[i]);
    const auto name = "x[" + std::to_string(i) + "]";
    const auto out_name = "out[" + std::to_string(i) + "]";
    const ConstBlock in = arguments.read(input, name.c_str());
    Output output = output_for(out, input, form, size);
    pairs.blocks.emplace_back(in, arguments.write(output.array, out_name.c_str()));
    pairs.any_finish = pairs.any_finish || !output.finish.is_none();
    pairs.results.append(output.array);
    pairs.finishes.append(output.finish);
  }
  return pairs;
}

/// call(communicator, options) makes a call in the form that `mode` says.
template <Mode mode, typename Call>
ccoll::Work make(Comm& self, const CallOptions& options, Call&& call) {
  if constexpr (mode == Mode::async)
    return self.begin([&](auto& on) { return call(on, options); });
  else
    return self.run(options, call);
}

template <Mode mode>
nb::object all_reduce(Comm& self, handle x, handle out, handle op, Seconds timeout, Text algorithm,
                      Text label) {
  Arguments arguments("all_reduce");
  const auto options = call_options(timeout, algorithm, label);
  if (is_list(x)) {
    auto pairs = pairs_of(arguments, x, out, Form::like, 1);
    const auto reduction = reduction_of(op, arguments);
    auto work = make<mode>(self, arguments.in_stream(options), [&](auto& on, const auto& how) {
      if constexpr (mode == Mode::async)
        return on.all_reduce_async(pairs.blocks, reduction, how);
      else
        on.all_reduce(pairs.blocks, reduction, how);
    });
    return answer<mode>(self, std::move(work), std::move(arguments), pairs.outcome());
  }
  const auto in = arguments.read(x, "x");
  auto output = output_for(out, x, Form::like, 1);
  const auto to = arguments.write(output.array, "out");
  const auto reduction = reduction_of(op, arguments);
  auto work = make<mode>(self, arguments.in_stream(options), [&](auto& on, const auto& how) {
    if constexpr (mode == Mode::async)
      return on.all_reduce_async(in, to, reduction, how);
    else
      on.all_reduce(in, to, reduction, how);
  });
  return answer<mode>(self, std::move(work), std::move(arguments), outcome_of(std::move(output)));
}

template <Mode mode>
nb::object reduce(Comm& self, handle x, int root, handle op, handle out, Seconds timeout,
                  Text algorithm, Text label) {
  Arguments arguments("reduce");
  const auto options = call_options(timeout, algorithm, label);
  const auto in = arguments.read(x, "x");
  Output output{nb::none(), nb::none()};
  Block to(nullptr, in.count, in.type);
  if (self.open()->rank() == root) {
    output = output_for(out, x, Form::like, 1);
    to = arguments.write(output.array, "out");
  }
  const auto reduction = reduction_of(op, arguments);
  auto work = make<mode>(self, arguments.in_stream(options), [&](auto& on, const auto& how) {
    if constexpr (mode == Mode::async)
      return on.reduce_async(in, to, reduction, root, how);
    else
      on.reduce(in, to, reduction, root, how);
  });
  return answer<mode>(self, std::move(work), std::move(arguments), outcome_of(std::move(output)));
}

template <Mode mode>
nb::object broadcast(Comm& self, handle x, int root, handle out, Seconds timeout, Text algorithm,
                     Text label) {
  Arguments arguments("broadcast");
  const auto options = call_options(timeout, algorithm, label);
  const bool is_root = self.open()->rank() == root;
  const handle result = out.is_none() ? x : out;
  ccoll::Work work;
  if (is_list(x)) {
    std::vector<BufferPair> blocks;
    if (!out.is_none())
      refuse("broadcast: out is given with a list of arrays: expected None, they are in place");
    for (const handle each : nb::borrow<nb::sequence>(x)) {
      const auto in =
          is_root ? arguments.read(each, "x[i]") : ConstBlock(arguments.write(each, "x[i]"));
      blocks.emplace_back(in, writable(in));
    }
    work = make<mode>(self, arguments.in_stream(options), [&](auto& on, const auto& how) {
      if constexpr (mode == Mode::async)
        return on.broadcast_async(blocks, root, how);
      else
        on.broadcast(blocks, root, how);
    });
  } else if (out.is_none()) {
    // The root only reads, so its array may be read-only.
    const auto in = is_root ? arguments.read(x, "x") : ConstBlock(arguments.write(x, "x"));
    const Block both = writable(in);
    work = make<mode>(self, arguments.in_stream(options), [&](auto& on, const auto& how) {
      if constexpr (mode == Mode::async)
        return on.broadcast_async(both, root, how);
      else
        on.broadcast(both, root, how);
    });
  } else {
    const auto to = arguments.write(out, "out");
    const auto in = is_root ? arguments.read(x, "x") : ConstBlock(nullptr, to.count, to.type);
    work = make<mode>(self, arguments.in_stream(options), [&](auto& on, const auto& how) {
      if constexpr (mode == Mode::async)
        return on.broadcast_async(in, to, root, how);
      else
        on.broadcast(in, to, root, how);
    });
  }
  return answer<mode>(self, std::move(work), std::move(arguments), {.value = nb::borrow(result)});
}

template <Mode mode>
nb::object all_gather(Comm& self, handle x, handle out, Seconds timeout, Text algorithm,
                      Text label) {
  Arguments arguments("all_gather");
  const auto options = call_options(timeout, algorithm, label);
  const int size = self.open()->size();
  if (is_list(x)) {
    auto pairs = pairs_of(arguments, x, out, Form::stacked, size);
    auto work = make<mode>(self, arguments.in_stream(options), [&](auto& on, const auto& how) {
      if constexpr (mode == Mode::async)
        return on.all_gather_async(pairs.blocks, how);
      else
        on.all_gather(pairs.blocks, how);
    });
    return answer<mode>(self, std::move(work), std::move(arguments), pairs.outcome());
  }
  const auto in = arguments.read(x, "x");
  auto output = output_for(out, x, Form::stacked, size);
  const auto to = arguments.write(output.array, "out");
  auto work = make<mode>(self, arguments.in_stream(options), [&](auto& on, const auto& how) {
    if constexpr (mode == Mode::async)
      return on.all_gather_async(in, to, how);
    else
      on.all_gather(in, to, how);
  });
  return answer<mode>(self, std::move(work), std::move(arguments), outcome_of(std::move(output)));
}

template <Mode mode>
nb::object reduce_scatter(Comm& self, handle x, handle out, handle op, Seconds timeout,
                          Text algorithm, Text label) {
  Arguments arguments("reduce_scatter");
  const auto options = call_options(timeout, algorithm, label);
  const int size = self.open()->size();
  if (is_list(x)) {
    auto pairs = pairs_of(arguments, x, out, Form::part, size);
    const auto reduction = reduction_of(op, arguments);
    auto work = make<mode>(self, arguments.in_stream(options), [&](auto& on, const auto& how) {
      if constexpr (mode == Mode::async)
        return on.reduce_scatter_async(pairs.blocks, reduction, how);
      else
        on.reduce_scatter(pairs.blocks, reduction, how);
    });
    return answer<mode>(self, std::move(work), std::move(arguments), pairs.outcome());
  }
  const auto in = arguments.read(x, "x");
  auto output = output_for(out, x, Form::part, size);
  const auto to = arguments.write(output.array, "out");
  const auto reduction = reduction_of(op, arguments);
  auto work = make<mode>(self, arguments.in_stream(options), [&](auto& on, const auto& how) {
    if constexpr (mode == Mode::async)
      return on.reduce_scatter_async(in, to, reduction, how);
    else
      on.reduce_scatter(in, to, reduction, how);
  });
  return answer<mode>(self, std::move(work), std::move(arguments), outcome_of(std::move(output)));
}

template <Mode mode>
nb::object all_to_all(Comm& self, handle x, handle out, Seconds timeout, Text algorithm,
                      Text label) {
  Arguments arguments("all_to_all");
  const auto options = call_options(timeout, algorithm, label);
  const auto in = arguments.read(x, "x");
  auto output = output_for(out, x, Form::like, 1);
  const auto to = arguments.write(output.array, "out");
  auto work = make<mode>(self, arguments.in_stream(options), [&](auto& on, const auto& how) {
    if constexpr (mode == Mode::async)
      return on.all_to_all_async(in, to, how);
    else
      on.all_to_all(in, to, how);
  });
  return answer<mode>(self, std::move(work), std::move(arguments), outcome_of(std::move(output)));
}

template <Mode mode>
nb::object gather(Comm& self, handle x, int root, handle out, Seconds timeout, Text algorithm,
                  Text label) {
  Arguments arguments("gather");
  const auto options = call_options(timeout, algorithm, label);
  const int rank = self.open()->rank();
  const int size = self.open()->size();
  const auto in = arguments.read(x, "x");
  Output output{nb::none(), nb::none()};
  Block to(nullptr, in.count * static_cast<std::size_t>(size), in.type);
  if (rank == root) {
    output = output_for(out, x, Form::stacked, size);
    to = arguments.write(output.array, "out");
  }
  auto work = make<mode>(self, arguments.in_stream(options), [&](auto& on, const auto& how) {
    if constexpr (mode == Mode::async)
      return on.gather_async(in, to, root, how);
    else
      on.gather(in, to, root, how);
  });
  return answer<mode>(self, std::move(work), std::move(arguments), outcome_of(std::move(output)));
}

template <Mode mode>
nb::object scatter(Comm& self, handle x, handle out, int root, Seconds timeout, Text algorithm,
                   Text label) {
  Arguments arguments("scatter");
  const auto options = call_options(timeout, algorithm, label);
  const bool is_root = self.open()->rank() == root;
  const int size = self.open()->size();
  if (out.is_none() && !is_root)
    refuse(
        "scatter: out is None: expected the array for this rank's part, only the root knows its "
        "size");
  ConstBlock in;
  if (is_root) in = arguments.read(x, "x");
  auto output = output_for(out, x, Form::part, size);
  const auto to = arguments.write(output.array, "out");
  if (!is_root) in = {nullptr, to.count * static_cast<std::size_t>(size), to.type};
  auto work = make<mode>(self, arguments.in_stream(options), [&](auto& on, const auto& how) {
    if constexpr (mode == Mode::async)
      return on.scatter_async(in, to, root, how);
    else
      on.scatter(in, to, root, how);
  });
  return answer<mode>(self, std::move(work), std::move(arguments), outcome_of(std::move(output)));
}

template <Mode mode>
nb::object barrier(Comm& self, Seconds timeout, Text algorithm, Text label) {
  const auto options = call_options(timeout, algorithm, label);
  auto work = make<mode>(self, options, [&](auto& on, const auto& how) {
    if constexpr (mode == Mode::async)
      return on.barrier_async(how);
    else
      on.barrier(how);
  });
  return answer<mode>(self, std::move(work), Arguments("barrier"), {});
}

}  // namespace

void bind_collectives(Class& communicator) {
  using namespace nb::literals;
  const auto both = [&](const char* name, auto blocking, auto async, const char* doc,
                        auto... arguments) {
    define_both(communicator, name, blocking, async, doc, docs::kAsync, arguments..., nb::kw_only(),
                "timeout"_a = nb::none(), "algorithm"_a = "", "label"_a = "");
  };
  const auto x = "x"_a.none();  // None gets an error that names the argument
  const auto out = "out"_a.none() = nb::none();
  const auto op = "op"_a.none() = nb::none();
  const auto root = "root"_a = 0;
  both("all_reduce", all_reduce<Mode::blocking>, all_reduce<Mode::async>, docs::kAllReduce, x, out,
       op);
  both("reduce", reduce<Mode::blocking>, reduce<Mode::async>, docs::kReduce, x, root, op, out);
  both("broadcast", broadcast<Mode::blocking>, broadcast<Mode::async>, docs::kBroadcast, x, root,
       out);
  both("all_gather", all_gather<Mode::blocking>, all_gather<Mode::async>, docs::kAllGather, x, out);
  both("reduce_scatter", reduce_scatter<Mode::blocking>, reduce_scatter<Mode::async>,
       docs::kReduceScatter, x, out, op);
  both("all_to_all", all_to_all<Mode::blocking>, all_to_all<Mode::async>, docs::kAllToAll, x, out);
  both("gather", gather<Mode::blocking>, gather<Mode::async>, docs::kGather, x, root, out);
  both("scatter", scatter<Mode::blocking>, scatter<Mode::async>, docs::kScatter, x, out, root);
  both("barrier", barrier<Mode::blocking>, barrier<Mode::async>, docs::kBarrier);
}

}  // namespace ccoll::python
