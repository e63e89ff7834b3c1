// SPDX-License-Identifier: GPL-2.0-only
/*
 * KVM_IRQFD with KVM_IRQFD_FLAG_RESAMPLE: a level-triggered line that a signal raises and an EOI lowers, and whose device hears of
 * the EOI.
 */
#include <poll.h>
#include <pthread.h>
#include <time.h>

#include "vm.h"

/* A pin of the I/O APIC that is not one of the PIC, too, and another one. */
#define GSI		20
#define OTHER_GSI	21
/* Interrupts of a run of them. */
#define ROUNDS		200
/* After this time an event that KVM works on in another thread has not come. */
#define SECONDS		20

#define APIC_EOI	0xfee000b0
#define APIC_SPIV	0xfee000f0
#define IOAPIC_SELECT	0xfec00000
#define IOAPIC_WINDOW	0xfec00010
#define PIN_REGISTER	(0x10 + 2 * GSI)
#define PIN_LEVEL	(1 << 15)
#define PIN_MASKED	(1 << 16)

#define DEASSIGN	KVM_IRQFD_FLAG_DEASSIGN
#define RESAMPLE	KVM_IRQFD_FLAG_RESAMPLE
#define UNKNOWN_FLAG	(1 << 20)

FIXTURE(irqfd) {
	struct vm vm;
	int fd, resample, other, other_resample, null;
};

/* The error number of KVM_IRQFD; 0 if it succeeded. */
static int irqfd(struct vm *vm, uint32_t flags, uint32_t gsi, int fd, int resample)
{
	struct kvm_irqfd argument = {
		.fd = fd,
		.gsi = gsi,
		.flags = flags,
		.resamplefd = resample,
	};

	return ioctl(vm->fd, KVM_IRQFD, &argument) < 0 ? errno : 0;
}

static void set_pin(struct vm *vm, uint32_t bits)
{
	vm_call(vm, vm_store4, IOAPIC_SELECT, PIN_REGISTER + 1);
	vm_call(vm, vm_store4, IOAPIC_WINDOW, 0);
	vm_call(vm, vm_store4, IOAPIC_SELECT, PIN_REGISTER);
	vm_call(vm, vm_store4, IOAPIC_WINDOW, VM_VECTOR | bits);
}

static bool is_high(struct vm *vm)
{
	struct kvm_irqchip chip = { .chip_id = KVM_IRQCHIP_IOAPIC };

	VM_IOCTL(vm->fd, KVM_GET_IRQCHIP, &chip);
	return chip.chip.ioapic.irr & 1 << GSI;
}

/* A signal raises the line in another thread of the kernel. */
static bool wait_for_line(struct vm *vm, bool high)
{
	time_t end = time(NULL) + SECONDS;

	while (is_high(vm) != high) {
		if (time(NULL) > end)
			return false;
		usleep(100);
	}
	return true;
}

static bool wait_for_signal(int fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return poll(&poll_fd, 1, SECONDS * 1000) == 1;
}

/* Lets the guest take what is pending, and returns how many interrupts that are. */
static uint64_t take(struct vm *vm)
{
	uint64_t before = vm->mailbox->interrupts;

	vm_call(vm, vm_interrupts, 0, 0);
	return vm->mailbox->interrupts - before;
}

static void end_interrupt(struct vm *vm)
{
	vm_call(vm, vm_store4, APIC_EOI, 0);
}

/* The local APIC keeps an interrupt whose line is lowered later; returns whether that is all. */
static bool ends_after_one(struct vm *vm)
{
	if (take(vm) != 1)
		return false;
	end_interrupt(vm);
	return !take(vm) && !is_high(vm);
}

FIXTURE_SETUP(irqfd)
{
	vm_make(&self->vm, true);
	self->fd = vm_eventfd();
	self->resample = vm_eventfd();
	self->other = vm_eventfd();
	self->other_resample = vm_eventfd();
	self->null = open("/dev/null", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, self->null);
	ASSERT_EQ(0, vm_call(&self->vm, vm_store4, APIC_SPIV, 0x1ff));
	set_pin(&self->vm, PIN_LEVEL);
	ASSERT_EQ(0, self->vm.exits);
}

FIXTURE_TEARDOWN(irqfd)
{
	vm_free(&self->vm);
	close(self->fd);
	close(self->resample);
	close(self->other);
	close(self->other_resample);
	close(self->null);
}

