// SPDX-License-Identifier: GPL-2.0-only
/*
 * The module kvm_ioeventfd: several registrations on one address that share it (kernel/kvm-ioeventfd), and its loading and unloading.
 * Without the module the program is skipped. What KVM promises of ioeventfds is tested by ioeventfd_test.
 */
#include <glob.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "module.h"

/* Values of one address: more than its hash has buckets. */
#define MANY		1000
#define RACE_WRITES	1500
#define RACE_REMOVALS	40

FIXTURE(groups) {
	struct vm vm;
	/* Four eventfds. */
	int fds[4];
	const char *write;
};

FIXTURE_VARIANT(groups) {
	uint32_t bus;
	uint64_t address;
};

FIXTURE_VARIANT_ADD(groups, pio) {
	.bus = PIO,
	.address = 0x500,
};

FIXTURE_VARIANT_ADD(groups, mmio) {
	.bus = 0,
	.address = 0x80000100,
};

FIXTURE_SETUP(groups)
{
	int i;

	vm_make(&self->vm, false);
	for (i = 0; i < 4; i++)
		self->fds[i] = vm_eventfd();
	self->write = variant->bus ? vm_out4 : vm_store4;
}

FIXTURE_TEARDOWN(groups)
{
	int i;

	vm_free(&self->vm);
	for (i = 0; i < 4; i++)
		close(self->fds[i]);
}

/* KVM_IOEVENTFD with an address for the value that the guest writes. */
static int payload(int vm, uint32_t flags, uint64_t address, uint32_t length, void *payload, int fd)
{
	struct kvm_ioeventfd argument = {
		.addr = address,
		.len = length,
		.fd = fd,
		.flags = flags | PAYLOAD,
	};

	memcpy(argument.pad + 4, &payload, sizeof(payload));
	return ioctl(vm, KVM_IOEVENTFD, &argument) < 0 ? errno : 0;
}

#define ADD(flags, value, event) \
	vm_ioeventfd(self->vm.fd, variant->bus | (flags), variant->address, 4, value, event)
#define REMOVE(flags, value, event)	ADD((flags) | DEASSIGN, value, event)
#define WRITE(value)		vm_call(&self->vm, self->write, variant->address, value)
#define EXPECT_COUNTS(a, b, c, d)				\
	do {							\
		EXPECT_EQ(a, vm_count(self->fds[0]));		\
		EXPECT_EQ(b, vm_count(self->fds[1]));		\
		EXPECT_EQ(c, vm_count(self->fds[2]));		\
		EXPECT_EQ(d, vm_count(self->fds[3]));		\
	} while (0)

TEST_F(groups, write_signals_all_that_match)
{
	ASSERT_EQ(0, ADD(MIXED | DATAMATCH, 7, self->fds[2]));
	ASSERT_EQ(0, ADD(MIXED, 0, self->fds[0]));
	ASSERT_EQ(0, ADD(MIXED, 0, self->fds[1]));
	ASSERT_EQ(0, ADD(MIXED | DATAMATCH, 7, self->fds[3]));
	ASSERT_EQ(0, ADD(MIXED | DATAMATCH, 8, self->fds[3]));

	EXPECT_EQ(0, WRITE(7));
	EXPECT_COUNTS(1, 1, 1, 1);
	EXPECT_EQ(0, WRITE(8));
	EXPECT_COUNTS(1, 1, 0, 1);
	EXPECT_EQ(0, WRITE(9));
	EXPECT_COUNTS(1, 1, 0, 0);

	ASSERT_EQ(0, REMOVE(DATAMATCH, 7, self->fds[3]));
	ASSERT_EQ(0, REMOVE(MIXED, 0, self->fds[0]));
	EXPECT_EQ(0, WRITE(7));
	EXPECT_COUNTS(0, 1, 1, 0);
	ASSERT_EQ(0, REMOVE(0, 0, self->fds[1]));
	EXPECT_EQ(1, WRITE(9));
	EXPECT_EQ(0, WRITE(8));
	EXPECT_COUNTS(0, 0, 0, 1);
	ASSERT_EQ(0, REMOVE(DATAMATCH, 8, self->fds[3]));
	ASSERT_EQ(0, REMOVE(DATAMATCH, 7, self->fds[2]));
	EXPECT_EQ(1, WRITE(7));
	EXPECT_COUNTS(0, 0, 0, 0);
}

