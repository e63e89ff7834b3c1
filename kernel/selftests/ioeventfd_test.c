// SPDX-License-Identifier: GPL-2.0-only
/*
 * KVM_IOEVENTFD: which of a guest's writes signal which eventfd, and which registrations KVM refuses.
 */
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>

#include "vm.h"

/* More than one bus has room for, were ioeventfds counted. */
#define MANY		1100
/* Writes and removals of the race. */
#define RACE_WRITES	1500
#define RACE_REMOVALS	40

#define DATAMATCH	KVM_IOEVENTFD_FLAG_DATAMATCH
#define DEASSIGN	KVM_IOEVENTFD_FLAG_DEASSIGN
#define PIO		KVM_IOEVENTFD_FLAG_PIO

/* What KVM has no flag for. */
#define UNKNOWN_FLAG	(1 << 20)

static const char *const routines[2][4] = {
	{ vm_store1, vm_store2, vm_store4, vm_store8 },
	{ vm_out1, vm_out2, vm_out4, NULL },
};
static const char *const readers[2][4] = {
	{ vm_load1, vm_load2, vm_load4, vm_load8 },
	{ vm_in1, vm_in2, vm_in4, NULL },
};

FIXTURE(ioeventfd) {
	struct vm vm;
	int fd, other, null;
};

FIXTURE_VARIANT(ioeventfd) {
	uint32_t bus;
	uint64_t address;
	/* The widest access of the bus, as a power of two. */
	int widest;
};

FIXTURE_VARIANT_ADD(ioeventfd, pio) {
	.bus = PIO,
	.address = 0x500,
	.widest = 2,
};

FIXTURE_VARIANT_ADD(ioeventfd, mmio) {
	.bus = 0,
	.address = 0x80000100,
	.widest = 3,
};

FIXTURE_SETUP(ioeventfd)
{
	vm_make(&self->vm, false);
	self->fd = vm_eventfd();
	self->other = vm_eventfd();
	self->null = open("/dev/null", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, self->null);
}

FIXTURE_TEARDOWN(ioeventfd)
{
	vm_free(&self->vm);
	close(self->fd);
	close(self->other);
	close(self->null);
}

static const char *writer(uint32_t bus, int width)
{
	return routines[bus == PIO][width];
}

static const char *reader(uint32_t bus, int width)
{
	return readers[bus == PIO][width];
}

TEST_F(ioeventfd, write_of_its_length_signals_once_and_stays_in_the_kernel)
{
	const uint64_t value = 0x8877665544332211, at = variant->address;
	int width;

	for (width = 0; width <= variant->widest; width++) {
		uint32_t length = 1 << width;
		uint64_t mask = length == 8 ? ~0ULL : (1ULL << 8 * length) - 1;

		ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, variant->bus, at, length, 0, self->fd));
		EXPECT_EQ(0, vm_call(&self->vm, writer(variant->bus, width), at, value));
		EXPECT_EQ(1, vm_count(self->fd));
		EXPECT_EQ(0, vm_call(&self->vm, writer(variant->bus, width), at, 0));
		EXPECT_EQ(0, vm_call(&self->vm, writer(variant->bus, width), at, ~0ULL));
		EXPECT_EQ(2, vm_count(self->fd));

		ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, variant->bus | DEASSIGN, at, length, 0, self->fd));
		EXPECT_EQ(1, vm_call(&self->vm, writer(variant->bus, width), at, value));
		EXPECT_EQ(at, self->vm.exit.address);
		EXPECT_EQ(length, self->vm.exit.length);
		EXPECT_EQ(value & mask, self->vm.exit.data);
		EXPECT_TRUE(self->vm.exit.is_write);
		EXPECT_EQ(0, vm_count(self->fd));
	}
}

TEST_F(ioeventfd, write_of_another_length_or_address_exits)
{
	const uint64_t at = variant->address;
	int width;

	ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, variant->bus, at, 2, 0, self->fd));
	for (width = 0; width <= variant->widest; width++) {
		if (width == 1)
			continue;
		EXPECT_EQ(1, vm_call(&self->vm, writer(variant->bus, width), at, 0));
		EXPECT_EQ(1 << width, self->vm.exit.length);
	}
	EXPECT_EQ(1, vm_call(&self->vm, writer(variant->bus, 1), at + 1, 0));
	EXPECT_EQ(1, vm_call(&self->vm, writer(variant->bus, 1), at - 1, 0));
	EXPECT_EQ(1, vm_call(&self->vm, writer(variant->bus, 1), at + 2, 0));
	EXPECT_EQ(0, vm_count(self->fd));
	EXPECT_EQ(0, vm_call(&self->vm, writer(variant->bus, 1), at, 0));
	EXPECT_EQ(1, vm_count(self->fd));
}

