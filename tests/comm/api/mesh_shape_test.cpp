// SPDX-License-Identifier: Apache-2.0
#include "comm/api/mesh_shape.hpp"

#include <catch2/catch.hpp>
#include <random>

namespace ccoll {
namespace {

int ranks_of(const Axes& axes) {
  int product = 1;
  for (const auto& axis : axes) product *= axis.size;
  return product;
}

Axes some_axes(std::mt19937_64& random) {
  Axes axes;
  for (auto left = 1 + random() % 4; left > 0; left--)
    axes.push_back({std::string(1, static_cast<char>('a' + left)), 1 + int(random() % 5)});
  return axes;
}

template <typename T>
std::string refusal_of(const Result<T>& result) {
  if (result) return "accepted";
  CHECK(result.error().kind == ErrorKind::invalid_argument);
  return result.error().message;
}

}  // namespace

TEST_CASE("mesh shape: counting up the last axis first, every rank has a place, and back",
          "[comm][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (int i = 0; i < 100; i++) {
    const auto axes = some_axes(random);
    CAPTURE(seed, text_of(axes));
    CHECK(check_axes(axes, ranks_of(axes)));
    std::vector<int> counted(axes.size());
    for (int rank = 0; rank < ranks_of(axes); rank++) {
      CHECK(coordinates_of(axes, rank).value() == counted);
      CHECK(rank_at(axes, counted).value() == rank);
      for (auto axis = axes.size(); axis-- > 0;) {
        if (++counted[axis] < axes[axis].size) break;
        counted[axis] = 0;
      }
    }
    for (const int beyond : {-1, ranks_of(axes), std::numeric_limits<int>::max()})
      CHECK(refusal_of(coordinates_of(axes, beyond)) ==
            "mesh: it has no rank " + std::to_string(beyond) + "; it is " + text_of(axes));
    const auto axis = random() % axes.size();
    CHECK(index_of(axes, axes[axis].name).value() == axis);
    for (const int beyond : {-1, axes[axis].size}) {
      auto place = counted;
      place[axis] = beyond;
      CHECK(refusal_of(rank_at(axes, place)) == "mesh: " + axes[axis].name + " " +
                                                    std::to_string(beyond) +
                                                    " is out of range; it is " + text_of(axes));
    }
  }
}

TEST_CASE("mesh shape: a place has one number for each axis, and an axis is known by its name",
          "[comm][unit]") {
  const Axes axes = {{"data", 2}, {"model", 3}};
  CHECK(refusal_of(rank_at(axes, std::vector{1})) ==
        "mesh: 1 coordinates were given; it is data 2 × model 3");
  CHECK(refusal_of(rank_at(axes, std::vector{1, 1, 0})) ==
        "mesh: 3 coordinates were given; it is data 2 × model 3");
  CHECK(refusal_of(index_of(axes, "pipe")) ==
        "mesh: no axis is called 'pipe'; it is data 2 × model 3");
}

TEST_CASE("mesh shape: axes must have names and sizes, and the ranks' number", "[comm][unit]") {
  const auto refuse = [](const Axes& axes) { return refusal_of(check_axes(axes, 4)); };
  CHECK(refuse({{"data", 4}}) == "accepted");
  CHECK(refuse({}) == "mesh: it has no axis; give at least one");
  CHECK(refuse({{"data", 4}, {"", 1}}) == "mesh: axis 1 has no name");
  CHECK(refuse({{"data", -4}, {"model", -1}}) ==
        "mesh: axis data has size -4; sizes are at least 1");
  CHECK(refuse({{"data", 2}, {"model", 1}, {"data", 2}}) == "mesh: two axes are called data");
  CHECK(refuse({{"data", 3}}) == "mesh: data 3 is 3 ranks, the communicator has 4");
  // However many axes there are, the number of ranks does not wrap around to a right one.
  Axes far;
  for (int i = 0; i < 9; i++) far.push_back({std::string(1, static_cast<char>('a' + i)), 1 << 8});
  CHECK_THAT(refuse(far), Catch::Matchers::EndsWith(" is too many ranks, the communicator has 4"));
}

TEST_CASE("mesh shape: a line's name has the place on the other axes that have one",
          "[comm][unit]") {
  const Axes axes = {{"data", 2}, {"model", 3}, {"one", 1}, {"pipe", 2}};
  const std::vector place{1, 2, 0, 0};
  CHECK(line_name(axes, place, 0) == "data@model2@pipe0");
  CHECK(line_name(axes, place, 1) == "model@data1@pipe0");
  CHECK(line_name(axes, place, 2) == "one@data1@model2@pipe0");
  CHECK(line_name({{"data", 4}}, std::vector{3}, 0) == "data");
}

}  // namespace ccoll
