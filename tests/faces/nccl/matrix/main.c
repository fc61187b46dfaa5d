/* SPDX-License-Identifier: Apache-2.0 */
/* Each function of an nccl.h library, with wrong arguments and in each state of a communicator, is
 * checked against one table of codes. Runs on the host, in one process. */
#include <stdlib.h>

#include "matrix.h"

int main(void) {
  setenv("CCOLL_NCCL_HOST", "1", 0);
  check_library();
  check_making();
  check_collectives();
  check_reductions();
  check_groups();
  check_memory();
  check_newer();
  check_states();
  return verdict();
}
