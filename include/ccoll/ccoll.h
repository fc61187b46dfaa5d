/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CCOLL_CCOLL_H
#define CCOLL_CCOLL_H

/* ccoll for C and for every language that calls C. It offers what the C++ headers offer, and their
   contracts hold here too: this header says only what is different.

   Results. Every function that can fail returns a ccoll_result. ccoll_error_text() has the words.
   No exception and no signal crosses this interface.

   Handles are pointers to opaque structs. The function that frees one takes NULL and does nothing
   then. A handle may be used by several threads where the C++ object may be.

   Strings are UTF-8 and end with a NUL. The library copies what it needs before a call returns.
   Functions that return text take a buffer of `size` bytes and write as much as fits, always with a
   NUL if `size` is not 0. `needed`, unless it is NULL, receives the size that would have sufficed.

   Option structs begin with their size, so that programs and libraries of different ages fit each
   other. Fill them with their ..._init function first. Booleans are int32_t: 0 or 1. */

#include "ccoll/c/collectives.h"
#include "ccoll/c/communicators.h"
#include "ccoll/c/elements.h"
#include "ccoll/c/memory.h"
#include "ccoll/c/messages.h"
#include "ccoll/c/options.h"
#include "ccoll/c/results.h"
#include "ccoll/c/work.h"

/* The version of this interface. It grows when something is added; what is there never changes. */
#define CCOLL_C_API 1

#endif
