// SPDX-License-Identifier: GPL-2.0-only
/*
 * The module kvm_ioeventfd: what a guest writes is queued in a ring in the VMM's memory (kernel/kvm-ioeventfd/kvm_ioeventfd.h).
 * Without the module the program is skipped.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "module.h"

#define PAGE		4096
/* Of most tests' rings. */
#define ENTRIES		4
#define CYCLES		20
#define KILLS		4
/* Writes of each vCPU, and their ring, which is full often. */
#define VCPU_WRITES	3000
#define VCPU_ENTRIES	8
#define RACE_WRITES	1500
#define RACE_REMOVALS	40
#define RACE_ENTRIES	128

struct entry {
	uint64_t value;
	uint32_t tag, length;
};

struct ring {
	uint32_t tail, reserved[15];
	uint32_t head, reserved2[15];
	struct entry entries[];
};

FIXTURE(ring) {
	struct vm vm;
	int fds[2];
	const char *write;
	/* One page with ENTRIES entries. */
	struct ring *ring;
};

FIXTURE_VARIANT(ring) {
	uint32_t bus;
	uint64_t address;
};

FIXTURE_VARIANT_ADD(ring, pio) {
	.bus = PIO,
	.address = 0x500,
};

FIXTURE_VARIANT_ADD(ring, mmio) {
	.bus = 0,
	.address = 0x80000100,
};

FIXTURE_SETUP(ring)
{
	int i;

	vm_make(&self->vm, false);
	for (i = 0; i < 2; i++)
		self->fds[i] = vm_eventfd();
	self->write = variant->bus ? vm_out4 : vm_store4;
	self->ring = vm_map(-1, PAGE);
}

FIXTURE_TEARDOWN(ring)
{
	int i;

	vm_free(&self->vm);
	for (i = 0; i < 2; i++)
		close(self->fds[i]);
}

static int ring_ioctl(int vm, uint32_t flags, uint64_t address, uint32_t length, void *ring, uint32_t entries,
		      uint32_t tag, int fd)
{
	struct kvm_ioeventfd argument = {
		.addr = address,
		.len = length,
		.fd = fd,
		.flags = flags | RING,
	};

	memcpy(argument.pad + 4, &ring, sizeof(ring));
	memcpy(argument.pad + 12, &entries, sizeof(entries));
	memcpy(argument.pad + 16, &tag, sizeof(tag));
	return ioctl(vm, KVM_IOEVENTFD, &argument) < 0 ? errno : 0;
}

/* Takes the oldest entry out of the ring; its length is 0 if the ring is empty. */
static struct entry take(struct ring *ring, uint32_t entries)
{
	struct entry entry = { .length = 0 };
	uint32_t head = ring->head;

	if (head == __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE))
		return entry;
	entry = ring->entries[head % entries];
	__atomic_store_n(&ring->head, head + 1, __ATOMIC_RELEASE);
	return entry;
}

#define ADD_TO(ring, entries, event) \
	ring_ioctl(self->vm.fd, variant->bus, variant->address, 4, ring, entries, 9, event)
#define ADD()			ADD_TO(self->ring, ENTRIES, self->fds[0])
#define REMOVE(event)		vm_ioeventfd(self->vm.fd, variant->bus | DEASSIGN, variant->address, 4, 0, event)
#define WRITE(value)		vm_call(&self->vm, self->write, variant->address, value)
#define EXPECT_TAKEN(expected)					\
	do {							\
		struct entry taken = take(self->ring, ENTRIES);	\
								\
		EXPECT_EQ(4, taken.length);			\
		EXPECT_EQ(9, taken.tag);			\
		EXPECT_EQ(expected, taken.value);		\
	} while (0)
#define EXPECT_EMPTY()		EXPECT_EQ(0, take(self->ring, ENTRIES).length)

