// SPDX-License-Identifier: Apache-2.0
/* Linked in place of a library of torch, which has this name. */