TEST_F(groups, eventfd_that_is_there_for_two_reasons_is_signalled_twice)
{
	ASSERT_EQ(0, ADD(MIXED, 0, self->fds[0]));
	ASSERT_EQ(0, ADD(MIXED | DATAMATCH, 7, self->fds[0]));
	EXPECT_EQ(0, WRITE(7));
	EXPECT_COUNTS(2, 0, 0, 0);
}

TEST_F(groups, only_what_cannot_share_is_refused)
{
	ASSERT_EQ(0, ADD(MIXED | DATAMATCH, 7, self->fds[0]));
	EXPECT_EQ(EEXIST, ADD(MIXED | DATAMATCH, 7, self->fds[0]));
	EXPECT_EQ(EEXIST, ADD(DATAMATCH, 7, self->fds[1]));
	EXPECT_EQ(EEXIST, ADD(DATAMATCH, 8, self->fds[1]));
	EXPECT_EQ(EEXIST, ADD(0, 0, self->fds[1]));
	EXPECT_EQ(EEXIST, vm_ioeventfd(self->vm.fd, variant->bus | MIXED, variant->address, 0, 0, self->fds[1]));
	EXPECT_EQ(0, vm_ioeventfd(self->vm.fd, variant->bus, variant->address, 2, 0, self->fds[1]));
	EXPECT_EQ(ENOENT, REMOVE(DATAMATCH, 7, self->fds[1]));
	EXPECT_EQ(ENOENT, REMOVE(DATAMATCH, 8, self->fds[0]));
	EXPECT_EQ(ENOENT, REMOVE(0, 0, self->fds[0]));
	ASSERT_EQ(0, REMOVE(DATAMATCH, 7, self->fds[0]));

	/* The group is gone, so the next one may be of the other kind. */
	ASSERT_EQ(0, ADD(DATAMATCH, 7, self->fds[0]));
	EXPECT_EQ(EEXIST, ADD(MIXED | DATAMATCH, 8, self->fds[1]));
	EXPECT_EQ(EEXIST, ADD(MIXED, 0, self->fds[1]));
	EXPECT_EQ(EEXIST, ADD(DATAMATCH, 7, self->fds[1]));
	EXPECT_EQ(0, ADD(DATAMATCH, 8, self->fds[1]));
	EXPECT_EQ(0, WRITE(7));
	EXPECT_EQ(0, WRITE(8));
	EXPECT_EQ(1, WRITE(9));
	EXPECT_COUNTS(1, 1, 0, 0);
}

TEST_F(groups, each_of_many_values_signals_its_own_eventfd)
{
	uint64_t value;

	for (value = 0; value < MANY; value++)
		ASSERT_EQ(0, ADD(DATAMATCH, value, self->fds[value % 2]));
	EXPECT_EQ(EEXIST, ADD(DATAMATCH, MANY / 2, self->fds[2]));
	for (value = 0; value < MANY; value += 97) {
		EXPECT_EQ(0, WRITE(value));
		EXPECT_COUNTS(value % 2 == 0, value % 2 == 1, 0, 0);
	}
	EXPECT_EQ(1, WRITE(MANY));
	for (value = 0; value < MANY; value += 2)
		ASSERT_EQ(0, REMOVE(DATAMATCH, value, self->fds[0]));
	EXPECT_EQ(1, WRITE(MANY / 2));
	EXPECT_EQ(0, WRITE(MANY / 2 + 1));
	EXPECT_COUNTS(0, 1, 0, 0);
	/* The VM ends with the others registered. */
}

#define ADD_PAYLOAD(flags, place, event) \
	payload(self->vm.fd, variant->bus | (flags), variant->address, 4, place, event)

TEST_F(groups, value_is_stored_before_the_signal)
{
	static const char *const widths[2][3] = {
		{ vm_store1, vm_store2, vm_store4 }, { vm_out1, vm_out2, vm_out4 },
	};
	int width;

	for (width = 0; width < 3; width++) {
		uint64_t at = variant->address, stored = ~0ULL, mask = (1ULL << (8 << width)) - 1;
		const char *write = widths[variant->bus == PIO][width];
		int length = 1 << width;

		ASSERT_EQ(0, payload(self->vm.fd, variant->bus, at, length, &stored, self->fds[0]));
		EXPECT_EQ(0, vm_call(&self->vm, write, at, 0x8877665544332211));
		EXPECT_EQ((~0ULL & ~mask) | (0x8877665544332211 & mask), stored);
		EXPECT_EQ(0, vm_call(&self->vm, write, at, 0));
		EXPECT_EQ(~0ULL & ~mask, stored);
		EXPECT_COUNTS(2, 0, 0, 0);
		EXPECT_EQ(EEXIST, payload(self->vm.fd, variant->bus, at, length, &stored, self->fds[1]));
		/* DEASSIGN needs neither the flag nor the address. */
		ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, variant->bus | DEASSIGN, at, length, 0, self->fds[0]));
		EXPECT_EQ(1, vm_call(&self->vm, write, at, 1));
		EXPECT_EQ(~0ULL & ~mask, stored);
	}
}