TEST_F(ioeventfd, read_exits)
{
	const uint64_t at = variant->address;
	int width;

	for (width = 0; width <= variant->widest; width++) {
		ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, variant->bus, at, 1 << width, 0, self->fd));
		EXPECT_EQ(1, vm_call(&self->vm, reader(variant->bus, width), at, 0));
		EXPECT_FALSE(self->vm.exit.is_write);
		EXPECT_EQ(0, vm_count(self->fd));
	}
}

TEST_F(ioeventfd, datamatch_signals_for_its_value_only)
{
	const uint64_t at = variant->address;
	int width;

	for (width = 0; width <= variant->widest; width++) {
		uint32_t flags = variant->bus | DATAMATCH, length = 1 << width;

		ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, flags, at, length, 0x12, self->fd));
		ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, flags, at, length, 0x34, self->other));
		EXPECT_EQ(0, vm_call(&self->vm, writer(variant->bus, width), at, 0x12));
		EXPECT_EQ(1, vm_count(self->fd));
		EXPECT_EQ(0, vm_count(self->other));
		EXPECT_EQ(0, vm_call(&self->vm, writer(variant->bus, width), at, 0x34));
		EXPECT_EQ(0, vm_count(self->fd));
		EXPECT_EQ(1, vm_count(self->other));
		EXPECT_EQ(1, vm_call(&self->vm, writer(variant->bus, width), at, 0x56));
		EXPECT_EQ(0x56, self->vm.exit.data);
		EXPECT_EQ(0, vm_count(self->fd) + vm_count(self->other));

		ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, flags | DEASSIGN, at, length, 0x12, self->fd));
		EXPECT_EQ(1, vm_call(&self->vm, writer(variant->bus, width), at, 0x12));
		EXPECT_EQ(0, vm_call(&self->vm, writer(variant->bus, width), at, 0x34));
		EXPECT_EQ(0, vm_count(self->fd));
		EXPECT_EQ(1, vm_count(self->other));
	}
}

TEST_F(ioeventfd, datamatch_with_more_bits_than_its_length_never_matches)
{
	const uint64_t at = variant->address;

	ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, variant->bus | DATAMATCH, at, 4, 0x100000001, self->fd));
	EXPECT_EQ(1, vm_call(&self->vm, writer(variant->bus, 2), at, 1));
	EXPECT_EQ(0, vm_count(self->fd));
}

TEST_F(ioeventfd, length_0_takes_a_write_of_any_length)
{
	const uint64_t at = variant->address;
	int width;

	ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, variant->bus, at, 0, 0, self->fd));
	for (width = 0; width <= variant->widest; width++) {
		EXPECT_EQ(0, vm_call(&self->vm, writer(variant->bus, width), at, ~0ULL));
		EXPECT_EQ(1, vm_count(self->fd));
	}
	EXPECT_EQ(1, vm_call(&self->vm, writer(variant->bus, 0), at + 1, 0));
	ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, variant->bus | DEASSIGN, at, 0, 0, self->fd));
	for (width = 0; width <= variant->widest; width++)
		EXPECT_EQ(1, vm_call(&self->vm, writer(variant->bus, width), at, 0));
	EXPECT_EQ(0, vm_count(self->fd));
	/* Nothing of it is left. */
	EXPECT_EQ(0, vm_ioeventfd(self->vm.fd, variant->bus, at, 0, 0, self->fd));
}

TEST_F(ioeventfd, lengths_share_an_address)
{
	const uint64_t at = variant->address;
	int fds[4], width, other;

	for (width = 0; width <= variant->widest; width++) {
		fds[width] = vm_eventfd();
		ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, variant->bus, at, 1 << width, 0, fds[width]));
	}
	for (width = 0; width <= variant->widest; width++) {
		EXPECT_EQ(0, vm_call(&self->vm, writer(variant->bus, width), at, 0));
		for (other = 0; other <= variant->widest; other++)
			EXPECT_EQ(other == width, vm_count(fds[other]));
	}
	/* One that takes all lengths collides with each. */
	EXPECT_EQ(EEXIST, vm_ioeventfd(self->vm.fd, variant->bus, at, 0, 0, self->fd));
}

