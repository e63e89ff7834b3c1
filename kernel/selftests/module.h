/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The module kvm_ioeventfd, which a program that includes this needs.
 */
#ifndef MODULE_H
#define MODULE_H

#include "vm.h"

#define DATAMATCH	KVM_IOEVENTFD_FLAG_DATAMATCH
#define DEASSIGN	KVM_IOEVENTFD_FLAG_DEASSIGN
#define PIO		KVM_IOEVENTFD_FLAG_PIO
#define MIXED		(1u << 31)
#define PAYLOAD		(1u << 30)
#define RING		(1u << 29)

#define MODULE		"kvm_ioeventfd"

/* Whether this VM's ioeventfds are the module's: it knows the flag, and tests it before the eventfd. */
static inline bool is_of_module(int vm)
{
	return vm_ioeventfd(vm, PIO | MIXED, 0x500, 4, 0, -1) == EBADF;
}

static __attribute__((constructor)) void need_module(void)
{
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	int vm = VM_IOCTL(kvm, KVM_CREATE_VM, 0);

	if (!is_of_module(vm))
		ksft_exit_skip("the module " MODULE " is not loaded\n");
	close(vm);
	close(kvm);
}

#endif
