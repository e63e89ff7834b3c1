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

/*
 * With this flag ("payload") the value that the guest writes is stored at an
 * address of the VMM before the eventfd is signalled, with the registration's
 * length. The address is in bytes 4 to 11 of `pad`. A later write overwrites the
 * value, so a reader of the eventfd sees the last one. If it cannot be stored, the
 * eventfd is not signalled and the write is an exit, which may be in addition to
 * the signals of others in a mixed group.
 *
 * ASSIGN fails with EINVAL for a length of 0, for DATAMATCH, or if the address is
 * not a multiple of the length, and with EFAULT if it is not the VMM's. DEASSIGN
 * ignores the flag. The VMM must not handle faults at this address itself
 * (userfaultfd): a vCPU that waits there delays DEASSIGN.
 */
#define KVM_IOEVENTFD_FLAG_PAYLOAD	(1u << 30)
#define KVM_IOEVENTFD_PAYLOAD_IN_PAD	4

#endif
