/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A guest that executes one access at a time for a test.
 *
 * The tests need of KVM only its ioctls, because the selftests' own library changes from kernel to kernel. The guest is a loop in
 * 64-bit mode: it tells the host that it is done by a write to a port, calls the routine that the host has put into the
 * mailbox, and starts over. So the test is a sequential program, and sees whether the access left the kernel.
 */
#ifndef VM_H
#define VM_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/kvm.h>

#include "kselftest_harness.h"

/* Guest-physical addresses. Everything below 4 GiB is mapped where it is; what is not RAM exits. */
#define VM_RAM		0x200000
#define VM_PML4		0x1000
#define VM_PDPT		0x2000
#define VM_PD		0x3000	/* four pages */
#define VM_MAILBOX	0x7000
#define VM_CODE		0x8000
#define VM_IDT		0x9000
#define VM_GDT		0xa000
#define VM_STACK	0x10000

#define VM_VECTOR	0x50
/* The guest's loop writes to this port. */
#define VM_DONE		0xf4

/* What the guest's loop reads: the assembly below has these offsets. */
struct vm_mailbox {
	uint64_t routine;
	uint64_t address;
	uint64_t value;
	uint64_t interrupts;
	uint8_t bytes[32];
};

/* An access that the kernel left to user space. */
struct vm_exit {
	uint32_t reason;
	uint64_t address;
	uint32_t length;
	uint64_t data;
	bool is_write;
};

struct vm {
	int kvm, fd, vcpu;
	uint8_t *ram;
	struct vm_mailbox *mailbox;
	struct kvm_run *run;
	size_t run_size;
	/* Of the last access: the exits, and the first of them. */
	int exits;
	struct vm_exit exit;
};

extern char vm_guest[], vm_guest_end[], vm_handler[];
extern char vm_out1[], vm_out2[], vm_out4[], vm_in1[], vm_in2[], vm_in4[], vm_outs[];
extern char vm_store1[], vm_store2[], vm_store4[], vm_store8[], vm_store16[];
extern char vm_load1[], vm_load2[], vm_load4[], vm_load8[];
extern char vm_interrupts[], vm_alternate[];

asm(".pushsection .rodata\n"
    "vm_guest:	out	%al, $0xf4\n"
    "		mov	0x7008, %rdx\n"
    "		mov	0x7010, %rax\n"
    "		call	*0x7000\n"
    "		mov	%rax, 0x7010\n"
    "		jmp	vm_guest\n"
    "vm_out1:	out	%al, (%dx)\n"
    "		ret\n"
    "vm_out2:	out	%ax, (%dx)\n"
    "		ret\n"
    "vm_out4:	out	%eax, (%dx)\n"
    "		ret\n"
    "vm_in1:	in	(%dx), %al\n"
    "		ret\n"
    "vm_in2:	in	(%dx), %ax\n"
    "		ret\n"
    "vm_in4:	in	(%dx), %eax\n"
    "		ret\n"
    "vm_outs:	mov	%eax, %ecx\n"
    "		mov	$0x7020, %esi\n"
    "		cld\n"
    "		rep outsb\n"
    "		ret\n"
    "vm_store1:	mov	%al, (%rdx)\n"
    "		ret\n"
    "vm_store2:	mov	%ax, (%rdx)\n"
    "		ret\n"
    "vm_store4:	mov	%eax, (%rdx)\n"
    "		ret\n"
    "vm_store8:	mov	%rax, (%rdx)\n"
    "		ret\n"
    "vm_store16:	movups	0x7020, %xmm0\n"
    "		movups	%xmm0, (%rdx)\n"
    "		ret\n"
    "vm_load1:	mov	(%rdx), %al\n"
    "		ret\n"
    "vm_load2:	mov	(%rdx), %ax\n"
    "		ret\n"
    "vm_load4:	mov	(%rdx), %eax\n"
    "		ret\n"
    "vm_load8:	mov	(%rdx), %rax\n"
    "		ret\n"
    "vm_interrupts: sti\n"
    "		nop\n"
    "		cli\n"
    "		ret\n"
    /* Without the loop: %ecx writes of 4 bytes, each of the next value, to two ports by turns. */
    "vm_alternate:	out	%eax, (%dx)\n"
    "		inc	%eax\n"
    "		xor	$4, %edx\n"
    "		dec	%ecx\n"
    "		jnz	vm_alternate\n"
    "		out	%al, $0xf4\n"
    "vm_handler:	incq	0x7018\n"
    "		iretq\n"
    "vm_guest_end:\n"
    ".popsection\n");