TEST_F(ring, value_is_queued_with_its_length_and_its_doorbells_tag)
{
	static const char *const writes[2][4] = {
		{ vm_store1, vm_store2, vm_store4, vm_store8 }, { vm_out1, vm_out2, vm_out4 },
	};
	int width, widest = variant->bus == PIO ? 2 : 3;

	for (width = 0; width <= widest; width++) {
		uint64_t at = variant->address + 8 * width, value = 0x8877665544332211;
		const char *write = writes[variant->bus == PIO][width];
		uint32_t length = 1 << width;
		struct entry taken;

		ASSERT_EQ(0, ring_ioctl(self->vm.fd, variant->bus, at, length, self->ring, ENTRIES, 1000 + width,
					self->fds[0]));
		EXPECT_EQ(0, vm_call(&self->vm, write, at, value));
		EXPECT_EQ(1, vm_count(self->fds[0]));
		taken = take(self->ring, ENTRIES);
		EXPECT_EQ(length, taken.length);
		EXPECT_EQ(1000 + width, taken.tag);
		EXPECT_EQ(length == 8 ? value : value & ((1ULL << 8 * length) - 1), taken.value);
		EXPECT_EMPTY();
		/* Another width is not this doorbell's. */
		EXPECT_EQ(1, vm_call(&self->vm, writes[variant->bus == PIO][width ? 0 : 1], at, value));
		EXPECT_EMPTY();
	}
}

TEST_F(ring, full_ring_is_an_exit_until_it_is_read)
{
	int i;

	ASSERT_EQ(0, ADD());
	EXPECT_EQ(EEXIST, ADD_TO(self->ring, ENTRIES, self->fds[1]));
	for (i = 0; i < ENTRIES; i++)
		EXPECT_EQ(0, WRITE(100 + i));
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(1, WRITE(200 + i));
		EXPECT_EQ(200 + i, self->vm.exit.data);
		EXPECT_TRUE(self->vm.exit.is_write);
	}
	EXPECT_EQ(ENTRIES, vm_count(self->fds[0]));
	EXPECT_TAKEN(100);
	EXPECT_EQ(0, WRITE(104));
	EXPECT_EQ(1, WRITE(202));
	for (i = 1; i <= ENTRIES; i++)
		EXPECT_TAKEN(100 + i);
	EXPECT_EMPTY();
	EXPECT_EQ(1, vm_count(self->fds[0]));
	ASSERT_EQ(0, REMOVE(self->fds[0]));
	EXPECT_EQ(1, WRITE(7));
	EXPECT_EMPTY();
}

TEST_F(ring, ring_has_all_its_entries_in_several_pages)
{
	uint32_t entries = 1024, i;
	struct ring *ring = vm_map(-1, 5 * PAGE);

	ASSERT_EQ(0, ADD_TO(ring, entries, self->fds[0]));
	for (i = 0; i < entries; i++)
		ASSERT_EQ(0, WRITE(i));
	EXPECT_EQ(1, WRITE(i));
	for (i = 0; i < entries; i++)
		ASSERT_EQ(i, take(ring, entries).value);
	EXPECT_EQ(entries, vm_count(self->fds[0]));
}

TEST_F(ring, doorbells_that_name_the_same_memory_share_the_ring)
{
	const uint64_t at = variant->address;
	int fd = memfd_create("ring", MFD_CLOEXEC), i;
	struct ring *alias;

	ASSERT_EQ(0, ftruncate(fd, PAGE));
	self->ring = vm_map(fd, PAGE);
	alias = vm_map(fd, PAGE);
	ASSERT_EQ(0, ADD());
	ASSERT_EQ(0, ring_ioctl(self->vm.fd, variant->bus, at + 4, 4, alias, ENTRIES, 10, self->fds[1]));
	/* Mixed, so twice for one address. */
	ASSERT_EQ(0, ring_ioctl(self->vm.fd, variant->bus | MIXED, at + 8, 4, alias, ENTRIES, 11, self->fds[0]));
	ASSERT_EQ(0, ring_ioctl(self->vm.fd, variant->bus | MIXED, at + 8, 4, alias, ENTRIES, 11, self->fds[1]));
	for (i = 0; i < 10; i++) {
		struct entry taken;

		EXPECT_EQ(0, vm_call(&self->vm, self->write, at, i));
		EXPECT_EQ(0, vm_call(&self->vm, self->write, at + 4, i));
		EXPECT_EQ(0, vm_call(&self->vm, self->write, at + 8, i));
		EXPECT_EQ(1, vm_call(&self->vm, self->write, at + 4, 77));
		EXPECT_TAKEN(i);
		taken = take(alias, ENTRIES);
		EXPECT_EQ(10, taken.tag);
		EXPECT_EQ(i, taken.value);
		EXPECT_EQ(11, take(alias, ENTRIES).tag);
		EXPECT_EQ(11, take(alias, ENTRIES).tag);
		EXPECT_EMPTY();
		EXPECT_EQ(2, vm_count(self->fds[0]));
		EXPECT_EQ(2, vm_count(self->fds[1]));
	}
	/* The ring goes with the last. */
	ASSERT_EQ(0, REMOVE(self->fds[0]));
	EXPECT_EQ(EEXIST, ADD_TO(alias, 2 * ENTRIES, self->fds[0]));
	EXPECT_EQ(0, vm_call(&self->vm, self->write, at + 4, 5));
	EXPECT_EQ(5, take(alias, ENTRIES).value);
	ASSERT_EQ(0, ring_ioctl(self->vm.fd, variant->bus | DEASSIGN, at + 4, 4, NULL, 0, 0, self->fds[1]));
	ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, variant->bus | DEASSIGN, at + 8, 4, 0, self->fds[0]));
	ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, variant->bus | DEASSIGN, at + 8, 4, 0, self->fds[1]));
	EXPECT_EQ(0, ADD_TO(alias, 2 * ENTRIES, self->fds[0]));
}

