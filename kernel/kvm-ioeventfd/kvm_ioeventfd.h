/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * What the module adds to KVM_IOEVENTFD.
 */
#ifndef KVM_IOEVENTFD_H
#define KVM_IOEVENTFD_H

/*
 * With this flag ("mixed-groups") a registration shares its address and length
 * with all others that have it: with wildcards, with values, and with other
 * eventfds for the same value. A write signals all that match, and each eventfd
 * once for each of its registrations that match. ASSIGN fails with EEXIST if the
 * same eventfd has the same value already, if a registration without the flag is
 * at this address with this length, or as in KVM if one of the two has length 0.
 * DEASSIGN ignores the flag.
 *
 * A kernel without the module fails with EINVAL. To learn whether the module is
 * there, call ASSIGN with the flag, a length of 4 and fd -1: it fails with EBADF
 * if the flag is known, and registers nothing.
 */
#define KVM_IOEVENTFD_FLAG_MIXED	(1u << 31)

#endif
