// SPDX-License-Identifier: Apache-2.0
// Goes on as ranks are lost. Start some, and kill one or the other meanwhile:
//   build/tools/cc-run -n 4 --on-failure continue build/docs/examples/survivors
#include <chrono>
#include <iostream>
#include <span>
#include <thread>

#include "ccoll/ccoll.hpp"

int main() {
  auto ranks = ccoll::Communicator::create();
  for (int second = 0; second < 10;) {
    try {
      // After a loss some may have ended the second that others are still in: all go back to that.
      int slowest = 0;
      ranks.all_reduce(std::span(&second, 1), std::span(&slowest, 1), ccoll::ReduceOp::min);
      if (ranks.rank() == 0) std::cout << slowest << ": " << ranks.size() << " ranks" << std::endl;
      second = slowest + 1;
      std::this_thread::sleep_for(std::chrono::seconds(1));
    } catch (const ccoll::Error& error) {
      std::cerr << error.what() << std::endl;
      ranks = ranks.shrink();
    }
  }
}