TEST_F(ioeventfd, same_trigger_is_refused)
{
	const uint64_t at = variant->address, next = at + 8, last = at + 16;
	const uint32_t bus = variant->bus;
	struct vm *vm = &self->vm;

	ASSERT_EQ(0, vm_ioeventfd(vm->fd, bus, at, 2, 0, self->fd));
	EXPECT_EQ(EEXIST, vm_ioeventfd(vm->fd, bus, at, 2, 0, self->fd));
	EXPECT_EQ(EEXIST, vm_ioeventfd(vm->fd, bus, at, 2, 0, self->other));
	EXPECT_EQ(EEXIST, vm_ioeventfd(vm->fd, bus | DATAMATCH, at, 2, 7, self->other));
	EXPECT_EQ(EEXIST, vm_ioeventfd(vm->fd, bus, at, 0, 0, self->other));
	EXPECT_EQ(0, vm_ioeventfd(vm->fd, bus | DATAMATCH, at, 4, 7, self->other));

	ASSERT_EQ(0, vm_ioeventfd(vm->fd, bus | DATAMATCH, next, 2, 7, self->fd));
	EXPECT_EQ(EEXIST, vm_ioeventfd(vm->fd, bus | DATAMATCH, next, 2, 7, self->other));
	EXPECT_EQ(EEXIST, vm_ioeventfd(vm->fd, bus, next, 2, 0, self->other));
	EXPECT_EQ(EEXIST, vm_ioeventfd(vm->fd, bus, next, 0, 0, self->other));
	EXPECT_EQ(0, vm_ioeventfd(vm->fd, bus | DATAMATCH, next, 2, 8, self->fd));

	ASSERT_EQ(0, vm_ioeventfd(vm->fd, bus, last, 0, 0, self->fd));
	EXPECT_EQ(EEXIST, vm_ioeventfd(vm->fd, bus, last, 0, 0, self->other));
	EXPECT_EQ(EEXIST, vm_ioeventfd(vm->fd, bus, last, 4, 0, self->other));
	EXPECT_EQ(EEXIST, vm_ioeventfd(vm->fd, bus | DATAMATCH, last, 4, 7, self->other));

	/* What was refused has changed nothing. */
	EXPECT_EQ(0, vm_call(vm, writer(bus, 1), at, 7));
	EXPECT_EQ(1, vm_count(self->fd));
	EXPECT_EQ(0, vm_count(self->other));
}

TEST_F(ioeventfd, buses_are_apart)
{
	const uint64_t at = 0x500;
	uint32_t other_bus = variant->bus ^ PIO;

	ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, variant->bus, at, 1, 0, self->fd));
	EXPECT_EQ(ENOENT, vm_ioeventfd(self->vm.fd, other_bus | DEASSIGN, at, 1, 0, self->fd));
	EXPECT_EQ(0, vm_ioeventfd(self->vm.fd, other_bus, at, 1, 0, self->other));
	EXPECT_EQ(0, vm_ioeventfd(self->vm.fd, variant->bus | DEASSIGN, at, 1, 0, self->fd));
	EXPECT_EQ(0, vm_ioeventfd(self->vm.fd, other_bus | DEASSIGN, at, 1, 0, self->other));
}

TEST_F(ioeventfd, wrong_arguments_are_refused_before_the_eventfd_is_looked_at)
{
	const uint64_t at = variant->address, top = ~0ULL;
	const uint32_t bus = variant->bus;
	struct vm *vm = &self->vm;
	static const uint32_t lengths[] = { 3, 5, 6, 7, 9, 16, ~0U };
	int fds[] = { self->fd, -1 };
	size_t i, j;

	for (i = 0; i < 2; i++) {
		for (j = 0; j < sizeof(lengths) / sizeof(lengths[0]); j++)
			EXPECT_EQ(EINVAL, vm_ioeventfd(vm->fd, bus, at, lengths[j], 0, fds[i]));
		EXPECT_EQ(EINVAL, vm_ioeventfd(vm->fd, bus, top, 1, 0, fds[i]));
		EXPECT_EQ(EINVAL, vm_ioeventfd(vm->fd, bus, top - 3, 8, 0, fds[i]));
		EXPECT_EQ(EINVAL, vm_ioeventfd(vm->fd, bus | UNKNOWN_FLAG, at, 4, 0, fds[i]));
		EXPECT_EQ(EINVAL, vm_ioeventfd(vm->fd, bus | DATAMATCH, at, 0, 0, fds[i]));
	}
	EXPECT_EQ(EBADF, vm_ioeventfd(vm->fd, bus, at, 4, 0, -1));
	EXPECT_EQ(EINVAL, vm_ioeventfd(vm->fd, bus, at, 4, 0, self->null));
	/* The eventfd is looked at before the collision. */
	ASSERT_EQ(0, vm_ioeventfd(vm->fd, bus, at, 4, 0, self->fd));
	EXPECT_EQ(EBADF, vm_ioeventfd(vm->fd, bus, at, 4, 0, -1));
	EXPECT_EQ(EEXIST, vm_ioeventfd(vm->fd, bus, at, 4, 0, self->fd));
}