TEST_F(groups, value_that_cannot_be_stored_is_an_exit)
{
	char *page = vm_map(-1, 4096);
	uint32_t other = 0;

	ASSERT_EQ(0, ADD_PAYLOAD(0, page + 8, self->fds[0]));
	EXPECT_EQ(0, WRITE(7));
	EXPECT_EQ(7, *(uint32_t *)(page + 8));
	ASSERT_EQ(0, mprotect(page, 4096, PROT_READ));
	EXPECT_EQ(1, WRITE(8));
	EXPECT_EQ(8, self->vm.exit.data);
	EXPECT_EQ(7, *(uint32_t *)(page + 8));
	ASSERT_EQ(0, munmap(page, 4096));
	EXPECT_EQ(1, WRITE(9));
	EXPECT_EQ(9, self->vm.exit.data);
	EXPECT_COUNTS(1, 0, 0, 0);
	ASSERT_EQ(0, REMOVE(0, 0, self->fds[0]));

	/* Others of a mixed group are signalled. */
	ASSERT_EQ(0, ADD_PAYLOAD(MIXED, page + 8, self->fds[0]));
	ASSERT_EQ(0, ADD_PAYLOAD(MIXED, &other, self->fds[1]));
	ASSERT_EQ(0, ADD(MIXED, 0, self->fds[2]));
	ASSERT_EQ(0, ADD(MIXED | DATAMATCH, 5, self->fds[3]));
	EXPECT_EQ(1, WRITE(5));
	EXPECT_EQ(5, other);
	EXPECT_COUNTS(0, 1, 1, 1);
	ASSERT_EQ(0, REMOVE(MIXED, 0, self->fds[0]));
	EXPECT_EQ(0, WRITE(6));
	EXPECT_EQ(6, other);
	EXPECT_COUNTS(0, 1, 1, 0);
}

TEST_F(groups, address_for_the_value_is_checked)
{
	const uint64_t at = variant->address;
	uint64_t place[2];

	EXPECT_EQ(EINVAL, payload(self->vm.fd, variant->bus, at, 0, place, self->fds[0]));
	EXPECT_EQ(EINVAL, ADD_PAYLOAD(DATAMATCH, place, self->fds[0]));
	EXPECT_EQ(EINVAL, ADD_PAYLOAD(0, (char *)place + 2, self->fds[0]));
	EXPECT_EQ(EFAULT, ADD_PAYLOAD(0, NULL, self->fds[0]));
	EXPECT_EQ(EFAULT, ADD_PAYLOAD(0, (void *)0xffffffff80000000, self->fds[0]));
	EXPECT_EQ(EBADF, ADD_PAYLOAD(0, place, -1));
	EXPECT_EQ(1, WRITE(7));
}

struct race {
	struct vm *vm;
	const char *write;
	uint64_t at, exits, writes;
};