/* Without KVM nothing can be tested. */
static __attribute__((constructor)) void vm_need_kvm(void)
{
	int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		ksft_exit_skip("/dev/kvm: %s\n", strerror(errno));
	close(fd);
}

/* Ends the test, which runs in a separate process. */
#define vm_die(...)				\
	do {					\
		fprintf(stderr, __VA_ARGS__);	\
		_exit(KSFT_FAIL);		\
	} while (0)

static inline int vm_ioctl(int fd, unsigned long request, void *argument, const char *name)
{
	int result = ioctl(fd, request, argument);

	if (result < 0)
		vm_die("%s: %s\n", name, strerror(errno));
	return result;
}

#define VM_IOCTL(fd, request, argument) \
	vm_ioctl(fd, request, (void *)(unsigned long)(argument), #request)

static inline void *vm_map(int fd, size_t size)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (memory == MAP_FAILED)
		vm_die("mmap: %s\n", strerror(errno));
	return memory;
}

/* Where a routine of the assembly is in the guest. */
static inline uint64_t vm_routine(const char *routine)
{
	return VM_CODE + (routine - vm_guest);
}

static inline void vm_fill_memory(struct vm *vm)
{
	uint64_t *entries, handler = vm_routine(vm_handler);
	int i;

	entries = (uint64_t *)(vm->ram + VM_PML4);
	entries[0] = VM_PDPT | 3;
	entries = (uint64_t *)(vm->ram + VM_PDPT);
	for (i = 0; i < 4; i++)
		entries[i] = (VM_PD + 0x1000 * i) | 3;
	/* Pages of 2 MiB. */
	entries = (uint64_t *)(vm->ram + VM_PD);
	for (i = 0; i < 4 * 512; i++)
		entries[i] = ((uint64_t)i << 21) | 0x83;
	entries = (uint64_t *)(vm->ram + VM_GDT);
	entries[1] = 0x00af9b000000ffff;
	entries[2] = 0x00cf93000000ffff;
	/* An interrupt gate; the handler is below 64 KiB. */
	entries = (uint64_t *)(vm->ram + VM_IDT);
	entries[2 * VM_VECTOR] = handler | 8 << 16 | 0x8eULL << 40;
	memcpy(vm->ram + VM_CODE, vm_guest, vm_guest_end - vm_guest);
}

static inline void vm_set_registers(struct vm *vm)
{
	struct {
		struct kvm_cpuid2 head;
		struct kvm_cpuid_entry2 entries[256];
	} cpuid = { .head.nent = 256 };
	struct kvm_segment data = {
		.limit = 0xffffffff, .selector = 16, .type = 3, .present = 1, .db = 1, .s = 1, .g = 1,
	};
	struct kvm_segment code = {
		.limit = 0xffffffff, .selector = 8, .type = 11, .present = 1, .s = 1, .l = 1, .g = 1,
	};
	struct kvm_regs regs = { .rip = VM_CODE, .rsp = VM_STACK, .rflags = 2 };
	struct kvm_sregs sregs;

	VM_IOCTL(vm->kvm, KVM_GET_SUPPORTED_CPUID, &cpuid);
	VM_IOCTL(vm->vcpu, KVM_SET_CPUID2, &cpuid);
	VM_IOCTL(vm->vcpu, KVM_GET_SREGS, &sregs);
	sregs.cs = code;
	sregs.ds = sregs.es = sregs.fs = sregs.gs = sregs.ss = data;
	sregs.gdt.base = VM_GDT;
	sregs.gdt.limit = 23;
	sregs.idt.base = VM_IDT;
	sregs.idt.limit = 0xfff;
	sregs.cr3 = VM_PML4;
	sregs.cr4 = 0x220;	/* PAE, OSFXSR */
	sregs.cr0 = 0x80000013;	/* PG, ET, MP, PE */
	sregs.efer = 0x500;	/* LMA, LME */
	VM_IOCTL(vm->vcpu, KVM_SET_SREGS, &sregs);
	VM_IOCTL(vm->vcpu, KVM_SET_REGS, &regs);
}