TEST_F(ring, kernel_writes_nothing_else_whatever_the_vmm_stores)
{
	const uint32_t heads[] = { 1, 2, ENTRIES, -ENTRIES, -ENTRIES - 1, 0x7fffffff, 0x80000000 };
	unsigned char *page = (unsigned char *)self->ring, copy[PAGE];
	size_t i, end = sizeof(struct ring) + ENTRIES * sizeof(struct entry);

	memset(page + end, 0xa5, PAGE - end);
	ASSERT_EQ(0, ADD());
	for (i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		/* As if it had read more than there was, or had read nothing for long. */
		self->ring->head = heads[i];
		memcpy(copy, page, PAGE);
		EXPECT_EQ(1, WRITE(7));
		EXPECT_EQ(7, self->vm.exit.data);
		EXPECT_EQ(0, memcmp(copy, page, PAGE));
	}
	EXPECT_EQ(0, vm_count(self->fds[0]));

	/* The kernel has its own tail. */
	for (i = 0; i < 2 * ENTRIES; i++) {
		self->ring->head = i;
		self->ring->tail = 0x12345678;
		EXPECT_EQ(0, WRITE(50 + i));
		EXPECT_EQ(i + 1, self->ring->tail);
		EXPECT_EQ(50 + i, self->ring->entries[i % ENTRIES].value);
	}
	for (i = end; i < PAGE; i++)
		ASSERT_EQ(0xa5, page[i]);
}

TEST_F(ring, values_that_are_not_read_stay_when_the_doorbell_goes_and_comes)
{
	int i;

	/* The counters wrap. */
	self->ring->head = self->ring->tail = -2;
	for (i = 0; i < 5 * ENTRIES; i += 3) {
		ASSERT_EQ(0, ADD());
		EXPECT_EQ(0, WRITE(i));
		EXPECT_EQ(0, WRITE(i + 1));
		ASSERT_EQ(0, REMOVE(self->fds[0]));
		EXPECT_TAKEN(i);
		ASSERT_EQ(0, ADD());
		EXPECT_EQ(0, WRITE(i + 2));
		ASSERT_EQ(0, REMOVE(self->fds[0]));
		EXPECT_TAKEN(i + 1);
		EXPECT_TAKEN(i + 2);
		EXPECT_EMPTY();
	}
}

