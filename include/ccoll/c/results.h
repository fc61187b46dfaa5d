/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CCOLL_C_RESULTS_H
#define CCOLL_C_RESULTS_H

/* The results of functions, and the texts of errors. */

#include <stddef.h>
#include <stdint.h>

#ifndef CCOLL_EXPORT
#define CCOLL_EXPORT __attribute__((visibility("default")))
#endif

/* Programs pass numbers that are no enumerator, and get an error. For that, an enumeration has to
   be as wide as an int in C++, as it is in C. */
#ifdef __cplusplus
#define CCOLL_ENUM_AS_INT : int
#else
#define CCOLL_ENUM_AS_INT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* CCOLL_OK, or the kind of the error (ErrorKind in ccoll/types.hpp). */
typedef enum ccoll_result CCOLL_ENUM_AS_INT {
  CCOLL_OK = 0,
  CCOLL_INVALID_ARGUMENT = 1,
  CCOLL_UNSUPPORTED = 2,
  CCOLL_TIMED_OUT = 3,
  CCOLL_PEER_LOST = 4,
  CCOLL_MISMATCH = 5,
  CCOLL_ABORTED = 6,
  CCOLL_EXHAUSTED = 7,
  CCOLL_CORRUPT = 8,
  CCOLL_INTERNAL = 9
} ccoll_result;

/* "timed_out"; "unknown" for a number that is no ccoll_result. Never NULL. */
CCOLL_EXPORT const char *ccoll_result_name(ccoll_result result);
/* The error text of this thread's last call that failed; "" if none has. Valid until this thread's
   next call that fails. Never NULL. */
CCOLL_EXPORT const char *ccoll_error_text(void);
/* The rank that it names, ccoll::Error::culprit(); -1 if none is known, or nothing has failed. */
CCOLL_EXPORT int32_t ccoll_error_culprit(void);
/* "0.2.0": the version of the library. */
CCOLL_EXPORT const char *ccoll_version(void);
/* The CCOLL_C_API of the library. */
CCOLL_EXPORT int32_t ccoll_c_api(void);
/* Frees memory that a function here says is freed so. */
CCOLL_EXPORT void ccoll_free(void *memory);

/* A byte string, which may contain NULs. */
typedef struct ccoll_bytes {
  void *data;
  size_t size;
} ccoll_bytes;

#ifdef __cplusplus
}
#endif

#endif