TEST_F(irqfd, signal_raises_the_line_until_the_eoi)
{
	struct vm *vm = &self->vm;

	ASSERT_EQ(0, irqfd(vm, RESAMPLE, GSI, self->fd, self->resample));
	EXPECT_FALSE(is_high(vm));
	EXPECT_EQ(0, take(vm));
	vm_signal(self->fd, 1);
	ASSERT_TRUE(wait_for_line(vm, true));
	EXPECT_EQ(0, vm_count(self->fd));
	EXPECT_EQ(1, take(vm));
	EXPECT_EQ(0, take(vm));
	EXPECT_TRUE(is_high(vm));
	EXPECT_EQ(0, vm_count(self->resample));

	end_interrupt(vm);
	EXPECT_FALSE(is_high(vm));
	EXPECT_EQ(1, vm_count(self->resample));
	EXPECT_EQ(0, take(vm));
	EXPECT_EQ(0, vm_count(self->resample));
}

TEST_F(irqfd, device_that_is_still_pending_interrupts_again)
{
	struct vm *vm = &self->vm;
	int i;

	ASSERT_EQ(0, irqfd(vm, RESAMPLE, GSI, self->fd, self->resample));
	for (i = 0; i < ROUNDS; i++) {
		vm_signal(self->fd, 1);
		ASSERT_TRUE(wait_for_line(vm, true));
		ASSERT_EQ(1, take(vm));
		end_interrupt(vm);
		ASSERT_EQ(1, vm_count(self->resample));
		ASSERT_FALSE(is_high(vm));
	}
	EXPECT_EQ(0, take(vm));
}

TEST_F(irqfd, signals_before_the_eoi_are_one_interrupt)
{
	struct vm *vm = &self->vm;

	ASSERT_EQ(0, irqfd(vm, RESAMPLE, GSI, self->fd, self->resample));
	vm_signal(self->fd, 3);
	ASSERT_TRUE(wait_for_line(vm, true));
	EXPECT_EQ(1, take(vm));
	end_interrupt(vm);
	EXPECT_EQ(1, vm_count(self->resample));
	EXPECT_FALSE(is_high(vm));
	EXPECT_EQ(0, take(vm));
}

TEST_F(irqfd, irqfds_of_a_gsi_share_its_line)
{
	struct vm *vm = &self->vm;

	ASSERT_EQ(0, irqfd(vm, RESAMPLE, GSI, self->fd, self->resample));
	ASSERT_EQ(0, irqfd(vm, RESAMPLE, GSI, self->other, self->other_resample));
	/* The EOI lowers the line and notifies all of them, even those that did not raise it. */
	vm_signal(self->other, 1);
	ASSERT_TRUE(wait_for_line(vm, true));
	EXPECT_EQ(1, take(vm));
	end_interrupt(vm);
	EXPECT_FALSE(is_high(vm));
	EXPECT_EQ(1, vm_count(self->resample));
	EXPECT_EQ(1, vm_count(self->other_resample));
	EXPECT_EQ(0, take(vm));

	/* The line stays up without the one that has raised it, but not without all. */
	vm_signal(self->fd, 1);
	ASSERT_TRUE(wait_for_line(vm, true));
	ASSERT_EQ(0, irqfd(vm, DEASSIGN, GSI, self->fd, -1));
	EXPECT_TRUE(is_high(vm));
	ASSERT_EQ(0, irqfd(vm, DEASSIGN, GSI, self->other, -1));
	EXPECT_FALSE(is_high(vm));
	EXPECT_TRUE(ends_after_one(vm));
	EXPECT_EQ(0, vm_count(self->resample) + vm_count(self->other_resample));
}

TEST_F(irqfd, one_resamplefd_serves_several_irqfds)
{
	struct vm *vm = &self->vm;

	ASSERT_EQ(0, irqfd(vm, RESAMPLE, GSI, self->fd, self->resample));
	ASSERT_EQ(0, irqfd(vm, RESAMPLE, GSI, self->other, self->resample));
	vm_signal(self->fd, 1);
	ASSERT_TRUE(wait_for_line(vm, true));
	EXPECT_EQ(1, take(vm));
	end_interrupt(vm);
	EXPECT_EQ(2, vm_count(self->resample));
}

TEST_F(irqfd, line_that_another_source_holds_interrupts_again)
{
	struct kvm_irq_level level = { .irq = GSI, .level = 1 };
	struct vm *vm = &self->vm;

	ASSERT_EQ(0, irqfd(vm, RESAMPLE, GSI, self->fd, self->resample));
	vm_signal(self->fd, 1);
	ASSERT_TRUE(wait_for_line(vm, true));
	VM_IOCTL(vm->fd, KVM_IRQ_LINE, &level);
	EXPECT_EQ(1, take(vm));
	end_interrupt(vm);
	EXPECT_TRUE(is_high(vm));
	EXPECT_EQ(1, vm_count(self->resample));
	EXPECT_EQ(1, take(vm));
	level.level = 0;
	VM_IOCTL(vm->fd, KVM_IRQ_LINE, &level);
	EXPECT_FALSE(is_high(vm));
	end_interrupt(vm);
	EXPECT_EQ(1, vm_count(self->resample));
	EXPECT_EQ(0, take(vm));
}