TEST_F(ring, what_cannot_be_a_ring_is_refused)
{
	const uint64_t at = variant->address;
	int vm = self->vm.fd, fd = self->fds[0];
	char *pages = vm_map(-1, 3 * PAGE);

	ASSERT_EQ(0, mprotect(pages + PAGE, PAGE, PROT_READ));
	ASSERT_EQ(0, munmap(pages + 2 * PAGE, PAGE));
	EXPECT_EQ(EINVAL, ring_ioctl(vm, variant->bus, at, 0, pages, ENTRIES, 0, fd));
	EXPECT_EQ(EINVAL, ring_ioctl(vm, variant->bus | DATAMATCH, at, 4, pages, ENTRIES, 0, fd));
	EXPECT_EQ(EINVAL, ring_ioctl(vm, variant->bus | PAYLOAD, at, 4, pages, ENTRIES, 0, fd));
	EXPECT_EQ(EINVAL, ADD_TO(pages + 64, ENTRIES, fd));
	EXPECT_EQ(EINVAL, ADD_TO(pages, 0, fd));
	EXPECT_EQ(EINVAL, ADD_TO(pages, 3, fd));
	EXPECT_EQ(EINVAL, ADD_TO(pages, 65536, fd));
	EXPECT_EQ(EINVAL, ADD_TO(pages, 1u << 31, fd));
	EXPECT_EQ(EFAULT, ADD_TO(NULL, ENTRIES, fd));
	EXPECT_EQ(EFAULT, ADD_TO(pages + PAGE, ENTRIES, fd));
	EXPECT_EQ(EFAULT, ADD_TO(pages + 2 * PAGE, ENTRIES, fd));
	/* Its second page cannot be written. */
	EXPECT_EQ(EFAULT, ADD_TO(pages, 256, fd));
	EXPECT_EQ(EFAULT, ADD_TO((void *)0xffffffff80000000, ENTRIES, fd));
	EXPECT_EQ(EBADF, ADD_TO(pages, ENTRIES, -1));
	/* Whether there are rings is asked without memory for one. */
	EXPECT_EQ(EBADF, ADD_TO(NULL, 0, -1));
	EXPECT_EQ(1, WRITE(7));
	EXPECT_EQ(0, ADD_TO(pages, 128, fd));
	EXPECT_EQ(0, WRITE(7));
}

TEST_F(ring, full_ring_of_a_mixed_group_is_an_exit_and_the_others_are_signalled)
{
	int i;

	ASSERT_EQ(0, ring_ioctl(self->vm.fd, variant->bus | MIXED, variant->address, 4, self->ring, ENTRIES, 9,
				self->fds[0]));
	ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, variant->bus | MIXED, variant->address, 4, 0, self->fds[1]));
	for (i = 0; i < ENTRIES; i++)
		EXPECT_EQ(0, WRITE(i));
	EXPECT_EQ(1, WRITE(7));
	EXPECT_EQ(ENTRIES, vm_count(self->fds[0]));
	EXPECT_EQ(ENTRIES + 1, vm_count(self->fds[1]));
	for (i = 0; i < ENTRIES; i++)
		EXPECT_TAKEN(i);
	EXPECT_EMPTY();
	EXPECT_EQ(0, WRITE(8));
	EXPECT_TAKEN(8);
}

/* A number of a file whose lines are a name and a number; -1 if it is not there. */
static long number(const char *path, const char *name)
{
	size_t length = strlen(name);
	char line[256];
	long value = -1;
	FILE *file = fopen(path, "re");

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, length))
			value = strtol(line + length, NULL, 10);
	if (file)
		fclose(file);
	return value;
}

/* KiB of this process that are pinned. */
static long pinned(void)
{
	return number("/proc/self/status", "VmPin:");
}

/* Pages of all processes that are pinned; others may pin, too. */
static long pinned_by_all(void)
{
	int fd = open("/proc/sys/vm/stat_refresh", O_WRONLY | O_CLOEXEC);

	/* Adds up what CPUs count by themselves. */
	if (fd < 0 || write(fd, "1", 1) != 1)
		vm_die("stat_refresh: %s\n", strerror(errno));
	close(fd);
	return number("/proc/vmstat", "nr_foll_pin_acquired ") - number("/proc/vmstat", "nr_foll_pin_released ");
}

static long references(void)
{
	return number("/sys/module/" MODULE "/refcnt", "");
}