/* Enters the guest until it exits; returns whether its loop is done. */
static inline bool vm_enter(struct vm *vm)
{
	struct kvm_run *run = vm->run;
	struct vm_exit exit = { .reason = 0 };
	int result;

	do {
		result = ioctl(vm->vcpu, KVM_RUN, 0);
	} while (result < 0 && errno == EINTR);
	if (result < 0)
		vm_die("KVM_RUN: %s\n", strerror(errno));
	exit.reason = run->exit_reason;
	switch (run->exit_reason) {
	case KVM_EXIT_IO:
		if (run->io.port == VM_DONE)
			return true;
		exit.address = run->io.port;
		exit.length = run->io.size;
		exit.is_write = run->io.direction == KVM_EXIT_IO_OUT;
		memcpy(&exit.data, (uint8_t *)run + run->io.data_offset, run->io.size);
		break;
	case KVM_EXIT_MMIO:
		exit.address = run->mmio.phys_addr;
		exit.length = run->mmio.len;
		exit.is_write = run->mmio.is_write;
		memcpy(&exit.data, run->mmio.data, run->mmio.len);
		break;
	default:
		vm_die("unexpected exit %u\n", run->exit_reason);
	}
	if (!vm->exits++)
		vm->exit = exit;
	return false;
}

/* Lets the guest call a routine, and returns how many exits to user space that took. */
static inline int vm_call(struct vm *vm, const char *routine, uint64_t address, uint64_t value)
{
	vm->mailbox->routine = vm_routine(routine);
	vm->mailbox->address = address;
	vm->mailbox->value = value;
	vm->exits = 0;
	while (!vm_enter(vm))
		;
	return vm->exits;
}

/* Makes a guest with one vCPU, up to its first loop; with an in-kernel irqchip if `has_irqchip`. */
static inline void vm_make(struct vm *vm, bool has_irqchip)
{
	struct kvm_userspace_memory_region region = { .memory_size = VM_RAM };

	memset(vm, 0, sizeof(*vm));
	vm->kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (vm->kvm < 0)
		vm_die("/dev/kvm: %s\n", strerror(errno));
	vm->fd = VM_IOCTL(vm->kvm, KVM_CREATE_VM, 0);
	VM_IOCTL(vm->fd, KVM_SET_TSS_ADDR, 0xfffbd000);
	if (has_irqchip)
		VM_IOCTL(vm->fd, KVM_CREATE_IRQCHIP, 0);
	vm->ram = vm_map(-1, VM_RAM);
	vm->mailbox = (struct vm_mailbox *)(vm->ram + VM_MAILBOX);
	region.userspace_addr = (unsigned long)vm->ram;
	VM_IOCTL(vm->fd, KVM_SET_USER_MEMORY_REGION, &region);
	vm->vcpu = VM_IOCTL(vm->fd, KVM_CREATE_VCPU, 0);
	vm->run_size = VM_IOCTL(vm->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	vm->run = vm_map(vm->vcpu, vm->run_size);
	vm_fill_memory(vm);
	vm_set_registers(vm);
	if (!vm_enter(vm))
		vm_die("the guest does not start\n");
}

static inline void vm_free(struct vm *vm)
{
	munmap(vm->run, vm->run_size);
	close(vm->vcpu);
	close(vm->fd);
	close(vm->kvm);
	munmap(vm->ram, VM_RAM);
}

/* An eventfd whose counter can be read without waiting. */
static inline int vm_eventfd(void)
{
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

	if (fd < 0)
		vm_die("eventfd: %s\n", strerror(errno));
	return fd;
}

/* Reads an eventfd's counter and sets it to 0. */
static inline uint64_t vm_count(int fd)
{
	uint64_t count;

	if (read(fd, &count, sizeof(count)) == sizeof(count))
		return count;
	if (errno != EAGAIN)
		vm_die("read of an eventfd: %s\n", strerror(errno));
	return 0;
}

static inline void vm_signal(int fd, uint64_t count)
{
	if (write(fd, &count, sizeof(count)) != sizeof(count))
		vm_die("write to an eventfd: %s\n", strerror(errno));
}

/* The error number of KVM_IOEVENTFD; 0 if it succeeded. */
static inline int vm_ioeventfd(int vm, uint32_t flags, uint64_t address, uint32_t length,
			       uint64_t value, int fd)
{
	struct kvm_ioeventfd argument = {
		.datamatch = value,
		.addr = address,
		.len = length,
		.fd = fd,
		.flags = flags,
	};

	return ioctl(vm, KVM_IOEVENTFD, &argument) < 0 ? errno : 0;
}

#endif