TEST_F(irqfd, deassign_lowers_the_line_and_ends_its_signals)
{
	struct vm *vm = &self->vm;

	ASSERT_EQ(0, irqfd(vm, RESAMPLE, GSI, self->fd, self->resample));
	vm_signal(self->fd, 1);
	ASSERT_TRUE(wait_for_line(vm, true));
	ASSERT_EQ(0, irqfd(vm, DEASSIGN, GSI, self->fd, -1));
	EXPECT_FALSE(is_high(vm));
	EXPECT_TRUE(ends_after_one(vm));

	/* Nothing reads the eventfd any more. */
	vm_signal(self->fd, 1);
	usleep(10000);
	EXPECT_FALSE(is_high(vm));
	EXPECT_EQ(1, vm_count(self->fd));
	EXPECT_EQ(0, vm_count(self->resample));

	ASSERT_EQ(0, irqfd(vm, RESAMPLE, GSI, self->fd, self->resample));
	vm_signal(self->fd, 1);
	ASSERT_TRUE(wait_for_line(vm, true));
	EXPECT_EQ(1, take(vm));
	end_interrupt(vm);
	EXPECT_EQ(1, vm_count(self->resample));
}

TEST_F(irqfd, deassign_between_interrupt_and_eoi_leaves_no_line)
{
	struct vm *vm = &self->vm;

	ASSERT_EQ(0, irqfd(vm, RESAMPLE, GSI, self->fd, self->resample));
	vm_signal(self->fd, 1);
	ASSERT_TRUE(wait_for_line(vm, true));
	EXPECT_EQ(1, take(vm));
	ASSERT_EQ(0, irqfd(vm, DEASSIGN, GSI, self->fd, -1));
	end_interrupt(vm);
	EXPECT_FALSE(is_high(vm));
	EXPECT_EQ(0, vm_count(self->resample));
	EXPECT_EQ(0, take(vm));
}

TEST_F(irqfd, deassign_of_another_eventfd_or_gsi_changes_nothing)
{
	struct vm *vm = &self->vm;

	ASSERT_EQ(0, irqfd(vm, RESAMPLE, GSI, self->fd, self->resample));
	/* It succeeds, unlike that of an ioeventfd. */
	EXPECT_EQ(0, irqfd(vm, DEASSIGN, GSI, self->other, -1));
	EXPECT_EQ(0, irqfd(vm, DEASSIGN, OTHER_GSI, self->fd, -1));
	vm_signal(self->fd, 1);
	ASSERT_TRUE(wait_for_line(vm, true));
	EXPECT_EQ(1, take(vm));
}

TEST_F(irqfd, signal_from_before_the_assignment_counts)
{
	struct vm *vm = &self->vm;

	vm_signal(self->fd, 1);
	ASSERT_EQ(0, irqfd(vm, RESAMPLE, GSI, self->fd, self->resample));
	ASSERT_TRUE(wait_for_line(vm, true));
	EXPECT_EQ(1, take(vm));
	end_interrupt(vm);
	EXPECT_EQ(1, vm_count(self->resample));
	EXPECT_FALSE(is_high(vm));
}

TEST_F(irqfd, close_of_the_eventfd_ends_its_irqfd)
{
	struct vm *vm = &self->vm;

	ASSERT_EQ(0, irqfd(vm, RESAMPLE, GSI, self->fd, self->resample));
	vm_signal(self->fd, 1);
	ASSERT_TRUE(wait_for_line(vm, true));
	close(self->fd);
	EXPECT_TRUE(wait_for_line(vm, false));
	EXPECT_TRUE(ends_after_one(vm));
	self->fd = vm_eventfd();
	EXPECT_EQ(0, irqfd(vm, RESAMPLE, GSI, self->fd, self->resample));
}