TEST_F(ring, memory_counts_towards_the_limit_once)
{
	struct rlimit limit = { .rlim_cur = 2 * PAGE, .rlim_max = 2 * PAGE };
	const uint64_t at = variant->address;
	char *pages = vm_map(-1, 4 * PAGE);

	EXPECT_EQ(0, pinned());
	ASSERT_EQ(0, setrlimit(RLIMIT_MEMLOCK, &limit));
	/* Root has no limit. */
	ASSERT_EQ(0, ADD_TO(pages, 512, self->fds[0]));
	EXPECT_EQ(12, pinned());
	ASSERT_EQ(0, REMOVE(self->fds[0]));
	EXPECT_EQ(0, pinned());
	ASSERT_EQ(0, seteuid(65534));
	EXPECT_EQ(ENOMEM, ADD_TO(pages, 512, self->fds[0]));
	EXPECT_EQ(0, pinned());
	ASSERT_EQ(0, ADD_TO(pages, 256, self->fds[0]));
	EXPECT_EQ(8, pinned());
	EXPECT_EQ(0, ring_ioctl(self->vm.fd, variant->bus, at + 8, 4, pages, 256, 0, self->fds[0]));
	EXPECT_EQ(ENOMEM, ring_ioctl(self->vm.fd, variant->bus, at + 16, 4, pages + 2 * PAGE, 4, 0, self->fds[0]));
	EXPECT_EQ(8, pinned());
	ASSERT_EQ(0, REMOVE(self->fds[0]));
	EXPECT_EQ(8, pinned());
	/* Its ring is the last. */
	ASSERT_EQ(0, ring_ioctl(self->vm.fd, variant->bus | DEASSIGN, at + 8, 4, NULL, 0, 0, self->fds[0]));
	EXPECT_EQ(0, pinned());
	EXPECT_EQ(0, ADD());
	ASSERT_EQ(0, seteuid(0));
}

TEST_F(ring, memory_is_released_with_the_last_doorbell_and_with_the_vm)
{
	long before = pinned_by_all(), refused = 0;
	int i;

	for (i = 0; i < CYCLES; i++) {
		ASSERT_EQ(0, ADD());
		refused += ADD() == EEXIST;
		refused += ADD_TO(self->ring, 2 * ENTRIES, self->fds[1]) == EEXIST;
		if (!i)
			EXPECT_LT(before, pinned_by_all());
		ASSERT_EQ(0, REMOVE(self->fds[0]));
	}
	EXPECT_EQ(2 * CYCLES, refused);
	EXPECT_EQ(0, pinned());
	for (i = 0; i < CYCLES; i++) {
		int vm = VM_IOCTL(self->vm.kvm, KVM_CREATE_VM, 0);

		ASSERT_EQ(0, ring_ioctl(vm, variant->bus, variant->address, 4, self->ring, ENTRIES, 0, self->fds[0]));
		ASSERT_EQ(0, ring_ioctl(vm, variant->bus, variant->address + 4, 4, self->ring, ENTRIES, 0, self->fds[0]));
		close(vm);
	}
	EXPECT_EQ(0, pinned());
	/* Each cycle would leave a page. */
	EXPECT_GT(before + CYCLES / 2, pinned_by_all());
}

