// SPDX-License-Identifier: Apache-2.0
/* Linked in place of a library of torch, which has this name. */
extern const int ccoll_stand_in;  // C allows no source without a declaration