TEST_F(ioeventfd, only_the_same_registration_is_deassigned)
{
	const uint64_t at = variant->address;
	const uint32_t bus = variant->bus | DEASSIGN;
	struct vm *vm = &self->vm;
	int copy;

	EXPECT_EQ(ENOENT, vm_ioeventfd(vm->fd, bus, at, 2, 0, self->fd));
	ASSERT_EQ(0, vm_ioeventfd(vm->fd, variant->bus | DATAMATCH, at, 2, 7, self->fd));
	EXPECT_EQ(ENOENT, vm_ioeventfd(vm->fd, bus | DATAMATCH, at, 2, 7, self->other));
	EXPECT_EQ(ENOENT, vm_ioeventfd(vm->fd, bus | DATAMATCH, at, 2, 8, self->fd));
	EXPECT_EQ(ENOENT, vm_ioeventfd(vm->fd, bus | DATAMATCH, at, 4, 7, self->fd));
	EXPECT_EQ(ENOENT, vm_ioeventfd(vm->fd, bus | DATAMATCH, at + 2, 2, 7, self->fd));
	EXPECT_EQ(ENOENT, vm_ioeventfd(vm->fd, bus, at, 2, 7, self->fd));
	EXPECT_EQ(EBADF, vm_ioeventfd(vm->fd, bus | DATAMATCH, at, 2, 7, -1));
	EXPECT_EQ(EINVAL, vm_ioeventfd(vm->fd, bus | DATAMATCH, at, 2, 7, self->null));
	EXPECT_EQ(0, vm_call(vm, writer(variant->bus, 1), at, 7));
	EXPECT_EQ(1, vm_count(self->fd));

	/* The eventfd counts, not its number. */
	copy = dup(self->fd);
	ASSERT_LE(0, copy);
	EXPECT_EQ(0, vm_ioeventfd(vm->fd, bus | DATAMATCH, at, 2, 7, copy));
	EXPECT_EQ(ENOENT, vm_ioeventfd(vm->fd, bus | DATAMATCH, at, 2, 7, self->fd));
	EXPECT_EQ(1, vm_call(vm, writer(variant->bus, 1), at, 7));
	EXPECT_EQ(0, vm_count(self->fd));

	EXPECT_EQ(0, vm_ioeventfd(vm->fd, variant->bus, at, 2, 0, self->fd));
	EXPECT_EQ(0, vm_call(vm, writer(variant->bus, 1), at, 7));
	EXPECT_EQ(1, vm_count(self->fd));
}

TEST_F(ioeventfd, full_counter_does_not_stop_the_guest)
{
	const uint64_t at = variant->address;
	struct pollfd poll_fd = { .fd = self->fd, .events = POLLIN | POLLOUT };

	ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, variant->bus, at, 4, 0, self->fd));
	vm_signal(self->fd, ~0ULL - 1);
	EXPECT_EQ(0, vm_call(&self->vm, writer(variant->bus, 2), at, 0));
	EXPECT_EQ(0, vm_call(&self->vm, writer(variant->bus, 2), at, 0));
	EXPECT_EQ(1, poll(&poll_fd, 1, 0));
	EXPECT_EQ(POLLIN | POLLERR, poll_fd.revents);
	EXPECT_EQ(~0ULL, vm_count(self->fd));
}

TEST_F(ioeventfd, another_process_is_refused)
{
	int status, child = fork();

	ASSERT_LE(0, child);
	if (!child)
		_exit(vm_ioeventfd(self->vm.fd, variant->bus, variant->address, 4, 0, self->fd));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_TRUE(WIFEXITED(status));
	EXPECT_EQ(EIO, WEXITSTATUS(status));
	EXPECT_EQ(1, vm_call(&self->vm, writer(variant->bus, 2), variant->address, 0));
}

struct race {
	struct vm *vm;
	const char *writer;
	uint64_t at;
	/* Written by the thread. */
	uint64_t exits, writes;
};