TEST_F(ring, fork_and_unmapping_leave_the_ring_to_its_vm)
{
	int i, status;
	pid_t child;

	ASSERT_EQ(0, ADD());
	EXPECT_EQ(0, WRITE(1));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		/* It has the values, but neither the VM nor the ring. */
		bool has = take(self->ring, ENTRIES).value == 1 && ADD() == EIO;

		self->ring->head = 77;
		_exit(has ? 0 : 1);
	}
	EXPECT_EQ(0, WRITE(2));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_TAKEN(1);
	EXPECT_EQ(0, WRITE(3));
	EXPECT_TAKEN(2);
	EXPECT_TAKEN(3);
	EXPECT_EMPTY();

	/* Values go to the pages that the VMM has no more, until they are full. */
	ASSERT_EQ(0, munmap(self->ring, PAGE));
	for (i = 0; i < ENTRIES; i++)
		EXPECT_EQ(0, WRITE(i));
	EXPECT_EQ(1, WRITE(7));
	/* Other memory at the same address is another ring. */
	ASSERT_EQ(self->ring, mmap(self->ring, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	ASSERT_EQ(0, ring_ioctl(self->vm.fd, variant->bus, variant->address + 4, 4, self->ring, ENTRIES, 9, self->fds[1]));
	EXPECT_EQ(0, vm_call(&self->vm, self->write, variant->address + 4, 8));
	EXPECT_TAKEN(8);
	EXPECT_EMPTY();
	ASSERT_EQ(0, REMOVE(self->fds[0]));
	EXPECT_EQ(1, WRITE(7));
	EXPECT_EMPTY();
}

TEST_F(ring, vm_that_is_killed_while_it_writes_leaves_nothing)
{
	long pins = pinned_by_all(), module = references();
	int i, j, status;

	ASSERT_LE(0, module);
	for (i = 0; i < KILLS; i++) {
		pid_t child = fork();

		ASSERT_LE(0, child);
		if (!child) {
			struct vm vm;

			vm_make(&vm, false);
			for (j = 0; j < 8; j++)
				if (ring_ioctl(vm.fd, variant->bus, variant->address + 4 * j, 4, self->ring, ENTRIES, j,
					       self->fds[0]))
					_exit(1);
			for (j = 0;; j++) {
				vm_call(&vm, self->write, variant->address + j % 8 * 4, j);
				if (j % 3)
					take(self->ring, ENTRIES);
			}
		}
		while (!vm_count(self->fds[0]) && !waitpid(child, &status, WNOHANG))
			usleep(1000);
		usleep(1000 * i);
		kill(child, SIGKILL);
		ASSERT_EQ(child, waitpid(child, &status, 0));
		EXPECT_TRUE(WIFSIGNALED(status));
	}
	EXPECT_EQ(module, references());
	EXPECT_GT(pins + KILLS / 2, pinned_by_all());
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
		race->exits += vm_call(race->vm, race->write, race->at, race->writes);
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

TEST_F(ring, nothing_is_queued_after_deassign)
{
	struct race race = { .vm = &self->vm, .write = self->write, .at = variant->address };
	uint64_t taken = 0, signals = 0, next = 0;
	struct ring *ring = vm_map(-1, PAGE);
	bool is_running = true;
	struct entry entry;
	pthread_t thread;
	int i;

	ASSERT_EQ(0, pthread_create(&thread, NULL, write_all_the_time, &race));
	for (i = 0; is_running && i < RACE_REMOVALS; i++) {
		uint32_t tail, mixed = i % 2 ? MIXED : 0;

		/* A value that the guest does not write, so that every other time the group stays. */
		if (mixed)
			ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, variant->bus | MIXED | DATAMATCH, variant->address, 4, -1u,
						  self->fds[1]));
		ASSERT_EQ(0, ring_ioctl(self->vm.fd, variant->bus | mixed, variant->address, 4, ring, RACE_ENTRIES, 0,
					self->fds[0]));
		is_running = wait_for_writes(&race);
		ASSERT_EQ(0, REMOVE(self->fds[0]));
		tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
		signals += vm_count(self->fds[0]);
		is_running = is_running && wait_for_writes(&race);
		EXPECT_EQ(tail, __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE));
		EXPECT_EQ(0, vm_count(self->fds[0]));
		while (entry = take(ring, RACE_ENTRIES), entry.length) {
			EXPECT_LE(next, entry.value);
			next = entry.value + 1;
			taken++;
		}
		EXPECT_EQ(taken, signals);
		if (mixed)
			ASSERT_EQ(0, vm_ioeventfd(self->vm.fd, variant->bus | DEASSIGN | DATAMATCH, variant->address, 4, -1u,
						  self->fds[1]));
	}
	EXPECT_LT(1, i);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_LT(0, taken);
	EXPECT_LT(0, race.exits);
	EXPECT_EQ(RACE_WRITES, taken + race.exits);
}

TEST(string_that_does_not_fit_exits_for_each_byte_that_is_left)
{
	struct ring *ring = vm_map(-1, PAGE);
	int fd = vm_eventfd(), i;
	struct vm vm;

	vm_make(&vm, false);
	ASSERT_EQ(0, ring_ioctl(vm.fd, PIO, 0x500, 1, ring, ENTRIES, 0, fd));
	for (i = 0; i < 7; i++)
		vm.mailbox->bytes[i] = 20 + i;
	EXPECT_EQ(7 - ENTRIES, vm_call(&vm, vm_outs, 0x500, 7));
	EXPECT_EQ(20 + ENTRIES, vm.exit.data);
	EXPECT_EQ(ENTRIES, vm_count(fd));
	for (i = 0; i < ENTRIES; i++)
		EXPECT_EQ(20 + i, take(ring, ENTRIES).value);
	vm_free(&vm);
}