static void *write_all_the_time(void *argument)
{
	struct race *race = argument;

	while (race->writes < RACE_WRITES) {
		race->exits += vm_call(race->vm, race->write, race->at, 7);
		__atomic_store_n(&race->writes, race->writes + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* Waits for three further writes; returns false if the thread has ended before. */
static bool wait_for_writes(struct race *race)
{
	uint64_t end = __atomic_load_n(&race->writes, __ATOMIC_ACQUIRE) + 3;

	for (;;) {
		uint64_t writes = __atomic_load_n(&race->writes, __ATOMIC_ACQUIRE);

		if (writes >= end)
			return true;
		if (writes == RACE_WRITES)
			return false;
		usleep(50);
	}
}

TEST_F(groups, value_signals_as_soon_as_it_is_assigned_and_not_after_deassign)
{
	struct race race = { .vm = &self->vm, .write = self->write, .at = variant->address };
	uint64_t signals = 0;
	pthread_t thread;
	int i;

	/* So that the group stays. */
	ASSERT_EQ(0, ADD(DATAMATCH, 6, self->fds[1]));
	ASSERT_EQ(0, pthread_create(&thread, NULL, write_all_the_time, &race));
	for (i = 0; i < RACE_REMOVALS; i++) {
		uint64_t value, exits;

		for (value = 100; value < 110; value++)
			ASSERT_EQ(0, ADD(DATAMATCH, value, self->fds[2]));
		ASSERT_EQ(0, ADD(DATAMATCH, 7, self->fds[0]));
		/* The write that is under way may have begun before. */
		if (!wait_for_writes(&race))
			break;
		exits = __atomic_load_n(&race.exits, __ATOMIC_RELAXED);
		if (!wait_for_writes(&race))
			break;
		EXPECT_EQ(exits, __atomic_load_n(&race.exits, __ATOMIC_RELAXED));
		ASSERT_EQ(0, REMOVE(DATAMATCH, 7, self->fds[0]));
		signals += vm_count(self->fds[0]);
		if (!wait_for_writes(&race))
			break;
		EXPECT_EQ(0, vm_count(self->fds[0]));
		for (value = 100; value < 110; value++)
			ASSERT_EQ(0, REMOVE(DATAMATCH, value, self->fds[2]));
	}
	EXPECT_LT(1, i);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	signals += vm_count(self->fds[0]);
	EXPECT_LT(0, signals);
	EXPECT_LT(0, race.exits);
	EXPECT_EQ(RACE_WRITES, signals + race.exits);
	EXPECT_COUNTS(0, 0, 0, 0);
}

/* The module may keep an address without registrations for the next one, whatever it is. */
TEST_F(groups, address_is_assigned_again_with_another_kind_and_length)
{
	uint64_t place = 0;
	int round;

	for (round = 0; round < 3; round++) {
		ASSERT_EQ(0, ADD(DATAMATCH, 7, self->fds[0]));
		EXPECT_EQ(0, WRITE(7));
		ASSERT_EQ(0, REMOVE(DATAMATCH, 7, self->fds[0]));
		EXPECT_EQ(ENOENT, REMOVE(DATAMATCH, 7, self->fds[0]));
		EXPECT_EQ(1, WRITE(7));
		ASSERT_EQ(0, ADD(DATAMATCH, 8, self->fds[0]));
		EXPECT_EQ(0, WRITE(8));
		EXPECT_EQ(1, WRITE(7));
		ASSERT_EQ(0, REMOVE(DATAMATCH, 8, self->fds[0]));

		ASSERT_EQ(0, ADD(0, 0, self->fds[1]));
		EXPECT_EQ(0, WRITE(7));
		ASSERT_EQ(0, REMOVE(0, 0, self->fds[1]));
		EXPECT_EQ(1, WRITE(7));

		/* Length 0 collides with a length, if that is registered. */
		ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, variant->bus, variant->address, 0, 0,
					  self->fds[2]));
		EXPECT_EQ(EEXIST, ADD(0, 0, self->fds[1]));
		EXPECT_EQ(0, WRITE(7));
		ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, variant->bus | DEASSIGN, variant->address, 0,
					  0, self->fds[2]));
		EXPECT_EQ(1, WRITE(7));

		ASSERT_EQ(0, ADD_PAYLOAD(0, &place, self->fds[3]));
		EXPECT_EQ(0, WRITE(9));
		EXPECT_EQ(9, place);
		ASSERT_EQ(0, REMOVE(0, 0, self->fds[3]));
		ASSERT_EQ(0, ADD(MIXED, 0, self->fds[0]));
		ASSERT_EQ(0, ADD(MIXED | DATAMATCH, 7, self->fds[1]));
		EXPECT_EQ(0, WRITE(7));
		ASSERT_EQ(0, REMOVE(MIXED, 0, self->fds[0]));
		ASSERT_EQ(0, REMOVE(MIXED | DATAMATCH, 7, self->fds[1]));
		EXPECT_EQ(1, WRITE(7));
		EXPECT_COUNTS(3, 2, 1, 1);
	}
}

static int unload(const char *name)
{
	return syscall(SYS_delete_module, name, O_NONBLOCK) < 0 ? errno : 0;
}