/* Since 6.4 the device hears of a line that is pending when its pin is unmasked, instead of an interrupt; either loses nothing. */
TEST_F(irqfd, line_that_was_raised_under_a_mask_is_not_lost)
{
	struct vm *vm = &self->vm;

	set_pin(vm, PIN_LEVEL | PIN_MASKED);
	ASSERT_EQ(0, irqfd(vm, RESAMPLE, GSI, self->fd, self->resample));
	vm_signal(self->fd, 1);
	ASSERT_TRUE(wait_for_line(vm, true));
	EXPECT_EQ(0, take(vm));
	set_pin(vm, PIN_LEVEL);
	if (!take(vm)) {
		ASSERT_TRUE(wait_for_signal(self->resample));
		EXPECT_EQ(1, vm_count(self->resample));
		vm_signal(self->fd, 1);
		ASSERT_TRUE(wait_for_line(vm, true));
		EXPECT_EQ(1, take(vm));
	}
	end_interrupt(vm);
	EXPECT_EQ(1, vm_count(self->resample));
	EXPECT_FALSE(is_high(vm));
}

TEST_F(irqfd, wrong_arguments_are_refused)
{
	struct vm *vm = &self->vm;

	EXPECT_EQ(EINVAL, irqfd(vm, RESAMPLE | UNKNOWN_FLAG, GSI, self->fd, self->resample));
	EXPECT_EQ(EBADF, irqfd(vm, RESAMPLE, GSI, -1, self->resample));
	EXPECT_EQ(EINVAL, irqfd(vm, RESAMPLE, GSI, self->null, self->resample));
	EXPECT_EQ(EBADF, irqfd(vm, RESAMPLE, GSI, self->fd, -1));
	EXPECT_EQ(EINVAL, irqfd(vm, RESAMPLE, GSI, self->fd, self->null));
	/* What was refused is not assigned. */
	ASSERT_EQ(0, irqfd(vm, RESAMPLE, GSI, self->fd, self->resample));
	EXPECT_EQ(EBUSY, irqfd(vm, RESAMPLE, GSI, self->fd, self->resample));
	EXPECT_EQ(EBUSY, irqfd(vm, RESAMPLE, OTHER_GSI, self->fd, self->other_resample));
	EXPECT_EQ(EBUSY, irqfd(vm, 0, OTHER_GSI, self->fd, -1));
	EXPECT_EQ(EBADF, irqfd(vm, DEASSIGN, GSI, -1, -1));
	EXPECT_EQ(EINVAL, irqfd(vm, DEASSIGN, GSI, self->null, -1));
}

struct device {
	int fd, resample, failed;
};

/* A device with ROUNDS reasons to interrupt: it signals the next when it hears of the last one's end. */
static void *run_device(void *argument)
{
	struct device *device = argument;
	int i;

	for (i = 0; i < ROUNDS && !device->failed; i++) {
		vm_signal(device->fd, 1);
		device->failed = !wait_for_signal(device->resample) || vm_count(device->resample) != 1;
	}
	return NULL;
}

TEST_F(irqfd, no_interrupt_is_lost_between_two_threads)
{
	struct device device = { .fd = self->fd, .resample = self->resample };
	struct vm *vm = &self->vm;
	uint64_t taken = 0;
	time_t end = time(NULL) + SECONDS;
	pthread_t thread;

	ASSERT_EQ(0, irqfd(vm, RESAMPLE, GSI, self->fd, self->resample));
	ASSERT_EQ(0, pthread_create(&thread, NULL, run_device, &device));
	while (taken < ROUNDS && time(NULL) <= end) {
		if (take(vm)) {
			taken++;
			end_interrupt(vm);
		}
	}
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(ROUNDS, taken);
	EXPECT_FALSE(device.failed);
	EXPECT_EQ(0, take(vm));
}

TEST(resample_needs_the_ioapic_in_the_kernel)
{
	int fd = vm_eventfd(), resample = vm_eventfd(), kvm, plain, split;
	struct kvm_enable_cap cap = { .cap = KVM_CAP_SPLIT_IRQCHIP, .args = { 24 } };
	struct vm vm = { .fd = -1 };

	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, kvm);
	plain = vm.fd = VM_IOCTL(kvm, KVM_CREATE_VM, 0);
	EXPECT_EQ(EINVAL, irqfd(&vm, 0, GSI, fd, -1));
	EXPECT_EQ(EINVAL, irqfd(&vm, RESAMPLE, GSI, fd, resample));

	split = vm.fd = VM_IOCTL(kvm, KVM_CREATE_VM, 0);
	VM_IOCTL(vm.fd, KVM_ENABLE_CAP, &cap);
	EXPECT_EQ(EINVAL, irqfd(&vm, RESAMPLE, GSI, fd, resample));
	EXPECT_EQ(0, irqfd(&vm, 0, GSI, fd, -1));
	close(split);
	close(plain);
	close(kvm);
}

TEST_HARNESS_MAIN