/* Two vCPUs that write to both of two doorbells of one ring, and who reads it. */
struct order {
	struct ring *ring;
	int fd;
	/* A vCPU whose write exits reads the ring first. */
	pthread_mutex_t reading;
	/* What each vCPU writes next. */
	uint32_t next[2];
	uint64_t queued, exits, wrong;
	bool is_done;
};

struct writer {
	struct order *order;
	struct vm vm;
	uint32_t number;
};

/* The values are the vCPU's number and its count of writes, whose last bit is the doorbell. */
static void check(struct order *order, struct entry entry)
{
	uint32_t vcpu = entry.value >> 24, count = entry.value & 0xffffff;

	if (vcpu > 1 || entry.length != 4 || entry.tag != count % 2 || count != order->next[vcpu]++)
		order->wrong++;
}

static void read_ring(struct order *order)
{
	struct entry entry;

	while (entry = take(order->ring, VCPU_ENTRIES), entry.length) {
		check(order, entry);
		order->queued++;
	}
}

static void *write_in_order(void *argument)
{
	struct writer *writer = argument;
	struct order *order = writer->order;
	struct vm *vm = &writer->vm;
	struct kvm_regs regs = {
		.rip = vm_routine(vm_alternate),
		.rax = writer->number << 24,
		.rdx = 0x500,
		.rcx = VCPU_WRITES,
		.rflags = 2,
	};

	VM_IOCTL(vm->vcpu, KVM_SET_REGS, &regs);
	while (vm->exits = 0, !vm_enter(vm)) {
		struct entry entry = {
			.value = vm->exit.data,
			.tag = (vm->exit.address - 0x500) / 4,
			.length = vm->exit.length,
		};

		pthread_mutex_lock(&order->reading);
		read_ring(order);
		check(order, entry);
		order->exits++;
		pthread_mutex_unlock(&order->reading);
	}
	return NULL;
}

static void *read_when_signalled(void *argument)
{
	struct order *order = argument;
	unsigned int reads = 0;
	uint64_t count;

	while (!__atomic_load_n(&order->is_done, __ATOMIC_ACQUIRE) && read(order->fd, &count, sizeof(count)) > 0) {
		pthread_mutex_lock(&order->reading);
		read_ring(order);
		pthread_mutex_unlock(&order->reading);
		/* So that the ring is full now and then. */
		if (reads++ % 4 == 0)
			usleep(300);
	}
	return NULL;
}

TEST(values_of_two_vcpus_are_neither_lost_nor_reordered)
{
	struct order order = {
		.ring = vm_map(-1, PAGE),
		.fd = eventfd(0, EFD_CLOEXEC),
		.reading = PTHREAD_MUTEX_INITIALIZER,
	};
	struct writer writers[2];
	pthread_t threads[3];
	uint32_t i;

	for (i = 0; i < 2; i++)
		writers[i] = (struct writer) { .order = &order, .number = i };
	vm_make(&writers[0].vm, false);
	writers[1].vm = writers[0].vm;
	writers[1].vm.vcpu = VM_IOCTL(writers[0].vm.fd, KVM_CREATE_VCPU, 1);
	writers[1].vm.run = vm_map(writers[1].vm.vcpu, writers[1].vm.run_size);
	vm_set_registers(&writers[1].vm);
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, ring_ioctl(writers[0].vm.fd, PIO, 0x500 + 4 * i, 4, order.ring, VCPU_ENTRIES, i, order.fd));

	ASSERT_EQ(0, pthread_create(&threads[2], NULL, read_when_signalled, &order));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, write_in_order, &writers[i]));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	__atomic_store_n(&order.is_done, true, __ATOMIC_RELEASE);
	vm_signal(order.fd, 1);
	ASSERT_EQ(0, pthread_join(threads[2], NULL));
	read_ring(&order);

	EXPECT_EQ(0, order.wrong);
	EXPECT_EQ(VCPU_WRITES, order.next[0]);
	EXPECT_EQ(VCPU_WRITES, order.next[1]);
	EXPECT_LT(VCPU_ENTRIES, order.queued);
	EXPECT_LT(0, order.exits);
	EXPECT_EQ(2 * VCPU_WRITES, order.queued + order.exits);
}

TEST_HARNESS_MAIN