static void *write_all_the_time(void *argument)
{
	struct race *race = argument;

	while (race->writes < RACE_WRITES) {
		uint64_t exits = vm_call(race->vm, race->writer, race->at, 0);

		race->exits += exits;
		__atomic_store_n(&race->writes, race->writes + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static uint64_t writes_of(struct race *race)
{
	return __atomic_load_n(&race->writes, __ATOMIC_ACQUIRE);
}

/* Waits for that many further writes; returns false if the thread has ended before. */
static bool wait_for_writes(struct race *race, uint64_t count)
{
	uint64_t end = writes_of(race) + count;

	while (writes_of(race) < end) {
		if (writes_of(race) == RACE_WRITES)
			return false;
		usleep(50);
	}
	return true;
}

TEST_F(ioeventfd, each_write_signals_or_exits_and_none_signals_after_deassign)
{
	struct race race = {
		.vm = &self->vm,
		.writer = writer(variant->bus, 2),
		.at = variant->address,
	};
	uint64_t signals = 0;
	pthread_t thread;
	int i;

	ASSERT_EQ(0, pthread_create(&thread, NULL, write_all_the_time, &race));
	for (i = 0; i < RACE_REMOVALS; i++) {
		ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, variant->bus, race.at, 4, 0, self->fd));
		if (!wait_for_writes(&race, 3))
			break;
		ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, variant->bus | DEASSIGN, race.at, 4, 0, self->fd));
		signals += vm_count(self->fd);
		if (!wait_for_writes(&race, 3))
			break;
		EXPECT_EQ(0, vm_count(self->fd));
	}
	EXPECT_LT(1, i);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	signals += vm_count(self->fd);
	EXPECT_LT(0, signals);
	EXPECT_LT(0, race.exits);
	EXPECT_EQ(RACE_WRITES, signals + race.exits);
}

/* What only one of the buses has, or what is the same on both. */
FIXTURE(one_bus) {
	struct vm vm;
	int fd;
};

FIXTURE_SETUP(one_bus)
{
	vm_make(&self->vm, false);
	self->fd = vm_eventfd();
}

FIXTURE_TEARDOWN(one_bus)
{
	vm_free(&self->vm);
	close(self->fd);
}

TEST_F(one_bus, ioeventfds_are_not_limited_in_number)
{
	uint64_t value;

	for (value = 0; value < MANY; value++) {
		int error = vm_ioeventfd(self->vm.fd, PIO | DATAMATCH, 0x500, 4, value, self->fd);

		ASSERT_EQ(0, error) {
			TH_LOG("after %llu", (unsigned long long)value);
		}
	}
	EXPECT_EQ(0, vm_call(&self->vm, vm_out4, 0x500, 0));
	EXPECT_EQ(0, vm_call(&self->vm, vm_out4, 0x500, MANY - 1));
	EXPECT_EQ(1, vm_call(&self->vm, vm_out4, 0x500, MANY));
	EXPECT_EQ(2, vm_count(self->fd));
}

TEST_F(one_bus, each_byte_of_a_string_to_a_port_signals)
{
	ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, PIO, 0x500, 1, 0, self->fd));
	EXPECT_EQ(0, vm_call(&self->vm, vm_outs, 0x500, 5));
	EXPECT_EQ(5, vm_count(self->fd));
}

TEST_F(one_bus, part_of_a_store_on_the_next_page_signals)
{
	const uint64_t page = 0x80001000;

	ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, 0, page, 4, 0, self->fd));
	EXPECT_EQ(1, vm_call(&self->vm, vm_store8, page - 4, 0x8877665544332211));
	EXPECT_EQ(page - 4, self->vm.exit.address);
	EXPECT_EQ(4, self->vm.exit.length);
	EXPECT_EQ(0x44332211, self->vm.exit.data);
	EXPECT_EQ(1, vm_count(self->fd));
}

/* Kernels before 6.1.180 and 6.12.95 stop in a BUG_ON here: the value is not aligned in the kernel's memory. */
TEST_F(one_bus, value_in_the_middle_of_a_wide_store_matches)
{
	const uint64_t page = 0x80001000;
	uint64_t words[2] = { 0x1111111122222222, 0x3333333344444444 };

	memcpy(self->vm.mailbox->bytes, words, sizeof(words));
	ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, DATAMATCH, page, 8, 0x4444444411111111, self->fd));
	EXPECT_EQ(2, vm_call(&self->vm, vm_store16, page - 4, 0));
	EXPECT_EQ(page - 4, self->vm.exit.address);
	EXPECT_EQ(1, vm_count(self->fd));
}

TEST_HARNESS_MAIN