/* Opens the module's file, which is the lab's or an installed one. */
static int open_module(void)
{
	char pattern[512];
	struct utsname name;
	glob_t found;
	int fd = -1;

	uname(&name);
	snprintf(pattern, sizeof(pattern), "/lib/modules/%s/*/" MODULE ".ko", name.release);
	glob("/lab/extra-modules/*-" MODULE ".ko", 0, NULL, &found);
	glob(pattern, GLOB_APPEND, NULL, &found);
	if (found.gl_pathc)
		fd = open(found.gl_pathv[0], O_RDONLY | O_CLOEXEC);
	globfree(&found);
	return fd;
}

/* The last test: without the module's file it leaves the kernel without the module. */
TEST(module_goes_with_the_last_group_and_leaves_vms_of_before_alone)
{
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), fd = vm_eventfd(), other = vm_eventfd();
	int module = open_module(), vm;

	if (module < 0)
		SKIP(return, "the file of the module is not found");
	ASSERT_LE(0, kvm);

	/* While a group exists, neither can go; the end of its VM is the end of the group. */
	vm = VM_IOCTL(kvm, KVM_CREATE_VM, 0);
	EXPECT_EQ(EWOULDBLOCK, unload("kvm"));
	ASSERT_EQ(0, vm_ioeventfd(vm, PIO, 0x500, 4, 0, fd));
	ASSERT_EQ(0, vm_ioeventfd(vm, PIO | DATAMATCH, 0x600, 4, 7, fd));
	ASSERT_EQ(0, vm_ioeventfd(vm, 0, 0x80000100, 0, 0, fd));
	EXPECT_EQ(EWOULDBLOCK, unload(MODULE));
	ASSERT_EQ(0, vm_ioeventfd(vm, PIO | DEASSIGN, 0x500, 4, 0, fd));
	EXPECT_EQ(EWOULDBLOCK, unload(MODULE));
	close(vm);
	ASSERT_EQ(0, unload(MODULE));

	/* This VM has ioeventfds of KVM's when the module comes. */
	vm = VM_IOCTL(kvm, KVM_CREATE_VM, 0);
	EXPECT_FALSE(is_of_module(vm));
	ASSERT_EQ(0, vm_ioeventfd(vm, PIO | DATAMATCH, 0x500, 4, 7, fd));
	ASSERT_EQ(0, syscall(SYS_finit_module, module, "", 0));
	EXPECT_FALSE(is_of_module(vm));
	EXPECT_EQ(EEXIST, vm_ioeventfd(vm, PIO, 0x500, 4, 0, other));
	EXPECT_EQ(EEXIST, vm_ioeventfd(vm, PIO | DATAMATCH, 0x500, 4, 7, other));
	EXPECT_EQ(EINVAL, vm_ioeventfd(vm, PIO | MIXED, 0x500, 4, 0, other));
	ASSERT_EQ(0, vm_ioeventfd(vm, PIO | DATAMATCH, 0x500, 4, 8, other));
	EXPECT_EQ(ENOENT, vm_ioeventfd(vm, PIO | DATAMATCH | DEASSIGN, 0x500, 4, 8, fd));
	ASSERT_EQ(0, vm_ioeventfd(vm, PIO | DATAMATCH | DEASSIGN, 0x500, 4, 7, fd));
	EXPECT_FALSE(is_of_module(vm));
	ASSERT_EQ(0, vm_ioeventfd(vm, PIO | DATAMATCH | DEASSIGN, 0x500, 4, 8, other));

	/* It has none any more, so the next are the module's. */
	EXPECT_TRUE(is_of_module(vm));
	ASSERT_EQ(0, vm_ioeventfd(vm, PIO | MIXED, 0x500, 4, 0, fd));
	ASSERT_EQ(0, vm_ioeventfd(vm, PIO | MIXED | DATAMATCH, 0x500, 4, 7, other));
	EXPECT_EQ(EWOULDBLOCK, unload(MODULE));
	ASSERT_EQ(0, vm_ioeventfd(vm, PIO | DEASSIGN, 0x500, 4, 0, fd));
	ASSERT_EQ(0, vm_ioeventfd(vm, PIO | DATAMATCH | DEASSIGN, 0x500, 4, 7, other));
	ASSERT_EQ(0, unload(MODULE));
	ASSERT_EQ(0, syscall(SYS_finit_module, module, "", 0));
	close(vm);
	close(kvm);
}

TEST_HARNESS_MAIN
