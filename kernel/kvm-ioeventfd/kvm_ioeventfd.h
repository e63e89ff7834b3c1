/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * What the module adds to KVM_IOEVENTFD.
 */
#ifndef KVM_IOEVENTFD_H
#define KVM_IOEVENTFD_H

#include <linux/types.h>

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

/*
 * With this flag ("ring") each value that the guest writes is appended to a ring
 * in the VMM's memory before the eventfd is signalled. Bytes 4 to 19 of `pad` are
 * a struct kvm_ioeventfd_ring_pad. Registrations of one VM that name the same
 * memory share the ring: values of one vCPU are in the order in which it wrote
 * them, over all doorbells of the ring.
 *
 * If the ring is full, the eventfd is not signalled and the write is an exit. The
 * VMM has to read the ring before it handles the exit: what the vCPU wrote before
 * is there. In a mixed group the exit may be in addition to the signals of others.
 *
 * The memory is pinned and counts towards RLIMIT_MEMLOCK from the first ASSIGN
 * until the last DEASSIGN, or the end of the VM. It has to stay mapped: values go
 * to the pages that were there at the first ASSIGN. Values that have not been read
 * stay in the ring after DEASSIGN, and another ASSIGN continues at its tail.
 *
 * ASSIGN fails with EINVAL for a length of 0, for DATAMATCH, for PAYLOAD, if the
 * address is not that of a page, or if the number of entries is not a power of two
 * up to the maximum; with EFAULT if the VMM cannot write the memory; with ENOMEM
 * above RLIMIT_MEMLOCK; and with EEXIST if the ring exists with another size.
 * DEASSIGN ignores the flag. As with MIXED, fd -1 and a length of 4 fail with EBADF
 * if the flag is known, whatever is in `pad`.
 */
#define KVM_IOEVENTFD_FLAG_RING		(1u << 29)
#define KVM_IOEVENTFD_RING_IN_PAD	4
#define KVM_IOEVENTFD_RING_MAX_ENTRIES	32768

struct kvm_ioeventfd_ring_pad {
	/* Of the ring in the VMM's memory: of a page. */
	__u64 address;
	/* A power of two. */
	__u32 entries;
	/* Stored with each value of this registration. */
	__u32 tag;
};

struct kvm_ioeventfd_ring_entry {
	__u64 value;
	__u32 tag;
	/* Of the write, in bytes. */
	__u32 length;
};

/*
 * Both counters are modulo 2^32, and start at 0 in new memory. The value number n
 * is in entries[n % number of entries]. A reader loads `tail` (acquire), reads the
 * entries from `head` to there, and then stores `head` (release). Whatever the VMM
 * stores, the kernel writes nothing but `tail` and `entries`.
 */
struct kvm_ioeventfd_ring {
	/* How many values the kernel has appended. */
	__u32 tail;
	__u32 reserved[15];
	/* How many values the VMM has read. */
	__u32 head;
	__u32 reserved2[15];
	struct kvm_ioeventfd_ring_entry entries[];
};

#endif
